//! The connection to the cluster: the apiserver, the user and the proxy, chosen as kubectl chooses them.
//!
//! The client library reads kubeconfigs too, but it fails at a missing file of `KUBECONFIG`, rejects usual values of `NO_PROXY`,
//! and compares them with the proxy instead of the apiserver. Therefore this module makes the [`Config`].

mod proxy;

use clap::Args;
use cloud_server_operator::program::duration;
use cloud_server_operator::runtime::{chain, kubernetes, tls};
use data_encoding::BASE64_MIME;
use http::Uri;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use secrecy::SecretString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

/// The heading of these flags in `--help`.
pub const HEADING: &str = "Connection to the cluster";

/// kubectl's flags for the connection to the cluster, under the same names. [`shared`] makes them global.
#[derive(Clone, Debug, Default, Args)]
pub struct ConnectionArgs {
    /// The kubeconfig; the files of KUBECONFIG or ~/.kube/config when absent.
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; its current one when absent.
    #[arg(long, help_heading = HEADING, value_name = "NAME")]
    context: Option<String>,

    /// The cluster of the kubeconfig; that of the context when absent.
    #[arg(long, help_heading = HEADING, value_name = "NAME")]
    cluster: Option<String>,

    /// The user of the kubeconfig; that of the context when absent.
    #[arg(long, help_heading = HEADING, value_name = "NAME")]
    user: Option<String>,

    /// Address of the apiserver, in place of the kubeconfig's. Without a scheme, https is used.
    #[arg(id = "apiserver", short = 's', long = "server", help_heading = HEADING, value_name = "URL")]
    server: Option<String>,

    /// Bearer token for the apiserver, in place of the kubeconfig's credentials.
    #[arg(long, help_heading = HEADING, value_name = "TOKEN")]
    token: Option<SecretString>,

    /// File with the client certificate for the apiserver, in place of the kubeconfig's credentials.
    #[arg(long, help_heading = HEADING, value_name = "FILE", requires = "client_key")]
    client_certificate: Option<String>,

    /// File with the private key of --client-certificate.
    #[arg(long, help_heading = HEADING, value_name = "FILE", requires = "client_certificate")]
    client_key: Option<String>,

    /// User to impersonate.
    #[arg(id = "impersonated", long = "as", help_heading = HEADING, value_name = "NAME")]
    impersonated: Option<String>,

    /// Group to impersonate; may be given several times.
    #[arg(long, help_heading = HEADING, value_name = "NAME")]
    as_group: Vec<String>,

    /// UID to impersonate.
    #[arg(long, help_heading = HEADING, value_name = "UID")]
    as_uid: Option<String>,

    /// File with the authority that signed the apiserver's certificate.
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    certificate_authority: Option<String>,

    /// Do not verify the apiserver's certificate: every machine on the way can read and change the requests.
    #[arg(
        long,
        help_heading = HEADING,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        conflicts_with = "certificate_authority"
    )]
    insecure_skip_tls_verify: Option<bool>,

    /// Name by which the apiserver's certificate is verified; the host of its address when absent.
    #[arg(long, help_heading = HEADING, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// How long one request to the apiserver may take: 30s, 2m, or a number of seconds; at most a year, also for 0; 15s when absent.
    #[arg(long, help_heading = HEADING, value_parser = timeout, value_name = "DURATION")]
    request_timeout: Option<Duration>,
}

