//! A service that does not answer is reported within half a minute, once, with the time since when; so is its return.

use super::until_account;
use crate::support::{
    Link, Setup, Weather, World, condition, eventually, instance, is_ready, names, stays, stopped,
};
use cloud_server_operator::api::Account;
use cloud_simulator::AccountStatus;
use cloud_simulator::faults::{Act, Rule, When};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;
use std::time::{Duration, Instant};

/// Maximum time from the first failed call to its report, and from the service's return to the report of that.
const BOUND: Duration = Duration::from_secs(30);

fn ready(account: &Account) -> Option<&Condition> {
    let conditions = &account.status.as_ref()?.conditions;
    conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
}

async fn until_reason(world: &World, reason: &str) -> Account {
    until_account(world, &format!("the Account reports {reason}"), |account| {
        let ready = ready(account)?;
        (ready.reason == reason).then(|| account.clone())
    })
    .await
}

/// Waits until exactly one such Event of the Account was published.
async fn until_event(world: &World, reason: &str) {
    eventually(&format!("one Event {reason} of the Account"), async || {
        let mut events = world.events(reason).await;
        let is_ours = |kind: &Option<String>| kind.as_deref() == Some("Account");
        events.retain(|event| {
            event
                .regarding
                .as_ref()
                .is_some_and(|about| is_ours(&about.kind))
        });
        match events.len() {
            1 => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
}

/// Writes of Accounts since then.
async fn account_writes(world: &World, since: Timestamp) -> Vec<String> {
    let writes = world.all_writes_since(since).await.into_iter();
    let writes = writes.filter(|entry| entry.resource == "accounts");
    writes.map(|entry| format!("{entry:?}")).collect()
}

/// The service becomes unavailable while a server must be stopped, and returns.
async fn reports_outage(world: &World, away: impl AsyncFnOnce(), back: impl AsyncFnOnce()) {
    let fleet = names("web", 3);
    world.apply_all(&fleet, instance).await;
    world.all_ready(&fleet).await;
    until_reason(world, "Available").await;
    away().await;
    world.apply(&stopped("web-0")).await;
    let first_call = Instant::now();
    let away = until_reason(world, "ServiceUnreachable").await;
    let took = first_call.elapsed();
    println!("OUTAGE: reported after {took:.1?}");
    assert!(took < BOUND, "{took:?}");
    let since = away.status.as_ref().unwrap().unreachable_since.clone();
    let since = since.expect("it reports since when").0;
    let message = &ready(&away).unwrap().message;
    for word in [since.to_string().as_str(), "every 20 s", "spec.endpoint"] {
        assert!(message.contains(word), "{message}");
    }
    until_event(world, "ServiceUnreachable").await;

    // Retries change nothing in it.
    let begun = Timestamp::now();
    stays("the same", Duration::from_secs(45), async || {
        match world.accounts().get("default").await {
            Ok(now) if ready(&now) != ready(&away) => Err(format!("{:#?}", now.status)),
            Ok(_) | Err(_) => Ok(()),
        }
    })
    .await;
    // No Instance is in flight in the zone any more: this count is written, once.
    let writes = account_writes(world, begun).await;
    assert!(writes.len() <= 1, "{writes:#?}");
    for name in &fleet[1..] {
        assert!(
            is_ready(&world.get(name).await),
            "what rests is as it was seen"
        );
    }

    back().await;
    let returned = Instant::now();
    let well = until_reason(world, "Available").await;
    let took = returned.elapsed();
    println!("OUTAGE: back, reported after {took:.1?}");
    assert!(took < BOUND, "{took:?}");
    assert_eq!(well.status.unwrap().unreachable_since, None);
    until_event(world, "ServiceRecovered").await;
    world
        .until("web-0", "is stopped", |i| {
            let status = i.status.as_ref().unwrap();
            let shows = status.detail.get("ecsStatus");
            is_ready(i) && shows.is_some_and(|shows| shows == "STOPPED")
        })
        .await;
    assert!(
        world.logs().contains("ServiceRecovered"),
        "a line of the log"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_account_reports_refused_connections_and_their_end_within_half_a_minute() {
    let world = Setup::default().begin("outage-refused").await;
    let link = Link::to(world.sim.url()).await;
    let (address, far) = (link.address(), world.sim.url().to_owned());
    world.account("default", &format!("http://{address}")).await;
    let mut again = None;
    let back = async || again = Some(Link::at(address, &far).await);
    reports_outage(&world, async || drop(link), back).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_account_reports_a_silent_service_and_its_return_within_half_a_minute() {
    let world = Setup::default().links().begin("outage-silent").await;
    let service = &world.links().service;
    let away = async || service.set(Weather::Silent);
    reports_outage(&world, away, async || service.set(Weather::Fair)).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_calls_next_to_successful_ones_are_no_outage() {
    let world = Setup::default().begin("outage-none").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    until_reason(&world, "Available").await;
    until_account(&world, "its zone is counted", |account| {
        (account.status.as_ref()?.servers == Some(1)).then_some(())
    })
    .await;
    let fails = Act::Error {
        status: 503,
        code: "Maintenance".to_owned(),
        message: "of details".to_owned(),
        retry_after: None,
        when: When::BeforeEffect,
    };
    world.sim.fault(Rule::on("/instance/detail", fails));
    let (seq, since) = (world.sim.ledger().last_seq(), Timestamp::now());
    let mut reread = instance("web");
    reread["spec"]["reconcile"] = json!({"token": "read"});
    world.apply(&reread).await;
    eventually("details fail again and again", async || {
        let failed = world.calls_since(seq).into_iter();
        match failed.filter(|call| !call.faults.is_empty()).count() {
            3.. => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    assert_eq!(account_writes(&world, since).await, [] as [String; 0]);
    let calls = world.calls_since(seq);
    let probes = calls
        .iter()
        .filter(|call| call.path == "/sshkey/list")
        .count();
    let failed = calls.iter().filter(|call| !call.faults.is_empty()).count();
    assert!((1..=failed).contains(&probes), "{probes} of {failed}");
    world.sim.faults().clear();
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_in_arrears_is_not_ready_until_it_buys_again_and_other_work_continues() {
    let mut world = Setup::default().begin("arrears").await;
    world.apply(&instance("old")).await;
    world.ready("old").await;
    let set_state = |status| world.sim.set_account_status("default", status).unwrap();
    set_state(AccountStatus::Arrears);
    world.apply(&instance("new")).await;
    world.until_reason("new", "AccountNotNormal").await;
    let account = until_reason(&world, "AccountNotNormal").await;
    let ready = ready(&account).unwrap();
    assert_eq!(ready.status, "False");
    assert!(ready.message.contains("AccountStatus.Abnormal"));
    until_event(&world, "AccountNotNormal").await;
    world.apply(&stopped("old")).await;
    world
        .until("old", "is stopped", |i| {
            let shows = i.status.as_ref().unwrap().detail.get("ecsStatus").cloned();
            is_ready(i) && shows.is_some_and(|shows| shows == "STOPPED")
        })
        .await;
    // Counts are written at most every 30 s, so the test waits for them before the restart.
    until_account(&world, "nothing is in flight", |account| {
        let status = account.status.as_ref()?;
        let used = status.limits.as_ref()?.instances.used;
        let is_idle = status.inventory.iter().all(|zone| zone.in_flight == 0);
        (is_idle && used == 2 && status.servers == Some(1)).then_some(())
    })
    .await;
    let before = world.accounts().get("default").await.unwrap().status;
    let since = Timestamp::now();
    world.restart().await;
    // The new process looks for the server of "new", so the counts may change once.
    let is_same = async || {
        let writes = account_writes(&world, since).await;
        let now = world.accounts().get("default").await.unwrap().status;
        let is_same =
            now.as_ref().map(|it| &it.conditions) == before.as_ref().map(|it| &it.conditions);
        match is_same && writes.len() <= 1 {
            true => Ok(()),
            false => Err(format!("{writes:#?}: {before:#?}, now {now:#?}")),
        }
    };
    stays("the same", Duration::from_secs(10), is_same).await;
    world
        .sim
        .set_account_status("default", AccountStatus::Normal)
        .unwrap();
    let new = world.ready("new").await;
    assert!(condition(&new, "Stalled").is_none());
    until_reason(&world, "Available").await;
    world.finish().await;
}
