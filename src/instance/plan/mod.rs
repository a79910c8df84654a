//! Decides: a pure function of the observation. A plan has at most one step, and a reason unless status keeps its conditions.
//! Planning uses no client and no clock.
//!
//! [`step`] defines the plan. Each situation of an Instance has a file: [`buy`] while no server is recorded (with [`purchase`]),
//! [`adopt`] if a server exists nevertheless, [`import`] if one should be imported instead, [`steady`] while one is recorded,
//! [`failed_create`] if the create of the recorded server failed, [`surplus`] if there is a second server, [`replace`] if the
//! recorded one is missing, [`begin`] if it must change, [`follow`] while an operation is open, [`resolve`] if selectors have to
//! be resolved, [`secret`] for logins and the content of Secrets, and [`delete`] while the object is being deleted. [`policy`]
//! removes from every plan what the spec forbids.
//!
//! These files use [`diff`] (the applied state and the state in the spec), [`due`] (the operations that the difference requires,
//! and whether the disk may be erased), [`verbs`] (a row for each verb), [`attempt`] (the next number, and a new record),
//! [`cause`] (why an operation begins), [`observed`] (an observation with the values that a situation guarantees), [`recreate`]
//! (whether a lost server may be replaced), [`judge`] (the readiness), [`words`] (messages), [`ended`] (the ends of operations)
//! and [`evidence`] (conclusions about servers).

mod adopt;
mod attempt;
mod begin;
mod buy;
pub(super) mod cause;
pub(super) mod delete;
mod diff;
mod due;
pub(super) mod ended;
mod evidence;
mod failed_create;
mod follow;
mod import;
mod judge;
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
pub(super) mod words;

use crate::api::conditions::{Readiness, Reason};
use crate::instance::facts::Record;
use crate::instance::observation::{AccountFact, Observation};
use crate::instance::plan::evidence::is_current;
use crate::instance::plan::observed::{InSession, OnRecord};
use crate::instance::plan::step::{OrPlan, Plan, Step, either, first};
use crate::instance::times;
use crate::session::ConflictingOwner;
use std::time::Duration;

/// Plans one reconcile. If no other step is due, a generated login is renewed or the connection Secret is written. The spec's
/// restrictions apply last.
pub fn plan(observed: &Observation) -> Plan {
    let plan = secret::connect(observed, secret::renew(observed, either(decide(observed))));
    policy::restrained(observed, policy::with_requested_reads(observed, plan))
}

/// The next step. [`policy`] removes it afterwards if the spec forbids it.
fn decide(observed: &Observation) -> OrPlan<Plan> {
    let (facts, is_held) = (&observed.facts, observed.facts.is_held());
    if facts.deleted_at.is_some() && !is_held {
        // The object has only finalizers of others: our part is done.
        return Ok(Plan::wait(times::IDLE_REQUEUE));
    }
    if let Some(record) = facts.purchase().filter(|_| !is_held) {
        // The object is a restored backup, or a user removed the finalizer. The finalizer is added again before anything else;
        // otherwise the object could disappear and leave its server behind.
        let record = Box::new(record.clone());
        return Ok(Plan::act(Step::Record { record }));
    }
    first(delete::without_the_service(observed))?;
    let AccountFact::AccountSession(session) = &observed.account else {
        return Ok(without_account(observed));
    };
    if facts.id().is_some() && observed.conflicting_owner == ConflictingOwner::NotKnownYet {
        // Another Instance may have the better right to the server, so nothing is done to it.
        return Ok(Plan::wait(times::PASS_RECHECK));
    }
    first(resolve::first(observed))?;
    let in_session = InSession { observed, session };
    match (&facts.record, facts.deleting, facts.id()) {
        (Record::Invalid(why), _, _) => {
            let readiness = Readiness::stalled(Reason::RecordInvalid, why);
            Ok(Plan::rest(readiness, times::IDLE_REQUEUE))
        }
        (_, true, _) => delete::plan(&in_session),
        (Record::Speaks(record), false, Some(id)) => steady::plan(&OnRecord {
            in_session,
            record,
            id,
        }),
        (Record::Speaks(record), false, None) => buy::go_on(&in_session, record),
        (Record::None, false, _) => buy::begin(&in_session),
    }
}

/// There is no usable Account. If status describes the server for the current spec and no operation is open or due, status stays as
/// it is, and only the Account and the condition Synced report the problem.
fn without_account(observed: &Observation) -> Plan {
    let (name, namespace) = (&observed.account_key.name, &observed.facts.key.namespace);
    let (reason, message) = match &observed.account {
        // The Account wakes its Instances as soon as it has been reconciled. Its service may not answer for half a minute, so a
        // user who waits for a status of the current spec gets one.
        AccountFact::AccountSession(_) | AccountFact::Pending => {
            let message =
                format!("Account {name} has not been checked yet: its service has not answered");
            let reason = Reason::AccountPending;
            return waiting(observed, reason, message, times::IDLE_REQUEUE);
        }
        AccountFact::NotFound => (
            Reason::AccountNotFound,
            format!(
                "Account {name} does not exist in namespace {namespace}: create it; spec.accountRef can be changed only while no \
                 server can have been bought"
            ),
        ),
        AccountFact::Unusable(problem) => (
            problem.reason,
            format!("Account {name}: {}", problem.message),
        ),
    };
    let facts = &observed.facts;
    let is_steady = !facts.deleting && !observed.is_open() && !facts.status.detail.is_empty();
    let is_awaited = |record| steady::is_awaited(observed, record);
    let is_due = facts.purchase().is_some_and(is_awaited);
    if is_steady && is_current(observed) && !is_due {
        return Plan::wait(times::IDLE_REQUEUE);
    }
    Plan::rest(Readiness::reconciling(reason, message), times::IDLE_REQUEUE)
}

/// Replaces a plan that needs the service while it gets no slot or no permit for a request.
pub(super) fn in_line(observed: &Observation, planned: &Plan, again: Duration) -> Plan {
    let message = format!(
        "Account {} makes as many requests as its spec.requests allows, or its service answers slowly: this Instance \
         waits in the queue and continues automatically",
        observed.account_key.name
    );
    Plan {
        wants: planned.wants,
        ..waiting(observed, Reason::ClientRateLimited, message, again)
    }
}

/// Waits. Status reports this only while it does not refer to the current spec.
fn waiting(observed: &Observation, reason: Reason, message: String, again: Duration) -> Plan {
    match is_current(observed) {
        true => Plan::wait(again),
        false => Plan::rest(Readiness::progress(reason, message), again),
    }
}

#[cfg(test)]
mod tests;
