//! The flags of `run`.

use super::elect::{ElectArgs, namespace};
use super::metrics::MetricsArgs;
use crate::cloud::EndpointPattern;
use clap::{ArgAction, Args};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Flags of `run`; each is also an environment variable.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Address for /livez and /readyz, and for /metrics where --metrics-listen is not given. [::] is every address of both
    /// families, or of IPv4 where the machine has no IPv6; port 0 lets the system choose.
    #[arg(
        long,
        env = "CSO_LISTEN",
        default_value = "[::]:8080",
        value_name = "ADDR"
    )]
    pub(super) listen: SocketAddr,

    #[command(flatten)]
    pub(super) metrics: MetricsArgs,

    /// Watch only this namespace; may be given several times. All namespaces when absent.
    #[arg(
        long = "namespace",
        env = "CSO_NAMESPACES",
        value_delimiter = ',',
        value_parser = namespace,
        value_name = "NAME"
    )]
    pub(super) namespaces: Vec<String>,

    /// Send requests only to this endpoint, for all Accounts; may be given several times. A URL and what lies below it, such as
    /// https://cloud.example/api, or hosts, such as *.cloud.example (https, every host below cloud.example); a port of * is any.
    /// When absent: any endpoint to which the Account's Secret consents, except internal addresses.
    #[arg(
        long = "allowed-endpoint",
        env = "CSO_ALLOWED_ENDPOINTS",
        value_delimiter = ',',
        value_name = "ENDPOINT"
    )]
    pub(super) allowed_endpoints: Vec<EndpointPattern>,

    /// Reconciles of Instances at the same time.
    #[arg(long, env = "CSO_CONCURRENCY", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) concurrency: u16,

    /// Identity of this cluster in the records of what was bought; read from the UID of namespace kube-system when absent.
    #[arg(long, env = "CSO_CLUSTER_ID", value_name = "ID")]
    pub(super) cluster_id: Option<String>,

    /// Seconds that running reconciles get to end on SIGTERM.
    #[arg(long, env = "CSO_GRACE_SECONDS", default_value_t = 25)]
    pub(super) grace_seconds: u64,

    /// Keep a copy of each token that an Instance needs in the operator's own namespace, so that a namespace can be deleted
    /// although the operator restarts meanwhile; --keep-tokens=false to keep none.
    #[arg(long, env = "CSO_KEEP_TOKENS", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub(super) keep_tokens: bool,

    /// Namespace of these copies; only the operator should be able to read Secrets there. The Pod's own when absent.
    #[arg(long, env = "CSO_KEEP_TOKENS_NAMESPACE", value_parser = namespace, value_name = "NAME")]
    pub(super) keep_tokens_namespace: Option<String>,

    /// File with a log filter in the syntax of RUST_LOG, such as a key of a mounted ConfigMap; read again when it changes. RUST_LOG
    /// applies while the file is missing or empty.
    #[arg(long, env = "CSO_LOG_FILTER_FILE", value_name = "FILE")]
    pub(super) log_filter_file: Option<PathBuf>,

    #[command(flatten)]
    pub(super) elect: ElectArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArgs,
    }

    #[test]
    fn a_namespace_that_cannot_exist_is_refused_with_its_flag() {
        for flag in [
            "--namespace",
            "--keep-tokens-namespace",
            "--leader-elect-resource-namespace",
        ] {
            let error = Line::try_parse_from(["run", flag, "Cloud-System"]).unwrap_err();
            let (error, named) = (
                error.to_string(),
                format!("'Cloud-System' for '{flag} <NAME>'"),
            );
            assert!(error.contains(&named), "{error}");
        }
        let line = Line::try_parse_from(["run", "--namespace", "a, b,"]).unwrap();
        assert_eq!(line.run.namespaces, ["a", "b", ""]);
    }
}
