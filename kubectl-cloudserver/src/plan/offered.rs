//! Identifiers and codes of a spec that the service does not list.
//!
//! The operator sends identifiers unchecked, and the service refuses a mistyped one. `plan` reports it before the apply.

use super::verdict::{Effect, Finding};
use cloud_server_operator::api::conditions::Reason;
use cloud_server_operator::api::{InstanceSpec, Reference};
use cloud_server_operator::catalog::{Catalog, Query, SpecReference, in_spec};
use cloud_server_operator::cloud::Place;

/// Replaces the purchase, or without one the steps that erase a disk, by refusals if the service does not list what the spec names
/// for them. Returns the messages of failed lookups.
pub(super) async fn refuse(
    catalog: &Catalog,
    place: Option<&Place>,
    spec: &InstanceSpec,
    effects: &mut Vec<Finding>,
) -> Vec<String> {
    let has = |wanted: Effect| effects.iter().any(|finding| finding.effect == wanted);
    let (effect, reason, references) = if has(Effect::NewServer) {
        let all = &Reference::ALL[..];
        (Effect::NewServer, Reason::CreateRefused, all)
    } else if has(Effect::ErasesDisk) {
        let all = &Reference::OF_INSTALLATION[..];
        (Effect::ErasesDisk, Reason::OperationRefused, all)
    } else {
        return Vec::new();
    };
    let (mut refusals, mut doubts) = (Vec::new(), Vec::new());
    for reference in references.iter().copied() {
        let Some(place) = place else { break };
        if !matches!(in_spec(spec, reference, place), Some(SpecReference::Id(_))) {
            continue;
        }
        let query = Query {
            spec,
            reference,
            place,
            current: &[],
            newer_than: None,
        };
        let Err(unresolved) = query.resolve(catalog).await else {
            continue;
        };
        let why = unresolved.readiness.message;
        if unresolved.readiness.reason == Reason::ReferenceLookupFailed {
            doubts.push(why);
            continue;
        }
        refusals.push(Finding::reported(Effect::Refused, reason, why));
        if matches!(reference, Reference::Region | Reference::Zone) {
            break; // nothing else can be looked up there
        }
    }
    if !refusals.is_empty() {
        effects.retain(|finding| finding.effect != effect);
        effects.append(&mut refusals);
    }
    doubts
}
