//! Looks; changes nothing and never fails. Each thing looked at is known, absent or unknown with a reason.

mod look;

use super::facts::Facts;
use super::listing::Listing;
use super::memory::{Memory, Wants, open};
use super::pace::Sight;
use super::plan::Needs;
use super::references::{self, Found};
use super::vault::connection::{self, ConnectionFact};
use super::{Context, login, vault};
use crate::api::conditions::Reason;
use crate::api::{Imports, Marker, Verb};
use crate::cloud::{Detail, Lane, ServerId, TaskId, TaskState};
use crate::inventory::{Interest, Sighting, Subject};
use crate::runtime::chance::{self, Day};
use crate::runtime::watch::ObjectKey;
use crate::session::{Access, Claim, Problem, Rival, Room, Say, Seat, Standing};
use jiff::Timestamp;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// A server that was gone and is listed after this time is not gone: longer than a listing lags.
const GONE_FOR_SURE: Duration = Duration::from_secs(60);

/// What became of looking at one thing.
#[derive(Clone, Debug, Default)]
pub enum Fact<T> {
    /// Nobody asked.
    #[default]
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
    /// Whether servers that exist may be taken over.
    pub imports: Imports,
    /// What tells its endpoint and token in records.
    pub credential: String,
    /// A listing of this token has shown a server that was recorded under the same credential as this one.
    pub shown_ours: bool,
}

/// Everything a plan is made from.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The object.
    pub facts: Facts,
    /// The Account.
    pub account: AccountFact,
    /// Its name.
    pub account_key: ObjectKey,
    /// The listings; none without a seat.
    pub listing: Option<Listing>,
    /// The task that is being waited for.
    pub task: Fact<TaskState>,
    /// What kind of task that is, if there is one.
    pub following: Option<Verb>,
    /// When the server of an open operation is looked at again, where it and not its task tells the end.
    pub look_again: Option<Instant>,
    /// The service's detail of it.
    pub detail: Fact<Detail>,
    /// The Secret that the login names and its version (see [`login::named_version`]), if it exists.
    pub secret_version: Option<String>,
    /// The login, read only when a server may be bought in this turn.
    pub login: login::LoginFact,
    /// What was looked up for the selectors of the spec.
    pub found: Found,
    /// UID and resourceVersion of the connection Secret, if it is wanted and exists.
    pub connection_version: Option<String>,
    /// The connection Secret, read only where it may have to be written.
    pub connection: ConnectionFact,
    /// Whether the Account's limits leave room for a server, asked only when one may be bought in this turn.
    pub room: Room,
    /// The detail of the server that is to be taken over, read only when one is found.
    pub candidate: Fact<Detail>,
    /// Whether it may be taken over, asked only when it may be in this turn.
    pub claim: Claim,
    /// Another Instance that has the better right to the server that was taken over.
    pub rival: Rival,
    /// What this process remembers, after this look.
    pub memory: Memory,
    /// Monotonic time of the look.
    pub now: Instant,
    /// Time to show to people.
    pub wall: Timestamp,
    /// What tells the time of day of an instant.
    pub day: Day,
}

/// Whether status says that a server is being bought.
pub(super) fn tells_of_a_purchase(facts: &Facts) -> bool {
    let reasons = [Reason::Creating, Reason::CreateUnconfirmed].map(Reason::as_str);
    let mut told = facts.status.conditions.iter();
    told.any(|told| reasons.contains(&told.reason.as_str()))
}

