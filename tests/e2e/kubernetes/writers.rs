//! Conflicts with other writers, answers by a middlebox, an overloaded apiserver (rows K9, K10, K15).

use super::{all, none, recovers};
use crate::support::wire::{Act, Kind, WireRequest};
use crate::support::{
    Setup, World, assert_idle, counts, create_calls, ended, eventually, instance, is_ready, mark,
    once, other_image, side_by_side, stays,
};
use cloud_server_operator::api::{Instance, Verb};
use devcluster::audit::Entry;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Two writers that change an object's annotations, labels and status without end, up to a hundred times per second in total.
struct Storm([JoinHandle<()>; 2]);

impl Storm {
    fn on(world: &World, name: &'static str) -> Self {
        let api: Api<Instance> = world.instances();
        Self([(), ()].map(|()| tokio::spawn(write(api.clone(), name))))
    }

    fn end(self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

async fn write(api: Api<Instance>, name: &str) {
    let mut ticks = interval(Duration::from_millis(20));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let params = PatchParams::default();
    for n in 0_u64.. {
        ticks.tick().await;
        let word = format!("{n}");
        // Refused writes, since the object is gone, do not count: the audit log of the apiserver counts.
        let _ = match n % 3 {
            0 => {
                let patch = json!({"metadata": {"annotations": {"storm": word}}});
                api.patch(name, &params, &Patch::Merge(&patch)).await
            }
            1 => {
                let patch = json!({"metadata": {"labels": {"storm": word}}});
                api.patch(name, &params, &Patch::Merge(&patch)).await
            }
            _ => {
                let now = Timestamp::now().to_string();
                let patch = json!({"status": {"lastObservedTime": now}});
                api.patch_status(name, &params, &Patch::Merge(&patch)).await
            }
        };
    }
}

/// The number of writes in each second that has any, the busiest last.
fn by_second(writes: &[Entry], from: Timestamp, to: Timestamp) -> Vec<usize> {
    let mut seconds = BTreeMap::<i64, usize>::new();
    let within = writes.iter().map(|write| write.received_at);
    for at in within.filter(|at| (from..to).contains(at)) {
        *seconds.entry(at.as_second()).or_default() += 1;
    }
    let mut counts: Vec<_> = seconds.into_values().collect();
    counts.sort_unstable();
    counts
}

/// Asserts that the other writers were active during each of these steps; otherwise the test proves nothing. It uses the audit
/// log, which shows the writes that were accepted. Their number per second depends on the machine; it must exceed that of the
/// operator's own writes, so that several come between a read and a write of the operator.
async fn blew(world: &World, name: &str, steps: &[(&str, Timestamp, Timestamp)]) {
    let others = world.others_writes(name).await;
    let own = world.writes().await;
    for (step, from, to) in steps {
        let seconds = by_second(&others, *from, *to);
        let total: usize = seconds.iter().sum();
        let own = own
            .iter()
            .filter(|write| write.name == name && (*from..*to).contains(&write.received_at));
        let own = own.count();
        println!(
            "K9: {name}, {step}: {total} writes of others in {:.1} s, {} in the middle one of its seconds, {} in the \
             busiest; {own} of ours",
            (*to - *from).total(jiff::Unit::Second).unwrap(),
            seconds.get(seconds.len() / 2).unwrap_or(&0),
            seconds.last().unwrap_or(&0),
        );
        assert!(
            total >= 5 && total > own,
            "no storm at the {step}: {seconds:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_other_writes_delays_little_and_loses_no_task() {
    let world = Setup::default().begin("k9-storm").await;
    let names = ["web-1", "web-2"];
    let mut storms = Vec::new();
    let begun = Timestamp::now();
    for name in names {
        world.apply(&instance(name)).await;
        storms.push(Storm::on(&world, name));
    }
    recovers("K9: created in the storm", async || {
        all(&world, &names, is_ready).await
    })
    .await;
    let created_at = Timestamp::now();
    let created = once(world.writes().await);
    let before = [mark(&world, "web-1").await, mark(&world, "web-2").await];
    for name in names {
        world.apply(&other_image(name)).await;
    }
    recovers("K9: reinstalled in the storm", async || {
        for (name, mark) in names.iter().zip(&before) {
            let found = world.get(name).await;
            if !is_ready(&found) || ended(&found, mark).is_empty() {
                return Err(crate::support::outline(&found));
            }
        }
        Ok(())
    })
    .await;
    for (name, mark) in names.iter().zip(&before) {
        let history = ended(&world.get(name).await, mark);
        assert!(history.iter().all(|entry| entry.succeeded), "{history:#?}");
    }
    let reinstalled_at = Timestamp::now();
    let reinstalled = once(world.writes().await);
    for name in names {
        world.delete(name).await;
    }
    recovers("K9: deleted in the storm", async || {
        none(&world, &names).await
    })
    .await;
    let deleted = Timestamp::now();
    storms.into_iter().for_each(Storm::end);
    let steps = [
        ("create", begun, created_at),
        ("reinstall", created_at, reinstalled_at),
        ("deletion", reinstalled_at, deleted),
    ];
    for name in names {
        blew(&world, name, &steps).await;
    }
    let all_writes = once(world.writes().await);
    let lines = |writes: &[Entry]| -> Vec<String> {
        let lines = writes.iter();
        lines
            .map(|e| format!("{} {} {}", e.name, e.subresource, e.code))
            .collect()
    };
    println!(
        "K9: writes of ours: create {}, reinstall {}, delete {}",
        created.len(),
        reinstalled.len() - created.len(),
        all_writes.len() - reinstalled.len(),
    );
    assert_eq!(create_calls(&world.sim), 2, "{}", world.ledger_text());
    assert_eq!(counts(&world, Verb::Reinstall, None), (2, 2));
    assert_eq!(counts(&world, Verb::Release, None), (2, 2));
    // Required: 3 for a create, 3 for a reinstall, 2 for a deletion, for each of two Instances. Conflicts double that, and more
    // on a slow machine. If the operator reacted to every write of the others, it would be as many as those.
    let mut others = 0;
    for name in names {
        others += world.others_writes(name).await.len();
    }
    let most = 2 * (3 + 3 + 2) * 4 + others / 4;
    assert!(all_writes.len() <= most, "{:#?}", lines(&all_writes));
    world.finish().await;
}

/// Selects every other write of an Instance.
fn every_other(request: &WireRequest, count: &AtomicUsize) -> bool {
    request.is(Kind::Write, "instances") && count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2)
}

async fn answered_by_the_wire(act: Act) {
    let world = Setup::default().wire().begin("k10-answers").await;
    let names = ["web-1", "web-2"];
    let count = AtomicUsize::new(0);
    // The operator waits 15 s for a write that is never answered, so there are few of them.
    let times = match act {
        Act::Silence => 2,
        // After each refused write, the operator waits longer.
        Act::Answer(_) => 6,
        _ => usize::MAX,
    };
    let fits = move |request: &WireRequest| every_other(request, &count);
    let fault = world.wire().times(times, fits, act.clone());
    let begun = Instant::now();
    for name in names {
        world.apply(&instance(name)).await;
    }
    eventually("K10: created", async || all(&world, &names, is_ready).await).await;
    for name in names {
        world.apply(&other_image(name)).await;
    }
    eventually("K10: reinstalled", async || {
        all(&world, &names, is_ready).await
    })
    .await;
    for name in names {
        world.delete(name).await;
    }
    eventually("K10: deleted", async || none(&world, &names).await).await;
    let took = begun.elapsed().as_secs_f64();
    println!("K10: {act:?}, met {} times, {took:.1} s", fault.met());
    assert!(fault.met() >= 2, "the fault was hardly met");
    assert_eq!(create_calls(&world.sim), 2, "{}", world.ledger_text());
    assert_eq!(counts(&world, Verb::Reinstall, None), (2, 2));
    assert_eq!(counts(&world, Verb::Release, None), (2, 2));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_the_wire_answers_are_done_once() {
    let acts = [
        Act::AnswerAfter(504),
        Act::Answer(504),
        Act::AnswerAfter(409),
        Act::AnswerAfter(500),
        Act::Silence,
    ];
    side_by_side(acts.len(), acts, answered_by_the_wire).await;
}

/// How long the apiserver is overloaded.
const BUSY: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_apiserver_that_is_busy_or_slow_is_not_pressed() {
    let mut world = Setup::default().wire().leases().begin("k15-busy").await;
    world.until_active().await;
    let holder = world.holder().await;
    let names = ["web-1", "web-2", "web-3", "web-4"];
    for name in names {
        world.apply(&instance(name)).await;
    }
    eventually("ready", async || all(&world, &names, is_ready).await).await;
    let is_counted = |request: &WireRequest| request.resource != "leases";
    eventually("no write is pending", async || {
        let requests = world.wire().requests();
        let last = requests.iter().rfind(|request| is_counted(request));
        match last.filter(|last| last.at.elapsed() < Duration::from_secs(3)) {
            Some(last) => Err(format!("{last:?}")),
            None => Ok(()),
        }
    })
    .await;
    let begun = Instant::now();
    // Renewals of the Lease have their own priority level.
    let busy = world.wire().on(is_counted, Act::ComeAgain(429, 2));
    world.apply(&other_image("web-1")).await;
    world.apply(&instance("web-5")).await;
    world.delete("web-2").await;
    stays("nothing happens blindly", BUSY, async || {
        match counts(&world, Verb::Reinstall, None).0 + counts(&world, Verb::Release, None).0 {
            0 => Ok(()),
            _ => Err(world.ledger_text()),
        }
    })
    .await;
    let mut counts_by_request: BTreeMap<String, usize> = BTreeMap::new();
    for one in world.wire().requests() {
        // The last check may have been slow, and the window longer because of it.
        if (begun..begun + BUSY).contains(&one.at) && is_counted(&one) {
            let what = format!("{:?} {} {}", one.kind, one.resource, one.name);
            *counts_by_request.entry(what).or_default() += 1;
        }
    }
    let sum: usize = counts_by_request.values().sum();
    println!("K15: {sum} requests in 15 s of 429: {counts_by_request:?}");
    // Three objects with changes, each tried after 1, 2, 4, 8 s with a read and two writes.
    assert!(sum <= 60, "{sum} requests in 15 s: {counts_by_request:#?}");
    busy.heal();
    // From here on every request takes two seconds.
    let slow = world.wire().on(|_| true, Act::Late(Duration::from_secs(2)));
    let names = ["web-1", "web-3", "web-4", "web-5"];
    recovers(
        "K15: continues although every request takes 2 s",
        async || {
            none(&world, &["web-2"]).await?;
            all(&world, &names, is_ready).await
        },
    )
    .await;
    slow.heal();
    assert_eq!(world.holder().await, holder, "the Lease went on");
    assert!(world.operator().is_running());
    assert_eq!(counts(&world, Verb::Reinstall, None), (1, 1));
    assert_eq!(create_calls(&world.sim), 5);
    for name in names {
        assert_idle(&world, &world.get(name).await);
    }
    world.finish().await;
}

/// The purpose of a read or write: status, record or finalizer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Matter {
    is_write: bool,
    resource: String,
    name: String,
    is_status: bool,
    /// Receipts and finalizers are JSON patches, intents are not.
    is_patch: bool,
}

impl Matter {
    /// None for requests that do not concern a single object, and for the Account, which all share.
    fn of(request: &WireRequest) -> Option<Self> {
        let is_write = match request.kind {
            Kind::Get => false,
            Kind::Write => true,
            Kind::List | Kind::Stream | Kind::Watch | Kind::DryRun => return None,
        };
        let is_meant = !request.name.is_empty() && request.resource != "accounts";
        is_meant.then(|| Self {
            is_write,
            resource: request.resource.clone(),
            name: request.name.clone(),
            is_status: request.target.contains("/status"),
            is_patch: request.body.trim_start().starts_with('['),
        })
    }
}

/// A second, minus a fifth, minus the network's delay.
const COME_AGAIN: Duration = Duration::from_millis(700);
/// How often each request is refused before it is accepted.
const REFUSALS: usize = 2;

/// Every read and write of a create is refused at first, with a Retry-After of one second: of the Secret, the intent, the
/// receipt, the status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_at_an_apiserver_that_refuses_each_request_at_first_buy_one_server_each() {
    let world = Setup::default().wire().begin("k15-create").await;
    let names = ["web-1", "web-2", "web-3", "web-4"];
    let seen = Mutex::new(BTreeMap::<Matter, usize>::new());
    let is_early = move |request: &WireRequest| {
        Matter::of(request).is_some_and(|matter| {
            let mut seen = seen.lock().unwrap();
            let count = seen.entry(matter).or_default();
            *count += 1;
            *count <= REFUSALS
        })
    };
    let refused = world.wire().on(is_early, Act::ComeAgain(429, 1));
    for name in names {
        world.apply(&instance(name)).await;
    }
    recovers(
        "K15: bought although each request is refused twice",
        async || all(&world, &names, is_ready).await,
    )
    .await;
    assert_eq!(create_calls(&world.sim), 4, "{}", world.ledger_text());
    let mut tries = BTreeMap::<Matter, Vec<Instant>>::new();
    for request in world.wire().requests() {
        if let Some(matter) = Matter::of(&request) {
            tries.entry(matter).or_default().push(request.at);
        }
    }
    for name in names {
        assert_idle(&world, &world.get(name).await);
        for (what, is_status, is_patch) in [
            ("intent", false, false),
            ("receipt", false, true),
            ("status", true, true),
        ] {
            let matter = Matter {
                is_write: true,
                resource: "instances".to_owned(),
                name: name.to_owned(),
                is_status,
                is_patch,
            };
            let at = tries.get(&matter).cloned().unwrap_or_default();
            let pauses: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
            println!("K15: {name}, {what}: {pauses:.1?} between tries");
            assert!(
                at.len() > REFUSALS,
                "the {what} was not refused: {tries:#?}"
            );
            match what {
                // The pauses are the operator's own, ± a fifth: a slow machine makes them longer, and nothing makes them
                // shorter.
                "intent" => assert!(
                    pauses[..REFUSALS].iter().all(|pause| *pause >= COME_AGAIN),
                    "the intent of {name} came too early: {pauses:?}"
                ),
                // The receipt is most important once a server is bought: it is tried three times at once, then in reconciles of
                // its own.
                "receipt" => assert!(at.len() <= REFUSALS + 1, "{pauses:?}"),
                // Each step has something new to write, independently of the last write.
                _ => assert!(at.len() <= REFUSALS + 6, "{pauses:?}"),
            }
        }
    }
    println!("K15: {} requests refused", refused.met());
    world.finish().await;
}
