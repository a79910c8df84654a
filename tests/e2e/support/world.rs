//! The world of one test: a namespace, a service, an Account, an operator.

use super::again::delete;
use super::cluster::Shared;
use super::objects::{is_ready, outline};
use super::operator::{Launch, Operator};
use super::recorder::Recorder;
use super::setup::MOVED;
use super::wait::{eventually, insist};
use super::wire::Wire;
use super::wires::Links;
use cloud_server_operator::api::{Account, Instance, Marker};
use cloud_simulator::Simulator;
use cloud_simulator::model::ServerInfo;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// The labels of a Secret of this name.
pub fn labels(name: &str) -> Value {
    match name.ends_with("token") {
        true => json!({"cloudserver.dev/use": "token"}),
        false => json!({}),
    }
}

/// A running world.
pub struct World {
    // The first field, so that it is dropped first.
    pub(super) operator: Option<Operator>,
    pub(super) standby: Option<Operator>,
    /// A client with an administrator's rights.
    pub client: Client,
    /// The test's own namespace.
    pub namespace: String,
    pub(super) neighbour: Option<String>,
    /// More namespaces that its operators watch: see [`World::settle`].
    pub(super) settled: Vec<String>,
    /// Its operators watch every namespace of the cluster.
    pub(super) is_everywhere: bool,
    /// The service.
    pub sim: Simulator,
    pub(super) recorder: Option<Recorder>,
    pub(super) wire: Option<Wire>,
    pub(super) links: Option<Links>,
    pub(super) launch: Launch,
    pub(super) directory: TempDir,
    pub(super) filter: &'static str,
    pub(super) moved: bool,
    pub(super) imports: bool,
    pub(super) leases: Option<&'static [&'static str]>,
    pub(super) keeps_tokens: bool,
    /// The operator is started as its Deployment does it.
    pub(super) is_installed: bool,
    pub(super) starts: usize,
    /// The control plane. The last field: the last holder of this reference ends the control plane.
    pub shared: Arc<Shared>,
}

impl World {
    /// The login password: if it appears anywhere else, it has leaked.
    pub const PASSWORD: &'static str = "Canary7pass!word";
    /// The next login password; the same applies.
    pub const NEW_PASSWORD: &'static str = "Second8pass-word";
    /// How long a Lease of [`Setup::leases`] is valid.
    pub const LEASE: Duration = Duration::from_secs(30);
    /// The service's token; the same applies.
    pub const TOKEN: &'static str = "canary-token-5f0e8c2b";

    /// The running operator.
    pub fn operator(&mut self) -> &mut Operator {
        self.operator
            .as_mut()
            .expect("the operator was not started")
    }

    /// The proxies that number requests.
    pub fn recorder(&self) -> &Recorder {
        self.recorder
            .as_ref()
            .expect("the test did not ask for a recorder")
    }

    /// The wire to the apiserver.
    pub fn wire(&self) -> &Wire {
        self.wire.as_ref().expect("the test did not ask for a wire")
    }

    /// Starts the operator and waits until it is ready. With [`Setup::leases`] it acts as soon as it has the Lease: see
    /// [`World::until_holder`].
    pub async fn start(&mut self) {
        let lease = self.namespace.clone();
        let operator = self.launch("kubeconfig", &lease);
        self.operator = Some(operator);
        self.operator().ready().await;
    }

    /// Address and certificate authority of the apiserver.
    pub fn apiserver(&self) -> (&str, &str) {
        (self.shared.cluster.url(), self.shared.cluster.ca_pem())
    }

    /// The operator's own token.
    pub fn operator_token(&self) -> &str {
        &self.shared.token
    }

