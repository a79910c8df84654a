//! `import --all`: the manifests of every server that no Instance in the cluster owns, such as a fleet from another cluster.

use super::{Form, ImportArgs, Printed, detail, manifest};
use crate::instances::owners;
use crate::output::print;
use crate::owners::{Owners, Ownership};
use crate::progress::Progress;
use crate::service::Reached;
use crate::{PROGRAM, asked, servers};
use cloud_server_operator::cloud::ServerId;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Prints the manifests. Fails if a server had to be left out.
pub(super) fn import(args: &ImportArgs) -> ExitCode {
    asked(manifests(args), |(text, is_whole)| {
        let is_printed = text.is_empty() || print(&text) == ExitCode::SUCCESS;
        match is_whole && is_printed {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    })
}

/// The text, and whether every server is in it.
async fn manifests(args: &ImportArgs) -> Result<(String, bool), String> {
    let progress = Progress::begin("asking the cluster");
    let reached = args.service.reach().await?;
    let owners = owners(&reached, &progress).await;
    let servers = unowned(args, &reached, owners.as_ref(), &progress).await?;
    if servers.is_empty() {
        progress.note("every server that the service lists there has its Instance");
    }
    let (mut all, mut names, mut doubts) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for (number, id) in servers.iter().enumerate() {
        progress.say(|| format!("looking at servers: {} of {}", number + 1, servers.len()));
        match one(args, &reached, owners.as_ref(), id, &mut names).await {
            Ok(printed) => {
                doubts.extend(printed.doubts.iter().cloned());
                all.push(printed);
            }
            Err(why) => progress.note(&format!("{PROGRAM}: server {id} is left out: {why}")),
        }
    }
    for words in &doubts {
        progress.note(&format!("{PROGRAM}: {words}"));
    }
    drop(progress);
    let is_whole = all.len() == servers.len();
    Ok((text(args.output, &all)?, is_whole))
}

/// The servers that no Instance in the cluster owns, in the order of their places.
async fn unowned(
    args: &ImportArgs,
    reached: &Reached,
    owners: Option<&Owners>,
    progress: &Progress,
) -> Result<Vec<ServerId>, String> {
    let (client, account) = (&reached.client, reached.account.as_ref());
    let places = servers::places(client, owners, account, &args.within).await?;
    let mut listed = servers::read(client, &places.all, progress).await?;
    listed.retain(|row| {
        let owner = owners.map(|owners| owners.of(&row.id, row.name.as_deref()));
        !matches!(owner, Some(Ownership::Owned(_)))
    });
    Ok(listed.into_iter().map(|row| row.id).collect())
}

async fn one(
    args: &ImportArgs,
    reached: &Reached,
    owners: Option<&Owners>,
    id: &ServerId,
    names: &mut BTreeSet<String>,
) -> Result<Printed, String> {
    let detail = detail(&reached.client, id).await?;
    let printed = manifest(args, reached, owners, &detail).await?;
    let name = printed.manifest.pointer("/metadata/name");
    let name = name.and_then(Value::as_str).unwrap_or_default();
    match names.insert(name.to_owned()) {
        true => Ok(printed),
        false => Err(format!(
            "another server makes Instance {name} too: import this one by itself, with --name"
        )),
    }
}

/// The manifests as one text; an empty list is no text at all.
fn text(form: Form, all: &[Printed]) -> Result<String, String> {
    match form {
        _ if all.is_empty() => Ok(String::new()),
        Form::Yaml => {
            let all: Result<Vec<String>, String> = all.iter().map(Printed::yaml).collect();
            Ok(all?.join("---\n"))
        }
        Form::Json => {
            let items: Vec<&Value> = all.iter().map(|one| &one.manifest).collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
            serde_json::to_string_pretty(&list).map_err(|error| error.to_string())
        }
    }
}
