//! The meaning of the references in a spec: what is written, and the one offer of the service that it stands for.

use super::pages::{Listing, Unread};
use super::select::{self, Choice};
use super::{Catalog, Looked};
use crate::api::conditions::{Readiness, Reason};
use crate::api::references::is_code;
use crate::api::{InstanceSpec, Reference};
use crate::cloud::{Firewall, Image, Key, Package, Place, Region};
use tokio::time::Instant;

/// A reference as the spec has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written<'a> {
    /// An identifier or code, which stands for itself.
    Id(&'a str),
    /// A selector as text, with the place in which it is resolved.
    Selector(String),
}

/// Finds a reference in the spec. None if the spec leaves it out.
pub fn written<'a>(
    spec: &'a InstanceSpec,
    reference: Reference,
    place: &Place,
) -> Option<Written<'a>> {
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
    let selector = || Some(Written::Selector(selector? + &within(reference, place)));
    id.map(Written::Id).or_else(selector)
}

fn code_or_name(text: &str) -> (Option<&str>, Option<String>) {
    match is_code(text) {
        true => (Some(text), None),
        false => (None, Some(format!("name {text:?}"))),
    }
}

/// The place in which a reference is resolved, as the end of a text.
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
    /// The identifiers that the server has now. If several offers match a selector, it means one of these.
    pub current: &'a [String],
    /// Only lists that were read after this instant count.
    pub newer_than: Option<Instant>,
}

/// Why a reference has no meaning now.
#[derive(Clone, Debug)]
pub struct Unresolved {
    pub readiness: Readiness,
    /// The service refuses the token.
    pub unauthorized: bool,
}

/// The choice from a list, and how reliable the list is.
struct Chosen {
    choice: Choice,
    is_steady: bool,
    is_readable: bool,
}

