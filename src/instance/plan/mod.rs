//! Decides: a pure function of the observation. A plan has at most one step and always a reason; planning uses no client and no
//! clock.
//!
//! [`step`] defines the plan. Each situation of an Instance has a file: [`buy`] while no server is recorded (with [`purchase`]), [`adopt`] if one
//! exists nevertheless, [`import`] if one should be imported instead, [`steady`] while one is recorded, [`failed_create`] if its create failed, [`surplus`] if
//! there is a second one, [`replace`] if it is gone for good, [`begin`] if it must change, [`follow`] while an operation is open,
//! [`resolve`] if selectors have to be resolved, [`secret`] for the content of Secrets, and [`delete`] while the object is being
//! deleted. [`policy`] removes from every plan what the spec forbids. They use [`diff`] (the applied state and the spec's),
//! [`due`] (the operations that the difference requires), [`erase`] (whether the disk may be erased), [`verbs`] (a row for each verb), [`attempt`] (number and
//! nonce), [`cause`] (why an operation begins), [`login`], [`observed`], [`recreate`] (whether a lost server is bought again), [`judge`] (the
//! readiness), [`words`], [`ended`] (the ends of operations) and [`evidence`].

mod adopt;
mod attempt;
mod begin;
mod buy;
pub(super) mod cause;
pub(super) mod delete;
mod diff;
mod due;
pub(super) mod ended;
mod erase;
mod evidence;
mod failed_create;
mod follow;
mod import;
mod judge;
mod login;
mod observed;
mod policy;
mod purchase;
mod recreate;
mod replace;
mod resolve;
mod secret;
mod steady;
pub mod step;
mod surplus;
pub(super) mod verbs;
pub mod why;
pub(super) mod words;

use crate::api::PurchaseRecord;
use crate::api::conditions::{Readiness, Reason};
use crate::instance::facts::Record;
use crate::instance::observation::{AccountFact, Observation};
use crate::instance::plan::evidence::is_current;
use crate::instance::plan::observed::{InSession, OnRecord};
use crate::instance::plan::step::{NoRoom, Plan, Step, either};
use crate::instance::plan::why::Why;
use crate::instance::times;
use crate::session::ConflictingOwner;

/// Plans one reconcile. Changes of Secrets come last, when no other step is due.
pub fn plan(observed: &Observation) -> Plan {
    let plan = secret::connect(observed, secret::renew(observed, decide(observed)));
    policy::restrained(observed, policy::with_requested_reads(observed, plan))
}

