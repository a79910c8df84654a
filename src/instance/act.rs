//! Carries the one step out, and never leaves without an outcome.

mod attempt;
mod receipt;
mod release;

use crate::api::conditions::Reason;
use crate::api::{Operation, PurchaseRecord, Verb};
use crate::cloud::{CallPriority, CreateAccepted, CreateRequest, Error, Permit, ServerId, TaskId};
use crate::instance::context::Context;
use crate::instance::fact::Fact;
use crate::instance::login::LoginFact;
use crate::instance::memory::kinds::{Auxiliary, CallState};
use crate::instance::memory::{Memory, open};
use crate::instance::observation::Observation;
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::{NoRoom, Plan, Request, Step};
use crate::instance::record::Announced;
use crate::instance::resolved_references::Meaning;
use crate::instance::{managed_secrets, plan, references, times};
use crate::session::{Access, AccountSession};
use attempt::{Attempt, room};
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

/// Waits for the service's request limit before an intent is recorded: nothing may stand between record and call. Who has to
/// stand in line for it does so outside of a reconcile: then the plan is to wait.
pub async fn admit(
    observed: &Observation,
    plan: &mut Plan,
    access: Option<&Access>,
) -> Option<Permit> {
    match permit_for(observed, plan, access).await {
        Ok(permit) => permit,
        Err(no_room) => {
            *plan = plan::in_line(observed, plan, no_room); // the request limit is busy with others
            None
        }
    }
}

async fn permit_for(
    observed: &Observation,
    plan: &Plan,
    session: Option<&Access>,
) -> Result<Option<Permit>, NoRoom> {
    let calls = match &plan.step {
        Step::Buy { .. } | Step::Operate { .. } | Step::Auxiliary { .. } | Step::Release { .. } => {
            true
        }
        Step::Rest | Step::Record { .. } | Step::Secret(_) | Step::Finish | Step::LetGo { .. } => {
            false
        }
    };
    let Some(session) = session.filter(|_| calls || plan.needs.is_for_a_call()) else {
        return Ok(None);
    };
    let priority = match &plan.step {
        Step::Buy { .. } => CallPriority::Purchase,
        Step::Operate { .. } | Step::Auxiliary { .. } | Step::Release { .. } => {
            CallPriority::Urgent
        }
        Step::Rest | Step::Record { .. } | Step::Secret(_) | Step::Finish | Step::LetGo { .. } => {
            observed.facts.call_priority()
        }
    };
    if !session.may_call(priority) {
        return Err(NoRoom::InLine);
    }
    match &plan.step {
        Step::Buy { .. } | Step::Operate { .. } => room(session, priority).await.map(Some),
        _ => Ok(None),
    }
}

/// Carries out what was recorded. At most one mutating call to the service, but for the release of a server whose object is gone by
/// its receipt.
pub async fn act(
    context: &Context,
    observed: &mut Observation,
    announced: Announced,
    permit: Option<Permit>,
    session: Option<&AccountSession>,
    memory: &Mutex<Memory>,
    reconcile_ends: Instant,
) -> Outcome {
    let attempt = Attempt {
        context,
        observed,
        facts: &observed.facts,
        account: &observed.account_key,
        memory,
        reconcile_ends,
    };
    let (outcome, operation) = attempt.carry_out(announced, permit, session).await;
    if let (Some(operation), Outcome::Accepted { recorded: true, .. }) = (operation, &outcome) {
        let mut status = observed.facts.status.as_ref().clone();
        status.operation = Some(*operation);
        observed.facts.status = Arc::new(status);
    }
    outcome
}

