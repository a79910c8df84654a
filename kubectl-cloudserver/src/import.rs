//! `import`: the manifest of an Instance that imports an existing server. With `--all`, one manifest for each server that is not
//! known to belong to an Instance in the cluster, for example to import the servers of another cluster.

mod guess;

use super::completion::values;
use super::offers;
use super::owners::{Ownership, named};
use super::progress::Progress;
use super::servers::{self, Servers, Within};
use super::service::ServiceArgs;
use super::{PROGRAM, run_and_print};
use crate::output::finish;
use crate::parsers;
use clap::{Args, ValueEnum};
use cloud_server_operator::api::names::{DEFAULT_ACCOUNT, GROUP};
use cloud_server_operator::api::valid::InvalidName;
use cloud_server_operator::api::{Account, Imports, Instance, Marker, SecretKeyRef, printable};
use cloud_server_operator::catalog::Candidates;
use cloud_server_operator::cloud::{CallPriority, Detail, List, Place, ServerId};
use cloud_server_operator::runtime::watch::ObjectKey;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::collections::BTreeSet;
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

    /// Name of the Instance. Default: made from the server's name.
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

    /// The Secret that holds the server's password, and the key in it. Default: <name>-login/password.
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

/// One manifest.
struct Manifest {
    name: String,
    value: Value,
    comments: String,
    /// Unverified facts, and steps to take before applying.
    doubts: Vec<String>,
}

/// Prints the manifests. Fails if a server had to be left out.
pub(super) fn import(args: &ImportArgs) -> ExitCode {
    run_and_print(manifests(args), |(text, status)| finish(&text, status))
}

/// The manifests as one text, and the exit status.
async fn manifests(args: &ImportArgs) -> Result<(String, u8), String> {
    let progress = &Progress::begin("asking the cluster");
    let all_servers = &Servers::reach(&args.service, &args.within, progress).await?;
    let servers = match &args.server {
        Some(text) => vec![find(text, all_servers).await?],
        None => {
            let mut rows = all_servers.read().await?;
            rows.retain(|row| {
                let owner = all_servers.owner(&row.id, row.name.as_deref());
                !matches!(owner, Ownership::Owned(_))
            });
            rows.into_iter().map(|row| ServerId::from(row.id)).collect()
        }
    };
    if servers.is_empty() {
        progress.note("nothing to import: each server in the zones read has an Instance");
    }
    let (mut all, mut names, mut doubts) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for (number, id) in servers.iter().enumerate() {
        progress.show(|| format!("reading servers: {} of {}", number + 1, servers.len()));
        match manifest(args, all_servers, id).await {
            Ok(made) if names.insert(made.name.clone()) => {
                doubts.extend(made.doubts.iter().cloned());
                all.push(made);
            }
            Ok(made) => progress.note(&format!(
                "{PROGRAM}: server {id} is left out: another server has the Instance name {} too: import this one separately, with --name",
                made.name
            )),
            Err(why) if args.all => {
                progress.note(&format!("{PROGRAM}: server {id} is left out: {why}"));
            }
            Err(why) => return Err(why),
        }
    }
    for doubt in &doubts {
        progress.note(&format!("{PROGRAM}: {doubt}"));
    }
    progress.clear();
    let status = u8::from(all.len() != servers.len());
    let text = text(args, &all).map_err(|error| error.to_string())?;
    Ok((text, status))
}

/// The manifests as one text; no text at all for an empty list.
fn text(args: &ImportArgs, all: &[Manifest]) -> Result<String, Box<dyn std::error::Error>> {
    let values: Vec<&Value> = all.iter().map(|one| &one.value).collect();
    Ok(match (args.output, values.as_slice()) {
        (_, []) => String::new(),
        (Form::Json, [one]) if !args.all => serde_json::to_string_pretty(one)?,
        (Form::Json, items) => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
            serde_json::to_string_pretty(&list)?
        }
        (Form::Yaml, _) => {
            let mut texts = Vec::new();
            for one in all {
                texts.push(one.comments.clone() + &serde_saphyr::to_string(&one.value)?);
            }
            texts.join("---\n")
        }
    })
}

