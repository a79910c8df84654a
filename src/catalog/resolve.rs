//! Resolves the references in a spec: finds the one offer of the service that each of them selects.

use super::Catalog;
use super::pages::OfferList;
use super::select::{self, Choice};
use crate::api::conditions::{Readiness, Reason};
use crate::api::references::is_code;
use crate::api::{InstanceSpec, Reference};
use crate::cloud::{IdAndName, List, Offer, Place};
use tokio::time::Instant;

/// A reference as the spec has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecReference<'a> {
    /// An identifier or code, which is used as it is.
    Id(&'a str),
    /// A selector as text, with the place in which it is resolved.
    Selector(String),
}

/// A reference as the spec has it. None if the spec leaves it out.
pub fn in_spec<'a>(
    spec: &'a InstanceSpec,
    reference: Reference,
    place: &Place,
) -> Option<SpecReference<'a>> {
    let (id, selector) = match reference {
        Reference::Region => code_or_name(&spec.region),
        Reference::Zone => code_or_name(&spec.zone),
        Reference::Package => (spec.package.code.as_deref(), spec.package.selector()),
        Reference::Image => (spec.image.id.as_deref(), spec.image.selector()),
        Reference::Firewall => {
            let firewall = spec.firewall.as_ref()?;
            (firewall.id.as_deref(), firewall.selector())
        }
        Reference::SshKey => {
            let key = spec.login.ssh_key.as_ref()?;
            (key.id.as_deref(), key.selector())
        }
    };
    let selector = || {
        Some(SpecReference::Selector(
            selector? + &within(reference, place),
        ))
    };
    id.map(SpecReference::Id).or_else(selector)
}

fn code_or_name(text: &str) -> (Option<&str>, Option<String>) {
    match is_code(text) {
        true => (Some(text), None),
        false => (None, Some(format!("name {text:?}"))),
    }
}

/// The place in which a reference is resolved, as a suffix for a text.
fn within(reference: Reference, place: &Place) -> String {
    match reference {
        Reference::Region | Reference::SshKey => String::new(),
        Reference::Zone | Reference::Firewall | Reference::Image => format!(" in {}", place.region),
        Reference::Package => format!(" in {place}"),
    }
}

/// A reference to look up in the service's lists.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    pub spec: &'a InstanceSpec,
    pub reference: Reference,
    pub place: &'a Place,
    /// The images or keys that the server has, for a selector of them: if several offers match, one of these is chosen.
    pub current: &'a [String],
    /// A list that was read before this instant is read again, but at most twice a minute; until then, the older list is used.
    pub newer_than: Option<Instant>,
}

/// Why a reference cannot be resolved now.
#[derive(Clone, Debug)]
pub struct Unresolved {
    pub readiness: Readiness,
    /// The service refuses the token.
    pub unauthorized: bool,
}

