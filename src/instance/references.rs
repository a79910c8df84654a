//! The meaning of the references in a spec, from pins, from the server, and from the look-ups of this reconcile.
//!
//! Nothing is pinned before the purchase: a package that is sold out disappears from the list, and the next try takes another one.
//! An existing server keeps its values while they match, so that neither a lost pin nor a new image with the same name causes a
//! reinstall.

use crate::api::{Reference, Resolved, ResolvedReference};
use crate::catalog::{SpecReference, in_spec};
use crate::cloud::Place;
use crate::instance::facts::Facts;
use crate::instance::observation::{Observation, text};
use crate::instance::pins::{self, Meaning};

/// The meaning of a reference, if the spec has it and its meaning is known.
pub fn meaning(observed: &Observation, reference: Reference) -> Option<Meaning> {
    meaning_at(observed, reference, &observed.facts.place())
}

/// As [`meaning`], in this place: the one in the spec may not be resolved yet.
pub fn meaning_at(observed: &Observation, reference: Reference, place: &Place) -> Option<Meaning> {
    let Facts { spec, status, .. } = &observed.facts;
    let known = pins::known(spec, status, observed.facts.purchase(), reference, place);
    if known.is_some() {
        return known;
    }
    let SpecReference::Selector(from) = in_spec(spec, reference, place)? else {
        return None;
    };
    if let (Reference::Image, Some(id)) = (reference, shown_image(observed)) {
        return Some(ResolvedReference { id, from }.into());
    }
    let answer = observed.found.answers.get(&reference)?.as_ref().ok();
    let answer = answer.filter(|pin| pin.from == from).cloned();
    answer.map(Meaning::from)
}

pub fn id(observed: &Observation, reference: Reference) -> Option<String> {
    meaning(observed, reference).map(|meaning| meaning.id)
}

/// Whether the spec has a reference whose meaning is not known.
pub fn is_unresolved(observed: &Observation, references: &[Reference]) -> bool {
    let (spec, place) = (&observed.facts.spec, &observed.facts.place());
    let is_open = |reference: &Reference| {
        in_spec(spec, *reference, place).is_some() && meaning(observed, *reference).is_none()
    };
    references.iter().any(is_open)
}

/// Whether image or key pair is unknown, so that the server cannot be compared with the spec.
pub fn installation_is_unresolved(observed: &Observation) -> bool {
    is_unresolved(observed, &Reference::OF_INSTALLATION)
}

/// The image that the server shows, if the selector matches it.
fn shown_image(observed: &Observation) -> Option<String> {
    let facts = &observed.facts;
    pins::bought(&facts.status, facts.purchase())?;
    let fields = observed.fields();
    let shown = ["imageName", "osDistroVersion", "imageType"].map(|field| text(fields, field));
    let fits = facts.spec.image.fits(shown[0], shown[1], shown[2]);
    let id = text(fields, "imageResourceUUID").filter(|_| fits)?;
    Some(id.to_owned())
}

/// The pins of the current spec, as far as known. A pin that is not known now keeps its former value.
pub fn pins(observed: &Observation) -> Option<Resolved> {
    let facts = &observed.facts;
    let former = facts.status.resolved.as_ref();
    let mut pins = Resolved::default();
    for reference in Reference::ALL {
        let written = in_spec(&facts.spec, reference, &facts.place());
        if matches!(written, Some(SpecReference::Selector(_))) {
            let pin = meaning(observed, reference).and_then(|meaning| meaning.pin);
            let former = || former?.get(reference).cloned();
            pins.set(reference, pin.or_else(former));
        }
    }
    pins.if_any()
}
