//! `import`: the manifest of an Instance that takes over a server which exists, or one for each such server.

mod fleet;
mod guess;

use super::completion::values;
use super::instances::owners;
use super::owners::{Owners, Ownership};
use super::progress::Progress;
use super::servers::{self, Within};
use super::service::{Reached, ServiceArgs};
use super::{asked, chain, unreadable};
use crate::api::names::{DEFAULT_ACCOUNT, GROUP, MANAGER};
use crate::api::{Account, Imports, Instance, Marker, printable, valid};
use crate::cloud::{CallPriority, Detail, ServerId};
use crate::program::print;
use crate::runtime::watch::ObjectKey;
use clap::{Args, ValueEnum};
use kube::ResourceExt;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Candidates that a message names.
const SHOWN: usize = 10;

/// Flags of `import`.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The server: its identifier, or its exact name.
    #[arg(value_name = "SERVER", required_unless_present = "all", add = values::unowned())]
    server: Option<String>,

    /// Every server that no Instance here has.
    #[arg(long, conflicts_with_all = ["server", "name", "password_secret"])]
    all: bool,

    #[command(flatten)]
    service: ServiceArgs,

    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,

    /// Name of the Instance; that of the server when absent, as far as Kubernetes allows it.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Look only in this region, by code or name.
    #[arg(long, value_name = "REGION", add = values::regions())]
    region: Option<String>,

    /// Look only in this zone, by code or name.
    #[arg(long, value_name = "ZONE", add = values::zones())]
    zone: Option<String>,

    /// The server's security group, which the service does not tell; needed where the region has several.
    #[arg(long, value_name = "ID")]
    firewall: Option<String>,

    /// The server's package, which the service does not tell; needed where no package on sale is like the server.
    #[arg(long, value_name = "CODE")]
    package: Option<String>,

    /// The key pair with which one logs in to the server.
    #[arg(long, value_name = "ID", conflicts_with = "password_secret")]
    ssh_key: Option<String>,

    /// The Secret that holds the server's password, and the key in it; <name>-login/password when absent.
    #[arg(long, value_name = "NAME[/KEY]")]
    password_secret: Option<String>,
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
    let reached = args.service.reach().await.map_err(|error| chain(&error))?;
    let owners = owners(&reached, &progress).await;
    let detail = find(args, server, &reached, owners.as_ref(), &progress).await?;
    progress.say(|| "reading packages, security groups and key pairs".to_owned());
    let printed = manifest(args, &reached, owners.as_ref(), &detail).await?;
    for words in &printed.doubts {
        progress.note(&format!("{MANAGER}: {words}"));
    }
    drop(progress);
    match args.output {
        Form::Json => printed.json(),
        Form::Yaml => printed.yaml(),
    }
}

/// The manifest that takes this server over.
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
    is_within(args, reached, owners, detail).await?;
    let name = name(args, reached, owners, detail)?;
    let place = Placed::of(detail)?;
    let (client, mut doubts) = (&reached.client, Vec::new());
    let package = guess::package(args, client, detail, &place, &mut doubts).await?;
    let firewall = guess::firewall(args, client, &place, &mut doubts).await?;
    guess::key(args, client, &mut doubts).await?;
    let account = reached.account.as_ref();
    let manifest = put_together(args, account, detail, &place, &name, &package, firewall);
    // What is printed is an Instance, whatever the service said.
    serde_json::from_value::<Instance>(manifest.clone())
        .map_err(|error| format!("server {} makes no Instance: {error}", detail.id))?;
    doubts.extend(account.and_then(allow));
    Ok(Printed {
        comments: comments(args, detail, &name, &ownership, &doubts),
        manifest,
        doubts,
    })
}

/// What has to be done before the Account lets its Instances import anything.
fn allow(account: &Account) -> Option<String> {
    let (name, namespace) = (account.name_any(), account.namespace().unwrap_or_default());
    (account.spec.imports == Imports::Denied).then(|| {
        format!(
            "Account {name} does not let its Instances import servers: with imports: Allowed in its spec, whoever may create \
             Instances in namespace {namespace} may take over every server of its token that no Instance has. To allow it: \
             kubectl patch accounts.cloudserver.dev {name} -n {namespace} --type=merge -p '{{\"spec\":{{\"imports\":\"Allowed\"}}}}'"
        )
    })
}