impl Attempt<'_> {
    /// The one step, and the operation as it stands in status after its call.
    async fn carry_out(
        &self,
        announced: Announced,
        permit: Option<Permit>,
        session: Option<&AccountSession>,
    ) -> (Outcome, Option<Box<Operation>>) {
        let Announced { step, text } = announced;
        let outcome = match (step, permit, session) {
            (Step::Rest, ..) => Outcome::Rested,
            (Step::Record { .. }, ..) => Outcome::Written,
            (Step::Secret(step), ..) => {
                managed_secrets::write(self.context, self.observed, &step, self.memory).await
            }
            (Step::Finish, _, session) => self.finish(session).await,
            (Step::LetGo { event }, ..) => self.let_go(event).await,
            (
                Step::Buy {
                    record, request, ..
                },
                Some(permit),
                Some(session),
            ) => self.buy(*record, &text, &request, permit, session).await,
            (
                Step::Operate {
                    mut operation,
                    request,
                    ..
                },
                Some(permit),
                Some(session),
            ) => {
                let outcome = self
                    .operate(&mut operation, &request, permit, session)
                    .await;
                return (outcome, Some(operation));
            }
            (Step::Auxiliary { request }, _, Some(session)) => {
                self.auxiliary(&request, session).await
            }
            (Step::Release { id, why }, _, Some(session)) => self.release(session, id, why).await,
            (
                Step::Buy { .. }
                | Step::Operate { .. }
                | Step::Auxiliary { .. }
                | Step::Release { .. },
                _,
                _,
            ) => Outcome::not_done("no request was admitted"),
        };
        (outcome, None)
    }
}

