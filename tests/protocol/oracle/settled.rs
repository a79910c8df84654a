//! Judges an Instance's status when all is idle: it has the state of its spec, or shows why not.

use super::idle::{Idle, is_untaken};
use super::requests::{self, Property};
use super::{Oracle, Verdict, condition, is_alive, name_of, record, speaks};
use crate::apiserver::{ACCOUNTS, INSTANCES, uid};
use crate::fault::Kind;
use cloud_server_operator::api::{Marker, PurchaseRecord};
use cloud_simulator::model::{ServerInfo, World};
use serde_json::Value;

impl Oracle {
    /// Whether an Instance has reached the state of its spec, or shows the right reason why not.
    pub(super) fn instance_when_idle(
        &self,
        object: &Value,
        alive: &[ServerInfo],
        world: Idle<'_>,
    ) -> Verdict {
        let ready = &condition(object, "Ready")["reason"];
        let reason = ready.as_str().unwrap_or_default();
        let spec = &object["spec"];
        if object["metadata"]["deletionTimestamp"].is_string() {
            let waits = match reason {
                "DeletionProtected" => Property::Protected.is_in(spec),
                "Paused" => Property::Paused.is_in(spec),
                _ => false,
            };
            let why = (!waits).then(|| format!("it is still being deleted ({reason})"));
            return Verdict::of(why, false);
        }
        if object["status"]["observedGeneration"] != object["metadata"]["generation"] {
            return Verdict::Wrong(format!("its generation was not observed ({reason})"));
        }
        if let Some(is_right) = self.is_rightly_held(object, alive, reason, world) {
            let why = (!is_right).then(|| format!("{} servers, {reason}", alive.len()));
            return Verdict::of(why, self.is_held_all_the_same(object, alive, reason));
        }
        if let ([server], "Available") = (alive, reason) {
            return Verdict::of(server_when_idle(object, server), false);
        }
        if reason == "ServerMissing" {
            return self.missing_when_idle(object, alive, world);
        }
        let is_excused = match alive {
            [server] => {
                self.is_left_by_a_failed_create(object, server, reason)
                    || (reason == "OutcomeUnknown" && self.is_unknown_outcome(object))
                    || (reason == "ImageDiffers" && self.may_image_differ(object, server))
            }
            _ => false,
        };
        let why = format!("{} servers, {reason}", alive.len());
        Verdict::of(Some(why), is_excused)
    }

    /// Its server is reported as missing: correct if it was released externally and the spec does not replace it.
    fn missing_when_idle(&self, object: &Value, alive: &[ServerInfo], world: Idle<'_>) -> Verdict {
        let spec = &object["spec"];
        let id = object["status"]["id"].as_str().unwrap_or_default();
        let touched = self.touched_at_console.contains(id);
        let is_final = Property::NotRecreated.is_in(spec) || Property::Observed.is_in(spec);
        let may_stay = touched && (is_final || self.may_stay_missing(object, world));
        let why = format!("{} servers, ServerMissing", alive.len());
        match alive {
            [] if touched && is_final => Verdict::Right,
            // The purchase of its replacement was cancelled.
            [] if id.is_empty() && self.is_called_off(object) => Verdict::Right,
            [] => {
                let is_excused = may_stay
                    || self.is_tampered(name_of(object))
                    || self.troubles.copied
                    // Two Instances had recorded it, and the one with the better right was deleted with it (docs).
                    || self.was_shared(id)
                    // One of two processes read it, was stopped, and imported it after the other one had released it.
                    || (Property::Imported.is_in(spec)
                        && self.may_be_imported_twice()
                        && self.released_imports.contains(id))
                    // Nothing showed that its create failed, so it may as well have been released externally (docs).
                    || (self.failed_creates.contains(id)
                        && (self.troubles.tasks_denied > 0
                            || self.is_create_without_a_task(object)));
                Verdict::of(Some(why), is_excused)
            }
            // The recorded one of two servers is gone: status mentions the other one, which is released with the Instance.
            [other] if may_stay => {
                let message = &condition(object, "Ready")["message"];
                let message = message.as_str().unwrap_or_default();
                let is_named = message.contains(&other.id);
                let unnamed = format!("ServerMissing, and {} is not reported", other.id);
                let wrong = match (is_named, is_final) {
                    (true, true) => None,
                    (true, false) => Some(why),
                    (false, _) => Some(unnamed),
                };
                Verdict::of(wrong, is_named)
            }
            [other] => {
                let is_left = self.is_left_by_a_failed_create(object, other, "ServerMissing");
                Verdict::of(Some(why), is_left)
            }
            _ => Verdict::Wrong(why),
        }
    }

