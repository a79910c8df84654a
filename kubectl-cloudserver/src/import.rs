//! `import`: the manifest of an Instance that imports an existing server, or one for each such server.

mod fleet;
mod guess;

use super::completion::values;
use super::instances::owners;
use super::owners::{Owners, Ownership};
use super::progress::Progress;
use super::servers::{self, Within};
use super::service::{Reached, ServiceArgs};
use super::{PROGRAM, asked, unreadable};
use crate::output::print;
use crate::parsers;
use clap::{Args, ValueEnum};
use cloud_server_operator::api::names::{DEFAULT_ACCOUNT, GROUP};
use cloud_server_operator::api::valid::NoName;
use cloud_server_operator::api::{Account, Imports, Instance, Marker, SecretKeyRef, printable};
use cloud_server_operator::catalog::Candidates;
use cloud_server_operator::cloud::{CallPriority, Client, Detail, ServerId};
use cloud_server_operator::runtime::watch::ObjectKey;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Flags of `import`.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The server: its identifier, or its exact name.
    #[arg(value_name = "SERVER", required_unless_present = "all", add = values::unowned())]
    server: Option<String>,

    /// Every server that no Instance in the cluster owns.
    #[arg(long, conflicts_with_all = ["server", "name", "password_secret"])]
    all: bool,

    #[command(flatten)]
    service: ServiceArgs,

    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,

    /// Name of the Instance; a name made from the server's when absent.
    #[arg(long, value_parser = parsers::object_name, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    within: Within,

    /// The server's security group, which the service does not report; needed if the region has several.
    #[arg(long, value_name = "ID")]
    firewall: Option<String>,

    /// The server's package, which the service does not report; needed if no package on sale matches the server.
    #[arg(long, value_name = "CODE")]
    package: Option<String>,

    /// The key pair for logging in to the server.
    #[arg(long, value_name = "ID", conflicts_with = "password_secret")]
    ssh_key: Option<String>,

    /// The Secret that holds the server's password, and the key in it; <name>-login/password when absent.
    #[arg(long, value_parser = secret_and_key, value_name = "NAME[/KEY]")]
    password_secret: Option<SecretKeyRef>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// With comments, for kubectl apply.
    #[default]
    Yaml,
    /// For programs, and for kubectl apply.
    Json,
}

/// One manifest, with the comments above it.
struct Printed {
    manifest: Value,
    comments: String,
    /// Unverified facts, and steps to take before applying.
    doubts: Vec<String>,
}

impl Printed {
    fn yaml(&self) -> Result<String, String> {
        let text = serde_saphyr::to_string(&self.manifest).map_err(|error| error.to_string())?;
        Ok(format!("{}{text}", self.comments))
    }

    fn json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(&self.manifest).map_err(|error| error.to_string())
    }
}

/// Prints the manifest, or those of all servers.
pub(super) fn import(args: &ImportArgs) -> ExitCode {
    match &args.server {
        Some(server) => asked(single(args, server), |text| print(&text)),
        None => fleet::import(args),
    }
}

async fn single(args: &ImportArgs, server: &str) -> Result<String, String> {
    let progress = Progress::begin("asking the cluster");
    let reached = args.service.reach().await?;
    let owners = owners(&reached, &progress).await;
    let detail = find(args, server, &reached, owners.as_ref(), &progress).await?;
    progress.say(|| "reading packages, security groups and key pairs".to_owned());
    let printed = manifest(args, &reached, owners.as_ref(), &detail).await?;
    for words in &printed.doubts {
        progress.note(&format!("{PROGRAM}: {words}"));
    }
    drop(progress);
    match args.output {
        Form::Json => printed.json(),
        Form::Yaml => printed.yaml(),
    }
}

