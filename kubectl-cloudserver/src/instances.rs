//! `instances`: the servers of an account, and the owner of each.

use super::output::{Always, Column, Output, Wide, note, print, render};
use super::owners::{Ownership, named};
use super::progress::Progress;
use super::run_and_print;
use super::servers::{self, Servers, Within};
use super::service::ServiceArgs;
use clap::Args;
use cloud_server_operator::api::conditions::READY;
use cloud_server_operator::api::{Account, Instance, counted};
use cloud_server_operator::cloud::Offer;
use cloud_server_operator::runtime::watch::ObjectKey;
use futures::{StreamExt, TryStreamExt};
use kube::ResourceExt;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Concurrent requests for details; the rate limit applies in addition.
const AT_ONCE: usize = 8;

/// Flags of `instances`.
#[derive(Debug, Args)]
pub(super) struct InstancesArgs {
    #[command(flatten)]
    service: ServiceArgs,

    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,

    /// Only servers that no Instance owns, including those whose name bears the marker of an Instance that you cannot list.
    #[arg(long, conflicts_with = "owned")]
    unowned: bool,

    /// Only servers of Instances, and a row for each Instance whose server is not listed.
    #[arg(long)]
    owned: bool,

    #[command(flatten)]
    within: Within,
}

const COLUMNS: [Column; 14] = [
    ("ID", "ecsResourceUUID", Always),
    ("NAME", "instanceName", Always),
    ("STATE", "ecsStatus", Always),
    ("REGION", "regionCode", Always),
    ("ADDRESS", "publicIpAddress", Always),
    ("SIZE", "size", Always),
    ("IMAGE", "imageName", Always),
    ("INSTANCE", "owner", Always),
    ("ZONE", "zoneCode", Wide),
    ("PACKAGE", "package", Wide),
    ("IMAGE ID", "imageResourceUUID", Wide),
    ("INTERNAL", "internalIpAddress", Wide),
    ("PENDING", "ecsPendingStatus", Wide),
    ("CREATED", "createTime", Wide),
];

/// Prints the servers.
pub(super) fn instances(args: &InstancesArgs) -> ExitCode {
    run_and_print(show(args), |text| print(&text))
}

async fn show(args: &InstancesArgs) -> Result<String, String> {
    let progress = Progress::begin("asking the cluster");
    let servers = Servers::reach(&args.service, &args.within, &progress).await?;
    if servers.owners.is_none() && (args.owned || args.unowned) {
        return Err(
            "the owners of servers are unknown without the cluster's Instances: name a cluster in which you may list \
             them, with --kubeconfig, --context or -n, or leave out --owned and --unowned"
                .to_owned(),
        );
    }
    let listed = servers.read().await?;
    progress.show(|| format!("reading {}", counted(listed.len(), "server")));
    let client = &servers.reached.client;
    let details = futures::stream::iter(listed)
        .map(|row| servers::with_detail(client, row))
        .buffered(AT_ONCE);
    let details: Vec<Offer> = details.try_collect().await?;
    let mut rows: Vec<Value> = details.iter().map(|server| row(server, &servers)).collect();
    rows.retain(|row| match row["ownership"].as_str() {
        Some("owned") => !args.unowned,
        _ => !args.owned,
    });
    if let (Some(owners), Some(account), false) =
        (&servers.owners, &servers.reached.account, args.unowned)
    {
        let of_row = |row: &Value| [row["ecsResourceUUID"].clone(), row["instance"].clone()];
        let shown = rows.iter().flat_map(of_row);
        let shown: BTreeSet<String> = shown
            .filter_map(|it| Some(it.as_str()?.to_owned()))
            .collect();
        let places = &servers.places;
        let is_here = |it: &&Instance| places.includes(&it.spec.region, &it.spec.zone);
        let instances = owners.instances().filter(is_here);
        rows.extend(instances.filter_map(|instance| serverless(instance, account, &shown)));
    }
    progress.clear();
    if rows.is_empty() {
        let why = match (details.is_empty(), args.unowned) {
            (true, _) => "the service lists no server in the zones that were read",
            (false, true) => "every server in the zones that were read belongs to an Instance",
            (false, false) => "no server in the zones that were read belongs to an Instance",
        };
        note(why);
    }
    match args.output {
        Output::Table | Output::Wide => {
            let lines: Vec<Value> = rows.into_iter().map(line).collect();
            render(args.output, &COLUMNS, &lines)
        }
        Output::Json | Output::Yaml => render(args.output, &COLUMNS, &rows),
    }
}

