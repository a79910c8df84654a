//! Which service a command talks to: the one of an Account in the cluster, or one that is named outright.

use crate::api::valid::{self, NoName};
use crate::api::{
    Account, AccountSpec, SecretKeyRef, default_missing_codes, default_utc_offset, names,
};
use crate::cloud::{AllowedEndpoints, Budget, BuildError, Client, Http, Paths, RateLimiter};
use crate::program::connection::{ConnectError, ConnectionArgs};
use crate::runtime::KubeError;
use crate::runtime::chain;
use crate::runtime::kubernetes::call;
use crate::session::{self, Credentials, Destination, Problem, Refusal, SecretProblem, UseProblem};
use clap::Args;
use kube::{Api, ResourceExt};
use secrecy::SecretString;
use std::path::{Path, PathBuf};
use thiserror::Error;
use zeroize::Zeroizing;

/// Where the token comes from when no cluster is asked. A flag would show it to everybody on the machine.
const TOKEN: &str = "CSO_TOKEN";
/// Which service is asked where no flag says it.
const ENDPOINT: &str = "CSO_ENDPOINT";

/// Flags that say which cluster is asked.
#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    /// Namespace of the Account or Instance; that of the kubeconfig's context when absent.
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(super) namespace: Option<String>,

    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// Flags that say which service is asked, and as whom.
#[derive(Debug, Args)]
pub(super) struct ServiceArgs {
    /// The Account in the cluster whose endpoint and token are used; the one called default when absent.
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "endpoint")]
    account: Option<String>,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Ask this service instead of an Account's, without a cluster. The token comes from --token-file or from the environment
    /// variable CSO_TOKEN. The environment variable CSO_ENDPOINT says the same, unless a flag names an Account or a cluster.
    #[arg(long, global = true, value_name = "URL")]
    endpoint: Option<String>,

    /// File with the token for --endpoint; - reads it from standard input.
    #[arg(long, global = true, env = "CSO_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Why no service can be asked. Each says what to do.
#[derive(Debug, Error)]
pub(super) enum ServiceError {
    #[error(transparent)]
    Cluster(ConnectError),
    #[error("{place}: {no_name}: mend it")]
    NoName {
        place: &'static str,
        no_name: NoName,
    },
    #[error(
        "Account {name} does not exist in namespace {namespace}: name another one with --account and -n, or ask a service \
         directly with --endpoint and --token-file"
    )]
    NoAccount { name: String, namespace: String },
    #[error("Account {name} in namespace {namespace} could not be read: {why}")]
    Account {
        name: String,
        namespace: String,
        why: String,
    },
    #[error(
        "Account {name} in namespace {namespace}: {problem}: put the token there, or have yourself allowed to read the Secret"
    )]
    Token {
        name: String,
        namespace: String,
        problem: SecretProblem,
    },
    #[error("Account {name} in namespace {namespace}: {refusal}")]
    Refused {
        name: String,
        namespace: String,
        refusal: Box<Refusal>,
    },
    #[error("Account {name} in namespace {namespace}: {}", .problem.message)]
    Tls {
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
    #[error("{}: mend {place}", chain(.problem))]
    Unusable { place: String, problem: BuildError },
}

/// A cluster that can be asked.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) client: kube::Client,
    /// The one that is meant where none is named.
    pub(super) namespace: String,
    /// Where its apiserver is.
    server: String,
}

