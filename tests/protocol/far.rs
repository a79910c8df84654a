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

/// Calls for a hundred creates: for each one create, one poll of the task and one read of the server, plus five further reads
/// in total.
const CALLS: usize = 305;
/// Writes to a hundred Instances and their Accounts, including refused ones. For each Instance: the wait in the queue, which takes
/// minutes here, the intent, the receipt, the progress of the create, which takes more than two seconds at the request limit, and
/// Ready. Up to fifty for those that still wait when another process takes over: the wait for its listings. Plus ten.
const WRITES: usize = 560;
/// The create, the query and the read of the first server of a fleet do not wait for those of the others.
const FIRST_READY: Duration = Duration::from_secs(30);

/// Four replicas, each with one shard, buy for all teams at once. The first one ends in the middle, and a fifth takes over. At
/// the end there is one server for each Instance, each took no more calls than in a small fleet, and a bounded number of writes.
#[test]
#[ignore = "takes ten minutes and four gigabytes: part of make bench"]
fn a_hundred_thousand_instances_on_four_replicas() {
    let named = std::env::var("THOUSANDS").ok();
    buy(named.map_or(THOUSANDS, |text| text.parse().unwrap()));
}

/// The same for one team.
#[test]
fn a_thousand_instances_on_four_replicas() {
    buy(1);
}

fn buy(teams: u16) {
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
    let first = done.first_ready;
    assert!(
        first.is_some_and(|at| at <= FIRST_READY),
        "the first was Ready after {first:?}"
    );
}
