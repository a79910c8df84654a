//! Why there is no connection to a cluster, with the remedy.

use kube::config::{InClusterError, KubeconfigError};
use thiserror::Error;

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error(
        "no cluster to talk to{missing}: set KUBECONFIG, or run inside a cluster with a ServiceAccount"
    )]
    NoCluster { missing: String },
    #[error("the ServiceAccount of the Pod is not usable")]
    InCluster { source: InClusterError },
    #[error("the kubeconfig is not usable: check --kubeconfig and KUBECONFIG")]
    Kubeconfig { source: KubeconfigError },
    #[error(
        "no kubeconfig has the {what} {name:?}{missing}: check --{what}, --kubeconfig and KUBECONFIG"
    )]
    Undefined {
        what: &'static str,
        name: String,
        missing: String,
    },
    #[error("the kubeconfig has no current context{missing}: choose one with --context")]
    NoContext { missing: String },
    #[error("{what} is no URL of an apiserver: fix it")]
    NoServer { what: &'static str },
    #[error("{file} could not be read")]
    Unread {
        file: String,
        source: std::io::Error,
    },
    #[error(
        "the certificate authority of the apiserver holds no certificate in PEM: fix the kubeconfig or --certificate-authority"
    )]
    NoAuthority,
    #[error(
        "{what} is no URL of a proxy, such as http://proxy.example:3128 or socks5://127.0.0.1:1080: fix it"
    )]
    NoProxy { what: &'static str },
    #[error(
        "{what} has a user name or a password for a SOCKS proxy, and neither is sent: use a SOCKS proxy without them, or an HTTP proxy"
    )]
    SocksUser { what: &'static str },
    #[error(
        "--certificate-authority and --insecure-skip-tls-verify exclude each other: leave out one of them"
    )]
    VerifiedAndNot,
    #[error("the cluster's configuration is not usable")]
    Client { source: kube::Error },
}
