//! `plan`: the effects that applying manifests would have on servers.
//!
//! A dry run in the cluster yields each object, and the operator's own plan yields the effects. Nothing is written, neither in the
//! cluster nor at the service.

mod changes;
mod dry_run;
mod files;
mod offered;
mod replay;
mod secrets;
mod show;
mod stage;
mod verdict;

use super::completion::values;
use super::ended;
use super::progress::Progress;
use super::service::{Cluster, ClusterArgs};
use crate::output::print;
use clap::{Args, ValueEnum};
use dry_run::{DryRun, Taken};
use files::{Manifest, Manifests};
use futures::{StreamExt, stream};
use serde_json::json;
use stage::Stage;
use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use verdict::{Answer, Effect, Finding};

/// Concurrent requests.
const AT_ONCE: usize = 8;

/// The usual field managers.
const MANAGERS: [&str; 3] = ["kubectl", "kustomize-controller", "argocd-controller"];

/// The contract for pipelines.
pub(super) const EXIT_STATUS: &str = "\
Exit status:
  0  nothing changes
  2  something changes: in place, with a restart, or a server is taken over; no disk is erased and nothing is bought
  3  a disk is erased, or a server is bought
  4  a manifest is refused, or a step waits for a user (a policy, a pause, a missing Secret)
  1  the effect could not be determined
The highest status of all Instances counts, but 1 precedes all others.";

/// Flags of `plan`.
#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    /// The manifests: YAML or JSON, of one or more documents; a directory, or - for standard input. May be given several times.
    #[arg(short, long, required = true, value_name = "FILE")]
    filename: Vec<PathBuf>,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Identity of the cluster in records, if the operator runs with this flag; the UID of namespace kube-system when absent.
    #[arg(long, value_name = "ID")]
    cluster_id: Option<String>,

    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,

    /// Field manager that will apply the manifests: kubectl, kustomize-controller (Flux), argocd-controller.
    #[arg(long, default_value = "kubectl", value_name = "NAME", add = values::usual(&MANAGERS))]
    field_manager: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Lines for people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Prints the effects.
pub(super) fn plan(args: &PlanArgs) -> ExitCode {
    ended(answer(args), |(text, status)| {
        match print(&text) == ExitCode::SUCCESS {
            true => ExitCode::from(status),
            false => ExitCode::FAILURE,
        }
    })
}

async fn answer(args: &PlanArgs) -> Result<(String, u8), String> {
    let files = files::read(&args.filename)?;
    let progress = Progress::begin("asking the cluster");
    for other in &files.others {
        progress.note(&format!("skipped: {other} is no Instance"));
    }
    if files.instances.is_empty() {
        progress.note("there is no Instance in the files");
    }
    let (answers, notes) = if files.instances.is_empty() {
        (Vec::new(), Vec::new())
    } else {
        let cluster = args.cluster.connect()?;
        answers(args, &cluster, &files, &progress).await?
    };
    for note in &notes {
        progress.note(&format!("note: {note}"));
    }
    drop(progress);
    let effects = answers.iter().flat_map(|answer| &answer.effects);
    let status = verdict::status(effects.map(|said| said.effect));
    let text = match args.output {
        Form::Text => show::text(&answers),
        Form::Json => {
            let report = json!({"instances": answers, "skipped": files.others, "notes": notes, "exitStatus": status});
            serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?
        }
    };
    Ok((text, status))
}

async fn answers(
    args: &PlanArgs,
    cluster: &Cluster,
    files: &Manifests,
    progress: &Progress,
) -> Result<(Vec<Answer>, Vec<String>), String> {
    if let (Some(asked), Some(manifest)) = (&args.cluster.namespace, elsewhere(args, files)) {
        return Err(format!(
            "{} names namespace {} for Instance {}, and -n names {asked}: remove one of them",
            manifest.file,
            manifest.namespace().unwrap_or_default(),
            manifest.name().unwrap_or_default()
        ));
    }
    if let Some((former, later)) = twice(cluster, files) {
        return Err(format!(
            "Instance {} occurs twice, in {} and in {}: remove one of them",
            later.name().unwrap_or_default(),
            former.place(),
            later.place()
        ));
    }
    let mut notes = Vec::new();
    let cluster = &secrets::as_applied(cluster, &files.secrets, &mut notes);
    // First, since it fails immediately if the cluster does not answer.
    let mut stage = Stage::set(cluster, args.cluster_id.as_ref(), notes).await?;
    let manager = args.field_manager.as_str();
    let (done, count) = (&Cell::new(0), files.instances.len());
    let rehearsed: Vec<(&Manifest, DryRun)> = stream::iter(&files.instances)
        .map(|manifest| async move {
            let namespace = manifest.namespace().unwrap_or(&cluster.namespace);
            let outcome = dry_run::rehearse(cluster, namespace, manifest, manager).await;
            done.set(done.get() + 1);
            progress.show(|| format!("asking the cluster: {} of {count}", done.get()));
            (manifest, outcome)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    progress.show(|| "reading Accounts and Secrets".to_owned());
    let taken: Vec<&Taken> = rehearsed
        .iter()
        .filter_map(|(_, outcome)| match outcome {
            DryRun::Taken(taken) => Some(&**taken),
            DryRun::Refused(_) | DryRun::Unknown(_) => None,
        })
        .collect();
    stage.furnish(&taken, &files.accounts).await;
    done.set(0);
    let stage = &stage;
    let answers = stream::iter(&rehearsed)
        .map(|(manifest, outcome)| async move {
            let answer = judged(stage, cluster, manifest, outcome).await;
            done.set(done.get() + 1);
            progress.show(|| format!("looking at servers: {} of {count}", done.get()));
            answer
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    Ok((answers, stage.notes.clone()))
}

/// A manifest of another namespace than the flag names: kubectl would not apply it.
fn elsewhere<'a>(args: &PlanArgs, files: &'a Manifests) -> Option<&'a Manifest> {
    let asked = args.cluster.namespace.as_deref()?;
    let mut all = files.instances.iter();
    all.find(|manifest| manifest.namespace().is_some_and(|named| named != asked))
}

/// Two manifests of one Instance, which is ambiguous.
fn twice<'a>(cluster: &Cluster, files: &'a Manifests) -> Option<(&'a Manifest, &'a Manifest)> {
    let mut met = HashMap::new();
    files.instances.iter().find_map(|manifest| {
        let namespace = manifest.namespace().unwrap_or(&cluster.namespace);
        let former = met.insert((namespace, manifest.name()?), manifest);
        former.map(|former| (former, manifest))
    })
}

async fn judged(stage: &Stage, cluster: &Cluster, manifest: &Manifest, outcome: &DryRun) -> Answer {
    let (effects, changes, notes) = match outcome {
        DryRun::Refused(why) => (vec![Finding::of(Effect::Refused, why)], vec![], vec![]),
        DryRun::Unknown(why) => (vec![Finding::of(Effect::Unknown, why)], vec![], vec![]),
        DryRun::Taken(taken) => {
            let (effects, notes) = stage.effects(taken).await;
            // Every field of a new object is new, so a list of them is useless.
            let changes = match taken.is_new {
                true => Vec::new(),
                false => taken.changes.clone(),
            };
            (effects, changes, [taken.notes.clone(), notes].concat())
        }
    };
    let namespace = manifest.namespace().unwrap_or(&cluster.namespace);
    Answer {
        namespace: namespace.to_owned(),
        name: manifest.name().unwrap_or("(without a name)").to_owned(),
        file: manifest.file.clone(),
        line: manifest.line,
        verdict: verdict::weightiest(&effects),
        effects,
        changes,
        notes,
    }
}