/// The manifest that imports this server.
async fn manifest(
    args: &ImportArgs,
    reached: &Reached,
    owners: Option<&Owners>,
    detail: &Detail,
) -> Result<Printed, String> {
    let ownership = owners.map_or(Ownership::Unknown, |owners| {
        owners.of(&detail.id, detail.name())
    });
    if let Ownership::Owned(owner) = &ownership {
        return Err(format!(
            "server {} belongs to Instance {}/{}: name another server, or delete that Instance with spec.deletionPolicy: Retain \
             first, which keeps the server",
            detail.id, owner.namespace, owner.name
        ));
    }
    let name = name(args, reached, owners, detail)?;
    let place = Placed::of(detail)?;
    let (client, mut doubts) = (&reached.client, Vec::new());
    let package = guess::package(args, client, detail, &place, &mut doubts).await?;
    let firewall = guess::firewall(args, client, &place, &mut doubts).await?;
    guess::key(args, client, &mut doubts).await?;
    let account = reached.account.as_ref();
    let manifest = put_together(args, account, detail, &place, &name, &package, firewall);
    // Print only a valid Instance, regardless of the service's answer.
    serde_json::from_value::<Instance>(manifest.clone())
        .map_err(|error| format!("server {} makes no Instance: {error}", detail.id))?;
    doubts.extend(account.and_then(allow));
    Ok(Printed {
        comments: comments(args, detail, &name, &ownership, &doubts),
        manifest,
        doubts,
    })
}

/// The step that is needed if the Account does not allow imports.
fn allow(account: &Account) -> Option<String> {
    let (name, namespace) = (account.name_any(), account.namespace().unwrap_or_default());
    (account.spec.imports == Imports::Denied).then(|| {
        format!(
            "Account {name} does not let its Instances import servers: with imports: Allowed in its spec, every user \
             who may create Instances in namespace {namespace} may import every server of its token that no Instance has. To allow it: \
             kubectl patch accounts.cloudserver.dev {name} -n {namespace} --type=merge -p '{{\"spec\":{{\"imports\":\"Allowed\"}}}}'"
        )
    })
}

/// The comments above the manifest.
fn comments(
    args: &ImportArgs,
    detail: &Detail,
    name: &str,
    ownership: &Ownership,
    doubts: &[String],
) -> String {
    let mut lines = vec![format!(
        "# Takes over server {} ({}); nothing is bought, installed or restarted by it.",
        detail.id,
        printable(detail.name().unwrap_or("without a name"))
    )];
    lines.push(
        "# Deleting the Instance releases the server, unless spec.deletionPolicy is Retain."
            .to_owned(),
    );
    lines.push(
        "# The service reports neither package nor security group nor login of a server: check that these values are the \
         server's own."
            .to_owned(),
    );
    if args.ssh_key.is_none() {
        let named = args.password_secret.as_ref();
        let secret = named.map_or_else(|| format!("{name}-login"), |secret| secret.name.clone());
        lines.push(format!(
            "# A password that is put into Secret {secret} after the import is set on the server."
        ));
    }
    match ownership {
        Ownership::Unknown => lines.push("# Whether an Instance has this server already is not known.".to_owned()),
        Ownership::Marked => lines.push(
            "# Its name bears the marker of an Instance that is not here: be sure that no other cluster has it.".to_owned(),
        ),
        Ownership::Owned(_) | Ownership::Unowned => {}
    }
    lines.extend(doubts.iter().map(|words| format!("# {}", printable(words))));
    lines.join("\n") + "\n"
}

/// The server that the text names.
async fn find(
    args: &ImportArgs,
    text: &str,
    reached: &Reached,
    owners: Option<&Owners>,
    progress: &Progress,
) -> Result<Detail, String> {
    let (client, account) = (&reached.client, reached.account.as_ref());
    progress.say(|| format!("looking for {text}"));
    let places = servers::places(client, owners, account, &args.within).await?;
    // The answer to a text that is no identifier is not specified: then the list decides.
    let id = ServerId::from(text);
    if let Ok(detail) = client.detail(CallPriority::Urgent, &id).await {
        let [region, zone] = [detail.region(), detail.zone()].map(Option::unwrap_or_default);
        return match places.fit(region, zone) {
            true => Ok(detail),
            false => Err(format!(
                "server {text} is in {region}/{zone}, outside of --region and --zone: leave them out, or name another server"
            )),
        };
    }
    let mut found = servers::read(client, &places.all, progress).await?;
    found.retain(|row| row.id.as_str() == text || row.name.as_deref() == Some(text));
    match found.as_slice() {
        [] => Err(format!(
            "the service lists no server {text}: `instances --unowned` shows those that can be imported"
        )),
        [row] => detail(client, &row.id).await,
        several => Err(format!(
            "{} servers are called {text}: {}: name one of them by its identifier, or look only in one place with --region and --zone",
            several.len(),
            Candidates::of(several.iter().map(|row| (row.id.to_string(), None)))
        )),
    }
}

