//! Decides when an object is reconciled again, and how an outcome affects its pace.

use crate::api::conditions::Reason;
use crate::api::{EndReason, Verb};
use crate::cloud::ServerId;
use crate::instance::context::Context;
use crate::instance::fact::Fact;
use crate::instance::memory::{Memory, open};
use crate::instance::observation::{Observation, of_purchase};
use crate::instance::outcome::Outcome;
use crate::instance::plan::ended;
use crate::instance::plan::step::{Plan, Step};
use crate::instance::poll_schedule::Schedule;
use crate::instance::report::Unreported;
use crate::instance::status::synced;
use crate::instance::{journal, times};
use crate::inventory::{Attention, Subject};
use crate::runtime::KubeError;
use crate::session::{Access, AccountSession};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Ends a reconcile: remembers its results, and returns the time until the next one.
pub fn next(
    context: &Context,
    access: Option<&Access>,
    plan: &Plan,
    outcome: &Outcome,
    observed: &Observation,
    told: Result<Option<Duration>, Unreported>,
    memory: &Mutex<Memory>,
) -> Duration {
    let uid = observed.facts.uid.as_str();
    if matches!(outcome, Outcome::Finished) || context.memories.get(uid).is_none() {
        // The object was deleted during the reconcile, so it needs no listings.
        context.sessions.leave(&Subject::from(uid));
    }
    let mut memory = open(memory);
    let session = access.map(|access| &**access);
    let again = after(session, plan, outcome, &mut memory, observed, told.is_ok());
    let again = in_line(again, outcome, access);
    if is_untold(observed, plan, outcome, &told) {
        memory.forget_looks();
    }
    journal::reconciled(&observed.facts, plan, outcome, again);
    match told {
        Ok(held) => held.map_or(again, |held| again.min(held)),
        Err(Unreported::TooSoon(rest)) => rest,
        Err(Unreported::Failed(error)) => not_told(&mut memory, observed, &error),
    }
}

/// Whether the reconcile read something that is not in status, so that it must be read again. The leftover of a failed create is
/// never in status.
fn is_untold(
    observed: &Observation,
    plan: &Plan,
    outcome: &Outcome,
    told: &Result<Option<Duration>, Unreported>,
) -> bool {
    let is_withheld = matches!((told, outcome), (Ok(Some(_)), Outcome::Rested));
    let is_untold = told.is_err()
        || is_withheld
        || matches!(outcome, Outcome::Stale)
        || plan.changes.detail.is_none();
    is_untold
        && matches!(observed.detail, Fact::Known(_))
        && !observed.facts.deleting
        && !observed.is_open()
        && observed.create_failed().is_none()
}

/// The status could not be written.
fn not_told(memory: &mut Memory, observed: &Observation, error: &KubeError) -> Duration {
    warn(memory, observed, &error.to_string(), "status not written");
    let wait = memory.pace.backoff.fail();
    let wait = wait.min(not_written_again(error.is_refusal()));
    // After a conflict, the event of the other write triggers the next reconcile.
    let is_overtaken = error.is_overtaken();
    memory.told.unreported_until = (!is_overtaken).then(|| Instant::now() + wait);
    if observed.facts.deleting && !is_overtaken {
        // A release needs no write before it, so a deletion continues even if status cannot be written.
        memory.told.acknowledged = Some(observed.facts.generation);
    }
    wait
}

/// An object in line for a slot is woken when it gets one, so it need not retry overdue queries before that.
fn in_line(again: Duration, outcome: &Outcome, session: Option<&Access>) -> Duration {
    match outcome {
        Outcome::Rested if session.is_some_and(Access::is_in_line) => {
            again.max(times::QUEUED_RECHECK)
        }
        _ => again,
    }
}

