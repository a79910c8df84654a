//! Judges releases: of recorded servers, of surplus servers, and of servers that must stay.

use super::requests::Property;
use super::{Oracle, Rule, Verdict, bearing, is_alive, record, speaks};
use crate::apiserver::{Apiserver, INSTANCES, Key};
use cloud_server_operator::api::{Marker, PurchaseRecord};
use cloud_simulator::model::World;
use serde_json::Value;

/// The relation of an Instance to a released server.
struct Relation<'a> {
    key: &'a Key,
    record: PurchaseRecord,
    /// The server is in the Instance's record.
    is_recorded: bool,
    /// The server has the Instance's marker.
    is_ours: bool,
    /// The Instance is not being deleted, or its spec retains the server: now (`stays_now`), or for so long that the releasing
    /// process knows it (`stays`).
    stays_now: bool,
    stays: bool,
}

impl Oracle {
    /// A release was accepted.
    pub(super) fn on_release(&mut self, server: &str, name: &str, kube: &Apiserver) {
        let marker = Marker::in_name(name);
        let (mut is_lawful, mut goes_with_another) = (marker.is_some(), false);
        for (key, object) in kube.all().filter(|(key, _)| key.0 == INSTANCES) {
            let Some(of) = self.relation(key, object, server, marker.as_ref()) else {
                continue;
            };
            let is_failed = self.failed_creates.contains(server);
            is_lawful |= of.is_recorded && of.record.imported.is_some() && !of.stays;
            // An Instance restored from a backup has its former server again, and cleans up the server of its failed create.
            goes_with_another |= of.is_recorded && (!of.stays || is_failed);
            if of.is_recorded {
                self.judge_recorded(&of, server, kube);
            } else if of.stays && of.is_ours {
                self.judge_surplus(&of, server);
            }
            if of.is_ours && self.was_ever_restrained(&key.1) {
                let why = self.is_restrained_now(&key.1).then(|| {
                    format!(
                        "{} is paused or only observed, and its server {server} was released",
                        key.1
                    )
                });
                let is_excused = !self.is_restrained(&key.1) || self.is_outcome_uncertain(&key.1);
                self.judge(Rule::RestrainedCall, Verdict::of(why, is_excused));
            }
        }
        if self.foreign.contains_key(server) {
            self.released_imports.insert(server.to_owned());
        }
        let why = (!is_lawful).then(|| format!("S3: a foreign server was released: {name}"));
        self.judge(Rule::Foreign, Verdict::of(why, self.is_any_tampered()));
        if self.kept.contains(server) && !goes_with_another {
            // No process knew any more of a call that arrived late.
            let is_excused = self.troubles.late > 0 || self.is_any_outcome_uncertain();
            let why = format!("S3: server {server} was to outlive its Instance, and was released");
            self.judge(Rule::Kept, Verdict::of(Some(why), is_excused));
        }
    }

    fn relation<'a>(
        &self,
        key: &'a Key,
        object: &Value,
        server: &str,
        marker: Option<&Marker>,
    ) -> Option<Relation<'a>> {
        let record = record(object).filter(|record| speaks(record, object))?;
        let is_there = object["metadata"]["deletionTimestamp"].is_null();
        let keeps = [Property::Retained, Property::Protected];
        let is_kept_now = keeps.iter().any(|each| self.requests_now(&key.1, *each));
        let is_kept = keeps.iter().any(|each| self.holds(&key.1, *each));
        Some(Relation {
            key,
            is_recorded: record.id.as_deref() == Some(server),
            is_ours: marker == Some(&record.marker),
            stays_now: is_there || is_kept_now || self.is_restrained_now(&key.1),
            stays: is_there || is_kept || self.is_restrained(&key.1),
            record,
        })
    }

    /// Judges the release of this Instance's recorded server.
    fn judge_recorded(&mut self, of: &Relation<'_>, server: &str, kube: &Apiserver) {
        let is_shared = of.record.imported.is_some() && self.is_shared(server, kube);
        if is_shared {
            self.shared.insert(server.to_owned());
        }
        // The server of a failed create is cleaned up.
        let is_wrong = of.stays_now && !self.failed_creates.contains(server);
        let why = is_wrong.then(|| {
            format!(
                "S3: server {server} was released, which is recorded for {} that stays or keeps it",
                of.key.1
            )
        });
        // In the read on which the release is based, its Instance was being deleted. Since then etcd was restored, or the
        // finalizer was removed by force and another Instance imported the server (docs).
        let interfered = self.may_yet_be_released.get(server);
        let is_undone = interfered.is_some_and(|at| at.elapsed() <= self.under_way());
        let is_excused = !of.stays || is_shared || is_undone;
        self.judge(Rule::Released, Verdict::of(why, is_excused));
    }

    /// Judges the release of a server that has the marker of an existing Instance and is not recorded.
    fn judge_surplus(&mut self, of: &Relation<'_>, server: &str) {
        let is_surplus = of.record.id.is_some();
        self.surplus += usize::from(is_surplus);
        let is_wrong = !is_surplus && !self.failed_creates.contains(server);
        let why = is_wrong.then(|| {
            format!(
                "S3: server {server} of {} was released, and none is recorded",
                of.key.1
            )
        });
        self.judge(Rule::Surplus, Verdict::of(why, false));
    }

    /// Whether an Instance that is deleted with its server imported one that another Instance has also recorded, which two
    /// processes can cause (docs).
    fn is_shared(&self, server: &str, kube: &Apiserver) -> bool {
        let mut objects = kube.all().filter(|(key, _)| key.0 == INSTANCES);
        self.were_imported_twice.contains(server)
            && objects.any(|(key, object)| {
                let record = record(object).filter(|record| speaks(record, object));
                let has_it =
                    record.is_some_and(|r| r.imported.is_some() && r.id.as_deref() == Some(server));
                let goes = object["metadata"]["deletionTimestamp"].is_string();
                has_it && goes && !self.holds(&key.1, Property::Retained)
            })
    }

    /// Whether a server was released with one of two Instances that had imported it.
    pub(super) fn was_shared(&self, server: &str) -> bool {
        self.shared.contains(server)
    }

    /// The servers that outlive their Instance with this record and marker.
    pub(super) fn keeps(&mut self, id: Option<&str>, marker: &Marker, cloud: &World) {
        let recorded = id.and_then(|id| cloud.server(id)).filter(is_alive);
        for server in bearing(cloud, marker).into_iter().chain(recorded) {
            // The Secret is deleted with its Instance (docs), so users must have copied the password by now.
            if let Some(password) = cloud.password_of(&server.id) {
                self.users_password(&password);
            }
            self.kept.insert(server.id);
        }
        self.kept_markers.insert(marker.clone());
    }
}
