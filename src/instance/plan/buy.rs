//! No server is recorded: decides whether one may be bought, and never lets a second one be bought.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{PurchaseRecord, Verb, names};
use crate::instance::memory::call::CallState;
use crate::instance::memory::parts::Birth;
use crate::instance::observation::{Observation, of_purchase};
use crate::instance::plan::evidence::{Proof, plan_while_breaker_open, wait_for_listings};
use crate::instance::plan::observed::InSession;
use crate::instance::plan::purchase::{FormerOutcome, create, repeat};
use crate::instance::plan::step::{OrPlan, Plan, first};
use crate::instance::plan::{adopt, evidence, import, policy, recreate, words};
use crate::instance::times;
use tokio::time::Instant;

/// No attempt is recorded.
pub(super) fn begin(observed: &InSession<'_>) -> OrPlan<Plan> {
    before_a_purchase(observed, None)?;
    if let Some(import) = &observed.facts.spec.import {
        return import::plan(observed, import);
    }
    let memory = &observed.memory;
    let status = &observed.facts.status;
    let untouched = status.id.is_none() && status.operation.is_none() && status.attempt == 0;
    if memory.origin.birth == Birth::InThisTerm && untouched {
        // This process saw the object appear and never made a call for it, so no process can have bought a server. No listing is
        // needed. If the write of the intent failed a moment ago, the next try waits.
        let wait = memory.pace.not_before.filter(|at| *at > observed.now);
        return match wait {
            Some(at) => Ok(Plan::wait(at - observed.now)),
            None => create(observed, None),
        };
    }
    // A server with our marker may exist. If an attempt may be open, its settling time must pass first. If nothing shows an
    // attempt, its record may have been lost: wait until a server that it bought would be listed.
    let since = memory.origin.since;
    let doubtful = memory.origin.birth == Birth::Intended || !untouched;
    let settled = match doubtful {
        true => since.max(memory.settling_since().unwrap_or(since)) + observed.session.settle,
        false => since + times::LISTED_WITHIN,
    };
    if observed.listing.is_none() {
        // The first listing may show the server, so it is requested without waiting for the settling time.
        return Ok(wait_for_listings(observed, since, 1));
    }
    match evidence::proof(observed, None, settled) {
        // Status names a server that is not listed by name. A missing server is not proven gone, so nothing is bought in its place.
        Proof::Absent | Proof::AbsentInUnverifiedAccount if status.id.is_some() => {
            Ok(missing(observed))
        }
        // Without a record there is no credential to compare, so the account counts as ours.
        Proof::Absent | Proof::AbsentInUnverifiedAccount => create(observed, None),
        Proof::Open if doubtful => {
            let doubt = "a create may have been made whose record is lost; its outcome is unknown";
            Ok(unsettled(observed, doubt, settled))
        }
        Proof::Open => Ok(wait_for_listings(observed, settled, 2)),
    }
}

/// An attempt is recorded, and its server is not.
pub(super) fn go_on(observed: &InSession<'_>, record: &PurchaseRecord) -> OrPlan<Plan> {
    let attempt = observed.memory.attempt(record);
    before_a_purchase(observed, attempt.map(|attempt| attempt.since))?;
    // The settling time counts from the newest call: that of the attempt, or a later one.
    let since = observed.memory.settling_since().unwrap_or(observed.now);
    // The attempt's server existed, and a user removed its identifier from the record; or a later purchase is in doubt.
    let is_outdated =
        observed.facts.status.applied.is_some() || observed.memory.in_doubt_since(record).is_some();
    let Some(attempt) = attempt.filter(|_| !is_outdated) else {
        return settle(observed, record, since);
    };
    match &attempt.state {
        // A server that only a listing from before the attempt shows was not adopted; the next listing shows whether it exists.
        CallState::NotSent | CallState::Refused { .. } if !adopt::bearing(observed).is_empty() => {
            Ok(wait_for_listings(observed, since, 1))
        }
        CallState::Refused { message, reason }
            if !attempt.is_own || recreate::needs_proof_again(observed, record) =>
        {
            after_refusal(observed, record, since, (message, *reason))
        }
        // Certainly nothing was bought under this attempt, since this process knows the outcome of each call of the attempt: it
        // may make the call again.
        CallState::Refused { message, reason } => {
            pause(observed, record, (message, *reason))?;
            repeat(observed, record)
        }
        CallState::NotSent => repeat(observed, record),
        // `before_a_purchase` has recorded an accepted server, unless the server is known to be gone.
        CallState::Accepted { .. } | CallState::Unknown => settle(observed, record, since),
    }
}

