//! What an object asks of the listings that it shares with others.

use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, open};
use crate::instance::observation::Observation;
use crate::instance::plan::step::{Plan, Step};
use crate::instance::times;
use crate::inventory::{Attention, Interest, Subject};
use crate::session::Seat;
use std::sync::Mutex;

/// Tells the inventory what this object needs of it; called before its views are looked at, so that nothing which
/// happens in between goes unnoticed. Listings of a former token look out for it no longer.
pub fn attend(context: &Context, facts: &Facts, memory: &mut Memory, seat: &Seat) {
    let wants = memory.pace.wants;
    let interest = Interest {
        places: facts.places.clone(),
        id: facts.id(),
        marker: facts.marker.clone(),
        attention: wants.attention,
        pass_after: wants.pass_after,
        passes_wanted: wants.passes,
        releasing: facts.deleting,
        credential: facts
            .binding()
            .map(|binding| binding.credential.as_str().into()),
    };
    let subject: Subject = facts.uid.as_str().into();
    if memory
        .pace
        .attended
        .is_some_and(|number| number != seat.session.number)
    {
        context.sessions.leave(&subject);
    }
    memory.pace.attended = Some(seat.session.number);
    seat.session.inventory.attend(&subject, interest);
}

/// What the plan wants of the listing, if that is new, and a copy of the Account's token before there is anything that needs it. An
/// operation that has been running for long is not worth a listing every few seconds.
pub async fn renew(
    context: &Context,
    seen: &Observation,
    plan: &mut Plan,
    seat: Option<&Seat>,
    memory: &Mutex<Memory>,
) {
    want(context, seen, plan, seat, &mut open(memory));
    if let (true, Some(seat)) = (plan.begins(), seat) {
        context.sessions.copy(&seen.account_key, seat).await;
    }
}

fn want(
    context: &Context,
    seen: &Observation,
    plan: &mut Plan,
    seat: Option<&Seat>,
    memory: &mut Memory,
) {
    if plan.wants.attention == Attention::InFlight {
        let since = *memory.pace.busy_since.get_or_insert(seen.now);
        if seen.now >= since + times::FAST_LISTING_FOR {
            plan.wants.attention = Attention::Quiet;
            plan.again = plan.again.max(times::LONG_OPERATION_RECHECK);
        }
    } else if matches!(plan.step, Step::Rest) && !seen.facts.deleting {
        memory.pace.busy_since = None;
    }
    let is_new = plan.wants != memory.pace.wants;
    memory.pace.wants = plan.wants;
    if let (true, true, Some(seat)) = (is_new, memory.pace.attended.is_some(), seat) {
        attend(context, &seen.facts, memory, seat);
    }
}