/// Everything that the service reports of a server.
async fn detail(client: &Client, id: &ServerId) -> Result<Detail, String> {
    let read = client.detail(CallPriority::Urgent, id).await;
    read.map_err(|error| unreadable(client, &format!("detail of server {id}"), error))
}

/// The name of the Instance: the requested one, or one made from the server's. No Instance has it yet.
fn name(
    args: &ImportArgs,
    reached: &Reached,
    owners: Option<&Owners>,
    detail: &Detail,
) -> Result<String, String> {
    let name = match &args.name {
        Some(name) => name.clone(),
        None => object_name(detail.name().map_or(detail.id.as_str(), unmarked)).ok_or_else(|| {
            format!(
                "the name of server {} makes no name of an object: name the Instance with --name",
                detail.id
            )
        })?,
    };
    let account = reached.account.as_ref().and_then(ResourceExt::namespace);
    let cluster = reached.cluster.as_ref();
    let namespace = account.or_else(|| cluster.map(|cluster| cluster.namespace.clone()));
    let key = namespace.map(|namespace| ObjectKey::new(&namespace, &name));
    match key.filter(|key| owners.is_some_and(|owners| owners.find(key).is_some())) {
        Some(key) => Err(format!(
            "Instance {}/{name} exists already, and applying the manifest would change it: name another one with \
             --name",
            key.namespace
        )),
        None => Ok(name),
    }
}

/// A Secret, and the key in it.
fn secret_and_key(text: &str) -> Result<SecretKeyRef, NoName> {
    let (name, key) = text.split_once('/').unwrap_or((text, "password"));
    let (name, key) = (parsers::object_name(name)?, key.to_owned());
    Ok(SecretKeyRef { name, key })
}

/// The place of a server, and its image.
struct Placed {
    region: String,
    zone: String,
    image: String,
}

impl Placed {
    fn of(detail: &Detail) -> Result<Self, String> {
        let lacking = |what: &str| {
            format!(
                "the service does not report the {what} of server {}: write the manifest by hand, as in docs/operations/import.md",
                detail.id
            )
        };
        Ok(Self {
            region: detail.region().ok_or_else(|| lacking("region"))?.to_owned(),
            zone: detail.zone().ok_or_else(|| lacking("zone"))?.to_owned(),
            image: detail.image().ok_or_else(|| lacking("image"))?.to_string(),
        })
    }
}

/// The manifest.
fn put_together(
    args: &ImportArgs,
    account: Option<&Account>,
    detail: &Detail,
    place: &Placed,
    name: &str,
    package: &str,
    firewall: Option<String>,
) -> Value {
    let login = match (&args.ssh_key, &args.password_secret) {
        (Some(key), _) => json!({"sshKey": {"id": key}}),
        (None, Some(secret)) => json!({"passwordSecretRef": secret}),
        (None, None) => {
            json!({"passwordSecretRef": {"name": format!("{name}-login"), "key": "password"}})
        }
    };
    let mut manifest = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "Instance",
        "metadata": {"name": name},
        "spec": {
            "import": {"id": detail.id},
            "region": place.region,
            "zone": place.zone,
            "package": {"code": package},
            "image": {"id": place.image},
            "login": login,
            // Any other value could start or stop the server.
            "powerState": "Unmanaged",
        },
    });
    if let Some(firewall) = firewall {
        manifest["spec"]["firewall"] = json!({"id": firewall});
    }
    if let Some(account) = account {
        manifest["metadata"]["namespace"] = json!(account.namespace());
        if account.name_any() != DEFAULT_ACCOUNT {
            manifest["spec"]["accountRef"] = json!({"name": account.name_any()});
        }
    }
    manifest
}

/// The name without the marker of the Instance for which the server was bought.
fn unmarked(name: &str) -> &str {
    let marker = Marker::in_name(name).map(|marker| format!("-{marker}"));
    marker
        .and_then(|marker| name.strip_suffix(&marker))
        .unwrap_or(name)
}

/// A valid object name, made from a server's name.
fn object_name(server: &str) -> Option<String> {
    let kept = server.chars().map(|c| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '-',
    });
    let name: String = kept.take(63).collect();
    let name = name.trim_matches('-');
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_service_becomes_one_of_an_object() {
        assert_eq!(object_name("Web_Server-1").as_deref(), Some("web-server-1"));
        assert_eq!(object_name("-x-").as_deref(), Some("x"));
        assert_eq!(object_name("___"), None);
    }
}
