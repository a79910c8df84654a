//! A change and its consequences: calls, effects, writes, finished operations.

use super::objects::{abnormal, instance, is_ready, outline};
use super::wait::{eventually, stays};
use super::world::World;
use cloud_server_operator::api::{HistoryEntry, Instance, Verb};
use cloud_simulator::faults::{Act, Rule};
use cloud_simulator::model::{Console, Effect, ServerInfo, TaskScript};
use devcluster::audit::Entry;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longer than a listing at the pace of running operations (5 s), and longer than the settling time (2 s).
const QUIET: Duration = Duration::from_secs(8);

/// The state of the world before a change: later entries belong to the change.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// The last sequence number in the ledger.
    pub seq: u64,
    /// The time of the mark: the last lines of the audit log may appear later than the effects of their requests.
    pub at: Timestamp,
    /// The newest attempt that had ended.
    attempt: i64,
}

impl Default for Mark {
    /// The start of the world.
    fn default() -> Self {
        Self {
            seq: 0,
            at: Timestamp::UNIX_EPOCH,
            attempt: 0,
        }
    }
}

/// Records the current state of the world.
pub async fn mark(world: &World, name: &str) -> Mark {
    let status = world.get(name).await.status;
    Mark {
        seq: world.sim.ledger().last_seq(),
        at: Timestamp::now(),
        attempt: status
            .and_then(|status| status.history.first().map(|entry| entry.attempt))
            .unwrap_or_default(),
    }
}

/// The operator's writes to an Instance since then, as text.
pub async fn written(world: &World, name: &str, since: &Mark) -> Vec<String> {
    written_since(world, Some(name), since.at).await
}

async fn written_since(world: &World, name: Option<&str>, since: Timestamp) -> Vec<String> {
    let is_in_status = |e: &Entry| match name {
        Some(_) => format!("{}/{} {}", e.verb, e.subresource, e.code),
        None => format!("{}/{} {} {}", e.verb, e.subresource, e.name, e.code),
    };
    let writes = once(world.writes().await);
    writes
        .iter()
        .filter(|e| e.received_at >= since && name.is_none_or(|name| e.name == name))
        .map(is_in_status)
        .collect()
}

/// How long the operator waits for the answer to a write.
const DEADLINE: SignedDuration = SignedDuration::from_secs(15);

/// The writes in the order in which they arrived, without the repeated ones whose first answer came too late: in those cases
/// the apiserver stood still.
pub fn once(mut writes: Vec<Entry>) -> Vec<Entry> {
    writes.sort_by_key(|write| write.received_at);
    let same = |a: &Entry, b: &Entry| {
        (&a.resource, &a.name, &a.subresource) == (&b.resource, &b.name, &b.subresource)
    };
    let is_again = |nth: usize| {
        let mut former = writes[..nth].iter().rev();
        let former = former.find(|former| same(former, &writes[nth]));
        former.is_some_and(|former| former.duration() >= DEADLINE)
    };
    let new: Vec<_> = (0..writes.len()).filter(|nth| !is_again(*nth)).collect();
    new.into_iter().map(|nth| writes[nth].clone()).collect()
}

/// Paths of the calls since then that were meant to change something, refused or not.
pub fn posts(world: &World, since: u64) -> Vec<String> {
    let ledger = world.sim.ledger();
    let entries = ledger.since(since).into_iter();
    entries
        .filter(|entry| entry.method == "POST")
        .map(|entry| entry.path.trim_start_matches("/instance/").to_owned())
        .collect()
}

/// Names of the effects since then.
pub fn effects(world: &World, since: u64) -> Vec<String> {
    let ledger = world.sim.ledger();
    let entries = ledger.since(since).into_iter();
    entries
        .filter(|entry| !entry.effect.is_none())
        .map(|entry| {
            let text = format!("{:?}", entry.effect);
            text.split([' ', '{']).next().unwrap_or_default().to_owned()
        })
        .collect()
}

