//! The world of one test: a namespace, a service, an Account, an operator.

use super::cluster::{Shared, kubectl_of, shared};
use super::objects::{is_ready, outline};
use super::operator::Operator;
use super::proxy::Proxy;
use super::wait::eventually;
use cloud_server_operator::api::{Account, Instance, Marker};
use cloud_simulator::model::ServerInfo;
use cloud_simulator::wire::Endpoint;
use cloud_simulator::{Readings, Simulator};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Other paths: the Account's field, the endpoint, where it is served. The create's own path is another's here.
const MOVED: [(&str, Endpoint, &str); 15] = [
    ("create", Endpoint::Create, "/v9/make"),
    ("release", Endpoint::Release, "/v9/give-back"),
    ("reinstall", Endpoint::Reinstall, "/v9/wipe"),
    ("modifyPassword", Endpoint::ModifyPassword, "/v9/secret"),
    ("start", Endpoint::Start, "/v9/power/on"),
    ("stop", Endpoint::Stop, "/v9/power/off"),
    ("restart", Endpoint::Restart, "/v9/power/cycle"),
    ("detail", Endpoint::Detail, "/v9/one"),
    ("task", Endpoint::TaskResult, "/v9/work"),
    ("instances", Endpoint::InstanceList, "/instance/create"),
    ("firewalls", Endpoint::FirewallList, "/v9/walls"),
    ("images", Endpoint::ImageList, "/v9/systems"),
    ("keys", Endpoint::KeyList, "/v9/keys"),
    ("packages", Endpoint::PackageList, "/v9/sizes"),
    ("regions", Endpoint::RegionList, "/v9/places"),
];

/// What a test wants otherwise than most.
pub struct Setup {
    tasks: Duration,
    readings: Readings,
    proxy: bool,
    filter: &'static str,
    account: bool,
    secrets: bool,
    operator: bool,
    moved: bool,
    cluster: Option<Arc<Shared>>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            tasks: Duration::from_millis(300),
            readings: Readings::default(),
            proxy: false,
            filter: "info",
            account: true,
            secrets: true,
            operator: true,
            moved: false,
            cluster: None,
        }
    }
}

impl Setup {
    /// How long the service's tasks take.
    pub fn tasks(mut self, millis: u64) -> Self {
        self.tasks = Duration::from_millis(millis);
        self
    }

    /// How the service reads the specification.
    pub fn readings(mut self, readings: Readings) -> Self {
        self.readings = readings;
        self
    }

    /// The operator reaches the apiserver through a proxy.
    pub fn proxy(mut self) -> Self {
        self.proxy = true;
        self
    }

    /// What the operator logs.
    pub fn filter(mut self, filter: &'static str) -> Self {
        self.filter = filter;
        self
    }

    /// No Account and no Secrets: the test makes them.
    pub fn bare(mut self) -> Self {
        (self.account, self.secrets) = (false, false);
        self
    }

    /// The service is at none of the paths that the specification and its field notes name; the Accounts say where.
    pub fn moved(mut self) -> Self {
        self.moved = true;
        self
    }

    /// Not in the control plane that all share.
    pub fn cluster(mut self, cluster: Arc<Shared>) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// The operator is started by the test.
    pub fn without_operator(mut self) -> Self {
        self.operator = false;
        self
    }

    /// Makes it. `name` begins the namespace's name.
    pub async fn begin(self, name: &str) -> World {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let _ = rustls::crypto::ring::default_provider().install_default();
        let shared = match &self.cluster {
            Some(own) => own.clone(),
            None => shared().await,
        };
        let client = shared.cluster.client().await.unwrap();
        let namespace = format!("{name}-{}", COUNT.fetch_add(1, Ordering::SeqCst));
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        Api::<Namespace>::all(client.clone())
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        let mut service = Simulator::builder()
            .task_duration(self.tasks)
            .readings(self.readings.clone())
            .token(World::TOKEN);
        for (_, endpoint, path) in MOVED.iter().filter(|_| self.moved) {
            service = service.path(*endpoint, path);
        }
        let sim = service.start().await.unwrap();
        let proxy = match self.proxy {
            true => Some(Proxy::start(shared.cluster.url(), shared.cluster.ca_pem()).await),
            false => None,
        };
        let directory = tempfile::Builder::new()
            .prefix("cso-e2e-")
            .tempdir()
            .unwrap();
        let mut kubeconfig = shared.cluster.kubeconfig_for(&shared.token);
        if let Some(proxy) = &proxy {
            kubeconfig = kubeconfig.replace(shared.cluster.url(), proxy.address());
        }
        std::fs::write(directory.path().join("kubeconfig"), kubeconfig).unwrap();
        let mut world = World {
            client,
            namespace,
            sim,
            proxy,
            operator: None,
            directory,
            filter: self.filter,
            moved: self.moved,
            starts: 0,
            shared,
        };
        if self.secrets {
            world.secret("cloud-token", "token", World::TOKEN).await;
            world.secret("login", "password", World::PASSWORD).await;
        }
        if self.account {
            world.account("default", world.sim.url()).await;
        }
        if self.operator {
            world.start().await;
        }
        world
    }
}

/// A running world.
pub struct World {
    // First, so that it ends first.
    operator: Option<Operator>,
    /// An administrator.
    pub client: Client,
    /// The test's own namespace.
    pub namespace: String,
    /// The service.
    pub sim: Simulator,
    proxy: Option<Proxy>,
    directory: TempDir,
    filter: &'static str,
    moved: bool,
    starts: usize,
    // Last: whoever holds it last ends it.
    pub(super) shared: Arc<Shared>,
}

