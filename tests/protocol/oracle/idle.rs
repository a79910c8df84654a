//! Judges the final state, when all is idle.

use super::requests::Property;
use super::{Oracle, Rule, Verdict, condition, name_of, record, servers_of};
use crate::apiserver::{Apiserver, INSTANCES};
use cloud_server_operator::api::Marker;
use cloud_simulator::model::{ServerInfo, World};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// By then a listing has shown the server: without operations in flight, zones are listed every five minutes.
const QUIET_LISTING: Duration = Duration::from_secs(400);

/// The idle world.
#[derive(Clone, Copy)]
pub(super) struct Idle<'a> {
    pub(super) kube: &'a Apiserver,
    pub(super) cloud: &'a World,
    /// The content of the login Secret that users create.
    password: &'a str,
}

impl Oracle {
    /// The verdicts of all rules on the final state.
    pub fn judge_idle(
        &self,
        kube: &Apiserver,
        cloud: &World,
        password: &str,
    ) -> Vec<(Rule, Verdict)> {
        let mut found = Vec::new();
        let mut owned: BTreeSet<String> = BTreeSet::new();
        let world = Idle {
            kube,
            cloud,
            password,
        };
        for (key, object) in kube.all().filter(|(key, _)| key.0 == INSTANCES) {
            let alive = servers_of(object, cloud);
            owned.extend(alive.iter().map(|server| server.id.clone()));
            let settled = self.instance_when_idle(object, &alive, world);
            if let ([server], Verdict::Right) = (alive.as_slice(), &settled)
                && condition(object, "Ready")["reason"] == "Available"
            {
                found.extend(self.passwords_when_idle(object, server, world));
            }
            found.push((Rule::Settled, settled.about(&format!("L1: {}", key.1))));
            if self.denies_imports && Property::Imported.is_in(&object["spec"]) {
                let has_it = record(object).is_some_and(|record| record.imported.is_some());
                let why = has_it.then(|| format!("{} has what the Account denies it", key.1));
                found.push((Rule::ImportAllowed, Verdict::of(why, false)));
            }
            let closed = self.is_ready_truthful(object, cloud);
            found.extend(closed.map(|verdict| (Rule::Closed, verdict)));
        }
        let live = cloud.live_servers().into_iter();
        let kept = live.filter(|server| self.kept.contains(&server.id));
        found.extend(kept.map(|_| (Rule::Kept, Verdict::Right)));
        found.extend(self.owned_when_idle(&owned, cloud));
        found
    }

    /// Whether every live server has an owner.
    fn owned_when_idle(&self, owned: &BTreeSet<String>, cloud: &World) -> Vec<(Rule, Verdict)> {
        let t = &self.troubles;
        // Beyond the reach of any rule: no process or object knows of such a server any more (docs, "What is not promised").
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
            let why = is_orphan.then(|| format!("S2: server {} has no owner", server.id));
            (
                Rule::Owned,
                Verdict::of(why, is_out_of_reach || is_tampered),
            )
        };
        cloud.live_servers().into_iter().map(verdict).collect()
    }

    /// Whether a server of a deleted Instance may still be released: it was created so recently that a listing has yet to show
    /// it to the process that remembers the Instance.
    pub fn may_go(&self, kube: &Apiserver, cloud: &World) -> bool {
        let objects = kube.all().filter(|(key, _)| key.0 == INSTANCES);
        let servers = objects.flat_map(|(_, object)| servers_of(object, cloud));
        let owned = servers.map(|server| server.id).collect();
        let orphans = self.orphans(&owned, cloud);
        orphans.iter().any(|server| server.billed < QUIET_LISTING)
    }

    /// The servers that belong to no existing Instance and were not retained on purpose.
    fn orphans(&self, owned: &BTreeSet<String>, cloud: &World) -> Vec<ServerInfo> {
        let mut servers = cloud.live_servers();
        servers.retain(|server| {
            let is_ownerless = self.foreign.get(&server.id) == Some(&None);
            let marker = Marker::in_name(&server.name);
            let is_kept = self.kept.contains(&server.id)
                || marker.is_some_and(|marker| self.kept_markers.contains(&marker));
            !owned.contains(&server.id) && !is_ownerless && !is_kept
        });
        servers
    }

    /// The Instances that keep retrying at the slowest pace, without end: they request something of a server that a failed or
    /// interrupted create left behind and that the service refuses forever, or a package that is sold out. L3 judges how often
    /// they may.
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

    /// Judges that the login works, and that it is where users look it up.
    fn passwords_when_idle(
        &self,
        object: &Value,
        server: &ServerInfo,
        world: Idle<'_>,
    ) -> Vec<(Rule, Verdict)> {
        let spec = &object["spec"];
        let is_generated = spec["login"]["generate"].is_object();
        // The values that it had when it was imported count as applied.
        if Property::Imported.is_in(spec) && !is_generated {
            return Vec::new();
        }
        let mut found = self.secrets_when_idle(object, server, world.cloud, world.kube);
        if spec["login"]["passwordSecretRef"].is_object() && !Property::Imported.is_in(spec) {
            found.push(self.given_when_idle(object, server, world));
        }
        found
    }

    /// Judges that the server has the password that users gave.
    fn given_when_idle(
        &self,
        object: &Value,
        server: &ServerInfo,
        world: Idle<'_>,
    ) -> (Rule, Verdict) {
        let has = world.cloud.password_of(&server.id);
        let t = &self.troubles;
        // With two processes, or a change that was interrupted unnoticed, the last password may be the old one, and nothing
        // shows it (docs).
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

/// Whether an operation is announced that the service has not accepted.
pub(super) fn is_untaken(object: &Value) -> bool {
    super::open_operation(object).is_some_and(|open| !open.accepted)
}
