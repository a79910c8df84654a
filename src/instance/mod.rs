//! The way of one Instance. A reconcile reads as the sentence of the design: observe, plan, record, act, report.

mod acknowledge;
pub mod act;
mod behind;
mod connection;
pub mod context;
pub mod fact;
pub mod facts;
mod flow;
pub mod foresee;
mod journal;
pub mod listing;
mod login;
pub mod memory;
mod next;
pub mod observation;
pub mod observe;
pub mod outcome;
pub mod pace;
mod pins;
pub mod plan;
pub mod record;
pub mod references;
pub mod remains;
pub mod report;
mod status;
mod subscription;
pub mod times;
mod vault;

pub use flow::{bound, flow};

use crate::api::Instance;
use crate::runtime::queue::TURN;
use context::Context;
use facts::Facts;
use memory::Memory;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// One reconcile of one object; gives the time until the next.
pub async fn turn(context: &Context, instance: &Instance) -> Duration {
    let facts = Facts::of(&context.settings.cluster, instance);
    let Some(memory) = context.memories.get(&facts.uid) else {
        return times::IDLE_REQUEUE; // gone
    };
    let beside = facts.clone();
    tokio::select! {
        again = Box::pin(reconcile(context, facts, &memory)) => again,
        never = acknowledge::while_waiting(context, &beside, &memory) => match never {},
    }
}

async fn reconcile(context: &Context, facts: Facts, memory: &Mutex<Memory>) -> Duration {
    let ends = Instant::now() + TURN;
    if let Some(wait) = behind::wait(context, &facts, memory).await {
        return wait; // the watch has not brought our own last write yet, or brings what is old
    }
    // What it takes of its Account's limits is given back if it comes to nothing.
    let mut place = context.sessions.roll().turn(&facts.uid);
    let (mut seen, access) = observe::observe(context, facts, memory).await; // reads
    let mut plan = plan::plan(&seen); // pure
    while observe::learn(context, &mut seen, &plan.needs, access.as_ref(), memory).await {
        plan = plan::plan(&seen); // with what it asked for
    }
    acknowledge::first(&seen, &mut plan, memory);
    let seat = access.as_deref();
    subscription::renew(context, &seen, &mut plan, seat, memory).await;
    let permit = act::admit(&seen, &mut plan, access.as_ref()).await;
    let recorded = record::record(context, &mut seen, &plan, memory, seat).await; // writes to Kubernetes
    place.buys(plan.buys());
    let outcome = match recorded {
        Ok(step) => act::act(context, &mut seen, step, permit, seat, memory, ends).await, // calls the service
        Err(outcome) => outcome,
    };
    place.buys(plan.buys() && outcome.may_have_bought());
    let told = report::report(context, &seen, &plan, &outcome, memory).await; // writes status
    next::next(
        context,
        access.as_ref(),
        &plan,
        &outcome,
        &seen,
        told,
        memory,
    )
}
