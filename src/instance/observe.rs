//! Reads the service and the apiserver. Failures become `Unknown` facts.
//!
//! First, region and zone are resolved if the spec gives them by name. Then everything that this process knows already is gathered
//! without a call. Then each read that [`reads::due`] names is performed, until one cannot be; its answer may make another one due.

mod perform;
pub(super) mod reads;
mod selectors;

use crate::api::conditions::Reason;
use crate::api::{PurchaseRecord, Verb};
use crate::cloud::ServerId;
use crate::credentials::{LoginFact, named_version};
use crate::instance::context::Context;
use crate::instance::fact::Fact;
use crate::instance::facts::Facts;
use crate::instance::memory::look::Poll;
use crate::instance::memory::parts::Birth;
use crate::instance::memory::{Memory, lock};
use crate::instance::observation::{AccountFact, Observation, SessionFacts, is_idle};
use crate::instance::pins::LookUps;
use crate::instance::plan::step::NeededRead;
use crate::instance::poll_schedule::PollSchedule;
use crate::instance::subscription::subscribe;
use crate::instance::times;
use crate::inventory::{InstanceUid, Sighting, ZoneViews};
use crate::runtime::chance;
use crate::runtime::strings::shared;
use crate::runtime::watch::ObjectKey;
use crate::session::{
    AccountSession, AccountState, ConflictingOwner, QuotaState, ReconcileSession,
};
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

/// Reads everything that the object's state requires. Changes nothing at the apiserver or the service.
pub async fn observe(
    context: &Context,
    facts: Facts,
    memory: &Mutex<Memory>,
) -> (Observation, Option<ReconcileSession>) {
    let (mut observed, session) = without_reads(context, facts, memory);
    // An object in deletion without our finalizer no longer concerns the operator.
    let ours = observed.facts.deleted_at.is_none() || observed.facts.is_held();
    if let Some(session) = session.as_ref().filter(|_| ours) {
        if observed.facts.places.is_empty() && session.may_call(observed.facts.call_priority()) {
            // The spec gives region or zone by name, and a listing needs their codes.
            selectors::place(&mut observed, session, context).await;
            observed.facts.places.extend(observed.facts.here.clone());
        }
        gather(&mut observed, session, context);
        let priority = reads::priority(&observed);
        while let Some(read) = reads::due(&observed)
            && perform::perform(context, &mut observed, &read, priority, session).await
        {}
    }
    if session.is_none() {
        unsubscribe(context, &observed);
    }
    let former = observed.memory.observations.confirmed;
    observed.memory.observations.confirmed = former.max(confirmed(&observed, context));
    store(context, &observed, memory);
    (observed, session)
}

/// Performs the read that a plan needs. Returns whether there is something new to plan with.
pub async fn read_for_plan(
    context: &Context,
    observed: &mut Observation,
    read: Option<&NeededRead>,
    session: Option<&ReconcileSession>,
    memory: &Mutex<Memory>,
) -> bool {
    let (Some(read), Some(session)) = (read, session) else {
        return false;
    };
    let priority = observed.facts.call_priority();
    let is_new = perform::perform(context, observed, read, priority, session).await;
    store(context, observed, memory);
    is_new
}

fn store(context: &Context, observed: &Observation, memory: &Mutex<Memory>) {
    let mut memory = lock(memory);
    // If the cluster's state went back meanwhile, the observation may be of the former state.
    if observed.epoch == context.memories.epoch() {
        memory.store(&observed.memory);
    }
}

/// Adds what this process knows about the server without a call: the listings, and the answers to earlier reads.
fn gather(observed: &mut Observation, session: &AccountSession, context: &Context) {
    subscribe(context, &observed.facts, None, session);
    let listing = ZoneViews::of_places(&session.shared.inventory, &observed.facts.places);
    // A server that counted as gone and is listed long afterwards exists: the earlier answer was wrong.
    let is_back = |id: &ServerId, since: Instant| {
        listing.row(id).is_some() && listing.began_after(since + times::GONE_IS_CERTAIN_AFTER)
    };
    let is_open = observed.is_open();
    let memory = &mut observed.memory;
    let releases = &mut memory.releases;
    releases.retain(|id, release| release.gone().is_none_or(|(_, since)| !is_back(id, since)));
    if let Some((row, at)) = observed.facts.id().and_then(|id| listing.row(&id)) {
        let observations = &mut memory.observations;
        observations.shown_by.clone_from(&session.credential);
        if !is_idle(row.pending.as_deref()) && observations.look.at.is_none_or(|last| at > last) {
            observations.look.was_busy();
        }
        // The listing agrees with status, so forget the row of the last read: if a later listing shows that row again, it shows a
        // change.
        if !is_open && row.agrees_with(&observed.facts.status.detail) {
            observations.look.row = None;
        }
    }
    observed.listing = Some(listing);
    follow(observed, session);
}

