//! The verdict on a run: determined from the world once it is idle.

use super::act::Act;
use super::case::Case;
use super::operation::Operation;
use super::story::Story;
use crate::support::World;
use crate::support::recorder::{Kind, Place};
use cloud_server_operator::api::Verb;
use cloud_simulator::wire::Endpoint;
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the world may take to reach the requested state. The settling time of these tests is 2 s, the longest pause after a
/// failure 20 s, and a surplus server is found within a minute; the rest allows for a machine that is busy with twenty other
/// worlds.
const DONE: Duration = Duration::from_secs(240);
/// Longer than a listing at the pace of running operations (5 s, and a tenth more), and than the settling time.
const QUIET: Duration = Duration::from_secs(6);
/// How long the world may take to become idle once everything is done.
const QUIET_WITHIN: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(250);

/// A violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Two servers at once, or one purchase too many.
    Duplicate(String),
    /// A server without an Instance at the end.
    Orphan(String),
    /// A destructive operation completed more often than requested.
    Repeat(String),
    /// The run did not complete without help.
    Helped(String),
    /// Writes or calls continued after everything was done.
    Unsettled(String),
    /// Any other violation.
    Broken(String),
}

impl Finding {
    /// A one-word name.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Duplicate(_) => "DUPLICATE",
            Self::Orphan(_) => "ORPHAN",
            Self::Repeat(_) => "REPEAT",
            Self::Helped(_) => "STUCK",
            Self::Unsettled(_) => "UNSETTLED",
            Self::Broken(_) => "BROKEN",
        }
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Whether its boundary was reached.
    pub reached: bool,
    /// The violations.
    pub findings: Vec<Finding>,
    /// Repetitions that docs/reliability.md lists (E2).
    pub known_repeats: usize,
    /// Servers that a process bought after it had lost its Lease, and that were found and released.
    pub surplus_healed: usize,
    /// The end of the operators' logs and of the ledger, if there is a violation.
    pub evidence: String,
}

impl Report {
    /// A run that ended with this panic.
    pub fn broken(panic: String) -> Self {
        Self {
            reached: true,
            findings: vec![Finding::Broken(panic)],
            ..Self::default()
        }
    }

    /// The boundary was not reached, and there is no violation.
    pub fn is_missed(&self) -> bool {
        !self.reached && self.findings.is_empty()
    }

    /// Keeps logs that help to explain the violations.
    pub fn keep_logs(&mut self, world: &World) {
        let logs = world.logs();
        let lines: Vec<&str> = logs.lines().collect();
        let tail = lines[lines.len().saturating_sub(60)..].join("\n");
        let points: Vec<String> = world
            .recorder()
            .points()
            .iter()
            .map(ToString::to_string)
            .collect();
        self.evidence = format!(
            "requests: {}\nledger:\n{}\nlog:\n{tail}",
            points.join(" "),
            world.ledger_text()
        );
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self.findings.first() {
            Some(finding) => finding.word(),
            None if !self.reached => "-",
            None if self.known_repeats > 0 => "ok, twice",
            None if self.surplus_healed > 0 => "ok, healed",
            None => "ok",
        })
    }
}

/// Waits until the world is done and idle, and determines the verdict.
pub async fn judge(world: &mut World, story: &Story, case: Option<&Case>) -> Report {
    let mut report = Report::default();
    report.findings.extend(settle(world, story).await);
    count_servers(world, story, case, &mut report);
    count_repeats(world, story, case, &mut report);
    count_attempts(world, story, case, &mut report).await;
    if world.logs().contains("panicked") {
        report.findings.push(Finding::Broken("a panic".to_owned()));
    }
    report
}

/// Waits until the requested state is reached and all activity has ended.
pub async fn settle(world: &mut World, story: &Story) -> Option<Finding> {
    if let Err(missing) = within(DONE, async || {
        world.revive().await;
        story.is_done(world).await
    })
    .await
    {
        return Some(Finding::Helped(missing));
    }
    let quiet = within(QUIET_WITHIN, async || stays_quiet(world, story).await).await;
    quiet.err().map(Finding::Unsettled)
}

async fn within(
    patience: Duration,
    mut check: impl AsyncFnMut() -> Result<(), String>,
) -> Result<(), String> {
    let deadline = Instant::now() + patience;
    loop {
        match check().await {
            Ok(()) => return Ok(()),
            Err(why) if Instant::now() >= deadline => return Err(why),
            Err(_) => sleep(POLL).await,
        }
    }
}