    /// Its create was interrupted at the console, or failed and was forgotten: the remaining server is neither complete nor
    /// gone (docs). Operations on it are refused; of two processes, the one that did not call only sees that the operation was
    /// not done.
    fn is_left_by_a_failed_create(
        &self,
        object: &Value,
        server: &ServerInfo,
        reason: &str,
    ) -> bool {
        let id = object["status"]["id"].as_str().unwrap_or_default();
        let is_refused = matches!(
            reason,
            "PowerStateDiffers" | "ForeignOperationRunning" | "ServiceBusy" | "OperationRefused"
        );
        let is_not_done = self.troubles.no_lease && reason == "OperationFailed";
        self.failed_creates.contains(&server.id)
            && (is_refused
                || is_untaken(object)
                || is_not_done
                || self.touched_at_console.contains(id))
    }

    /// Only a human can decide: the answer was lost, and nothing shows whether the disk was erased.
    fn is_unknown_outcome(&self, object: &Value) -> bool {
        let id = object["status"]["id"].as_str().unwrap_or_default();
        let is_hidden = self.troubles.same_image || self.touched_at_console.contains(id);
        is_hidden
            && (self.lost_reinstalls() > 0
                || self.announced_only.contains(name_of(object))
                // Without a Lease, one process ends the operation whose call the other one delays (docs).
                || self.troubles.no_lease)
    }

    fn may_image_differ(&self, object: &Value, server: &ServerInfo) -> bool {
        let id = object["status"]["id"].as_str().unwrap_or_default();
        let t = &self.troubles;
        self.touched_at_console.contains(id)
            || self.may_be_for_a_former_owner(&server.id)
            // A reinstall whose request was withdrawn may take effect late (docs).
            || t.no_lease
            || t.takeovers > 0
            || self.is_tampered(name_of(object))
            || t.copied
            // The spec counts as applied after status was lost, and a difference is reported (docs).
            || t.wiped
            // The reinstall failed, and the service claims not to know its task (docs).
            || (t.tasks_denied > 0 && t.failed > 0)
            // The doubled server that replaced an externally released one stays as it was bought: nothing erases it (docs).
            || self.took_the_place(server)
    }