/// Finds the task to follow: that of the release, or of the open operation.
fn follow(observed: &mut Observation, session: &AccountSession) {
    let (memory, now) = (&observed.memory, observed.now);
    let followed = if observed.facts.deleting {
        let id = observed.release_target();
        let call = id.as_ref().and_then(|id| memory.release_call(id));
        let call = call.filter(|call| call.accepted);
        call.map(|call| (Verb::Release, call.task.clone(), Some(call.at)))
    } else {
        let open = observed.open();
        open.map(|open| (open.call(), observed.task_id(), memory.began(&open)))
    };
    observed.memory.observations.poll = match followed {
        Some((verb, task, began)) => {
            observed.schedule = PollSchedule::of(session, verb);
            let former = observed.memory.observations.poll.take();
            task.map(|task| Poll::of(former, task, verb, began, now))
        }
        None => None,
    };
    if let Some(poll) = &observed.memory.observations.poll {
        observed.task = poll.answer.clone();
    }
}

/// The memory, updated for this object and this instant.
fn remembered(facts: &Facts, memory: &Mutex<Memory>, now: Instant) -> Memory {
    let mut remembered = lock(memory).clone();
    remembered.apply(facts.purchase(), now);
    // Status reports a purchase, and its record is lost. Remember that from the first observation on, regardless of later
    // statuses.
    if facts.purchase().is_none() && facts.shows_open_purchase() {
        remembered.origin.birth = Birth::Intended;
    }
    remembered.apply_operation(facts, now);
    let token = facts.spec.reconcile.as_ref();
    let token = token.map(|reconcile| reconcile.token.as_str());
    let done = facts.status.last_reconcile_token.as_deref();
    remembered.reconcile_requested(token, done, now);
    remembered
}

/// An observation before any read, and the session of the object's Account.
fn without_reads(
    context: &Context,
    facts: Facts,
    memory: &Mutex<Memory>,
) -> (Observation, Option<ReconcileSession>) {
    let (now, epoch) = (Instant::now(), context.memories.epoch());
    let memory = remembered(&facts, memory, now);
    let account_key = account_of(&facts, &memory);
    let (account, session) = account(context, &facts, &account_key);
    let imported = facts.id().filter(|_| facts.imported().is_some());
    let mut conflicting_owner = ConflictingOwner::None;
    let mut quota = QuotaState::Free;
    if let Some(session) = &session {
        let owners = context.sessions.owners();
        quota = owners.check(&facts.uid, &account_key, session.limits);
        if let Some(id) = imported {
            conflicting_owner = context.sessions.conflicting_owner(&facts.uid, &id, session);
        }
    }
    let login = facts.login_secret();
    let secret_key = |name: &str| ObjectKey::new(&facts.key.namespace, name);
    let version = |name: &str| context.secrets.of(&secret_key(name));
    let session = session.map(|session| ReconcileSession::new(session, facts.uid.as_str().into()));
    let observed = Observation {
        account,
        account_key,
        listing: None,
        task: Fact::NotRead,
        schedule: PollSchedule::default(),
        detail: Fact::NotRead,
        secret_version: login.as_ref().and_then(|login| {
            let version = version(&login.name)?;
            Some(named_version(login, &version))
        }),
        secret_is_unmarked: login
            .is_some_and(|login| context.secrets.is_unmarked(&secret_key(&login.name))),
        login: LoginFact::of(&facts.spec),
        found: LookUps::default(),
        connection_version: (facts.spec.connection_secret.as_ref())
            .and_then(|secret| version(&secret.name)),
        quota,
        candidate: Fact::NotRead,
        conflicting_owner,
        recorded_by_other_cluster: recorded_by_other_cluster(context, &facts),
        memory,
        epoch,
        now,
        // Whole seconds, as in status: a fraction would look like a change in every reconcile.
        wall_clock: chance::time_of_day(),
        day: chance::day(),
        facts,
    };
    (observed, session)
}

