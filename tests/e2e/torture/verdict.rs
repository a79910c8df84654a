//! What a run came to: judged in the world, once it is quiet.

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

/// How long the world may take to be as it was asked for. The settling time of these tests is 2 s, the longest pause after a
/// failure 20 s, a surplus server is found within a minute; the rest is a machine that is busy with twenty other worlds.
const DONE: Duration = Duration::from_secs(240);
/// Longer than a listing at the pace of running operations (5 s, and a tenth more), and than the settling time.
const QUIET: Duration = Duration::from_secs(6);
/// How long the world may take to become quiet once all is done.
const CALMS: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(250);

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Two servers at once, or one more bought than needed.
    Duplicate(String),
    /// A server that no Instance has, at the end.
    Orphan(String),
    /// A destructive operation completed more often than it was asked for.
    Repeat(String),
    /// It did not come to its end by itself.
    Helped(String),
    /// Writes or calls went on when all was done.
    Restless(String),
    /// Anything else.
    Broken(String),
}

impl Finding {
    /// In one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Duplicate(_) => "DUPLICATE",
            Self::Orphan(_) => "ORPHAN",
            Self::Repeat(_) => "REPEAT",
            Self::Helped(_) => "STUCK",
            Self::Restless(_) => "RESTLESS",
            Self::Broken(_) => "BROKEN",
        }
    }
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Whether its boundary was reached.
    pub reached: bool,
    /// What must not be.
    pub findings: Vec<Finding>,
    /// Repeats that docs/reliability.md names (E2).
    pub known_repeats: usize,
    /// Servers that a process bought which was no longer the active one, and that were found and released.
    pub surplus_healed: usize,
    /// The end of the operators' logs and the ledger, where something was found.
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

    /// Its boundary was not reached, and all was well.
    pub fn is_missed(&self) -> bool {
        !self.reached && self.findings.is_empty()
    }

    /// Keeps what helps to understand what was found.
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

/// Waits until the world is done and quiet, and judges it.
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

/// Waits until all is as it was asked for, and nothing goes on.
pub async fn settle(world: &mut World, story: &Story) -> Option<Finding> {
    if let Err(missing) = within(DONE, async || {
        world.revive().await;
        story.is_done(world).await
    })
    .await
    {
        return Some(Finding::Helped(missing));
    }
    let calm = within(CALMS, async || calm(world, story).await).await;
    calm.err().map(Finding::Restless)
}

async fn within(
    patience: Duration,
    mut look: impl AsyncFnMut() -> Result<(), String>,
) -> Result<(), String> {
    let deadline = Instant::now() + patience;
    loop {
        match look().await {
            Ok(()) => return Ok(()),
            Err(why) if Instant::now() >= deadline => return Err(why),
            Err(_) => sleep(POLL).await,
        }
    }
}

/// Nothing is written and nothing called for a while, and all stays as it was asked for.
async fn calm(world: &World, story: &Story) -> Result<(), String> {
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
    // Whoever wrote it.
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
    let wanted = usize::from(!story.is_farewell);
    if live.len() > wanted {
        report.findings.push(Finding::Orphan(format!("{live:?}")));
    }
}

/// A create was on the wire when its process was paused, and reached the service after another one had taken over.
fn may_be_surplus(case: &Case) -> bool {
    let is_call = case.point.kind == Kind::Call(Endpoint::Create);
    case.act == Act::TakeOver
        && match case.place {
            Place::Before => is_call,
            Place::AfterReply => case.point.kind == Kind::Intent,
            Place::AfterEffect => false,
        }
}

/// How often what cannot be undone was done.
fn count_repeats(world: &World, story: &Story, case: Option<&Case>, report: &mut Report) {
    for verb in [Verb::Reinstall, Verb::Restart, Verb::ModifyPassword] {
        let wanted = usize::from(story.operation.verb() == verb);
        let (accepted, completed) = story.taken(world, verb);
        if accepted.max(completed) <= wanted {
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

/// An attempt is never taken twice by the service: what is asked for again is a new one.
async fn count_attempts(world: &World, story: &Story, case: Option<&Case>, report: &mut Report) {
    let verb = story.operation.verb();
    if story.is_farewell || verb == Verb::Create || case.is_some_and(may_repeat) {
        return;
    }
    let attempts = story.attempts(world).await;
    let (accepted, _) = story.taken(world, verb);
    if accepted > attempts {
        let text = format!("{verb}: {accepted} accepted in {attempts} attempts");
        report.findings.push(Finding::Repeat(text));
    }
}

/// What docs/maintainers/answers.md says of unknown outcomes: nothing shows a restart or a password change, so it is asked for
/// again where the answer was lost together with the process, before it stood in status. A password is also set again where only
/// the answer was lost. A process that was paused right before its call makes it when another one has done all there is to do.
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
        // The call was on the wire when it was paused.
        (Act::TakeOver, Place::AfterReply) if is_intent => true,
        (Act::Kill | Act::TakeOver, Place::Before) => is_receipt,
        (Act::Kill | Act::Sent | Act::Succeeded | Act::TakeOver, _) => is_call,
        (Act::Lost | Act::Reset, Place::AfterEffect) => {
            is_call && case.operation.verb() == Verb::ModifyPassword
        }
        (Act::Lost | Act::Reset | Act::Late | Act::Deleted, _) => false,
    }
}
