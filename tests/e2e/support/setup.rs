//! Builds the world of a test, with options for tests that need something unusual.

use super::again::create;
use super::cluster::{Shared, shared};
use super::objects::instance;
use super::operator::Launch;
use super::recorder::Recorder;
use super::wire::Wire;
use super::wires::Links;
use super::world::World;
use cloud_server_operator::api::Instance;
use cloud_simulator::wire::Endpoint;
use cloud_simulator::{Readings, Simulator};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Other paths: the Account's field, the endpoint, the path where it is served. The create's usual path serves another endpoint
/// here.
pub(super) const MOVED: [(&str, Endpoint, &str); 15] = [
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

/// Flags for a Lease of [`World::LEASE`]. A shorter one would not survive the silences of an apiserver that shares two cores
/// with fifteen other tests. The grace period is longer than the Lease: the operator waits for a call in flight beyond the
/// Lease's time.
const SHORT: [&str; 5] = [
    LEASE_NAMESPACE,
    "--leader-elect-lease-duration=30s",
    "--leader-elect-renew-deadline=24s",
    "--leader-elect-retry-period=1s",
    "--grace-seconds=50",
];
/// Flags for a Lease with the users' default times.
const LONG: [&str; 1] = [LEASE_NAMESPACE];
const LEASE_NAMESPACE: &str = "--leader-elect-resource-namespace=cloud-server-system";

/// The unusual needs of a test.
pub struct Setup {
    tasks: Duration,
    readings: Readings,
    recorder: bool,
    wire: bool,
    filter: &'static str,
    account: bool,
    imports: bool,
    secrets: bool,
    operator: bool,
    moved: bool,
    own_ids: bool,
    leases: Option<&'static [&'static str]>,
    keeps_tokens: bool,
    neighbour: bool,
    is_everywhere: bool,
    cluster: Option<Arc<Shared>>,
    pub(super) links: bool,
    pub(super) launch: Launch,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            tasks: Duration::from_millis(300),
            readings: Readings::default(),
            recorder: false,
            wire: false,
            filter: "info",
            account: true,
            imports: false,
            secrets: true,
            operator: true,
            own_ids: false,
            moved: false,
            leases: None,
            keeps_tokens: false,
            neighbour: false,
            is_everywhere: false,
            cluster: None,
            links: false,
            launch: Launch::default(),
        }
    }
}

impl Setup {
    /// Duration of the service's tasks.
    pub fn tasks(mut self, millis: u64) -> Self {
        self.tasks = Duration::from_millis(millis);
        self
    }

    /// The service's interpretation of the specification.
    pub fn readings(mut self, readings: Readings) -> Self {
        self.readings = readings;
        self
    }

    /// The operator reaches the apiserver and the service through proxies that number its requests.
    pub fn recorder(mut self) -> Self {
        self.recorder = true;
        self
    }

    /// The operator reaches the apiserver over a wire on which faults are injected.
    pub fn wire(mut self) -> Self {
        self.wire = true;
        self
    }

    /// The operator's log filter.
    pub fn filter(mut self, filter: &'static str) -> Self {
        self.filter = filter;
        self
    }

    /// Makes no Account and no Secrets: the test makes them.
    pub fn bare(mut self) -> Self {
        (self.account, self.secrets) = (false, false);
        self
    }

    /// The Accounts let their Instances import servers.
    pub fn imports(mut self) -> Self {
        self.imports = true;
        self
    }

    /// The service serves none of the paths in the specification and its field notes; the Accounts configure the paths.
    pub fn moved(mut self) -> Self {
        self.moved = true;
        self
    }

    /// The operators act only while they hold the world's Lease, with the times of [`World::LEASE`]. An operator that gets no
    /// answer from the apiserver for 24 seconds ends, by design, and only the test starts it again. See
    /// [`World::start_standby`].
    pub fn leases(mut self) -> Self {
        self.leases = Some(&SHORT);
        self
    }

    /// The same with the users' default times: no operator loses this Lease because the machine is busy.
    pub fn long_leases(mut self) -> Self {
        self.leases = Some(&LONG);
        self
    }

    /// The operator keeps copies of tokens, as it does in `deploy/`.
    pub fn keeps_tokens(mut self) -> Self {
        self.keeps_tokens = true;
        self
    }