impl Cluster {
    /// What went wrong with a question to it, and what to do about it.
    pub(super) fn told(&self, error: &KubeError) -> String {
        let remedy = match error {
            KubeError::Refused { status, .. } if status.code == 401 => {
                "check the credential in the kubeconfig".to_owned()
            }
            KubeError::Refused { status, .. } if status.code == 403 => {
                "have yourself allowed to do that in this cluster".to_owned()
            }
            KubeError::Refused { .. } => "ask again".to_owned(),
            KubeError::Malformed { .. } => "mend that name".to_owned(),
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

/// A service that can be asked.
pub(super) struct Reached {
    pub(super) client: Client,
    /// None where a service was named outright, and no cluster.
    pub(super) cluster: Option<Cluster>,
    /// The Account, where one was used.
    pub(super) account: Option<Account>,
    /// Where the service is.
    pub(super) endpoint: String,
}

impl ClusterArgs {
    /// A client of the cluster, as kubectl makes it.
    pub(super) fn connect(&self) -> Result<Cluster, ServiceError> {
        let (client, server) = self.connection.connect().map_err(ServiceError::Cluster)?;
        let namespace = match &self.namespace {
            Some(namespace) => namespace.clone(),
            None => client.default_namespace().to_owned(),
        };
        let place = match &self.namespace {
            Some(_) => "--namespace",
            None => "the namespace of the kubeconfig's context",
        };
        let checked = valid::namespace(&namespace);
        checked.map_err(|no_name| ServiceError::NoName { place, no_name })?;
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
    /// A client of the service.
    pub(super) async fn connect(&self) -> Result<Client, ServiceError> {
        Ok(self.reach().await?.client)
    }

    /// A client of the service, and the cluster: that of the Account, or beside --endpoint the one that was named.
    pub(super) async fn reach(&self) -> Result<Reached, ServiceError> {
        let Some(endpoint) = self.chosen(std::env::var(ENDPOINT).ok()) else {
            return self.reach_account().await;
        };
        let cluster = if self.cluster.is_given() {
            Some(self.cluster.connect()?)
        } else {
            None
        };
        Ok(Reached {
            client: self.direct(&endpoint)?,
            cluster,
            account: None,
            endpoint,
        })
    }

    /// The Account that is asked for, and the cluster that has it.
    pub(super) async fn account(&self) -> Result<(Cluster, Account), ServiceError> {
        let name = self.account.as_deref().unwrap_or(names::DEFAULT_ACCOUNT);
        valid::object_name(name).map_err(|no_name| ServiceError::NoName {
            place: "--account",
            no_name,
        })?;
        let cluster = self.cluster.connect()?;
        let account = read_account(&cluster, &cluster.namespace, name).await?;
        Ok((cluster, account))
    }

    async fn reach_account(&self) -> Result<Reached, ServiceError> {
        let (cluster, account) = self.account().await?;
        Ok(Reached {
            client: of_account(&cluster, &account).await?,
            endpoint: account.spec.endpoint.clone(),
            cluster: Some(cluster),
            account: Some(account),
        })
    }

    /// The endpoint that is asked without an Account, if any. What stands in the environment counts only where no flag says
    /// where to look: who names an Account must not be shown another service.
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
        let spec = AccountSpec {
            endpoint: endpoint.to_owned(),
            token_secret_ref: SecretKeyRef {
                name: String::new(),
                key: String::new(),
            },
            requests: Default::default(),
            settle_seconds: 0,
            key_login_password: Default::default(),
            password_special_characters: Default::default(),
            utc_offset: default_utc_offset(),
            max_instances: None,
            imports: Default::default(),
            create_rate: None,
            tls: None,
            proxy: None,
            paths: Default::default(),
            missing_codes: default_missing_codes(),
        };
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
        Err(error) => Err(ServiceError::Account {
            name,
            namespace,
            why: cluster.told(&error),
        }),
    }
}

/// The credentials of an Account, if their Secrets consent: whoever runs a command may be allowed to read more Secrets than
/// whoever made the Account.
pub(super) async fn read_credentials_of(
    cluster: &Cluster,
    account: &Account,
) -> Result<Credentials, ServiceError> {
    let (name, namespace) = (
        account.name_any(),
        account
            .namespace()
            .unwrap_or_else(|| cluster.namespace.clone()),
    );
    let reference = &account.spec.token_secret_ref;
    let destination = Destination::of(&account.spec);
    let destination = destination.map_err(|problem| unusable(account, &namespace, problem))?;
    let read = session::read_token(&cluster.client, &namespace, reference, &destination).await;
    let token = match read {
        Ok((token, _)) => token,
        Err(UseProblem::Secret(problem)) => {
            return Err(ServiceError::Token {
                name,
                namespace,
                problem,
            });
        }
        Err(UseProblem::Refused(refusal)) => {
            return Err(ServiceError::Refused {
                name,
                namespace,
                refusal: Box::new(refusal),
            });
        }
    };
    match session::read_tls(&cluster.client, &namespace, &account.spec, &destination).await {
        Ok((tls, _)) => Ok(Credentials { token, tls }),
        Err(problem) => Err(ServiceError::Tls {
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

async fn of_account(cluster: &Cluster, account: &Account) -> Result<Client, ServiceError> {
    let credentials = read_credentials_of(cluster, account).await?;
    client(&account.spec, &credentials)
        .map_err(|problem| unusable(account, &cluster.namespace, problem))
}

/// By the Account's own TLS and proxy. No address is refused: a person asks from his own machine, for what is said there.
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
