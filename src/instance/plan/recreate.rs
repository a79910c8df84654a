//! Whether a server may be bought to replace one that was released externally, and the readiness if not.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{EndReason, OnExternalDeletion, PurchaseRecord};
use crate::instance::memory::call::CallState;
use crate::instance::observation::Observation;
use crate::instance::plan::{evidence, words};

/// Whether the service refused this attempt for lack of rights, which voids the proof of absence before it: to a token without
/// rights in a region, the service lists the region as empty, although a server that was bought before is there. If no create
/// before this attempt can have bought a server, no proof is needed.
pub(super) fn needs_proof_again(observed: &Observation, record: &PurchaseRecord) -> bool {
    let recreated = observed.memory.origin.recreated;
    let may_have_bought = recreated > 0 || record.lost > 0 || record.failed > 0;
    let attempt = observed.memory.attempt(record);
    let Some(CallState::Refused { reason, .. }) = attempt.map(|attempt| &attempt.state) else {
        return false;
    };
    may_have_bought && *reason == Reason::TokenRefused
}

/// Whether the spec forbids the replacement, and status refers to this spec. Then that report stays in status: a process that has
/// observed less would show a wait for a proof instead, and later the same report again.
pub(super) fn is_called_off(observed: &Observation) -> bool {
    let recreated = observed.memory.origin.recreated.max(reported(observed));
    evidence::is_current(observed) && called_off(observed, recreated).is_some()
}

/// The number of replacements, including the next one, according to the end (`ServerGone`) in `status.operation`.
pub(super) fn reported(observed: &Observation) -> u32 {
    let newest = observed.facts.status.operation.as_ref();
    let end = newest.and_then(|newest| newest.end.as_ref());
    let end = end.filter(|end| end.reason == EndReason::ServerGone);
    end.map_or(0, |end| end.times)
}

/// The readiness if the spec forbids a replacement. `recreated`: the number of replacements, including this one.
pub(super) fn called_off(observed: &Observation, recreated: u32) -> Option<Readiness> {
    let spec = &observed.facts.spec;
    if recreated == 0 {
        return None;
    }
    let another = words::another(spec);
    if spec.on_external_deletion != OnExternalDeletion::Recreate {
        let message = format!(
            "the server that this Instance had is gone, and nothing is bought in its place, since spec.onExternalDeletion is \
             Fail: set it to Recreate, or {another}"
        );
        return Some(Readiness::stalled(Reason::ServerMissing, message));
    }
    let exceeds_limit = i64::from(recreated) > i64::from(spec.recreate_limit);
    exceeds_limit.then(|| {
        let message = format!(
            "the server that this Instance had is gone, and spec.recreateLimit ({}) allows no further purchase in its place: \
             find out who released it, then raise spec.recreateLimit, or {another}",
            spec.recreate_limit
        );
        Readiness::stalled(Reason::RecreateLimitReached, message)
    })
}
