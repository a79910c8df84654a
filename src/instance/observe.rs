//! Looks; changes nothing and never fails. Each thing looked at is known, absent or unknown with a reason.

pub(super) mod login;
mod look;

use crate::api::Marker;
use crate::api::conditions::Reason;
use crate::cloud::{Lane, ServerId};
use crate::instance::context::Context;
use crate::instance::fact::{ConnectionFact, Fact};
use crate::instance::facts::Facts;
use crate::instance::listing::Listing;
use crate::instance::login::{LoginFact, named_version};
use crate::instance::memory::kinds::Wants;
use crate::instance::memory::{Memory, open};
use crate::instance::observation::{AccountFact, Observation, SeatFacts};
use crate::instance::pins::Found;
use crate::instance::plan::step::Needs;
use crate::instance::subscription::attend;
use crate::instance::{connection, references, times, vault};
use crate::inventory::{Sighting, Subject};
use crate::runtime::chance;
use crate::runtime::watch::ObjectKey;
use crate::session::{Access, Claim, Rival, Room, Say, Seat, Standing};
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

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
    remembered.origin.ever_intended |= facts.binding().is_none() && facts.tells_of_a_purchase();
    remembered.meet_operation(&facts, now);
    let token = facts.spec.reconcile.as_ref();
    let token = token.map(|reconcile| reconcile.token.as_str());
    let done = facts.status.last_reconcile_token.as_deref();
    remembered.asked_to_look(token, done, now);
    if facts.deleting {
        remembered.origin.releasing_since.get_or_insert(now);
    }
    let key = account_of(&facts, &remembered);
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
        login: LoginFact::NotAsked,
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
            seen.memory.looks.shown_by.clone_from(&seat.credential);
        }
        take_back_gone(&mut seen);
        if seen.facts.deleting {
            look::at_release(&mut seen, seat, context).await;
        } else {
            look::at_server(&mut seen, seat, context).await;
        }
    }
    if seat.is_none() && seen.memory.pace.attended.is_some() {
        let subject: Subject = seen.facts.uid.as_str().into();
        if is_withdrawn(&seen.account) {
            // It asks for no listing with a token that may not be used any more.
            context.sessions.leave(&subject);
            seen.memory.pace.attended = None;
        } else {
            context.sessions.calm(&subject);
        }
        seen.memory.pace.wants = Wants::default();
    }
    let confirmed = confirmed(&seen, seat.as_deref(), context);
    seen.memory.looks.confirmed = seen.memory.looks.confirmed.max(confirmed);
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
        Needs::Login if matches!(seen.login, LoginFact::NotAsked) => {
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
            open(memory)
                .secrets
                .rotation
                .clone_from(&seen.memory.secrets.rotation);
            known.is_some() && known == seen.secret_version
        }
        Needs::Connection if matches!(seen.connection, ConnectionFact::NotAsked) => {
            let wanted = connection::wanted(seen);
            let bears_password = wanted.is_some_and(|wanted| wanted.secret.is_some());
            if bears_password && matches!(seen.login, LoginFact::NotAsked) {
                let key = references::key(seen).map(|key| key.id);
                seen.login = login::read(context, &seen.facts, key, seat).await;
            }
            vault::connection::look(context, seen).await;
            open(memory)
                .secrets
                .connection
                .clone_from(&seen.memory.secrets.connection);
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

/// The Account that it uses: the one of the record, or of an attempt that this process remembers, as long as a server
/// may be there. While it is certain that nothing was bought, the one of the spec, so that a typing error can be
/// mended.
pub(super) fn account_of(facts: &Facts, memory: &Memory) -> ObjectKey {
    let recorded = facts
        .binding()
        .filter(|binding| !memory.nothing_bought(binding))
        .filter(|binding| !binding.bought_nothing() || memory.in_doubt_since(binding).is_some());
    let name = match recorded {
        Some(binding) => binding.account.as_str(),
        None if facts.binding().is_none() => memory
            .account_in_doubt()
            .unwrap_or(&facts.spec.account_ref.name),
        None => &facts.spec.account_ref.name,
    };
    ObjectKey {
        namespace: facts.key.namespace.clone(),
        name: name.to_owned(),
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
    Some(named_version(&reference, &version))
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

/// A server that was taken for gone and is listed long afterwards is there: the word that it was gone was wrong.
fn take_back_gone(seen: &mut Observation) {
    let Some(listing) = &seen.listing else { return };
    let is_back = |id: &ServerId, since: Instant| {
        listing.row(id).is_some() && listing.began_after(since + times::GONE_IS_CERTAIN_AFTER)
    };
    seen.memory
        .calls
        .gone
        .retain(|id, (_, since)| !is_back(id, *since));
}