/// The command, with these flags in all its subcommands. Short help shows the two that most users need.
pub fn shared(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        if arg.get_help_heading() != Some(HEADING) {
            return arg;
        }
        let is_usual = matches!(arg.get_id().as_str(), "kubeconfig" | "context");
        arg.global(true).hide_short_help(!is_usual)
    });
    command.mut_subcommands(shared)
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
    ///
    /// # Errors
    /// Why there is no connection, with the remedy.
    pub fn connect(&self) -> Result<(Client, String), String> {
        let config = self.config()?;
        let server = config.cluster_url.to_string();
        if let Some(timeout) = self.request_timeout {
            kubernetes::set_deadline(timeout);
        }
        let client = kubernetes::client(config).map_err(|error| {
            let why = chain(&error);
            format!("the cluster's configuration is not usable: {why}")
        })?;
        Ok((client, server.trim_end_matches('/').to_owned()))
    }

    /// The kubeconfig, merged from its files, and a part of a message that names the skipped ones. A missing file of `KUBECONFIG`
    /// is skipped, and so is an unreadable `~/.kube/config`: the home directory of a container may be anything.
    pub fn read(&self) -> Result<(Kubeconfig, String), String> {
        if let Some(file) = &self.kubeconfig {
            return merged(std::slice::from_ref(file), |_| false);
        }
        let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
        let listed = std::env::split_paths(&listed);
        let files: Vec<PathBuf> = listed.filter(|file| !file.as_os_str().is_empty()).collect();
        if files.is_empty() {
            let default = std::env::home_dir().map(|home| home.join(".kube/config"));
            return merged(default.as_slice(), |_| true);
        }
        merged(&files, |kind| kind == ErrorKind::NotFound)
    }

    /// Whether a flag names a cluster, its certificate authority, or a user of it.
    pub fn is_given(&self) -> bool {
        self.kubeconfig.is_some()
            || self.needs_kubeconfig()
            || self.token.is_some()
            || self.client_certificate.is_some()
            || self.impersonated.is_some()
    }

    /// Whether a flag chooses or replaces a part of the kubeconfig, so that the configuration of a Pod does not count.
    fn needs_kubeconfig(&self) -> bool {
        let parts = [&self.context, &self.cluster, &self.user, &self.server];
        parts.iter().any(|part| part.is_some()) || self.certificate_authority.is_some()
    }

    /// The configuration of the kubeconfig, or else of the Pod, with the changes that flags request.
    fn config(&self) -> Result<Config, String> {
        let (kubeconfig, missing) = self.read()?;
        let is_empty = kubeconfig.current_context.is_none() && kubeconfig.contexts.is_empty();
        let mut config = if is_empty && !self.needs_kubeconfig() {
            Config::incluster().map_err(|error| {
                let why = chain(&error);
                format!("no kubeconfig names a cluster{missing}, and this is no Pod with a ServiceAccount: set KUBECONFIG: {why}")
            })?
        } else {
            self.of_kubeconfig(&kubeconfig, &missing)?
        };
        self.amend(&mut config);
        Ok(config)
    }

    /// The configuration for the cluster and the user that flags, or else the context, choose in the kubeconfig.
    fn of_kubeconfig(&self, kubeconfig: &Kubeconfig, missing: &str) -> Result<Config, String> {
        let undefined = |what, name: &str| {
            format!(
                "no kubeconfig has the {what} {name:?}{missing}: check --{what}, --kubeconfig and KUBECONFIG"
            )
        };
        let name = self.context.as_ref();
        let context = match name.or(kubeconfig.current_context.as_ref()) {
            Some(name) => {
                let found = kubeconfig.contexts.iter().find(|one| one.name == *name);
                let context = found.and_then(|found| found.context.clone());
                context.ok_or_else(|| undefined("context", name))?
            }
            None if self.cluster.is_some() || self.server.is_some() => Context::default(),
            None => {
                return Err(format!(
                    "the kubeconfig has no current context{missing}: choose one with --context, or another kubeconfig"
                ));
            }
        };
        let name = self.cluster.as_ref().unwrap_or(&context.cluster);
        let found = kubeconfig.clusters.iter().find(|one| one.name == *name);
        let mut cluster = match found.and_then(|found| found.cluster.clone()) {
            Some(cluster) => cluster,
            None if self.cluster.is_none() && self.server.is_some() => Cluster::default(),
            None => return Err(undefined("cluster", name)),
        };
        let name = self.user.as_ref().or(context.user.as_ref());
        let mut users = kubeconfig.auth_infos.iter();
        let found = name.and_then(|name| users.find(|one| one.name == *name));
        let user = found.and_then(|found| found.auth_info.clone());
        if let (Some(name), None) = (&self.user, &user) {
            return Err(undefined("user", name));
        }
        if let Some(server) = &self.server {
            cluster.server = Some(server.clone());
            // The kubeconfig's tls-server-name is the name of the server that the flag replaces.
            cluster.tls_server_name = None;
        }
        if let Some(file) = &self.certificate_authority {
            cluster.certificate_authority = Some(file.clone());
            cluster.certificate_authority_data = None;
            cluster.insecure_skip_tls_verify = None;
        }
        let mut config = reaching(cluster, user.unwrap_or_default())?;
        let namespace = context.namespace.filter(|name| !name.is_empty());
        config.default_namespace = namespace.unwrap_or_else(|| "default".to_owned());
        Ok(config)
    }

    /// Applies the flags that replace values of the kubeconfig or the Pod.
    fn amend(&self, config: &mut Config) {
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
        if let Some(skip) = self.insecure_skip_tls_verify {
            config.accept_invalid_certs = skip;
        }
    }
}

