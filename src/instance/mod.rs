//! The reconcile of one Instance: observe, plan, attempt, report.

mod acknowledge;
pub mod attempt;
mod behind;
pub mod context;
pub mod detail;
mod expiry;
pub mod fact;
pub mod facts;
mod flow;
mod journal;
mod last_release;
pub mod memory;
mod next;
pub mod observation;
pub mod observe;
pub mod orphan;
pub mod outcome;
mod pins;
pub mod plan;
pub mod poll_schedule;
pub mod references;
pub mod report;
mod status;
pub mod subscription;
pub mod temporary_state;
pub mod times;

pub use flow::{bound, flow};

use crate::api::Instance;
use crate::api::conditions::Reason;
use crate::runtime::queue::RECONCILE_LIMIT;
use crate::session::Limit;
use attempt::Attempt;
use context::Context;
use facts::Facts;
use memory::Memory;
use next::Ending;
use observation::Observation;
use outcome::Outcome;
use plan::step::Plan;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Reconciles one object. Returns the time until the next reconcile.
pub async fn reconcile(context: &Context, instance: &Instance) -> Duration {
    let facts = Facts::of(&context.cluster, instance);
    let Some(memory) = context.memories.get(&facts.uid) else {
        return times::IDLE_REQUEUE; // gone
    };
    let first_seen = facts.clone();
    // True while the reconcile writes an intent in status, and from its report to its end: no other task may write status then,
    // since one of the two patches would conflict.
    let writes = AtomicBool::new(false);
    tokio::select! {
        again = Box::pin(drive(context, facts, &memory, &writes)) => again,
        never = acknowledge::while_waiting(context, &first_seen, &memory, &writes) => match never {},
    }
}

async fn drive(
    context: &Context,
    facts: Facts,
    memory: &Mutex<Memory>,
    is_status_write_in_progress: &AtomicBool,
) -> Duration {
    let ends = Instant::now() + RECONCILE_LIMIT;
    if let Some(wait) = behind::wait(context, &facts, memory).await {
        return wait; // the cache is older than our last write, or the apiserver shows an old state
    }
    // If the write of an earlier intent got no answer and the watch has not shown the intent, it counts as not written.
    context.sessions.owners().withdraw(&facts.uid);
    let (mut observed, access) = observe::observe(context, facts, memory).await; // reads
    let mut plan = plan::plan(&observed); // pure
    while observe::read_for_plan(
        context,
        &mut observed,
        plan.needs.as_ref(),
        access.as_ref(),
        memory,
    )
    .await
    {
        plan = plan::plan(&observed); // with the answer to the read that it needs
    }
    acknowledge::first(&observed, &mut plan, memory);
    let session = access.as_deref();
    subscription::renew(context, &observed, &mut plan, session, memory).await;
    let permit = attempt::admit(&observed, &mut plan, access.as_ref()).await;
    let mut attempt = Attempt {
        context,
        observed: &mut observed,
        memory,
        session,
        ends,
        is_status_write_in_progress,
    };
    let outcome = attempt.carry_out(&plan, permit).await; // intent, call, receipt
    count(context, &observed, &plan, &outcome);
    is_status_write_in_progress.store(true, Ordering::Relaxed);
    let reported = report::report(context, &observed, &plan, &outcome, memory).await; // writes status
    // The Event of an accepted call, even if status was not written.
    if let Some(event) = journal::event_of_call(&observed, &plan, &outcome) {
        let about = &observed.facts.reference;
        context.events.publish(about, &event).await;
    }
    let ending = Ending {
        access: access.as_ref(),
        plan: &plan,
        outcome: &outcome,
        observed: &observed,
        reported,
    };
    ending.next(context, memory)
}

/// Notes what the reconcile means for the limits of the Account.
fn count(context: &Context, observed: &Observation, plan: &Plan, outcome: &Outcome) {
    let (owners, uid) = (context.sessions.owners(), &observed.facts.uid);
    if plan.buys() && !matches!(outcome, Outcome::Accepted { .. } | Outcome::Unknown(_)) {
        owners.bought_nothing(uid, observed.now);
    }
    let limit = match plan.reason() {
        Some(Reason::AccountLimitReached) => Some(Limit::Instances),
        Some(Reason::CreateRateReached) => Some(Limit::Creates),
        _ => None,
    };
    owners.set_waiting(uid, &observed.account_key, limit);
}
