//! Ends a reconcile: remembers its outcome, logs it, and decides when the object is reconciled again.

use crate::api::Verb;
use crate::api::conditions::Reason;
use crate::instance::context::Context;
use crate::instance::fact::Fact;
use crate::instance::memory::{Memory, lock};
use crate::instance::observation::Observation;
use crate::instance::observe::reads;
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::{Plan, Step};
use crate::instance::poll_schedule::PollSchedule;
use crate::instance::status::synced;
use crate::instance::{journal, times};
use crate::inventory::InstanceUid;
use crate::session::ReconcileSession;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// The end of one reconcile.
pub struct Ending<'a> {
    pub access: Option<&'a ReconcileSession>,
    pub plan: &'a Plan,
    pub outcome: &'a Outcome,
    pub observed: &'a Observation,
    /// How long a status that differs must wait before it is written; if the write failed, the time until the next try.
    pub reported: Result<Option<Duration>, Duration>,
}

impl Ending<'_> {
    /// Returns the time until the next reconcile.
    pub fn next(&self, context: &Context, memory: &Mutex<Memory>) -> Duration {
        let uid = self.observed.facts.uid.as_str();
        if matches!(self.outcome, Outcome::Finished) || context.memories.get(uid).is_none() {
            // The object was deleted during the reconcile, so it needs no listings.
            context.sessions.leave(&InstanceUid::from(uid), None);
        }
        let memory = &mut lock(memory);
        let is_other_cluster = self.plan.reason() == Some(Reason::RecordedByOtherCluster);
        if is_other_cluster && matches!(self.reported, Ok(None)) {
            let since = &mut memory.origin.other_cluster_reported_since;
            since.get_or_insert_with(|| Box::new(self.observed.now));
        }
        let mut again = self.after(memory);
        let is_rested = matches!(self.outcome, Outcome::Rested);
        if is_rested && self.access.is_some_and(ReconcileSession::waits_for_slot) {
            // The object is woken when it gets a slot, so it need not retry overdue queries before that.
            again = again.max(times::QUEUED_RECHECK);
        }
        if self.is_unreported() {
            let look = &mut memory.observations.look;
            (look.at, look.row) = (None, None);
        }
        journal::reconciled(&self.observed.facts, self.plan, again);
        match self.reported {
            Ok(wait) => wait.map_or(again, |wait| again.min(wait)),
            Err(wait) => wait,
        }
    }

    /// Remembers and logs the outcome. Returns the time until the next reconcile.
    fn after(&self, memory: &mut Memory) -> Duration {
        match self.outcome {
            Outcome::Rested => self.rested(memory),
            Outcome::Accepted { id, recorded, .. } => {
                memory.pace.progressed();
                if let Some(operation) = self.plan.step.operation() {
                    journal::called(&self.observed.facts, id, &operation);
                }
                match *recorded {
                    true => self.first_query(),
                    false => times::AFTER_OWN_WRITE,
                }
            }
            Outcome::Release { failure, .. } => {
                let Step::Release { id, why } = &self.plan.step else {
                    return times::AFTER_OWN_WRITE;
                };
                if failure.is_none() {
                    journal::releases(&self.observed.facts, id, *why);
                    return self.first_query();
                }
                let not_before = memory.release_call(id).and_then(|call| call.not_before);
                not_before.map_or(times::AFTER_OWN_WRITE, |at| {
                    at.saturating_duration_since(Instant::now())
                })
            }
            Outcome::Refused { reason, after, .. } => {
                // Log the reason only. The message quotes the service and may contain a refused password, and a log may reach more
                // readers than status.
                let why = reason.as_str();
                self.warn(memory, why, "the service refused the call");
                let wait = self.refused(*reason, memory);
                let wait = wait.max(after.unwrap_or_default());
                memory.pace.not_before = Some(Instant::now() + wait);
                wait
            }
            Outcome::Unknown(why) => {
                self.warn(memory, why, "the outcome of a call is unknown");
                times::AFTER_OWN_WRITE
            }
            Outcome::Written => times::AFTER_OWN_WRITE,
            Outcome::Finished => times::IDLE_REQUEUE,
            Outcome::Stale => memory.pace.backoff.fail().min(times::DEPENDENCY_RETRY_MAX),
            Outcome::NotDone(why, readiness) => {
                self.warn(memory, why, "not done, trying again");
                let wait = memory.pace.backoff.fail();
                let wait = wait.min(times::write_retry_max(readiness.is_some()));
                if self.plan.buys() {
                    // An event in the meantime does not bring the next attempt forward.
                    memory.pace.not_before = Some(Instant::now() + wait);
                }
                wait
            }
        }
    }

    /// No call was made: notes the end of an operation; the next read or recheck decides when the object is due.
    fn rested(&self, memory: &mut Memory) -> Duration {
        let (plan, observed, now) = (self.plan, self.observed, Instant::now());
        let is_reported = self.reported.is_ok();
        if let Some(ended) = plan.changes.ended.as_ref().filter(|_| is_reported) {
            memory.operation_ended(ended, now);
        }
        // A status that cannot be written is a failure, so the backoff stays.
        if is_reported && plan.is_ready() {
            memory.pace.backoff.reset();
        }
        // A read that is due may have to wait for the rate limiter.
        let read = reads::next_at(observed).map(|at| at.saturating_duration_since(now));
        let read = read.map(|wait| wait.max(times::OVERDUE_READ_RETRY));
        let waits = [Some(plan.again), synced::again(observed), read];
        waits.into_iter().flatten().min().unwrap_or(plan.again)
    }

    /// When to ask for the task of the call that was just accepted.
    fn first_query(&self) -> Duration {
        let operation = self.plan.step.operation();
        let verb = operation.map_or(Verb::Release, |operation| operation.call());
        let schedule = self.access.map(|session| PollSchedule::of(session, verb));
        schedule.unwrap_or_default().next(None)
    }

    /// The service refused the call of this plan. Returns the pause before the next one.
    fn refused(&self, reason: Reason, memory: &mut Memory) -> Duration {
        match (reason, &self.plan.step) {
            (Reason::CreateRefused, _) => {
                memory.pace.backoff.fail().max(times::CREATE_REFUSED_RETRY)
            }
            // Each attempt costs two writes, for the intent and for the refusal.
            (reason, Step::Buy { .. }) if reason.is_lasting_refusal() => {
                times::CREATE_REFUSED_RETRY
            }
            // The next plan ends the operation, or stops the server first.
            (Reason::Stopping | Reason::OperationRefused, _) => times::AFTER_OWN_WRITE,
            (Reason::ServiceBusy, _) => memory.pace.backoff.fail().min(times::SERVICE_BUSY_RETRY),
            _ => memory.pace.backoff.fail().min(times::DEPENDENCY_RETRY_MAX),
        }
    }

    /// Whether the reconcile read something that is not in status, so that it must be read again. The leftover of a failed create
    /// is never in status.
    fn is_unreported(&self) -> bool {
        let observed = self.observed;
        let is_unwritten = matches!(
            (self.outcome, self.reported),
            (_, Err(_))
                | (Outcome::Rested | Outcome::NotDone(..), Ok(Some(_)))
                | (
                    Outcome::Stale | Outcome::NotDone(_, None) | Outcome::Written,
                    _
                )
        ) || self.plan.changes.detail.is_none();
        is_unwritten
            && matches!(observed.detail, Fact::Known(_))
            && !observed.facts.deleting
            && !observed.is_open()
            && observed.create_failed().is_none()
    }

    /// Logs a failure unless several have come in a row.
    fn warn(&self, memory: &Memory, why: &str, what: &'static str) {
        if memory.pace.backoff.is_fresh() {
            journal::not_done(&self.observed.facts, why, what);
        }
    }
}
