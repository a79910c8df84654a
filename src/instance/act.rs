//! Carries the one step out, and never leaves without an outcome.

mod receipt;
mod release;

use super::facts::Facts;
use super::login::LoginFact;
use super::memory::{Aside, Memory, Post, open};
use super::observe::{Fact, Observation};
use super::plan::{Plan, ReleaseReason, Request, Step};
use super::record::Recorded;
use super::{Context, references};
use crate::api::conditions::{Reason, Verdict};
use crate::api::{Binding, Verb};
use crate::cloud::{CreateAccepted, Error, Lane, Permit, ServerId, TaskId};
use crate::runtime::KubeError;
use crate::runtime::queue::ADMISSION;
use crate::runtime::watch::ObjectKey;
use crate::session::{Access, Seat};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// A mutating call and its receipt need this much of the turn: 60 s and 15 s.
const CALL: Duration = Duration::from_secs(75);

/// What became of the step.
#[derive(Debug)]
pub enum Outcome {
    /// There was nothing to do.
    Rested,
    /// The service took the call; the receipt may or may not be on record.
    Accepted {
        /// What was asked for.
        verb: Verb,
        /// The server.
        id: ServerId,
        /// Its task; some answers name none.
        task: Option<TaskId>,
        /// Whether the receipt stands where it belongs.
        recorded: bool,
    },
    /// The service took, or did not take, a call within an attempt.
    Aside {
        /// Start or Stop.
        verb: Verb,
        /// It cuts the server's power.
        power_cut: bool,
        /// No such call was made within this attempt before.
        is_first: bool,
        /// What stood in the way.
        trouble: Option<String>,
        /// It may have been carried out all the same.
        is_unknown: bool,
    },
    /// The service refused the call, or it never left: nothing was done.
    Refused {
        /// The service's words.
        message: String,
        /// What that means for the conditions.
        reason: Reason,
        /// How long the service wants us to wait.
        after: Option<Duration>,
    },
    /// The call may have happened.
    Unknown(String),
    /// The record was written.
    Written,
    /// The service took the release, or says that there is no such server, or did neither.
    Released {
        /// Which server.
        id: ServerId,
        /// Why.
        why: ReleaseReason,
        /// The service had not taken it before.
        is_first: bool,
        /// What stood in the way.
        trouble: Option<String>,
        /// It may have been carried out all the same.
        is_unknown: bool,
    },
    /// The finalizer is gone and with it the object.
    Finished,
    /// The object changed: look again.
    Stale,
    /// It did not come to the step. With what is to be said about it, if somebody has to do something.
    NotDone(String, Option<Verdict>),
}

/// Waits for the service's request limit before an intent is recorded: nothing may stand between record and call. Who has to
/// stand in line for it does so outside of a reconcile.
///
/// # Errors
/// It stands in line, or the limit left no room in good time.
pub async fn admit(plan: &Plan, seat: Option<&Access>) -> Result<Option<Permit>, NoRoom> {
    let calls = match &plan.step {
        Step::Call { .. } | Step::Aside { .. } | Step::Release { .. } => true,
        Step::Rest | Step::Record { .. } | Step::Secret(_) | Step::Finish | Step::LetGo { .. } => {
            false
        }
    };
    let Some(seat) = seat.filter(|_| calls || plan.needs.is_for_a_call()) else {
        return Ok(None);
    };
    if !seat.may_call(Lane::Urgent) {
        return Err(NoRoom::InLine);
    }
    match &plan.step {
        Step::Call { .. } => room(seat).await.map(Some),
        _ => Ok(None),
    }
}

/// The request limit is used up by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The Instance stands in line, and is woken when it may call.
    InLine,
    /// It had its turn to call, and did not come to it in good time: nobody wakes it.
    Late,
}

async fn room(seat: &Seat) -> Result<Permit, NoRoom> {
    let permit = seat.session.client.permit(Lane::Urgent);
    tokio::time::timeout(ADMISSION, permit)
        .await
        .map_err(|_| NoRoom::Late)
}

