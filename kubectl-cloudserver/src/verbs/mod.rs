//! Manual actions on Instances: an edit of the spec with the user's own rights, and waiting until it is applied.
//!
//! [`edit`] computes the edit of a verb, [`goal`] judges whether it is applied; both are pure. [`which`] reads the Instances,
//! [`follow`] watches them.

mod ask;
mod edit;
mod follow;
mod goal;
mod managers;
mod which;

use super::progress::Progress;
use super::service::{Cluster, ClusterArgs};
use super::{chain, run_and_print};
use crate::output::failed;
use clap::{Args, Subcommand};
use cloud_server_operator::api::Instance;
use cloud_server_operator::program::duration;
use cloud_server_operator::runtime::kubernetes::{call, json_patch};
use cloud_server_operator::runtime::{KubeError, chance};
use edit::{Edit, Verb, edit};
use follow::{INTERRUPTED, follow};
use goal::{Aim, Goal};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, PatchParams};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;
use which::WhichArgs;

/// The exit statuses, on which scripts may rely.
pub(super) const EXIT_STATUS: &str = "\
Exit status:
  0    done; without --wait: the edit is accepted
  1    the edit could not be made, or the state could not be read
  2    it failed: the Instance is Stalled, paused or gone, or an operation failed
  3    --timeout elapsed first
  130  Ctrl-C while waiting: the edit stays";

#[derive(Debug, Subcommand)]
pub(super) enum VerbCommand {
    /// Wait until Instances match their specs.
    Wait(WaitArgs),
    /// Start servers: sets spec.powerState to Running.
    Start(EditArgs),
    /// Stop servers: sets spec.powerState to Stopped.
    Stop(EditArgs),
    /// Restart servers once: sets a new spec.restart.token.
    Restart(EditArgs),
    /// Reinstall servers once with the image of their spec, which ERASES THEIR DISKS: sets a new spec.reinstall.token.
    Reinstall {
        #[command(flatten)]
        edit: EditArgs,

        /// Do not ask before the disks are erased.
        #[arg(short, long)]
        yes: bool,
    },
    /// Begin no operation until `resume` or the given time: sets spec.pause.
    Pause {
        #[command(flatten)]
        edit: EditArgs,

        /// End of the pause, as an RFC 3339 timestamp: 2026-12-24T18:00:00Z.
        #[arg(long, value_name = "TIME")]
        until: Option<Timestamp>,

        /// Duration of the pause: 30m, 2h.
        #[arg(long = "for", value_name = "DURATION", value_parser = duration, conflicts_with = "until")]
        lasts: Option<Duration>,
    },
    /// End a pause: removes spec.pause.
    Resume(EditArgs),
    /// Observe everything now: sets a new spec.reconcile.token.
    Reconcile(EditArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = EXIT_STATUS)]
pub(super) struct WaitArgs {
    #[command(flatten)]
    which: WhichArgs,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// How long to wait, with --wait of a verb: 90s, 10m, 1h30m.
    #[arg(long, default_value = "10m", value_parser = duration, value_name = "DURATION")]
    timeout: Duration,
}

#[derive(Debug, Args)]
pub(super) struct EditArgs {
    #[command(flatten)]
    common: WaitArgs,

    /// Wait until the edit is applied.
    #[arg(long)]
    wait: bool,
}

/// The end of a pause, in the form of the spec: at a time, or after a duration.
fn end(
    until: Option<Timestamp>,
    lasts: Option<Duration>,
    now: Timestamp,
) -> Result<Option<String>, String> {
    let too_long = "--for is too long: the pause would end after the last date that can be written";
    let after = lasts.map(|lasts| now.checked_add(lasts).map_err(|_| too_long));
    let end = after.transpose()?.or(until);
    if end.is_some_and(|end| end <= now) {
        return Err("the pause would end at once: name a later time".to_owned());
    }
    Ok(end.map(|end| end.to_string()))
}

/// Carries out a verb.
pub(super) fn verb(command: &VerbCommand) -> ExitCode {
    let now = chance::time_of_day();
    let (verb, args) = match command {
        VerbCommand::Wait(args) => return run_and_print(wait(args), ExitCode::from),
        VerbCommand::Start(args) => (Verb::Start, args),
        VerbCommand::Stop(args) => (Verb::Stop, args),
        VerbCommand::Restart(args) => (Verb::Restart, args),
        VerbCommand::Reinstall { edit, .. } => (Verb::Reinstall, edit),
        VerbCommand::Resume(args) => (Verb::Resume, args),
        VerbCommand::Reconcile(args) => (Verb::Reconcile, args),
        VerbCommand::Pause { edit, until, lasts } => match end(*until, *lasts, now) {
            Ok(end) => (Verb::Pause(end), edit),
            Err(why) => return failed(&why),
        },
    };
    let needs_question = matches!(command, VerbCommand::Reinstall { yes: false, .. });
    // A new token, which shows readers of the spec the time of the edit.
    let token = format!("{now} {:08x}", chance::word() >> 32);
    let work = carry_out(&verb, args, &token, needs_question);
    run_and_print(work, ExitCode::from)
}

