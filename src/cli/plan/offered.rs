//! What a spec names by identifier or code and the service does not list.
//!
//! The operator sends identifiers as they stand, and learns from the service's refusal that one is mistyped. Whoever plans
//! wants to know it before.

use super::verdict::{Effect, Finding};
use crate::api::conditions::Reason;
use crate::api::references::is_code;
use crate::api::{InstanceSpec, Verb};
use crate::catalog::{self, Catalog, Choice, Listing, Looked};
use crate::cloud::{Offer, Place};
use crate::instance::plan::preview::PlannedChange;
use crate::instance::predict::Foresight;

/// What a look at the lists gave.
#[derive(Debug, Default)]
struct Found {
    /// What the service does not list, with what it does.
    strange: Vec<String>,
    /// What could not be found out.
    doubts: Vec<String>,
}

/// Something that a spec names.
struct Named<'a> {
    field: &'static str,
    what: &'static str,
    id: &'a str,
    /// Where it is looked for.
    within: &'a str,
    /// What else is to be known of what the service lists.
    hint: &'static str,
}

/// The effects, with a refusal in the place of what the service would refuse, and what could not be found out.
pub(super) async fn refused(
    catalog: &Catalog,
    foresight: &Foresight,
    spec: &InstanceSpec,
    mut effects: Vec<Finding>,
) -> (Vec<Finding>, Vec<String>) {
    let planned_changes = foresight.preview.acts.iter().map(|act| &act.planned);
    let is_asked = |wanted: Verb| {
        let mut planned_changes = planned_changes.clone();
        planned_changes.any(|planned| *planned == PlannedChange::Operation(wanted))
    };
    let mut found = Found::default();
    let (effect, reason) = if is_asked(Verb::Create) {
        found
            .purchase(catalog, foresight.place.as_ref(), spec)
            .await;
        (Effect::NewServer, Reason::CreateRefused)
    } else if is_asked(Verb::Reinstall) {
        let region = foresight.place.as_ref().map(|place| place.region.as_str());
        found.installation(catalog, region, spec).await;
        (Effect::ErasesDisk, Reason::OperationRefused)
    } else {
        return (effects, Vec::new());
    };
    if !found.strange.is_empty() {
        effects.retain(|said| said.effect != effect);
        let refusals = found.strange.into_iter().map(|why| Finding {
            reason: Some(reason.as_str()),
            ..Finding::of(Effect::Refused, why)
        });
        effects.extend(refusals);
    }
    (effects, found.doubts)
}

impl Found {
    /// Everything that a purchase names.
    async fn purchase(&mut self, catalog: &Catalog, place: Option<&Place>, spec: &InstanceSpec) {
        let Some(place) = place else { return };
        let (region, zone) = (place.region.as_str(), place.zone.as_str());
        let regions = catalog.regions(|list| lists(list, region)).await;
        if is_code(&spec.region) {
            let named = Named {
                field: "spec.region",
                what: "region",
                id: region,
                within: "",
                hint: " (one that is sold out may be missing)",
            };
            let said = |row: &crate::cloud::Region| (row.code.clone(), row.name.clone());
            if !self.look(&regions, &named, said) {
                return; // nothing else can be looked up there
            }
        }
        let within = format!(" in {region}");
        if let (true, Ok(list)) = (is_code(&spec.zone), &regions) {
            let here = list.rows.iter().find(|row| row.code == region);
            let zones = here.into_iter().flat_map(|row| &row.zones);
            let zones = zones.map(|zone| (zone.code.clone(), zone.name.clone()));
            let named = Named {
                field: "spec.zone",
                what: "zone",
                id: zone,
                within: &within,
                hint: "",
            };
            // A region without a row was looked up by name, or could not be.
            if here.is_some() && !self.judge(list.doubt(), catalog::exact(zones, zone), &named) {
                return;
            }
        }
        if let Some(code) = &spec.package.code {
            let listed = catalog.packages(place, |list| lists(list, code)).await;
            let named = Named {
                field: "spec.package.code",
                what: "package",
                id: code,
                within: &format!(" in {place}"),
                hint: "",
            };
            self.look(&listed, &named, |row| (row.code.clone(), None));
        }
        if let Some(id) = spec.firewall.as_ref().and_then(|named| named.id.as_ref()) {
            let listed = catalog.firewalls(region, |list| lists(list, id)).await;
            let named = Named {
                field: "spec.firewall.id",
                what: "security group",
                id,
                within: &within,
                hint: "",
            };
            self.look(&listed, &named, |row| (row.id.clone(), row.name.clone()));
        }
        self.installation(catalog, Some(region), spec).await;
    }

