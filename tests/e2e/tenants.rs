//! Tenants: a bad service of one Account does not delay any other Account.

mod service;

use crate::support::{Setup, World, eventually, insist, instance, names};
use cloud_server_operator::api::{Account, Instance};
use futures::{StreamExt, stream};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use service::{Bad, Service};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The most by which the median newcomer's first status and first call may come later than those of a newcomer that is applied at
/// the same moment for an idle operator on the same machine. A newcomer that had to wait until another Account's call is given up
/// would wait for 5 s and more.
const LATER: Duration = Duration::from_secs(3);
/// The number of newcomers, one after another. The machine delays single ones, so the median counts.
const TRIES: usize = 5;
/// The time between two checks of the waiting test: a small part of the measured time.
const GLANCE: Duration = Duration::from_millis(20);

/// Ten Accounts, each with its share of the Instances: most belong to Accounts whose services keep the caller waiting.
const ACCOUNTS: [(Bad, usize); 10] = [
    (Bad::Dead, 2),
    (Bad::Silent, 2),
    (Bad::Refusing, 4),
    (Bad::Trickle, 2),
    (Bad::Slow, 15),
    (Bad::Slow, 15),
    (Bad::Lure, 15),
    (Bad::Lure, 15),
    (Bad::Lure, 15),
    (Bad::Lure, 15),
];

/// Whether the service knows the token of a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// Others have it too, and the service answers them.
    Known,
    /// A token of its own: its user shares no client, no limit and no listing with others, and has never got an answer.
    New,
}

/// An Account with default limits.
async fn account(world: &World, name: &str, endpoint: &str, token: &str) {
    let account = json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Account", "metadata": {"name": name},
        "spec": {
            "endpoint": endpoint,
            "tokenSecretRef": {"name": token, "key": "token"},
            "settleSeconds": 2,
        },
    });
    let (accounts, params) = (world.accounts(), PatchParams::apply("user").force());
    let patch = Patch::Apply(&account);
    let written = insist("an Account is written", async || {
        accounts.patch(name, &params, &patch).await
    });
    written.await.unwrap();
}

fn of(account: &str, name: &str) -> Value {
    let mut manifest = instance(name);
    manifest["spec"]["accountRef"] = json!({"name": account});
    manifest
}

/// The waiting times of a user who has just applied a new Account and a new Instance of it.
#[derive(Clone, Copy, Debug)]
struct Waited {
    status: Duration,
    call: Duration,
}

/// A new Account at a healthy service, and an Instance of it.
async fn newcomer(world: &World, name: &str, token: Token) -> Waited {
    let (of_its_own, secret) = (format!("{name}-account"), format!("{name}-token"));
    let value = match token {
        Token::Known => World::TOKEN.to_owned(),
        Token::New => format!("canary-of-{name}"),
    };
    if token == Token::New {
        world.sim.add_account(name, &value).unwrap();
    }
    world.secret(&secret, "token", &value).await;
    account(world, &of_its_own, &world.endpoint(), &secret).await;
    world.apply(&of(&of_its_own, name)).await;
    let begun = Instant::now();
    let (mut status, mut call) = (None, None);
    let instances = world.instances();
    while status.is_none() || call.is_none() {
        assert!(
            begun.elapsed() < Duration::from_secs(200),
            "{name}: status {status:?}, call {call:?}\n{}",
            world.ledger_text()
        );
        let ledger = world.sim.ledger();
        let is_called = |entry: &cloud_simulator::Entry| {
            entry.path == "/instance/create" && entry.request.to_string().contains(name)
        };
        if call.is_none() && ledger.since(0).into_iter().any(is_called) {
            call = Some(begun.elapsed());
        }
        drop(ledger);
        if status.is_none()
            && let Ok(now) = instances.get(name).await
            && is_reported(&now)
        {
            status = Some(begun.elapsed());
        }
        sleep(GLANCE).await;
    }
    Waited {
        status: status.unwrap(),
        call: call.unwrap(),
    }
}

/// Whether status refers to the current spec.
fn is_reported(instance: &Instance) -> bool {
    let status = instance.status.as_ref();
    let observed = status.map(|status| status.observed_generation);
    observed.is_some() && observed == instance.metadata.generation
}