/// Looks at everything that the object's state calls for. May read, writes nothing.
pub async fn observe(
    context: &Context,
    facts: Facts,
    memory: &Mutex<Memory>,
) -> (Observation, Option<Access>) {
    let now = Instant::now();
    let mut remembered = open(memory).clone();
    remembered.meet(facts.binding(), context.memories.doubts(), now);
    // Its record was lost with whoever wrote it: from the first look on, whatever stands in status later.
    remembered.ever_intended |= facts.binding().is_none() && tells_of_a_purchase(&facts);
    if let (true, Some(binding)) = (facts.is_open(), facts.binding()) {
        remembered.follows(binding);
    }
    let token = facts.spec.reconcile.as_ref();
    let token = token.map(|reconcile| reconcile.token.as_str());
    let done = facts.status.last_reconcile_token.as_deref();
    remembered.asked_to_look(token, done, now);
    if facts.deleting {
        remembered.releasing_since.get_or_insert(now);
    }
    let key = facts.account(&remembered);
    let (account, seat) = account(context, &facts, &key);
    let seat = seat.map(|seat| Access::new(seat, facts.uid.as_str().into()));
    let mut seen = Observation {
        account,
        account_key: key,
        listing: None,
        task: Fact::NotAsked,
        following: None,
        look_again: None,
        detail: Fact::NotAsked,
        secret_version: secret_version(context, &facts),
        login: login::LoginFact::NotAsked,
        found: Found::default(),
        connection_version: facts
            .spec
            .connection_secret
            .as_ref()
            .and_then(|secret| version_of(context, &facts, &secret.name)),
        connection: ConnectionFact::NotAsked,
        room: Room::NotAsked,
        candidate: Fact::NotAsked,
        claim: Claim::NotAsked,
        rival: rival(context, &facts, seat.as_deref()),
        memory: remembered,
        now,
        // Whole seconds, as status keeps them: a fraction would look like a change at every turn.
        wall: chance::time_of_day(),
        day: chance::day(),
        facts,
    };
    // An object that others hold while it is deleted is no matter of ours any more.
    let ours = !seen.facts.deleting || seen.facts.is_held();
    if let Some(seat) = seat.as_ref().filter(|_| ours) {
        if seen.facts.places.is_empty() && seat.may_call(Lane::Urgent) {
            // Region or zone is given by name: without its code there is no listing to look at.
            references::find::place(&mut seen, seat, context).await;
            seen.facts.places.extend(seen.facts.here.clone());
        }
        attend(context, &seen.facts, &mut seen.memory, seat);
        seen.listing = Some(Listing::look(&seat.session.inventory, &seen.facts.places));
        let (id, listing) = (seen.facts.id(), seen.listing.as_ref());
        if id.is_some_and(|id| listing.is_some_and(|listing| listing.row(&id).is_some())) {
            seen.memory.shown_by.clone_from(&seat.credential);
        }
        take_back_gone(&mut seen);
        if seen.facts.deleting {
            look::at_release(&mut seen, seat, context).await;
        } else {
            look::at_server(&mut seen, seat, context).await;
        }
    }
    if seat.is_none() && seen.memory.attended.is_some() {
        let subject: Subject = seen.facts.uid.as_str().into();
        if is_withdrawn(&seen.account) {
            // It asks for no listing with a token that may not be used any more.
            context.sessions.leave(&subject);
            seen.memory.attended = None;
        } else {
            context.sessions.calm(&subject);
        }
        seen.memory.wants = Wants::default();
    }
    let confirmed = confirmed(&seen, seat.as_deref(), context);
    seen.memory.confirmed = seen.memory.confirmed.max(confirmed);
    open(memory).has_looked(&seen.memory);
    (seen, seat)
}

/// When the service showed last whether the recorded server is there. What the listings of a seat that cannot be used for now have
/// shown counts too.
fn confirmed(seen: &Observation, seat: Option<&Seat>, context: &Context) -> Option<Instant> {
    if matches!(seen.detail, Fact::Known(_) | Fact::Absent) {
        return Some(seen.now);
    }
    let id = seen.facts.told_id()?;
    let last = || context.sessions.last_seat(&seen.account_key, false);
    let last = match seat {
        Some(_) => None,
        None => last(),
    };
    let inventory = &seat.or(last.as_deref())?.session.inventory;
    match Listing::look(inventory, &seen.facts.places).sighting(&id) {
        Sighting::Present(_, at) | Sighting::Absent { began: at } => Some(at),
        Sighting::Unknown(_) => None,
    }
}