impl Query<'_> {
    /// Looks up the reference, and returns the service's identifier or code. An identifier in the spec is only checked.
    ///
    /// # Errors
    /// The list could not be read, changed meanwhile, or does not have exactly one match.
    pub async fn resolve(&self, catalog: &Catalog) -> Result<String, Unresolved> {
        let Some(written) = in_spec(self.spec, self.reference, self.place) else {
            let field = self.reference.field();
            return Err(self.unread(field, "the spec leaves it out", false));
        };
        let serves = |list: &OfferList| {
            let is_new = self.newer_than.is_none_or(|instant| list.read > instant);
            is_new && list.steady && self.pick(&written, &list.rows).is_one()
        };
        match catalog.list(&self.list(), serves).await {
            Ok(list) => self.judge(&written, &list),
            Err(unread) => {
                Err(self.unread(&self.shown(&written), &unread.why, unread.unauthorized))
            }
        }
    }

    /// The list in which the reference is looked up.
    fn list(&self) -> List {
        let Place { region, zone } = self.place.clone();
        match self.reference {
            Reference::Region | Reference::Zone => List::Regions,
            Reference::Package => List::Packages {
                region,
                zone: Some(zone),
            },
            Reference::Firewall => List::Firewalls { region },
            Reference::Image => List::Images { region },
            Reference::SshKey => List::Keys,
        }
    }

    fn pick(&self, written: &SpecReference<'_>, rows: &[Offer]) -> Choice {
        let (spec, region) = (self.spec, &self.place.region);
        let row_of_region = rows.iter().find(|row| row.id == *region);
        let all: Vec<IdAndName> = match self.reference {
            Reference::Zone => row_of_region
                .map(|row| row.zones.clone())
                .unwrap_or_default(),
            _ => rows.iter().map(Offer::named).collect(),
        };
        match (written, self.reference) {
            // A region that is sold out may be missing, and its zones with it.
            (SpecReference::Id(id), Reference::Zone) if row_of_region.is_none() => {
                Choice::One((*id).to_owned())
            }
            (SpecReference::Id(id), _) => select::exact(all, id),
            (_, Reference::Region) => select::by_code_or_name(all, &spec.region),
            (_, Reference::Zone) => select::by_code_or_name(all, &spec.zone),
            (_, Reference::Package) => select::package(rows, &spec.package),
            (_, Reference::Image) => select::image(rows, &spec.image, self.current),
            (_, Reference::Firewall) => {
                let name = spec.firewall.as_ref().and_then(|it| it.name.as_deref());
                select::by_name(all, name.unwrap_or_default(), &[])
            }
            (_, Reference::SshKey) => {
                let key = spec.login.ssh_key.as_ref();
                let name = key.and_then(|it| it.name.as_deref());
                select::by_name(all, name.unwrap_or_default(), self.current)
            }
        }
    }

    fn judge(&self, written: &SpecReference<'_>, list: &OfferList) -> Result<String, Unresolved> {
        let (shown, noun) = (self.shown(written), self.reference.noun());
        let (field, exact) = (self.reference.field(), self.reference.exact_field());
        let is_exact = matches!(written, SpecReference::Id(_));
        let (reason, message) = match self.pick(written, &list.rows) {
            Choice::One(id) if is_exact || list.steady => return Ok(id),
            _ if !list.steady => {
                return Err(self.unread(&shown, "it changed while it was read", false));
            }
            // The missing offer may be a row without a readable identifier.
            Choice::None(_) if !list.readable => {
                return Err(self.unread(&shown, "it has malformed rows", false));
            }
            Choice::Many(several) => {
                let remedy = match field == exact {
                    true => format!("set {field} to the code of one of them"),
                    false => format!("set {exact} to one of them instead"),
                };
                let message = format!("{shown}: several match: {several}: {remedy}");
                (Reason::ReferenceAmbiguous, message)
            }
            choice @ (Choice::One(_) | Choice::None(_)) => {
                let remedy = match field == exact {
                    _ if is_exact => format!("fix {exact}"),
                    true => format!("fix {field}, or set it to a code"),
                    false => format!("fix {field}, or set {exact}"),
                };
                let there = match choice {
                    Choice::None(near) if !near.is_empty() => near.to_string(),
                    _ => "none".to_owned(),
                };
                let hint = match self.reference {
                    Reference::Region => " (one that is sold out may be missing)",
                    _ => "",
                };
                let message = format!(
                    "{shown}: the service lists no such {noun}{hint}; it lists {there}: {remedy}"
                );
                (Reason::ReferenceNotFound, message)
            }
        };
        Err(Unresolved {
            readiness: Readiness::stalled(reason, message),
            unauthorized: false,
        })
    }

    /// Field and value of the reference.
    fn shown(&self, written: &SpecReference<'_>) -> String {
        let reference = self.reference;
        match written {
            SpecReference::Selector(selector) => format!("{} ({selector})", reference.field()),
            SpecReference::Id(id) => {
                let within = within(reference, self.place);
                format!("{} ({id}{within})", reference.exact_field())
            }
        }
    }

    fn unread(&self, shown: &str, why: &str, unauthorized: bool) -> Unresolved {
        let noun = self.reference.noun();
        let message = format!("{shown}: the list of {noun}s could not be read: {why}");
        Unresolved {
            readiness: Readiness::reconciling(Reason::ReferenceLookupFailed, message),
            unauthorized,
        }
    }
}