/// The merged files: the first one that sets a value wins. An empty name of the current context sets nothing.
fn merged(
    files: &[PathBuf],
    is_skipped: impl Fn(ErrorKind) -> bool,
) -> Result<(Kubeconfig, String), String> {
    let (mut merged, mut skipped) = (Kubeconfig::default(), Vec::new());
    for file in files {
        match Kubeconfig::read_from(file) {
            Ok(mut read) => {
                read.current_context.take_if(|name| name.is_empty());
                merged = merged.merge(read).map_err(|error| unusable(&error))?;
            }
            Err(KubeconfigError::ReadConfig(error, _)) if is_skipped(error.kind()) => {
                skipped.push(format!("{}: {error}", file.display()));
            }
            Err(error) => return Err(unusable(&error)),
        }
    }
    let missing = match skipped.is_empty() {
        true => String::new(),
        false => format!(" ({})", skipped.join("; ")),
    };
    Ok((merged, missing))
}

fn unusable(error: &KubeconfigError) -> String {
    let why = chain(error);
    format!("the kubeconfig is not usable: check --kubeconfig and KUBECONFIG: {why}")
}

/// The configuration for this cluster and this user.
fn reaching(cluster: Cluster, mut user: AuthInfo) -> Result<Config, String> {
    let server = cluster.server.as_deref().and_then(address);
    let server =
        server.ok_or("the apiserver's address is no URL: fix --server or the kubeconfig")?;
    let mut config = Config::new(server);
    config.root_cert = authorities(&cluster)?;
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
    config.disable_compression = cluster.disable_compression.unwrap_or(false);
    let environment = |name: &str| std::env::var(name).ok();
    let of_cluster = cluster.proxy_url.as_deref();
    config.proxy_url = proxy::proxy_to(&config.cluster_url, of_cluster, environment)?;
    if let Some(exec) = user.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
        let info = (&cluster).try_into();
        exec.cluster = Some(info.map_err(|error| unusable(&error))?);
    }
    config.tls_server_name = cluster.tls_server_name;
    config.auth_info = user;
    Ok(config)
}

/// The address of an apiserver; https where it names no scheme.
fn address(text: &str) -> Option<Uri> {
    let text = match text.contains("://") {
        true => text.to_owned(),
        false => format!("https://{text}"),
    };
    text.parse().ok().filter(|uri: &Uri| uri.host().is_some())
}

const NO_AUTHORITY: &str = "the certificate authority of the apiserver holds no certificate in PEM: fix the kubeconfig or \
     --certificate-authority";

/// The certificate authorities of a cluster: those given as data, or else those in a file.
fn authorities(cluster: &Cluster) -> Result<Option<Vec<Vec<u8>>>, String> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let data = given(&cluster.certificate_authority_data);
    let pem = match (data, given(&cluster.certificate_authority)) {
        (Some(data), _) => {
            let decoded = BASE64_MIME.decode(data.trim().as_bytes());
            decoded.map_err(|_| NO_AUTHORITY)?
        }
        (None, Some(file)) => {
            std::fs::read(&file).map_err(|error| format!("{file} could not be read: {error}"))?
        }
        (None, None) => return Ok(None),
    };
    match tls::certificates(&String::from_utf8_lossy(&pem)) {
        Ok(all) if !all.is_empty() => Ok(Some(all.iter().map(|der| der.to_vec()).collect())),
        _ => Err(NO_AUTHORITY.to_owned()),
    }
}

#[cfg(test)]
mod tests;
