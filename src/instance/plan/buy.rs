//! While no server is recorded: buy one, and never a second.

use super::{Plan, SOON, Step, Tell, frozen};
use crate::api::conditions::{Reason, Verdict};
use crate::api::{Binding, OpenOperation, Verb, names};
use crate::cloud::{CreateRequest, FirewallId, ImageId, Login, PackageCode, ServerId};
use crate::instance::login::LoginFact;
use crate::instance::memory::{Attempt, Post};
use crate::instance::observe::{Observation, SeatFacts};
use crate::inventory::Absence;
use crate::runtime::events::News;
use rand::RngExt;
use std::time::Duration;
use tokio::time::Instant;

/// Nothing is recorded for this object.
pub(super) fn begin(seen: &Observation, seat: &SeatFacts) -> Plan {
    if let Some(plan) = record_given(seen, seat) {
        return plan;
    }
    if let Some(plan) = frozen(seen) {
        return plan;
    }
    let login = match login(seen) {
        Ok(login) => login,
        Err(plan) => return *plan,
    };
    let memory = &seen.memory;
    let status = &seen.facts.status;
    let untouched = status.id.is_none() && status.operation.is_none() && status.history.is_empty();
    let is_new = memory.born_here && !memory.ever_intended && untouched;
    if is_new {
        // This process saw the object appear and never bought for it: nobody can have, so no look-up is needed.
        return create(seen, seat, login, &Origin::First);
    }
    // Something is known or may have been: a server with our marker may exist. Where an attempt may be open, it must
    // have settled; otherwise one listing is enough.
    let since = memory.recordless_since.unwrap_or(seen.now);
    let doubtful = memory.ever_intended || !untouched;
    let settled = since + seat.settle;
    let Some(listing) = &seen.listing else {
        return looking(seen, since, 1);
    };
    let absence = if doubtful {
        listing.proven_absent(&seen.facts.marker, None, settled)
    } else {
        listing.absent_once(&seen.facts.marker, since)
    };
    match absence {
        Absence::Present(found) => adopt(seen, seat, found),
        // Found in whichever pass is a find; only absence needs proof.
        Absence::NotYet(_) if !listing.bearing(&seen.facts.marker).is_empty() => adopt(
            seen,
            seat,
            listing.bearing(&seen.facts.marker).into_iter().collect(),
        ),
        Absence::NotYet(_) if doubtful => waiting_to_settle(seen, settled),
        Absence::NotYet(_) => looking(seen, since, 1),
        // A server was known once and is nowhere now. Missing is not gone: nothing is bought in its place.
        Absence::Proven if status.id.is_some() => missing(seen),
        Absence::Proven => create(seen, seat, login, &Origin::First),
    }
}

/// An attempt is recorded and its server is not.
pub(super) fn go_on(seen: &Observation, seat: &SeatFacts, binding: &Binding) -> Plan {
    if let Some(plan) = record_given(seen, seat) {
        return plan;
    }
    match seen.memory.attempt(binding) {
        // The service is known not to have bought anything under this attempt, since this very process knows what became
        // of every call of it: the call may be made again.
        Some(Attempt {
            post: Post::NotSent,
            ..
        }) => again(seen, seat, binding, None),
        Some(Attempt {
            post: Post::Refused { message, reason },
            ..
        }) => again(seen, seat, binding, Some((message.as_str(), *reason))),
        // The receipt is still owed; handled above.
        Some(Attempt {
            post: Post::Accepted { .. },
            since,
            ..
        }) => waiting_to_settle(seen, *since + seat.settle),
        Some(Attempt {
            post: Post::Unknown,
            since,
            ..
        }) => settle(seen, seat, *since + seat.settle),
        None => settle(seen, seat, seen.now + seat.settle),
    }
}

/// The create failed, what it left is gone: a new attempt, in its time.
pub(super) fn after_failure(seen: &Observation, seat: &SeatFacts, binding: &Binding) -> Plan {
    match login(seen) {
        Ok(login) => create(seen, seat, login, &Origin::Failed(binding)),
        Err(plan) => *plan,
    }
}

