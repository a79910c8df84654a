//! A change and what comes of it: calls, effects, writes, the operations that ended.

use super::objects::{abnormal, instance, is_ready, outline};
use super::wait::{eventually, stays};
use super::world::World;
use cloud_server_operator::api::{HistoryEntry, Instance, Verb};
use cloud_simulator::faults::{Act, Rule};
use cloud_simulator::model::{Console, Effect, ServerInfo, TaskScript};
use devcluster::audit::Entry;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longer than a listing at the pace of running operations (5 s), and longer than the settling time (2 s).
const QUIET: Duration = Duration::from_secs(8);

/// Where the world stands before a change: what comes later is of that change.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// The ledger's last number.
    pub seq: u64,
    /// Then: the last lines of the audit log may come later than what they tell of shows.
    pub at: Timestamp,
    /// The newest attempt that has ended.
    attempt: i64,
}

impl Default for Mark {
    /// The beginning.
    fn default() -> Self {
        Self {
            seq: 0,
            at: Timestamp::UNIX_EPOCH,
            attempt: 0,
        }
    }
}

/// Marks where the world stands.
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

/// The operator's writes of an Instance since, told.
pub async fn written(world: &World, name: &str, since: &Mark) -> Vec<String> {
    written_since(world, Some(name), since.at).await
}

async fn written_since(world: &World, name: Option<&str>, since: Timestamp) -> Vec<String> {
    let told = |e: &Entry| match name {
        Some(_) => format!("{}/{} {}", e.verb, e.subresource, e.code),
        None => format!("{}/{} {} {}", e.verb, e.subresource, e.name, e.code),
    };
    let writes = once(world.writes().await);
    writes
        .iter()
        .filter(|e| e.received_at >= since && name.is_none_or(|name| e.name == name))
        .map(told)
        .collect()
}

/// How long the operator waits for the answer to a write.
const DEADLINE: SignedDuration = SignedDuration::from_secs(15);

/// The writes in the order in which they came, without those that were made again because the answer came too late to be heard:
/// it is the apiserver that stood still.
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

/// Paths of the calls that were made to change something since, refused or not.
pub fn posts(world: &World, since: u64) -> Vec<String> {
    let ledger = world.sim.ledger();
    let entries = ledger.since(since).into_iter();
    entries
        .filter(|entry| entry.method == "POST")
        .map(|entry| entry.path.trim_start_matches("/instance/").to_owned())
        .collect()
}

/// Names of the effects since.
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

/// The operations that ended after the mark, in their order.
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

/// Waits until the operations that began after the mark have ended well and the Instance is ready.
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
    at_rest(world, &instance);
    instance
}

/// Waits until the history tells of an attempt that failed with these words. It goes on telling when the next attempt has
/// begun or succeeded, unlike the reason of Ready, which a writer or a reader that is late may miss.
pub async fn failed(world: &World, name: &str, words: &str) -> Instance {
    let what = format!("a failed attempt is told: {words}");
    let tells = |entry: &HistoryEntry| {
        let message = entry.message.as_deref().unwrap_or_default();
        !entry.succeeded && message.contains(words)
    };
    let holds = |instance: &Instance| {
        let status = instance.status.as_ref();
        status.is_some_and(|status| status.history.iter().any(tells))
    };
    world.until(name, &what, holds).await
}

/// Ready, nothing in flight, one server.
pub fn at_rest(world: &World, instance: &Instance) -> ServerInfo {
    let status = instance.status.as_ref().unwrap();
    assert!(is_ready(instance), "{}", outline(instance));
    assert!(status.operation.is_none());
    assert_eq!(
        abnormal(status),
        0,
        "abnormal conditions stand only while they are true: {}",
        outline(instance)
    );
    world.only_server(instance)
}

/// Nothing is called, and nothing of the Instance written, for a while.
pub async fn quiet(world: &World, name: &str) {
    stays_quiet(world, Some(name)).await;
}

/// The same of all Instances.
pub async fn quiet_all(world: &World) {
    stays_quiet(world, None).await;
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

/// Where the service takes a verb.
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

/// How often the service took a verb, and how often it was carried out: of one server, or of all.
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

/// The login Secret holds another password.
pub async fn new_password(world: &World) {
    world.secret("login", "password", World::NEW_PASSWORD).await;
}

/// The password that a server's login has.
pub fn password_of(world: &World, id: &str) -> Option<String> {
    world.sim.world(|w| w.password_of(id))
}

/// Acts behind the operator's back.
pub fn console(world: &World, action: Console) {
    world.sim.world(|w| w.console(action)).unwrap();
}

/// The task of the next call of this verb ends when the test says so ([`end_task`]): what is told while it runs does not depend
/// on how soon the operator asks.
pub fn endless(world: &World, verb: Verb) {
    let never = Act::Task(TaskScript::Never);
    world.sim.fault(Rule::on(path_of(verb), never).times(1));
}

/// The task on the Instance's server ends well, as soon as one runs: what is told before its call tells of none.
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

/// An Instance whose create never ends: it keeps the listing at the pace of running operations (5 s), where a test need not
/// wait for the pace of a quiet fleet. Gives its server, whose task can be ended at the console.
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
