//! Why there is no connection to a cluster, with the remedy.

use kube::config::{InClusterError, KubeconfigError};
use thiserror::Error;

/// Why there is no connection. Each message names the remedy.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error(
        "no kubeconfig names a cluster{missing}, and this is no Pod with a ServiceAccount: set KUBECONFIG"
    )]
    NoCluster {
        missing: String,
        source: InClusterError,
    },
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
    #[error("the apiserver's address is no URL: fix --server or the kubeconfig")]
    NoServer,
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
        "{what} is no URL of a proxy, such as http://proxy.example:3128 or socks5://127.0.0.1:1080 (without a login): fix it"
    )]
    NoProxy { what: &'static str },
    #[error("the cluster's configuration is not usable")]
    Client { source: kube::Error },
}
