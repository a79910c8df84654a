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
use super::progress::Progress;
use super::run_and_print;
use super::service::{Cluster, ClusterArgs};
use crate::output::finish;
use clap::{Args, ValueEnum};
use dry_run::{Applied, dry_run};
use files::{Manifest, Manifests};
use futures::{StreamExt, stream};
use serde_json::json;
use stage::Stage;
use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use verdict::{Answer, Finding};

/// How many Instances are handled concurrently.
const AT_ONCE: usize = 8;

/// The usual field managers.
const MANAGERS: [&str; 3] = ["kubectl", "kustomize-controller", "argocd-controller"];

/// The contract for pipelines.
pub(super) const EXIT_STATUS: &str = "\
Exit status:
  0  nothing changes
  2  something changes: in place, with a restart, or a server is taken over; no disk is erased and nothing is bought
  3  a disk is erased, or a server is bought
  4  a manifest is refused, or a step waits (for example: a policy, a pause, a limit, a missing Secret)
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
    run_and_print(answer(args), |(text, status)| finish(&text, status))
}

async fn answer(args: &PlanArgs) -> Result<(String, u8), String> {
    let files = files::read(&args.filename)?;
    let progress = Progress::begin("asking the cluster");
    for other in &files.others {
        progress.note(&format!("skipped: {other} is no cloudserver.dev Instance"));
    }
    let (answers, notes) = if files.instances.is_empty() {
        progress.note("there is no Instance in the files");
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
    let status = verdict::exit_status(effects.map(|finding| finding.effect));
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
    check(args, cluster, files)?;
    let mut notes = Vec::new();
    let cluster = &secrets::as_applied(cluster, &files.secrets, &mut notes);
    // First: if the cluster does not answer, this fails after one deadline, before there is a request for each manifest.
    let mut stage = Stage::set(cluster, args.cluster_id.as_ref(), notes).await?;
    let manager = args.field_manager.as_str();
    let (done, count) = (&Cell::new(0), files.instances.len());
    let results: Vec<(&Manifest, Result<Applied, Finding>)> = stream::iter(&files.instances)
        .map(|manifest| async move {
            let namespace = manifest.namespace().unwrap_or(&cluster.namespace);
            let result = dry_run(cluster, namespace, manifest, manager).await;
            done.set(done.get() + 1);
            progress.show(|| format!("asking the cluster: {} of {count}", done.get()));
            (manifest, result)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    progress.show(|| "reading Accounts and Secrets".to_owned());
    let applied = results
        .iter()
        .filter_map(|(_, result)| result.as_ref().ok());
    let applied: Vec<&Applied> = applied.collect();
    stage.read_accounts(&applied, &files.accounts).await;
    done.set(0);
    let stage = &stage;
    let answers = stream::iter(&results)
        .map(|(manifest, result)| async move {
            let answer = judged(stage, cluster, manifest, result).await;
            done.set(done.get() + 1);
            progress.show(|| format!("reading servers: {} of {count}", done.get()));
            answer
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    Ok((answers, stage.notes.clone()))
}

/// Refuses a manifest whose namespace differs from the one of -n, as kubectl does, and two manifests of one Instance.
fn check(args: &PlanArgs, cluster: &Cluster, files: &Manifests) -> Result<(), String> {
    let mut known = HashMap::new();
    for manifest in &files.instances {
        let name = manifest.name().unwrap_or_default();
        if let (Some(flag), Some(named)) = (&args.cluster.namespace, manifest.namespace())
            && flag != named
        {
            return Err(format!(
                "{} names namespace {named} for Instance {name}, and -n names {flag}: remove one of them",
                manifest.file
            ));
        }
        let Some(key) = manifest.key(&cluster.namespace) else {
            continue;
        };
        if let Some(former) = known.insert(key, manifest) {
            return Err(format!(
                "Instance {name} occurs twice, in {} and in {}: remove one of them",
                former.place(),
                manifest.place()
            ));
        }
    }
    Ok(())
}

async fn judged(
    stage: &Stage,
    cluster: &Cluster,
    manifest: &Manifest,
    result: &Result<Applied, Finding>,
) -> Answer {
    let (effects, changes, notes) = match result {
        Err(finding) => (vec![finding.clone()], vec![], vec![]),
        Ok(applied) => {
            let (effects, notes) = stage.effects(applied).await;
            // Every field of a new object is new, so a list of its fields is useless.
            let changes = match applied.is_new {
                true => Vec::new(),
                false => applied.changes.clone(),
            };
            (effects, changes, [applied.notes.clone(), notes].concat())
        }
    };
    let namespace = manifest.namespace().unwrap_or(&cluster.namespace);
    Answer {
        namespace: namespace.to_owned(),
        name: manifest.name().unwrap_or("(without a name)").to_owned(),
        file: manifest.file.clone(),
        line: manifest.line,
        verdict: verdict::most_important(&effects),
        effects,
        changes,
        notes,
    }
}
