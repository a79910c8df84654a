//! A server is there and the record does not name it: given by the service a moment ago, or found by its name. Recorded before
//! anything else, and never bought beside.

use super::{Plan, Step, Tell, buy, recover, words};
use crate::api::conditions::Reason;
use crate::api::{Binding, HistoryEntry, Verb};
use crate::cloud::ServerId;
use crate::instance::observe::{Fact, Observation, SeatFacts};
use crate::runtime::events::News;

/// A server bears our marker and no record names it: it is ours. Of several the one that status knew, else the first by
/// identifier; the others become surplus.
pub(super) fn adopt(seen: &Observation, seat: &SeatFacts) -> Option<Plan> {
    let found = bearing(seen);
    let known = seen.facts.status.id.as_deref().map(ServerId::from);
    let id = known
        .filter(|id| found.contains(id))
        .or_else(|| found.into_iter().next())?;
    let note = format!("found server {id} by its name and recorded it");
    let mut plan = record(seen, seat, &id, None);
    plan.tell.news.push(News::normal("Adopted", note));
    Some(plan)
}

/// Servers with our marker that are not known to be gone, in order.
pub(super) fn bearing(seen: &Observation) -> Vec<ServerId> {
    let listed = seen
        .listing
        .iter()
        .flat_map(|listing| listing.bearing(&seen.facts.marker));
    listed
        .filter(|id| !seen.memory.gone.contains_key(id))
        .collect()
}

/// The service gave this process a server and the record does not name it yet: nothing comes before that.
pub(super) fn given(seen: &Observation, seat: &SeatFacts) -> Option<Plan> {
    let (number, id, task) = seen.memory.given()?;
    let current = seen.facts.binding().map_or(0, |binding| binding.attempt);
    (number >= current).then(|| record(seen, seat, id, task.map(ToString::to_string)))
}

/// The record of a server that exists. Without a task it was found instead of received: its request may have been doubled.
pub(super) fn record(
    seen: &Observation,
    seat: &SeatFacts,
    id: &ServerId,
    task: Option<String>,
) -> Plan {
    let status = &seen.facts.status;
    // Status still tells that this server was bought, and which attempt was the last to end.
    let is_known = status.id.as_deref() == Some(id.as_str())
        && (status.applied.is_some() || status.history.iter().any(bought));
    let newest = status.history.iter().map(|entry| entry.attempt).max();
    let ended = newest.filter(|_| is_known).map(u32::try_from);
    if let (None, Some(mut binding)) = (
        seen.facts.binding(),
        recover::in_flight(seen, buy::blank(seen, seat)).filter(|_| is_known),
    ) {
        // The record was lost in the middle of an operation that status tells of.
        binding.id = Some(id.to_string());
        let tell = Tell::default().with_id(Some(id.clone()));
        let binding = Box::new(binding);
        return Plan::act(Step::Record { binding }, tell);
    }
    let mut binding = match (seen.facts.binding(), ended) {
        (Some(binding), _) => {
            let mut binding = binding.clone();
            // Of another server than the recorded one nobody knows which password it was ordered with, unless nothing was
            // done since the purchase: the wanted one is set.
            let bears_later_login = binding.operation.verb != Verb::Create;
            if !seen.facts.is_open() || binding.operation.verb != Verb::Create {
                // The recorded attempt has ended; what is found now belongs to none that is known.
                binding.attempt = buy::next_attempt(seen);
                binding.nonce.clear();
                binding.operation.verb = Verb::Create;
            }
            binding.lost = binding.lost.saturating_add(u32::from(task.is_none()));
            if seen.facts.id().is_some_and(|former| former != *id) {
                binding.imported = None;
                if bears_later_login {
                    binding.operation.target.password_secret = None;
                }
            }
            binding
        }
        // Only the record was lost.
        (None, Some(Ok(attempt))) => Binding {
            attempt,
            ..buy::blank(seen, seat)
        },
        (None, _) => {
            let mut binding = Binding {
                lost: 1,
                ..buy::blank(seen, seat)
            };
            if seen.facts.spec.login.generate.is_some() {
                // It may have been bought with another one than stands in the Secret by now, which is to tell what is in force.
                binding.operation.target.password_secret = None;
            }
            binding
        }
    };
    binding.id = Some(id.to_string());
    binding.task = task;
    is_in(seen, id, &mut binding);
    let tell = match &binding.imported {
        Some(_) => Tell::progress(Reason::Importing, words::importing(id, &Fact::NotAsked)),
        None => Tell::progress(Reason::Creating, buy::creating(seen)),
    };
    let tell = tell.with_id(Some(id.clone()));
    Plan::act(
        Step::Record {
            binding: Box::new(binding),
        },
        tell,
    )
}

/// The place of the recorded server comes last: operations name it, and the spec is held against it. The places of former
/// attempts stay, where theirs may still turn up.
pub(super) fn is_in(seen: &Observation, id: &ServerId, binding: &mut Binding) {
    let Some(place) = seen
        .listing
        .as_ref()
        .and_then(|listing| listing.place_of(id))
    else {
        return;
    };
    let place = place.to_string();
    binding.places.retain(|other| *other != place);
    binding.places.push(place);
}

fn bought(entry: &HistoryEntry) -> bool {
    entry.verb == Verb::Create && entry.succeeded
}