/// No call was made: processes the end of an operation, and returns when to reconcile again.
fn rested(
    session: Option<&AccountSession>,
    plan: &Plan,
    memory: &mut Memory,
    observed: &Observation,
    is_said: bool,
) -> Duration {
    let now = Instant::now();
    let ended = plan.changes.ended.as_ref().filter(|_| is_said);
    if let Some(ended) = ended {
        let is_power = ended.succeeded && matches!(ended.verb, Verb::Start | Verb::Stop);
        let times = is_power.then(|| memory.power_ended(ended.verb, now));
        let applied = plan.changes.applied.as_ref();
        let brought_login = applied.is_some_and(|applied| applied.password_secret.is_some());
        let operation = observed.open();
        memory.operation_ended(ended, brought_login, now);
        let pause = plan.pause.or(times.and_then(times::pause_of_power));
        if let (Some(pause), Some(operation)) = (pause, operation) {
            let told = plan.changes.operation.as_ref();
            let end = told.and_then(|told| told.end.clone());
            memory.pause(&operation, end, now + pause);
        }
    }
    // A status that cannot be written is a failure, so the backoff stays.
    if is_said && plan.is_ready() {
        memory.pace.backoff.reset();
        memory.pace.trouble = None;
    }
    let poll = memory
        .observations
        .poll
        .as_ref()
        .filter(|poll| poll.ended.is_none() && poll.odd.is_none())
        .zip(observed.following);
    let confirmed = synced::again(observed).unwrap_or(plan.again);
    let again = plan.again.min(confirmed);
    let again = poll.map_or(again, |(poll, verb)| {
        again.min(schedule(session, verb).due_in(poll, now))
    });
    observed
        .look_again
        .map_or(again, |at| again.min(at.saturating_duration_since(now)))
}

/// The poll schedule for the task of an operation.
fn schedule(session: Option<&AccountSession>, verb: Verb) -> Schedule {
    session.map_or_else(Schedule::default, |session| Schedule::of(session, verb))
}

/// When to reconcile again, and how the outcome affects the pace of this object.
fn after(
    session: Option<&AccountSession>,
    plan: &Plan,
    outcome: &Outcome,
    memory: &mut Memory,
    observed: &Observation,
    is_said: bool,
) -> Duration {
    match outcome {
        Outcome::Rested => rested(session, plan, memory, observed, is_said),
        Outcome::Accepted {
            verb, recorded, id, ..
        } => {
            accepted(plan, memory, observed, id);
            match *recorded {
                true => schedule(session, *verb).next(None),
                false => times::AFTER_OWN_WRITE,
            }
        }
        Outcome::Auxiliary { .. } => {
            beside(outcome, memory, observed);
            schedule(session, Verb::Stop).next(None)
        }
        Outcome::Written => times::AFTER_OWN_WRITE,
        Outcome::Released {
            id,
            why,
            trouble,
            is_unknown,
            ..
        } => match trouble {
            None => {
                journal::releases(&observed.facts, id, *why);
                schedule(session, Verb::Release).next(None)
            }
            Some(trouble) => {
                warn(memory, observed, trouble, not_taken(*is_unknown));
                let not_before = memory
                    .calls
                    .releases
                    .get(id)
                    .and_then(|call| call.not_before);
                not_before.map_or(times::AFTER_OWN_WRITE, |at| {
                    at.saturating_duration_since(Instant::now())
                })
            }
        },
        Outcome::Refused { .. } => refused(plan, outcome, memory, observed, is_said),
        Outcome::Unknown(why) => {
            warn(memory, observed, why, "the outcome of a call is unknown");
            times::AFTER_OWN_WRITE
        }
        Outcome::Finished => times::IDLE_REQUEUE,
        Outcome::Stale => memory.pace.backoff.fail().min(times::DEPENDENCY_RETRY_MAX),
        Outcome::NotDone(why, readiness) => {
            warn(memory, observed, why, "not done, trying again");
            let wait = memory.pace.backoff.fail();
            let wait = wait.min(not_written_again(readiness.is_some()));
            if plan.buys() {
                // An event in the meantime does not bring the next attempt forward.
                memory.pace.not_before = Some(Instant::now() + wait);
            }
            wait
        }
    }
}

