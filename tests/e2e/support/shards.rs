//! Worlds of several namespaces, which operators share.

use super::again::create;
use super::wait::eventually;
use super::{Operator, World};
use cloud_server_operator::runtime::Shard;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::json;
use std::collections::BTreeSet;

impl World {
    /// Makes this many namespaces in each shard, with an Account and its Secrets. Operators that start afterwards watch them.
    /// Returns the namespaces, shard by shard.
    pub async fn settle(&mut self, shards: u16, each: usize) -> Vec<Vec<String>> {
        let numbered = (0..).map(|number| format!("{}-{number}", self.namespace));
        let numbered: Vec<String> = numbered.take(1000).collect();
        let mut settled = Vec::new();
        for shard in Shard::all(shards) {
            let fits = numbered.iter().filter(|name| shard.owns(name));
            let names: Vec<String> = fits.take(each).cloned().collect();
            assert_eq!(names.len(), each, "{shard}");
            settled.push(names);
        }
        let home = self.namespace.clone();
        for name in settled.concat() {
            let object = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            create(&Api::<Namespace>::all(self.client.clone()), &object).await;
            self.namespace.clone_from(&name);
            self.secret("cloud-token", "token", World::TOKEN).await;
            self.secret("login", "password", World::PASSWORD).await;
            self.account("default", &self.endpoint()).await;
            self.settled.push(name);
        }
        self.namespace = home;
        settled
    }

    /// Makes this namespace the current one.
    pub fn enter(&mut self, namespace: &str) {
        namespace.clone_into(&mut self.namespace);
    }

    /// Starts another operator. Waits until it is ready.
    pub async fn another(&mut self, lease: &str) -> Operator {
        let another = self.launch("direct", lease);
        another.ready().await;
        another
    }

    /// Starts another operator as the Pod of a StatefulSet with this ordinal. Waits until it is ready.
    pub async fn pod(&mut self, ordinal: u16, lease: &str) -> Operator {
        self.environment("POD_NAME", &format!("cloud-server-operator-{ordinal}"));
        self.another(lease).await
    }
}

impl Operator {
    /// The shards that it acts on, by its metrics.
    pub async fn shards(&self) -> BTreeSet<String> {
        let (_, text) = self.metrics().await;
        let lines = text.lines().filter_map(|line| {
            let line = line.strip_prefix("cloud_server_operator_shard_active{shard=\"")?;
            line.strip_suffix("\"} 1")
        });
        lines.map(ToOwned::to_owned).collect()
    }

    /// The number of Instances in its metrics.
    pub async fn instances(&self) -> usize {
        let (_, text) = self.metrics().await;
        let of = "cloud_server_operator_instances{";
        let lines = text.lines().filter(|line| line.starts_with(of));
        let counts = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok());
        counts.sum()
    }
}

/// Waits until each of these operators acts on its shard.
pub async fn until_acting(operators: &[(&Operator, &str)]) {
    for (operator, shard) in operators {
        eventually(&format!("an operator acts on shard {shard}"), async || {
            let acts = operator.shards().await;
            match acts.iter().eq([shard]) {
                true => Ok(()),
                false => Err(format!("{acts:?}")),
            }
        })
        .await;
    }
}
