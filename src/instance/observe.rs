//! Looks; changes nothing and never fails. Each thing looked at is known, absent or unknown with a reason.

use super::facts::Facts;
use super::listing::Listing;
use super::memory::{Gone, Memory};
use super::{Context, login, pace};
use crate::api::Verb;
use crate::cloud::{Detail, Error, Lane, Place, ServerId, TaskId, TaskState};
use crate::inventory::{Attention, Interest, Sighting, Subject};
use crate::session::{Problem, Seat, Standing};
use jiff::Timestamp;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Longest wait of a turn for one read, the wait for the request limit included. A read that comes later is made again.
const READ: Duration = Duration::from_secs(20);
/// What stands in the way when the request limit is used up by others.
const NO_ROOM: &str = "the request limit left no room for a query";

/// What became of looking at one thing.
#[derive(Clone, Debug)]
pub enum Fact<T> {
    /// Nobody asked.
    NotAsked,
    /// It is there.
    Known(T),
    /// The service, asked with a token it takes, says that there is no such thing.
    Absent,
    /// It could not be found out.
    Unknown(String),
}

/// What is known of the Account.
#[derive(Clone, Debug)]
pub enum AccountFact {
    /// It can be used.
    Seat(SeatFacts),
    /// It has not been looked at yet.
    Pending,
    /// It cannot be used.
    Unusable(Problem),
    /// There is none of that name.
    NotFound(String),
}

/// What a plan needs to know of a seat.
#[derive(Clone, Debug)]
pub struct SeatFacts {
    /// The settling time.
    pub settle: Duration,
    /// UID and version of the token Secret.
    pub credential: String,
    /// A listing of this token has shown a server of ours.
    pub shown_ours: bool,
}

/// Everything a plan is made from.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The object.
    pub facts: Facts,
    /// The Account.
    pub account: AccountFact,
    /// The listings; none without a seat.
    pub listing: Option<Listing>,
    /// The task that is being waited for.
    pub task: Fact<TaskState>,
    /// The server that the detail speaks of.
    pub target: Option<ServerId>,
    /// The service's detail of it.
    pub detail: Fact<Detail>,
    /// The login, read only when a server may be bought in this turn.
    pub login: login::LoginFact,
    /// What this process remembers, after this look.
    pub memory: Memory,
    /// Monotonic time of the look.
    pub now: Instant,
    /// Time to show to people.
    pub wall: Timestamp,
}

/// Looks at everything that the object's state calls for. May read, writes nothing.
pub async fn observe(
    context: &Context,
    facts: Facts,
    memory: &Mutex<Memory>,
) -> (Observation, Option<Arc<Seat>>) {
    let now = Instant::now();
    let (account, seat) = account(context, &facts);
    let mut remembered = super::memory::open(memory).clone();
    remembered.meet(facts.binding(), now);
    let mut seen = Observation {
        account,
        listing: None,
        task: Fact::NotAsked,
        target: None,
        detail: Fact::NotAsked,
        login: login::LoginFact::NotAsked,
        memory: remembered,
        now,
        // Whole seconds, as status keeps them: a fraction would look like a change at every turn.
        wall: Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default(),
        facts,
    };
    if let Some(seat) = &seat {
        attend(&seen, seat);
        seen.listing = Some(Listing::look(&seat.session.inventory, &seen.facts.places));
        if seen.facts.deleting {
            look_at_release(&mut seen, seat, context).await;
        } else {
            look_at_server(&mut seen, seat, context).await;
        }
        if may_buy(&seen) {
            seen.login = login::read(context, &seen.facts, seat).await;
        }
    }
    *super::memory::open(memory) = seen.memory.clone();
    (seen, seat)
}

/// Which seat the object uses. One that is being deleted goes on with the last usable seat, whatever became of Account
/// and Secret in the meantime.
fn account(context: &Context, facts: &Facts) -> (AccountFact, Option<Arc<Seat>>) {
    let key = facts.account();
    let standing = context.sessions.standing(&key);
    if let Standing::Usable(seat) = standing {
        return (AccountFact::Seat(seat_facts(&seat)), Some(seat));
    }
    if let Some(seat) = context.sessions.last_seat(&key).filter(|_| facts.deleting) {
        return (AccountFact::Seat(seat_facts(&seat)), Some(seat));
    }
    let fact = match standing {
        Standing::Unusable(problem) => AccountFact::Unusable(problem),
        Standing::NotFound => AccountFact::NotFound(key.name),
        Standing::Pending | Standing::Usable(_) => AccountFact::Pending,
    };
    (fact, None)
}

fn seat_facts(seat: &Seat) -> SeatFacts {
    SeatFacts {
        settle: seat.settle,
        credential: seat.credential.clone(),
        shown_ours: seat.session.inventory.has_shown_ours(),
    }
}