/// Applies newcomers, one after another, each at the same moment for both operators, and asserts that the load delays them little.
async fn assert_as_soon(loaded: &World, idle: &World, when: &str, token: Token) {
    let (mut statuses, mut calls) = (Vec::new(), Vec::new());
    for name in names(when, TRIES) {
        let (among, alone) =
            tokio::join!(newcomer(loaded, &name, token), newcomer(idle, &name, token));
        println!("TENANTS {name}, {token:?}: {among:?}, on an idle operator {alone:?}");
        statuses.push(among.status.saturating_sub(alone.status));
        calls.push(among.call.saturating_sub(alone.call));
    }
    for (first, mut later) in [("status", statuses), ("call", calls)] {
        later.sort();
        assert!(
            later[TRIES / 2] <= LATER,
            "{when}: first {first} later than on an idle operator by {later:?}"
        );
    }
}

/// Applies `scale` times the shares of [`ACCOUNTS`], all without ever getting a server, and measures newcomers among them.
async fn next_to_bad_services(scale: usize) {
    let world = Setup::default().begin("tenants").await;
    let idle = Setup::default().begin("idle").await;
    let mut services = Vec::new();
    let mut manifests = Vec::new();
    for (nth, (bad, share)) in ACCOUNTS.into_iter().enumerate() {
        let service = Service::start(bad).await;
        let name = format!("bad-{nth}");
        account(&world, &name, &service.endpoint(), "cloud-token").await;
        for web in names(&name, share * scale) {
            manifests.push(of(&name, &web));
        }
        services.push(service);
    }
    let count = manifests.len();
    let begun = Instant::now();
    stream::iter(&manifests)
        .for_each_concurrent(16, async |manifest| {
            world.apply(manifest).await;
        })
        .await;
    println!("TENANTS: {count} applied in {:?}", begun.elapsed());
    eventually("every service that listens was called", async || {
        for service in services.iter().filter(|service| service.bad != Bad::Dead) {
            // More calls than the first check of the Account makes: from then on its Instances are waiting.
            let enough = match service.bad {
                Bad::Lure => 12,
                _ => 1,
            };
            if service.calls() < enough {
                return Err(format!("{:?}: {} calls", service.bad, service.calls()));
            }
        }
        Ok(())
    })
    .await;
    assert_as_soon(&world, &idle, "among", Token::New).await;
    // The waiting Instances also report that they wait, regardless of their service's behaviour.
    all_are_reported(&world, count + TRIES).await;
    world.finish().await;
    idle.finish().await;
}

async fn all_are_reported(world: &World, count: usize) {
    eventually("every Instance has a status", async || {
        let all = world.all().await;
        let reported = all
            .values()
            .filter(|instance| is_reported(instance))
            .count();
        match reported == count {
            true => Ok(()),
            false => Err(format!("{reported} of {count}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_instance_does_not_wait_for_hundreds_of_others_on_bad_services() {
    next_to_bad_services(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "two thousand Instances"]
async fn a_new_instance_does_not_wait_for_two_thousand_others_on_bad_services() {
    next_to_bad_services(20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_account_does_not_wait_for_a_hundred_that_never_answer() {
    let mut world = Setup::default().neighbour().begin("silent").await;
    let idle = Setup::default().begin("idle").await;
    let silent = Service::start(Bad::Silent).await;
    let endpoint = silent.endpoint();
    stream::iter(names("silent", 100))
        .for_each_concurrent(16, async |name| {
            // A path of its own makes each endpoint a separate service.
            account(&world, &name, &format!("{endpoint}/{name}"), "cloud-token").await;
        })
        .await;
    eventually("they are being read", async || match silent.calls() {
        16.. => Ok(()),
        n => Err(format!("{n} calls")),
    })
    .await;
    assert_as_soon(&world, &idle, "among", Token::Known).await;
    // A newcomer whom no service has answered yet waits for no other namespace; within its own namespace it may have to wait.
    world.next_door();
    world.secret("login", "password", World::PASSWORD).await;
    assert_as_soon(&world, &idle, "next-door", Token::New).await;
    world.next_door();
    eventually(
        "each reports that its service does not answer",
        async || {
            let accounts = world.accounts();
            let all = accounts.list(&Default::default()).await;
            let all = all.map_err(|error| error.to_string())?;
            let is_reported = |account: &&Account| {
                let status = account.status.as_ref();
                let mut conditions = status.iter().flat_map(|status| &status.conditions);
                conditions.any(|c| c.type_ == "Ready" && c.reason == "ServiceUnreachable")
            };
            match all.iter().filter(is_reported).count() {
                100 => Ok(()),
                n => Err(format!("{n}")),
            }
        },
    )
    .await;
    world.finish().await;
    idle.finish().await;
}
