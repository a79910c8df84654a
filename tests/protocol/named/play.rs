//! Builds a schedule: a setting, and events with their times.

use crate::fault::{Act, Dependency, Kind, On, Rule, Step, Timed};
use crate::run::{Operators, Recording, Schedule, run};
use crate::tally;
use crate::universe::{ImportBy, OTHERS, Setting};
use cloud_simulator::readings::{PowerAfterReinstall, ReleaseWhileCreating};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// A schedule under construction.
pub struct Play {
    pub schedule: Schedule,
    meets: Meets,
}

/// Under how many seeds all events of a schedule must happen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meets {
    Always,
    Sometimes,
}

/// With this many seeds, some find defects that others do not.
const ENOUGH: u64 = 8;

/// One operator, tasks that take half a second, and the object applied.
pub fn one() -> Play {
    let setting = Setting {
        seed: 7,
        ..Setting::default()
    };
    let apply = Timed {
        at: 500,
        step: Step::Apply(1),
    };
    let schedule = Schedule {
        setting,
        operators: Operators::One,
        watch_delay: Duration::from_millis(50),
        rules: Vec::new(),
        steps: vec![apply],
    };
    Play {
        schedule,
        meets: Meets::Always,
    }
}

/// Two operators, one of which holds the Lease.
pub fn lease() -> Play {
    let mut play = one();
    play.schedule.operators = Operators::Lease;
    play
}

/// Two active operators at once.
pub fn no_lease() -> Play {
    let mut play = one();
    play.schedule.operators = Operators::NoLease;
    play
}

impl Play {
    pub fn on(mut self, kind: Kind, nth: u32, act: Act) -> Self {
        let on = On::Nth(kind, nth);
        self.schedule.rules.push(Rule { on, act });
        self
    }

    pub fn at(mut self, millis: u64, step: Step) -> Self {
        self.schedule.steps.push(Timed { at: millis, step });
        self
    }

    /// The dependency does not answer for this many seconds.
    pub fn away(self, millis: u64, dependency: Dependency, seconds: u64) -> Self {
        self.at(millis, Step::Away(dependency))
            .at(millis + 1000 * seconds, Step::Back(dependency))
    }

    pub fn visible_late(mut self, seconds: u64) -> Self {
        self.schedule.setting.readings.visible_late = Duration::from_secs(seconds);
        self
    }

    /// The service reinstalls only a stopped server.
    pub fn reinstall_needs_stop(mut self) -> Self {
        self.schedule.setting.readings.reinstall_needs_stop = true;
        self
    }

    /// A reinstall leaves the server stopped.
    pub fn reinstall_stops(mut self) -> Self {
        self.schedule.setting.readings.power_after_reinstall = PowerAfterReinstall::Stopped;
        self
    }

    pub fn tasks(mut self, seconds: u64) -> Self {
        self.schedule.setting.tasks = Duration::from_secs(seconds);
        self
    }

    pub fn spec(mut self, patch: Value) -> Self {
        self.schedule.setting.spec.push(patch);
        self
    }

    pub fn import(mut self, by: ImportBy) -> Self {
        self.schedule.setting.import = Some(by);
        self
    }

    /// The Account denies imports.
    pub fn denied(mut self) -> Self {
        self.schedule.setting.imports = false;
        self
    }

    /// The operating system takes this long to stop.
    pub fn stops_in(mut self, seconds: u64) -> Self {
        self.schedule.setting.stop = Some(Duration::from_secs(seconds));
        self
    }

    /// Some fields of a server change continuously.
    pub fn fields_move(mut self) -> Self {
        self.schedule.setting.readings.used_flow_grows = true;
        self
    }

    /// The request limits of the Account.
    pub fn requests(mut self, limits: Value) -> Self {
        self.schedule.setting.requests = limits;
        self
    }

    pub fn settle(mut self, seconds: u32) -> Self {
        self.schedule.setting.settle = seconds;
        self
    }

    pub fn stale(mut self, seconds: u64) -> Self {
        self.schedule.watch_delay = Duration::from_secs(seconds);
        self
    }

    /// The service accepts the release of a server that is still being created.
    pub fn released_at_any_time(mut self) -> Self {
        self.schedule.setting.readings.release_while_creating = ReleaseWhileCreating::Allowed;
        self
    }

    /// Some of the events find nothing to happen to under some seeds, in which requests come in another order.
    pub fn met_sometimes(mut self) -> Self {
        self.meets = Meets::Sometimes;
        self
    }

    /// Plays the schedule under several seeds, which vary the network's delays and the watches. Each seed must give this
    /// result, and all events must happen.
    pub fn holds(mut self, line: &str) {
        self.play(line);
        if self.schedule.operators == Operators::Lease {
            // Repeats the schedule with a shard that changes hands, while another process acts on the other shard all the time.
            self.schedule.operators = Operators::Shards(2);
            self.schedule.setting.neighbours = vec![OTHERS; 2];
            self.play(line);
        }
    }

    fn play(&mut self, line: &str) {
        let seeds = std::env::var("NAMED_SEEDS").ok();
        let seeds = seeds.and_then(|text| text.parse().ok()).unwrap_or(ENOUGH);
        let (mut tallies, mut unmet) = (Vec::new(), BTreeMap::new());
        let mut other = None;
        for seed in 1..=seeds {
            self.schedule.setting.seed = seed;
            let outcome = run(&self.schedule, Recording::Trace);
            let trace = outcome.trace.join("\n");
            let wrong = &outcome.violations;
            let is_shared = matches!(self.schedule.operators, Operators::Shards(_));
            assert!(
                !is_shared || outcome.neighbours.calls_of_others > 0,
                "no process acts on the other shard"
            );
            assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}\n{trace}");
            if seeds == 1 {
                // For people, with --nocapture.
                println!("{trace}");
            }
            if !outcome.unmet.is_empty() {
                unmet.insert(seed, outcome.unmet);
            }
            if !outcome.tally.is(line) {
                other.get_or_insert((seed, trace));
            }
            tallies.push(outcome.tally);
        }
        if let Some((seed, trace)) = other {
            let came = tally::line(&tallies);
            panic!("expected {line:?}, got {came:?}: seed {seed}\n{trace}");
        }
        match self.meets {
            Meets::Always => assert!(unmet.is_empty(), "never met, by seed: {unmet:#?}"),
            Meets::Sometimes => assert!(
                unmet.len() < tallies.len() || seeds < ENOUGH,
                "no seed meets all of it: {unmet:#?}"
            ),
        }
    }
}