/// Reads what a plan asks for, each at most once a turn. Tells whether there is something new to plan from.
pub async fn learn(
    context: &Context,
    seen: &mut Observation,
    needs: &Needs,
    seat: Option<&Access>,
    memory: &Mutex<Memory>,
) -> bool {
    let Some(seat) = seat else { return false };
    if needs.is_for_a_call() && !seat.may_call(Lane::Urgent) {
        return false; // it stands in line, and is woken when it may
    }
    match needs {
        Needs::Login if matches!(seen.login, login::LoginFact::NotAsked) => {
            let key = references::key(seen).map(|key| key.id);
            seen.login = login::read(context, &seen.facts, key, seat).await;
            true
        }
        Needs::Room if seen.room == Room::NotAsked => {
            let roll = context.sessions.roll();
            let Facts { uid, .. } = &seen.facts;
            seen.room = roll.take(uid, &seen.account_key, seat.most, Instant::now());
            true
        }
        Needs::Candidate(id) if matches!(seen.candidate, Fact::NotAsked) => {
            look::at_candidate(seen, seat, context, id).await;
            references::find::package_on_sale(seen, seat, context).await;
            true
        }
        Needs::Claim(id) if seen.claim == Claim::NotAsked => {
            let marker = match &seen.candidate {
                Fact::Known(detail) => detail.name().and_then(Marker::in_name),
                Fact::NotAsked | Fact::Absent | Fact::Unknown(_) => None,
            };
            // Its own marker says that it is its own.
            let marker = marker.filter(|marker| *marker != seen.facts.marker);
            let (uid, account, marker) = (&seen.facts.uid, &seen.account_key, marker.as_ref());
            let sessions = &context.sessions;
            let backing = |say: &Say<'_>| sessions.backing(say, id, seat);
            seen.claim = sessions.roll().claim(uid, account, id, marker, backing);
            true
        }
        Needs::Detail if matches!(seen.detail, Fact::NotAsked) => {
            look::at_recorded(seen, seat, context).await;
            open(memory).has_looked(&seen.memory);
            true
        }
        Needs::References(scope) => references::find::references(seen, *scope, seat, context).await,
        Needs::Rotation => {
            let known = vault::since_when(context, &seen.facts, &mut seen.memory).await;
            open(memory).rotation.clone_from(&seen.memory.rotation);
            known.is_some() && known == seen.secret_version
        }
        Needs::Connection if matches!(seen.connection, ConnectionFact::NotAsked) => {
            connection::look(context, seen, seat).await;
            open(memory).connection.clone_from(&seen.memory.connection);
            true
        }
        Needs::Nothing
        | Needs::Login
        | Needs::Room
        | Needs::Candidate(_)
        | Needs::Claim(_)
        | Needs::Detail
        | Needs::Connection => false,
    }
}

/// Which seat the object uses. One that is being deleted goes on with the last usable seat, whatever became of Account
/// and Secret in the meantime, unless it is that very seat which the service refuses.
fn account(context: &Context, facts: &Facts, key: &ObjectKey) -> (AccountFact, Option<Arc<Seat>>) {
    let standing = context.sessions.standing(key);
    if let Standing::Usable(seat) = standing {
        return (AccountFact::Seat(seat_facts(&seat, facts)), Some(seat));
    }
    let refused =
        matches!(&standing, Standing::Unusable(problem) if problem.reason == Reason::TokenRefused);
    if facts.deleting
        && let Some(seat) = context.sessions.last_seat(key, refused)
    {
        return (AccountFact::Seat(seat_facts(&seat, facts)), Some(seat));
    }
    let fact = match standing {
        Standing::Unusable(problem) => AccountFact::Unusable(problem),
        Standing::NotFound => AccountFact::NotFound(key.name.clone()),
        Standing::Pending | Standing::Usable(_) => AccountFact::Pending,
    };
    (fact, None)
}

/// Whether the Secret consents to the use of its token no longer.
fn is_withdrawn(account: &AccountFact) -> bool {
    let AccountFact::Unusable(problem) = account else {
        return false;
    };
    matches!(
        problem.reason,
        Reason::SecretNotConsented | Reason::SecretBoundElsewhere
    )
}

fn secret_version(context: &Context, facts: &Facts) -> Option<String> {
    let reference = facts.login_secret()?;
    let version = version_of(context, facts, &reference.name)?;
    Some(login::named_version(&reference, &version))
}

/// UID and resourceVersion of a Secret of the Instance's namespace, if it exists.
fn version_of(context: &Context, facts: &Facts, name: &str) -> Option<String> {
    context.secrets.of(&ObjectKey {
        namespace: facts.key.namespace.clone(),
        name: name.to_owned(),
    })
}