    /// The operator also watches another, empty namespace: see [`World::next_door`].
    pub fn neighbour(mut self) -> Self {
        self.neighbour = true;
        self
    }

    /// The operators watch every namespace: for tests with a cluster of their own.
    pub fn everywhere(mut self) -> Self {
        self.is_everywhere = true;
        self
    }

    /// Uses this control plane instead of the shared one.
    pub fn cluster(mut self, cluster: Arc<Shared>) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// The service's identifiers differ from those of every other world, for commands that read the Instances of all
    /// namespaces.
    pub fn own_ids(mut self) -> Self {
        self.own_ids = true;
        self
    }

    /// The test starts the operator itself.
    pub fn without_operator(mut self) -> Self {
        self.operator = false;
        self
    }

    /// Makes the world, with the ready Instance `web`.
    pub async fn begin_with_server(self, name: &str) -> (World, Instance) {
        let world = self.begin(name).await;
        world.apply(&instance("web")).await;
        let ready = world.ready("web").await;
        (world, ready)
    }

    /// Makes the world. The namespace's name begins with `name`.
    pub async fn begin(self, name: &str) -> World {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let _ = rustls::crypto::ring::default_provider().install_default();
        let shared = match &self.cluster {
            Some(own) => own.clone(),
            None => shared().await,
        };
        let client = shared.cluster.client().await.unwrap();
        let number = COUNT.fetch_add(1, Ordering::SeqCst);
        let namespace = format!("{name}-{number}");
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        create(&Api::<Namespace>::all(client.clone()), &object).await;
        let neighbour = self.neighbour.then(|| format!("{namespace}-neighbour"));
        if let Some(name) = &neighbour {
            let object = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            create(&Api::<Namespace>::all(client.clone()), &object).await;
        }
        let mut service = Simulator::builder()
            .task_duration(self.tasks)
            .readings(self.readings.clone())
            .control(([127, 0, 0, 1], 0).into())
            .token(World::TOKEN);
        if self.own_ids {
            service = service.seed(1_000_000 + number as u64);
        }
        for (_, endpoint, path) in MOVED.iter().filter(|_| self.moved) {
            service = service.path(*endpoint, path);
        }
        let sim = service.start().await.unwrap();
        let recorder = match self.recorder {
            true => {
                let cluster = &shared.cluster;
                Some(Recorder::start(cluster.url(), cluster.ca_pem(), sim.url()).await)
            }
            false => None,
        };
        let directory = tempfile::Builder::new()
            .prefix("cso-e2e-")
            .tempdir()
            .unwrap();
        let mut kubeconfig = shared.cluster.kubeconfig_for(&shared.token);
        let wire = match self.wire {
            true => Some(Wire::start(shared.cluster.url(), shared.cluster.ca_pem()).await),
            false => None,
        };
        let before = recorder.as_ref().map(Recorder::apiserver);
        if let Some(address) = before.or(wire.as_ref().map(Wire::address)) {
            kubeconfig = kubeconfig.replace(shared.cluster.url(), address);
        }
        let links = match self.links {
            true => Some(Links::lay(&shared, &sim, &mut kubeconfig).await),
            false => None,
        };
        std::fs::write(directory.path().join("kubeconfig"), kubeconfig).unwrap();
        let direct = shared.cluster.kubeconfig_for(&shared.token);
        std::fs::write(directory.path().join("direct"), direct).unwrap();
        let mut world = World {
            client,
            namespace,
            neighbour,
            settled: Vec::new(),
            is_everywhere: self.is_everywhere,
            sim,
            recorder,
            wire,
            links,
            launch: self.launch,
            operator: None,
            standby: None,
            leases: self.leases,
            keeps_tokens: self.keeps_tokens,
            is_installed: false,
            directory,
            filter: self.filter,
            moved: self.moved,
            imports: self.imports,
            starts: 0,
            shared,
        };
        if self.secrets {
            world.secret("cloud-token", "token", World::TOKEN).await;
            world.secret("login", "password", World::PASSWORD).await;
        }
        if self.account {
            let endpoint = match &world.recorder {
                Some(recorder) => recorder.service().to_owned(),
                None => world.endpoint(),
            };
            world.account("default", &endpoint).await;
        }
        if self.leases.is_some() {
            world.allow_its_leases().await;
        }
        if self.operator {
            world.start().await;
        }
        world
    }
}
