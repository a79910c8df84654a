//! What the references of a spec mean: identifiers and codes are what they say; selectors mean what is pinned, or what was
//! looked up in this turn.
//!
//! A pin is kept in status, and in the record for what was bought or last reinstalled; it counts for the very selector that
//! it was looked up for. While nothing was bought nothing is pinned: a package that is sold out leaves the list, and the
//! next try takes the next one. Where a server is there, what it has already stays as long as it fits, so that neither a
//! lost pin nor a new image of the same name reinstalls it.

pub mod find;

use super::facts::Facts;
use super::observe::{Fact, Observation};
use crate::api::conditions::Verdict;
use crate::api::references::is_code;
use crate::api::{Binding, InstanceSpec, InstanceStatus, Pin, Resolved, Verb};
use crate::cloud::{Package, Place};
use serde_json::Value;

/// What one look-up gave: what the selector means, or what is to be said about it.
pub type Answer = Result<Pin, Verdict>;

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

impl Found {
    /// What stands in the way, the first thing first.
    pub fn trouble(&self) -> Option<&Verdict> {
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

/// What a reference means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// What the service calls it.
    pub id: String,
    /// The pin, where it was not given by identifier.
    pub pin: Option<Pin>,
}

impl Meaning {
    fn given(id: Option<&String>) -> Option<Self> {
        id.map(|id| Self {
            id: id.clone(),
            pin: None,
        })
    }

    fn pinned(pin: Pin) -> Self {
        Self {
            id: pin.id.clone(),
            pin: Some(pin),
        }
    }
}

/// The pins that stand: of status, and of the record of a server.
#[derive(Clone, Copy)]
struct Pins<'a> {
    told: Option<&'a Resolved>,
    recorded: Option<&'a Resolved>,
}

/// The record of a server that is there: not of one that its failed create left behind.
pub(super) fn bought<'a>(
    status: &InstanceStatus,
    binding: Option<&'a Binding>,
) -> Option<&'a Binding> {
    let has_failed = |binding: &Binding| {
        let mut history = status.history.iter();
        history.any(|entry| {
            entry.attempt == i64::from(binding.attempt)
                && entry.verb == Verb::Create
                && !entry.succeeded
        })
    };
    binding.filter(|binding| binding.id.is_some() && !has_failed(binding))
}

type Which = fn(&Resolved) -> Option<&Pin>;

impl<'a> Pins<'a> {
    fn of(status: &'a InstanceStatus, binding: Option<&'a Binding>) -> Self {
        let bought = bought(status, binding);
        Self {
            told: status.resolved.as_ref(),
            recorded: bought.and_then(|binding| binding.resolved.as_ref()),
        }
    }

    fn get(self, which: Which, from: &str) -> Option<Pin> {
        let all = [self.told, self.recorded];
        let mut pins = all.into_iter().flatten().filter_map(which);
        pins.find(|pin| pin.from == from).cloned()
    }
}

