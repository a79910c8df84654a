//! The connection to the cluster: the apiserver, the user and the proxy, chosen as kubectl chooses them.
//!
//! The client library reads kubeconfigs too, but it fails at a missing file of a list and compares `NO_PROXY` with the proxy
//! instead of the apiserver. So its [`Config`] is made here.

mod error;
mod kubeconfig;
mod proxy;

pub use error::ConnectError;

use clap::Args;
use cloud_server_operator::program::duration;
use cloud_server_operator::runtime::{kubernetes, tls};
use data_encoding::BASE64;
use http::Uri;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig};
use kube::{Client, Config};
use kubeconfig::Files;
use secrecy::{ExposeSecret, SecretString};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The heading of these flags in `--help`.
pub const HEADING: &str = "Connection to the cluster";

/// kubectl's flags for the connection to the cluster, under the same names.
#[derive(Clone, Debug, Default, Args)]
pub struct ConnectionArgs {
    /// The kubeconfig; the files of KUBECONFIG or ~/.kube/config when absent.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; its current one when absent.
    #[arg(long, global = true, help_heading = HEADING, value_name = "NAME")]
    context: Option<String>,

    /// The cluster of the kubeconfig; that of the context when absent.
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true, value_name = "NAME")]
    cluster: Option<String>,

    /// The user of the kubeconfig; that of the context when absent.
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true, value_name = "NAME")]
    user: Option<String>,

    /// Address of the apiserver, in place of the kubeconfig's. Without a scheme, https is used.
    #[arg(
        id = "apiserver",
        short = 's',
        long = "server",
        global = true, help_heading = HEADING,
        hide_short_help = true,
        value_name = "URL"
    )]
    server: Option<String>,

    /// Bearer token for the apiserver, in place of the kubeconfig's credentials.
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true, value_name = "TOKEN")]
    token: Option<SecretString>,

    /// File with the client certificate for the apiserver, in place of the kubeconfig's credentials.
    #[arg(
        long,
        global = true, help_heading = HEADING,
        hide_short_help = true,
        value_name = "FILE",
        requires = "client_key"
    )]
    client_certificate: Option<String>,

    /// File with the private key of --client-certificate.
    #[arg(
        long,
        global = true, help_heading = HEADING,
        hide_short_help = true,
        value_name = "FILE",
        requires = "client_certificate"
    )]
    client_key: Option<String>,

    /// User to impersonate.
    #[arg(
        id = "impersonated",
        long = "as",
        global = true, help_heading = HEADING,
        hide_short_help = true,
        value_name = "NAME"
    )]
    impersonated: Option<String>,

    /// Group to impersonate; may be given several times.
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true, value_name = "NAME")]
    as_group: Vec<String>,

    /// UID to impersonate.
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true, value_name = "UID")]
    as_uid: Option<String>,

    /// File with the authority that signed the apiserver's certificate.
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,

    /// Do not verify the apiserver's certificate: anybody on the way can read and change what is sent.
    #[arg(
        long,
        global = true, help_heading = HEADING,
        hide_short_help = true,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    insecure_skip_tls_verify: Option<bool>,

    /// Name by which the apiserver's certificate is verified; the host of its address when absent.
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// How long one request to the apiserver may take: 30s, 2m, or a number of seconds; at most a year, also for 0; 15s when absent.
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true, value_parser = timeout, value_name = "DURATION")]
    request_timeout: Option<Duration>,
}

/// The longest timeout, for kubectl's 0, which sets no limit. The client library adds it to the present time, which overflows at
/// [`Duration::MAX`].
const LONGEST_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// A number alone is one of seconds, as with kubectl.
fn timeout(text: &str) -> Result<Duration, String> {
    let given = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => duration(text)?,
    };
    Ok(match given {
        Duration::ZERO => LONGEST_TIMEOUT,
        given => given.min(LONGEST_TIMEOUT),
    })
}

impl ConnectionArgs {
    /// A client of the cluster, and the address of its apiserver. An exec plugin of the kubeconfig runs here.
    pub fn connect(&self) -> Result<(Client, String), ConnectError> {
        let config = self.config()?;
        let server = config.cluster_url.to_string();
        if let Some(timeout) = self.request_timeout {
            kubernetes::set_deadline(timeout);
        }
        let client =
            kubernetes::client(config).map_err(|source| ConnectError::Client { source })?;
        Ok((client, server.trim_end_matches('/').to_owned()))
    }

