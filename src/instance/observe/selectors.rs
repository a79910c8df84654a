//! Looks up selectors in the service's lists. Reads only; an obstacle becomes a readiness.

use crate::api::{Reference, ResolvedReference};
use crate::catalog::{OfferList, Query, SpecReference, in_spec};
use crate::cloud::{List, Offer, Place};
use crate::instance::context::Context;
use crate::instance::fact::Fact;
use crate::instance::memory::call::CallState;
use crate::instance::observation::{Observation, text};
use crate::instance::pins::{self, LookUpScope};
use crate::instance::references::{meaning, meaning_at};
use crate::session::AccountSession;
use tokio::time::Instant;

/// Looks up the references of a purchase or a reinstall that are not known. Returns whether they had not been looked up before.
pub(super) async fn in_scope(
    observed: &mut Observation,
    scope: LookUpScope,
    session: &AccountSession,
    context: &Context,
) -> bool {
    if observed.found.scope >= scope {
        return false;
    }
    observed.found.scope = scope;
    let references = match scope {
        LookUpScope::Purchase => &Reference::ALL[..],
        LookUpScope::Installation | LookUpScope::Nothing => &Reference::OF_INSTALLATION,
    };
    look_up(observed, references, session, context).await;
    true
}

/// Looks up region and zone.
pub(super) async fn place(observed: &mut Observation, session: &AccountSession, context: &Context) {
    let references = [Reference::Region, Reference::Zone];
    look_up(observed, &references, session, context).await;
}

/// Looks up the references that are not known, one after another until the first obstacle.
async fn look_up(
    observed: &mut Observation,
    references: &[Reference],
    session: &AccountSession,
    context: &Context,
) {
    for reference in references.iter().copied() {
        let mut place = observed.facts.place();
        if let Some(region) = meaning(observed, Reference::Region) {
            place.region = region.id;
        }
        let spec = observed.facts.spec.clone();
        let written = in_spec(&spec, reference, &place);
        if let (Some(SpecReference::Selector(from)), None) =
            (written, meaning_at(observed, reference, &place))
        {
            let query = Query {
                spec: &spec,
                reference,
                place: &place,
                current: &current(observed, reference),
                newer_than: refused_at(observed),
            };
            let answer = query.resolve(&session.shared.catalog).await;
            let is_token_refused = answer.as_ref().is_err_and(|why| why.unauthorized);
            context.note_failure(&observed.account_key, is_token_refused);
            let answer = answer.map(|id| ResolvedReference { id, from });
            let answer = answer.map_err(|why| why.readiness);
            let is_obstacle = answer.is_err();
            observed.found.answers.insert(reference, answer);
            if is_obstacle {
                return;
            }
        }
        if let (Reference::Zone, Some(zone)) = (reference, meaning_at(observed, reference, &place))
        {
            let region = place.region;
            observed.facts.here = Some(Place {
                region,
                zone: zone.id,
            });
        }
    }
}

/// When the service refused the recorded purchase. An older list may offer something that is sold out or gone.
fn refused_at(observed: &Observation) -> Option<Instant> {
    let record = observed.facts.purchase()?;
    let attempt = observed.memory.attempt(record)?;
    matches!(attempt.state, CallState::Refused { .. }).then_some(attempt.since)
}

/// The images or keys that the server has: as shown, as last applied, and as bought.
fn current(observed: &Observation, reference: Reference) -> Vec<String> {
    let facts = &observed.facts;
    let shown = text(observed.fields(), "imageResourceUUID").map(ToOwned::to_owned);
    let requested = pins::bought(&facts.status, facts.purchase()).map(|record| &record.target);
    let targets = facts.status.applied.iter().chain(requested);
    match reference {
        Reference::Image => {
            let images = targets.map(|target| target.image.clone());
            shown.into_iter().chain(images).collect()
        }
        Reference::SshKey => targets.filter_map(|target| target.key.clone()).collect(),
        Reference::Region | Reference::Zone | Reference::Package | Reference::Firewall => vec![],
    }
}

/// Looks up the package that the spec names by code, once the server to compare with it has been read.
pub(super) async fn package_on_sale(
    observed: &mut Observation,
    session: &AccountSession,
    context: &Context,
) {
    let Some(code) = observed.facts.spec.package.code.clone() else {
        return;
    };
    if !matches!(observed.candidate, Fact::Known(_)) {
        return;
    }
    let row = |list: &OfferList| -> Option<Offer> {
        list.rows.iter().find(|row| row.id == code).cloned()
    };
    let (catalog, place) = (&session.shared.catalog, observed.facts.place());
    let packages = List::Packages {
        region: place.region,
        zone: Some(place.zone),
    };
    let listed = catalog.list(&packages, |list| row(list).is_some()).await;
    observed.found.on_sale = match listed {
        Ok(list) => row(&list).map_or(Fact::Absent, Fact::Known),
        Err(unread) => {
            context.note_failure(&observed.account_key, unread.unauthorized);
            Fact::Unknown(unread.why)
        }
    };
}
