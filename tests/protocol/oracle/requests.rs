//! The requests of the users of one Instance, from the history of its spec.

use cloud_server_operator::api::{Lasts, Pause};
use cloud_server_operator::runtime::chance;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// A property of a spec that restricts the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Property {
    /// The operator begins nothing.
    Paused,
    /// The operator makes no mutating call.
    Observed,
    /// The server outlives its Instance.
    Retained,
    /// A deletion releases nothing.
    Protected,
    /// Nothing is bought.
    Imported,
    /// No power is cut.
    Unforced,
    /// No power is cut before the grace period.
    Graced,
    /// An externally released server is not replaced.
    NotRecreated,
}

impl Property {
    const ALL: [Self; 8] = [
        Self::Paused,
        Self::Observed,
        Self::Retained,
        Self::Protected,
        Self::Imported,
        Self::Unforced,
        Self::Graced,
        Self::NotRecreated,
    ];

    /// Whether a spec has the property.
    pub(super) fn is_in(self, spec: &Value) -> bool {
        match self {
            Self::Paused => is_paused(&spec["pause"]),
            Self::Observed => spec["managementPolicy"] == "Observe",
            Self::Retained => spec["deletionPolicy"] == "Retain",
            Self::Protected => spec["deletionProtection"] == true,
            Self::Imported => spec["import"].is_object(),
            Self::Unforced => matches!(spec["stopPolicy"]["force"].as_str(), None | Some("Never")),
            Self::Graced => spec["stopPolicy"]["force"] != "Always",
            Self::NotRecreated => spec["onExternalDeletion"] != "Recreate",
        }
    }
}

/// All requests.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// How often a user requested something that erases a disk.
    pub(super) erasures: usize,
    /// How often a user requested a restart.
    pub(super) restarts: usize,
    /// How many replacements of externally released servers are allowed: the highest limit that the spec ever had.
    pub(super) recreations: usize,
    /// Since when the spec has each property; none if it always had.
    since: BTreeMap<Property, Option<Instant>>,
    /// The last request that determines a reinstall: image, key and token.
    installation: Value,
    /// The request was different for a while before the server was reported as bought, and the purchase may have used that one.
    differed: bool,
    restart: Value,
    /// Whether the spec ever restrained the operator.
    has_restrained: bool,
    /// The current spec.
    spec: Value,
}

impl Requests {
    /// The object was created.
    pub(super) fn are_born(&mut self, object: &Value) {
        let spec = &object["spec"];
        self.take(spec);
        self.since = Property::ALL
            .into_iter()
            .filter(|property| property.is_in(spec))
            .map(|property| (property, None))
            .collect();
        self.installation = installation_of(spec);
        self.restart = spec["restart"].clone();
        self.recreations = limit(spec);
    }

    /// The object was edited.
    pub(super) fn are_edited(&mut self, object: &Value) {
        let spec = &object["spec"];
        let former_token = self.spec["reinstall"]["token"].clone();
        self.becomes(spec);
        let is_new = installation_of(spec) != self.installation;
        let is_bought = object["status"]["applied"].is_object();
        self.differed |= is_new && !is_bought;
        // A token that came before the server was reported as bought may have come before the purchase, which then carried it
        // out, or after it.
        let is_asked = is_acknowledged(spec, &self.installation[2])
            || (self.differed && is_acknowledged(spec, &former_token));
        if is_asked && (is_new || self.differed) {
            self.installation = installation_of(spec);
            self.differed = false;
            self.erasures += 1;
        }
        if spec["restart"] != self.restart {
            self.restart = spec["restart"].clone();
            self.restarts += 1;
        }
        self.recreations = self.recreations.max(limit(spec));
    }

    /// The object was restored to a former state, which requests nothing.
    pub(super) fn go_back(&mut self, object: &Value) {
        let spec = &object["spec"];
        self.becomes(spec);
        self.installation = installation_of(spec);
        self.restart = spec["restart"].clone();
    }

    fn take(&mut self, spec: &Value) -> Value {
        let restrained = [Property::Paused, Property::Observed];
        self.has_restrained |= restrained.iter().any(|each| each.is_in(spec));
        std::mem::replace(&mut self.spec, spec.clone())
    }

    fn becomes(&mut self, spec: &Value) {
        let former = self.take(spec);
        for property in Property::ALL {
            if !property.is_in(&former) {
                // A pause that ended by its time begins again.
                self.since.remove(&property);
            }
            if property.is_in(spec) {
                self.since.entry(property).or_insert(Some(Instant::now()));
            } else {
                self.since.remove(&property);
            }
        }
    }

    /// Whether the spec has had the property for longer than this, or since its creation.
    pub(super) fn have_held(&self, property: Property, longer_than: Duration) -> bool {
        let since = self.since.get(&property);
        // A pause may have ended by its time.
        property.is_in(&self.spec)
            && since.is_some_and(|since| since.is_none_or(|since| since.elapsed() > longer_than))
    }

    /// Whether the spec has the property now.
    pub(super) fn hold_now(&self, property: Property) -> bool {
        property.is_in(&self.spec)
    }

    /// Whether the spec ever restrained the operator.
    pub(super) fn have_ever_restrained(&self) -> bool {
        self.has_restrained
    }

    /// Whether one of several requests may be for the image that is already installed.
    pub(super) fn may_leave_the_image(&self) -> bool {
        self.erasures > 1 || self.installation[2].is_string()
    }
}

/// Whether a pause is in effect, by the clock that the operator reads.
fn is_paused(pause: &Value) -> bool {
    let pause = serde_json::from_value::<Option<Pause>>(pause.clone());
    let pause = pause.ok().flatten();
    pause.is_some_and(|pause| pause.lasts(chance::time_of_day()) != Lasts::Over)
}

/// The parts of a spec that determine a reinstall.
fn installation_of(spec: &Value) -> Value {
    let token = &spec["reinstall"]["token"];
    json!([spec["image"], spec["login"]["sshKey"], token])
}

/// Whether the policy of a spec allows its changes to erase a disk.
fn is_acknowledged(spec: &Value, former_token: &Value) -> bool {
    let (token, named) = (&spec["reinstall"]["token"], &spec["reinstall"]["image"]);
    let is_new = token.is_string() && token != former_token;
    let names_it = *named == spec["image"]["id"];
    match spec["reinstallPolicy"].as_str() {
        Some("Never") => false,
        Some("OnRequest") => is_new && names_it,
        // A new token that names another image holds up everything.
        _ => !is_new || named.is_null() || names_it,
    }
}

/// How many replacements are allowed.
pub(super) fn limit(spec: &Value) -> usize {
    let limit = spec["recreateLimit"].as_u64().unwrap_or(1);
    usize::try_from(limit).unwrap_or(usize::MAX)
}