/// Who comes before the attempt.
enum Origin<'a> {
    /// Nobody.
    First,
    /// An attempt of which nothing was bought.
    Refused(&'a Binding),
    /// An attempt whose answer was lost and of which no server is there.
    Lost(&'a Binding),
    /// An attempt whose task failed.
    Failed(&'a Binding),
}

fn create(seen: &Observation, seat: &SeatFacts, login: Login, origin: &Origin<'_>) -> Plan {
    let facts = &seen.facts;
    let (former, lost, failed) = match *origin {
        Origin::First => (None, 0, 0),
        Origin::Refused(binding) => (Some(binding), binding.lost, binding.failed),
        Origin::Lost(binding) => (Some(binding), binding.lost + 1, binding.failed),
        Origin::Failed(binding) => (Some(binding), binding.lost, binding.failed + 1),
    };
    let mut places = former
        .map(|binding| binding.places.clone())
        .unwrap_or_default();
    let place = seen.wanted_place().to_string();
    if !places.contains(&place) {
        places.push(place);
    }
    let binding = Binding {
        cluster: String::new(),
        namespace: facts.key.namespace.clone(),
        name: facts.key.name.clone(),
        uid: former.map_or_else(|| facts.uid.clone(), |binding| binding.uid.clone()),
        marker: facts.marker.clone(),
        attempt: next_attempt(seen),
        nonce: String::new(),
        id: None,
        task: None,
        operation: OpenOperation {
            verb: Verb::Create,
            started_at: seen.wall,
            generation: facts.generation,
        },
        places,
        lost,
        failed,
        credential: seat.credential.clone(),
    };
    let tell = Tell::progress(Reason::Creating, creating(seen));
    Plan::act(
        Step::Create {
            request: Box::new(request(seen, login)),
            binding: Box::new(binding),
            announce: true,
        },
        tell,
    )
}

/// The call of a recorded attempt, once more: the spec may have been mended since, so it is made from the spec of now. A
/// change of the spec makes it an attempt of its own.
fn again(
    seen: &Observation,
    seat: &SeatFacts,
    binding: &Binding,
    refusal: Option<(&str, Reason)>,
) -> Plan {
    let changed = binding.operation.generation != seen.facts.generation;
    let waits = seen
        .memory
        .not_before
        .filter(|at| *at > seen.now && !changed);
    if let (Some((message, reason)), Some(at)) = (refusal, waits) {
        return Plan::rest(Tell::of(refused(message, reason)), at - seen.now);
    }
    if let Some(plan) = frozen(seen) {
        return plan;
    }
    let login = match login(seen) {
        Ok(login) => login,
        Err(plan) => return *plan,
    };
    if changed {
        return create(seen, seat, login, &Origin::Refused(binding));
    }
    let tell = match refusal {
        Some((message, reason)) => Tell::of(refused(message, reason)),
        None => Tell::progress(Reason::Creating, creating(seen)),
    };
    let request = Box::new(request(seen, login));
    Plan::act(
        Step::Create {
            binding: Box::new(binding.clone()),
            announce: false,
            request,
        },
        tell,
    )
}

/// What a refusal says.
pub(in crate::instance) fn refused(message: &str, reason: Reason) -> Verdict {
    match reason {
        Reason::CreateRefused => Verdict::stalled(reason, message),
        _ => Verdict::reconciling(reason, message),
    }
}

/// The outcome of an attempt is unknown: look for its server, and buy again only after proven absence.
fn settle(seen: &Observation, seat: &SeatFacts, settled: Instant) -> Plan {
    let Some(listing) = &seen.listing else {
        return waiting_to_settle(seen, settled);
    };
    let found: Vec<ServerId> = listing.bearing(&seen.facts.marker).into_iter().collect();
    if !found.is_empty() {
        return adopt(seen, seat, found);
    }
    if let Some(plan) = frozen(seen) {
        return plan;
    }
    let Some(binding) = seen.facts.binding() else {
        return waiting_to_settle(seen, settled);
    };
    match listing.proven_absent(&seen.facts.marker, None, settled) {
        Absence::Proven if super::is_our_account(seen, seat) => match login(seen) {
            Ok(login) => create(seen, seat, login, &Origin::Lost(binding)),
            Err(plan) => *plan,
        },
        // The listing may be somebody else's: it proves nothing about ours.
        Absence::Proven | Absence::NotYet(_) | Absence::Present(_) => {
            waiting_to_settle(seen, settled)
        }
    }
}

/// A server bears our marker and no record names it: it is ours. Of several the one that status knew, else the first by
/// identifier; the others become surplus.
fn adopt(seen: &Observation, seat: &SeatFacts, mut found: Vec<ServerId>) -> Plan {
    found.sort();
    let known = seen.facts.status.id.as_deref().map(ServerId::from);
    let Some(id) = known
        .filter(|id| found.contains(id))
        .or_else(|| found.into_iter().next())
    else {
        return looking(seen, seen.now, 1);
    };
    let note = format!("found server {id} by its name and recorded it");
    let mut plan = record(seen, seat, &id, None, true);
    plan.tell.news.push(News::normal("Adopted", note));
    plan
}

/// The service gave this process a server and the record does not name it yet: nothing comes before that.
fn record_given(seen: &Observation, seat: &SeatFacts) -> Option<Plan> {
    let (number, id, task) = seen.memory.unrecorded()?;
    let current = seen.facts.binding().map_or(0, |binding| binding.attempt);
    (number >= current).then(|| record(seen, seat, id, Some(task.to_string()), false))
}

fn record(
    seen: &Observation,
    seat: &SeatFacts,
    id: &ServerId,
    task: Option<String>,
    found: bool,
) -> Plan {
    let facts = &seen.facts;
    let binding = match facts.binding() {
        Some(binding) => {
            let mut binding = binding.clone();
            // A server that was found instead of received: its request may have been doubled.
            binding.lost += u32::from(found);
            binding
        }
        None => Binding {
            cluster: String::new(),
            namespace: facts.key.namespace.clone(),
            name: facts.key.name.clone(),
            uid: facts.uid.clone(),
            marker: facts.marker.clone(),
            attempt: next_attempt(seen),
            nonce: String::new(),
            id: None,
            task: None,
            operation: OpenOperation {
                verb: Verb::Create,
                started_at: seen.wall,
                generation: facts.generation,
            },
            places: facts.places.iter().map(ToString::to_string).collect(),
            lost: 1,
            failed: 0,
            credential: seat.credential.clone(),
        },
    };
    let binding = Binding {
        id: Some(id.to_string()),
        task,
        ..binding
    };
    let tell = Tell::progress(Reason::Creating, creating(seen)).with_id(Some(id.clone()));
    let mut plan = Plan::act(
        Step::Record {
            binding: Box::new(binding),
        },
        tell,
    );
    plan.again = Duration::ZERO;
    plan
}

/// Attempt numbers only grow, over records, memory and what status tells of lost records.
fn next_attempt(seen: &Observation) -> u32 {
    let recorded = seen.facts.binding().map_or(0, |binding| binding.attempt);
    let remembered = seen.memory.attempts.keys().max().copied().unwrap_or(0);
    let status = &seen.facts.status;
    let told = status
        .history
        .iter()
        .map(|entry| entry.attempt)
        .chain(status.operation.iter().map(|o| o.attempt));
    let told = told
        .filter_map(|attempt| u32::try_from(attempt).ok())
        .max()
        .unwrap_or(0);
    recorded.max(remembered).max(told) + 1
}

fn request(seen: &Observation, login: Login) -> CreateRequest {
    let spec = &seen.facts.spec;
    CreateRequest {
        package: PackageCode::from(spec.package.code.as_str()),
        place: seen.wanted_place(),
        name: names::server_name(&seen.facts.key.name, &seen.facts.marker),
        image: ImageId::from(spec.image.id.as_str()),
        firewall: FirewallId::from(spec.firewall.id.as_str()),
        login,
    }
}

fn login(seen: &Observation) -> Result<Login, Box<Plan>> {
    match &seen.login {
        LoginFact::Ready(login) => Ok(login.clone()),
        LoginFact::Problem(verdict) => {
            Err(Box::new(Plan::rest(Tell::of(verdict.clone()), super::LONG)))
        }
        LoginFact::NotAsked => Err(Box::new(looking(seen, seen.now, 1))),
    }
}

fn creating(seen: &Observation) -> String {
    format!(
        "the service is creating the server in {}",
        seen.wanted_place()
    )
}

fn looking(seen: &Observation, since: Instant, passes: u8) -> Plan {
    let trouble = seen.listing.as_ref().and_then(super::Listing::trouble);
    let message = match trouble {
        None => "reading the service's listing before anything is bought".to_owned(),
        Some(trouble) => {
            format!("reading the service's listing before anything is bought: {trouble}")
        }
    };
    Plan::rest(Tell::progress(Reason::LookingForServer, message), SOON).wanting(since, passes)
}

fn waiting_to_settle(seen: &Observation, settled: Instant) -> Plan {
    let message = "the answer to a create was lost: looking for its server by name; nothing is bought before it is \
                   proven absent";
    let tell = Tell::progress(Reason::CreateUnconfirmed, message);
    let rest = settled.saturating_duration_since(seen.now);
    if rest.is_zero() {
        Plan::rest(tell, SOON).wanting(settled, 2)
    } else {
        Plan::rest(tell, rest.min(SOON)).in_flight()
    }
}

fn missing(seen: &Observation) -> Plan {
    let id = seen.facts.status.id.clone().unwrap_or_default();
    let message = format!(
        "server {id} is not at the service any more and its record is lost; nothing is bought in its place: delete this \
         Instance and apply it again to get a new server"
    );
    Plan::rest(
        Tell::of(Verdict::stalled(Reason::ServerMissing, message)),
        super::LONG,
    )
}

/// A word that no other turn has written.
pub(in crate::instance) fn nonce() -> String {
    format!("{:016x}", rand::rng().random::<u64>())
}