impl Attempt<'_> {
    /// Right before a call: whether this turn may still make it.
    fn has_time(&self) -> Result<(), Outcome> {
        let late = || Outcome::not_done("the reconcile has no time left for a call");
        self.context
            .term
            .allows(self.reconcile_ends, times::CALL_AND_RECEIPT)
            .then_some(())
            .ok_or_else(late)
    }

    /// Right before a call of an announced attempt. From here on, until an answer says otherwise, it may have happened: also
    /// when this turn is cut short.
    fn begins_call(&self, number: u32, verb: Verb) -> Result<(), Outcome> {
        self.has_time()?;
        let digest = match &self.observed.login {
            LoginFact::Ready(credentials) => credentials.digest,
            LoginFact::NotAsked
            | LoginFact::Missing
            | LoginFact::Unowned(_)
            | LoginFact::Problem(_)
            | LoginFact::Unread(_) => None,
        };
        open(self.memory).calls(verb, digest);
        self.set_call_state(number, CallState::Unknown);
        Ok(())
    }

    fn was_accepted(&self, number: u32, id: &ServerId, task: Option<&TaskId>) {
        let call_state = CallState::Accepted {
            id: id.clone(),
            task: task.cloned(),
        };
        self.set_call_state(number, call_state);
        open(self.memory).may_have_password();
    }

    /// The call was not accepted: refused, or without an answer.
    fn was_not_accepted(&self, number: u32, verb: Verb, error: &Error) -> Outcome {
        if !error.may_have_happened() {
            return self.refused(number, verb, error);
        }
        self.set_call_state(number, CallState::Unknown);
        let mut memory = open(self.memory);
        if let Some(attempt) = memory.calls.attempts.get_mut(&number) {
            attempt.doubt = Some(error.to_string().into());
        }
        memory.may_have_password();
        // Whatever shows right after the call is evidence.
        memory.observations.observed_at = None;
        Outcome::Unknown(error.to_string())
    }

    /// The one POST of an attempt to buy a server, and its receipt.
    async fn buy(
        &self,
        record: PurchaseRecord,
        text: &str,
        request: &CreateRequest,
        permit: Permit,
        session: &AccountSession,
    ) -> Outcome {
        let (number, verb) = (record.attempt, Verb::Create);
        if let Err(late) = self.begins_call(number, verb) {
            return late;
        }
        match session.shared.client.create(permit, request).await {
            Ok(CreateAccepted { id, task }) => {
                self.was_accepted(number, &id, Some(&task));
                let receipt = PurchaseRecord {
                    id: Some(id.to_string()),
                    task: Some(task.to_string()),
                    ..record
                };
                let recorded = self.give_receipt(text, &receipt, session, &id).await;
                Outcome::Accepted {
                    verb,
                    id,
                    task: Some(task),
                    recorded,
                }
            }
            Err(error) => {
                let outcome = self.was_not_accepted(number, verb, &error);
                if let Outcome::Refused {
                    message, reason, ..
                } = &outcome
                    && reason.is_lasting_refusal()
                {
                    self.close(text, &record, *reason, message).await;
                }
                outcome
            }
        }
    }

    /// The one call of an announced operation, and its receipt.
    async fn operate(
        &self,
        operation: &mut Operation,
        request: &Request,
        permit: Permit,
        session: &AccountSession,
    ) -> Outcome {
        let (number, verb) = (
            u32::try_from(operation.attempt).unwrap_or_default(),
            operation.verb,
        );
        if let Err(late) = self.begins_call(number, verb) {
            return late;
        }
        match send(session, permit, request).await {
            Ok(task) => {
                let id = self.facts.id().unwrap_or_else(|| ServerId::from(""));
                self.was_accepted(number, &id, task.as_ref());
                operation.accepted = true;
                operation.task_id = task.as_ref().map(ToString::to_string);
                let recorded = self.give_operation_receipt(operation).await;
                Outcome::Accepted {
                    verb,
                    id,
                    task,
                    recorded,
                }
            }
            Err(error) => self.was_not_accepted(number, verb, &error),
        }
    }

    /// Nothing was done, and this process knows it.
    fn refused(&self, number: u32, verb: Verb, error: &Error) -> Outcome {
        let is_stopped = match &self.observed.detail {
            Fact::Known(detail) => detail.status() == Some("STOPPED"),
            Fact::NotAsked | Fact::Absent | Fact::Unknown(_) => false,
        };
        let reason = match reason_of(error, verb) {
            // It is stopped: that is not what stands in the way.
            Reason::Stopping if is_stopped && error.is_conflict() => Reason::ServiceBusy,
            Reason::Stopping if is_stopped => Reason::OperationRefused,
            reason => reason,
        };
        let mut message = error.to_string();
        match reason {
            Reason::TokenRefused => {
                message = format!(
                    "Account {}: {message}: put a valid token into the Secret that it names",
                    self.account.name
                );
                (self.context.doubt_account)(self.account);
            }
            Reason::AccountNotNormal => {
                message = format!(
                    "Account {}: {message}: settle the account's status at the service; it is tried again by itself",
                    self.account.name
                );
            }
            Reason::CreateRefused | Reason::OperationRefused => {
                message = format!("{message}: {}", remedy(error, self.observed));
            }
            _ => {}
        }
        let call_state = CallState::Refused {
            message: message.clone(),
            reason,
        };
        self.set_call_state(number, call_state);
        // The server may be in another state than it seemed to be.
        open(self.memory).observations.observed_at = None;
        Outcome::Refused {
            message,
            reason,
            after: error.retry_after(),
        }
    }

    /// A call within an attempt: harmless, and made again until it shows.
    async fn auxiliary(&self, request: &Request, session: &AccountSession) -> Outcome {
        let Ok(permit) = room(session, CallPriority::Urgent).await else {
            return Outcome::not_done("the request limit left no room for a call");
        };
        if let Err(late) = self.has_time() {
            return late;
        }
        let answer = send(session, permit, request).await;
        let power_cut = matches!(request, Request::Stop { force: true, .. });
        let may_have_happened = answer.as_ref().err().is_none_or(Error::may_have_happened);
        let refusal = answer.as_ref().err();
        let is_refused = refusal.is_some_and(|error| error.is_conflict() || !error.is_retryable());
        let trouble = answer.err().map(|error| error.to_string());
        let verb = match request {
            Request::Stop { .. } => Verb::Stop,
            _ => Verb::Start,
        };
        let mut memory = open(self.memory);
        let open_now = self.observed.open();
        let attempt = open_now.as_ref().map(|open| open.attempt);
        // One that was not taken before is told with the try that is.
        let last = memory.calls.auxiliary.as_deref();
        let was_taken = last.is_some_and(|last| last.verb == verb && last.trouble.is_none());
        let is_first = !was_taken || (power_cut && memory.calls.cut_for != attempt);
        if power_cut && may_have_happened {
            memory.calls.cut_for = attempt;
        }
        if verb == Verb::Stop && open_now.is_some_and(|open| open.verb == Verb::Reinstall) {
            memory.calls.stopped_for = attempt;
        }
        // What is refused once more is in the state that it was found in.
        let is_known = is_refused
            && memory
                .calls
                .auxiliary
                .as_ref()
                .is_some_and(|former| former.is_refused);
        let is_unknown = trouble.is_some() && may_have_happened;
        memory.calls.auxiliary = Some(Box::new(Auxiliary {
            verb,
            at: Instant::now(),
            trouble: trouble.clone(),
            is_unknown,
            is_refused,
        }));
        if !is_known {
            memory.observations.observed_at = None;
        }
        Outcome::Auxiliary {
            verb,
            power_cut,
            is_first,
            is_unknown,
            trouble,
        }
    }

    fn set_call_state(&self, attempt: u32, call_state: CallState) {
        if let Some(attempt) = open(self.memory).calls.attempts.get_mut(&attempt) {
            attempt.tries += u32::from(
                call_state == CallState::Unknown && attempt.call_state != CallState::Unknown,
            );
            attempt.call_state = call_state;
            attempt.since = Instant::now();
        }
    }
}

