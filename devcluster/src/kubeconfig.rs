//! Access to a cluster: the text of a kubeconfig, and a client.

use data_encoding::BASE64;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

const FIRST_LINE: &str = "# Made by devcluster, for a cluster that ends with its owner.";

/// The URL of a server, and the authority of its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) ca_pem: String,
}

impl Server {
    pub(crate) fn on_loopback(port: u16, ca_pem: &str) -> Self {
        Self {
            url: format!("https://127.0.0.1:{port}"),
            ca_pem: ca_pem.to_owned(),
        }
    }
}

/// A client that trusts only this server's authority, does not retry, and uses no proxy for loopback.
pub(crate) async fn client(
    server: &Server,
    token: &str,
) -> Result<kube::Client, Box<dyn std::error::Error + Send + Sync>> {
    // This fails if the process has already installed a provider, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::from_yaml(&text(server, token))?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.proxy_url = None;
    Ok(kube::Client::try_from(config)?)
}

/// Whether [`text`] made this text, which may therefore be overwritten without loss.
pub(crate) fn is_ours(text: &str) -> bool {
    text.is_empty() || text.starts_with(FIRST_LINE)
}

/// A self-contained kubeconfig with one context: it references no other file.
pub(crate) fn text(server: &Server, token: &str) -> String {
    let ca = BASE64.encode(server.ca_pem.as_bytes());
    let url = &server.url;
    format!(
        "\
{FIRST_LINE}
apiVersion: v1
kind: Config
clusters:
  - name: devcluster
    cluster:
      server: {url}
      certificate-authority-data: {ca}
users:
  - name: devcluster
    user:
      token: \"{token}\"
contexts:
  - name: devcluster
    context:
      cluster: devcluster
      user: devcluster
current-context: devcluster
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kubeconfig_of_ours_is_overwritten() {
        let server = Server::on_loopback(1, "certificate");
        assert!(is_ours(&text(&server, "token")));
        assert!(!is_ours("apiVersion: v1\nkind: Config\n"));
    }
}
