//! Decides: a pure function of what was observed. At most one step, always a reason, no client, no clock of its own.
//!
//! [`step`] is what a plan is. One file for each stretch of an Instance's way: [`buy`] while no server is recorded, [`found`] where
//! there is one all the same, [`import`] where one is to be taken over instead, [`keep`] while one is recorded, [`surplus`] where there
//! is a second one, [`replace`] when it is gone for good, [`begin`] when it is to become another than it is, [`pursue`] while such an
//! operation is open, [`refer`] where selectors are to be looked up, [`secret`] for what is kept in Secrets, and [`leave`] while the
//! object is being deleted. [`restraint`] takes out of every plan what the spec forbids. Below them stand [`diff`] (what of the spec
//! is not applied), [`due`] (which operation that calls for), [`erase`], [`judge`] (what is said of a server), [`ended`] (what became of
//! operations) and [`evidence`]. [`outlook`](mod@outlook) tells all that would come of an object before it is applied.

mod attempt;
mod begin;
mod buy;
pub(super) mod cause;
mod diff;
mod due;
pub(super) mod ended;
mod erase;
mod evidence;
mod found;
mod import;
mod judge;
mod keep;
pub(super) mod leave;
mod login;
pub mod outlook;
mod pursue;
mod recreate;
mod refer;
mod replace;
pub(super) mod restraint;
mod secret;
pub mod step;
mod surplus;
pub(super) mod words;

use crate::api::Binding;
use crate::api::conditions::{Reason, Verdict};
use crate::instance::facts::Record;
use crate::instance::observation::{AccountFact, Observation, SeatFacts};
use crate::instance::plan::evidence::is_told;
use crate::instance::plan::step::{NoRoom, Plan, Step, Tell};
use crate::instance::times;
use crate::session::Rival;

/// Plans one reconcile. What the operator keeps in Secrets comes when nothing else is to be done.
pub fn plan(seen: &Observation) -> Plan {
    let plan = secret::connect(seen, secret::renew(seen, decide(seen)));
    restraint::restrained(seen, restraint::looking(seen, plan))
}