/// Asks the service for an operation. Gives the task where the answer names one.
async fn send(
    session: &AccountSession,
    permit: Permit,
    request: &Request,
) -> Result<Option<TaskId>, Error> {
    let client = &session.shared.client;
    Ok(match request {
        Request::Reinstall(request) => Some(client.reinstall(permit, request).await?),
        Request::ModifyPassword(request) => Some(client.modify_password(permit, request).await?),
        Request::Start(id) => client.start(permit, id).await?.task,
        Request::Stop { id, force } => client.stop(permit, id, *force).await?.task,
        Request::Restart(id) => client.restart(permit, id).await?.task,
    })
}

/// What to mend: the field of the spec that the service's code speaks of, and what stands there.
fn remedy(error: &Error, observed: &Observation) -> String {
    let code = error.code().unwrap_or_default().to_ascii_lowercase();
    let spec = &observed.facts.spec;
    let secret = observed.facts.login_secret();
    // A thing that was looked up is told with the field of its selector.
    let named = |meaning: Option<Meaning>, exact, selector| {
        let meaning = meaning?;
        let field = if meaning.pin.is_some() {
            selector
        } else {
            exact
        };
        Some((field, meaning.id))
    };
    let (image, package) = (references::image(observed), references::package(observed));
    let key = references::key(observed);
    let firewall = match &spec.firewall {
        None => Some(("spec.firewall", "it is left out".to_owned())),
        Some(_) => named(
            references::firewall(observed),
            "spec.firewall.id",
            "spec.firewall",
        ),
    };
    let fields = [
        ("image", named(image, "spec.image.id", "spec.image")),
        (
            "package",
            named(package, "spec.package.code", "spec.package"),
        ),
        ("firewall", firewall),
        (
            "sshkey",
            named(key, "spec.login.sshKey.id", "spec.login.sshKey"),
        ),
        (
            "password",
            secret.map(|secret| ("the password in Secret", secret.name)),
        ),
        ("zone", Some(("spec.zone", spec.zone.clone()))),
        ("region", Some(("spec.region", spec.region.clone()))),
    ];
    let spoken_of = fields
        .into_iter()
        .find_map(|(word, spoken_of)| spoken_of.filter(|_| code.contains(word)));
    match spoken_of {
        Some((field, value)) => format!("mend {field} ({value})"),
        None => {
            "mend the spec, or settle it at the service; it is tried again at once when the spec changes, and every few \
             minutes without that"
                .to_owned()
        }
    }
}

/// What a refusal means for the conditions: only a refusal of what was asked for is one that waiting cannot help.
fn reason_of(error: &Error, verb: Verb) -> Reason {
    if error.is_unauthorized() {
        Reason::TokenRefused
    } else if error.is_account_not_normal() {
        Reason::AccountNotNormal
    } else if error.is_rate_limited() {
        Reason::RateLimited
    } else if verb == Verb::Reinstall && error.wants_it_stopped() {
        Reason::Stopping
    } else if error.is_conflict() {
        Reason::ServiceBusy
    } else if error.is_retryable() {
        Reason::ServiceUnreachable
    } else if verb == Verb::Create {
        Reason::CreateRefused
    } else {
        Reason::OperationRefused
    }
}
