//! The limit of scale: a fleet too large for our machines with real components, in virtual time.

use crate::fault::{Kind, Step, Timed};
use crate::run::{Operators, Recording, Schedule, run};
use crate::universe::{Manner, Neighbour, Setting};
use serde_json::json;
use std::time::Duration;

/// Teams with a thousand Instances each; THOUSANDS overrides the number. Each has one Account with the default limits: five
/// requests per second.
const THOUSANDS: u16 = 100;
const OF_A_TEAM: u16 = 1_000;

/// Calls for a hundred creates: for each one create, one poll of the task and one read of the server, plus three further reads
/// in total.
const CALLS: usize = 303;
/// Writes to a hundred Instances and their Accounts, including refused ones: for each Instance the intent, the receipt, Ready,
/// and the wait in the queue, which takes minutes here; plus ten.
const WRITES: usize = 410;

/// Four replicas, each with one shard, buy for all teams at once. The first one ends in the middle, and a fifth takes over. At
/// the end there is one server for each Instance, and each took no more calls and writes than in a small fleet.
#[test]
#[ignore = "takes ten minutes and four gigabytes: part of make bench"]
fn a_hundred_thousand_instances_on_four_replicas() {
    let named = std::env::var("THOUSANDS").ok();
    let teams = named.map_or(THOUSANDS, |text| text.parse().unwrap());
    let steps = [
        (20_000, Step::Apply(1)),
        (60_000, Step::Terminate(0)),
        (80_000, Step::EditImage(1)),
        // Keeps the run going at least until then.
        (900_000, Step::Label(1)),
    ];
    let team = Neighbour {
        manner: Manner::Well,
        accounts: 1,
        instances: OF_A_TEAM,
    };
    let schedule = Schedule {
        setting: Setting {
            neighbours: vec![team; usize::from(teams)],
            ..Setting::default()
        },
        operators: Operators::Shards(4),
        watch_delay: Duration::from_millis(50),
        rules: Vec::new(),
        steps: steps.map(|(at, step)| Timed { at, step }).to_vec(),
    };
    let outcome = run(&schedule, Recording::Verdict);
    let done = outcome.neighbours;
    let count = |kind| done.calls.get(&kind).copied().unwrap_or(0);
    let figures = json!({
        "scenario": "model", "replicas": 4, "instances": done.ready, "bought": done.bought, "writes": done.writes,
        "creates": count(Kind::Create), "looks_at_tasks": count(Kind::Task), "looks_at_servers": count(Kind::Detail),
        "pages_of_listings": count(Kind::Listing), "virtual_seconds": done.last_bought.as_secs(),
    });
    println!("BENCH {figures}");
    assert_eq!(outcome.violations, [""; 0]);
    assert_eq!(outcome.unmet, [""; 0], "another process took over");
    let all = usize::from(teams) * usize::from(OF_A_TEAM);
    assert_eq!((done.bought, done.ready), (all, all));
    assert_eq!(count(Kind::Create), all);
    let calls = all + count(Kind::Task) + count(Kind::Detail);
    assert!(calls <= all * CALLS / 100, "{calls} calls");
    assert!(done.writes <= all * WRITES / 100, "{} writes", done.writes);
}
