//! The service that a command calls: the service of an Account in the cluster, or the one that a flag names.

use crate::connection::ConnectionArgs;
use crate::parsers;
use clap::Args;
use cloud_server_operator::api::conditions::Reason;
use cloud_server_operator::api::{Account, AccountSpec, names};
use cloud_server_operator::cloud::{
    AllowedEndpoints, Budget, BuildError, Client, Http, Paths, RateLimiter, Tls,
};
use cloud_server_operator::runtime::kubernetes::call;
use cloud_server_operator::runtime::watch::ObjectKey;
use cloud_server_operator::runtime::{KubeError, chain};
use cloud_server_operator::session::{
    self, Destination, Problem, SecretProblem, ServiceCredentials, UseProblem,
};
use kube::Api;
use secrecy::SecretString;
use serde_json::json;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The environment variable with the token for --endpoint, if --token-file names no file. A flag would show the token to every user
/// of the machine.
const TOKEN: &str = "CSO_TOKEN";
/// The environment variable that names the service if no flag names a service, an Account, a namespace or a cluster.
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
    /// variable CSO_TOKEN. The variable CSO_ENDPOINT has the same effect, unless a flag names an Account, a namespace or a cluster.
    #[arg(long, global = true, value_name = "URL")]
    endpoint: Option<String>,

    /// File with the token for --endpoint; - reads it from standard input.
    #[arg(long, global = true, env = "CSO_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
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
    pub(super) fn explain(&self, error: &KubeError) -> String {
        let remedy = match error {
            KubeError::Refused { status, .. } if status.code == 401 => {
                "check the credential in the kubeconfig"
            }
            KubeError::Refused { status, .. } if status.code == 403 => {
                "have yourself allowed to do that in this cluster"
            }
            KubeError::Refused { .. } => "check that it exists, or try again",
            KubeError::Malformed { .. } => "fix that name",
            KubeError::Timeout { .. }
            | KubeError::NotActive { .. }
            | KubeError::Transport { .. } => {
                let server = &self.server;
                return format!(
                    "{}: check whether {server} is the right apiserver (--kubeconfig, --context), and the network",
                    chain(error)
                );
            }
        };
        format!("{}: {remedy}", chain(error))
    }

    /// The Account, if it exists.
    pub(super) async fn account(&self, key: &ObjectKey) -> Result<Option<Account>, Problem> {
        let api: Api<Account> = Api::namespaced(self.client.clone(), &key.namespace);
        let read = call("read the Account", api.get_opt(&key.name)).await;
        read.map_err(|error| {
            let why = format!("it could not be read: {}", self.explain(&error));
            of_account(key, Reason::ServiceUnreachable, &why)
        })
    }

    /// The credentials of an Account, if their Secrets consent: the user of the command may be allowed to read more Secrets than the
    /// author of the Account.
    pub(super) async fn credentials(
        &self,
        account: &Account,
    ) -> Result<ServiceCredentials, Problem> {
        let (key, spec) = (ObjectKey::of(account), &account.spec);
        let destination = Destination::of(spec).map_err(|error| unusable(&key, &error))?;
        let reference = &spec.token_secret_ref;
        let read = session::read_token(&self.client, &key.namespace, reference, &destination).await;
        let (token, _) = read.map_err(|problem| no_token(&key, &problem))?;
        let read = session::read_tls(&self.client, &key.namespace, spec, &destination).await;
        let (tls, _) =
            read.map_err(|problem| of_account(&key, problem.reason, &problem.message))?;
        Ok(ServiceCredentials { token, tls })
    }
}

/// A problem of an Account, with its name in the message.
fn of_account(key: &ObjectKey, reason: Reason, why: &str) -> Problem {
    let message = format!("Account {} in namespace {}: {why}", key.name, key.namespace);
    Problem { reason, message }
}

/// The problem of an Account from which no client can be made.
pub(super) fn unusable(key: &ObjectKey, error: &BuildError) -> Problem {
    let why = format!("{}: fix it, or its token", chain(error));
    of_account(key, Reason::EndpointInvalid, &why)
}

fn no_token(key: &ObjectKey, problem: &UseProblem) -> Problem {
    let problem = match problem {
        UseProblem::Secret(problem) => problem,
        UseProblem::Refused(refusal) => {
            return of_account(key, refusal.reason(), &refusal.to_string());
        }
    };
    let reason = match problem {
        SecretProblem::Unread { .. } => Reason::SecretReadFailed,
        SecretProblem::NotText { .. } => Reason::TokenInvalid,
        _ => Reason::TokenNotFound,
    };
    let remedy = "put the token there, or have yourself allowed to read the Secret";
    of_account(key, reason, &format!("{problem}: {remedy}"))
}

