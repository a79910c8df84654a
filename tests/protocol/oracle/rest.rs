//! Judges what is left when all is quiet.

use super::wishes::Property;
use super::{Oracle, Rule, Verdict, condition, name_of, record, servers_of};
use crate::apiserver::{Apiserver, INSTANCES};
use cloud_server_operator::api::Marker;
use cloud_simulator::model::{ServerInfo, World};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// By then a listing has shown it: where nothing is under way, one is read every five minutes.
const QUIET_LISTING: Duration = Duration::from_secs(400);

/// The world at rest.
#[derive(Clone, Copy)]
pub(super) struct Rest<'a> {
    pub(super) kube: &'a Apiserver,
    pub(super) cloud: &'a World,
    /// What the login Secret holds that users make.
    password: &'a str,
}

impl Oracle {
    /// All is quiet: what every rule says of what is left.
    pub fn at_rest(&self, kube: &Apiserver, cloud: &World, password: &str) -> Vec<(Rule, Verdict)> {
        let mut found = Vec::new();
        let mut owned: BTreeSet<String> = BTreeSet::new();
        let world = Rest {
            kube,
            cloud,
            password,
        };
        for (key, object) in kube.all().filter(|(key, _)| key.0 == INSTANCES) {
            let alive = servers_of(object, cloud);
            owned.extend(alive.iter().map(|server| server.id.clone()));
            let settled = self.instance_at_rest(object, &alive, world);
            if let ([server], Verdict::Right) = (alive.as_slice(), &settled)
                && condition(object, "Ready")["reason"] == "Available"
            {
                found.extend(self.passwords_at_rest(object, server, world));
            }
            found.push((Rule::Settled, settled.about(&format!("L1: {}", key.1))));
            if self.denies_imports && Property::Imported.is_in(&object["spec"]) {
                let has_it = record(object).is_some_and(|record| record.imported.is_some());
                let why = has_it.then(|| format!("{} has what the Account denies it", key.1));
                found.push((Rule::ImportAllowed, Verdict::of(why, false)));
            }
            let closed = self.is_told_truly(object, cloud);
            found.extend(closed.map(|verdict| (Rule::Closed, verdict)));
        }
        let live = cloud.live_servers().into_iter();
        let kept = live.filter(|server| self.kept.contains(&server.id));
        found.extend(kept.map(|_| (Rule::Kept, Verdict::Right)));
        found.extend(self.owned_at_rest(&owned, cloud));
        found
    }

    /// Whether every live server belongs to somebody.
    fn owned_at_rest(&self, owned: &BTreeSet<String>, cloud: &World) -> Vec<(Rule, Verdict)> {
        let t = &self.troubles;
        // What no rule can reach: nothing is left that knows of such a server (docs, "What is not promised").
        let is_out_of_reach = (t.deleted
            && (t.takeovers > 0 || t.no_lease || t.doubled > 0)
            && t.crashes + t.ended > 0)
            || (t.deleted && self.is_lied_to());
        let owner = |server: &ServerInfo| self.names.get(&Marker::in_name(&server.name)?);
        let orphans = self.orphans(owned, cloud);
        let verdict = |server: ServerInfo| {
            let is_tampered = match owner(&server) {
                Some(name) => self.is_tampered(name),
                None => self.is_any_tampered(),
            };
            let is_orphan = orphans.iter().any(|orphan| orphan.id == server.id);
            let why = is_orphan.then(|| format!("S2: server {} belongs to nobody", server.id));
            (
                Rule::Owned,
                Verdict::of(why, is_out_of_reach || is_tampered),
            )
        };
        cloud.live_servers().into_iter().map(verdict).collect()
    }