/// The operations that ended after the mark, in order.
pub fn ended(instance: &Instance, mark: &Mark) -> Vec<HistoryEntry> {
    let status = instance.status.as_ref().unwrap();
    let newer = status
        .history
        .iter()
        .take_while(|e| e.attempt > mark.attempt);
    let mut newer: Vec<_> = newer.cloned().collect();
    newer.reverse();
    newer
}

/// Waits until the operations that began after the mark have succeeded and the Instance is ready.
pub async fn done(world: &World, name: &str, mark: &Mark, verbs: &[Verb]) -> Instance {
    let what = format!("{verbs:?} done");
    let instance = world
        .until(name, &what, |instance| {
            is_ready(instance) && ended(instance, mark).len() >= verbs.len()
        })
        .await;
    let newer = ended(&instance, mark);
    let did: Vec<Verb> = newer.iter().map(|entry| entry.verb).collect();
    assert_eq!(did, verbs, "{}", world.ledger_text());
    assert!(newer.iter().all(|entry| entry.succeeded), "{newer:#?}");
    assert_idle(world, &instance);
    instance
}

/// Waits until the verb was carried out and the Instance is ready.
pub async fn has_done(world: &World, name: &str, verb: Verb) -> Instance {
    let what = format!("has done the {verb} and is Ready");
    world
        .until(name, &what, |instance| {
            let mut history = instance.status.as_ref().unwrap().history.iter();
            is_ready(instance) && history.any(|entry| entry.verb == verb && entry.succeeded)
        })
        .await
}

/// Waits until the history contains an attempt that failed with these words. The entry remains after the next attempt has begun
/// or succeeded, unlike the reason of Ready, which a late writer or reader may miss.
pub async fn failed(world: &World, name: &str, words: &str) -> Instance {
    let what = format!("a failed attempt is reported: {words}");
    let names_them = |entry: &HistoryEntry| {
        let message = entry.message.as_deref().unwrap_or_default();
        !entry.succeeded && message.contains(words)
    };
    let holds = |instance: &Instance| {
        let status = instance.status.as_ref();
        status.is_some_and(|status| status.history.iter().any(names_them))
    };
    world.until(name, &what, holds).await
}

/// Asserts that the Instance is Ready with nothing in flight; returns its one server.
pub fn assert_idle(world: &World, instance: &Instance) -> ServerInfo {
    let status = instance.status.as_ref().unwrap();
    assert!(is_ready(instance), "{}", outline(instance));
    assert!(status.operation.is_none());
    assert_eq!(
        abnormal(status),
        0,
        "abnormal conditions exist only while they are true: {}",
        outline(instance)
    );
    world.only_server(instance)
}

/// Asserts that for a while nothing is called, and nothing of the Instance is written.
pub async fn quiet(world: &World, name: &str) {
    stays_quiet(world, Some(name)).await;
}

/// The same for all Instances.
pub async fn quiet_all(world: &World) {
    stays_quiet(world, None).await;
}

/// Waits until no Instance was written for longer than the operator waits for an answer. Then it repeats no write anymore whose
/// answer the network has lost.
pub async fn no_write_is_repeated(world: &World) {
    eventually("no write for the time of an answer", async || {
        let written = written_since(world, None, Timestamp::now() - DEADLINE).await;
        match written.is_empty() {
            true => Ok(()),
            false => Err(format!("{written:?}")),
        }
    })
    .await;
}

/// Asserts that since then each Instance was written at most once, for a while: another version may word a status differently.
pub async fn written_once(world: &World, since: Timestamp) {
    stays("no second write", QUIET, async || {
        let written = written_since(world, None, since).await;
        let distinct: BTreeSet<&String> = written.iter().collect();
        match distinct.len() == written.len() {
            true => Ok(()),
            false => Err(format!("{written:?}")),
        }
    })
    .await;
}

async fn stays_quiet(world: &World, name: Option<&str>) {
    let calls = posts(world, 0).len();
    let (since, before) = (Timestamp::now(), world.all().await);
    stays("no further call", QUIET, async || {
        if posts(world, 0).len() == calls {
            Ok(())
        } else {
            Err(world.ledger_text())
        }
    })
    .await;
    let written = written_since(world, name, since).await;
    if !written.is_empty() {
        let status = |all: &BTreeMap<String, Instance>| {
            all.iter()
                .map(|(name, instance)| {
                    (
                        name.clone(),
                        serde_json::to_value(&instance.status).unwrap(),
                    )
                })
                .collect::<Value>()
        };
        let change = json_patch::diff(&status(&before), &status(&world.all().await));
        panic!("written in a quiet time: {written:?}: {change}");
    }
}