/// When the service last showed whether the recorded server exists. The listings of an account session that is not usable now
/// count too.
fn confirmed(observed: &Observation, context: &Context) -> Option<Instant> {
    if observed.look().was_answered_since(observed.now) {
        return Some(observed.now);
    }
    let (id, sessions) = (observed.facts.status_id()?, &context.sessions);
    let sighting = match &observed.listing {
        Some(listing) => listing.sighting(&id),
        None => {
            let last = sessions.last_account_session(&observed.account_key, false)?;
            ZoneViews::of_places(&last.shared.inventory, &observed.facts.places).sighting(&id)
        }
    };
    match sighting {
        Sighting::Present(_, at) | Sighting::Absent { began: at } => Some(at),
        Sighting::Unknown(_) => None,
    }
}

/// Without an account session the object needs no listings beyond the regular ones.
fn unsubscribe(context: &Context, observed: &Observation) {
    let subject: InstanceUid = shared(&observed.facts.uid);
    let is_withdrawn = matches!(&observed.account, AccountFact::Unusable(problem)
        if matches!(problem.reason, Reason::SecretUseNotAllowed | Reason::SecretEndpointMismatch));
    if is_withdrawn {
        // The Secret no longer consents to the use of its token, so no listing may be requested with it.
        context.sessions.leave(&subject, None);
    } else {
        context.sessions.expect_no_change(&subject);
    }
}

/// The Account that the object uses: the one on record, or of an attempt that this process remembers, while a server may exist
/// there. If certainly nothing was bought, it is the one in the spec, so that a user can fix a typo.
pub(super) fn account_of(facts: &Facts, memory: &Memory) -> ObjectKey {
    let in_spec = facts.spec.account_ref.name.as_str();
    let may_have_bought = |record: &PurchaseRecord| {
        !memory.nothing_bought(record)
            && (!record.bought_nothing() || memory.in_doubt_since(record).is_some())
    };
    let name = match facts.purchase() {
        Some(record) if may_have_bought(record) => record.account.as_str(),
        Some(_) => in_spec,
        None => memory.account_in_doubt().map_or(in_spec, |account| account),
    };
    ObjectKey::new(&facts.key.namespace, name)
}

/// The account session that the object uses. An object in deletion keeps the last usable account session, even if Account or
/// Secret changed or disappeared since, unless the service refuses the token of that session. A protected one keeps it while an
/// operation is open.
fn account(
    context: &Context,
    facts: &Facts,
    key: &ObjectKey,
) -> (AccountFact, Option<Arc<AccountSession>>) {
    let state = context.sessions.state_of(key);
    let session = match &state {
        AccountState::Usable(session) => Some(session.clone()),
        _ if !(facts.deleting || facts.is_protected() && facts.is_open()) => None,
        state => {
            let is_refused = matches!(state, AccountState::Unusable(problem)
                if problem.reason == Reason::TokenRefused);
            context.sessions.last_account_session(key, is_refused)
        }
    };
    let fact = match (&session, state) {
        (Some(session), _) => AccountFact::AccountSession(session_facts(session, facts)),
        (None, AccountState::Unusable(problem)) => AccountFact::Unusable(problem),
        (None, AccountState::NotFound) => AccountFact::NotFound,
        (None, AccountState::Pending | AccountState::Usable(_)) => AccountFact::Pending,
    };
    (fact, session)
}

/// The record that another cluster wrote, unless another Instance here has its server.
fn recorded_by_other_cluster(context: &Context, facts: &Facts) -> Option<Box<PurchaseRecord>> {
    let (annotation, cluster) = (facts.annotation.as_deref()?, &context.cluster);
    if facts.purchase().is_some() || cluster.is_empty() {
        return None;
    }
    let record = PurchaseRecord::parse(annotation).ok()?;
    let id = ServerId::from(record.id.clone().filter(|_| record.cluster != *cluster)?);
    let owner = context.sessions.owners().owner(&id, None);
    let is_free = owner.is_none_or(|owner| owner == facts.key);
    is_free.then(|| Box::new(record))
}

fn session_facts(session: &AccountSession, facts: &Facts) -> SessionFacts {
    let bought_with = facts.purchase().map(|record| record.credential.as_str());
    SessionFacts {
        settle: session.settle,
        imports: session.spec().imports,
        utc_offset: session.utc_offset,
        credential: session
            .credential
            .clone()
            .unwrap_or_else(|| shared(bought_with.unwrap_or_default())),
        former_credential: session.former_credential.clone(),
        knows_our_account: bought_with.is_some_and(|bought_with| {
            let inventory = &session.shared.inventory;
            let mut places = facts.places.iter();
            !facts.places.is_empty()
                && places.all(|place| inventory.has_shown(bought_with, &place.region))
        }),
    }
}