/// Who has the better right to the server that this object took over.
fn rival(context: &Context, facts: &Facts, seat: Option<&Seat>) -> Rival {
    let id = facts.id().filter(|_| facts.imported().is_some());
    // Without a seat nothing is done to it.
    let Some((id, seat)) = id.zip(seat) else {
        return Rival::None;
    };
    let sessions = &context.sessions;
    let backing = |say: &Say<'_>| sessions.backing(say, &id, seat);
    sessions.roll().rival(&facts.uid, &id, backing)
}

fn seat_facts(seat: &Seat, facts: &Facts) -> SeatFacts {
    let bought_with = facts.binding().map(|binding| binding.credential.as_str());
    SeatFacts {
        settle: seat.settle,
        imports: seat.imports(),
        credential: seat
            .credential
            .clone()
            .or_else(|| bought_with.map(ToOwned::to_owned))
            .unwrap_or_default(),
        shown_ours: bought_with
            .is_some_and(|bought_with| seat.session.inventory.has_shown(bought_with)),
    }
}

/// Tells the inventory what this object needs of it; called before its views are looked at, so that nothing which
/// happens in between goes unnoticed. Listings of a former token look out for it no longer.
pub fn attend(context: &Context, facts: &Facts, memory: &mut Memory, seat: &Seat) {
    let wants = memory.wants;
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
        .attended
        .is_some_and(|number| number != seat.session.number)
    {
        context.sessions.leave(&subject);
    }
    memory.attended = Some(seat.session.number);
    seat.session.inventory.attend(&subject, interest);
}

/// A server that was taken for gone and is listed long afterwards is there: the word that it was gone was wrong.
fn take_back_gone(seen: &mut Observation) {
    let Some(listing) = &seen.listing else { return };
    let is_back = |id: &ServerId, since: Instant| {
        listing.row(id).is_some() && listing.began_after(since + GONE_FOR_SURE)
    };
    seen.memory
        .gone
        .retain(|id, (_, since)| !is_back(id, *since));
}

/// Whether the service says that no operation is running: `NONE` (field note 9), or nothing at all where it leaves the
/// field out.
pub fn is_idle(pending: Option<&str>) -> bool {
    pending.is_none_or(|word| word.is_empty() || word == "NONE")
}

/// Whether a server is off, and nothing is done to it.
pub fn is_off(detail: &Detail) -> bool {
    detail.status() == Some("STOPPED") && is_idle(detail.pending())
}

impl Observation {
    /// What the newest listing shows of a server.
    pub fn sight(&self, id: &ServerId) -> Option<Sight> {
        match self.listing.as_ref()?.sighting(id) {
            Sighting::Present(row, at) => Some(Sight {
                at,
                digest: row.digest(),
            }),
            Sighting::Absent { began } => Some(Sight {
                at: began,
                digest: 0,
            }),
            Sighting::Unknown(_) => None,
        }
    }

    /// Whether the detail was not asked for in this time, or never.
    pub fn has_not_looked_for(&self, time: Duration) -> bool {
        let looked = self.memory.looked;
        looked.is_none_or(|looked| self.now >= looked + time)
    }

    /// The task of the open operation: of the record, of status where the receipt of a harmless operation stands, or as the
    /// service told this process.
    pub fn task_id(&self) -> Option<TaskId> {
        let binding = self.facts.binding()?;
        let shown = self.facts.status.operation.as_ref();
        let shown = shown.filter(|shown| shown.attempt == i64::from(binding.attempt));
        self.facts
            .task()
            .or_else(|| shown?.task_id.as_deref().map(TaskId::from))
            .or_else(|| self.memory.told_task(binding).cloned())
    }

    /// The recorded server, unless it is somebody else's by right: then nothing is done to it.
    pub fn own_id(&self) -> Option<ServerId> {
        self.facts.id().filter(|_| self.rival == Rival::None)
    }

    /// The server whose release comes next: the recorded one, then one that this process was given, then any with the
    /// marker; those that are known to be gone are left out.
    pub fn release_target(&self) -> Option<ServerId> {
        let given = self.memory.given().map(|(_, id, _)| id.clone());
        let listed = self
            .listing
            .iter()
            .flat_map(|listing| listing.bearing(&self.facts.marker));
        let alive = |id: &ServerId| !self.memory.gone.contains_key(id);
        self.own_id()
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
}
