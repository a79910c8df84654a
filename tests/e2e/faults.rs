//! Faults of the service: each on a create, a reinstall and a password change, on each query, on tasks and on listings. A fault
//! appears once, or lasts for a while, and ends. Then the Instance has the state of its spec without human action, and no
//! operation was repeated that must not be.
//!
//! The Instances of a test share a world and get their faults at the same time.

mod tasks;

use crate::support::{
    PATIENCE, Setup, World, condition, console, counts, eventually, failed, has_done, instance,
    is_ready, new_password, other_image, outline, password_of, path_of, posts, quiet_all,
    server_id, stopped,
};
use cloud_server_operator::api::{Instance, Marker, Verb};
use cloud_simulator::faults::{Act, Rule, When};
use cloud_simulator::model::{Console, TaskScript};
use kube::ResourceExt;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Answers without information about the outcome, and malformed answers.
fn spoilt() -> Vec<(&'static str, Act)> {
    vec![
        ("truncated", Act::Truncate),
        ("garbled", Act::Garble),
        ("html", Act::Html),
        ("wrong-types", Act::WrongTypes),
        ("nulls", Act::Nulls),
        ("huge", Act::Huge { bytes: 10_000_000 }),
    ]
}

fn error(status: u16, when: When) -> Act {
    Act::Error {
        status,
        code: "InternalError.Unknown".to_owned(),
        message: "something broke".to_owned(),
        retry_after: None,
        when,
    }
}

/// The faults of a mutating call; each name is an Instance's.
fn on_mutations() -> Vec<(&'static str, Act)> {
    let (before, after) = (When::BeforeEffect, When::AfterEffect);
    let mut all = vec![
        ("lost-before", Act::Lose { when: before }),
        ("lost-after", Act::Lose { when: after }),
        ("error-before", error(502, before)),
        ("error-after", error(500, after)),
        (
            "refuses",
            Act::Business {
                status: 202,
                code: "OperationDenied.NotNow".to_owned(),
                message: "not now".to_owned(),
                success_false: true,
                when: before,
            },
        ),
        ("slow", Act::SlowBytes { millis: 10 }),
        ("doubled", Act::Duplicate),
        // Before the end of the settling time.
        ("late", Act::Late { millis: 1_000 }),
    ];
    all.extend(spoilt());
    all
}

/// Applies an Instance for each name, and waits until they have their desired state.
async fn fleet(
    world: &World,
    names: &[&str],
    manifest_of: impl Fn(&str) -> Value,
) -> Vec<Instance> {
    for name in names {
        world.apply(&manifest_of(name)).await;
    }
    let mut all = Vec::new();
    for name in names {
        let power = match manifest_of(name)["spec"]["powerState"].as_str() {
            Some("Stopped") => "STOPPED",
            _ => "STARTED",
        };
        let shows = |i: &Instance| {
            let detail = &i.status.as_ref().unwrap().detail;
            is_ready(i) && detail.get("ecsStatus").is_some_and(|now| now == power)
        };
        all.push(world.until(name, "is as the test begins", shows).await);
    }
    all
}

/// Asserts that the Instance has the state of its spec, on one server.
fn assert_as_requested(world: &World, instance: &Instance, password: &str) {
    let server = world.only_server(instance);
    assert_eq!(server_id(instance), server.id);
    assert_eq!(Some(&server.image), instance.spec.image.id.as_ref());
    assert_eq!(server.pending, "NONE");
    let has = password_of(world, &server.id);
    let name = instance.name_any();
    assert_eq!(
        has.as_deref(),
        Some(password),
        "{name}: {}",
        world.ledger_text()
    );
}