/// Logs the result of an auxiliary call within an attempt.
fn beside(outcome: &Outcome, memory: &mut Memory, observed: &Observation) {
    let Outcome::Auxiliary {
        verb,
        power_cut,
        trouble,
        is_unknown,
        ..
    } = outcome
    else {
        return;
    };
    match (trouble, observed.facts.status_id()) {
        (Some(why), _) => warn(memory, observed, why, not_taken(*is_unknown)),
        (None, Some(id)) => {
            let open = observed.open();
            journal::called_beside(&observed.facts, open.as_ref(), *verb, &id, *power_cut);
        }
        (None, None) => {}
    }
}

/// The service accepted the call of this plan.
fn accepted(plan: &Plan, memory: &mut Memory, observed: &Observation, id: &ServerId) {
    memory.pace.backoff.reset();
    memory.pace.not_before = None;
    // The circuit breaker must not expect a server in a listing while it is being created.
    memory.pace.wants.attention = Attention::InFlight;
    memory.pace.trouble = None;
    match &plan.step {
        Step::Buy { record, .. } => journal::called(&observed.facts, id, &of_purchase(record)),
        Step::Operate { operation, .. } => journal::called(&observed.facts, id, operation),
        _ => {}
    }
}

/// The service refused the call of this plan. Returns the pause before the next one.
fn refused(
    plan: &Plan,
    outcome: &Outcome,
    memory: &mut Memory,
    observed: &Observation,
    is_said: bool,
) -> Duration {
    let Outcome::Refused {
        after,
        reason,
        message,
    } = outcome
    else {
        return times::AFTER_OWN_WRITE;
    };
    // Log the reason only. The message quotes the service and may contain a refused password, and a log may reach more readers
    // than status.
    let why = reason.as_str();
    warn(memory, observed, why, "the service refused the call");
    let wait = match (reason, &plan.step) {
        (Reason::CreateRefused, _) => memory.pace.backoff.fail().max(times::CREATE_REFUSED_RETRY),
        // Each attempt costs two writes, for the intent and for the refusal.
        (reason, _) if plan.buys() && reason.is_lasting_refusal() => times::CREATE_REFUSED_RETRY,
        (Reason::OperationRefused, Step::Operate { announce: true, .. }) => {
            not_wanted(memory, observed, message, is_said)
        }
        // The server only has to be stopped or read first.
        (Reason::Stopping | Reason::OperationRefused, _) => times::AFTER_OWN_WRITE,
        (Reason::ServiceBusy, _) => memory.pace.backoff.fail().min(times::SERVICE_BUSY_RETRY),
        _ => memory.pace.backoff.fail().min(times::DEPENDENCY_RETRY_MAX),
    };
    let wait = wait.max(after.unwrap_or_default());
    memory.pace.not_before = Some(Instant::now() + wait);
    wait
}

/// The service refused an operation that was just announced, which ends the operation. Returns the pause before the next one.
fn not_wanted(
    memory: &mut Memory,
    observed: &Observation,
    message: &str,
    is_said: bool,
) -> Duration {
    let Some(open) = observed.open() else {
        return times::AFTER_OWN_WRITE;
    };
    let times = ended::times(observed, open.verb, EndReason::Refused) + 1;
    let pause = ended::pause_after(EndReason::Refused, times).unwrap_or(times::AFTER_OWN_WRITE);
    let end = ended::end(observed, EndReason::Refused, message, times);
    memory.pause(&open, Some(end), Instant::now() + pause);
    if is_said {
        // Status shows its end, together with the refusal.
        memory.calls.followed = None;
    }
    pause
}

/// The log message for a call that was not accepted.
fn not_taken(is_unknown: bool) -> &'static str {
    match is_unknown {
        true => "the outcome of a call is unknown",
        false => "the service did not take the call",
    }
}

/// Logs a failure once while no call succeeds in between.
fn warn(memory: &mut Memory, observed: &Observation, why: &str, what: &'static str) {
    if memory.is_new_trouble(why) {
        journal::not_done(&observed.facts, why, what);
    }
}

/// Longest pause after a failed write.
fn not_written_again(is_refused: bool) -> Duration {
    if is_refused {
        times::WRITE_REFUSED_RETRY
    } else {
        times::DEPENDENCY_RETRY_MAX
    }
}