/// Carries out what was recorded. At most one mutating call to the service.
pub async fn act(
    context: &Context,
    seen: &Observation,
    recorded: Recorded,
    permit: Option<Permit>,
    seat: Option<&Seat>,
    memory: &Mutex<Memory>,
    turn_ends: Instant,
) -> Outcome {
    let attempt = Attempt {
        context,
        seen,
        facts: &seen.facts,
        account: &seen.account_key,
        memory,
        turn_ends,
    };
    match (recorded, permit, seat) {
        (Recorded::Rest, ..) => Outcome::Rested,
        (Recorded::Written, ..) => Outcome::Written,
        (Recorded::Stale, ..) => Outcome::Stale,
        (Recorded::Failed(error), ..) => not_written(&error),
        (Recorded::SecretRefused(why), ..) => {
            let verdict = Verdict::stalled(Reason::SecretNotWritable, why.clone());
            Outcome::NotDone(why, Some(verdict))
        }
        (Recorded::Unconfirmed(why), ..) => Outcome::NotDone(why, None),
        (Recorded::NotOurs(why), ..) => {
            let verdict = Verdict::stalled(Reason::BindingInvalid, why.clone());
            Outcome::NotDone(why, Some(verdict))
        }
        (Recorded::Finish, _, seat) => attempt.finish(seat).await,
        (Recorded::LetGo { news }, ..) => attempt.let_go(news).await,
        (
            Recorded::Call {
                binding,
                text,
                request,
            },
            Some(permit),
            Some(seat),
        ) => attempt.call(*binding, &text, &request, permit, seat).await,
        (Recorded::Aside { request }, _, Some(seat)) => attempt.aside(&request, seat).await,
        (Recorded::Release { id, why }, _, Some(seat)) => attempt.release(seat, id, why).await,
        (Recorded::Call { .. } | Recorded::Aside { .. } | Recorded::Release { .. }, _, _) => {
            Outcome::NotDone("no request was admitted".to_owned(), None)
        }
    }
}

/// One turn's call.
struct Attempt<'a> {
    context: &'a Context,
    seen: &'a Observation,
    facts: &'a Facts,
    account: &'a ObjectKey,
    memory: &'a Mutex<Memory>,
    turn_ends: Instant,
}

impl Attempt<'_> {
    /// Right before a call: whether this turn may still make it.
    fn has_time(&self) -> Result<(), Outcome> {
        let late = || Outcome::NotDone("the turn has no time left for a call".to_owned(), None);
        self.context
            .term
            .allows(self.turn_ends, CALL)
            .then_some(())
            .ok_or_else(late)
    }

    /// The one POST of an attempt, and its receipt.
    async fn call(
        &self,
        binding: Binding,
        text: &str,
        request: &Request,
        permit: Permit,
        seat: &Seat,
    ) -> Outcome {
        if let Err(late) = self.has_time() {
            return late;
        }
        let verb = binding.operation.verb;
        let digest = match &self.seen.login {
            LoginFact::Ready(credentials) => credentials.digest,
            LoginFact::NotAsked
            | LoginFact::Missing
            | LoginFact::Problem(_)
            | LoginFact::Unread(_) => None,
        };
        open(self.memory).calls(verb, digest);
        // From here on, until an answer says otherwise, it may have happened: also when this turn is cut short.
        self.set_post(binding.attempt, Post::Unknown);
        match post(seat, permit, request, binding.id.as_deref()).await {
            Ok((id, task)) => {
                self.set_post(
                    binding.attempt,
                    Post::Accepted {
                        id: id.clone(),
                        task: task.clone(),
                    },
                );
                open(self.memory).may_have_password();
                // The receipt of what may be done twice stands in status, which tells of the operation at once.
                let recorded = verb.is_harmless_twice() || {
                    let receipt = Binding {
                        id: Some(id.to_string()),
                        task: task.as_ref().map(ToString::to_string),
                        ..binding
                    };
                    self.give_receipt(text, &receipt, seat, &id).await
                };
                Outcome::Accepted {
                    verb,
                    id,
                    task,
                    recorded,
                }
            }
            Err(error) if error.may_have_happened() => {
                self.set_post(binding.attempt, Post::Unknown);
                let mut memory = open(self.memory);
                if let Some(attempt) = memory.attempts.get_mut(&binding.attempt) {
                    attempt.doubt = Some(error.to_string());
                }
                memory.may_have_password();
                // Whatever shows right after the call is evidence.
                memory.looked = None;
                Outcome::Unknown(error.to_string())
            }
            Err(error) => {
                let outcome = self.refused(&binding, verb, &error);
                if let Outcome::Refused {
                    message, reason, ..
                } = &outcome
                    && verb == Verb::Create
                    && reason.is_lasting_refusal()
                {
                    self.close(text, &binding, *reason, message).await;
                }
                outcome
            }
        }
    }

    /// Nothing was done, and this process knows it.
    fn refused(&self, binding: &Binding, verb: Verb, error: &Error) -> Outcome {
        let is_stopped = match &self.seen.detail {
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
                message = format!("{message}: {}", remedy(error, self.seen));
            }
            _ => {}
        }
        let post = Post::Refused {
            message: message.clone(),
            reason,
        };
        self.set_post(binding.attempt, post);
        // The server may be in another state than it seemed to be.
        open(self.memory).looked = None;
        Outcome::Refused {
            message,
            reason,
            after: error.retry_after(),
        }
    }

    /// A call within an attempt: harmless, and made again until it shows.
    async fn aside(&self, request: &Request, seat: &Seat) -> Outcome {
        let Ok(permit) = room(seat).await else {
            return Outcome::NotDone("the request limit left no room for a call".to_owned(), None);
        };
        if let Err(late) = self.has_time() {
            return late;
        }
        let answer = post(seat, permit, request, None).await;
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
        let binding = self.facts.binding();
        let attempt = binding.map(|binding| binding.attempt);
        // One that was not taken before is told with the try that is.
        let last = memory.aside.as_ref();
        let was_taken = last.is_some_and(|last| last.verb == verb && last.trouble.is_none());
        let is_first = !was_taken || (power_cut && memory.cut_for != attempt);
        if power_cut && may_have_happened {
            memory.cut_for = attempt;
        }
        let of_reinstall = binding.filter(|binding| binding.operation.verb == Verb::Reinstall);
        if let (Verb::Stop, Some(binding)) = (verb, of_reinstall) {
            memory.stopped_for = Some(binding.attempt);
        }
        // What is refused once more is in the state that it was found in.
        let is_known = is_refused
            && memory
                .aside
                .as_ref()
                .is_some_and(|former| former.is_refused);
        let is_unknown = trouble.is_some() && may_have_happened;
        memory.aside = Some(Aside {
            verb,
            at: Instant::now(),
            trouble: trouble.clone(),
            is_unknown,
            is_refused,
        });
        if !is_known {
            memory.looked = None;
        }
        Outcome::Aside {
            verb,
            power_cut,
            is_first,
            is_unknown,
            trouble,
        }
    }

    fn set_post(&self, attempt: u32, post: Post) {
        if let Some(attempt) = open(self.memory).attempts.get_mut(&attempt) {
            attempt.tries += u32::from(post == Post::Unknown && attempt.post != Post::Unknown);
            attempt.post = post;
            attempt.since = Instant::now();
        }
    }
}