    /// The kubeconfig, merged from its files.
    pub fn read(&self) -> Result<Kubeconfig, ConnectError> {
        Ok(Files::read(self.kubeconfig.as_deref())?.merged)
    }

    /// Whether a flag names a cluster, or a user of one.
    pub fn is_given(&self) -> bool {
        let flags = self.without_empty();
        flags.kubeconfig.is_some()
            || flags.names_part()
            || flags.token.is_some()
            || flags.client_certificate.is_some()
            || flags.impersonated.is_some()
    }

    /// The same flags. One with an empty value counts as absent, as with kubectl.
    fn without_empty(&self) -> Self {
        let mut flags = self.clone();
        for flag in [
            &mut flags.context,
            &mut flags.cluster,
            &mut flags.user,
            &mut flags.server,
            &mut flags.client_certificate,
            &mut flags.client_key,
            &mut flags.impersonated,
            &mut flags.as_uid,
            &mut flags.tls_server_name,
        ] {
            flag.take_if(|value| value.is_empty());
        }
        let token = &mut flags.token;
        token.take_if(|token| token.expose_secret().is_empty());
        flags
    }

    fn names_part(&self) -> bool {
        let parts = [&self.context, &self.cluster, &self.user, &self.server];
        parts.iter().any(|part| part.is_some())
    }

    fn config(&self) -> Result<Config, ConnectError> {
        self.without_empty().merged()
    }