    /// Whether a server of an Instance that is gone may be on its way out: it was made so lately that a quiet listing has yet to
    /// show it to whoever remembers that Instance.
    pub fn may_go(&self, kube: &Apiserver, cloud: &World) -> bool {
        let objects = kube.all().filter(|(key, _)| key.0 == INSTANCES);
        let servers = objects.flat_map(|(_, object)| servers_of(object, cloud));
        let owned = servers.map(|server| server.id).collect();
        let orphans = self.orphans(&owned, cloud);
        orphans.iter().any(|server| server.billed < QUIET_LISTING)
    }

    /// The servers that belong to none of the Instances that are there, and were not left behind by will.
    fn orphans(&self, owned: &BTreeSet<String>, cloud: &World) -> Vec<ServerInfo> {
        let mut servers = cloud.live_servers();
        servers.retain(|server| {
            let is_nobodys = self.foreign.get(&server.id) == Some(&None);
            let marker = Marker::in_name(&server.name);
            let is_kept = self.kept.contains(&server.id)
                || marker.is_some_and(|marker| self.kept_markers.contains(&marker));
            !owned.contains(&server.id) && !is_nobodys && !is_kept
        });
        servers
    }

    /// The Instances that want something of a server which a failed or broken-off create left behind, and which the service
    /// refuses for ever, or one of a package that is sold out: it is asked for again at the slowest pace, without an end. How
    /// often that may be, L3 judges.
    pub fn asking_in_vain(&self, kube: &Apiserver) -> BTreeSet<String> {
        let objects = kube.all().filter(|(key, _)| key.0 == INSTANCES);
        let asking = objects.filter(|(_, object)| {
            let id = object["status"]["id"].as_str().unwrap_or_default();
            let reason = &condition(object, "Ready")["reason"];
            let has_server = record(object).is_some_and(|record| record.id.is_some());
            let of_two = self.troubles.no_lease && reason == "OperationFailed";
            let is_refused = reason == "OperationRefused" || reason == "ServiceBusy";
            (self.failed_creates.contains(id) && (is_refused || is_untaken(object) || of_two))
                || (self.lists.is_sold_out && !has_server && reason == "ServiceBusy")
        });
        asking.map(|(key, _)| key.1.clone()).collect()
    }

    /// What is to be logged in with works, and stands where it is looked for.
    fn passwords_at_rest(
        &self,
        object: &Value,
        server: &ServerInfo,
        world: Rest<'_>,
    ) -> Vec<(Rule, Verdict)> {
        let spec = &object["spec"];
        let is_generated = spec["login"]["generate"].is_object();
        // What it had when it was taken over counts as applied.
        if Property::Imported.is_in(spec) && !is_generated {
            return Vec::new();
        }
        let mut found = self.secrets_at_rest(object, server, world.cloud, world.kube);
        if spec["login"]["passwordSecretRef"].is_object() && !Property::Imported.is_in(spec) {
            found.push(self.given_at_rest(object, server, world));
        }
        found
    }

    /// The server has the password that users gave.
    fn given_at_rest(
        &self,
        object: &Value,
        server: &ServerInfo,
        world: Rest<'_>,
    ) -> (Rule, Verdict) {
        let has = world.cloud.password_of(&server.id);
        let t = &self.troubles;
        // Two processes, or a change that was broken off unseen: the last password may be the old one, and nothing shows it
        // (docs).
        let is_excused = t.takeovers > 0
            || t.no_lease
            || self.is_tampered(name_of(object))
            || t.copied
            || t.wiped
            || t.too_late
            || self.touched_at_console.contains(&server.id)
            || self.is_unsure(&server.id, world.cloud);
        let is_other = has.as_deref() != Some(world.password);
        let why = is_other.then(|| {
            format!(
                "L1: {}: Available, with another password than the Secret holds",
                name_of(object)
            )
        });
        (Rule::GivenAtRest, Verdict::of(why, is_excused))
    }
}

/// Whether an operation is announced that the service has not taken.
pub(super) fn is_untaken(object: &Value) -> bool {
    super::open_operation(object).is_some_and(|open| !open.accepted)
}
