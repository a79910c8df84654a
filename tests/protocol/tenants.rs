//! Other teams next to the judged one. Each schedule is played twice under the same seed, alone and with the others: status
//! reports, calls and Ready of its Instances come as soon as alone, and the service gets the same calls. All other judges judge
//! both runs as usual.

use crate::fault::{Kind, Step, Timed};
use crate::run::{Operators, Outcome, Recording, Schedule, run};
use crate::universe::{Manner, Neighbour, Setting};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The allowed delay compared with the run alone (issue 18, 2).
const LATER: Duration = Duration::from_secs(1);
/// A completed operation is reported within this time (issue 19, 6), alone and with others: it is random which poll finds it.
const DONE: Duration = Duration::from_millis(1_500);
/// Reads that depend on the exact time of an observation: a task that ends between two polls is polled again.
const MORE_READS: usize = 5;

/// How soon the objects of a run were served, from its beginning, and the calls to the service.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    reported: BTreeMap<String, Duration>,
    called: BTreeMap<String, Duration>,
    ready: BTreeMap<String, Duration>,
    calls: BTreeMap<Kind, usize>,
}

impl Pace {
    /// The status of an object was written.
    pub fn reported(&mut self, at: Duration, name: &str, object: &Value) {
        self.reported.entry(name.to_owned()).or_insert(at);
        if is_ready(object) {
            self.ready.entry(name.to_owned()).or_insert(at);
        }
    }

    /// The service is called, for this object if the call concerns one.
    pub fn called(&mut self, at: Duration, kind: Kind, object: Option<String>) {
        *self.calls.entry(kind).or_default() += 1;
        if let Some(object) = object {
            self.called.entry(object).or_insert(at);
        }
    }
}

/// Whether its status shows Ready.
pub fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// The cost of the neighbours.
fn judge(alone: &Outcome, together: &Outcome) -> Vec<String> {
    let mut wrong = Vec::new();
    for (run, outcome) in [("alone", alone), ("together", together)] {
        wrong.extend(outcome.violations.iter().map(|v| format!("{run}: {v}")));
    }
    let firsts = [
        (
            "reported",
            &alone.pace.reported,
            &together.pace.reported,
            LATER,
        ),
        (
            "called for",
            &alone.pace.called,
            &together.pace.called,
            LATER,
        ),
        ("Ready", &alone.pace.ready, &together.pace.ready, DONE),
    ];
    for (what, alone, together, most) in firsts {
        for (object, at) in alone {
            let later = together.get(object);
            if later.is_none_or(|later| *later > *at + most) {
                wrong.push(format!(
                    "L5: {object} was {what} after {at:?} alone, and {later:?} next to others"
                ));
            }
        }
    }
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_cloud()) {
        let count = |outcome: &Outcome| outcome.pace.calls.get(&kind).copied().unwrap_or(0);
        let (alone, together) = (count(alone), count(together));
        let is_same = if kind.is_mutating_call() {
            together == alone
        } else {
            together <= 2 * alone + MORE_READS && alone <= 2 * together + MORE_READS
        };
        if !is_same {
            wrong.push(format!(
                "L5: {alone} calls of {kind:?} alone, {together} next to others"
            ));
        }
    }
    wrong
}

/// Plays the schedule without neighbours and with them.
fn hold(schedule: &Schedule) -> Vec<String> {
    let mut alone = schedule.clone();
    alone.setting.neighbours.clear();
    let (alone, together) = (
        run(&alone, Recording::Verdict),
        run(schedule, Recording::Verdict),
    );
    let mut wrong = judge(&alone, &together);
    if alone.pace.ready.is_empty() {
        wrong.push("nothing became Ready: the run shows nothing".to_owned());
    }
    let accounts: usize = schedule
        .setting
        .neighbours
        .iter()
        .map(|neighbour| usize::from(neighbour.accounts))
        .sum();
    let calls = together.neighbours.all_calls();
    if calls < accounts {
        wrong.push(format!(
            "the neighbours made {} calls: the run shows nothing",
            calls
        ));
    }
    wrong
}

/// Long after the others have begun, an Instance is created and changed, and another one is created, changed and deleted.
fn with_neighbours(neighbours: &[(Manner, u16, u16)]) -> Schedule {
    let steps = [
        (20_000, Step::Apply(1)),
        (35_000, Step::Apply(2)),
        (50_000, Step::EditImage(1)),
        (80_000, Step::EditPower(2)),
        (105_000, Step::Delete(2)),
    ];
    Schedule {
        setting: Setting {
            neighbours: neighbours
                .iter()
                .map(|&(manner, accounts, instances)| Neighbour {
                    manner,
                    accounts,
                    instances,
                })
                .collect(),
            ..Setting::default()
        },
        operators: Operators::One,
        watch_delay: Duration::from_millis(50),
        rules: Vec::new(),
        steps: steps.map(|(at, step)| Timed { at, step }).to_vec(),
    }
}

fn holds(mut schedule: Schedule) {
    for seed in 1..=2 {
        schedule.setting.seed = seed;
        assert_eq!(hold(&schedule), [""; 0], "seed {seed}");
    }
}

