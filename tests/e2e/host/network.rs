//! A poor network, and no network to one of the two sides. The wires transport TCP data, not packets: a lost packet is
//! simulated by the delay until TCP retransmits it.

use crate::support::{
    PATIENCE, Setup, Weather, busy, console, counts, eventually, instance, is_ready, names,
    no_write_is_repeated, once, other_image, posts, quiet_all, reason, server_id, side_by_side,
    stays, stopped,
};
use cloud_server_operator::api::Verb;
use cloud_simulator::faults::{Act, ClientGone, Rule, When};
use cloud_simulator::model::Console;
use jiff::Timestamp;
use std::time::{Duration, Instant};

/// A round trip takes half a second, and a fifth of all packets are lost.
const POOR: Weather = Weather::Poor {
    delay: Duration::from_millis(250),
    loss: 0.2,
    rate: 50_000.0,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_poor_network_all_is_done_once() {
    let world = Setup::default().links().begin("poor").await;
    let links = world.links();
    links.kubernetes.set(POOR);
    links.service.set(POOR);
    let fleet = names("web", 6);
    let begun = Instant::now();
    world.apply_all(&fleet, instance).await;
    world.all_ready(&fleet).await;
    println!("POOR: {} bought in {:?}", fleet.len(), begun.elapsed());
    world.apply_all(&fleet[..2], other_image).await;
    world.apply_all(&fleet[2..4], stopped).await;
    world.delete("web-4").await;
    world
        .until_all(&fleet[..4], "have completed their requests", |i| {
            is_ready(i) && i.status.as_ref().unwrap().history.len() == 2
        })
        .await;
    world.gone("web-4").await;
    println!("POOR: all done in {:?}", begun.elapsed());
    for (verb, done) in [(Verb::Reinstall, 2), (Verb::Stop, 2), (Verb::Release, 1)] {
        assert_eq!(
            counts(&world, verb, None).1,
            done,
            "{verb}: {}",
            world.ledger_text()
        );
    }
    assert_eq!(
        world.sim.servers().len(),
        fleet.len(),
        "{}",
        world.ledger_text()
    );
    links.kubernetes.set(Weather::Fair);
    links.service.set(Weather::Fair);
    no_write_is_repeated(&world).await;
    quiet_all(&world).await;
    world.finish().await;
}

/// The length of the pauses between attempts towards both sides, so that a forbidden action would happen in that time.
const PARTITION: Duration = Duration::from_secs(25);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_cluster_is_cut_off_nothing_is_begun_and_purchases_are_recorded_afterwards() {
    side_by_side(2, [Weather::Cut, Weather::Silent], cut_off).await;
}

async fn cut_off(weather: Weather) {
    let world = Setup::default().tasks(1_000).links().begin("cut-off").await;
    let old = names("old", 3);
    world.apply_all(&old, instance).await;
    let ready = world.all_ready(&old).await;
    // So that the zone is listed every five seconds, and the operator could act on the listings.
    let never_ends = busy(&world).await;
    // An Instance whose call is at the service when the partition begins.
    let act = Act::Hold {
        at: When::AfterEffect,
        gone: ClientGone::Execute,
    };
    let hold = world
        .sim
        .hold(Rule::on("/instance/create", act).containing("\"bought-"));
    world.apply(&instance("bought")).await;
    hold.reached(PATIENCE).await.unwrap();
    world.links().kubernetes.set(weather);
    let before = posts(&world, 0).len();
    hold.release();
    let new = names("new", 3);
    world.apply_all(&new, instance).await;
    world.apply(&other_image("old-0")).await;
    world.apply(&stopped("old-1")).await;
    world.delete("old-2").await;
    // A change that the operator can observe, since the service still answers, and that it would correct.
    let server = server_id(&ready[1]);
    console(&world, Console::PowerOff { server });
    let seq = world.sim.ledger().last_seq();
    stays("nothing is begun", PARTITION, async || {
        match posts(&world, 0).len() - before {
            0 => Ok(()),
            _ => Err(world.ledger_text()),
        }
    })
    .await;
    let calls = world.calls_since(seq).len();
    println!("CUT OFF {weather:?}: {calls} calls to the service in {PARTITION:?}");
    assert!((2..=40).contains(&calls), "{calls} calls");
    world.links().kubernetes.set(Weather::Fair);
    let back = Instant::now();
    eventually("the first call after it", async || {
        match posts(&world, 0).len() - before {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    println!(
        "CUT OFF {weather:?}: first call {:?} after it",
        back.elapsed()
    );
    world.gone("old-2").await;
    world
        .all_ready(&[&new[..], &old[..2], &["bought".to_owned()]].concat())
        .await;
    println!(
        "CUT OFF {weather:?}: all well {:?} after it",
        back.elapsed()
    );
    console(&world, Console::EndTask { server: never_ends });
    world.ready("busy").await;
    quiet_all(&world).await;
    // It was already off, and must be.
    assert_eq!(
        counts(&world, Verb::Start, None),
        (0, 0),
        "{}",
        world.ledger_text()
    );
    assert_eq!(
        counts(&world, Verb::Reinstall, None),
        (1, 1),
        "{}",
        world.ledger_text()
    );
    assert_eq!(
        counts(&world, Verb::Create, None),
        (8, 8),
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_service_is_cut_off_status_reports_it_with_few_writes() {
    let world = Setup::default().tasks(4_000).links().begin("alone").await;
    let old = names("old", 6);
    world.apply_all(&old, instance).await;
    world.all_ready(&old).await;
    // Three operations in progress when the partition begins.
    world.apply_all(&old[..3], other_image).await;
    eventually("three reinstalls run", async || {
        match counts(&world, Verb::Reinstall, None).0 {
            3 => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    world.links().service.set(Weather::Cut);
    let new = names("new", 4);
    world.apply_all(&new, instance).await;
    world
        .until_all(&new, "report it", |i| {
            matches!(reason(i), "ServiceUnreachable" | "CreateUnconfirmed")
        })
        .await;
    let all = world.all().await;
    // They may still lose the answer to the next call, and report that as well.
    let tried = |name: &&String| reason(&all[*name]) == "ServiceUnreachable";
    let tried = new.iter().filter(tried).count();
    let since = Timestamp::now();
    stays("status reports it", PARTITION, async || {
        let all = world.all().await;
        match new.iter().find(|name| is_ready(&all[*name])) {
            None => Ok(()),
            Some(name) => Err(name.clone()),
        }
    })
    .await;
    let writes = once(world.all_writes_since(since).await);
    let lines: Vec<_> = writes
        .iter()
        .map(|w| format!("{} {}/{}", w.verb, w.name, w.subresource))
        .collect();
    let writes = writes.len();
    println!("ALONE: {writes} writes in {PARTITION:?}");
    // One changed message with its Event for each Instance that is not ready and for the Account, which also writes its counts
    // twice. An Instance whose create has no answer reports before that for which server it looks, and why no listing shows it.
    let unwell = 3 + new.len();
    assert!(
        writes <= 2 * (unwell + new.len()) + 2 * tried + 4,
        "{writes} writes: {lines:#?}"
    );
    assert_eq!(world.sim.servers().len(), old.len());
    world.links().service.set(Weather::Fair);
    let back = Instant::now();
    world.all_ready(&[&old[..], &new[..]].concat()).await;
    println!("ALONE: all well {:?} after it", back.elapsed());
    quiet_all(&world).await;
    assert_eq!(
        counts(&world, Verb::Reinstall, None),
        (3, 3),
        "{}",
        world.ledger_text()
    );
    assert_eq!(
        world.sim.servers().len(),
        old.len() + new.len(),
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}
