//! The listings that an object needs, which it shares with others.

use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, open};
use crate::instance::observation::Observation;
use crate::instance::plan::step::{Plan, Step};
use crate::instance::times;
use crate::inventory::{Attention, InstanceUid, Subscription};
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
        attention: wants.attention,
        pass_after: wants.pass_after,
        passes_wanted: wants.passes,
        releasing: facts.deleting,
        credential: facts.purchase().map(|record| shared(&record.credential)),
    };
    let subject: InstanceUid = shared(&facts.uid);
    let number = session.shared.number;
    context.sessions.leave(&subject, Some(number));
    session.shared.inventory.subscribe(&subject, subscription);
}

/// Updates the subscription to the plan's needs, and copies the Account's token before a server needs it.
pub async fn renew(
    context: &Context,
    observed: &Observation,
    plan: &mut Plan,
    session: Option<&AccountSession>,
    memory: &Mutex<Memory>,
) {
    request(context, observed, plan, session, &mut open(memory));
    if let (true, Some(session)) = (plan.begins(), session) {
        context.sessions.copy(&observed.account_key, session).await;
    }
}

fn request(
    context: &Context,
    observed: &Observation,
    plan: &mut Plan,
    session: Option<&AccountSession>,
    memory: &mut Memory,
) {
    let (wants, observations) = (&mut plan.wants, &observed.memory.observations);
    // The queries for the task show the end of an operation sooner than a listing, unless the service does not know the server.
    let is_followed = observations.poll.is_some()
        && !observations.look.is_absent()
        && !observed.facts.deleting
        && wants.pass_after.is_none();
    if wants.attention == Attention::InFlight && is_followed {
        wants.attention = Attention::Followed;
    }
    if wants.attention != Attention::Quiet {
        let since = *memory.pace.busy_since.get_or_insert(observed.now);
        if observed.now >= since + times::FAST_LISTING_FOR {
            // A long operation is not worth a listing every few seconds.
            wants.attention = Attention::Quiet;
            plan.again = plan.again.max(times::LONG_OPERATION_RECHECK);
        }
    } else if matches!(plan.step, Step::Rest) && !observed.facts.deleting {
        memory.pace.busy_since = None;
    }
    let is_new = plan.wants != memory.pace.wants;
    memory.pace.wants = plan.wants;
    if let (true, Some(session)) = (is_new, session) {
        subscribe(context, &observed.facts, memory, session);
    }
}
