//! Carries out the plan's one step, and always returns an outcome.

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
use crate::instance::plan::step::{NoRoom, Plan, Read, Request, Step};
use crate::instance::record::Announced;
use crate::instance::resolved_references::Meaning;
use crate::instance::{managed_secrets, plan, references, times};
use crate::session::{Access, AccountSession};
use attempt::{Attempt, room};
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

/// Waits for the request limit before the intent is recorded, because nothing may delay the call after its intent. A reconcile
/// without a slot does not wait here: its plan is replaced by one that waits in line.
pub async fn admit(
    observed: &Observation,
    plan: &mut Plan,
    access: Option<&Access>,
) -> Option<Permit> {
    match permit_for(observed, plan, access).await {
        Ok(permit) => permit,
        Err(no_room) => {
            *plan = plan::in_line(observed, plan, no_room); // other objects use up the request limit
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
    let Some(session) =
        session.filter(|_| calls || plan.needs.as_ref().is_some_and(Read::is_for_a_call))
    else {
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

/// Carries out the recorded step. It makes at most one mutating call to the service, except that it also releases a new server
/// whose object was deleted before the receipt.
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
    /// Carries out the step. Returns the operation for status after its call as well.
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
    /// Checks right before a call whether this reconcile may still make it.
    fn has_time(&self) -> Result<(), Outcome> {
        let late = || Outcome::not_done("the reconcile has no time left for a call");
        self.context
            .term
            .allows(self.reconcile_ends, times::CALL_AND_RECEIPT)
            .then_some(())
            .ok_or_else(late)
    }

    /// Call right before the call of an announced attempt. From here on the outcome counts as unknown until an answer arrives,
    /// even if the reconcile is aborted.
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

    /// The service did not accept the call: it refused, or no answer arrived.
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
        // Read the server's state right after the call, since it may show the outcome.
        memory.observations.observed_at = None;
        Outcome::Unknown(error.to_string())
    }

    /// Makes the one create call of an attempt, and writes its receipt.
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

    /// Makes the one call of an announced operation, and writes its receipt.
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

    /// The call had no effect, and this process knows it.
    fn refused(&self, number: u32, verb: Verb, error: &Error) -> Outcome {
        let is_stopped = match &self.observed.detail {
            Fact::Known(detail) => detail.status() == Some("STOPPED"),
            Fact::NotAsked | Fact::Absent | Fact::Unknown(_) => false,
        };
        let reason = match reason_of(error, verb) {
            // The server is stopped already, so the refusal has another cause.
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
        // The refusal suggests that the server's state differs from the observed one: read it again.
        open(self.memory).observations.observed_at = None;
        Outcome::Refused {
            message,
            reason,
            after: error.retry_after(),
        }
    }

    /// An auxiliary call within an attempt. It is harmless, and repeated until its effect shows.
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
        // After failed tries, the try that is accepted counts as the first and is reported.
        let last = memory.calls.auxiliary.as_deref();
        let was_taken = last.is_some_and(|last| last.verb == verb && last.trouble.is_none());
        let is_first = !was_taken || (power_cut && memory.calls.cut_for != attempt);
        if power_cut && may_have_happened {
            memory.calls.cut_for = attempt;
        }
        if verb == Verb::Stop && open_now.is_some_and(|open| open.verb == Verb::Reinstall) {
            memory.calls.stopped_for = attempt;
        }
        // A repeated refusal shows no new state, so it does not need another read.
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

/// Requests an operation from the service. Returns the task if the answer names one.
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

/// The remedy: the field of the spec that the service's error code refers to, with its value.
fn remedy(error: &Error, observed: &Observation) -> String {
    let code = error.code().unwrap_or_default().to_ascii_lowercase();
    let spec = &observed.facts.spec;
    let secret = observed.facts.login_secret();
    // Name the field that the user wrote: the selector's, if the identifier was looked up.
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

/// The reason for a refusal. Only a refusal of the requested value itself is one that waiting cannot resolve.
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