/// Checks that for a while nothing is written or called, and that the requested state remains.
async fn stays_quiet(world: &World, story: &Story) -> Result<(), String> {
    let (before, end) = (world.recorder().mutations(), Instant::now() + QUIET);
    let version = story.version(world).await;
    while Instant::now() < end {
        if world.recorder().mutations() != before {
            let points = world.recorder().points();
            let last = points.iter().rev().find(|point| point.kind.is_mutation());
            return Err(last.map(ToString::to_string).unwrap_or_default());
        }
        sleep(POLL).await;
    }
    // This counts the writes of every client.
    if story.version(world).await != version {
        return Err("the Instance was written".to_owned());
    }
    story.is_done(world).await
}

fn count_servers(world: &World, story: &Story, case: Option<&Case>, report: &mut Report) {
    let (all, live) = (world.sim.servers(), world.sim.live_servers());
    let more = all.len().saturating_sub(story.operation.servers());
    if more > 1 || more == 1 && !case.is_some_and(may_be_surplus) {
        let text = format!("{all:?}");
        report.findings.push(Finding::Duplicate(text));
    }
    report.surplus_healed = more;
    let expected = usize::from(!story.is_deletion);
    if live.len() > expected {
        report.findings.push(Finding::Orphan(format!("{live:?}")));
    }
}

/// A create was on the wire when its process was paused, and may have reached the service after another process took over.
fn may_be_surplus(case: &Case) -> bool {
    let is_call = case.point.kind == Kind::Call(Endpoint::Create);
    case.act == Act::TakeOver
        && match case.place {
            Place::Before => is_call,
            Place::AfterReply => case.point.kind == Kind::Intent,
            Place::AfterEffect => false,
        }
}

/// Counts how often irreversible operations were carried out.
fn count_repeats(world: &World, story: &Story, case: Option<&Case>, report: &mut Report) {
    for verb in [Verb::Reinstall, Verb::Restart, Verb::ModifyPassword] {
        let expected = usize::from(story.operation.verb() == verb);
        let (accepted, completed) = story.taken(world, verb);
        if accepted.max(completed) <= expected {
            continue;
        }
        if case.is_some_and(|case| case.operation.verb() == verb && may_repeat(case))
            && completed <= 2
        {
            report.known_repeats += 1;
        } else {
            let text = format!("{verb}: {accepted} accepted, {completed} completed");
            report.findings.push(Finding::Repeat(text));
        }
    }
}

/// The service never accepts an attempt twice: each repeated request is a new attempt.
async fn count_attempts(world: &World, story: &Story, case: Option<&Case>, report: &mut Report) {
    let verb = story.operation.verb();
    if story.is_deletion || verb == Verb::Create || case.is_some_and(may_repeat) {
        return;
    }
    let attempts = story.attempts(world).await;
    let (accepted, _) = story.taken(world, verb);
    if accepted > attempts {
        let text = format!("{verb}: {accepted} accepted in {attempts} attempts");
        report.findings.push(Finding::Repeat(text));
    }
}

/// Implements the rules of docs/maintainers/answers.md for unknown outcomes. No query shows a restart or a password change, so
/// the operator requests it again if the answer was lost together with the process, before status recorded it. It also sets a
/// password again if only the answer was lost. A process that was paused right before its call makes that call after another
/// process has completed the work.
fn may_repeat(case: &Case) -> bool {
    let call = match case.operation {
        Operation::Restart => Endpoint::Restart,
        Operation::Password | Operation::Rotation => Endpoint::ModifyPassword,
        Operation::Reinstall => Endpoint::Reinstall,
        _ => return false,
    };
    let is_shown = case.operation == Operation::Reinstall;
    let is_call = case.point.kind == Kind::Call(call);
    let is_receipt = case.point.kind == Kind::Receipt;
    let is_intent = case.point.kind == Kind::Intent;
    match (case.act, case.place) {
        (Act::TakeOver, Place::Before) if is_call => true,
        _ if is_shown => false,
        // The call was on the wire when its process was paused.
        (Act::TakeOver, Place::AfterReply) if is_intent => true,
        (Act::Kill | Act::TakeOver, Place::Before) => is_receipt,
        (Act::Kill | Act::Sent | Act::Succeeded | Act::TakeOver, _) => is_call,
        (Act::Lost | Act::Reset, Place::AfterEffect) => {
            is_call && case.operation.verb() == Verb::ModifyPassword
        }
        (Act::Lost | Act::Reset | Act::Late | Act::Deleted, _) => false,
    }
}
