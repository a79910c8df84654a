//! A purchase: its call and its record, which continues the counts of the attempts before it.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{PurchaseRecord, counted, names};
use crate::cloud::ServerId;
use crate::instance::observation::Observation;
use crate::instance::plan::attempt::{blank, creating};
use crate::instance::plan::evidence::wait_for_listings;
use crate::instance::plan::observed::InSession;
use crate::instance::plan::secret::login;
use crate::instance::plan::step::{OrPlan, Plan, Step};
use crate::instance::plan::{attempt, cause, diff, import, policy, recreate, resolve};
use crate::instance::times;
use crate::session::{Limit, QuotaState};

/// The outcome of the attempt before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FormerOutcome {
    /// It bought nothing.
    Refused,
    /// It got no answer, and its server does not exist.
    Lost,
    /// Its task failed.
    Failed,
    /// Its server was released externally.
    Released,
}

/// Announces an attempt and makes its call, or reports why the spec allows none. With `spec.import`, it imports instead. `former`:
/// the outcome of the recorded attempt.
pub(super) fn create(observed: &InSession<'_>, former: Option<FormerOutcome>) -> OrPlan<Plan> {
    let account = &observed.account_key.name;
    let specified = &observed.facts.spec.account_ref.name;
    if account != specified {
        return Ok(of_another_account(account, specified));
    }
    if let Some(import) = &observed.facts.spec.import {
        return import::plan(observed, import);
    }
    let record = record(observed, former);
    // The login is not read for a purchase that the spec forbids.
    let forbidden = match policy::restriction(observed) {
        Some(_) => Some(policy::not_bought()),
        None => recreate::called_off(observed, record.recreated),
    };
    if let Some(readiness) = forbidden {
        return Ok(Plan::rest(readiness, times::IDLE_REQUEUE));
    }
    if former.is_none() {
        wait_for_other_cluster(observed)?;
    }
    resolve::purchase(observed)?;
    send(observed, record, true)
}

/// Repeats the call of a recorded attempt that bought nothing. If the spec or the meaning of its selectors has changed, or the
/// record shows a refusal, this is a new attempt.
pub(super) fn repeat(observed: &InSession<'_>, record: &PurchaseRecord) -> OrPlan<Plan> {
    let changed = record.generation != observed.facts.generation;
    // The spec may forbid a purchase by now; check that before resolving its values. A record that shows a refusal allows no
    // further call either.
    let is_closed = record.refused.is_some();
    let wants_none =
        policy::restriction(observed).is_some() || observed.facts.spec.import.is_some();
    if changed || is_closed || wants_none {
        return create(observed, Some(FormerOutcome::Refused));
    }
    resolve::purchase(observed)?;
    login(observed)?;
    // Send only what the intent recorded; a selector may have another meaning by now.
    if resolve::is_other(&blank(observed), record) {
        return create(observed, Some(FormerOutcome::Refused));
    }
    send(observed, record.clone(), false)
}

/// Makes the call of an attempt with the login of the spec.
fn send(observed: &Observation, mut record: PurchaseRecord, announce: bool) -> OrPlan<Plan> {
    let login = login(observed)?;
    quota(observed)?;
    record.target = diff::as_read(observed, &login);
    record.waiting_password = login.is_waiting();
    let step = Step::Buy {
        record: Box::new(record),
        announce,
    };
    let why = Readiness::progress(Reason::Creating, creating(observed));
    Ok(Plan::act(step).because(Some(why)))
}