/// Where the spec wants the server, as far as it can be told without looking it up.
pub fn place(
    spec: &InstanceSpec,
    status: &InstanceStatus,
    binding: Option<&Binding>,
) -> Option<Place> {
    let pins = Pins::of(status, binding);
    let bought = bought(status, binding);
    // A record that knows no name was made when the spec gave the code, or was rebuilt: the place is the recorded one.
    let recorded = |which: Which| {
        let unnamed = bought.filter(|binding| {
            let pins = binding.resolved.as_ref();
            pins.and_then(which).is_none()
        });
        unnamed.and_then(|binding| binding.places.last()?.split_once('/'))
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

fn region_from(spec: &InstanceSpec) -> String {
    format!("name {:?}", spec.region)
}

fn zone_from(spec: &InstanceSpec, region: &str) -> String {
    format!("name {:?} in {region}", spec.zone)
}

fn package_from(facts: &Facts) -> Option<String> {
    let words = facts.spec.package.selector()?;
    Some(format!("{words} in {}", facts.place()))
}

fn image_from(facts: &Facts) -> Option<String> {
    let words = facts.spec.image.selector()?;
    Some(format!("{words} in {}", facts.place().region))
}

fn firewall_from(facts: &Facts) -> Option<String> {
    let words = facts.spec.firewall.selector()?;
    Some(format!("{words} in {}", facts.place().region))
}

fn key_from(facts: &Facts) -> Option<String> {
    facts.spec.login.ssh_key.as_ref()?.selector()
}

/// The package, if it is known.
pub fn package(seen: &Observation) -> Option<Meaning> {
    let facts = &seen.facts;
    let Some(from) = package_from(facts) else {
        return Meaning::given(facts.spec.package.code.as_ref());
    };
    let recorded = unpinned(
        facts,
        |pins| pins.package.as_ref(),
        |record| &record.package,
    );
    standing(seen, |pins| pins.package.as_ref(), &from)
        .or_else(|| Some(of_record(recorded?, &from)))
        .or_else(|| answered(seen.found.package.as_ref(), &from))
        .map(Meaning::pinned)
}

/// The security group, if it is known.
pub fn firewall(seen: &Observation) -> Option<Meaning> {
    let facts = &seen.facts;
    let Some(from) = firewall_from(facts) else {
        return Meaning::given(facts.spec.firewall.id.as_ref());
    };
    let recorded = unpinned(
        facts,
        |pins| pins.firewall.as_ref(),
        |record| &record.firewall,
    );
    standing(seen, |pins| pins.firewall.as_ref(), &from)
        .or_else(|| Some(of_record(recorded?, &from)))
        .or_else(|| answered(seen.found.firewall.as_ref(), &from))
        .map(Meaning::pinned)
}

/// The image, if it is known.
pub fn image(seen: &Observation) -> Option<Meaning> {
    let facts = &seen.facts;
    let Some(from) = image_from(facts) else {
        return Meaning::given(facts.spec.image.id.as_ref());
    };
    standing(seen, |pins| pins.image.as_ref(), &from)
        .or_else(|| Some(of_record(shown_image(seen)?, &from)))
        .or_else(|| answered(seen.found.image.as_ref(), &from))
        .map(Meaning::pinned)
}

/// The key pair, if the spec wants one and it is known.
pub fn key(seen: &Observation) -> Option<Meaning> {
    let wanted = seen.facts.spec.login.ssh_key.as_ref()?;
    let Some(from) = key_from(&seen.facts) else {
        return Meaning::given(wanted.id.as_ref());
    };
    standing(seen, |pins| pins.ssh_key.as_ref(), &from)
        .or_else(|| answered(seen.found.key.as_ref(), &from))
        .map(Meaning::pinned)
}

fn standing(seen: &Observation, which: Which, from: &str) -> Option<Pin> {
    Pins::of(&seen.facts.status, seen.facts.binding()).get(which, from)
}

fn answered(answer: Option<&Answer>, from: &str) -> Option<Pin> {
    let pin = answer?.as_ref().ok()?;
    (pin.from == from).then(|| pin.clone())
}

fn of_record(id: String, from: &str) -> Pin {
    Pin {
        id,
        from: from.to_owned(),
    }
}

/// What was bought, where the record tells the thing and not the selector: it was rebuilt, or is older than selectors.
fn unpinned(facts: &Facts, which: Which, what: impl Fn(&Binding) -> &String) -> Option<String> {
    let bought = bought(&facts.status, facts.binding())?;
    let is_pinned = bought.resolved.as_ref().and_then(which).is_some();
    (!is_pinned && !what(bought).is_empty()).then(|| what(bought).clone())
}

/// The image that the server shows, where it is one that the selector means.
fn shown_image(seen: &Observation) -> Option<String> {
    let facts = &seen.facts;
    bought(&facts.status, facts.binding())?;
    let fields = match &seen.detail {
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

/// Whether image or key pair is not known, so that nothing can be said about what the server is to have.
pub fn installation_is_open(seen: &Observation) -> bool {
    let wants_key = seen.facts.spec.login.ssh_key.is_some();
    image(seen).is_none() || (wants_key && key(seen).is_none())
}

/// Whether the spec was edited since the purchase in what selectors say of package, security group or place: what it says,
/// and the words for it.
pub fn edited(facts: &Facts, binding: &Binding) -> Option<(&'static str, String)> {
    let pins = binding.resolved.as_ref()?;
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

/// The pins of the spec as it is, as far as they are known; what is not known now keeps the one that stood.
pub fn pins(seen: &Observation) -> Option<Resolved> {
    let facts = &seen.facts;
    let former = facts.status.resolved.clone().unwrap_or_default();
    let place = facts.here.as_ref();
    let named = |text: &str, from: String, id: Option<&String>| {
        let id = id.filter(|_| !is_code(text))?;
        Some(of_record(id.clone(), &from))
    };
    let keep = |selector: Option<String>, meaning: Option<Meaning>, former: Option<Pin>| {
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
        package: keep(package_from(facts), package(seen), former.package),
        firewall: keep(firewall_from(facts), firewall(seen), former.firewall),
        image: keep(image_from(facts), image(seen), former.image),
        ssh_key: keep(key_from(facts), key(seen), former.ssh_key),
    }
    .if_any()
}