impl World {
    /// The login password: found anywhere else, it was told.
    pub const PASSWORD: &'static str = "Canary7pass!word";
    /// The password that comes after it, likewise.
    pub const NEW_PASSWORD: &'static str = "Second8pass-word";
    /// The service's token, likewise.
    pub const TOKEN: &'static str = "canary-token-5f0e8c2b";

    /// The operator that runs.
    pub fn operator(&mut self) -> &mut Operator {
        self.operator
            .as_mut()
            .expect("the operator was not started")
    }

    /// The proxy before the apiserver.
    pub fn proxy(&self) -> &Proxy {
        self.proxy
            .as_ref()
            .expect("the test did not ask for a proxy")
    }

    /// Starts the operator and waits until it is ready.
    pub async fn start(&mut self) {
        self.starts += 1;
        let log = self.log_path(self.starts);
        let kubeconfig = self.directory.path().join("kubeconfig");
        self.operator = Some(Operator::start(
            &kubeconfig,
            &self.namespace,
            log,
            self.filter,
        ));
        self.operator().ready().await;
    }

    /// Kills the operator.
    pub fn kill(&mut self) {
        self.operator().kill();
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

    /// Writes a Secret of one key, or replaces it.
    pub async fn secret(&self, name: &str, key: &str, value: &str) {
        let secret: Secret = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: value},
        }))
        .unwrap();
        let params = PatchParams::apply("user").force();
        self.secrets()
            .patch(name, &params, &Patch::Apply(&secret))
            .await
            .unwrap();
    }

    /// Writes an Account with the token in Secret `cloud-token`, or replaces it.
    pub async fn account(&self, name: &str, endpoint: &str) {
        let mut account = json!({
            "apiVersion": "cloudserver.dev/v1alpha1",
            "kind": "Account",
            "metadata": {"name": name},
            "spec": {
                "endpoint": endpoint,
                "tokenSecretRef": {"name": "cloud-token", "key": "token"},
                "settleSeconds": 2,
                // Generous: these tests are not about limits.
                "requests": {"perSecond": 500, "burst": 500, "concurrent": 50},
            },
        });
        for (field, _, path) in MOVED.iter().filter(|_| self.moved) {
            account["spec"]["paths"][field] = json!(path);
        }
        let params = PatchParams::apply("user").force();
        self.accounts()
            .patch(name, &params, &Patch::Apply(&account))
            .await
            .unwrap();
    }

    /// Applies an Instance as a user does.
    pub async fn apply(&self, manifest: &Value) -> Instance {
        let name = manifest["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply("user").force();
        self.instances()
            .patch(name, &params, &Patch::Apply(manifest))
            .await
            .unwrap()
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
        let mut events = api.list(&ListParams::default()).await.unwrap().items;
        events.retain(|event| event.reason.as_deref() == Some(reason));
        events
    }

    /// An Instance as it is now.
    pub async fn get(&self, name: &str) -> Instance {
        self.instances().get(name).await.unwrap()
    }

    /// Waits until so many Events of a reason were told: they come after the status that they are about.
    pub async fn told(&self, reason: &str, count: usize) {
        eventually(&format!("{count} Events {reason}"), async || {
            match self.events(reason).await.len() {
                n if n == count => Ok(()),
                n => Err(format!("{n}")),
            }
        })
        .await;
    }

    /// Waits until an Instance is as asked for.
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
        self.instances()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
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

    /// The servers of an Instance that exist.
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

    /// Runs kubectl, which has to succeed.
    pub async fn run(&self, arguments: &[&str], input: &str) {
        let (done, text) = self.kubectl(arguments, input).await;
        assert!(done, "{arguments:?}: {text}");
    }

    /// Applies any text, as a user at kubectl does.
    ///
    /// # Errors
    /// What kubectl says about a refusal.
    pub async fn kubectl_apply(&self, manifest: &Value) -> Result<(), String> {
        let arguments = ["apply", "--server-side", "--field-manager=user"];
        let arguments = [&arguments[..], &["--force-conflicts", "-f", "-"]].concat();
        match self.kubectl(&arguments, &manifest.to_string()).await {
            (true, _) => Ok(()),
            (false, why) => Err(why),
        }
    }

    /// The status of an Instance is lost.
    pub async fn wipe_status(&self, name: &str) {
        let patch = r#"[{"op":"replace","path":"/status","value":{"observedGeneration":-1}}]"#;
        let arguments = ["patch", "instance", name, "--subresource=status"];
        self.run(
            &[&arguments[..], &["--type=json", "-p", patch]].concat(),
            "",
        )
        .await;
    }

    /// Runs kubectl in this namespace, as an administrator.
    pub async fn kubectl(&self, arguments: &[&str], input: &str) -> (bool, String) {
        let all = [&["-n", self.namespace.as_str()], arguments].concat();
        let output = kubectl_of(&self.shared.cluster, &all, input).await;
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    /// The end of every test: what holds always is checked once more.
    pub async fn finish(self) {
        self.assert_never_two();
        self.finish_with_surplus().await;
    }

    /// The same where two servers at once were made by the service, not by us.
    pub async fn finish_with_surplus(self) {
        self.assert_no_secret_told().await;
        self.assert_no_false_alarm().await;
        assert!(
            !self.logs().contains("panicked"),
            "the operator panicked: {}",
            self.logs()
        );
    }
}
