//! The meaning of the references in a spec. Identifiers and codes stand for themselves. A selector stands for its pin, or for the
//! result of a look-up in this reconcile.
//!
//! Status has the pins, and the record has those of the purchase or the last reinstall. A pin is valid for exactly the selector
//! that it resolves. Nothing is pinned before the purchase: a package that is sold out disappears from the list, and the next try
//! takes another one. An existing server keeps its values while they match, so that neither a lost pin nor a new image with the
//! same name causes a reinstall.

pub mod find;

use crate::api::references::is_code;
use crate::api::{PurchaseRecord, Resolved, ResolvedReference};
use crate::instance::fact::Fact;
use crate::instance::facts::Facts;
use crate::instance::observation::Observation;
use crate::instance::resolved_references::{
    Answer, Meaning, Pins, Which, bought, region_from, zone_from,
};
use serde_json::Value;

pub(super) fn package_from(facts: &Facts) -> Option<String> {
    let words = facts.spec.package.selector()?;
    Some(format!("{words} in {}", facts.place()))
}

pub(super) fn image_from(facts: &Facts) -> Option<String> {
    let words = facts.spec.image.selector()?;
    Some(format!("{words} in {}", facts.place().region))
}

pub(super) fn firewall_from(facts: &Facts) -> Option<String> {
    let words = facts.spec.firewall.as_ref()?.selector()?;
    Some(format!("{words} in {}", facts.place().region))
}

pub(super) fn key_from(facts: &Facts) -> Option<String> {
    facts.spec.login.ssh_key.as_ref()?.selector()
}

pub fn package(observed: &Observation) -> Option<Meaning> {
    let facts = &observed.facts;
    let Some(from) = package_from(facts) else {
        return Meaning::given(facts.spec.package.code.as_ref());
    };
    let recorded = unpinned(
        facts,
        |pins| pins.package.as_ref(),
        |record| &record.package,
    );
    standing(observed, |pins| pins.package.as_ref(), &from)
        .or_else(|| Some(of_record(recorded?, &from)))
        .or_else(|| answered(observed.found.package.as_ref(), &from))
        .map(Meaning::pinned)
}

/// The security group, if the spec names one and it is known.
pub fn firewall(observed: &Observation) -> Option<Meaning> {
    let facts = &observed.facts;
    let named = facts.spec.firewall.as_ref()?;
    let Some(from) = firewall_from(facts) else {
        return Meaning::given(named.id.as_ref());
    };
    let recorded = unpinned(
        facts,
        |pins| pins.firewall.as_ref(),
        |record| record.firewall.as_deref().unwrap_or_default(),
    );
    standing(observed, |pins| pins.firewall.as_ref(), &from)
        .or_else(|| Some(of_record(recorded?, &from)))
        .or_else(|| answered(observed.found.firewall.as_ref(), &from))
        .map(Meaning::pinned)
}

pub fn image(observed: &Observation) -> Option<Meaning> {
    let facts = &observed.facts;
    let Some(from) = image_from(facts) else {
        return Meaning::given(facts.spec.image.id.as_ref());
    };
    standing(observed, |pins| pins.image.as_ref(), &from)
        .or_else(|| Some(of_record(shown_image(observed)?, &from)))
        .or_else(|| answered(observed.found.image.as_ref(), &from))
        .map(Meaning::pinned)
}

/// The key pair, if the spec asks for one and it is known.
pub fn key(observed: &Observation) -> Option<Meaning> {
    let wanted = observed.facts.spec.login.ssh_key.as_ref()?;
    let Some(from) = key_from(&observed.facts) else {
        return Meaning::given(wanted.id.as_ref());
    };
    standing(observed, |pins| pins.ssh_key.as_ref(), &from)
        .or_else(|| answered(observed.found.key.as_ref(), &from))
        .map(Meaning::pinned)
}

pub(super) fn standing(
    observed: &Observation,
    which: Which,
    from: &str,
) -> Option<ResolvedReference> {
    Pins::of(&observed.facts.status, observed.facts.purchase()).get(which, from)
}