/// Where an Instance stands. Each one has its own way on.
enum Situation<'a> {
    /// It is deleted, and others may hold it: our part is done.
    NotOurs,
    /// It is deleted, and that needs no look at the service.
    Leaving(Plan),
    /// It has a record and not our finalizer.
    NotHeld(&'a Binding),
    /// Its Account was not looked at yet, or cannot be used, or does not exist.
    WithoutAccount,
    /// Somebody else may have its server.
    RivalUnknown,
    /// What the spec's selectors mean has to be known first.
    Unresolved(Plan),
    /// The record was edited.
    Invalid(&'a str),
    /// It is being deleted.
    Deleting(&'a SeatFacts),
    /// A server is recorded.
    Recorded(&'a SeatFacts, &'a Binding),
    /// An attempt is recorded and its server is not.
    Attempted(&'a SeatFacts, &'a Binding),
    /// Nothing is recorded.
    New(&'a SeatFacts),
}

fn situation(seen: &Observation) -> Situation<'_> {
    let (facts, is_held) = (&seen.facts, seen.facts.is_held());
    let unheld = facts.binding().filter(|_| !facts.deleting && !is_held);
    let leaving = || leave::without_the_service(seen);
    match (&seen.account, unheld) {
        _ if facts.deleting && !is_held => Situation::NotOurs,
        (_, Some(binding)) => Situation::NotHeld(binding),
        (AccountFact::Seat(seat), None) => match leaving() {
            Some(plan) => Situation::Leaving(plan),
            None if seen.rival == Rival::NotYet => Situation::RivalUnknown,
            None => match refer::first(seen) {
                Some(plan) => Situation::Unresolved(plan),
                None => of_record(seen, seat),
            },
        },
        (_, None) => leaving().map_or(Situation::WithoutAccount, Situation::Leaving),
    }
}

fn of_record<'a>(seen: &'a Observation, seat: &'a SeatFacts) -> Situation<'a> {
    match (&seen.facts.record, seen.facts.deleting) {
        (Record::Invalid(why), _) => Situation::Invalid(why),
        (_, true) => Situation::Deleting(seat),
        (Record::Speaks(binding), false) if binding.id.is_some() => {
            Situation::Recorded(seat, binding)
        }
        (Record::Speaks(binding), false) => Situation::Attempted(seat, binding),
        (Record::None, false) => Situation::New(seat),
    }
}

/// What is to be done with the server, whether the spec lets it be done or not.
fn decide(seen: &Observation) -> Plan {
    match situation(seen) {
        Situation::NotOurs => Plan::rest(Tell::default(), times::IDLE_REQUEUE),
        Situation::Leaving(plan) | Situation::Unresolved(plan) => plan,
        Situation::NotHeld(binding) => hold_again(seen, binding),
        Situation::WithoutAccount => without_account(seen),
        // Nothing is done to the server until that is known.
        Situation::RivalUnknown => Plan::rest(Tell::default(), times::PASS_RECHECK),
        Situation::Invalid(why) => {
            let verdict = Verdict::stalled(Reason::BindingInvalid, why);
            Plan::rest(Tell::of(verdict), times::IDLE_REQUEUE)
        }
        Situation::Deleting(seat) => leave::plan(seen, seat),
        Situation::Recorded(seat, binding) => keep::plan(seen, seat, binding),
        Situation::Attempted(seat, binding) => buy::go_on(seen, seat, binding),
        Situation::New(seat) => buy::begin(seen, seat),
    }
}

/// A record without the finalizer (a backup that was restored, a finalizer removed by hand): before anything else the
/// object is held again, or it could vanish and leave its server behind.
fn hold_again(seen: &Observation, binding: &Binding) -> Plan {
    let tell = Tell::default().with_id(seen.facts.told_id());
    Plan::act(
        Step::Record {
            binding: Box::new(binding.clone()),
        },
        tell,
    )
}

/// There is no Account to use. That says nothing about a server: one that was seen, and on which nothing is to be done,
/// stays as it was seen, and the Account itself tells what is wrong.
fn without_account(seen: &Observation) -> Plan {
    let (reason, message) = match &seen.account {
        // The Account wakes its Instances as soon as it has been looked at.
        AccountFact::Seat(_) | AccountFact::Pending => {
            return Plan::rest(not_looked_at(seen), times::IDLE_REQUEUE);
        }
        AccountFact::NotFound(name) => (Reason::AccountNotFound, no_account(seen, name)),
        AccountFact::Unusable(problem) => {
            let message = format!("Account {}: {}", seen.account_key.name, problem.message);
            (problem.reason, message)
        }
    };
    let rests = !seen.facts.deleting && !seen.is_open();
    let was_seen = rests && !seen.facts.status.detail.is_empty();
    let waits = evidence::says(seen, Reason::WaitingForService);
    if was_seen && !waits && seen.facts.status.observed_generation == seen.facts.generation {
        return Plan::rest(Tell::default(), times::IDLE_REQUEUE);
    }
    Plan::rest(
        Tell::of(Verdict::reconciling(reason, message)),
        times::IDLE_REQUEUE,
    )
}

/// What is said where there is no such Account, with the remedy.
fn no_account(seen: &Observation, name: &str) -> String {
    let is_there = seen.facts.id().or_else(|| seen.facts.told_id()).is_some();
    let may_be =
        |attempt: &Binding| !seen.memory.nothing_bought(attempt) && !attempt.bought_nothing();
    let remedy = match seen.facts.binding() {
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
        seen.facts.key.namespace
    )
}

/// The Account's service may not answer for half a minute: whoever waits for a first word is told.
fn not_looked_at(seen: &Observation) -> Tell {
    if is_told(seen) {
        return Tell::default();
    }
    let message = format!(
        "Account {} has not been looked at yet: its service has not answered",
        seen.account_key.name
    );
    Tell::progress(Reason::AccountPending, message).with_id(seen.facts.told_id())
}

/// What was planned needs the service, which others of the Account call now: it waits in line, and is woken when it may. That
/// is told to whoever waits for a word about the spec.
pub(super) fn in_line(seen: &Observation, planned: &Plan, no_room: NoRoom) -> Plan {
    let tell = if is_told(seen) {
        Tell::default()
    } else {
        let message = format!(
            "Account {} makes as many requests as its spec.requests allows, or its service answers slowly: this Instance \
             waits in line, and goes on by itself",
            seen.account_key.name
        );
        Tell::progress(Reason::RequestLimitReached, message).with_id(seen.facts.told_id())
    };
    let again = match no_room {
        NoRoom::InLine => times::QUEUED_RECHECK,
        NoRoom::Late => times::AFTER_OWN_WRITE,
    };
    let mut plan = Plan::rest(tell, again);
    plan.wants = planned.wants;
    plan
}

#[cfg(test)]
mod tests;
