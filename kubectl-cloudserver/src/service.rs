//! The service that a command calls: the service of an Account in the cluster, or the one that a flag names.

use crate::connection::{ConnectError, ConnectionArgs};
use crate::parsers;
use clap::Args;
use cloud_server_operator::api::conditions::Reason;
use cloud_server_operator::api::valid::NoName;
use cloud_server_operator::api::{Account, AccountSpec, names};
use cloud_server_operator::cloud::{
    AllowedEndpoints, Budget, BuildError, Client, Http, Paths, RateLimiter,
};
use cloud_server_operator::runtime::kubernetes::call;
use cloud_server_operator::runtime::{KubeError, chain};
use cloud_server_operator::session::{
    self, Credentials, Destination, Problem, SecretProblem, UseProblem,
};
use kube::{Api, ResourceExt};
use secrecy::SecretString;
use serde_json::json;
use std::path::{Path, PathBuf};
use thiserror::Error;
use zeroize::Zeroizing;

/// The source of the token if no cluster is read. A flag would show the token to every user of the machine.
const TOKEN: &str = "CSO_TOKEN";
/// The service that is called if no flag names one.
const ENDPOINT: &str = "CSO_ENDPOINT";

/// Flags that choose the cluster.
#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    /// Namespace of the Account or Instance; that of the kubeconfig's context when absent.
    #[arg(short, long, global = true, value_parser = parsers::namespace, value_name = "NAME")]
    pub(super) namespace: Option<String>,

    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// Flags that choose the service and its credentials.
#[derive(Debug, Args)]
pub(super) struct ServiceArgs {
    /// The Account in the cluster whose endpoint and token are used; the one called default when absent.
    #[arg(long, global = true, value_parser = parsers::object_name, value_name = "NAME", conflicts_with = "endpoint")]
    account: Option<String>,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Call this service instead of an Account's, without a cluster. The token comes from --token-file or from the environment
    /// variable CSO_TOKEN. The environment variable CSO_ENDPOINT has the same effect, unless a flag names an Account or a cluster.
    #[arg(long, global = true, value_name = "URL")]
    endpoint: Option<String>,

    /// File with the token for --endpoint; - reads it from standard input.
    #[arg(long, global = true, env = "CSO_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Why no service can be called. Each message names the remedy.
#[derive(Debug, Error)]
pub(super) enum ServiceError {
    #[error(transparent)]
    Cluster(ConnectError),
    #[error("the namespace of the kubeconfig's context: {0}: fix it")]
    NoName(NoName),
    #[error(
        "Account {name} does not exist in namespace {namespace}: name another one with --account and -n, or ask a service \
         directly with --endpoint and --token-file"
    )]
    NoAccount { name: String, namespace: String },
    /// The Account, or a Secret that it names, cannot be used.
    #[error("Account {name} in namespace {namespace}: {}", .problem.message)]
    Account {
        name: String,
        namespace: String,
        problem: Problem,
    },
    #[error("--token-file {file} could not be read")]
    TokenFile {
        file: String,
        source: std::io::Error,
    },
    #[error(
        "--endpoint (or {ENDPOINT}) needs a token: name a file with --token-file, or set {TOKEN}"
    )]
    NoToken,
    #[error("--endpoint cannot be used")]
    Endpoint { source: serde_json::Error },
    #[error("{}: fix {place}", chain(.problem))]
    Unusable { place: String, problem: BuildError },
}

impl ServiceError {
    /// The problem that the operator would report for the Account.
    pub(super) fn problem(&self) -> Problem {
        let reason = match self {
            Self::Account { problem, .. } => problem.reason,
            Self::Unusable { .. } => Reason::EndpointInvalid,
            _ => Reason::TokenNotFound,
        };
        let message = chain(self);
        Problem { reason, message }
    }
}

impl From<ServiceError> for String {
    fn from(error: ServiceError) -> Self {
        chain(&error)
    }
}

/// A connected cluster.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) client: kube::Client,
    /// The namespace of objects for which no flag names one.
    pub(super) namespace: String,
    /// The address of its apiserver.
    server: String,
}

