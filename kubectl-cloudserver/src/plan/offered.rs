//! Identifiers and codes of a spec that the service does not list.
//!
//! The operator sends identifiers unchecked, and the service refuses a mistyped one. `plan` reports that before.

use super::verdict::{Effect, Finding};
use cloud_server_operator::api::InstanceSpec;
use cloud_server_operator::api::conditions::Reason;
use cloud_server_operator::api::references::is_code;
use cloud_server_operator::catalog::{self, Catalog, Choice, Listing, Looked};
use cloud_server_operator::cloud::{Offer, Place, Region};

/// A hint about the list of regions.
const SOLD_OUT: &str = " (one that is sold out may be missing)";

/// The result of the lookups.
#[derive(Debug, Default)]
struct Found {
    /// Identifiers that the service does not list, with those that it lists.
    strange: Vec<String>,
    /// Lookups that failed.
    doubts: Vec<String>,
}

/// An object of the service that a spec names: field, kind, identifier, and the region or zone to search.
struct Named<'a>(&'static str, &'static str, &'a str, &'a str);

/// Replaces an effect that the service would refuse by a refusal. Returns the lookups that failed.
pub(super) async fn refuse(
    catalog: &Catalog,
    place: Option<&Place>,
    spec: &InstanceSpec,
    effects: &mut Vec<Finding>,
) -> Vec<String> {
    let has = |wanted: Effect| effects.iter().any(|finding| finding.effect == wanted);
    let mut found = Found::default();
    let (effect, reason) = if has(Effect::NewServer) {
        found.purchase(catalog, place, spec).await;
        (Effect::NewServer, Reason::CreateRefused)
    } else if has(Effect::ErasesDisk) {
        let region = place.map(|place| place.region.as_str());
        found.installation(catalog, region, spec).await;
        (Effect::ErasesDisk, Reason::OperationRefused)
    } else {
        return Vec::new();
    };
    if !found.strange.is_empty() {
        effects.retain(|finding| finding.effect != effect);
        effects.extend(found.strange.into_iter().map(|why| Finding {
            reason: Some(reason.as_str()),
            ..Finding::of(Effect::Refused, why)
        }));
    }
    found.doubts
}

impl Found {
    /// Checks the identifiers of a purchase.
    async fn purchase(&mut self, catalog: &Catalog, place: Option<&Place>, spec: &InstanceSpec) {
        let Some(place) = place else { return };
        let (region, zone) = (place.region.as_str(), place.zone.as_str());
        let regions = catalog.regions(|list| lists(list, region)).await;
        if is_code(&spec.region) {
            let named = Named("spec.region", "region", region, "");
            let said = |row: &Region| (row.code.clone(), row.name.clone());
            if !self.look(&regions, &named, said) {
                return; // nothing else can be looked up there
            }
        }
        let within = format!(" in {region}");
        if let (true, Ok(list)) = (is_code(&spec.zone), &regions) {
            let here = list.rows.iter().find(|row| row.code == region);
            let zones = here.into_iter().flat_map(|row| &row.zones);
            let zones = zones.map(|zone| (zone.code.clone(), zone.name.clone()));
            let named = Named("spec.zone", "zone", zone, &within);
            // A region without a row was resolved by name, or is unknown.
            if here.is_some() && !self.judge(list.doubt(), catalog::exact(zones, zone), &named) {
                return;
            }
        }
        if let Some(code) = &spec.package.code {
            let listed = catalog.packages(place, |list| lists(list, code)).await;
            let within = format!(" in {place}");
            let named = Named("spec.package.code", "package", code, &within);
            self.look(&listed, &named, |row| (row.code.clone(), None));
        }
        if let Some(id) = spec.firewall.as_ref().and_then(|named| named.id.as_ref()) {
            let listed = catalog.firewalls(region, |list| lists(list, id)).await;
            let named = Named("spec.firewall.id", "security group", id, &within);
            self.look(&listed, &named, |row| (row.id.clone(), row.name.clone()));
        }
        self.installation(catalog, Some(region), spec).await;
    }

    /// Checks the identifiers of a reinstall.
    async fn installation(&mut self, catalog: &Catalog, region: Option<&str>, spec: &InstanceSpec) {
        if let (Some(id), Some(region)) = (&spec.image.id, region) {
            let listed = catalog.images(region, |list| lists(list, id)).await;
            let within = format!(" in {region}");
            let named = Named("spec.image.id", "image", id, &within);
            self.look(&listed, &named, |row| (row.id.clone(), row.name.clone()));
        }
        let key = spec.login.ssh_key.as_ref();
        if let Some(id) = key.and_then(|key| key.id.as_ref()) {
            let listed = catalog.keys(|list| lists(list, id)).await;
            let named = Named("spec.login.sshKey.id", "key pair", id, "");
            self.look(&listed, &named, |row| (row.id.clone(), row.name.clone()));
        }
    }

    /// Whether the list contains it, or is incomplete.
    fn look<T: Offer>(
        &mut self,
        listed: &Looked<T>,
        named: &Named<'_>,
        said: impl Fn(&T) -> (String, Option<String>),
    ) -> bool {
        match listed {
            Ok(list) => {
                let choice = catalog::exact(list.rows.iter().map(said), named.2);
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
            // A missing row may be in the unreadable part of the list.
            (Choice::Many(_) | Choice::None(_), Some(why)) => {
                self.doubt(named, why);
                return true;
            }
        };
        let Named(field, what, id, within) = named;
        let hint = match *what {
            "region" => SOLD_OUT,
            _ => "",
        };
        let there = match near.is_empty() {
            true => "it lists none".to_owned(),
            false => format!("it lists {near}"),
        };
        self.strange.push(format!(
            "{field}: the service lists no {what} {id}{within}; {there}{hint}: fix {field}"
        ));
        false
    }

    fn doubt(&mut self, named: &Named<'_>, why: &str) {
        let Named(field, what, id, _) = named;
        self.doubts.push(format!(
            "{field}: it is unknown whether the service has {what} {id}: {why}"
        ));
    }
}

/// Whether a cached list is sufficient.
fn lists<T: Offer>(list: &Listing<T>, id: &str) -> bool {
    list.steady && list.rows.iter().any(|row| row.id() == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_server_operator::catalog::Candidates;

    #[test]
    fn a_refusal_names_the_identifier_and_similar_ones() {
        let region = Named("spec.region", "region", "ru-x", "");
        let mut found = Found::default();
        let near = Candidates::of([("ru-1".to_owned(), None)]);
        assert!(!found.judge(None, Choice::None(near), &region));
        let message = "spec.region: the service lists no region ru-x; it lists ru-1 (one that is sold out may be missing): fix \
                    spec.region";
        assert_eq!(found.strange, [message]);
    }
}