/// Each fault once, on a verb of a separate Instance.
async fn each_fault_on(verb: Verb) {
    let world = Setup::default().begin("faults").await;
    let faults = on_mutations();
    let names: Vec<&str> = faults.iter().map(|(name, _)| *name).collect();
    let path = path_of(verb);
    let arm = |text: &str, act: &Act| {
        let rule = Rule::on(path, act.clone()).containing(text).times(1);
        world.sim.fault(rule)
    };
    let mut armed = Vec::new();
    if verb == Verb::Create {
        // The name in the request begins with the Instance's.
        armed.extend(
            faults
                .iter()
                .map(|(name, act)| arm(&format!("\"{name}-"), act)),
        );
        for name in &names {
            world.apply(&instance(name)).await;
        }
    } else {
        let ready = fleet(&world, &names, instance).await;
        let ids = ready.iter().map(server_id);
        armed.extend(ids.zip(&faults).map(|(id, (_, act))| arm(&id, act)));
    }
    let before: Vec<_> = match verb {
        Verb::Create => vec![(0, 0); names.len()],
        _ => {
            let servers = world.sim.servers().into_iter();
            servers
                .map(|server| counts(&world, verb, Some(&server.id)))
                .collect()
        }
    };
    assert!(before.iter().all(|count| *count == (0, 0)), "{before:?}");
    let uids = uids(&world).await;
    match verb {
        Verb::Create => {}
        Verb::ModifyPassword => new_password(&world).await,
        _ => {
            for name in &names {
                world.apply(&changed(name, verb)).await;
            }
        }
    }
    for name in &names {
        has_done(&world, name, verb).await;
    }
    for (id, name) in armed.iter().zip(&names) {
        assert_eq!(
            world.sim.faults().hits(*id),
            1,
            "{name}: the fault was not met"
        );
    }
    if verb == Verb::Create {
        eventually(
            "the surplus of the doubled create is released",
            async || match world.sim.live_servers().len() {
                live if live == names.len() => Ok(()),
                _ => Err(world.ledger_text()),
            },
        )
        .await;
    }
    quiet_all(&world).await;
    let password = match verb {
        Verb::ModifyPassword => World::NEW_PASSWORD,
        _ => World::PASSWORD,
    };
    for (name, uid) in &uids {
        let marker = Marker::of_uid(uid);
        let servers = world.sim.servers().into_iter();
        let mine: Vec<_> = servers
            .filter(|server| Marker::in_name(&server.name).as_ref() == Some(&marker))
            .collect();
        let doubled = verb == Verb::Create && name == "doubled";
        assert_eq!(
            mine.len(),
            1 + usize::from(doubled),
            "{}",
            world.ledger_text()
        );
        let now = world.get(name).await;
        assert!(is_ready(&now), "{}", outline(&now));
        assert_as_requested(&world, &now, password);
        let (accepted, completed) = counts(&world, verb, Some(&server_id(&now)));
        println!("FAULT {verb:?} {name}: accepted {accepted}, completed {completed}");
        // An operation may be repeated only if nothing shows whether it was done.
        let readable = matches!(name.as_str(), "slow" | "doubled" | "refuses");
        let hidden = verb == Verb::ModifyPassword;
        let most = if hidden && !readable { 2 } else { 1 };
        let context = || format!("{verb} {name}: {}", world.ledger_text());
        assert!((1..=most).contains(&completed), "{}", context());
        assert!(accepted <= most, "{}", context());
    }
    if verb == Verb::Create {
        let doubled = uids.iter().find(|(name, _)| name == "doubled").unwrap();
        world.assert_never_two_but(&[Marker::of_uid(&doubled.1)]);
        world.finish_with_surplus().await;
    } else {
        world.finish().await;
    }
}

/// Names and UIDs of all Instances.
async fn uids(world: &World) -> Vec<(String, String)> {
    let each = world.all().await.into_iter();
    each.map(|(name, i)| (name, i.uid().unwrap())).collect()
}

/// The manifest that requests the verb.
fn changed(name: &str, verb: Verb) -> Value {
    match verb {
        Verb::Reinstall => other_image(name),
        _ => instance(name),
    }
}

macro_rules! faults_on {
    ($($test:ident: $verb:ident;)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            each_fault_on(Verb::$verb).await;
        }
    )+};
}