/// The manifest that imports this server.
async fn manifest(
    args: &ImportArgs,
    servers: &Servers<'_>,
    id: &ServerId,
) -> Result<Manifest, String> {
    let (client, mut doubts) = (&servers.reached.client, Vec::new());
    let detail = servers::detail(client, id).await?;
    let ownership = servers.owner(id.as_str(), detail.name());
    if let Ownership::Owned(owner) = &ownership {
        return Err(format!(
            "server {id} belongs to Instance {}: name another server, or set deletionPolicy: Retain in that Instance, save its \
             generated password, if any, and delete that Instance",
            named(owner)
        ));
    }
    let name = name(args, servers, &detail)?;
    let (Some(region), Some(zone), Some(image)) = (detail.region(), detail.zone(), detail.image())
    else {
        return Err(format!(
            "the service does not report region, zone and image of server {id}: write the manifest by hand, as in \
             docs/operations/import.md"
        ));
    };
    let place = Place::new(region, zone);
    let (region, zone) = (place.region.clone(), Some(place.zone.clone()));
    let listed = offers::read(client, &List::Packages { region, zone }).await?;
    let package = args.package.as_deref();
    let package = guess::package(&listed, package, &detail, &place, &mut doubts)?;
    let region = place.region.clone();
    let listed = offers::read(client, &List::Firewalls { region }).await?;
    let firewall = args.firewall.as_deref();
    let firewall = guess::firewall(&listed, firewall, &place.region, &mut doubts)?;
    let login = match &args.ssh_key {
        Some(key) => {
            let listed = offers::read(client, &List::Keys).await?;
            guess::check("--ssh-key", "key pair", key, &listed, &mut doubts)?;
            json!({"sshKey": {"id": key}})
        }
        None => json!({"passwordSecretRef": password_secret(args, &name)}),
    };
    let mut value = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "Instance",
        "metadata": {"name": name},
        "spec": {
            "import": {"id": id},
            "region": place.region,
            "zone": place.zone,
            "package": {"code": package},
            "image": {"id": image.to_string()},
            "login": login,
            // Any other value could start or stop the server.
            "powerState": "Unmanaged",
        },
    });
    if let Some(firewall) = firewall {
        value["spec"]["firewall"] = json!({"id": firewall});
    }
    if let Some(account) = &servers.reached.account {
        value["metadata"]["namespace"] = json!(account.namespace());
        if account.name_any() != DEFAULT_ACCOUNT {
            value["spec"]["accountRef"] = json!({"name": account.name_any()});
        }
        doubts.extend(imports_denied_advice(account));
    }
    // Print only a valid Instance, regardless of the service's answer.
    serde_json::from_value::<Instance>(value.clone())
        .map_err(|error| format!("no valid Instance can be made from server {id}: {error}"))?;
    Ok(Manifest {
        comments: comments(args, &detail, &name, &ownership, &doubts),
        name,
        value,
        doubts,
    })
}

/// The advice for an Account that denies imports: how to allow them.
fn imports_denied_advice(account: &Account) -> Option<String> {
    let (name, namespace) = (account.name_any(), account.namespace().unwrap_or_default());
    (account.spec.imports == Imports::Denied).then(|| {
        format!(
            "Account {name} does not let its Instances import servers: with imports: Allowed in its spec, every user \
             who may create Instances in namespace {namespace} may import every server of its token that no Instance here has. To allow it: \
             kubectl patch accounts.cloudserver.dev {name} -n {namespace} --type=merge -p '{{\"spec\":{{\"imports\":\"Allowed\"}}}}'"
        )
    })
}