/// The record of a new attempt. It counts at least the replacements that this process remembers, even if the cluster's state went
/// back since.
fn record(observed: &InSession<'_>, former: Option<FormerOutcome>) -> PurchaseRecord {
    let Some((before, former)) = observed.facts.purchase().zip(former) else {
        let mut record = blank(observed);
        record.recreated = record.recreated.max(recreate::reported(observed));
        return record;
    };
    let mut record = attempt::following(observed, before);
    let is_released = former == FormerOutcome::Released;
    record.cause = Some(cause::of_purchase(before, is_released));
    match former {
        FormerOutcome::Refused => {}
        FormerOutcome::Lost => record.lost = record.lost.saturating_add(1),
        FormerOutcome::Failed => record.failed = record.failed.saturating_add(1),
        // The replacement starts over, so failures before the lost server do not count.
        FormerOutcome::Released => {
            record.failed = 0;
            record.recreated = record.recreated.saturating_add(1);
        }
    }
    record
}

/// The record comes from another cluster and names a listed server that no Instance here has. Either the manifest is a copy that
/// needs its own server, or the fleet is being moved. Status reports this for a while before the purchase. The wait begins once
/// status has the report, and begins again after a restart.
fn wait_for_other_cluster(observed: &Observation) -> OrPlan<()> {
    let Some(record) = &observed.recorded_by_other_cluster else {
        return Ok(());
    };
    let origin = &observed.memory.origin;
    let reported = origin.other_cluster_reported_since.as_deref();
    let left = reported
        .map(|at| (*at + times::REPORTED_BEFORE_PURCHASE).saturating_duration_since(observed.now));
    if left.is_some_and(|left| left.is_zero()) {
        return Ok(());
    }
    let since = origin.since;
    let listing = observed.listing.as_ref();
    let Some(listing) = listing.filter(|listing| listing.is_whole(since)) else {
        return Err(Box::new(wait_for_listings(observed, since, 1)));
    };
    let listed = record.id.as_deref().map(ServerId::from);
    let Some(id) = listed.filter(|id| listing.row(id).is_some()) else {
        return Ok(());
    };
    let message = format!(
        "the record on this Instance is from another cluster, and no Instance here has its server {id}: nothing is bought for {} \
         minutes after this report, and another server after that; to keep {id}, set spec.import.id to it, or stop the operator \
         of that cluster and run this one with --cluster-id {}; to buy at once, remove the annotation {}",
        times::REPORTED_BEFORE_PURCHASE.as_secs() / 60,
        record.cluster,
        names::BINDING
    );
    let readiness = Readiness::reconciling(Reason::RecordedByOtherCluster, message);
    let again = left.unwrap_or(times::PASS_RECHECK);
    Err(Box::new(Plan::rest(readiness, again)))
}

/// A server of an earlier attempt may still show up in the account of that attempt, and the spec now names another Account.
fn of_another_account(account: &str, specified: &str) -> Plan {
    let message = format!(
        "an attempt was made with Account {account}, the spec names {specified}: set spec.accountRef back; for a server of \
         {specified}, add an Instance with another name"
    );
    let readiness = Readiness::drifted(Reason::SpecChangedAfterPurchase, message);
    Plan::rest(readiness, times::IDLE_REQUEUE)
}

/// Checks that the Account's limits allow one more server; otherwise returns the plan that waits. Called last, so that an
/// Instance that waits for something else does not count as waiting for a limit.
fn quota(observed: &Observation) -> OrPlan<()> {
    let account = &observed.account_key.name;
    let plan = match observed.quota {
        QuotaState::Free => return Ok(()),
        QuotaState::Reached(Limit::Instances, allowed, again) => {
            let message = format!(
                "Account {account} may have {} with a server (spec.maxInstances), and at least as many have one or are about \
                 to have one: delete one that is not needed, or raise the limit",
                counted(allowed, "Instance")
            );
            let readiness = Readiness::reconciling(Reason::AccountLimitReached, message);
            Plan::rest(readiness, again)
        }
        QuotaState::Reached(Limit::Creates, allowed, again) => {
            let message = format!(
                "Account {account} may buy {} a minute (spec.createRate.perMinute), and as many creates were sent: this Instance \
                 continues automatically",
                counted(allowed, "server")
            );
            Plan::rest(
                Readiness::progress(Reason::CreateRateReached, message),
                again,
            )
        }
    };
    Err(Box::new(plan))
}