/// The service's path for a verb.
pub fn path_of(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "/instance/create",
        Verb::Release => "/instance/release",
        Verb::Reinstall => "/instance/reinstallSystem",
        Verb::ModifyPassword => "/instance/modifyInstancePassword",
        Verb::Start => "/instance/start",
        Verb::Stop => "/instance/stop",
        Verb::Restart => "/instance/restart",
    }
}

/// How many calls of a verb the service accepted, and how many it carried out: for one server, or for all.
pub fn counts(world: &World, verb: Verb, server: Option<&str>) -> (usize, usize) {
    let ledger = world.sim.ledger();
    let (mut accepted, mut completed) = (0, 0);
    let of = |effect: &&Effect| server.is_none() || effect.server() == server;
    for effect in ledger.effects().into_iter().filter(of) {
        match (verb, effect) {
            (Verb::Create, Effect::Created { .. })
            | (Verb::Release, Effect::ReleaseAccepted { .. })
            | (Verb::Reinstall, Effect::ReinstallAccepted { .. })
            | (Verb::ModifyPassword, Effect::PasswordAccepted { .. })
            | (Verb::Start, Effect::StartAccepted { .. })
            | (Verb::Stop, Effect::StopAccepted { .. })
            | (Verb::Restart, Effect::RestartAccepted { .. }) => accepted += 1,
            (Verb::Create, Effect::Deployed { .. })
            | (Verb::Release, Effect::Released { .. })
            | (Verb::Reinstall, Effect::Reinstalled { .. })
            | (Verb::ModifyPassword, Effect::PasswordChanged { .. })
            | (Verb::Start, Effect::Started { .. })
            | (Verb::Stop, Effect::Stopped { .. })
            | (Verb::Restart, Effect::Restarted { .. }) => completed += 1,
            _ => {}
        }
    }
    (accepted, completed)
}

/// Puts another password into the login Secret.
pub async fn new_password(world: &World) {
    world.secret("login", "password", World::NEW_PASSWORD).await;
}

/// The password of a server's login.
pub fn password_of(world: &World, id: &str) -> Option<String> {
    world.sim.world(|w| w.password_of(id))
}

/// Acts at the provider's console, unknown to the operator.
pub fn console(world: &World, action: Console) {
    world.sim.world(|w| w.console(action)).unwrap();
}

/// The task of the next call of this verb ends when the test ends it ([`end_task`]): the reports while it runs do not depend on
/// how soon the operator asks.
pub fn endless(world: &World, verb: Verb) {
    let never = Act::Task(TaskScript::Never);
    world.sim.fault(Rule::on(path_of(verb), never).times(1));
}

/// Waits until a task runs on the Instance's server, and lets it succeed: a report from before the operator's call contains no
/// task.
pub async fn end_task(world: &World, instance: &Instance) {
    let server = eventually("a task runs on its server", async || {
        let server = world.only_server(instance);
        match server.pending {
            "NONE" => Err(world.ledger_text()),
            _ => Ok(server.id),
        }
    })
    .await;
    console(world, Console::EndTask { server });
}

/// Makes an Instance whose create never ends: it keeps the listing at the pace of running operations (5 s), so that a test does
/// not wait for the pace of an idle fleet. Returns its server, whose task can be ended at the console.
pub async fn busy(world: &World) -> String {
    let never = Act::Task(TaskScript::Never);
    let rule = Rule::on(path_of(Verb::Create), never).containing("\"busy-");
    world.sim.fault(rule.times(1));
    let busy = world.apply(&instance("busy")).await;
    eventually("the busy one is bought", async || {
        let server = world.live(&busy).pop();
        server
            .map(|server| server.id)
            .ok_or_else(|| world.ledger_text())
    })
    .await
}