/// The situation of an Instance, each with its own next step.
enum Situation<'a> {
    /// It is being deleted and has other finalizers only: our part is done.
    NotOurs,
    /// It is being deleted, and that needs no read of the service.
    Leaving(Plan),
    /// It has a record, and lacks our finalizer.
    NotHeld(&'a PurchaseRecord),
    /// Its Account does not exist, is not usable, or has had no reconcile.
    WithoutAccount,
    /// Another Instance may have the better right to its server.
    OwnerUnknown,
    /// The spec's selectors must be resolved first.
    Unresolved(Plan),
    /// A user edited the record into something invalid.
    Invalid(&'a str),
    /// It is being deleted.
    Deleting(InSession<'a>),
    /// A server is recorded.
    Recorded(OnRecord<'a>),
    /// An attempt is recorded, and its server is not.
    Attempted(InSession<'a>, &'a PurchaseRecord),
    /// Nothing is recorded.
    New(InSession<'a>),
}

fn situation(observed: &Observation) -> Situation<'_> {
    let (facts, is_held) = (&observed.facts, observed.facts.is_held());
    let unheld = facts.purchase().filter(|_| !facts.deleting && !is_held);
    let leaving = || delete::without_the_service(observed);
    match (&observed.account, unheld) {
        _ if facts.deleting && !is_held => Situation::NotOurs,
        (_, Some(record)) => Situation::NotHeld(record),
        (AccountFact::AccountSession(session), None) => match leaving() {
            Some(plan) => Situation::Leaving(plan),
            None if facts.id().is_some()
                && observed.conflicting_owner == ConflictingOwner::NotKnownYet =>
            {
                Situation::OwnerUnknown
            }
            None => match resolve::first(observed) {
                Some(plan) => Situation::Unresolved(plan),
                None => of_record(InSession { observed, session }),
            },
        },
        (_, None) => leaving().map_or(Situation::WithoutAccount, Situation::Leaving),
    }
}

fn of_record(in_session: InSession<'_>) -> Situation<'_> {
    let facts = &in_session.observed.facts;
    match (&facts.record, facts.deleting) {
        (Record::Invalid(why), _) => Situation::Invalid(why),
        (_, true) => Situation::Deleting(in_session),
        (Record::Speaks(record), false) => match facts.id() {
            Some(id) => Situation::Recorded(OnRecord {
                in_session,
                record,
                id,
            }),
            None => Situation::Attempted(in_session, record),
        },
        (Record::None, false) => Situation::New(in_session),
    }
}

/// The next step for the server, regardless of the spec's restrictions.
fn decide(observed: &Observation) -> Plan {
    match situation(observed) {
        Situation::NotOurs => Plan::wait(times::IDLE_REQUEUE),
        Situation::Leaving(plan) | Situation::Unresolved(plan) => plan,
        Situation::NotHeld(record) => hold_again(observed, record),
        Situation::WithoutAccount => without_account(observed),
        // The operator does nothing to the server until that is known.
        Situation::OwnerUnknown => Plan::wait(times::PASS_RECHECK),
        Situation::Invalid(why) => {
            let readiness = Readiness::stalled(Reason::RecordInvalid, why);
            Plan::rest(readiness, times::IDLE_REQUEUE)
        }
        Situation::Deleting(observed) => delete::plan(&observed),
        Situation::Recorded(observed) => steady::plan(&observed),
        Situation::Attempted(observed, record) => either(buy::go_on(&observed, record)),
        Situation::New(observed) => either(buy::begin(&observed)),
    }
}

/// A record without the finalizer (a restored backup, or a finalizer that a user removed). Before anything else the finalizer is
/// added again; otherwise the object could disappear and leave its server behind.
fn hold_again(observed: &Observation, record: &PurchaseRecord) -> Plan {
    let record = Box::new(record.clone());
    Plan::act(Step::Record { record }).with_id(observed.facts.status_id())
}

/// There is no usable Account, which shows nothing about the server. If the server was observed and no operation is due, status
/// stays as it is, and the Account reports the problem.
fn without_account(observed: &Observation) -> Plan {
    let (reason, message) = match &observed.account {
        // The Account wakes its Instances as soon as it has been reconciled.
        AccountFact::AccountSession(_) | AccountFact::Pending => {
            return not_looked_at(observed);
        }
        AccountFact::NotFound(name) => (Reason::AccountNotFound, no_account(observed, name)),
        AccountFact::Unusable(problem) => {
            let message = format!("Account {}: {}", observed.account_key.name, problem.message);
            (problem.reason, message)
        }
    };
    let facts = &observed.facts;
    let was_seen = !facts.deleting && !observed.is_open() && !facts.status.detail.is_empty();
    let mut record = facts.purchase().into_iter();
    let is_due = record.any(|record| steady::is_awaited(observed, record));
    if was_seen && is_current(observed) && !is_due {
        return Plan::wait(times::IDLE_REQUEUE);
    }
    Plan::rest(Readiness::reconciling(reason, message), times::IDLE_REQUEUE)
}

/// The message for a missing Account, with the remedy.
fn no_account(observed: &Observation, name: &str) -> String {
    let is_there = observed
        .facts
        .id()
        .or_else(|| observed.facts.status_id())
        .is_some();
    let may_be = |attempt: &PurchaseRecord| {
        !observed.memory.nothing_bought(attempt) && !attempt.bought_nothing()
    };
    let remedy = match observed.facts.purchase() {
        _ if is_there => {
            "create it again: spec.accountRef cannot be changed once there is a server"
        }
        Some(attempt) if may_be(attempt) => {
            "create it again: with it a server may have been bought, so spec.accountRef cannot be changed"
        }
        _ => "create it, or name another one in spec.accountRef",
    };
    format!(
        "Account {name} does not exist in namespace {}: {remedy}",
        observed.facts.key.namespace
    )
}

/// An Account's service may not answer for half a minute, so a user who waits for a first status gets one.
fn not_looked_at(observed: &Observation) -> Plan {
    if is_current(observed) {
        return Plan::wait(times::IDLE_REQUEUE);
    }
    let message = format!(
        "Account {} has not been looked at yet: its service has not answered",
        observed.account_key.name
    );
    Plan::rest(
        Why::progress(Reason::AccountPending, message),
        times::IDLE_REQUEUE,
    )
    .with_id(observed.facts.status_id())
}

/// The plan needs the service, and other Instances of the Account hold all slots. The Instance waits in line and is woken when it
/// gets one. Status reports this to a user who waits for an answer to an edit.
pub(super) fn in_line(observed: &Observation, planned: &Plan, no_room: NoRoom) -> Plan {
    let again = match no_room {
        NoRoom::InLine => times::QUEUED_RECHECK,
        NoRoom::Late => times::AFTER_OWN_WRITE,
    };
    let plan = if is_current(observed) {
        Plan::wait(again)
    } else {
        let message = format!(
            "Account {} makes as many requests as its spec.requests allows, or its service answers slowly: this Instance \
             waits in line, and goes on by itself",
            observed.account_key.name
        );
        let why = Why::progress(Reason::ClientRateLimited, message);
        Plan::rest(why, again).with_id(observed.facts.status_id())
    };
    Plan {
        wants: planned.wants,
        ..plan
    }
}

#[cfg(test)]
mod tests;
