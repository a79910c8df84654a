//! Many Instances at once, and the rate of calls to the service meanwhile.

use super::objects::{is_ready, outline};
use super::wait::{eventually, insist};
use super::world::World;
use cloud_server_operator::api::{Account, Instance};
use cloud_simulator::catalogue;
use cloud_simulator::model::{CreateRequest, Request};
use cloud_simulator::{Entry, Source};
use futures::{StreamExt, stream};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Names of this many Instances.
pub fn names(beginning: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{beginning}-{n}")).collect()
}

impl World {
    /// Applies Instances, several at a time.
    pub async fn apply_all(&self, names: &[String], manifest_of: impl Fn(&str) -> Value) {
        let applied = stream::iter(names.iter().map(|name| manifest_of(name)));
        applied
            .for_each_concurrent(8, async |manifest| {
                self.apply(&manifest).await;
            })
            .await;
    }

    /// The Instances of the namespace, by name.
    pub async fn all(&self) -> BTreeMap<String, Instance> {
        let (instances, params) = (self.instances(), ListParams::default());
        let all = insist("Instances are listed", async || {
            instances.list(&params).await
        });
        let each = all.await.unwrap().into_iter();
        each.map(|i| (i.name_any(), i)).collect()
    }

    /// Waits until the condition holds for all of these.
    pub async fn until_all(
        &self,
        names: &[String],
        what: &str,
        holds: impl Fn(&Instance) -> bool,
    ) -> Vec<Instance> {
        eventually(&format!("{} Instances: {what}", names.len()), async || {
            let mut all = self.all().await;
            let found: Vec<_> = names.iter().filter_map(|name| all.remove(name)).collect();
            let missing: Vec<_> = found.iter().filter(|i| !holds(i)).collect();
            match missing.first() {
                None if found.len() == names.len() => Ok(found),
                None => Err(format!("{} are not there", names.len() - found.len())),
                Some(first) => Err(format!(
                    "{} are not, such as {}: {}",
                    missing.len(),
                    first.name_any(),
                    outline(first)
                )),
            }
        })
        .await
    }

    /// Waits until all of these are ready, each with its one server.
    pub async fn all_ready(&self, names: &[String]) -> Vec<Instance> {
        let all = self.until_all(names, "are Ready", is_ready).await;
        for instance in &all {
            let server = self.only_server(instance);
            let id = instance.status.as_ref().unwrap().id.as_ref();
            assert_eq!(id, Some(&server.id), "{}", outline(instance));
        }
        all
    }

    /// Waits until all of these are gone.
    pub async fn all_gone(&self, names: &[String]) {
        eventually("the Instances are gone", async || {
            let mut all = self.all().await;
            all.retain(|name, _| names.contains(name));
            match all.pop_first() {
                None => Ok(()),
                Some((name, left)) => Err(format!("{name}: {}", outline(&left))),
            }
        })
        .await;
    }

    /// Sets the Account's own limit.
    pub async fn limit(&self, account: &str, per_second: u32, burst: u32, concurrent: u32) {
        let requests = json!({"perSecond": per_second, "burst": burst, "concurrent": concurrent});
        self.change_account(account, json!({"requests": requests}))
            .await;
    }

    /// Changes fields of an Account's spec.
    pub async fn change_account(&self, account: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let (accounts, params) = (self.accounts(), PatchParams::default());
        let changed = insist("an Account is changed", async || {
            accounts.patch(account, &params, &patch).await
        });
        changed.await.unwrap();
    }

    /// Waits until the operator has checked the current version of an Account, and can use it.
    pub async fn account_is_ready(&self, account: &str) -> Account {
        let accounts = self.accounts();
        eventually("the Account is ready in its current version", async || {
            let account = insist("read it", async || accounts.get(account).await).await;
            let account = account.unwrap();
            let status = account.status.clone().unwrap_or_default();
            let is_current = Some(status.observed_generation) == account.metadata.generation;
            let mut conditions = status.conditions.iter();
            let is_ready = conditions.any(|c| c.type_ == "Ready" && c.status == "True");
            match is_current && is_ready {
                true => Ok(account),
                false => Err(format!("{account:#?}")),
            }
        })
        .await
    }

    /// Adds servers without an Instance to this account of the service.
    pub fn add_unowned_servers(&self, token: &str, count: usize) {
        let example = catalogue::example();
        for number in 0..count {
            let request = CreateRequest {
                package_code: Some(example.package.to_owned()),
                region_code: Some(example.region.to_owned()),
                zone_code: Some(example.zone.to_owned()),
                instance_name: Some(format!("stranger-{number}")),
                image: Some(example.image.to_owned()),
                key: Some(example.key.to_owned()),
                firewall: Some(example.firewall.to_owned()),
                password: None,
            };
            let request = Request::Create(request);
            let made = self.sim.world(|w| w.call(w.now(), Some(token), &request));
            made.outcome.unwrap();
        }
    }

    /// The calls since then, in order.
    pub fn calls_since(&self, seq: u64) -> Vec<Entry> {
        let ledger = self.sim.ledger();
        let calls = ledger.since(seq).into_iter();
        calls
            .filter(|entry| entry.source == Source::Call)
            .cloned()
            .collect()
    }
}

/// The highest number of calls in any window of this many milliseconds.
pub fn busiest(calls: &[Entry], millis: u64) -> usize {
    let at: Vec<u64> = calls.iter().map(|entry| entry.at.as_millis()).collect();
    let counts = at.iter().enumerate().map(|(first, begin)| {
        let within = at[first..].iter().take_while(|at| **at < begin + millis);
        within.count()
    });
    counts.max().unwrap_or(0)
}