/// The bound of the issue, taken literally.
#[test]
fn next_to_two_thousand_instances_of_ten_failing_accounts() {
    holds(with_neighbours(&[
        (Manner::Dead, 2, 200),
        (Manner::Silent, 2, 200),
        (Manner::Slow, 2, 200),
        (Manner::Busy, 1, 200),
        (Manner::Lure, 3, 200),
    ]));
}

/// Nineteen other teams, one of which applies two thousand at once, every other one of them wrong (issue 22).
#[test]
fn next_to_eighteen_teams_and_one_with_a_thousand_wrong_instances_of_two_thousand() {
    let mut others = vec![(Manner::Well, 1, 5); 18];
    others.push((Manner::Careless, 1, 2_000));
    holds(with_neighbours(&others));
}

/// Four processes, each with a shard, buy for twenty teams. Each server is bought once, and the judged team is not affected,
/// even if its shard changes hands.
#[test]
fn next_to_two_thousand_instances_of_four_shards() {
    let mut schedule = with_neighbours(&[(Manner::Well, 1, 100); 20]);
    schedule.operators = Operators::Shards(4);
    let ends = Timed {
        at: 45_000,
        step: Step::Terminate(0),
    };
    schedule.steps.push(ends);
    holds(schedule.clone());
    // They need the rest of a minute to buy all servers.
    schedule.steps.push(Timed {
        at: 180_000,
        step: Step::Label(1),
    });
    let outcome = run(&schedule, Recording::Verdict);
    assert_eq!(outcome.violations, [""; 0]);
    assert_eq!(outcome.neighbours.bought, 2_000);
}

/// One team with one Account, limited only by its own bound.
#[test]
fn next_to_five_hundred_instances_on_one_slow_service() {
    holds(with_neighbours(&[(Manner::Slow, 1, 500)]));
}

#[test]
fn next_to_five_hundred_instances_on_one_healthy_service() {
    holds(with_neighbours(&[(Manner::Well, 1, 500)]));
}

/// Each of their creates holds its slot for a minute, and is then repeated.
#[test]
fn next_to_accounts_whose_services_answer_no_create() {
    holds(with_neighbours(&[(Manner::Lure, 6, 50)]));
}

/// Each Account has its own slots.
#[test]
fn next_to_a_hundred_accounts_whose_services_are_silent() {
    holds(with_neighbours(&[(Manner::Silent, 100, 1)]));
}

#[test]
fn next_to_services_that_answer_with_garbage_or_without_end() {
    holds(with_neighbours(&[
        (Manner::Garbage, 5, 20),
        (Manner::Flood, 5, 20),
    ]));
}

/// A team that arrives when all others are in trouble already: nothing is known of its service yet.
#[test]
fn a_new_account_next_to_all_of_them() {
    let mut schedule = with_neighbours(&Manner::BAD.map(|manner| (manner, 3, 30)));
    schedule.setting.account_comes_later = true;
    let comes = Timed {
        at: 19_500,
        step: Step::ApplyAccount,
    };
    schedule.steps.insert(0, comes);
    holds(schedule);
}

/// A process that starts finds all teams in trouble at once.
#[test]
fn next_to_all_of_them_after_a_restart() {
    let mut schedule = with_neighbours(&Manner::BAD.map(|manner| (manner, 2, 50)));
    let kill = Timed {
        at: 120_000,
        step: Step::Kill(0),
    };
    let apply = Timed {
        at: 121_500,
        step: Step::Apply(3),
    };
    schedule.steps.extend([kill, apply]);
    holds(schedule);
}

/// Random neighbours and steps.
fn by_chance(seed: u64) -> Schedule {
    let mut dice = StdRng::seed_from_u64(seed);
    let teams = dice.random_range(1..=3);
    let neighbours: Vec<_> = (0..teams)
        .map(|_| {
            let manner = *Manner::BAD.choose(&mut dice).unwrap_or(&Manner::Slow);
            (manner, dice.random_range(1..=5), dice.random_range(1..=20))
        })
        .collect();
    let mut schedule = with_neighbours(&neighbours);
    schedule.setting.seed = seed;
    schedule.setting.tasks =
        Duration::from_millis(*[300, 2_500, 8_000].choose(&mut dice).unwrap_or(&300));
    schedule.steps = (1..=3)
        .map(|n| Timed {
            at: dice.random_range(1_000..90_000),
            step: Step::Apply(n),
        })
        .collect();
    for _ in 0..dice.random_range(0..4) {
        let n = dice.random_range(1..=3);
        let steps = [
            Step::EditImage(n),
            Step::EditPower(n),
            Step::Restart(n),
            Step::Delete(n),
            Step::Label(n),
        ];
        schedule.steps.push(Timed {
            at: dice.random_range(110_000..140_000),
            step: steps.choose(&mut dice).cloned().unwrap_or(Step::Label(n)),
        });
    }
    schedule
}

#[test]
fn next_to_random_neighbours() {
    let mut wrong = Vec::new();
    for seed in 1..=20 {
        let schedule = by_chance(seed);
        let costs = hold(&schedule);
        if !costs.is_empty() {
            let Setting { neighbours, .. } = schedule.setting;
            wrong.push(format!("seed {seed}, {neighbours:?}: {costs:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