/// The service refused the attempt, and the next attempt needs the listings first.
///
/// A former process recorded the refusal, and this one has not seen the listings. Or the refusal voids the proof of absence: then
/// the next attempt comes after a pause, and only passes that began after the pause count. If the token may see a region again by
/// then, they show the servers there.
fn after_refusal(
    observed: &InSession<'_>,
    record: &PurchaseRecord,
    since: Instant,
    refusal: (&str, Reason),
) -> OrPlan<Plan> {
    let spec = &observed.facts.spec;
    let is_void = recreate::needs_proof_again(observed, record);
    let recreated = observed.memory.origin.recreated;
    let buys_none = policy::restriction(observed).is_some()
        || spec.import.is_some()
        || recreate::called_off(observed, recreated).is_some();
    if is_void && buys_none {
        // `create` imports, or reports why nothing is bought.
        return create(observed, Some(FormerOutcome::Refused));
    }
    // If this process was refused as well, it keeps its own pause: two active processes must not alternate without a pause.
    pause(observed, record, refusal)?;
    let not_before = observed.memory.pace.not_before.filter(|_| is_void);
    let since = not_before.map_or(since, |at| at.max(since));
    match evidence::proof(observed, None, since) {
        Proof::AbsentInUnverifiedAccount if is_void => {
            let doubt = "the service refused the last create";
            let message = evidence::unverified_account_message(doubt, &words::another(spec));
            let readiness = Readiness::stalled(Reason::ServerMissing, message);
            Ok(Plan::rest(readiness, times::IDLE_REQUEUE))
        }
        Proof::Absent | Proof::AbsentInUnverifiedAccount => {
            create(observed, Some(FormerOutcome::Refused))
        }
        // The refusal was of an older spec.
        Proof::Open if record.generation != observed.facts.generation => {
            Ok(wait_for_listings(observed, since, 2))
        }
        Proof::Open => {
            let (message, reason) = refusal;
            let plan = Plan::rest(Readiness::refused(message, reason), times::PASS_RECHECK);
            Ok(plan.requesting_passes(since, 2))
        }
    }
}

/// The pause after a refusal, unless the pause is over, or the spec has changed since the refusal.
fn pause(
    observed: &Observation,
    record: &PurchaseRecord,
    (message, reason): (&str, Reason),
) -> OrPlan<()> {
    let is_current = record.generation == observed.facts.generation;
    let not_before = observed.memory.pace.not_before;
    match not_before.filter(|at| *at > observed.now && is_current) {
        Some(at) => Err(Box::new(Plan::rest(
            Readiness::refused(message, reason),
            at - observed.now,
        ))),
        None => Ok(()),
    }
}

/// The plan that comes before a purchase, if any: record a server that the service gave this process, adopt a server with our
/// marker that a listing from after `since` shows, or wait while the circuit breaker is open.
fn before_a_purchase(observed: &InSession<'_>, since: Option<Instant>) -> OrPlan<()> {
    first(adopt::accepted(observed))?;
    first(adopt::adopt(observed, since))?;
    first(plan_while_breaker_open(observed))
}

/// The outcome of an attempt is unknown since `since`: look for its server, and buy again only after a proof of absence.
fn settle(observed: &InSession<'_>, record: &PurchaseRecord, since: Instant) -> OrPlan<Plan> {
    let settled = since + observed.session.settle;
    let doubt = words::doubt(observed.memory.attempt(record), Verb::Create);
    match evidence::proof(observed, None, settled) {
        // The create had ended, so the server existed. A missing server is not proven gone.
        Proof::Absent if observed.facts.status.applied.is_some() => Ok(missing(observed)),
        Proof::Absent => create(observed, Some(FormerOutcome::Lost)),
        Proof::AbsentInUnverifiedAccount => Ok(evidence::wait_for_our_account(
            Reason::CreateUnconfirmed,
            &doubt,
            "delete the Instance",
        )),
        Proof::Open => Ok(unsettled(observed, &doubt, settled)),
    }
}

/// A server may exist: nothing is bought before the listings have proven that it does not.
fn unsettled(observed: &Observation, doubt: &str, settled: Instant) -> Plan {
    let name = names::server_name(&observed.facts.key.name, &observed.facts.marker);
    let until = words::until(observed, settled);
    let ending = match until.is_empty() {
        false => format!("{until} (settleSeconds), and nothing is bought before that"),
        true => format!(
            "; nothing is bought before two listings in a row are without it{}",
            words::unlisted(observed)
        ),
    };
    let message = format!("{doubt}: looking for a server named {name}{ending}");
    let why = Readiness::reconciling(Reason::CreateUnconfirmed, message);
    let why = Some(why).filter(|_| !recreate::is_called_off(observed));
    Plan::until_proven(why, observed, settled)
        .with_operation(observed.facts.purchase().map(of_purchase))
}

/// A server existed, no record names it, and no listing shows its name.
fn missing(observed: &Observation) -> Plan {
    let id = observed.facts.status.id.as_deref().unwrap_or_default();
    let message = format!(
        "no listing shows server {id} with its name, and it is on no record: if it was renamed, rename it back, or {}",
        words::another(&observed.facts.spec)
    );
    let readiness = Readiness::stalled(Reason::ServerMissing, message);
    Plan::rest(readiness, times::IDLE_REQUEUE)
}
