//! Resolved selectors: the pins in status, and those in the record of a server.

use crate::api::conditions::Readiness;
use crate::api::references::is_code;
use crate::api::{
    EndReason, InstanceSpec, InstanceStatus, PurchaseRecord, Resolved, ResolvedReference,
};
use crate::cloud::{Package, Place};
use crate::instance::fact::Fact;

/// The current pins: in status, and in the record of a server.
#[derive(Clone, Copy)]
pub struct Pins<'a> {
    told: Option<&'a Resolved>,
    recorded: Option<&'a Resolved>,
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

pub type Which = fn(&Resolved) -> Option<&ResolvedReference>;

impl Found {
    /// The first obstacle.
    pub fn trouble(&self) -> Option<&Readiness> {
        let all = [
            &self.region,
            &self.zone,
            &self.package,
            &self.firewall,
            &self.image,
            &self.key,
        ];
        let mut all = all.into_iter().flatten();
        all.find_map(|answer| answer.as_ref().err())
    }
}

impl Meaning {
    pub fn given(id: Option<&String>) -> Option<Self> {
        id.map(|id| Self {
            id: id.clone(),
            pin: None,
        })
    }

    pub fn pinned(pin: ResolvedReference) -> Self {
        Self {
            id: pin.id.clone(),
            pin: Some(pin),
        }
    }
}

impl<'a> Pins<'a> {
    pub fn of(status: &'a InstanceStatus, record: Option<&'a PurchaseRecord>) -> Self {
        let bought = bought(status, record);
        Self {
            told: status.resolved.as_ref(),
            recorded: bought.and_then(|record| record.resolved.as_ref()),
        }
    }

    pub fn get(self, which: Which, from: &str) -> Option<ResolvedReference> {
        let all = [self.told, self.recorded];
        let mut pins = all.into_iter().flatten().filter_map(which);
        pins.find(|pin| pin.from == from).cloned()
    }
}

/// The place in the spec, as far as it is known without a look-up.
pub fn place(
    spec: &InstanceSpec,
    status: &InstanceStatus,
    record: Option<&PurchaseRecord>,
) -> Option<Place> {
    let pins = Pins::of(status, record);
    let bought = bought(status, record);
    // A record without the name was made when the spec gave the code, or was rebuilt: then the recorded place counts.
    let recorded = |which: Which| {
        let unnamed = bought.filter(|record| {
            let pins = record.resolved.as_ref();
            pins.and_then(which).is_none()
        });
        unnamed.and_then(|record| record.places.last()?.split_once('/'))
    };
    let region = match is_code(&spec.region) {
        true => spec.region.clone(),
        false => pins
            .get(|pins| pins.region.as_ref(), &region_from(spec))
            .map(|pin| pin.id)
            .or_else(|| Some(recorded(|pins| pins.region.as_ref())?.0.to_owned()))?,
    };
    let zone = match is_code(&spec.zone) {
        true => spec.zone.clone(),
        false => pins
            .get(|pins| pins.zone.as_ref(), &zone_from(spec, &region))
            .map(|pin| pin.id)
            .or_else(|| Some(recorded(|pins| pins.zone.as_ref())?.1.to_owned()))?,
    };
    Some(Place { region, zone })
}

pub fn region_from(spec: &InstanceSpec) -> String {
    format!("name {:?}", spec.region)
}

pub fn zone_from(spec: &InstanceSpec, region: &str) -> String {
    format!("name {:?} in {region}", spec.zone)
}

/// The result of a look-up: the meaning of the selector, or the readiness to report.
pub type Answer = Result<ResolvedReference, Readiness>;

/// The results of this reconcile's look-ups.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub scope: Scope,
    pub region: Option<Answer>,
    pub zone: Option<Answer>,
    pub package: Option<Answer>,
    pub firewall: Option<Answer>,
    pub image: Option<Answer>,
    pub key: Option<Answer>,
    /// The package that the spec names by code, as the service sells it: looked up before an import.
    pub on_sale: Fact<Package>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    #[default]
    Nothing,
    /// The references that a reinstall needs: image and key pair.
    Installation,
    /// The references that a purchase needs: all.
    Purchase,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The service's identifier or code.
    pub id: String,
    /// The pin, if the spec does not give the identifier.
    pub pin: Option<ResolvedReference>,
}
