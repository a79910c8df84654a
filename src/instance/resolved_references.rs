//! What the selectors of a spec were found to mean: pins of status, and of the record of a server.

use crate::api::conditions::Readiness;
use crate::api::references::is_code;
use crate::api::{
    EndReason, InstanceSpec, InstanceStatus, PurchaseRecord, Resolved, ResolvedReference,
};
use crate::cloud::{Package, Place};
use crate::instance::fact::Fact;

/// The pins that stand: of status, and of the record of a server.
#[derive(Clone, Copy)]
pub struct Pins<'a> {
    told: Option<&'a Resolved>,
    recorded: Option<&'a Resolved>,
}

/// The record of a server that is there: not of one that its failed create left behind.
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
    /// What stands in the way, the first thing first.
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

/// Where the spec wants the server, as far as it can be told without looking it up.
pub fn place(
    spec: &InstanceSpec,
    status: &InstanceStatus,
    record: Option<&PurchaseRecord>,
) -> Option<Place> {
    let pins = Pins::of(status, record);
    let bought = bought(status, record);
    // A record that knows no name was made when the spec gave the code, or was rebuilt: the place is the recorded one.
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

/// What one look-up gave: what the selector means, or what is to be said about it.
pub type Answer = Result<ResolvedReference, Readiness>;

/// What was looked up in this turn.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// How much was looked up.
    pub scope: Scope,
    /// The region.
    pub region: Option<Answer>,
    /// The zone.
    pub zone: Option<Answer>,
    /// The package.
    pub package: Option<Answer>,
    /// The security group.
    pub firewall: Option<Answer>,
    /// The image.
    pub image: Option<Answer>,
    /// The key pair.
    pub key: Option<Answer>,
    /// The package that the spec names by its code, as the service sells it: looked up where a server is to be taken over.
    pub on_sale: Fact<Package>,
}

/// Which references are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// None.
    #[default]
    Nothing,
    /// What a reinstall needs: image and key pair.
    Installation,
    /// What a purchase needs: all.
    Purchase,
}

/// What a reference means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// What the service calls it.
    pub id: String,
    /// The pin, where it was not given by identifier.
    pub pin: Option<ResolvedReference>,
}