    pub(super) fn launch(&mut self, kubeconfig: &str, lease: &str) -> Operator {
        self.starts += 1;
        let log = self.log_path(self.starts);
        let kubeconfig = self.directory.path().join(kubeconfig);
        if self.is_installed {
            let none: [&str; 0] = [];
            return Operator::start(&kubeconfig, none, log, self.filter, &self.launch);
        }
        let mut flags = Vec::new();
        let watched = [&self.namespace].into_iter().chain(&self.neighbour);
        if !self.is_everywhere {
            for namespace in watched.chain(&self.settled) {
                flags.extend(["--namespace", namespace]);
            }
        }
        if let Some(times) = self.leases {
            flags.extend(times);
            flags.extend(["--leader-elect-resource-name", lease]);
        } else {
            flags.push("--leader-elect=false");
        }
        // Without copies of tokens the operator has no namespace of its own, and no test may need one.
        flags.push(match self.keeps_tokens {
            true => "--keep-tokens-namespace=cloud-server-system",
            false => "--keep-tokens=false",
        });
        Operator::start(&kubeconfig, flags, log, self.filter, &self.launch)
    }

    /// Switches to the other namespace that the operator watches; the next call switches back.
    pub fn next_door(&mut self) {
        let other = self.neighbour.as_mut();
        let other = other.expect("the test did not ask for a neighbour");
        std::mem::swap(&mut self.namespace, other);
    }

    /// Sets a variable in the environment of every operator that starts from here on.
    pub fn environment(&mut self, name: &str, value: &str) {
        let environment = &mut self.launch.environment;
        environment.push((name.to_owned(), value.to_owned()));
    }

    /// Kills the operator.
    pub fn kill(&mut self) {
        self.operator().kill();
    }

    /// Starts the operator again if it has exited, as Kubernetes restarts a container. An operator may end only
    /// because it lost a Lease.
    pub async fn revive(&mut self) {
        if !self.operator().is_running() {
            assert!(self.leases.is_some(), "the operator ended by itself");
            self.start().await;
        }
    }

    /// Kills it and starts another.
    pub async fn restart(&mut self) {
        self.kill();
        self.start().await;
    }

    fn log_path(&self, start: usize) -> PathBuf {
        self.directory.path().join(format!("operator-{start}.log"))
    }

    /// Everything that every operator of this world has logged.
    pub fn logs(&self) -> String {
        (1..=self.starts)
            .map(|n| std::fs::read_to_string(self.log_path(n)).unwrap_or_default())
            .collect()
    }

    pub(super) async fn last_metrics(&self) -> Option<String> {
        let address = self.operator.as_ref()?.address().await;
        super::operator::get(&format!("http://{address}/metrics"))
            .await
            .ok()
            .map(|page| page.2)
    }