faults_on! {
    each_fault_on_a_create_ends_with_one_server: Create;
    each_fault_on_a_reinstall_ends_with_one_reinstall: Reinstall;
    each_fault_on_a_password_change_ends_with_the_new_password: ModifyPassword;
}

/// The longest wait of the client is a minute: one call hangs, and no other call waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_hangs_times_out_and_delays_no_other_instance() {
    let world = Setup::default().begin("hang").await;
    let hang = |when| Act::Hang { when };
    let create = path_of(Verb::Create);
    let rule = Rule::on(create, hang(When::AfterEffect))
        .containing("\"hangs-")
        .times(1);
    world.sim.fault(rule);
    let hung = Instant::now();
    world.apply(&instance("hangs")).await;
    world
        .sim
        .wait_until(|w| w.servers().len() == 1, PATIENCE)
        .await
        .unwrap();
    world.apply(&instance("other")).await;
    let other = world.ready("other").await;
    let hangs = world.get("hangs").await;
    // The client gives up after a minute, which may be over on a stalled machine.
    assert!(
        !is_ready(&hangs) || hung.elapsed() > Duration::from_secs(55),
        "it hung, or the test tests nothing"
    );
    // A query hangs as well, for half of the time.
    let detail = Rule::on("/instance/detail", hang(When::BeforeEffect));
    world
        .sim
        .fault(detail.containing(&server_id(&other)).times(1));
    world.apply(&stopped("other")).await;
    has_done(&world, "other", Verb::Stop).await;
    world.ready("hangs").await;
    assert_eq!(world.sim.servers().len(), 2, "{}", world.ledger_text());
    world.finish().await;
}

/// The faulty answers to queries.
fn on_queries() -> Vec<(&'static str, Act)> {
    let mut all = spoilt();
    let before = When::BeforeEffect;
    all.push(("error", error(500, before)));
    all.push(("lost", Act::Lose { when: before }));
    all.push(("slow", Act::SlowBytes { millis: 2 }));
    all
}

/// The first answers to a query are faulty, each in another way, while the same number of Instances are bought and stopped.
async fn spoilt_answers_of(path: &str, faults: &[(&'static str, Act)]) {
    let world = Setup::default().begin("queries").await;
    let old = fleet(&world, &["old-1", "old-2"], instance).await;
    let ids: Vec<_> = old.iter().map(server_id).collect();
    let armed: Vec<_> = (1..)
        .zip(faults)
        .map(|(nth, (_, act))| {
            world
                .sim
                .fault(Rule::on(path, act.clone()).nth(nth).times(1))
        })
        .collect();
    let new: Vec<_> = faults.iter().map(|(name, _)| *name).collect();
    for name in &new {
        world.apply(&instance(name)).await;
    }
    world.apply(&stopped("old-1")).await;
    for name in &new {
        let ready = world.ready(name).await;
        assert_as_requested(&world, &ready, World::PASSWORD);
    }
    has_done(&world, "old-1", Verb::Stop).await;
    eventually("every fault was met", async || {
        let met = armed.iter().filter(|id| world.sim.faults().hits(**id) == 1);
        match met.count() {
            count if count == armed.len() => Ok(()),
            count => Err(format!("{count} of {}", armed.len())),
        }
    })
    .await;
    quiet_all(&world).await;
    for (name, id) in [("old-1", &ids[0]), ("old-2", &ids[1])] {
        let now = world.get(name).await;
        assert!(is_ready(&now), "{}", outline(&now));
        assert_eq!(&server_id(&now), id);
    }
    let mut calls = posts(&world, 0);
    calls.sort();
    let mut expected = vec!["create"; 2 + new.len()];
    expected.push("stop");
    assert_eq!(calls, expected, "{}", world.ledger_text());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spoilt_answers_about_tasks_repeat_nothing() {
    spoilt_answers_of("/asynctask/getResult", &on_queries()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spoilt_details_repeat_nothing() {
    spoilt_answers_of("/instance/detail", &on_queries()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn huge_broken_and_slow_listings_buy_and_release_nothing() {
    spoilt_answers_of("/instance/list", &on_queries()[5..]).await;
}
