//! Decides: a pure function of what was observed. At most one step, always a reason, no client, no clock of its own.
//!
//! [`step`] is what a plan is. One file for each stretch of an Instance's way: [`buy`] while no server is recorded, [`adopt`]
//! where there is one all the same, [`import`] where one is to be taken over instead, [`steady`] while one is recorded,
//! [`surplus`] where there is a second one, [`replace`] when it is gone for good, [`begin`] when it is to become another than it
//! is, [`follow`] while such an operation is open, [`resolve`] where selectors are to be looked up, [`secret`] for what is kept
//! in Secrets, and [`delete`] while the object is being deleted. [`policy`] takes out of every plan what the spec forbids. Below
//! them stand [`diff`] (what was applied, and what the spec asks for), [`due`] (which operation the difference calls for),
//! [`erase`] (whether the disk may be erased), [`attempt`] (its number and nonce), [`cause`] (what asked for it), [`login`],
//! [`recreate`] (whether a server that is gone is bought again), [`judge`] (what is said of a server), [`words`], [`ended`] (what
//! became of operations) and [`evidence`]. [`preview`](mod@preview) tells all that would come of an object before it is applied.

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
mod follow;
mod import;
mod judge;
mod login;
pub(super) mod policy;
pub mod preview;
mod recreate;
mod replace;
mod resolve;
mod secret;
mod steady;
pub mod step;
mod surplus;
pub(super) mod words;

use crate::api::PurchaseRecord;
use crate::api::conditions::{Readiness, Reason};
use crate::instance::facts::Record;
use crate::instance::observation::{AccountFact, Observation, SessionFacts};
use crate::instance::plan::evidence::is_told;
use crate::instance::plan::step::{NoRoom, Plan, StatusUpdate, Step};
use crate::instance::times;
use crate::session::Rival;

/// Plans one reconcile. What the operator keeps in Secrets comes when nothing else is to be done.
pub fn plan(observed: &Observation) -> Plan {
    let plan = secret::connect(observed, secret::renew(observed, decide(observed)));
    policy::restrained(observed, policy::looking(observed, plan))
}