    /// Whether the service may never have reported the end of this object's create.
    fn may_end_be_unreported(&self, object: &Value, world: Idle<'_>) -> bool {
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

    /// Whether this reason is correct, judged by the spec and the lists; none if the spec and the lists do not decide it.
    fn is_rightly_held(
        &self,
        object: &Value,
        alive: &[ServerInfo],
        reason: &str,
        world: Idle<'_>,
    ) -> Option<bool> {
        let spec = &object["spec"];
        let image = spec["image"]["id"].as_str();
        let (imported, lists) = (Property::Imported.is_in(spec), &self.lists);
        Some(match reason {
            "Paused" => Property::Paused.is_in(spec),
            "AccountLimitReached" => alive.is_empty() && self.is_full(object, world.kube),
            "NoServer" => alive.is_empty() && Property::Observed.is_in(spec),
            "ObservedOnly" => Property::Observed.is_in(spec),
            "ReinstallNeedsApproval" => {
                // A token that names another image holds up everything, with any policy.
                let named = &spec["reinstall"]["image"];
                spec["reinstallPolicy"] == "OnRequest"
                    || (named.is_string() && *named != spec["image"]["id"])
            }
            "ReinstallForbidden" => spec["reinstallPolicy"] == "Never",
            "RecreateLimitReached" => {
                let record = record(object);
                let marker = record.map(|record| record.marker);
                // A server whose deployment was interrupted at the console was never reported as complete, but counts as a
                // server.
                let stopped = |id: &&String| self.touched_at_console.contains(*id);
                let mut stopped = self.failed_creates.iter().filter(stopped);
                let is_broken_off = stopped.any(|id| {
                    let server = world.cloud.server(id);
                    server.is_some_and(|server| Marker::in_name(&server.name) == marker)
                });
                let whole = marker.and_then(|marker| self.whole.get(&marker));
                let is_spent = whole.is_some_and(|whole| *whole > requests::limit(spec));
                alive.is_empty()
                    && !Property::NotRecreated.is_in(spec)
                    && (is_spent || is_broken_off)
            }
            "ImportDenied" => {
                let account = world.kube.get(&(ACCOUNTS, "default".to_owned()));
                let is_allowed = account.is_some_and(|a| a["spec"]["imports"] == "Allowed");
                imported && !is_allowed && record(object).is_none()
            }
            "ImportConflict" => imported && self.is_taken(object, world),
            "ImportNotFound" => imported && alive.is_empty() && self.is_legacy_gone(world.cloud),
            // A released server differs in nothing, and a rebuilt one differs in something else. The next read reports that,
            // and until then the Instance is not idle.
            "ImportDiffers" => {
                let message = &condition(object, "Ready")["message"];
                let message = message.as_str().unwrap_or_default();
                let servers = self.foreign.keys().filter_map(|id| world.cloud.server(id));
                let mut servers = servers.filter(is_alive);
                let differs = |has: &str| Some(has) != image && message.contains(has);
                imported && servers.any(|server| differs(&server.image))
            }
            // A package that is sold out is requested again without end. L3 judges how often.
            "ServiceBusy" if alive.is_empty() && lists.is_sold_out => true,
            "ReferenceNotFound" | "CreateRefused" => {
                alive.is_empty() && (lists.is_withdrawn || lists.is_sold_out)
            }
            "ReferenceAmbiguous" => alive.is_empty() && lists.is_doubled,
            _ => return None,
        })
    }

    /// Whether removals by force, or a restored store, explain this reason.
    fn is_held_all_the_same(&self, object: &Value, alive: &[ServerInfo], reason: &str) -> bool {
        let (t, name) = (&self.troubles, name_of(object));
        match reason {
            "RecreateLimitReached" => {
                let is_replaced = !Property::NotRecreated.is_in(&object["spec"]);
                alive.is_empty() && is_replaced && (t.copied || self.is_tampered(name))
            }
            // The resolved identifier was lost with the store, or with a record to which status has no counterpart (docs).
            "ReferenceAmbiguous" => {
                let is_lost = object["status"]["resolved"]["image"].is_null();
                let was_dropped = t.restores > 0 || t.replaced.contains(name);
                was_dropped && is_lost && self.lists.is_doubled
            }
            _ => false,
        }
    }

    /// Whether another object owns the server that this object imports, or had it recorded and still shows it.
    fn is_taken(&self, object: &Value, world: Idle<'_>) -> bool {
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

    /// Whether an externally released server need not be replaced, although the spec requires it. If the service forgets its
    /// tasks, nothing may show whether the create had ended (docs).
    fn may_stay_missing(&self, object: &Value, world: Idle<'_>) -> bool {
        let t = &self.troubles;
        self.is_tampered(name_of(object))
            || t.copied
            || t.no_lease
            || self.may_end_be_unreported(object, world)
    }

    /// Whether the replacement of an externally released server was announced, and the spec does not require it any more.
    fn is_called_off(&self, object: &Value) -> bool {
        let record = record(object).filter(|record| record.recreated > 0);
        // The replacement may have failed.
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
        let is_newest = |record: &PurchaseRecord| super::newest_attempt(object) == record.attempt;
        record.is_some_and(|record| record.task.is_none() && is_newest(&record))
            && lost + t.crashes + t.ended + t.takeovers > 0
    }

    /// Reinstalls whose outcome may be unknown to every process.
    fn lost_reinstalls(&self) -> usize {
        let t = &self.troubles;
        t.unknown.get(&Kind::Reinstall).copied().unwrap_or(0) + t.crashes + t.ended + t.takeovers
    }
}

/// The differences of the server of an Instance that shows Available.
fn server_when_idle(object: &Value, server: &ServerInfo) -> Option<String> {
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
    let desired = match spec["image"]["id"].as_str() {
        Some(id) => Some(id),
        None => object["status"]["resolved"]["image"]["id"].as_str(),
    };
    (desired != Some(&server.image)).then(|| {
        format!(
            "Available, with image {} instead of {desired:?}",
            server.image
        )
    })
}