impl Cluster {
    /// The message for a failed request: the cause and the remedy.
    pub(super) fn told(&self, error: &KubeError) -> String {
        let remedy = match error {
            KubeError::Refused { status, .. } if status.code == 401 => {
                "check the credential in the kubeconfig".to_owned()
            }
            KubeError::Refused { status, .. } if status.code == 403 => {
                "have yourself allowed to do that in this cluster".to_owned()
            }
            KubeError::Refused { .. } => "ask again".to_owned(),
            KubeError::Malformed { .. } => "fix that name".to_owned(),
            KubeError::Timeout { .. }
            | KubeError::NotActive { .. }
            | KubeError::Unwritable { .. }
            | KubeError::Transport { .. } => format!(
                "check whether {} is the apiserver that is meant (--kubeconfig, --context), and the network",
                self.server
            ),
        };
        format!("{}: {remedy}", chain(error))
    }
}

/// A service that can be called.
pub(super) struct Reached {
    pub(super) client: Client,
    /// None if flags name a service and no cluster.
    pub(super) cluster: Option<Cluster>,
    /// The Account, if one was used.
    pub(super) account: Option<Account>,
    /// The address of the service.
    pub(super) endpoint: String,
}

impl ClusterArgs {
    /// A client of the cluster, as kubectl makes it.
    pub(super) fn connect(&self) -> Result<Cluster, ServiceError> {
        let (client, server) = self.connection.connect().map_err(ServiceError::Cluster)?;
        let namespace = match &self.namespace {
            Some(namespace) => namespace.clone(),
            None => {
                let of_context = client.default_namespace();
                parsers::namespace(of_context).map_err(ServiceError::NoName)?
            }
        };
        Ok(Cluster {
            client,
            namespace,
            server,
        })
    }

    fn is_given(&self) -> bool {
        self.connection.is_given() || self.namespace.is_some()
    }
}

impl ServiceArgs {
    /// A client of the service, and the cluster: the Account's, or with --endpoint the one that flags name.
    pub(super) async fn reach(&self) -> Result<Reached, ServiceError> {
        let Some(endpoint) = self.chosen(std::env::var(ENDPOINT).ok()) else {
            return self.reach_account().await;
        };
        let cluster = self.cluster.is_given().then(|| self.cluster.connect());
        Ok(Reached {
            client: self.direct(&endpoint)?,
            cluster: cluster.transpose()?,
            account: None,
            endpoint,
        })
    }

    /// The Account, and its cluster.
    pub(super) async fn account(&self) -> Result<(Cluster, Account), ServiceError> {
        let name = self.account.as_deref().unwrap_or(names::DEFAULT_ACCOUNT);
        let cluster = self.cluster.connect()?;
        let account = read_account(&cluster, &cluster.namespace, name).await?;
        Ok((cluster, account))
    }

    async fn reach_account(&self) -> Result<Reached, ServiceError> {
        let (cluster, account) = self.account().await?;
        Ok(Reached {
            client: account_client(&cluster, &account).await?,
            endpoint: account.spec.endpoint.clone(),
            cluster: Some(cluster),
            account: Some(account),
        })
    }

    /// The endpoint that is called without an Account, if any. The environment counts only if no flag names an Account or a
    /// cluster: a user who names one must not see another service.
    fn chosen(&self, environment: Option<String>) -> Option<String> {
        let names_cluster = self.account.is_some() || self.cluster.is_given();
        let environment = environment.filter(|endpoint| !endpoint.is_empty() && !names_cluster);
        self.endpoint.clone().or(environment)
    }

    fn direct(&self, endpoint: &str) -> Result<Client, ServiceError> {
        let token = match &self.token_file {
            Some(file) => read_token(file).map_err(|source| ServiceError::TokenFile {
                file: file.display().to_string(),
                source,
            })?,
            None => std::env::var(TOKEN)
                .map(|token| SecretString::from(token.trim()))
                .map_err(|_| ServiceError::NoToken)?,
        };
        let spec = json!({"endpoint": endpoint, "tokenSecretRef": {"name": "", "key": ""}});
        let spec: AccountSpec =
            serde_json::from_value(spec).map_err(|source| ServiceError::Endpoint { source })?;
        client(&spec, &token.into()).map_err(|problem| ServiceError::Unusable {
            place: format!("--endpoint (or {ENDPOINT}) or the token"),
            problem,
        })
    }
}

