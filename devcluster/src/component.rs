//! The processes of a control plane and their arguments.

use std::path::Path;

/// One process of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API.
    Apiserver,
    /// Garbage collection, namespace deletion, default service accounts, and aggregated roles.
    ///
    /// The garbage collector looks for new kinds every 30 s, so that the dependents of an object of a newly installed kind are
    /// deleted that much later. A test that waits for the deletion restarts this component after it installs the kind.
    ControllerManager,
}

impl Component {
    /// The name in file names and in a variable of the supervisor's script: letters only.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "apiserver",
            Self::ControllerManager => "controllers",
        }
    }

    pub(crate) fn executable(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
        }
    }
}

/// Records user, verb, object and result of each request, without bodies: enough to count writes, cheap enough for benchmarks.
/// Without the first stage there is one line per request (two for a watch: its begin and its end).
pub(crate) const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
";

/// The controllers that run.
const CONTROLLERS: [&str; 4] = [
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
];

/// The values that the arguments depend on.
#[derive(Debug)]
pub(crate) struct Settings<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) etcd_name: &'a str,
    pub(crate) etcd_port: u16,
    pub(crate) apiserver_port: u16,
    pub(crate) fsync: bool,
    pub(crate) audit: bool,
}

impl Settings<'_> {
    pub(crate) fn arguments(&self, component: Component) -> Vec<String> {
        match component {
            Component::Etcd => self.etcd(),
            Component::Apiserver => self.apiserver(),
            Component::ControllerManager => self.controller_manager(),
        }
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn etcd(&self) -> Vec<String> {
        let client = format!("http://127.0.0.1:{}", self.etcd_port);
        let mut arguments = vec![
            format!("--name={}", self.etcd_name),
            format!("--data-dir={}", self.file("etcd")),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            // A cluster of one member has no peers but listens for them all the same, on any free port.
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        if !self.fsync {
            arguments.push("--unsafe-no-fsync".to_owned());
        }
        arguments
    }

    fn apiserver(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.apiserver_port),
            format!("--tls-cert-file={}", self.file("apiserver.crt")),
            format!("--tls-private-key-file={}", self.file("apiserver.key")),
            format!("--token-auth-file={}", self.file("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!(
                "--service-account-key-file={}",
                self.file("service-account.pub")
            ),
            format!(
                "--service-account-signing-key-file={}",
                self.file("service-account.key")
            ),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            // No process in this cluster reaches the API through a Service.
            "--endpoint-reconciler-type=none".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--profiling=false".to_owned(),
        ];
        if self.audit {
            arguments.extend([
                format!("--audit-policy-file={}", self.file("audit-policy.yaml")),
                format!("--audit-log-path={}", self.file("audit.log")),
                // The API writes the line before it answers the request, so that a client that has the answer finds the line.
                "--audit-log-mode=blocking".to_owned(),
                // The log is never rotated, so that a reader that counts lines misses none.
                "--audit-log-maxsize=0".to_owned(),
            ]);
        }
        arguments
    }

    fn controller_manager(&self) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", self.file("controllers.kubeconfig")),
            format!("--controllers={}", CONTROLLERS.join(",")),
            format!(
                "--service-account-private-key-file={}",
                self.file("service-account.key")
            ),
            "--leader-elect=false".to_owned(),
            // It serves nothing and needs no port.
            "--secure-port=0".to_owned(),
            // With the defaults, which are made for a shared cluster, the work that a test waits for would queue.
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            "--concurrent-namespace-syncs=50".to_owned(),
            "--profiling=false".to_owned(),
        ]
    }
}
