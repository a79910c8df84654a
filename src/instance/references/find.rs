//! Resolves selectors with the service's lists. Reads only; an obstacle becomes a readiness.

use crate::api::ResolvedReference;
use crate::api::conditions::{Readiness, Reason};
use crate::api::references::is_code;
use crate::catalog;
use crate::catalog::{Candidates, Catalog, Choice, Listing, Unread};
use crate::cloud::{Firewall, Image, Key, Package, Place, Region};
use crate::instance::context::Context;
use crate::instance::fact::Fact;
use crate::instance::memory::kinds::CallState;
use crate::instance::observation::Observation;
use crate::instance::references::{
    firewall_from, image_from, installation_is_open, key_from, package_from,
};
use crate::instance::resolved_references::{Answer, Scope, region_from, zone_from};
use crate::session::AccountSession;
use tokio::time::Instant;

pub async fn place(observed: &mut Observation, session: &AccountSession, context: &Context) {
    let look = Look::new(observed, session, context);
    let spec = &look.observed.facts.spec;
    let region = if is_code(&spec.region) {
        None
    } else {
        Some(look.region().await)
    };
    let code = match &region {
        None => Some(spec.region.clone()),
        Some(answer) => answer.as_ref().ok().map(|pin| pin.id.clone()),
    };
    let zone = match &code {
        Some(code) if !is_code(&spec.zone) => Some(look.zone(code).await),
        _ => None,
    };
    let zone_code = match &zone {
        None => Some(spec.zone.clone()),
        Some(answer) => answer.as_ref().ok().map(|pin| pin.id.clone()),
    };
    if let (Some(region), Some(zone)) = (code, zone_code) {
        observed.facts.here = Some(Place { region, zone });
    }
    observed.found.region = region;
    observed.found.zone = zone;
}

/// Resolves the references that are not known yet, one after another until the first obstacle. Returns whether anything was
/// looked up.
pub async fn references(
    observed: &mut Observation,
    scope: Scope,
    session: &AccountSession,
    context: &Context,
) -> bool {
    if observed.found.scope >= scope {
        return false;
    }
    observed.found.scope = scope;
    if scope == Scope::Purchase {
        if observed.facts.here.is_none() {
            place(observed, session, context).await;
        }
        if observed.facts.here.is_some() && super::package(observed).is_none() {
            observed.found.package = Look::new(observed, session, context).package().await;
        }
        if is_well(observed) && super::firewall(observed).is_none() {
            observed.found.firewall = Look::new(observed, session, context).firewall().await;
        }
    }
    if is_well(observed) && installation_is_open(observed) {
        if super::image(observed).is_none() {
            observed.found.image = Look::new(observed, session, context).image().await;
        }
        if is_well(observed) && super::key(observed).is_none() {
            observed.found.key = Look::new(observed, session, context).key().await;
        }
    }
    true
}

/// Looks up the package that the spec names by code, once the server to compare with it has been read.
pub async fn package_on_sale(
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
    let sells = |list: &Listing<Package>| list.rows.iter().any(|row| row.code == code);
    let (catalog, place) = (&session.shared.catalog, observed.facts.place());
    observed.found.on_sale = match catalog.packages(&place, sells).await {
        Ok(list) => match list.rows.iter().find(|row| row.code == code) {
            Some(row) => Fact::Known(row.clone()),
            None => Fact::Absent,
        },
        Err(trouble) => {
            if trouble.unauthorized {
                (context.doubt_account)(&observed.account_key);
            }
            Fact::Unknown(trouble.why)
        }
    };
}

fn is_well(observed: &Observation) -> bool {
    observed.found.trouble().is_none()
}

/// One look-up in the lists of a session.
struct Look<'a> {
    observed: &'a Observation,
    catalog: &'a Catalog,
    context: &'a Context,
}

/// The thing to look up, in words for messages.
struct Wanted<'a> {
    field: &'static str,
    /// The field that takes its identifier, if that is another one.
    exact: Option<&'static str>,
    /// The kind of thing.
    what: &'static str,
    /// The selector, with the place of the look-up.
    from: String,
    /// The name of the list.
    list: &'a str,
}

impl Wanted<'_> {
    /// The message if several match.
    fn ambiguous(&self, several: &Candidates) -> String {
        let Self {
            field, from, list, ..
        } = self;
        let remedy = match self.exact {
            Some(exact) => format!("narrow {field}, or set {exact} to one of them"),
            None => format!("set {field} to the code of one of them"),
        };
        format!("{field} ({from}): several of {list} fit: {several}: {remedy}")
    }

    /// The message if none matches; these are the closest.
    fn missing(&self, near: &Candidates) -> String {
        let Self {
            field, what, from, ..
        } = self;
        let there = match near.is_empty() {
            true => "it lists none at all there".to_owned(),
            false => format!("it lists {near}"),
        };
        let remedy = match self.exact {
            Some(exact) => format!("mend {field}, or set {exact}"),
            None => format!("mend {field}, or set it to a code"),
        };
        format!("{field} ({from}): the service lists no such {what}; {there}: {remedy}")
    }
}

