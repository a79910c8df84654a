//! The listings that an object needs, which it shares with others.

use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, open};
use crate::instance::observation::Observation;
use crate::instance::plan::step::{Plan, Step};
use crate::instance::times;
use crate::inventory::{Attention, Subject, Subscription};
use crate::runtime::strings::shared;
use crate::session::AccountSession;
use std::sync::Mutex;

/// Subscribes to the listings that this object needs. Call it before reading the views, so that no change in between is missed.
/// The subscription to listings with a former token ends.
pub fn subscribe(context: &Context, facts: &Facts, memory: &mut Memory, session: &AccountSession) {
    let wants = memory.pace.wants;
    let subscription = Subscription {
        places: facts.places.clone(),
        id: facts.id(),
        marker: facts.marker.clone(),
        attention: attention(facts, memory),
        pass_after: wants.pass_after,
        passes_wanted: wants.passes,
        releasing: facts.deleting,
        credential: facts.purchase().map(|record| shared(&record.credential)),
    };
    let subject: Subject = shared(&facts.uid);
    if memory
        .pace
        .subscribed
        .is_some_and(|number| number != session.shared.number)
    {
        context.sessions.leave(&subject);
    }
    memory.pace.subscribed = Some(session.shared.number);
    session.shared.inventory.subscribe(&subject, subscription);
}

/// An operation that is followed by queries needs no additional listing, unless the service does not know the server.
fn attention(facts: &Facts, memory: &Memory) -> Attention {
    let wants = memory.pace.wants;
    let record = facts.purchase().filter(|_| facts.is_creating());
    let has_task = match facts.operation() {
        Some(open) => open.task_id.is_some() || memory.told_task(open).is_some(),
        None => record.is_some_and(|record| record.id.is_some() && record.task.is_some()),
    };
    let is_followed = has_task
        && wants.pass_after.is_none()
        && !facts.deleting
        && !memory.observations.look.is_absent();
    match wants.attention {
        Attention::InFlight if is_followed => Attention::Followed,
        other => other,
    }
}

/// Updates the subscription to the plan's needs, and copies the Account's token before a server needs it. An operation that has
/// been running for long is not worth a listing every few seconds.
pub async fn renew(
    context: &Context,
    observed: &Observation,
    plan: &mut Plan,
    session: Option<&AccountSession>,
    memory: &Mutex<Memory>,
) {
    want(context, observed, plan, session, &mut open(memory));
    if let (true, Some(session)) = (plan.begins(), session) {
        context.sessions.copy(&observed.account_key, session).await;
    }
}

fn want(
    context: &Context,
    observed: &Observation,
    plan: &mut Plan,
    session: Option<&AccountSession>,
    memory: &mut Memory,
) {
    if plan.wants.attention != Attention::Quiet {
        let since = *memory.pace.busy_since.get_or_insert(observed.now);
        if observed.now >= since + times::FAST_LISTING_FOR {
            plan.wants.attention = Attention::Quiet;
            plan.again = plan.again.max(times::LONG_OPERATION_RECHECK);
        }
    } else if matches!(plan.step, Step::Rest) && !observed.facts.deleting {
        memory.pace.busy_since = None;
    }
    let is_new = plan.wants != memory.pace.wants;
    memory.pace.wants = plan.wants;
    if let (true, true, Some(session)) = (is_new, memory.pace.subscribed.is_some(), session) {
        subscribe(context, &observed.facts, memory, session);
    }
}
