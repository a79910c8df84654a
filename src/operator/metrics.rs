//! Flags that give metrics a port of their own.

use crate::runtime::access::MetricsAuthorizer;
use crate::runtime::health::MetricsPort;
use crate::runtime::serve::Certificate;
use clap::Args;
use kube::Client;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Flags of `run` for reading metrics.
#[derive(Debug, Args)]
pub(super) struct MetricsArgs {
    /// Separate address for /metrics; without it, /metrics is served next to the probes, without TLS and to every client.
    #[arg(long, env = "CSO_METRICS_LISTEN", value_name = "ADDR")]
    metrics_listen: Option<SocketAddr>,

    /// File with the certificate by which /metrics does TLS, in PEM; read again when it changes.
    #[arg(
        long,
        env = "CSO_METRICS_TLS_CERT",
        value_name = "FILE",
        requires = "metrics_listen",
        requires = "metrics_tls_key"
    )]
    metrics_tls_cert: Option<PathBuf>,

    /// File with its private key, in PEM; read again when it changes.
    #[arg(
        long,
        env = "CSO_METRICS_TLS_KEY",
        value_name = "FILE",
        requires = "metrics_tls_cert"
    )]
    metrics_tls_key: Option<PathBuf>,

    /// Serve /metrics to those alone whose bearer token the apiserver knows (TokenReview) and whom it lets get the nonResourceURL
    /// /metrics (SubjectAccessReview). Needs TLS, since the token would be read on the way.
    #[arg(long, env = "CSO_METRICS_AUTH", requires = "metrics_tls_cert")]
    metrics_auth: bool,
}

impl MetricsArgs {
    /// The separate port for metrics, if one is requested.
    pub(super) fn port(&self, client: &Client) -> Result<Option<MetricsPort>, String> {
        let Some(listen) = self.metrics_listen else {
            return Ok(None);
        };
        let certificate = match (&self.metrics_tls_cert, &self.metrics_tls_key) {
            (Some(certificate), Some(key)) => {
                let read = Certificate::new(certificate.clone(), key.clone());
                Some(read.map_err(|why| {
                    format!("--metrics-tls-cert and --metrics-tls-key cannot be used: {why}")
                })?)
            }
            _ => None,
        };
        Ok(Some(MetricsPort {
            listen,
            certificate,
            authorizer: self
                .metrics_auth
                .then(|| MetricsAuthorizer::new(client.clone())),
        }))
    }
}