/// A service that can be called.
pub(super) struct Reached {
    pub(super) client: Client,
    /// None if the service comes from --endpoint or the environment, and no flag names a cluster.
    pub(super) cluster: Option<Cluster>,
    /// The Account, if one was used.
    pub(super) account: Option<Account>,
}

impl ClusterArgs {
    /// A client of the cluster, as kubectl makes it.
    pub(super) fn connect(&self) -> Result<Cluster, String> {
        let (client, server) = self.connection.connect()?;
        let namespace = match &self.namespace {
            Some(namespace) => namespace.clone(),
            None => parsers::namespace(client.default_namespace()).map_err(|why| {
                format!("the namespace of the kubeconfig's context: {why}: fix it")
            })?,
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
    /// A client of the service, and the cluster: the Account's, or without an Account the one that flags name, if any.
    pub(super) async fn reach(&self) -> Result<Reached, String> {
        if let Some(endpoint) = self.chosen(std::env::var(ENDPOINT).ok()) {
            let cluster = self.cluster.is_given().then(|| self.cluster.connect());
            return Ok(Reached {
                client: self.direct(&endpoint)?,
                cluster: cluster.transpose()?,
                account: None,
            });
        }
        let (cluster, account) = self.account().await?;
        let credentials = cluster.credentials(&account).await;
        let credentials = credentials.map_err(|problem| problem.message)?;
        let client = client(&account.spec, &credentials);
        Ok(Reached {
            client: client.map_err(|error| unusable(&ObjectKey::of(&account), &error).message)?,
            cluster: Some(cluster),
            account: Some(account),
        })
    }

    /// The Account that the flags choose, and its cluster.
    pub(super) async fn account(&self) -> Result<(Cluster, Account), String> {
        let name = self.account.as_deref().unwrap_or(names::DEFAULT_ACCOUNT);
        let cluster = self.cluster.connect()?;
        let key = ObjectKey::new(&cluster.namespace, name);
        match cluster.account(&key).await {
            Ok(Some(account)) => Ok((cluster, account)),
            Ok(None) => Err(format!(
                "Account {name} does not exist in namespace {}: name another one with --account and -n, or call a service \
                 directly with --endpoint and --token-file",
                cluster.namespace
            )),
            Err(problem) => Err(problem.message),
        }
    }

    /// The endpoint that is called without an Account, if any. The environment counts only if no flag names an Account or a
    /// cluster: a user who names one must not see another service.
    fn chosen(&self, environment: Option<String>) -> Option<String> {
        let names_cluster = self.account.is_some() || self.cluster.is_given();
        let environment = environment.filter(|endpoint| !endpoint.is_empty() && !names_cluster);
        self.endpoint.clone().or(environment)
    }

    fn direct(&self, endpoint: &str) -> Result<Client, String> {
        let token = match &self.token_file {
            Some(file) => read_token(file).map_err(|error| {
                format!("--token-file {} could not be read: {error}", file.display())
            })?,
            None => std::env::var(TOKEN)
                .map(|token| SecretString::from(token.trim()))
                .map_err(|_| {
                    format!("--endpoint (or {ENDPOINT}) needs a token: name a file with --token-file, or set {TOKEN}")
                })?,
        };
        let spec = json!({"endpoint": endpoint, "tokenSecretRef": {"name": "", "key": ""}});
        let spec: AccountSpec = serde_json::from_value(spec)
            .map_err(|error| format!("--endpoint cannot be used: {error}"))?;
        let tls = Tls::default();
        client(&spec, &ServiceCredentials { token, tls }).map_err(|error| {
            format!(
                "{}: fix --endpoint (or {ENDPOINT}) or the token",
                chain(&error)
            )
        })
    }
}

/// A client with the Account's own TLS and proxy. It may connect to every address: users run it on their own machines, on their
/// own behalf.
fn client(spec: &AccountSpec, credentials: &ServiceCredentials) -> Result<Client, BuildError> {
    let paths = Paths::resolve(&spec.paths)?;
    let limiter = RateLimiter::new(session::limits(spec));
    let http = Http::new(AllowedEndpoints::default())?.with_budget(Budget::of_a_command());
    let http = http.with_route(session::route(spec, &credentials.tls));
    let token = credentials.token.clone();
    let client = Client::new(http, &spec.endpoint, token, paths, limiter)?;
    let client = client.with_missing_codes(spec.missing_codes.clone());
    Ok(client.with_whole_rows())
}

fn read_token(file: &Path) -> std::io::Result<SecretString> {
    let text = match file == Path::new("-") {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
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