/// A server under the service's own field names, with its owner.
fn row(server: &Offer, servers: &Servers<'_>) -> Value {
    let ownership = servers.owner(&server.id, server.name.as_deref());
    let mut fields = server.fields.clone();
    fields.insert("ownership".to_owned(), json!(ownership.word()));
    let owner = match &ownership {
        Ownership::Owned(key) => Some(key),
        Ownership::Marked | Ownership::Unowned | Ownership::Unknown => None,
    };
    let instance = owner.and_then(|key| servers.owners.as_ref()?.find(key));
    fields.insert("instance".to_owned(), json!(owner.map(named)));
    fields.insert("package".to_owned(), json!(instance.and_then(package)));
    Value::Object(fields)
}

/// The package of an Instance's server, from status or else from the spec, since the service does not report it.
fn package(instance: &Instance) -> Option<String> {
    let status = instance.status.as_ref();
    let bought = status.and_then(|status| status.package.clone());
    bought.or_else(|| instance.spec.package.code.clone())
}

/// The row of an Instance of this Account whose server is not listed; none for other Instances. `shown` has the listed servers, and
/// the Instances that own them.
fn serverless(instance: &Instance, account: &Account, shown: &BTreeSet<String>) -> Option<Value> {
    let is_of_account = instance.namespace() == account.namespace()
        && instance.spec.account_ref.name == account.name_any();
    let status = instance.status.as_ref();
    let id = status.and_then(|status| status.id.as_deref());
    let name = named(&ObjectKey::of(instance));
    if !is_of_account || shown.contains(id.unwrap_or(&name)) {
        return None;
    }
    let mut conditions = status.iter().flat_map(|status| &status.conditions);
    let ready = conditions.find(|one| one.type_ == READY);
    Some(json!({
        "ecsResourceUUID": id,
        "ecsStatus": ready.map(|ready| ready.reason.clone()),
        "regionCode": instance.spec.region,
        "zoneCode": instance.spec.zone,
        "ownership": "owned",
        "instance": name,
        "package": package(instance),
    }))
}

/// A row with the fields of a table.
fn line(mut row: Value) -> Value {
    let number = |field: &str| row.get(field).and_then(Value::as_u64);
    let size = number("cpu")
        .zip(number("memory"))
        .map(|(cpu, memory)| format!("{cpu} CPU, {memory} GiB"));
    let owner = match (row["ownership"].as_str(), row["instance"].as_str()) {
        (_, Some(instance)) => instance.to_owned(),
        (Some("marked"), _) => "(deleted, elsewhere, or hidden from you)".to_owned(),
        (Some("unowned"), _) => "-".to_owned(),
        _ => "?".to_owned(),
    };
    row["size"] = json!(size);
    row["owner"] = json!(owner);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_whose_server_is_listed_has_no_row_of_its_own() {
        let instance = |id: Option<&str>| -> Instance {
            let object = json!({
                "metadata": {"namespace": "team-a", "name": "web"},
                "spec": {"region": "r", "zone": "z", "package": {"code": "p"}, "image": {"id": "i"}, "login": {"sshKey": {"id": "k"}}},
                "status": {"id": id},
            });
            serde_json::from_value(object).unwrap()
        };
        let account = json!({
            "metadata": {"namespace": "team-a", "name": "default"},
            "spec": {"endpoint": "http://127.0.0.1", "tokenSecretRef": {"name": "t", "key": "t"}},
        });
        let account: Account = serde_json::from_value(account).unwrap();
        let shown = BTreeSet::from(["ecs-1".to_owned(), "team-a/web".to_owned()]);
        let none = BTreeSet::new();
        let has_row = |id, shown| serverless(&instance(id), &account, shown).is_some();
        assert!(!has_row(Some("ecs-1"), &shown));
        // Its server is listed by the marker, and the answer to its create is not on record.
        assert!(!has_row(None, &shown));
        assert!(has_row(None, &none));
        // Its recorded server is missing, and another one bears its marker.
        assert!(has_row(Some("ecs-2"), &shown));
    }

    #[test]
    fn a_line_names_the_owner_of_a_server() {
        for (ownership, instance, owner) in [
            ("owned", Some("team-a/web"), "team-a/web"),
            ("marked", None, "(deleted, elsewhere, or hidden from you)"),
            ("unowned", None, "-"),
            ("unknown", None, "?"),
        ] {
            let row = json!({"ownership": ownership, "instance": instance, "cpu": 2, "memory": 4});
            let line = line(row);
            assert_eq!(line["owner"], owner);
            assert_eq!(line["size"], "2 CPU, 4 GiB");
        }
    }
}
