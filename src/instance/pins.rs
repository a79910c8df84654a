//! The meaning of references that is known without a look-up: identifiers, and the pins in status and record.
//!
//! Status has the pins, and the record has those of the purchase. A pin is valid for exactly the selector that it resolves.

use crate::api::conditions::Readiness;
use crate::api::{
    EndReason, InstanceSpec, InstanceStatus, PurchaseRecord, Reference, ResolvedReference,
};
use crate::catalog::{SpecReference, in_spec};
use crate::cloud::{Offer, Place};
use crate::instance::fact::Fact;
use std::collections::BTreeMap;

/// The service's identifier or code for a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    pub id: String,
    /// The pin, if the spec has a selector.
    pub pin: Option<ResolvedReference>,
}

impl From<ResolvedReference> for Meaning {
    fn from(pin: ResolvedReference) -> Self {
        Self {
            id: pin.id.clone(),
            pin: Some(pin),
        }
    }
}

/// The record of an existing server, not of one that a failed create left behind.
pub fn bought<'a>(
    status: &InstanceStatus,
    record: Option<&'a PurchaseRecord>,
) -> Option<&'a PurchaseRecord> {
    let has_failed = |record: &PurchaseRecord| {
        let end = status.end_of(record);
        end.is_some_and(|end| end.reason == EndReason::Failed)
    };
    record.filter(|record| record.id.is_some() && !has_failed(record))
}

/// The meaning of a reference, if the spec has it and no look-up is needed.
pub fn known(
    spec: &InstanceSpec,
    status: &InstanceStatus,
    record: Option<&PurchaseRecord>,
    reference: Reference,
    place: &Place,
) -> Option<Meaning> {
    let from = match in_spec(spec, reference, place)? {
        SpecReference::Id(id) => {
            let id = id.to_owned();
            return Some(Meaning { id, pin: None });
        }
        SpecReference::Selector(from) => from,
    };
    let bought = bought(status, record);
    let recorded = bought.and_then(|record| record.resolved.as_ref());
    let pins = [status.resolved.as_ref(), recorded].into_iter().flatten();
    let mut pins = pins.filter_map(|pins| pins.get(reference));
    let pin = pins.find(|pin| pin.from == from).cloned();
    let unpinned = || {
        let id = unpinned(bought?, reference)?;
        Some(ResolvedReference { id, from })
    };
    pin.or_else(unpinned).map(Meaning::from)
}

/// The value that was bought, if the record has it without its selector: the record was rebuilt, or the spec had a code then.
fn unpinned(record: &PurchaseRecord, reference: Reference) -> Option<String> {
    let pins = record.resolved.as_ref();
    let is_pinned = pins.is_some_and(|pins| pins.get(reference).is_some());
    let place = record.places.last().and_then(|place| place.split_once('/'));
    let value = match reference {
        Reference::Region => place?.0,
        Reference::Zone => place?.1,
        Reference::Package => &record.package,
        Reference::Firewall => record.firewall.as_deref()?,
        Reference::Image | Reference::SshKey => return None,
    };
    (!is_pinned && !value.is_empty()).then(|| value.to_owned())
}

/// The place in the spec, if no look-up is needed.
pub fn place(
    spec: &InstanceSpec,
    status: &InstanceStatus,
    record: Option<&PurchaseRecord>,
) -> Option<Place> {
    let code = |reference, place: &Place| known(spec, status, record, reference, place);
    let mut place = Place::new("", "");
    place.region = code(Reference::Region, &place)?.id;
    place.zone = code(Reference::Zone, &place)?.id;
    Some(place)
}

/// The result of a look-up: the meaning of the selector, or the readiness to report.
pub type LookUpResult = Result<ResolvedReference, Readiness>;

/// The results of this reconcile's look-ups.
#[derive(Clone, Debug, Default)]
pub struct LookUps {
    pub scope: LookUpScope,
    pub answers: BTreeMap<Reference, LookUpResult>,
    /// The package that the spec names by code, as the service sells it: looked up before an import.
    pub on_sale: Fact<Offer>,
}

impl LookUps {
    /// The first obstacle.
    pub fn trouble(&self) -> Option<&Readiness> {
        self.answers
            .values()
            .find_map(|answer| answer.as_ref().err())
    }
}

/// Which references were looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LookUpScope {
    #[default]
    Nothing,
    /// The references that a reinstall needs: image and key pair.
    Installation,
    /// The references that a purchase needs: all.
    Purchase,
}
