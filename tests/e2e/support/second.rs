//! A second operator in the same world, and other ways to start one.

use super::operator::Operator;
use super::wait::{eventually, insist};
use super::world::World;
use cloud_server_operator::runtime::Shard;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use serde_json::json;

/// The namespace of the operators' Leases: `deploy/` allows them there.
const LEASE_NAMESPACE: &str = "cloud-server-system";

impl World {
    /// Starts a second operator next to the first, and waits until it is ready. It reaches the apiserver directly, even if the
    /// first one uses a proxy: delays of the first do not affect the second.
    pub async fn start_standby(&mut self) {
        let lease = self.namespace.clone();
        self.start_second(&lease).await;
    }

    /// Starts a second operator with a Lease of its own, or without one if the first has none: both act.
    pub async fn start_concurrent(&mut self) {
        let lease = format!("{}-concurrent", self.namespace);
        self.start_second(&lease).await;
    }

    async fn start_second(&mut self, lease: &str) {
        let standby = self.launch("direct", lease);
        self.standby = Some(standby);
        self.standby().ready().await;
    }

    /// Starts the operator with the apiserver at this address. Does not wait.
    pub fn start_behind(&mut self, address: &str) {
        let direct = self.directory.path().join("direct");
        let behind = std::fs::read_to_string(direct).unwrap();
        let behind = behind.replace(self.shared.cluster.url(), address);
        std::fs::write(self.directory.path().join("behind"), behind).unwrap();
        let lease = self.namespace.clone();
        let operator = self.launch("behind", &lease);
        self.operator = Some(operator);
    }

    pub fn standby(&mut self) -> &mut Operator {
        self.standby.as_mut().expect("no standby was started")
    }

    /// Makes the second operator [`World::operator`]; returns the former one.
    pub fn promote(&mut self) -> Operator {
        let standby = self.standby.take().expect("no standby was started");
        let former = self.operator.replace(standby);
        former.expect("the operator was not started")
    }

    /// The roles of `deploy/` name one Lease. Many worlds share the operator's namespace, so each has a Lease named after its
    /// own namespace.
    pub(super) async fn allow_its_leases(&self) {
        self.allow_leases(&self.namespace).await;
        self.allow_leases(&format!("{}-concurrent", self.namespace))
            .await;
    }

    /// Allows operators Leases of this name, with and without shards.
    pub async fn allow_leases(&self, lease: &str) {
        let name = format!("lease-{lease}");
        let mut leases = vec![lease.to_owned()];
        for shards in [2, 4] {
            leases.extend(Shard::all(shards).map(|shard| shard.lease(lease)));
        }
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [{
                "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"],
                "resourceNames": leases,
            }],
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "cloud-server-operator", "namespace": LEASE_NAMESPACE}],
        });
        for object in [role, binding] {
            let apply = ["-n", LEASE_NAMESPACE, "apply", "--server-side", "-f", "-"];
            let (done, text) = self.kubectl(&apply, &object.to_string()).await;
            assert!(done, "{text}");
        }
    }

    /// The world's Lease.
    pub async fn lease(&self) -> Option<Lease> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASE_NAMESPACE);
        let found = insist("the Lease is read", async || {
            leases.get_opt(&self.namespace).await
        });
        found.await.unwrap()
    }

    /// The name of the operator that holds the world's Lease; empty without a holder.
    pub async fn holder(&self) -> String {
        let spec = self.lease().await.and_then(|lease| lease.spec);
        let holder = spec.and_then(|spec| spec.holder_identity);
        let holder = holder.unwrap_or_default();
        holder.split('_').next().unwrap_or_default().to_owned()
    }

    /// Waits until the operator of this name ([`Operator::name`]) holds the world's Lease.
    pub async fn until_holder(&self, name: &str) -> LeaseSpec {
        eventually(&format!("{name} holds the Lease"), async || {
            let spec = self.lease().await.and_then(|lease| lease.spec);
            let spec = spec.ok_or("there is no Lease")?;
            let holder = spec.holder_identity.as_deref().unwrap_or_default();
            if holder.split('_').next() == Some(name) {
                Ok(spec)
            } else {
                Err(format!("it is held by {holder:?}"))
            }
        })
        .await
    }

    /// Waits until the operator reports that it is the active one.
    pub async fn until_active(&mut self) {
        let url = self.operator().url("metrics").await;
        eventually("the operator is active", async || {
            let (_, _, text) = super::get(&url).await?;
            if text.contains(r#"cloud_server_operator_shard_active{shard="0-of-1"} 1"#) {
                Ok(())
            } else {
                Err("it is a standby".to_owned())
            }
        })
        .await;
    }
}