    /// The configuration that the kubeconfig or the Pod and the flags make.
    fn merged(&self) -> Result<Config, ConnectError> {
        let files = Files::read(self.kubeconfig.as_deref())?;
        let mut config = if files.is_empty() && !self.names_part() {
            if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
                let missing = files.missing();
                return Err(ConnectError::NoCluster { missing });
            }
            Config::incluster().map_err(|source| ConnectError::InCluster { source })?
        } else {
            self.chosen(&files)?
        };
        self.amend(&mut config)?;
        Ok(config)
    }

    /// The cluster and the user of the kubeconfig that flags or the context choose.
    fn chosen(&self, files: &Files) -> Result<Config, ConnectError> {
        let undefined = |what, name: &str| ConnectError::Undefined {
            what,
            name: name.to_owned(),
            missing: files.missing(),
        };
        let kubeconfig = &files.merged;
        let context = match self
            .context
            .as_ref()
            .or(kubeconfig.current_context.as_ref())
        {
            Some(name) => {
                let mut all = kubeconfig.contexts.iter();
                let named = all.find(|context| context.name == *name);
                let context = named.and_then(|named| named.context.clone());
                context.ok_or_else(|| undefined("context", name))?
            }
            None if self.cluster.is_some() || self.server.is_some() => Context::default(),
            None => {
                let missing = files.missing();
                return Err(ConnectError::NoContext { missing });
            }
        };
        let name = self.cluster.as_ref().unwrap_or(&context.cluster);
        let mut all = kubeconfig.clusters.iter();
        let named = all.find(|cluster| cluster.name == *name);
        let cluster = match named.and_then(|named| named.cluster.clone()) {
            Some(cluster) => cluster,
            None if self.cluster.is_none() && self.server.is_some() => Cluster::default(),
            None => return Err(undefined("cluster", name)),
        };
        let name = self.user.as_ref().or(context.user.as_ref());
        let mut all = kubeconfig.auth_infos.iter();
        let named = name.and_then(|name| all.find(|user| user.name == *name));
        let user = named.and_then(|named| named.auth_info.clone());
        if let (Some(name), None) = (&self.user, &user) {
            return Err(undefined("user", name));
        }
        let mut config = self.reaching(&cluster, user.unwrap_or_default())?;
        let namespace = context.namespace.filter(|name| !name.is_empty());
        config.default_namespace = namespace.unwrap_or_else(|| "default".to_owned());
        Ok(config)
    }

    fn reaching(&self, cluster: &Cluster, mut user: AuthInfo) -> Result<Config, ConnectError> {
        let (what, server) = match &self.server {
            Some(server) => ("--server", Some(server)),
            None => ("the server of the kubeconfig", cluster.server.as_ref()),
        };
        let server = server.and_then(|server| address(server));
        let mut config = Config::new(server.ok_or(ConnectError::NoServer { what })?);
        config.root_cert = authorities(
            cluster.certificate_authority_data.as_deref(),
            cluster.certificate_authority.as_deref().map(Path::new),
        )?;
        config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
        config.disable_compression = cluster.disable_compression.unwrap_or(false);
        // The name belongs to the kubeconfig's address, not to another one.
        let name = cluster.tls_server_name.clone();
        config.tls_server_name = name.filter(|_| self.server.is_none());
        let environment = |name: &str| std::env::var(name).ok();
        let of_cluster = cluster.proxy_url.as_deref();
        config.proxy_url = proxy::between(&config.cluster_url, of_cluster, environment)?;
        if let Some(exec) = user.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
            let info = cluster.try_into();
            exec.cluster = Some(info.map_err(|source| ConnectError::Kubeconfig { source })?);
        }
        config.auth_info = user;
        Ok(config)
    }

    /// Applies the flags that replace values of the kubeconfig or the Pod.
    fn amend(&self, config: &mut Config) -> Result<(), ConnectError> {
        if self.insecure_skip_tls_verify == Some(true) && self.certificate_authority.is_some() {
            return Err(ConnectError::VerifiedAndNot);
        }
        let user = &mut config.auth_info;
        if self.token.is_some() || self.client_certificate.is_some() {
            *user = AuthInfo {
                token: self.token.clone(),
                client_certificate: self.client_certificate.clone(),
                client_key: self.client_key.clone(),
                impersonate: user.impersonate.take(),
                impersonate_uid: user.impersonate_uid.take(),
                impersonate_groups: user.impersonate_groups.take(),
                impersonate_user_extra: user.impersonate_user_extra.take(),
                ..AuthInfo::default()
            };
        }
        let given = |flag: &Option<String>, field: &mut Option<String>| {
            if flag.is_some() {
                field.clone_from(flag);
            }
        };
        given(&self.impersonated, &mut user.impersonate);
        given(&self.as_uid, &mut user.impersonate_uid);
        given(&self.tls_server_name, &mut config.tls_server_name);
        if !self.as_group.is_empty() {
            user.impersonate_groups = Some(self.as_group.clone());
        }
        if let Some(file) = &self.certificate_authority {
            config.root_cert = authorities(None, Some(file))?;
            config.root_cert_file = None;
            config.accept_invalid_certs = false;
        }
        if let Some(skip) = self.insecure_skip_tls_verify {
            config.accept_invalid_certs = skip;
        }
        Ok(())
    }
}

/// The address of an apiserver; https where it names no scheme.
fn address(text: &str) -> Option<Uri> {
    let text = match text.contains("://") {
        true => text.to_owned(),
        false => format!("https://{text}"),
    };
    text.parse().ok().filter(|uri: &Uri| uri.host().is_some())
}

/// The authorities that a kubeconfig has as data, or else in a file.
fn authorities(
    data: Option<&str>,
    file: Option<&Path>,
) -> Result<Option<Vec<Vec<u8>>>, ConnectError> {
    let data = data.filter(|data| !data.is_empty());
    let file = file.filter(|file| !file.as_os_str().is_empty());
    let pem = match (data, file) {
        (Some(data), _) => {
            let data: Vec<u8> = data
                .bytes()
                .filter(|byte| !byte.is_ascii_whitespace())
                .collect();
            BASE64
                .decode(&data)
                .map_err(|_| ConnectError::NoAuthority)?
        }
        (None, Some(file)) => std::fs::read(file).map_err(|source| ConnectError::Unread {
            file: file.display().to_string(),
            source,
        })?,
        (None, None) => return Ok(None),
    };
    match tls::certificates(&String::from_utf8_lossy(&pem)) {
        Ok(all) if !all.is_empty() => Ok(Some(all.iter().map(|der| der.to_vec()).collect())),
        _ => Err(ConnectError::NoAuthority),
    }
}

#[cfg(test)]
mod tests;