/// Where an Instance stands. Each one has its own way on.
enum Situation<'a> {
    /// It is deleted, and others may hold it: our part is done.
    NotOurs,
    /// It is deleted, and that needs no look at the service.
    Leaving(Plan),
    /// It has a record and not our finalizer.
    NotHeld(&'a PurchaseRecord),
    /// Its Account was not looked at yet, or cannot be used, or does not exist.
    WithoutAccount,
    /// Somebody else may have its server.
    RivalUnknown,
    /// What the spec's selectors mean has to be known first.
    Unresolved(Plan),
    /// The record was edited.
    Invalid(&'a str),
    /// It is being deleted.
    Deleting(&'a SessionFacts),
    /// A server is recorded.
    Recorded(&'a SessionFacts, &'a PurchaseRecord),
    /// An attempt is recorded and its server is not.
    Attempted(&'a SessionFacts, &'a PurchaseRecord),
    /// Nothing is recorded.
    New(&'a SessionFacts),
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
            None if observed.rival == Rival::NotYet => Situation::RivalUnknown,
            None => match resolve::first(observed) {
                Some(plan) => Situation::Unresolved(plan),
                None => of_record(observed, session),
            },
        },
        (_, None) => leaving().map_or(Situation::WithoutAccount, Situation::Leaving),
    }
}

fn of_record<'a>(observed: &'a Observation, session: &'a SessionFacts) -> Situation<'a> {
    match (&observed.facts.record, observed.facts.deleting) {
        (Record::Invalid(why), _) => Situation::Invalid(why),
        (_, true) => Situation::Deleting(session),
        (Record::Speaks(record), false) if record.id.is_some() => {
            Situation::Recorded(session, record)
        }
        (Record::Speaks(record), false) => Situation::Attempted(session, record),
        (Record::None, false) => Situation::New(session),
    }
}

/// What is to be done with the server, whether the spec lets it be done or not.
fn decide(observed: &Observation) -> Plan {
    match situation(observed) {
        Situation::NotOurs => Plan::rest(StatusUpdate::default(), times::IDLE_REQUEUE),
        Situation::Leaving(plan) | Situation::Unresolved(plan) => plan,
        Situation::NotHeld(record) => hold_again(observed, record),
        Situation::WithoutAccount => without_account(observed),
        // Nothing is done to the server until that is known.
        Situation::RivalUnknown => Plan::rest(StatusUpdate::default(), times::PASS_RECHECK),
        Situation::Invalid(why) => {
            let readiness = Readiness::stalled(Reason::BindingInvalid, why);
            Plan::rest(StatusUpdate::of(readiness), times::IDLE_REQUEUE)
        }
        Situation::Deleting(session) => delete::plan(observed, session),
        Situation::Recorded(session, record) => steady::plan(observed, session, record),
        Situation::Attempted(session, record) => buy::go_on(observed, session, record),
        Situation::New(session) => buy::begin(observed, session),
    }
}

/// A record without the finalizer (a backup that was restored, a finalizer removed by hand): before anything else the
/// object is held again, or it could vanish and leave its server behind.
fn hold_again(observed: &Observation, record: &PurchaseRecord) -> Plan {
    let update = StatusUpdate::default().with_id(observed.facts.status_id());
    Plan::act(
        Step::Record {
            record: Box::new(record.clone()),
        },
        update,
    )
}

/// There is no Account to use. That says nothing about a server: one that was seen, and on which nothing is to be done,
/// stays as it was seen, and the Account itself tells what is wrong.
fn without_account(observed: &Observation) -> Plan {
    let (reason, message) = match &observed.account {
        // The Account wakes its Instances as soon as it has been looked at.
        AccountFact::AccountSession(_) | AccountFact::Pending => {
            return Plan::rest(not_looked_at(observed), times::IDLE_REQUEUE);
        }
        AccountFact::NotFound(name) => (Reason::AccountNotFound, no_account(observed, name)),
        AccountFact::Unusable(problem) => {
            let message = format!("Account {}: {}", observed.account_key.name, problem.message);
            (problem.reason, message)
        }
    };
    let rests = !observed.facts.deleting && !observed.is_open();
    let was_seen = rests && !observed.facts.status.detail.is_empty();
    let waits = evidence::says(observed, Reason::WaitingForService);
    if was_seen && !waits && observed.facts.status.observed_generation == observed.facts.generation
    {
        return Plan::rest(StatusUpdate::default(), times::IDLE_REQUEUE);
    }
    Plan::rest(
        StatusUpdate::of(Readiness::reconciling(reason, message)),
        times::IDLE_REQUEUE,
    )
}

/// What is said where there is no such Account, with the remedy.
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

/// The Account's service may not answer for half a minute: whoever waits for a first word is told.
fn not_looked_at(observed: &Observation) -> StatusUpdate {
    if is_told(observed) {
        return StatusUpdate::default();
    }
    let message = format!(
        "Account {} has not been looked at yet: its service has not answered",
        observed.account_key.name
    );
    StatusUpdate::progress(Reason::AccountPending, message).with_id(observed.facts.status_id())
}

/// What was planned needs the service, which others of the Account call now: it waits in line, and is woken when it may. That
/// is told to whoever waits for a word about the spec.
pub(super) fn in_line(observed: &Observation, planned: &Plan, no_room: NoRoom) -> Plan {
    let update = if is_told(observed) {
        StatusUpdate::default()
    } else {
        let message = format!(
            "Account {} makes as many requests as its spec.requests allows, or its service answers slowly: this Instance \
             waits in line, and goes on by itself",
            observed.account_key.name
        );
        StatusUpdate::progress(Reason::RequestLimitReached, message)
            .with_id(observed.facts.status_id())
    };
    let again = match no_room {
        NoRoom::InLine => times::QUEUED_RECHECK,
        NoRoom::Late => times::AFTER_OWN_WRITE,
    };
    let mut plan = Plan::rest(update, again);
    plan.wants = planned.wants;
    plan
}

#[cfg(test)]
mod tests;
