//! Carries out the one step of a plan, and always returns an outcome.
//!
//! [`Attempt::make`] shows a call to the service in one place, from the last check to the receipt.

mod announce;
mod confirm;
mod finalizer;
mod receipt;
mod refusal;
mod release;
mod request;
mod secret;
mod write;

use crate::api::{Operation, PurchaseRecord};
use crate::cloud::{CallPriority, Permit, ServerId, TaskId};
use crate::instance::context::Context;
use crate::instance::memory::{Memory, lock};
use crate::instance::observation::Observation;
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::{NeededRead, Plan, ReleaseReason, Step};
use crate::instance::{plan, times};
use crate::runtime::queue::ADMISSION;
use crate::session::{AccountSession, ReconcileSession};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use tokio::time::Instant;

/// The step of one reconcile, and the values that it needs.
pub struct Attempt<'a> {
    pub context: &'a Context,
    pub observed: &'a mut Observation,
    pub memory: &'a Mutex<Memory>,
    pub session: Option<&'a AccountSession>,
    /// When the reconcile must have ended.
    pub ends: Instant,
    /// No other task may write status while this is set.
    pub is_status_write_in_progress: &'a AtomicBool,
}

/// A call to the service.
enum ServiceCall {
    Create(Box<PurchaseRecord>),
    Operate(Box<Operation>),
    Release(ServerId, ReleaseReason),
}

/// The service's answer to a call that it accepted: the server, and the task if the answer names one.
type ServerAndTask = (ServerId, Option<TaskId>);

/// Waits for the permit of the rate limiter before the intent is written, because nothing may delay the call after its intent. A
/// release has no intent and takes its permit later. Without a slot, or if no permit comes in time, the plan is replaced by one
/// that waits in line.
pub async fn admit(
    observed: &Observation,
    plan: &mut Plan,
    session: Option<&ReconcileSession>,
) -> Option<Permit> {
    let session = session?;
    let (priority, needs_permit) = match &plan.step {
        Step::Buy { .. } => (CallPriority::Purchase, true),
        Step::Operate { .. } => (CallPriority::Urgent, true),
        Step::Release { .. } => (CallPriority::Urgent, false),
        _ if plan.needs.as_ref().is_some_and(NeededRead::is_call) => {
            (observed.facts.call_priority(), false)
        }
        _ => return None,
    };
    let again = match session.may_call(priority) {
        false => times::QUEUED_RECHECK, // it is woken when it gets a slot
        true if !needs_permit => return None,
        true => match permit(session, priority).await {
            Some(permit) => return Some(permit),
            None => times::AFTER_OWN_WRITE, // nothing will wake it
        },
    };
    *plan = plan::in_line(observed, plan, again); // other objects use up the request limit
    None
}

async fn permit(session: &AccountSession, priority: CallPriority) -> Option<Permit> {
    let permit = session.shared.client.permit(priority);
    tokio::time::timeout(ADMISSION, permit).await.ok()
}

impl Attempt<'_> {
    /// Carries out the step of a plan. It makes at most one mutating call to the service, and one more if the object is gone when
    /// the receipt of a create is written: it releases that server.
    pub async fn carry_out(&mut self, plan: &Plan, permit: Option<Permit>) -> Outcome {
        let (call, announces) = match plan.step.clone() {
            Step::Rest => return Outcome::Rested,
            Step::Record { record } => return self.record(record).await,
            Step::Secret(chore) => return self.write_secret(&chore).await,
            Step::Finish => return self.finish().await,
            Step::Retain { event } => return self.retain(event).await,
            Step::Buy { record, announce } => (ServiceCall::Create(record), announce),
            Step::Operate {
                operation,
                announce,
            } => (ServiceCall::Operate(operation), announce),
            Step::Release { id, why } => (ServiceCall::Release(id, why), false),
        };
        let outcome = self.make(plan, call, announces, permit).await;
        outcome.unwrap_or_else(|not_made| not_made)
    }

    /// One call, from the last check to the receipt. Nothing that can fail stands between the call and its receipt.
    ///
    /// A call without a new intent (a repeat, a release) has a read of the object past the cache instead.
    async fn make(
        &mut self,
        plan: &Plan,
        mut call: ServiceCall,
        announces: bool,
        permit: Option<Permit>,
    ) -> Result<Outcome, Outcome> {
        let session = self.session.ok_or_else(no_permit)?;
        let request = self.request(&call, session).await?;
        let (observed, owners) = (&*self.observed, self.context.sessions.owners());
        let is_create = matches!(call, ServiceCall::Create(_));
        if is_create && !owners.admit(&observed.facts.uid, &observed.account_key, session.limits) {
            return Err(Outcome::Stale); // the next reconcile observes why
        }
        match announces {
            true => self.announce(plan, &mut call).await?, // one compare-and-swap
            false => self.confirm(&call, session).await?,
        }
        let permit = match permit {
            Some(permit) => permit,
            None => {
                let permit = self::permit(session, CallPriority::Urgent).await;
                permit.ok_or_else(no_permit)?
            }
        };
        self.may_call()?; // right before the bytes
        if !matches!(call, ServiceCall::Release(..)) {
            // Until an answer arrives, the outcome of an announced call is unknown, even if the reconcile is aborted.
            lock(self.memory).call_begins();
        }
        let answer = request.send(&session.shared.client, permit).await;
        Ok(self.receipt(call, answer, session).await)
    }

    /// Whether this reconcile may still make a call: the term lasts, there is time for call and receipt, and the cluster's state is
    /// still the one that the plan was made from.
    fn may_call(&self) -> Result<(), Outcome> {
        if self.observed.epoch != self.context.memories.epoch() {
            return Err(Outcome::Stale);
        }
        let term = &self.context.term;
        match term.allows(self.ends, times::CALL_AND_RECEIPT) {
            true => Ok(()),
            false => Err(Outcome::not_done(
                "the reconcile has no time left for a call",
            )),
        }
    }
}

fn no_permit() -> Outcome {
    Outcome::not_done("the request limit left no room for a call")
}