/// An Account of the cluster.
pub(super) async fn read_account(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> Result<Account, ServiceError> {
    let api: Api<Account> = Api::namespaced(cluster.client.clone(), namespace);
    let (name, namespace) = (name.to_owned(), namespace.to_owned());
    match call("read the Account", api.get(&name)).await {
        Ok(account) => Ok(account),
        Err(error) if error.is_not_found() => Err(ServiceError::NoAccount { name, namespace }),
        Err(error) => {
            let message = format!("it could not be read: {}", cluster.told(&error));
            let reason = Reason::ServiceUnreachable;
            Err(of_account(name, namespace, reason, message))
        }
    }
}

fn of_account(name: String, namespace: String, reason: Reason, message: String) -> ServiceError {
    ServiceError::Account {
        name,
        namespace,
        problem: Problem { reason, message },
    }
}

/// The credentials of an Account, if their Secrets consent: the user of the command may be allowed to read more Secrets than the
/// author of the Account.
pub(super) async fn read_credentials_of(
    cluster: &Cluster,
    account: &Account,
) -> Result<Credentials, ServiceError> {
    let (name, namespace) = (account.name_any(), account.namespace());
    let namespace = namespace.unwrap_or_else(|| cluster.namespace.clone());
    let reference = &account.spec.token_secret_ref;
    let destination = Destination::of(&account.spec);
    let destination = destination.map_err(|problem| unusable(account, &namespace, problem))?;
    let read = session::read_token(&cluster.client, &namespace, reference, &destination).await;
    let token = match read {
        Ok((token, _)) => token,
        Err(UseProblem::Secret(problem)) => {
            let reason = match problem {
                SecretProblem::Unread { .. } => Reason::SecretReadFailed,
                SecretProblem::NotText { .. } => Reason::TokenInvalid,
                _ => Reason::TokenNotFound,
            };
            let message = format!(
                "{problem}: put the token there, or have yourself allowed to read the Secret"
            );
            return Err(of_account(name, namespace, reason, message));
        }
        Err(UseProblem::Refused(refusal)) => {
            let message = refusal.to_string();
            return Err(of_account(name, namespace, refusal.reason(), message));
        }
    };
    match session::read_tls(&cluster.client, &namespace, &account.spec, &destination).await {
        Ok((tls, _)) => Ok(Credentials { token, tls }),
        Err(problem) => Err(ServiceError::Account {
            name,
            namespace,
            problem,
        }),
    }
}

fn unusable(account: &Account, namespace: &str, problem: BuildError) -> ServiceError {
    let name = account.name_any();
    ServiceError::Unusable {
        place: format!("Account {name} in namespace {namespace}, or its token"),
        problem,
    }
}

async fn account_client(cluster: &Cluster, account: &Account) -> Result<Client, ServiceError> {
    let credentials = read_credentials_of(cluster, account).await?;
    client(&account.spec, &credentials)
        .map_err(|problem| unusable(account, &cluster.namespace, problem))
}

/// A client with the Account's own TLS and proxy. It may connect to every address: users run it on their own machines, on their
/// own behalf.
fn client(spec: &AccountSpec, credentials: &Credentials) -> Result<Client, BuildError> {
    let paths = Paths::resolve(&spec.paths)?;
    let limiter = RateLimiter::new(session::limits(spec));
    let http = Http::new(AllowedEndpoints::default())?.with_budget(Budget::of_a_command());
    let http = http.by(session::route(spec, &credentials.tls));
    let token = credentials.token.clone();
    let client = Client::new(http, &spec.endpoint, token, paths, limiter)?;
    let client = client.with_missing_codes(spec.missing_codes.clone());
    Ok(client.with_whole_rows())
}

fn read_token(file: &Path) -> std::io::Result<SecretString> {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = Zeroizing::new(text?);
    Ok(SecretString::from(text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        service: ServiceArgs,
    }

    fn chosen(flags: &[&str], environment: Option<&str>) -> Option<String> {
        let line = Line::try_parse_from([&["x"][..], flags].concat()).unwrap();
        line.service.chosen(environment.map(ToOwned::to_owned))
    }

    #[test]
    fn a_flag_beats_the_environment() {
        let set = Some("http://from-environment");
        assert_eq!(chosen(&[], set).as_deref(), set);
        assert_eq!(chosen(&[], Some("")), None);
        assert_eq!(chosen(&[], None), None);
        let flag = chosen(&["--endpoint", "http://flag"], set);
        assert_eq!(flag.as_deref(), Some("http://flag"));
        for flags in [
            ["--account", "other"],
            ["-n", "team-a"],
            ["--context", "prod"],
            ["--kubeconfig", "file"],
        ] {
            assert_eq!(chosen(&flags, set), None, "{flags:?}");
        }
    }

    #[test]
    fn an_account_and_an_endpoint_contradict_each_other() {
        let both = ["x", "--account", "a", "--endpoint", "http://flag"];
        let why = Line::try_parse_from(both).unwrap_err().to_string();
        assert!(
            why.contains("--account") && why.contains("--endpoint"),
            "{why}"
        );
    }
}