    /// Creates or replaces a Secret with one key. The labels of a Secret whose name ends in `token` allow its use as a token.
    pub async fn secret(&self, name: &str, key: &str, value: &str) {
        let secret: Secret = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels(name)},
            "stringData": {key: value},
        }))
        .unwrap();
        let params = PatchParams::apply("user").force();
        let secrets = self.secrets();
        let patch = Patch::Apply(&secret);
        let written = insist("a Secret is written", async || {
            secrets.patch(name, &params, &patch).await
        });
        written.await.unwrap();
    }

    /// Creates or replaces an Account with the token in Secret `cloud-token`.
    pub async fn account(&self, name: &str, endpoint: &str) {
        let mut account = json!({
            "apiVersion": "cloudserver.dev/v1alpha1",
            "kind": "Account",
            "metadata": {"name": name},
            "spec": {
                "endpoint": endpoint,
                "tokenSecretRef": {"name": "cloud-token", "key": "token"},
                "settleSeconds": 2,
                // These limits are generous: the tests are not about limits.
                "requests": {"perSecond": 500, "burst": 500, "concurrent": 50},
            },
        });
        for (field, _, path) in MOVED.iter().filter(|_| self.moved) {
            account["spec"]["paths"][field] = json!(path);
        }
        if self.imports {
            account["spec"]["imports"] = json!("Allowed");
        }
        let params = PatchParams::apply("user").force();
        let accounts = self.accounts();
        let patch = Patch::Apply(&account);
        let written = insist("an Account is written", async || {
            accounts.patch(name, &params, &patch).await
        });
        written.await.unwrap();
    }

    /// Applies an Instance as a user does.
    pub async fn apply(&self, manifest: &Value) -> Instance {
        let name = manifest["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply("user").force();
        let instances = self.instances();
        let patch = Patch::Apply(manifest);
        let written = insist("an Instance is applied", async || {
            instances.patch(name, &params, &patch).await
        });
        written.await.unwrap()
    }

    /// The Instances of the namespace.
    pub fn instances(&self) -> Api<Instance> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The Accounts of the namespace.
    pub fn accounts(&self) -> Api<Account> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The Secrets of the namespace.
    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The Events of the namespace with this reason.
    pub async fn events(&self, reason: &str) -> Vec<Event> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = ListParams::default();
        let found = insist("Events are listed", async || api.list(&all).await);
        let mut events = found.await.unwrap().items;
        events.retain(|event| event.reason.as_deref() == Some(reason));
        events
    }

    /// The current version of an Instance.
    pub async fn get(&self, name: &str) -> Instance {
        let instances = self.instances();
        let found = insist("an Instance is read", async || instances.get(name).await);
        found.await.unwrap()
    }

    /// Waits until this many Events with a reason exist: an Event comes after the status that it describes.
    pub async fn until_events(&self, reason: &str, count: usize) {
        eventually(&format!("{count} Events {reason}"), async || {
            match self.events(reason).await.len() {
                n if n == count => Ok(()),
                n => Err(format!("{n}")),
            }
        })
        .await;
    }

    /// Waits until a condition holds for an Instance.
    pub async fn until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Instance) -> bool,
    ) -> Instance {
        let api = self.instances();
        eventually(
            &format!("{what}, Instance {}/{name}", self.namespace),
            async || {
                let instance = api.get(name).await.map_err(|error| error.to_string())?;
                if holds(&instance) {
                    Ok(instance)
                } else {
                    Err(outline(&instance))
                }
            },
        )
        .await
    }

    /// Waits until an Instance is ready.
    pub async fn ready(&self, name: &str) -> Instance {
        self.until(name, "is Ready", is_ready).await
    }

    /// Waits until the Ready condition has this reason.
    pub async fn until_reason(&self, name: &str, reason: &str) -> Instance {
        self.until(name, reason, |instance| super::reason(instance) == reason)
            .await
    }

    /// Deletes an Instance; does not wait.
    pub async fn delete(&self, name: &str) {
        delete(&self.instances(), name).await;
    }

    /// Waits until an Instance is gone.
    pub async fn gone(&self, name: &str) {
        let api = self.instances();
        eventually(
            &format!("Instance {}/{name} is gone", self.namespace),
            async || match api.get_opt(name).await.map_err(|error| error.to_string())? {
                None => Ok(()),
                Some(instance) => Err(format!("{}\n{}", outline(&instance), self.ledger_text())),
            },
        )
        .await;
    }

    /// The existing servers of an Instance.
    pub fn live(&self, instance: &Instance) -> Vec<ServerInfo> {
        let marker = Marker::of_uid(&instance.uid().unwrap());
        self.sim
            .live_servers()
            .into_iter()
            .filter(|server| Marker::in_name(&server.name).as_ref() == Some(&marker))
            .collect()
    }

    /// The one server of an Instance.
    pub fn only_server(&self, instance: &Instance) -> ServerInfo {
        let mut live = self.live(instance);
        assert_eq!(
            live.len(),
            1,
            "servers of {}: {live:?}\n{}",
            instance.name_any(),
            self.ledger_text()
        );
        live.remove(0)
    }

    /// Ends every test: checks the invariants again.
    pub async fn finish(self) {
        self.assert_never_two();
        self.finish_with_surplus().await;
    }

    /// The same for a test in which the service, not the operator, made two servers at once.
    pub async fn finish_with_surplus(self) {
        self.assert_no_secret_leaked().await;
        self.assert_no_false_alarm().await;
        assert!(
            !self.logs().contains("panicked"),
            "the operator panicked: {}",
            self.logs()
        );
    }
}