/// A write of the object failed. A refusal is somebody's doing and is told.
fn not_written(error: &KubeError) -> Outcome {
    let refused = || Verdict::stalled(Reason::WriteRefused, error.to_string());
    Outcome::NotDone(error.to_string(), error.is_refusal().then(refused))
}

/// Asks the service. Gives the server and, where the answer names one, the task.
async fn post(
    seat: &Seat,
    permit: Permit,
    request: &Request,
    recorded: Option<&str>,
) -> Result<(ServerId, Option<TaskId>), Error> {
    let client = &seat.session.client;
    let known = |task| (ServerId::from(recorded.unwrap_or_default()), task);
    match request {
        Request::Create(request) => {
            let CreateAccepted { id, task } = client.create(permit, request).await?;
            Ok((id, Some(task)))
        }
        Request::Reinstall(request) => Ok(known(Some(client.reinstall(permit, request).await?))),
        Request::ModifyPassword(request) => {
            Ok(known(Some(client.modify_password(permit, request).await?)))
        }
        Request::Start(id) => Ok(known(client.start(permit, id).await?.task)),
        Request::Stop { id, force } => Ok(known(client.stop(permit, id, *force).await?.task)),
        Request::Restart(id) => Ok(known(client.restart(permit, id).await?.task)),
    }
}

/// What to mend: the field of the spec that the service's code speaks of, and what stands there.
fn remedy(error: &Error, seen: &Observation) -> String {
    let code = error.code().unwrap_or_default().to_ascii_lowercase();
    let spec = &seen.facts.spec;
    let secret = seen.facts.login_secret();
    // A thing that was looked up is told with the field of its selector.
    let named = |meaning: Option<references::Meaning>, exact, selector| {
        let meaning = meaning?;
        let field = if meaning.pin.is_some() {
            selector
        } else {
            exact
        };
        Some((field, meaning.id))
    };
    let (image, package) = (references::image(seen), references::package(seen));
    let (firewall, key) = (references::firewall(seen), references::key(seen));
    let fields = [
        ("image", named(image, "spec.image.id", "spec.image")),
        (
            "package",
            named(package, "spec.package.code", "spec.package"),
        ),
        (
            "firewall",
            named(firewall, "spec.firewall.id", "spec.firewall"),
        ),
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