impl Query<'_> {
    /// Whether a cached list answers the query.
    fn serves<T>(&self, pick: impl Fn(&[T]) -> Choice) -> impl Fn(&Listing<T>) -> bool {
        let newer_than = self.newer_than;
        move |list| {
            let is_new = newer_than.is_none_or(|instant| list.read > instant);
            is_new && list.steady && pick(&list.rows).is_one()
        }
    }

    /// Looks up the reference, and returns the service's identifier or code. An identifier in the spec is only checked.
    ///
    /// # Errors
    /// The list could not be read, or does not have exactly one match.
    pub async fn resolve(&self, catalog: &Catalog) -> Result<String, Unresolved> {
        let Self { spec, place, .. } = self;
        let Some(written) = written(spec, self.reference, place) else {
            let field = self.reference.field();
            return Err(self.unread(field, "the spec leaves it out", false));
        };
        let current: Vec<&str> = self.current.iter().map(String::as_str).collect();
        let name = |name: Option<&String>| name.cloned().unwrap_or_default();
        let region = place.region.as_str();
        let chosen = match self.reference {
            Reference::Region => {
                let pick = |rows: &[Region]| match &written {
                    Written::Id(id) => exact(rows, id, |row| (&row.code, &row.name)),
                    Written::Selector(_) => select::region(rows, &spec.region),
                };
                chosen(catalog.regions(self.serves(pick)).await, pick)
            }
            Reference::Zone => {
                let pick = |rows: &[Region]| {
                    let here = rows.iter().find(|row| row.code == region);
                    match (&written, here) {
                        // A region that is sold out may be missing, and its zones with it.
                        (Written::Id(id), None) => Choice::One((*id).to_owned()),
                        (Written::Id(id), Some(here)) => {
                            exact(&here.zones, id, |row| (&row.code, &row.name))
                        }
                        (Written::Selector(_), here) => {
                            select::zone(here.map_or(&[], |row| &row.zones), &spec.zone)
                        }
                    }
                };
                chosen(catalog.regions(self.serves(pick)).await, pick)
            }
            Reference::Package => {
                let pick = |rows: &[Package]| match &written {
                    Written::Id(id) => exact(rows, id, |row| (&row.code, &None)),
                    Written::Selector(_) => select::package(rows, &spec.package),
                };
                chosen(catalog.packages(place, self.serves(pick)).await, pick)
            }
            Reference::Firewall => {
                let firewall = spec.firewall.as_ref();
                let wanted = name(firewall.and_then(|firewall| firewall.name.as_ref()));
                let pick = |rows: &[Firewall]| match &written {
                    Written::Id(id) => exact(rows, id, |row| (&row.id, &row.name)),
                    Written::Selector(_) => select::firewall(rows, &wanted),
                };
                chosen(catalog.firewalls(region, self.serves(pick)).await, pick)
            }
            Reference::Image => {
                let pick = |rows: &[Image]| match &written {
                    Written::Id(id) => exact(rows, id, |row| (&row.id, &row.name)),
                    Written::Selector(_) => select::image(rows, &spec.image, &current),
                };
                chosen(catalog.images(region, self.serves(pick)).await, pick)
            }
            Reference::SshKey => {
                let key = spec.login.ssh_key.as_ref();
                let wanted = name(key.and_then(|key| key.name.as_ref()));
                let pick = |rows: &[Key]| match &written {
                    Written::Id(id) => exact(rows, id, |row| (&row.id, &row.name)),
                    Written::Selector(_) => select::key(rows, &wanted, &current),
                };
                chosen(catalog.keys(self.serves(pick)).await, pick)
            }
        };
        let unread =
            |unread: Unread| self.unread(&self.shown(&written), &unread.why, unread.unauthorized);
        let chosen = chosen.map_err(unread)?;
        self.judge(&written, chosen)
    }

    fn judge(&self, written: &Written<'_>, chosen: Chosen) -> Result<String, Unresolved> {
        let (shown, what) = (self.shown(written), self.what());
        let (field, exact) = (self.reference.field(), self.reference.exact_field());
        let is_exact = matches!(written, Written::Id(_));
        let (reason, message) = match chosen.choice {
            Choice::One(id) if is_exact || chosen.is_steady => return Ok(id),
            _ if !chosen.is_steady => {
                return Err(self.unread(&shown, "it changed while it was read", false));
            }
            // The missing thing may be in a row that could not be parsed.
            Choice::None(_) if !chosen.is_readable => {
                return Err(self.unread(&shown, "it has rows that make no sense", false));
            }
            Choice::Many(several) => {
                let remedy = match field == exact {
                    true => format!("set {field} to the code of one of them"),
                    false => format!("narrow {field}, or set {exact} to one of them"),
                };
                let message = format!("{shown}: several match: {several}: {remedy}");
                (Reason::ReferenceAmbiguous, message)
            }
            Choice::One(_) | Choice::None(_) => {
                let remedy = match field == exact {
                    _ if is_exact => format!("fix {exact}"),
                    true => format!("fix {field}, or set it to a code"),
                    false => format!("fix {field}, or set {exact}"),
                };
                let there = match chosen.choice {
                    Choice::None(near) if !near.is_empty() => near.to_string(),
                    _ => "none".to_owned(),
                };
                let hint = match self.reference {
                    Reference::Region => " (one that is sold out may be missing)",
                    _ => "",
                };
                let message = format!(
                    "{shown}: the service lists no such {what}{hint}; it lists {there}: {remedy}"
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
    fn shown(&self, written: &Written<'_>) -> String {
        let reference = self.reference;
        match written {
            Written::Selector(selector) => format!("{} ({selector})", reference.field()),
            Written::Id(id) => {
                let within = within(reference, self.place);
                format!("{} ({id}{within})", reference.exact_field())
            }
        }
    }

    /// The kind of thing, in words.
    fn what(&self) -> &'static str {
        match self.reference {
            Reference::Region => "region",
            Reference::Zone => "zone",
            Reference::Package => "package",
            Reference::Firewall => "security group",
            Reference::Image => "image",
            Reference::SshKey => "key pair",
        }
    }

    fn unread(&self, shown: &str, why: &str, unauthorized: bool) -> Unresolved {
        let message = format!(
            "{shown}: the list of {}s could not be read: {why}",
            self.what()
        );
        Unresolved {
            readiness: Readiness::reconciling(Reason::ReferenceLookupFailed, message),
            unauthorized,
        }
    }
}

fn exact<T>(rows: &[T], id: &str, named: impl Fn(&T) -> (&String, &Option<String>)) -> Choice {
    let named = |row| {
        let (id, name) = named(row);
        (id.clone(), name.clone())
    };
    select::exact(rows.iter().map(named), id)
}

fn chosen<T>(listed: Looked<T>, pick: impl Fn(&[T]) -> Choice) -> Result<Chosen, Unread> {
    let list = listed?;
    Ok(Chosen {
        choice: pick(&list.rows),
        is_steady: list.steady,
        is_readable: list.readable,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Candidates;
    use super::*;

    #[test]
    fn each_message_names_the_field_to_fix() {
        let spec = serde_json::json!({
            "region": "r", "zone": "A", "package": {"code": "p"}, "image": {"name": "A"}, "login": {},
        });
        let spec: InstanceSpec = serde_json::from_value(spec).unwrap();
        let place = &Place::new("r", "z");
        let query = |reference| Query {
            spec: &spec,
            reference,
            place,
            current: &[],
            newer_than: None,
        };
        let two = || Candidates::of([("a-1".to_owned(), None), ("a-2".to_owned(), None)]);
        let none = Candidates::default;
        for (reference, choice, message) in [
            (
                Reference::Zone,
                Choice::Many(two()),
                "spec.zone (name \"A\" in r): several match: a-1, a-2: set spec.zone to the code of one of them",
            ),
            (
                Reference::Zone,
                Choice::None(two()),
                "spec.zone (name \"A\" in r): the service lists no such zone; it lists a-1, a-2: fix spec.zone, or set it to a \
                 code",
            ),
            (
                Reference::Image,
                Choice::Many(two()),
                "spec.image (name \"A\" in r): several match: a-1, a-2: narrow spec.image, or set spec.image.id to one of them",
            ),
            (
                Reference::Image,
                Choice::None(none()),
                "spec.image (name \"A\" in r): the service lists no such image; it lists none: fix spec.image, or set \
                 spec.image.id",
            ),
            (
                Reference::Package,
                Choice::None(two()),
                "spec.package.code (p in r/z): the service lists no such package; it lists a-1, a-2: fix spec.package.code",
            ),
        ] {
            let query = query(reference);
            let written = written(&spec, reference, place).unwrap();
            let chosen = |is_steady, is_readable| Chosen {
                choice: choice.clone(),
                is_steady,
                is_readable,
            };
            let unresolved = query.judge(&written, chosen(true, true)).unwrap_err();
            assert_eq!(unresolved.readiness.message, message);
            let doubtful = query.judge(&written, chosen(false, true)).unwrap_err();
            assert_eq!(doubtful.readiness.reason, Reason::ReferenceLookupFailed);
        }
    }
}
