//! Invariants that hold at the end of every test, regardless of its subject.

use super::cluster::Shared;
use super::wait::insist;
use super::world::World;
use cloud_server_operator::api::{Account, Instance, Marker};
use cloud_simulator::model::Effect;
use cloud_simulator::{Entry, Simulator, Source};
use devcluster::audit;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{Api, ListParams};
use kube::{Resource, ResourceExt};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// The marker in the names of an Instance's servers.
pub fn marker_of(instance: &Instance) -> String {
    Marker::of_uid(&instance.uid().unwrap()).to_string()
}

/// The number of create calls that reached the service, refused or not.
pub fn create_calls(sim: &Simulator) -> u64 {
    sim.ledger().count("/instance/create")
}

impl World {
    /// At no time did two servers with one marker exist (S1). The ground truth is when each server appeared and disappeared.
    pub fn assert_never_two(&self) {
        self.assert_never_two_but(&[]);
    }

    /// The same, except for markers for which the service itself made two servers.
    pub fn assert_never_two_but(&self, but: &[Marker]) {
        let mut lives: BTreeMap<Marker, Vec<_>> = BTreeMap::new();
        for server in self.sim.servers() {
            if let Some(marker) = Marker::in_name(&server.name).filter(|m| !but.contains(m)) {
                lives.entry(marker).or_default().push((
                    server.created_at,
                    server.released_at,
                    server.id,
                ));
            }
        }
        for (marker, mut lives) in lives {
            lives.sort();
            for pair in lives.windows(2) {
                let ended = pair[0].1.is_some_and(|released| released <= pair[1].0);
                assert!(
                    ended,
                    "two servers at once with marker {marker}: {lives:?}\n{}",
                    self.ledger_text()
                );
            }
        }
    }

    /// No Instance reported a missing server, unless the test released a server at the console.
    pub async fn assert_no_false_alarm(&self) {
        let ledger = self.sim.ledger();
        if ledger
            .entries()
            .all(|entry| entry.source != Source::Console || !is_released(entry))
        {
            let events = self.events("ServerMissing").await;
            assert!(
                events.is_empty(),
                "no server is missing: {events:#?}\n{}",
                self.ledger_text()
            );
        }
    }

    /// No secret is stored or logged anywhere except in its Secret (S7).
    pub async fn assert_no_secret_leaked(&self) {
        let mut pages = vec![("log".to_owned(), self.logs())];
        if let Some(metrics) = self.last_metrics().await {
            pages.push(("metrics".to_owned(), metrics));
        }
        let (client, namespace) = (&self.client, &self.namespace);
        pages.extend(texts(&Api::<Instance>::namespaced(client.clone(), namespace)).await);
        pages.extend(texts(&Api::<Account>::namespaced(client.clone(), namespace)).await);
        pages.extend(texts(&Api::<Event>::namespaced(client.clone(), namespace)).await);
        for (place, text) in pages {
            for secret in [World::PASSWORD, World::NEW_PASSWORD, World::TOKEN] {
                let encoded = data_encoding::BASE64.encode(secret.as_bytes());
                assert!(
                    !text.contains(secret) && !text.contains(encoded.trim_end_matches('=')),
                    "a secret is in: {place}"
                );
            }
        }
    }

    /// The operator's successful and failed writes in this namespace, without Events, Leases and the Account's status.
    pub async fn writes(&self) -> Vec<audit::Entry> {
        let mut entries = self.audit_log().await;
        entries.retain(|entry| {
            entry.user == Shared::USER
                && entry.namespace == self.namespace
                && entry.is_write()
                && !is_trial(entry)
                && !matches!(entry.resource.as_str(), "events" | "leases" | "accounts")
        });
        entries
    }

    /// The entries of [`World::writes`] since then. The apiserver writes the line of a request after its answer, so a count of
    /// lines may miss requests that are answered already: a window begins at a time, not at a count.
    pub async fn writes_since(&self, since: Timestamp) -> Vec<audit::Entry> {
        let mut entries = self.writes().await;
        entries.retain(|entry| entry.received_at >= since);
        entries
    }

    /// The entries of [`World::all_writes`] since then; see [`World::writes_since`].
    pub async fn all_writes_since(&self, since: Timestamp) -> Vec<audit::Entry> {
        let mut entries = self.all_writes().await;
        entries.retain(|entry| entry.received_at >= since);
        entries
    }

    /// All writes of the operator in this namespace, to any kind of object.
    pub async fn all_writes(&self) -> Vec<audit::Entry> {
        let mut entries = self.audit_log().await;
        entries.retain(|entry| {
            entry.user == Shared::USER
                && entry.namespace == self.namespace
                && entry.is_write()
                && !is_trial(entry)
        });
        entries
    }

    /// The successful writes to an Instance by clients other than the operator.
    pub async fn others_writes(&self, name: &str) -> Vec<audit::Entry> {
        let mut entries = self.audit_log().await;
        entries.retain(|entry| {
            entry.user != Shared::USER
                && entry.namespace == self.namespace
                && (entry.resource.as_str(), entry.name.as_str()) == ("instances", name)
                && entry.is_write()
                && entry.is_success()
        });
        entries
    }

    /// The unparsed lines of the audit log about this namespace.
    pub async fn audit_text(&self) -> String {
        let path = self.shared.cluster.audit_log_path();
        let all = tokio::fs::read_to_string(path).await.unwrap();
        let lines = all.lines().filter(|line| line.contains(&self.namespace));
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// The entries of the audit log about this namespace. The log of all tests is long: it is read on a thread that blocks no
    /// task.
    pub async fn audit_log(&self) -> Vec<audit::Entry> {
        let path = self.shared.cluster.audit_log_path().to_owned();
        let namespace = self.namespace.clone();
        let read = tokio::task::spawn_blocking(move || audit::read_namespace(&path, &namespace));
        read.await.unwrap().unwrap()
    }

    /// The service's ledger without queries, for messages.
    pub fn ledger_text(&self) -> String {
        let ledger = self.sim.ledger();
        let lines = ledger
            .entries()
            .filter(|entry| entry.method == "POST" || !entry.effect.is_none());
        lines.map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Whether the request only checks that the apiserver refuses it: it stores nothing.
fn is_trial(entry: &audit::Entry) -> bool {
    entry.resource == "secrets" && entry.verb == "create" && entry.is_dry_run()
}

/// All objects of a kind as text, each with its name.
async fn texts<K>(api: &Api<K>) -> Vec<(String, String)>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let (kind, params) = (K::kind(&()), ListParams::default());
    let what = format!("{kind}s are listed");
    let all = insist(&what, async || api.list(&params).await);
    let each = all.await.unwrap().into_iter();
    each.map(|object| {
        let text = serde_json::to_string(&object).unwrap();
        (format!("{kind} {}", object.name_any()), text)
    })
    .collect()
}

fn is_released(entry: &Entry) -> bool {
    matches!(entry.effect, Effect::Released { .. })
}

fn line(entry: &Entry) -> String {
    format!(
        "{} {} {} {:?} {:?} {:?} {:?}",
        entry.seq, entry.at, entry.path, entry.status, entry.code, entry.effect, entry.faults
    )
}
