//! The service's own rate limit, and packages that are not for sale.

use crate::support::{
    Setup, World, busiest, console, counts, eventually, instance, is_ready, longest_stall, names,
    outline, posts, quiet_all, ready_message, reason, server_id, side_by_side, stays, watch_stalls,
};
use cloud_server_operator::api::Verb;
use cloud_server_operator::api::names::BINDING;
use cloud_simulator::catalogue;
use cloud_simulator::faults::{Act, Rule};
use cloud_simulator::model::{Console, DEFAULT_ACCOUNT};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;
use std::time::{Duration, Instant};

/// At first, the service's limit equals ours.
const OURS: u32 = 20;
/// Then it drops to this, without notice.
const THEIRS: u32 = 4;
const FLEET: usize = 24;
/// The pause that the service requests, if it names one.
const PAUSE: u64 = 5;
/// The part of it that may pass until a refusal is known and concurrent requests have arrived, in milliseconds.
const UNDER_WAY: u64 = 3_000;
/// A pause in which the machine itself stalled for longer proves nothing.
const STALL: Duration = Duration::from_millis(300);

/// Named after the header.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    WithRetryAfter,
    WithoutRetryAfter,
}

/// In any 20 seconds: the burst of ten, and the share of the other ten per minute.
const IN_TWENTY_SECONDS: usize = 14;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_per_minute_is_kept_while_a_fleet_is_bought() {
    let world = Setup::default().begin("per-minute").await;
    world
        .change_account("default", json!({"requests": {"perMinute": 20}}))
        .await;
    world.account_is_ready("default").await;
    let seq = world.sim.ledger().last_seq();
    let fleet = names("web", 6);
    world.apply_all(&fleet, instance).await;
    world.all_ready(&fleet).await;
    let calls = world.calls_since(seq);
    let most = busiest(&calls, 20_000);
    println!("{} calls, at most {most} in 20 s", calls.len());
    assert!(most <= IN_TWENTY_SECONDS, "{most} of {}", calls.len());
    assert!(calls.len() > IN_TWENTY_SECONDS, "{} calls", calls.len());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_lowered_while_a_fleet_is_bought_is_honoured() {
    side_by_side(
        2,
        [Refusal::WithRetryAfter, Refusal::WithoutRetryAfter],
        lowered,
    )
    .await;
}

async fn lowered(refusal: Refusal) {
    watch_stalls();
    let world = Setup::default().begin("limit").await;
    // The same moment on both clocks.
    let (now, ledger_now) = (Instant::now(), world.sim.world(|w| w.now().as_millis()));
    world.limit("default", OURS, OURS, 8).await;
    let retry_after = match refusal {
        Refusal::WithRetryAfter => Some(PAUSE),
        Refusal::WithoutRetryAfter => None,
    };
    let limit = |per_second, burst| {
        let act = Act::Limit {
            per_second,
            burst,
            retry_after,
        };
        world.sim.fault(Rule::on("/*", act))
    };
    let first = limit(OURS, 2 * OURS);
    let fleet = names("web", FLEET);
    let begun = Instant::now();
    world.apply_all(&fleet, instance).await;
    eventually("a part is bought", async || {
        match world.sim.servers().len() {
            6.. => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    assert_eq!(world.sim.faults().hits(first), 0, "we keep our own limit");
    let seq = world.sim.ledger().last_seq();
    world.sim.faults().remove(first);
    let lower = limit(THEIRS, THEIRS);
    world.all_ready(&fleet).await;
    let took = begun.elapsed();

    let calls = world.calls_since(seq);
    let refused: Vec<_> = calls
        .iter()
        .filter(|call| call.status == Some(429))
        .collect();
    let hits = usize::try_from(world.sim.faults().hits(lower)).unwrap();
    assert!(
        hits > 0 && refused.len() == hits,
        "the limit was met, or the test tests nothing"
    );
    println!(
        "LIMIT {refusal:?}: {FLEET} Instances in {took:?}; of {} calls {} refused, busiest second {}",
        calls.len(),
        refused.len(),
        busiest(&calls, 1_000)
    );
    if retry_after.is_some() {
        // After a refusal, and the concurrent requests, no request is sent until the time is over. A create may arrive that had
        // its permit before, since its intent was written meanwhile.
        for refusal in &refused {
            let at = refusal.at.as_millis();
            let (from, to) = (at + UNDER_WAY, at + PAUSE * 1_000 - 100);
            let moment = |at: u64| now + Duration::from_millis(at.saturating_sub(ledger_now));
            if longest_stall(moment(at), moment(to)) > STALL {
                continue;
            }
            let within = |call: &&cloud_simulator::Entry| (from..to).contains(&call.at.as_millis());
            let early = calls
                .iter()
                .filter(|call| call.method == "GET")
                .filter(within);
            assert_eq!(
                early.count(),
                0,
                "called in the pause after {}",
                refusal.seq
            );
        }
    }
    // In the long run most calls are accepted.
    assert!(
        refused.len() * 3 <= calls.len(),
        "{} of {} refused",
        refused.len(),
        calls.len()
    );
    assert_eq!(world.sim.servers().len(), FLEET, "{}", world.ledger_text());
    assert_eq!(counts(&world, Verb::Create, None), (FLEET, FLEET));
    world.sim.faults().clear();
    quiet_all(&world).await;
    world.finish().await;
}

/// The recorded attempt.
async fn attempt(world: &World, name: &str) -> i64 {
    let now = world.get(name).await;
    let record = now.annotations().get(BINDING);
    let record = record.map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap());
    record
        .and_then(|record| record["attempt"].as_i64())
        .unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_beyond_quota_or_stock_are_reported_and_retried_slowly() {
    let world = Setup::default().begin("quota").await;
    let quota = |quota| {
        let change = |account: &mut cloud_simulator::model::Account| account.quota = quota;
        world
            .sim
            .world(|w| w.change_account(DEFAULT_ACCOUNT, change))
            .unwrap();
    };
    let fits = names("fits", 4);
    world.apply_all(&fits, instance).await;
    let ready = world.all_ready(&fits).await;
    quota(Some(4));
    let over = names("over", 6);
    world.apply_all(&over, instance).await;
    let refused = world
        .until_all(&over, "report it", |i| reason(i) == "CreateRefused")
        .await;
    for instance in &refused {
        let message = ready_message(instance);
        assert!(message.contains("quota"), "{message}");
    }
    let (seq, since) = (world.sim.ledger().last_seq(), Timestamp::now());
    // Twenty seconds: the first repetition comes after fifteen, and a loop would show.
    stays("few calls", Duration::from_secs(20), async || {
        let posts = posts(&world, seq).len();
        match posts <= 2 * over.len() {
            true => Ok(()),
            false => Err(format!("{posts} creates")),
        }
    })
    .await;
    let writes = world.writes_since(since).await;
    assert!(
        writes.is_empty(),
        "each refusal is reported once: {writes:#?}"
    );
    for name in &over {
        assert_eq!(
            attempt(&world, name).await,
            1,
            "no attempt is lost to a refusal"
        );
    }
    assert_eq!(world.sim.servers().len(), 4);
    // Other Instances are not delayed, and a deletion frees a slot.
    world.delete("fits-0").await;
    world.gone("fits-0").await;
    eventually("one takes its place", async || {
        match world
            .all()
            .await
            .values()
            .filter(|i| i.name_any().starts_with("over") && is_ready(i))
            .count()
        {
            1 => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    quota(None);
    world.all_ready(&over).await;
    for (name, before) in fits.iter().zip(&ready).skip(1) {
        assert_eq!(server_id(&world.get(name).await), server_id(before));
    }
    // A sold-out region has the same effect on new Instances, and none on existing servers.
    let region = || catalogue::example().region.to_owned();
    console(&world, Console::SellOut { region: region() });
    world.apply(&instance("late")).await;
    // A conflict: nothing shows that it will last.
    let late = world.until_reason("late", "ServiceBusy").await;
    assert!(outline(&late).contains("sold out"), "{}", outline(&late));
    let others = [&over[..], &fits[1..]].concat();
    world.all_ready(&others).await;
    assert_eq!(attempt(&world, "late").await, 1);
    console(&world, Console::Restock { region: region() });
    world.ready("late").await;
    assert_eq!(
        counts(&world, Verb::Create, None),
        (11, 11),
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}