    /// What a reinstall names.
    async fn installation(&mut self, catalog: &Catalog, region: Option<&str>, spec: &InstanceSpec) {
        if let (Some(id), Some(region)) = (&spec.image.id, region) {
            let listed = catalog.images(region, |list| lists(list, id)).await;
            let named = Named {
                field: "spec.image.id",
                what: "image",
                id,
                within: &format!(" in {region}"),
                hint: "",
            };
            self.look(&listed, &named, |row| (row.id.clone(), row.name.clone()));
        }
        let key = spec.login.ssh_key.as_ref();
        if let Some(id) = key.and_then(|key| key.id.as_ref()) {
            let listed = catalog.keys(|list| lists(list, id)).await;
            let named = Named {
                field: "spec.login.sshKey.id",
                what: "key pair",
                id,
                within: "",
                hint: "",
            };
            self.look(&listed, &named, |row| (row.id.clone(), row.name.clone()));
        }
    }

    /// Whether it is known, as far as the list tells.
    fn look<T: Offer>(
        &mut self,
        listed: &Looked<T>,
        named: &Named<'_>,
        said: impl Fn(&T) -> (String, Option<String>),
    ) -> bool {
        match listed {
            Ok(list) => {
                let choice = catalog::exact(list.rows.iter().map(said), named.id);
                self.judge(list.doubt(), choice, named)
            }
            Err(unread) => {
                self.doubt(named, &unread.why);
                true
            }
        }
    }

    fn judge(&mut self, doubt: Option<&str>, choice: Choice, named: &Named<'_>) -> bool {
        let near = match (choice, doubt) {
            (Choice::One(_), _) => return true,
            (Choice::Many(near) | Choice::None(near), None) => near,
            // What is missing may stand where the list could not be read.
            (Choice::Many(_) | Choice::None(_), Some(why)) => {
                self.doubt(named, why);
                return true;
            }
        };
        let Named {
            field,
            what,
            id,
            within,
            hint,
        } = named;
        let there = match near.is_empty() {
            true => "it lists none".to_owned(),
            false => format!("it lists {near}"),
        };
        self.strange.push(format!(
            "{field}: the service lists no {what} {id}{within}; {there}{hint}: mend {field}"
        ));
        false
    }

    fn doubt(&mut self, named: &Named<'_>, why: &str) {
        let Named {
            field, what, id, ..
        } = named;
        self.doubts.push(format!(
            "{field}: whether the service has {what} {id} could not be found out: {why}"
        ));
    }
}

/// Whether a list that was read before is one to go by.
fn lists<T: Offer>(list: &Listing<T>, id: &str) -> bool {
    list.steady && list.rows.iter().any(|row| row.id() == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Candidates;

    #[test]
    fn what_is_not_listed_is_told_before_what_else_is_to_be_known() {
        let region = Named {
            field: "spec.region",
            what: "region",
            id: "ru-x",
            within: "",
            hint: " (one that is sold out may be missing)",
        };
        let mut found = Found::default();
        let near = Candidates::of([("ru-1".to_owned(), None)]);
        assert!(!found.judge(None, Choice::None(near), &region));
        let told = "spec.region: the service lists no region ru-x; it lists ru-1 (one that is sold out may be missing): mend \
                    spec.region";
        assert_eq!(found.strange, [told]);
    }
}