impl<'a> Look<'a> {
    fn new(observed: &'a Observation, session: &'a AccountSession, context: &'a Context) -> Self {
        Self {
            observed,
            catalog: &session.shared.catalog,
            context,
        }
    }

    /// Whether a cached list answers the question: it has exactly one match, and it is newer than a purchase that the service
    /// refused, since the match of that purchase may be sold out or gone.
    fn serves<T>(&self, pick: impl Fn(&Listing<T>) -> Choice) -> impl Fn(&Listing<T>) -> bool {
        let refused = self.refused();
        move |list| {
            let is_new = refused.is_none_or(|refused| list.read > refused);
            is_new && list.steady && pick(list).is_one()
        }
    }

    /// When the service refused the recorded purchase.
    fn refused(&self) -> Option<Instant> {
        let record = self.observed.facts.purchase()?;
        let attempt = self.observed.memory.attempt(record)?;
        matches!(attempt.call_state, CallState::Refused { .. }).then_some(attempt.since)
    }

    async fn region(&self) -> Answer {
        let text = &self.observed.facts.spec.region;
        let pick = |list: &Listing<Region>| catalog::region(&list.rows, text);
        let observed_at = self.catalog.regions(self.serves(pick)).await;
        let wanted = Wanted {
            field: "spec.region",
            exact: None,
            what: "region (one that is sold out may be missing)",
            from: region_from(&self.observed.facts.spec),
            list: "the regions",
        };
        self.answer(observed_at.map(|list| chosen(&*list, pick)), wanted)
    }

    async fn zone(&self, region: &str) -> Answer {
        let text = &self.observed.facts.spec.zone;
        let pick = |list: &Listing<Region>| {
            let here = list.rows.iter().find(|row| row.code == region);
            catalog::zone(here.map_or(&[], |row| &row.zones), text)
        };
        let observed_at = self.catalog.regions(self.serves(pick)).await;
        let wanted = Wanted {
            field: "spec.zone",
            exact: None,
            what: "zone",
            from: zone_from(&self.observed.facts.spec, region),
            list: "the zones",
        };
        self.answer(observed_at.map(|list| chosen(&*list, pick)), wanted)
    }

    async fn package(&self) -> Option<Answer> {
        let facts = &self.observed.facts;
        let from = package_from(facts)?;
        let pick = |list: &Listing<Package>| catalog::package(&list.rows, &facts.spec.package);
        let observed_at = self
            .catalog
            .packages(&facts.place(), self.serves(pick))
            .await;
        let wanted = Wanted {
            field: "spec.package",
            exact: Some("spec.package.code"),
            what: "package",
            from,
            list: "the packages",
        };
        Some(self.answer(observed_at.map(|list| chosen(&*list, pick)), wanted))
    }

    async fn firewall(&self) -> Option<Answer> {
        let facts = &self.observed.facts;
        let from = firewall_from(facts)?;
        let named = facts.spec.firewall.as_ref()?;
        let name = named.name.as_deref().unwrap_or_default();
        let pick = |list: &Listing<Firewall>| catalog::firewall(&list.rows, name);
        let region = facts.place().region;
        let observed_at = self.catalog.firewalls(&region, self.serves(pick)).await;
        let wanted = Wanted {
            field: "spec.firewall",
            exact: Some("spec.firewall.id"),
            what: "security group",
            from,
            list: "the security groups",
        };
        Some(self.answer(observed_at.map(|list| chosen(&*list, pick)), wanted))
    }

    async fn image(&self) -> Option<Answer> {
        let facts = &self.observed.facts;
        let from = image_from(facts)?;
        let standing = self.standing_images();
        let standing: Vec<&str> = standing.iter().map(String::as_str).collect();
        let pick = |list: &Listing<Image>| catalog::image(&list.rows, &facts.spec.image, &standing);
        let region = facts.place().region;
        let observed_at = self.catalog.images(&region, self.serves(pick)).await;
        let wanted = Wanted {
            field: "spec.image",
            exact: Some("spec.image.id"),
            what: "image",
            from,
            list: "the images",
        };
        Some(self.answer(observed_at.map(|list| chosen(&*list, pick)), wanted))
    }

