//! The listings that an object needs, which it shares with others.

use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, lock};
use crate::instance::observation::Observation;
use crate::instance::plan::step::{Plan, Step};
use crate::instance::times;
use crate::inventory::{Attention, InstanceUid, Subscription, Wants};
use crate::runtime::strings::shared;
use crate::session::AccountSession;
use std::sync::Mutex;
use tokio::time::Instant;

/// Subscribes to the listings that this object needs. Call it before reading the views, so that no change in between is missed.
/// The subscription to listings with a former token ends. Without `wants` the former ones stay.
pub fn subscribe(context: &Context, facts: &Facts, wants: Option<Wants>, session: &AccountSession) {
    let subject: InstanceUid = shared(&facts.uid);
    let number = session.shared.number;
    context.sessions.leave(&subject, Some(number));
    let inventory = &session.shared.inventory;
    let subscription = Subscription {
        places: facts.places.clone(),
        id: facts.id(),
        marker: facts.marker.clone(),
        wants: wants.unwrap_or_else(|| inventory.wants(&subject)),
        releasing: facts.deleting,
        credential: facts.purchase().map(|record| shared(&record.credential)),
    };
    inventory.subscribe(&subject, subscription);
}

/// Updates the subscription to the plan's needs, and copies the Account's token before a server needs it.
pub async fn renew(
    context: &Context,
    observed: &Observation,
    plan: &mut Plan,
    session: Option<&AccountSession>,
    memory: &Mutex<Memory>,
) {
    limit(observed, plan, &mut lock(memory).pace.busy_since);
    let Some(session) = session else {
        return;
    };
    let subject: InstanceUid = shared(&observed.facts.uid);
    if session.shared.inventory.wants(&subject) != plan.wants {
        subscribe(context, &observed.facts, Some(plan.wants), session);
    }
    if plan.begins() {
        context
            .sessions
            .copy_token(&observed.account_key, session)
            .await;
    }
}

/// Listings come at the short interval only while they show something sooner than queries do, and for a limited time.
fn limit(observed: &Observation, plan: &mut Plan, busy_since: &mut Option<Instant>) {
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
        let since = *busy_since.get_or_insert(observed.now);
        if observed.now >= since + times::FAST_LISTING_FOR {
            // A long operation is not worth a listing every few seconds.
            wants.attention = Attention::Quiet;
            plan.again = plan.again.max(times::LONG_OPERATION_RECHECK);
        }
    } else if matches!(plan.step, Step::Rest) && !observed.facts.deleting {
        *busy_since = None;
    }
    if plan.step.operation().is_some() {
        // From the call on, the operation counts as followed: the circuit breaker must not expect a server that is being created.
        plan.wants.attention = Attention::Followed;
    }
}