/// Tells the inventory what this object needs of it; called before its views are looked at, so that nothing which
/// happens in between goes unnoticed.
pub fn attend(seen: &Observation, seat: &Seat) {
    let wants = seen.memory.wants;
    let busy = seen.facts.deleting || seen.facts.is_open();
    let interest = Interest {
        places: seen.facts.places.clone(),
        id: seen.facts.id(),
        marker: seen.facts.marker.clone(),
        attention: if busy {
            Attention::InFlight
        } else {
            wants.attention
        },
        pass_after: wants.pass_after,
        passes_wanted: wants.passes,
        releasing: seen.facts.deleting,
    };
    let subject: Subject = seen.facts.uid.as_str().into();
    seat.session.inventory.attend(&subject, interest);
}

/// Reads task and detail of the recorded server, when they are due.
async fn look_at_server(seen: &mut Observation, seat: &Seat, context: &Context) {
    let Some(id) = seen.facts.id() else { return };
    let listed = seen.listing.as_ref().and_then(|listing| listing.row(&id));
    let idle_at = listed
        .filter(|(row, _)| is_idle(row.pending.as_deref()))
        .map(|(_, at)| at);
    if !seen.facts.is_open() {
        if needs_detail(seen, &id) {
            look_at_detail(seen, seat, context, id, Lane::Resync).await;
        }
        return;
    }
    if let Some(task) = seen.facts.task() {
        let began = seen.memory.attempt_began(&seen.facts);
        look_at_task(seen, seat, context, Verb::Create, &task, began, idle_at).await;
    }
    let ended = match &seen.task {
        Fact::Known(state) => state.is_final(),
        Fact::Absent => true,
        Fact::NotAsked => seen.facts.task().is_none(),
        Fact::Unknown(_) => false,
    };
    let due = seen
        .memory
        .looked
        .is_none_or(|looked| idle_at > Some(looked) || seen.now >= looked + pace::AGAIN);
    if ended && due {
        look_at_detail(seen, seat, context, id, Lane::Operation).await;
    }
}

/// Whether the listing gives a reason to read the detail: it shows something else than the status, or too little, or the
/// server is not in it. What the listing shows unchanged costs no call.
fn needs_detail(seen: &Observation, id: &ServerId) -> bool {
    let detail = &seen.facts.status.detail;
    let looked = seen.memory.looked;
    let Some(listing) = &seen.listing else {
        return false;
    };
    match listing.sighting(id) {
        Sighting::Present(row, _) if !detail.is_empty() && row.agrees_with(detail) => {
            row.status.is_none() && looked.is_none_or(|looked| seen.now >= looked + super::RESYNC)
        }
        Sighting::Present(row, at) => {
            looked.is_none_or(|looked| at > looked && seen.memory.row_at_look != Some(row.digest()))
        }
        Sighting::Absent { began } => looked.is_none_or(|looked| began > looked),
        Sighting::Unknown(_) => false,
    }
}

/// Reads what became of a release: its task, or the server itself.
async fn look_at_release(seen: &mut Observation, seat: &Seat, context: &Context) {
    let Some(id) = seen.release_target() else {
        return;
    };
    seen.target = Some(id.clone());
    let Some(call) = seen.memory.releases.get(&id).cloned() else {
        return;
    };
    let absent_at = seen
        .listing
        .as_ref()
        .and_then(|listing| match listing.sighting(&id) {
            Sighting::Absent { began } => Some(began),
            Sighting::Present(..) | Sighting::Unknown(_) => None,
        });
    if let (true, Some(task)) = (call.accepted, call.task.clone()) {
        let known = seen
            .memory
            .poll
            .as_ref()
            .is_some_and(|poll| poll.task == task && poll.ended.is_some());
        look_at_task(
            seen,
            seat,
            context,
            Verb::Release,
            &task,
            Some(call.at),
            absent_at,
        )
        .await;
        match seen.task {
            Fact::Known(TaskState::Succeeded) => {
                seen.memory.is_gone(id, Gone::Released);
                return;
            }
            Fact::Known(TaskState::Failed { .. }) if !known => {
                seen.memory.not_before = Some(seen.now + seen.memory.backoff.fail());
            }
            Fact::Known(TaskState::Failed { .. }) | Fact::Absent => {}
            Fact::Known(_) | Fact::NotAsked | Fact::Unknown(_) => return,
        }
    }
    let due = seen
        .memory
        .looked
        .is_none_or(|looked| absent_at > Some(looked) || seen.now >= looked + pace::AGAIN);
    if due {
        look_at_detail(seen, seat, context, id.clone(), Lane::Operation).await;
        if matches!(seen.detail, Fact::Absent) {
            seen.memory.is_gone(id, Gone::NotFound);
        }
    }
}