/// What stands above the manifest.
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
        "# The service tells neither package nor security group nor login of a server: that those which stand here are the \
         server's own is believed."
            .to_owned(),
    );
    if args.ssh_key.is_none() {
        lines.push(format!(
            "# A password that is put into Secret {} after the import is set on the server.",
            args.password_secret
                .clone()
                .unwrap_or_else(|| format!("{name}-login"))
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

/// The one server that is meant.
async fn find(
    args: &ImportArgs,
    text: &str,
    reached: &Reached,
    owners: Option<&Owners>,
    progress: &Progress,
) -> Result<Detail, String> {
    let client = &reached.client;
    progress.say(|| format!("looking for {text}"));
    let unread = |id: &ServerId, error: crate::cloud::Error| {
        unreadable(client, &format!("detail of server {id}"), error)
    };
    let id = ServerId::from(text);
    match client.detail(CallPriority::Urgent, &id).await {
        Ok(detail) => return Ok(detail),
        // Whoever gives no answer now gives none to the next question either.
        Err(error) if error.is_unauthorized() || error.status().is_none() => {
            return Err(unread(&id, error));
        }
        // What it says to something that is no identifier is not known: the list tells.
        Err(_) => {}
    }
    let within = Within {
        region: args.region.as_deref(),
        zone: args.zone.as_deref(),
    };
    let places = servers::places(client, owners, reached.account.as_ref(), &within).await?;
    let listed = servers::read(client, &places.all, progress).await?;
    let mut found: Vec<_> = listed
        .rows
        .into_iter()
        .filter(|row| row.id.as_str() == text || row.name.as_deref() == Some(text))
        .collect();
    if found.len() > 1 {
        let said = found.iter().take(SHOWN).map(|row| row.id.to_string());
        let said = said.collect::<Vec<_>>().join(", ");
        let more = if found.len() > SHOWN {
            " and others"
        } else {
            ""
        };
        return Err(format!(
            "{} servers are called {text}: {said}{more}: name one of them by its identifier, or look only in one place with \
             --region and --zone",
            found.len()
        ));
    }
    let Some(row) = found.pop() else {
        return Err(format!(
            "the service lists no server {text}: `instances --unowned` shows those that can be imported"
        ));
    };
    let detail = client.detail(CallPriority::Urgent, &row.id).await;
    detail.map_err(|error| unread(&row.id, error))
}

/// Whether the server is where the flags say.
async fn is_within(
    args: &ImportArgs,
    reached: &Reached,
    owners: Option<&Owners>,
    detail: &Detail,
) -> Result<(), String> {
    let within = Within {
        region: args.region.as_deref(),
        zone: args.zone.as_deref(),
    };
    if within.region.is_none() && within.zone.is_none() {
        return Ok(());
    }
    let (client, account) = (&reached.client, reached.account.as_ref());
    let places = servers::places(client, owners, account, &within).await?;
    let (region, zone) = (
        detail.region().unwrap_or_default(),
        detail.zone().unwrap_or_default(),
    );
    match places.fit(region, zone) {
        true => Ok(()),
        false => Err(format!(
            "server {} is in {region}/{zone}, and --region and --zone say otherwise: leave them out, or name another server",
            detail.id
        )),
    }
}

/// The name of the Instance: the one that was asked for, or one made of the server's; no Instance has it yet.
fn name(
    args: &ImportArgs,
    reached: &Reached,
    owners: Option<&Owners>,
    detail: &Detail,
) -> Result<String, String> {
    let name = match &args.name {
        Some(name) => {
            valid::object_name(name).map_err(|no_name| format!("--name: {no_name}: mend it"))?;
            name.clone()
        }
        None => object_name(detail.name().map_or(detail.id.as_str(), unmarked)).ok_or_else(|| {
            format!(
                "the name of server {} makes no name of an object: name the Instance with --name",
                detail.id
            )
        })?,
    };
    let secret = args.password_secret.as_deref().map(secret_and_key);
    if let Some((secret, _)) = secret {
        valid::object_name(secret)
            .map_err(|no_name| format!("--password-secret: {no_name}: mend it"))?;
    }
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
fn secret_and_key(text: &str) -> (&str, &str) {
    text.split_once('/').unwrap_or((text, "password"))
}

/// Where a server is, and what is on it.
struct Placed {
    region: String,
    zone: String,
    image: String,
}

impl Placed {
    fn of(detail: &Detail) -> Result<Self, String> {
        let lacking = |what: &str| {
            format!(
                "the service does not tell the {what} of server {}: write the manifest by hand, as in docs/operations/import.md",
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
        (None, Some(secret)) => {
            let (secret, key) = secret_and_key(secret);
            json!({"passwordSecretRef": {"name": secret, "key": key}})
        }
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
            // As it is found: whatever else stood here could start or stop it.
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

/// A name that Kubernetes takes, from one that the service took.
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