pub(super) fn answered(answer: Option<&Answer>, from: &str) -> Option<ResolvedReference> {
    let pin = answer?.as_ref().ok()?;
    (pin.from == from).then(|| pin.clone())
}

pub(super) fn of_record(id: String, from: &str) -> ResolvedReference {
    ResolvedReference {
        id,
        from: from.to_owned(),
    }
}

/// The value that was bought, if the record has it without its selector: the record was rebuilt, or is older than selectors.
pub(super) fn unpinned(
    facts: &Facts,
    which: Which,
    what: impl Fn(&PurchaseRecord) -> &str,
) -> Option<String> {
    let bought = bought(&facts.status, facts.purchase())?;
    let is_pinned = bought.resolved.as_ref().and_then(which).is_some();
    (!is_pinned && !what(bought).is_empty()).then(|| what(bought).to_owned())
}

/// The image that the server shows, if the selector matches it.
pub(super) fn shown_image(observed: &Observation) -> Option<String> {
    let facts = &observed.facts;
    bought(&facts.status, facts.purchase())?;
    let fields = match &observed.detail {
        Fact::Known(detail) => &detail.fields,
        Fact::NotAsked | Fact::Absent | Fact::Unknown(_) => &facts.status.detail,
    };
    let text = |field: &str| fields.get(field).and_then(Value::as_str);
    let fits = facts.spec.image.fits(
        text("imageName"),
        text("osDistroVersion"),
        text("imageType"),
    );
    let id = text("imageResourceUUID").filter(|id| fits && !id.is_empty())?;
    Some(id.to_owned())
}

/// Whether image or key pair is unknown, so that the server cannot be compared with the spec.
pub fn installation_is_open(observed: &Observation) -> bool {
    let wants_key = observed.facts.spec.login.ssh_key.is_some();
    image(observed).is_none() || (wants_key && key(observed).is_none())
}

/// Whether the selectors for package, security group or place were edited since the purchase. Returns the name of the field and
/// the new selector.
pub fn edited(facts: &Facts, record: &PurchaseRecord) -> Option<(&'static str, String)> {
    let pins = record.resolved.as_ref()?;
    let named = |text: &str, from: String| (!is_code(text)).then_some(from);
    let place = facts.place();
    let all = [
        ("package", &pins.package, package_from(facts)),
        ("firewall", &pins.firewall, firewall_from(facts)),
        (
            "place",
            &pins.region,
            named(&facts.spec.region, region_from(&facts.spec)),
        ),
        (
            "place",
            &pins.zone,
            named(&facts.spec.zone, zone_from(&facts.spec, &place.region)),
        ),
    ];
    all.into_iter().find_map(|(what, pin, wanted)| {
        let (pin, wanted) = (pin.as_ref()?, wanted?);
        (pin.from != wanted).then_some((what, wanted))
    })
}

/// The pins of the current spec, as far as known. A pin that is not known now keeps its former value.
pub fn pins(observed: &Observation) -> Option<Resolved> {
    let facts = &observed.facts;
    let former = facts.status.resolved.clone().unwrap_or_default();
    let place = facts.here.as_ref();
    let named = |text: &str, from: String, id: Option<&String>| {
        let id = id.filter(|_| !is_code(text))?;
        Some(of_record(id.clone(), &from))
    };
    let keep =
        |selector: Option<String>, meaning: Option<Meaning>, former: Option<ResolvedReference>| {
            selector?;
            meaning.and_then(|meaning| meaning.pin).or(former)
        };
    let zone_from = place.map_or_else(String::new, |place| zone_from(&facts.spec, &place.region));
    Resolved {
        region: named(
            &facts.spec.region,
            region_from(&facts.spec),
            place.map(|place| &place.region),
        ),
        zone: named(&facts.spec.zone, zone_from, place.map(|place| &place.zone)),
        package: keep(package_from(facts), package(observed), former.package),
        firewall: keep(firewall_from(facts), firewall(observed), former.firewall),
        image: keep(image_from(facts), image(observed), former.image),
        ssh_key: keep(key_from(facts), key(observed), former.ssh_key),
    }
    .if_any()
}
