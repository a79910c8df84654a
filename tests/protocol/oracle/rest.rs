//! Judges what is left when all is quiet.

use super::wishes::{self, Property};
use super::{Oracle, condition, is_alive, name_of, record, servers_of, speaks};
use crate::apiserver::{ACCOUNTS, Apiserver, INSTANCES, uid};
use crate::fault::Kind;
use cloud_server_operator::api::{Binding, Marker};
use cloud_simulator::model::{ServerInfo, World};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// By then a listing has shown it: where nothing is under way, one is read every five minutes.
const QUIET_LISTING: Duration = Duration::from_secs(400);

/// The world at rest.
#[derive(Clone, Copy)]
struct Rest<'a> {
    kube: &'a Apiserver,
    cloud: &'a World,
    /// What the login Secret holds that users make.
    password: &'a str,
}

impl Oracle {
    /// All is quiet: whether everything is as it should be. Empty: it is.
    pub fn at_rest(&self, kube: &Apiserver, cloud: &World, password: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut owned: BTreeSet<String> = BTreeSet::new();
        for (key, object) in kube.all().filter(|(key, _)| key.0 == INSTANCES) {
            let alive = servers_of(object, cloud);
            owned.extend(alive.iter().map(|server| server.id.clone()));
            let world = Rest {
                kube,
                cloud,
                password,
            };
            if let Some(why) = self.instance_at_rest(object, &alive, world) {
                wrong.push(format!("L1: {}: {why}", key.1));
            }
            wrong.extend(self.is_told_truly(object, cloud));
        }
        let t = &self.troubles;
        // What no rule can reach: nothing is left that knows of such a server (docs, "What is not promised").
        let excused = (t.deleted
            && (t.takeovers > 0 || t.no_lease || t.doubled > 0)
            && t.crashes + t.ended > 0)
            || (t.deleted && self.is_lied_to());
        if !excused {
            let orphans = self.orphans(&owned, cloud).into_iter();
            let owner = |server: &ServerInfo| self.names.get(&Marker::in_name(&server.name)?);
            let orphans = orphans.filter(|server| match owner(server) {
                Some(name) => !self.is_tampered(name),
                None => !self.is_any_tampered(),
            });
            wrong.extend(
                orphans.map(|server| format!("S2: server {} belongs to nobody", server.id)),
            );
        }
        wrong
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

    fn instance_at_rest(
        &self,
        object: &Value,
        alive: &[ServerInfo],
        world: Rest<'_>,
    ) -> Option<String> {
        let ready = &condition(object, "Ready")["reason"];
        let reason = ready.as_str().unwrap_or_default();
        let spec = &object["spec"];
        if object["metadata"]["deletionTimestamp"].is_string() {
            let waits = match reason {
                "DeletionProtected" => Property::Protected.is_in(spec),
                "Paused" => Property::Paused.is_in(spec),
                _ => false,
            };
            return (!waits).then(|| format!("it is still being deleted ({reason})"));
        }
        let observed = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        if !observed {
            return Some(format!("its generation was not observed ({reason})"));
        }
        if let Some(is_right) = self.is_rightly_held(object, alive, reason, world) {
            return (!is_right).then(|| format!("{} servers, {reason}", alive.len()));
        }
        let id = object["status"]["id"].as_str().unwrap_or_default();
        let touched = self.touched_at_console.contains(id);
        match (alive, reason) {
            ([], "ServerMissing") if touched && self.may_stay_missing(object, world) => None,
            // Of two, the recorded one is gone: the other one is told, and goes with the Instance.
            ([other], "ServerMissing") if touched && self.may_stay_missing(object, world) => {
                let message = &condition(object, "Ready")["message"];
                let is_told = message
                    .as_str()
                    .is_some_and(|told| told.contains(&other.id));
                (!is_told).then(|| format!("ServerMissing, and {} is not told", other.id))
            }
            ([], "ServerMissing") if self.is_tampered(name_of(object)) || self.troubles.copied => {
                None
            }
            // The purchase in its place was called off.
            ([], "ServerMissing") if id.is_empty() && self.is_called_off(object) => None,
            // Two had it on record, and the one with the better right was deleted with it (docs).
            ([], "ServerMissing") if self.was_shared(id) => None,
            ([server], "Available") => self.server_at_rest(object, server, world),
            // Its create was ended at the console, or failed and was forgotten: what is left is neither whole nor gone (docs).
            // What is asked of it all the same is refused; of two processes the one that did not call only sees that it was not done.
            ([server], reason)
                if self.failed_creates.contains(&server.id)
                    && (matches!(
                        reason,
                        "PowerStateDiffers" | "ServiceBusy" | "OperationRefused"
                    ) || is_untaken(object)
                        || (self.troubles.no_lease && reason == "OperationFailed")
                        || (touched && reason != "Available")) =>
            {
                None
            }
            // One of two processes looked at it, stood still, and took it over when the other one had released it.
            ([], "ServerMissing")
                if Property::Imported.is_in(&object["spec"])
                    && self.may_be_imported_twice()
                    && self.released_imports.contains(id) =>
            {
                None
            }
            // Nothing told that its create failed: it may as well have been released by somebody else (docs).
            ([], "ServerMissing")
                if self.failed_creates.contains(id)
                    && (self.troubles.tasks_denied > 0
                        || self.is_create_without_a_task(object)) =>
            {
                None
            }
            // Only a human can tell: the answer was lost, and nothing shows whether the disk was erased.
            ([_], "OutcomeUnknown")
                if (self.troubles.same_image || touched)
                    && (self.lost_reinstalls() > 0
                        || self.half_told.contains(name_of(object))
                        // The record that one process put back is not the one that the other knows of.
                        || (self.troubles.no_lease && self.troubles.drops > 0)) =>
            {
                None
            }
            ([server], "ImageDiffers")
                if touched
                    || self.may_be_for_a_former_owner(&server.id)
                    // A reinstall whose wish was taken back may land late (docs).
                    || self.troubles.no_lease
                    || self.troubles.takeovers > 0
                    || self.is_tampered(name_of(object))
                    || self.troubles.copied
                    // What the spec says counts as applied where status was lost, and what differs is told (docs).
                    || self.troubles.wiped
                    // It failed, and the service says that it knows no such task (docs).
                    || (self.troubles.tasks_denied > 0 && self.troubles.failed > 0) =>
            {
                None
            }
            // The doubled server that took the place of one that somebody released is as it was bought: nothing erases it (docs).
            ([server], "ImageDiffers") if self.took_the_place(server) => None,
            (alive, reason) => Some(format!("{} servers, {reason}", alive.len())),
        }
    }

    /// Whether the service may never have told how the create of this object ended.
    fn is_end_untold(&self, object: &Value, world: Rest<'_>) -> bool {
        self.troubles.tasks_denied > 0
            || world.cloud.readings().task_kept.is_some()
            || self.is_create_without_a_task(object)
    }

    /// Whether this server was made by a doubled request, and the other one was released at the console.
    fn took_the_place(&self, server: &ServerInfo) -> bool {
        let marker = Marker::in_name(&server.name);
        marker.is_some_and(|marker| {
            self.troubles.doubled_markers.contains(&marker)
                && self.released_at_console.contains(&marker)
        })
    }

    /// Whether this reason, which the spec or the lists account for, is the right one; none where it is another matter.
    fn is_rightly_held(
        &self,
        object: &Value,
        alive: &[ServerInfo],
        reason: &str,
        world: Rest<'_>,
    ) -> Option<bool> {
        let spec = &object["spec"];
        let image = spec["image"]["id"].as_str();
        let (imported, lists) = (Property::Imported.is_in(spec), &self.lists);
        Some(match reason {
            "Paused" => Property::Paused.is_in(spec),
            "AccountLimitReached" => alive.is_empty() && self.is_full(object, world.kube),
            "NotBought" => alive.is_empty() && Property::Observed.is_in(spec),
            "ObservedOnly" => Property::Observed.is_in(spec),
            "ReinstallPending" => {
                // A token that names another image holds up everything, whatever the policy.
                let named = &spec["reinstall"]["image"];
                spec["reinstallPolicy"] == "OnRequest"
                    || (named.is_string() && *named != spec["image"]["id"])
            }
            "ReinstallForbidden" => spec["reinstallPolicy"] == "Never",
            "RecreateLimitReached" => {
                let record = record(object);
                let marker = record.map(|record| record.marker);
                // What the console stopped in the making was never told as whole, and counts as a server all the same.
                let stopped = |id: &&String| self.touched_at_console.contains(*id);
                let mut stopped = self.failed_creates.iter().filter(stopped);
                let is_broken_off = stopped.any(|id| {
                    let server = world.cloud.server(id);
                    server.is_some_and(|server| Marker::in_name(&server.name) == marker)
                });
                let whole = marker.and_then(|marker| self.whole.get(&marker));
                let is_spent = whole.is_some_and(|whole| *whole > wishes::limit(spec));
                let t = &self.troubles;
                alive.is_empty()
                    && !Property::NotRecreated.is_in(spec)
                    && (is_spent || is_broken_off || t.copied || self.is_tampered(name_of(object)))
            }
            "ImportDenied" => {
                let account = world.kube.get(&(ACCOUNTS, "default".to_owned()));
                let is_allowed = account.is_some_and(|a| a["spec"]["imports"] == "Allowed");
                imported && !is_allowed && record(object).is_none()
            }
            "ImportConflict" => imported && self.is_taken(object, world),
            "ImportNotFound" => imported && alive.is_empty() && self.is_legacy_gone(world.cloud),
            // One that is gone differs in nothing, and one that somebody rebuilt differs in something else: that is told at the
            // next look, and is no rest before.
            "ImportDiffers" => {
                let message = &condition(object, "Ready")["message"];
                let message = message.as_str().unwrap_or_default();
                let servers = self.foreign.keys().filter_map(|id| world.cloud.server(id));
                let mut servers = servers.filter(is_alive);
                let differs = |has: &str| Some(has) != image && message.contains(has);
                imported && servers.any(|server| differs(&server.image))
            }
            // What is sold out is asked for again without an end. How often that may be, L3 judges.
            "ServiceBusy" if alive.is_empty() && lists.is_sold_out => true,
            "ReferenceNotFound" | "CreateRefused" => {
                alive.is_empty() && (lists.is_withdrawn || lists.is_sold_out)
            }
            // What it was resolved to was lost with the store, or with a record of which status tells nothing (docs).
            "ReferenceAmbiguous" => {
                let is_lost = object["status"]["resolved"]["image"].is_null();
                let name = name_of(object);
                let was_dropped =
                    self.troubles.restores > 0 || self.troubles.replaced.contains(name);
                (alive.is_empty() || (was_dropped && is_lost)) && lists.is_doubled
            }
            _ => return None,
        })
    }

    /// Whether somebody else has the server that an object imports, or had it on record and tells it still.
    fn is_taken(&self, object: &Value, world: Rest<'_>) -> bool {
        let others = world.kube.all().filter(|(key, _)| key.0 == INSTANCES);
        let mut known = others
            .filter(|(_, other)| uid(other) != uid(object))
            .filter_map(
                |(_, other)| match record(other).filter(|record| speaks(record, other)) {
                    Some(record) => record.id,
                    None if condition(other, "Ready")["reason"] == "ImportConflict" => None,
                    None => other["status"]["id"].as_str().map(ToOwned::to_owned),
                },
            );
        known.any(|id| self.foreign.contains_key(&id))
    }

    fn is_legacy_gone(&self, cloud: &World) -> bool {
        let mut servers = self.foreign.keys().filter_map(|id| cloud.server(id));
        servers.all(|server| !is_alive(&server))
    }

    /// Whether a server that somebody else released need not be bought anew. Where the service forgets its tasks, nothing may
    /// tell whether the create had ended (docs).
    fn may_stay_missing(&self, object: &Value, world: Rest<'_>) -> bool {
        let t = &self.troubles;
        Property::NotRecreated.is_in(&object["spec"])
            || Property::Observed.is_in(&object["spec"])
            || self.is_tampered(name_of(object))
            || t.copied
            || t.no_lease
            || self.is_end_untold(object, world)
    }

    /// Whether a server was announced in the place of one that somebody released, and the spec does not want it any more.
    fn is_called_off(&self, object: &Value) -> bool {
        let record = record(object).filter(|record| record.recreated > 0);
        // What was made in its place may have failed.
        let has_none = |id: Option<&String>| id.is_none_or(|id| self.failed_creates.contains(id));
        Property::NotRecreated.is_in(&object["spec"])
            && record.is_some_and(|record| {
                self.released_at_console.contains(&record.marker) && has_none(record.id.as_ref())
            })
    }

    /// The answer that named the task of a create was lost: the server was found by its name, and its task is not known.
    fn is_create_without_a_task(&self, object: &Value) -> bool {
        let t = &self.troubles;
        let lost = t.unknown.get(&Kind::Create).copied().unwrap_or(0);
        let record = record(object).filter(|record| record.imported.is_none());
        let is_newest = |record: &Binding| super::newest_attempt(object) == record.attempt;
        record.is_some_and(|record| record.task.is_none() && is_newest(&record))
            && lost + t.crashes + t.ended + t.takeovers > 0
    }

    /// Reinstalls of whose call nobody may know what became of it.
    fn lost_reinstalls(&self) -> usize {
        let t = &self.troubles;
        t.unknown.get(&Kind::Reinstall).copied().unwrap_or(0) + t.crashes + t.ended + t.takeovers
    }

    fn server_at_rest(
        &self,
        object: &Value,
        server: &ServerInfo,
        world: Rest<'_>,
    ) -> Option<String> {
        let spec = &object["spec"];
        let recorded = record(object).and_then(|record| record.id);
        if recorded.as_deref() != Some(&server.id) || object["status"]["id"] != server.id.as_str() {
            return Some(format!(
                "it records {recorded:?}, its server is {}",
                server.id
            ));
        }
        let is_stopped = spec["powerState"] == "Stopped";
        if server.status != if is_stopped { "STOPPED" } else { "STARTED" } {
            return Some(format!("Available, and its server is {}", server.status));
        }
        let wanted = match spec["image"]["id"].as_str() {
            Some(id) => Some(id),
            None => object["status"]["resolved"]["image"]["id"].as_str(),
        };
        if wanted != Some(&server.image) {
            return Some(format!(
                "Available, with image {} instead of {wanted:?}",
                server.image
            ));
        }
        // What it had when it was taken over counts as applied.
        let is_imported = Property::Imported.is_in(spec);
        let by_password = spec["login"]["passwordSecretRef"].is_object() && !is_imported;
        let has = world.cloud.password_of(&server.id);
        let t = &self.troubles;
        // Two processes, or a change that was broken off unseen: the last password may be the old one, and nothing shows it
        // (docs).
        let excused = t.takeovers > 0
            || t.no_lease
            || self.is_tampered(name_of(object))
            || t.copied
            || t.wiped
            || t.too_late
            || self.touched_at_console.contains(&server.id)
            || self.is_unsure(&server.id, world.cloud);
        if by_password && has.as_deref() != Some(world.password) && !excused {
            return Some("Available, with another password than the Secret holds".to_owned());
        }
        if is_imported && !spec["login"]["generate"].is_object() {
            return None;
        }
        self.secrets_at_rest(object, server, world.cloud, world.kube)
    }
}

/// Whether an operation is announced that the service has not taken.
fn is_untaken(object: &Value) -> bool {
    super::open_operation(object).is_some_and(|open| !open.accepted)
}