    async fn key(&self) -> Option<Answer> {
        let facts = &self.observed.facts;
        let from = key_from(facts)?;
        let key = facts.spec.login.ssh_key.as_ref();
        let name = key.and_then(|key| key.name.as_deref()).unwrap_or_default();
        let standing = self.standing_key();
        let standing: Vec<&str> = standing.iter().map(String::as_str).collect();
        let pick = |list: &Listing<Key>| catalog::key(&list.rows, name, &standing);
        let observed_at = self.catalog.keys(self.serves(pick)).await;
        let wanted = Wanted {
            field: "spec.login.sshKey",
            exact: Some("spec.login.sshKey.id"),
            what: "key pair",
            from,
            list: "the key pairs",
        };
        Some(self.answer(observed_at.map(|list| chosen(&*list, pick)), wanted))
    }

    /// The images that the server has: as shown, as last applied, and as last requested.
    fn standing_images(&self) -> Vec<String> {
        let facts = &self.observed.facts;
        let shown = match &self.observed.detail {
            Fact::Known(detail) => detail.image().map(|image| image.to_string()),
            Fact::NotAsked | Fact::Absent | Fact::Unknown(_) => {
                let shown = facts.status.detail.get("imageResourceUUID");
                shown.and_then(|id| id.as_str()).map(ToOwned::to_owned)
            }
        };
        let applied = facts.status.applied.as_ref();
        let applied = applied.map(|applied| applied.image.clone());
        let asked = self.bought().map(|record| record.target.image.clone());
        shown.into_iter().chain(applied).chain(asked).collect()
    }

    fn standing_key(&self) -> Vec<String> {
        let applied = self.observed.facts.status.applied.as_ref();
        let applied = applied.and_then(|applied| applied.key.clone());
        let asked = self.bought().and_then(|record| record.target.key.clone());
        applied.into_iter().chain(asked).collect()
    }

    fn bought(&self) -> Option<&crate::api::PurchaseRecord> {
        let facts = &self.observed.facts;
        super::bought(&facts.status, facts.purchase())
    }

    /// The result of a look-up: the one match, or the readiness to report.
    fn answer(&self, observed_at: Result<Chosen, Unread>, wanted: Wanted<'_>) -> Answer {
        let Wanted {
            field, from, list, ..
        } = &wanted;
        let unread = |why: &str| {
            let message = format!("{field} ({from}): {list} could not be read: {why}");
            Err(Readiness::reconciling(
                Reason::ReferenceLookupFailed,
                message,
            ))
        };
        let chosen = match observed_at {
            Ok(chosen) => chosen,
            Err(trouble) => {
                if trouble.unauthorized {
                    (self.context.doubt_account)(&self.observed.account_key);
                }
                return unread(&trouble.why);
            }
        };
        if !chosen.is_steady {
            return unread("the list changed while it was read");
        }
        match chosen.choice {
            Choice::One(id) => Ok(ResolvedReference {
                id,
                from: wanted.from,
            }),
            Choice::Many(several) => {
                let message = wanted.ambiguous(&several);
                Err(Readiness::stalled(Reason::ReferenceAmbiguous, message))
            }
            // The missing thing may be in a row that could not be parsed.
            Choice::None(_) if !chosen.is_readable => unread("it has rows that make no sense"),
            Choice::None(near) => Err(Readiness::stalled(
                Reason::ReferenceNotFound,
                wanted.missing(&near),
            )),
        }
    }
}

/// The choice from a list, and how reliable the list is.
struct Chosen {
    choice: Choice,
    is_steady: bool,
    is_readable: bool,
}

fn chosen<T>(list: &Listing<T>, pick: impl Fn(&Listing<T>) -> Choice) -> Chosen {
    Chosen {
        choice: pick(list),
        is_steady: list.steady,
        is_readable: list.readable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_names_the_field_that_mends_it() {
        let two = Candidates::of([("a-1".to_owned(), None), ("a-2".to_owned(), None)]);
        let wanted = |field, exact, list| Wanted {
            field,
            exact,
            what: "thing",
            from: "name \"A\"".to_owned(),
            list,
        };
        let zone = wanted("spec.zone", None, "the zones");
        assert_eq!(
            zone.ambiguous(&two),
            "spec.zone (name \"A\"): several of the zones fit: a-1, a-2: set spec.zone to the code of one of them"
        );
        assert_eq!(
            zone.missing(&two),
            "spec.zone (name \"A\"): the service lists no such thing; it lists a-1, a-2: mend spec.zone, or set it to a code"
        );
        let image = wanted("spec.image", Some("spec.image.id"), "the images");
        assert_eq!(
            image.ambiguous(&two),
            "spec.image (name \"A\"): several of the images fit: a-1, a-2: narrow spec.image, or set spec.image.id to one of them"
        );
        assert_eq!(
            image.missing(&Candidates::default()),
            "spec.image (name \"A\"): the service lists no such thing; it lists none at all there: mend spec.image, or set \
             spec.image.id"
        );
    }
}
