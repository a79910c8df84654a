//! The setting of a run, and its initial state.

use super::neighbours::Neighbour;
use super::{PASSWORDS, TOKEN, Universe, base64};
use crate::apiserver::{ACCOUNTS, SECRETS};
use cloud_simulator::model::{CreateRequest, Effect, Request};
use cloud_simulator::secret::Secret;
use cloud_simulator::{Readings, catalogue};
use serde_json::{Value, json};
use std::time::Duration;

/// The name of the server that is imported.
pub(super) const LEGACY: &str = "legacy-db";
const LEGACY_PASSWORD: &str = "Legacy7pass!word";

/// The setting of a run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The seed of all random values.
    pub seed: u64,
    /// The settling time, in seconds.
    pub settle: u32,
    /// How long the service's tasks take.
    pub tasks: Duration,
    /// The readings of the simulated service.
    pub readings: Readings,
    /// Whether the login is a key.
    pub by_key: bool,
    /// Further properties of every Instance: JSON merge patches of its spec, applied in order.
    pub spec: Vec<Value>,
    /// The Account's limit of Instances with a server.
    pub most: Option<u8>,
    /// The Account's limit of creates per minute.
    pub creates: Option<u8>,
    /// The request limits of the Account.
    pub requests: Value,
    /// Whether there is a server that was bought externally, which every Instance imports.
    pub import: Option<ImportBy>,
    /// Whether the Account allows imports.
    pub imports: bool,
    /// How long an operating system takes to stop, where that is another time.
    pub stop: Option<Duration>,
    /// Other teams, which the same process serves.
    pub neighbours: Vec<Neighbour>,
    /// Whether the Account of the judged team does not exist at the beginning: see [`Step::ApplyAccount`].
    ///
    /// [`Step::ApplyAccount`]: crate::fault::Step::ApplyAccount
    pub account_comes_later: bool,
}

/// How an Instance selects the server that it imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportBy {
    /// By its identifier.
    Id,
    /// By its name.
    Name,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            seed: 1,
            settle: 20,
            tasks: Duration::from_millis(500),
            readings: Readings::default(),
            by_key: false,
            spec: Vec::new(),
            most: None,
            creates: None,
            requests: json!({"perSecond": 1000, "burst": 1000, "concurrent": 50}),
            import: None,
            imports: true,
            stop: None,
            neighbours: Vec::new(),
            account_comes_later: false,
        }
    }
}

impl Universe {
    /// Creates the initial state of every run.
    pub(super) fn furnish(&mut self, setting: &Setting) {
        let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"value": base64(value)}});
        let mut token = secret(TOKEN);
        token["type"] = json!("cloudserver.dev/token");
        self.kube
            .create(&(SECRETS, "cloud-token".to_owned()), token);
        self.kube
            .create(&(SECRETS, "login".to_owned()), secret(PASSWORDS[0]));
        if let Some(most) = setting.most {
            self.oracle.limits(most);
        }
        if !setting.imports {
            self.oracle.denies_imports();
        }
        if !setting.account_comes_later {
            self.furnish_own_account();
        }
        self.kube.take_changes();
        self.furnish_neighbours();
        for password in PASSWORDS.into_iter().chain([LEGACY_PASSWORD]) {
            self.oracle.users_password(password);
        }
        if setting.import.is_some() {
            self.buy_externally();
        }
    }

    /// The Account of the judged team.
    pub(super) fn furnish_own_account(&mut self) {
        let mut account = json!({
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Account", "metadata": {},
            "spec": {
                "endpoint": "https://cloud.example/api",
                "tokenSecretRef": {"name": "cloud-token", "key": "value"},
                "settleSeconds": self.setting.settle,
                "requests": self.setting.requests,
            },
        });
        if let Some(most) = self.setting.most {
            account["spec"]["maxInstances"] = json!(most);
        }
        if let Some(creates) = self.setting.creates {
            account["spec"]["createRate"] = json!({"perMinute": creates});
        }
        if self.setting.imports {
            account["spec"]["imports"] = json!("Allowed");
        }
        self.kube.create(&(ACCOUNTS, "default".to_owned()), account);
    }

    /// A server is bought externally.
    fn buy_externally(&mut self) {
        let example = catalogue::example();
        let text = |text: &str| Some(text.to_owned());
        let request = Request::Create(CreateRequest {
            package_code: text(example.package),
            region_code: text(example.region),
            zone_code: text(example.zone),
            instance_name: text(LEGACY),
            image: text(example.image),
            key: None,
            firewall: text(example.firewall),
            password: Some(Secret::from(LEGACY_PASSWORD)),
        });
        let reply = self.cloud.call(self.timestamp(), Some(TOKEN), &request);
        if let Effect::Created { server, .. } = reply.effect {
            self.oracle.bought_externally(&server);
            self.legacy = Some(server);
        }
    }
}