async fn wait(args: &WaitArgs) -> Result<u8, String> {
    let progress = Progress::begin("asking the cluster");
    let cluster = args.cluster.connect()?;
    let instances = args.which.read(&cluster).await?;
    let goals = instances
        .iter()
        .map(|live| (live.name_any(), goal(live, Aim::Ready)));
    let status = follow(&cluster, goals.collect(), args.timeout, &progress).await?;
    Ok(status.max(u8::from(progress.is_lost())))
}

async fn carry_out(
    verb: &Verb,
    args: &EditArgs,
    token: &str,
    needs_question: bool,
) -> Result<u8, String> {
    let mut progress = Progress::begin("asking the cluster");
    let cluster = args.common.cluster.connect()?;
    let mut edits = Vec::new();
    for live in args.common.which.read(&cluster).await? {
        let edit = edit(verb, &live, token);
        edits.push((live, edit));
    }
    if needs_question {
        progress.clear(); // its line would overwrite the question
        ask::whether_to_erase(&edits)?;
        progress = Progress::begin("asking the cluster");
    }
    let (mut goals, mut has_failed) = (BTreeMap::new(), false);
    for (live, edit) in edits {
        let name = live.name_any();
        let sent = match edit {
            Ok(edit) => send(&cluster, &live, edit, &progress).await,
            Err(why) => Err(why),
        };
        match sent {
            Ok((message, goal)) => {
                progress.answer(&format!("{}/{name}: {message}", cluster.namespace));
                goals.insert(name, goal);
            }
            Err(why) => {
                has_failed = true;
                progress.note(&format!("{}/{name}: {why}", cluster.namespace));
            }
        }
    }
    let status = match args.wait && !goals.is_empty() {
        true => follow(&cluster, goals, args.common.timeout, &progress).await?,
        false => 0,
    };
    if status == INTERRUPTED {
        progress.note("the edits stay in the specs; `wait` waits for them");
    }
    // A rejected edit gives 1; a worse end of the wait (2, 3, 130) takes precedence.
    Ok(status.max(u8::from(has_failed || progress.is_lost())))
}

/// The goal for an object, from its current generation on.
fn goal(live: &Instance, aim: Aim) -> Goal {
    Goal {
        uid: live.uid().unwrap_or_default(),
        generation: live.metadata.generation.unwrap_or_default(),
        aim,
    }
}

/// Sends an edit. Returns the message for the user, and the goal to wait for.
async fn send(
    cluster: &Cluster,
    live: &Instance,
    edit: Edit,
    progress: &Progress,
) -> Result<(&'static str, Goal), String> {
    const CHANGE: &str = "change the Instance";
    let Some(patch) = edit.patch else {
        return Ok((edit.message, goal(live, edit.aim)));
    };
    let api: Api<Instance> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let params = PatchParams::apply(managers::FIELD_MANAGER).validation_strict();
    let name = live.name_any();
    let patch = json_patch(CHANGE, patch).map_err(|error| chain(&error))?;
    let patched = call(CHANGE, api.patch(&name, &params, &patch)).await;
    let patched = patched.map_err(|error| refused(cluster, &error))?;
    for note in edit.notes {
        progress.note(&format!("{}/{name}: note: {note}", cluster.namespace));
    }
    Ok((edit.message, goal(&patched, edit.aim)))
}

/// The message of the apiserver for a JSON patch that does not apply: a `test` fails, or the field to remove is absent.
const TEST_FAILED: &str = "the server rejected our request due to an error in our request";

fn refused(cluster: &Cluster, error: &KubeError) -> String {
    match error {
        KubeError::Refused { status, .. } if status.message == TEST_FAILED => {
            "it was edited or replaced meanwhile: check it, and try again".to_owned()
        }
        // The message of a policy or of a schema rule is sufficient.
        KubeError::Refused { status, .. } if error.is_denied() || status.code == 422 => {
            chain(error)
        }
        _ => cluster.explain(error),
    }
}

#[cfg(test)]
mod tests;