async fn look_at_task(
    seen: &mut Observation,
    seat: &Seat,
    context: &Context,
    verb: Verb,
    task: &TaskId,
    began: Option<Instant>,
    ended_seen: Option<Instant>,
) {
    let poll = seen.memory.poll_of(task, began, seen.now);
    if let Some(ended) = &poll.ended {
        seen.task = Fact::Known(ended.clone());
        return;
    }
    let pace = &context.pace;
    if !pace::is_due(
        poll.since,
        poll.last,
        pace.first_query(verb),
        ended_seen,
        seen.now,
    ) {
        return;
    }
    let (since, whole, first) = (poll.since, poll.whole, poll.last.is_none());
    poll.last = Some(seen.now);
    let asked = tokio::time::timeout(READ, seat.session.client.task(Lane::Operation, task)).await;
    let took = Instant::now().duration_since(since);
    seen.task = match asked {
        Ok(Ok(report)) => {
            match &report.state {
                TaskState::Succeeded if whole => pace.was_done(verb, took, first),
                TaskState::Running if whole => pace.was_running(verb, took),
                _ => {}
            }
            if report.state.is_final() {
                poll.ended = Some(report.state.clone());
            }
            Fact::Known(report.state)
        }
        Ok(Err(error)) if error.is_no_such_task() => Fact::Absent,
        Ok(Err(error)) => Fact::Unknown(trouble(context, &seen.facts, &error)),
        Err(_) => Fact::Unknown(NO_ROOM.to_owned()),
    };
}

async fn look_at_detail(
    seen: &mut Observation,
    seat: &Seat,
    context: &Context,
    id: ServerId,
    lane: Lane,
) {
    seen.memory.looked = Some(seen.now);
    seen.memory.row_at_look = seen
        .listing
        .as_ref()
        .and_then(|listing| listing.row(&id))
        .map(|(row, _)| row.digest());
    let asked = tokio::time::timeout(READ, seat.session.client.detail(lane, &id)).await;
    seen.detail = match asked {
        Ok(Ok(detail)) => Fact::Known(detail),
        Ok(Err(error)) if error.is_no_such_instance() => {
            seat.session.inventory.confirmed_gone(&id);
            Fact::Absent
        }
        Ok(Err(error)) => Fact::Unknown(trouble(context, &seen.facts, &error)),
        Err(_) => Fact::Unknown(NO_ROOM.to_owned()),
    };
    seen.target = Some(id);
}

/// An error's words; a refused token is also a matter of the Account.
fn trouble(context: &Context, facts: &Facts, error: &Error) -> String {
    if error.is_unauthorized() {
        (context.doubt_account)(&facts.account());
    }
    error.to_string()
}

/// Whether this turn may end in a create: then the login is needed.
fn may_buy(seen: &Observation) -> bool {
    !seen.facts.deleting && (seen.facts.id().is_none() || seen.create_failed().is_some())
}

/// The service's word for "no operation is running".
pub fn is_idle(pending: Option<&str>) -> bool {
    pending == Some("NONE")
}

impl Observation {
    /// The server whose release comes next: the recorded one, then one that this process was given, then any with the
    /// marker; those that are known to be gone are left out.
    pub fn release_target(&self) -> Option<ServerId> {
        let given = self.memory.unrecorded().map(|(_, id, _)| id.clone());
        let listed = self
            .listing
            .iter()
            .flat_map(|listing| listing.bearing(&self.facts.marker));
        let alive = |id: &ServerId| !self.memory.gone.contains_key(id);
        self.facts
            .id()
            .into_iter()
            .chain(given)
            .chain(listed)
            .find(alive)
    }

    /// What the service said of the recorded create, if its task failed: in this turn, or as the history tells.
    pub fn create_failed(&self) -> Option<String> {
        let binding = self
            .facts
            .binding()
            .filter(|binding| binding.operation.verb == Verb::Create)?;
        if let Fact::Known(TaskState::Failed { reason }) = &self.task {
            return Some(reason.clone().unwrap_or_default());
        }
        let entry = self
            .facts
            .status
            .history
            .iter()
            .find(|entry| entry.attempt == i64::from(binding.attempt))?;
        (entry.verb == Verb::Create && !entry.succeeded)
            .then(|| entry.message.clone().unwrap_or_default())
    }

    /// Where the spec wants the server, as the record writes it.
    pub fn wanted_place(&self) -> Place {
        self.facts.place()
    }
}

impl Memory {
    fn is_gone(&mut self, id: ServerId, how: Gone) {
        self.gone.insert(id, (how, Instant::now()));
        self.backoff.reset();
        self.not_before = None;
    }

    fn attempt_began(&self, facts: &Facts) -> Option<Instant> {
        let attempt = facts.binding().and_then(|binding| self.attempt(binding))?;
        matches!(attempt.post, super::memory::Post::Accepted { .. }).then_some(attempt.since)
    }
}