/// The Secret that holds the server's password: the one that a flag names, or one named after the Instance.
fn password_secret(args: &ImportArgs, name: &str) -> SecretKeyRef {
    let named = args.password_secret.clone();
    named.unwrap_or_else(|| SecretKeyRef {
        name: format!("{name}-login"),
        key: "password".to_owned(),
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
    let mut lines = vec![
        format!(
            "Takes over server {} ({}). The import buys, installs and restarts nothing.",
            detail.id,
            detail.name().unwrap_or("without a name")
        ),
        "Deleting the Instance releases the server, unless spec.deletionPolicy is Retain.".to_owned(),
        "The service reports neither package nor security group nor login of a server: check that these values are the server's own."
            .to_owned(),
    ];
    if args.ssh_key.is_none() {
        let secret = password_secret(args, name).name;
        lines.push(format!(
            "If you put a password into Secret {secret} after the import, the operator sets it on the server."
        ));
    }
    match ownership {
        Ownership::Unknown => lines.push("It is unknown whether an Instance owns this server already.".to_owned()),
        Ownership::Marked => lines.push(
            "Its name may bear the marker of an Instance that is not listed: check that no other cluster has it.".to_owned(),
        ),
        Ownership::Owned(_) | Ownership::Unowned => {}
    }
    let lines = lines.iter().chain(doubts);
    lines
        .map(|line| format!("# {}\n", printable(line)))
        .collect()
}

/// The server with this identifier or name.
async fn find(text: &str, servers: &Servers<'_>) -> Result<ServerId, String> {
    let client = &servers.reached.client;
    servers.progress.show(|| format!("searching {text}"));
    // The specification does not define the answer to a text that is no identifier, so after any error the list decides.
    let id = ServerId::from(text);
    if let Ok(detail) = client.detail(CallPriority::Urgent, &id).await {
        let [region, zone] = [detail.region(), detail.zone()].map(Option::unwrap_or_default);
        return match servers.places.includes(region, zone) {
            true => Ok(id),
            false => Err(format!(
                "server {text} is in {region}/{zone}, outside of --region and --zone: leave them out, or name another server"
            )),
        };
    }
    let mut found = servers.read().await?;
    found.retain(|row| row.id == text || row.name.as_deref() == Some(text));
    match found.as_slice() {
        [] => Err(format!(
            "no server {text} is in the zones that were read: `instances --unowned` shows those that can be imported"
        )),
        [row] => Ok(ServerId::from(row.id.as_str())),
        several => Err(format!(
            "{} servers are called {text}: {}: name one of them by its identifier, or search one zone with --region and --zone",
            several.len(),
            Candidates::of(several.iter().map(|row| (row.id.clone(), None)))
        )),
    }
}

/// The name of the Instance: the requested one, or one made from the server's. Fails if a readable Instance of this service
/// already has the name.
fn name(args: &ImportArgs, servers: &Servers<'_>, detail: &Detail) -> Result<String, String> {
    let of_server = || to_object_name(detail.name().map_or(detail.id.as_str(), unmarked));
    let name = args.name.clone().or_else(of_server).ok_or_else(|| {
        format!(
            "the name of server {} cannot become an object name: import it alone, with --name",
            detail.id
        )
    })?;
    let cluster = servers.reached.cluster.as_ref();
    let key = cluster.map(|cluster| ObjectKey::new(&cluster.namespace, &name));
    let owners = servers.owners.as_ref();
    match key.filter(|key| owners.is_some_and(|owners| owners.find(key).is_some())) {
        Some(key) => Err(format!(
            "Instance {}/{name} exists already, and applying the manifest would change it: import the server alone, with --name",
            key.namespace
        )),
        None => Ok(name),
    }
}

/// A Secret, and the key in it.
fn secret_and_key(text: &str) -> Result<SecretKeyRef, InvalidName> {
    let (name, key) = text.split_once('/').unwrap_or((text, "password"));
    let (name, key) = (parsers::object_name(name)?, key.to_owned());
    Ok(SecretKeyRef { name, key })
}

/// The name without the marker of the Instance for which the server was bought.
fn unmarked(name: &str) -> &str {
    let marker = Marker::in_name(name).map(|marker| format!("-{marker}"));
    marker
        .and_then(|marker| name.strip_suffix(&marker))
        .unwrap_or(name)
}

/// A valid object name, made from a server's name.
fn to_object_name(server: &str) -> Option<String> {
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
        assert_eq!(
            to_object_name("Web_Server-1").as_deref(),
            Some("web-server-1")
        );
        assert_eq!(to_object_name("-x-").as_deref(), Some("x"));
        assert_eq!(to_object_name("___"), None);
    }
}
