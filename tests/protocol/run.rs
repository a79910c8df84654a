//! One run: a schedule is played until everything is idle, and judged.

mod end;

use crate::apiserver::NAMESPACE;
use crate::fault::{Kind, Rule, Step, Timed};
use crate::oracle::{Count, Rule as Judged, Verdict};
use crate::process::Process;
use crate::tally::Tally;
use crate::tenants::Pace;
use crate::universe::{Done, Moment, Setting, Shared, Universe};
use cloud_server_operator::runtime::{Shard, chance};
use end::{at_the_end, ended, is_still, outcome};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Once;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The number of processes, and how they are coordinated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operators {
    /// One, which is restarted when it ends.
    One,
    /// Two, one of which holds the Lease.
    Lease,
    /// As `Lease` for one of this many shards, and one more process for each of the others.
    Shards(u16),
    /// Two active at once, which is a misconfiguration.
    NoLease,
}

impl Operators {
    /// Whether a Lease decides which of two processes acts on the judged objects.
    fn are_elected(self) -> bool {
        matches!(self, Self::Lease | Self::Shards(_))
    }
}

/// A schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The setting.
    pub setting: Setting,
    /// The processes.
    pub operators: Operators,
    /// The maximum delay of watches.
    pub watch_delay: Duration,
    /// Faults.
    pub rules: Vec<Rule>,
    /// The actions of users and of the console.
    pub steps: Vec<Timed>,
}

/// The data that a run keeps in addition to its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Nothing.
    Verdict,
    /// Every state, as a digest.
    States,
    /// The events, for people.
    Trace,
    /// The states of the objects that a watching tool could see.
    Moments,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The violations; empty if there are none.
    pub violations: Vec<String>,
    /// The events, if requested.
    pub trace: Vec<String>,
    /// The visible states of the objects, if requested.
    pub moments: Vec<Moment>,
    /// Number of requests of the processes until everything was idle.
    pub requests: u32,
    /// Faults that found no request, and steps that found nothing to act on.
    pub unmet: Vec<String>,
    /// The kinds of the requests, by number, until the last change.
    pub kinds: Vec<(u32, Kind)>,
    /// Hashes of the states.
    pub states: Vec<u64>,
    /// Servers released because another one was recorded.
    pub surplus: usize,
    /// The changes, and the final state.
    pub tally: Tally,
    /// How soon each object was served.
    pub pace: Pace,
    /// How often each rule was judged, and how often excused.
    pub judged: BTreeMap<Judged, Count>,
    /// The work for the neighbours.
    pub neighbours: Done,
}

/// A Lease as the operator holds it: the holder stops first, and others take over later.
const FENCED: Duration = Duration::from_secs(10);
const TAKEOVER_AFTER: Duration = Duration::from_secs(15);
/// A killed process is restarted after this time.
const STARTED_AGAIN: Duration = Duration::from_secs(1);
/// Faults that have not found their request by then find none any more.
const LAST_FAULT: Duration = Duration::from_secs(150);
/// No writes for this time, which is longer than any pace except that after three failures.
const QUIET: Duration = Duration::from_secs(130);
/// Longest time until all is idle: the slowest pace after failures is ten minutes.
const PATIENCE: Duration = Duration::from_secs(3000);
/// When all is idle, nothing is written or called for this time.
const STAYS: Duration = Duration::from_secs(300);
const TICK: Duration = Duration::from_secs(5);
/// More requests than any schedule needs in an hour: something makes requests without end.
const MOST_REQUESTS: u32 = 2_500;

/// Plays a schedule.
pub fn run(schedule: &Schedule, recording: Recording) -> Outcome {
    hear_panics();
    PANICKED.set(false);
    chance::seed(schedule.setting.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => panic!("no runtime: {error}"),
    };
    let played = std::panic::catch_unwind(AssertUnwindSafe(|| {
        // Created inside of the runtime, since the clock outside is not virtual.
        runtime.block_on(async {
            let field = Field::new(schedule, recording);
            let universe = field.universe.watched();
            (field.play(schedule).await, universe)
        })
    }));
    // This drops all tasks and everything that the processes held, unless two parts of a process hold each other.
    drop(runtime);
    let mut outcome = match played {
        Ok((mut outcome, universe)) => {
            if universe.strong_count() > 0 {
                let what = "a part of a process outlives it: two hold each other";
                outcome.violations.push(what.to_owned());
            }
            outcome
        }
        Err(_) => Outcome {
            violations: vec!["the run panicked".to_owned()],
            ..Outcome::default()
        },
    };
    if PANICKED.take() {
        outcome.violations.push("a task panicked".to_owned());
    }
    outcome
}

thread_local! {
    /// Whether a task of the operator panicked on this thread, which plays one run at a time.
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// A panic in a task that is not awaited would go unnoticed, so a hook records it.
fn hear_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICKED.set(true);
            former(info);
        }));
    });
}

/// The processes of a run and their environment.
struct Field {
    universe: Shared,
    operators: Operators,
    processes: Vec<Option<Process>>,
    start_at: Vec<Option<Instant>>,
    /// Since when the holder of the Lease has not renewed it.
    silent_since: Option<Instant>,
    /// Whether the last holder released it.
    is_released: bool,
    dice: StdRng,
    started: u64,
    watch_delay: Duration,
}

impl Field {
    fn new(schedule: &Schedule, recording: Recording) -> Self {
        let universe = Shared::new(&schedule.setting, schedule.rules.clone(), recording);
        if schedule.operators == Operators::NoLease {
            universe.lock().oracle.without_lease();
        }
        let count = match schedule.operators {
            Operators::One => 1,
            Operators::Lease | Operators::NoLease => 2,
            Operators::Shards(shards) => 1 + usize::from(shards),
        };
        Self {
            universe,
            operators: schedule.operators,
            processes: (0..count).map(|_| None).collect(),
            start_at: vec![Some(Instant::now()); count],
            silent_since: None,
            is_released: false,
            dice: StdRng::seed_from_u64(schedule.setting.seed),
            started: 0,
            watch_delay: schedule.watch_delay,
        }
    }

    async fn play(mut self, schedule: &Schedule) -> Outcome {
        let began = Instant::now();
        let mut steps = schedule.steps.clone();
        steps.sort_by_key(|step| step.at);
        let mut steps = steps.into_iter().peekable();
        let last = schedule.steps.iter().map(Timed::after).max();
        let faults_end_at = began + last.unwrap_or_default() + LAST_FAULT;
        let mut are_faults_over = false;
        let mut idle_since: Option<(Instant, BTreeMap<String, u64>)> = None;
        loop {
            let changed = self.universe.changed.clone();
            let changed = changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let now = Instant::now();
            while let Some(step) = steps.next_if(|step| began + step.after() <= now) {
                self.universe.with(|u| u.step(&step.step));
            }
            if !are_faults_over && now >= faults_end_at {
                are_faults_over = true;
                self.universe.with(Universe::end_faults);
            }
            self.universe.lock().collect_garbage();
            if !self.may_a_process_act() {
                self.universe.lock().cannot_ask();
            }
            let unheard = self.universe.lock().unheard();
            if let Some(why) = unheard {
                let mut universe = self.universe.lock();
                let verdict = Verdict::Wrong(why);
                universe.oracle.judge(Judged::Recovered, verdict);
                return outcome(&mut universe);
            }
            let mut next = self.care(now);
            next = next.min(now + TICK);
            if let Some(step) = steps.peek() {
                next = next.min(began + step.after());
            }
            if are_faults_over || self.universe.lock().requests() > MOST_REQUESTS {
                match self.judge(now, faults_end_at, &mut idle_since) {
                    Some(outcome) => return outcome,
                    None => next = next.max(now),
                }
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Whether a process that may act is running, with current objects.
    fn may_a_process_act(&self) -> bool {
        self.judged().any(|p| {
            let is_stopped = p.link.is_dead() || p.link.paused_until().is_some();
            p.leads() && !p.is_deposed() && !is_stopped && !p.is_behind()
        })
    }

    /// The processes that act on the judged objects, or may come to.
    fn judged(&self) -> impl Iterator<Item = &Process> {
        judged(&self.processes)
    }

    /// The shard of the process in this slot: two processes are candidates for the judged shard.
    fn shard(&self, slot: usize) -> Shard {
        let Operators::Shards(shards) = self.operators else {
            return Shard::WHOLE;
        };
        let (judged, others): (Vec<_>, Vec<_>) =
            Shard::all(shards).partition(|shard| shard.owns(NAMESPACE));
        let all = judged.iter().chain(&judged).chain(&others);
        all.skip(slot).copied().next().unwrap_or(Shard::WHOLE)
    }

    /// Whether the run is over: idle for long enough, or not idle for too long.
    fn judge(
        &self,
        now: Instant,
        faults_end_at: Instant,
        idle_since: &mut Option<(Instant, BTreeMap<String, u64>)>,
    ) -> Option<Outcome> {
        let mut universe = self.universe.lock();
        universe.advance();
        if universe.requests() > MOST_REQUESTS {
            return Some(outcome(&mut universe));
        }
        if let Some((since, before)) = idle_since.as_ref() {
            if universe.last_fault >= *since {
                // An event happened: all must become idle again.
                *idle_since = None;
                return None;
            }
            let still = is_still(&universe, before);
            if now < *since + STAYS && !matches!(still, Verdict::Wrong(_)) {
                return None;
            }
            universe.oracle.judge(Judged::Still, still);
            for process in self.processes.iter().flatten() {
                let believes = process.believes_in_a_restore();
                universe.oracle.believed(believes);
            }
            let found = at_the_end(&universe);
            return Some(ended(&mut universe, found));
        }
        let is_led = !self.operators.are_elected() || self.silent_since.is_none();
        let is_manned = is_led && self.start_at.iter().all(Option::is_none);
        let is_known = universe.oracle.lists_are_known();
        let may_go = universe.oracle.may_go(&universe.kube, &universe.cloud);
        // An event at this very instant has not been handled yet.
        let is_quiet = now >= universe.last_change + QUIET
            && now > universe.last_fault
            && is_manned
            && is_known
            && !may_go;
        let is_late = now >= faults_end_at + PATIENCE;
        if !is_quiet && !is_late {
            return None;
        }
        let found = at_the_end(&universe);
        let is_well = |(_, verdict): &(Judged, Verdict)| !matches!(verdict, Verdict::Wrong(_));
        if found.iter().all(is_well) && is_quiet {
            universe.note(|| "   all is idle".to_owned());
            *idle_since = Some((now, universe.changes.clone()));
        } else if is_late {
            return Some(ended(&mut universe, found));
        }
        None
    }

    /// Kills the processes that steps kill, and shuts down those that steps shut down.
    fn stop(&self) {
        let running = |slot: u8| {
            self.processes
                .get(usize::from(slot))
                .and_then(Option::as_ref)
        };
        let kills = std::mem::take(&mut self.universe.lock().kills);
        for slot in kills {
            match running(slot) {
                Some(process) => process.link.die(),
                None => self.universe.lock().finds_nothing(&Step::Kill(slot)),
            }
        }
        let terminations = std::mem::take(&mut self.universe.lock().terminations);
        for slot in terminations {
            match running(slot) {
                Some(process) => process.terminate(),
                None => self.universe.lock().finds_nothing(&Step::Terminate(slot)),
            }
        }
    }

    /// Starts, ends and deposes processes, and delivers changes to their watches. Returns when to check again.
    fn care(&mut self, now: Instant) -> Instant {
        self.spread();
        self.stop();
        let mut next = now + TICK;
        for slot in 0..self.processes.len() {
            if let Some(process) = &self.processes[slot] {
                if process.is_broken() {
                    let violation = "a process ended by itself".to_owned();
                    self.universe.lock().oracle.violations.push(violation);
                }
                if process.link.is_dead() || process.is_broken() {
                    process.kill();
                    let mut universe = self.universe.lock();
                    universe.oracle.believed(process.believes_in_a_restore());
                    universe.note(|| format!("   process {slot} is dead"));
                    drop(universe);
                    let led = process.leads() && process.link.shard().owns(NAMESPACE);
                    self.is_released |= led && process.has_left();
                    self.processes[slot] = None;
                    self.start_at[slot] = Some(now + STARTED_AGAIN);
                    if led {
                        self.silent_since.get_or_insert(now);
                    }
                }
            }
            if self.start_at[slot].is_some_and(|at| at <= now) {
                self.start_at[slot] = None;
                self.started += 1;
                let seed = self.dice.random::<u64>();
                let process = Process::start(&self.universe, seed, self.shard(slot));
                let leads_at_once = match self.operators {
                    Operators::One | Operators::NoLease => true,
                    Operators::Lease => self.started == 1,
                    Operators::Shards(_) => self.started == 1 || slot > 1,
                };
                if leads_at_once {
                    process.lead(0);
                    self.universe.lock().led_anew();
                }
                self.universe
                    .lock()
                    .note(|| format!("   process {slot} runs, leads: {leads_at_once}"));
                self.processes[slot] = Some(process);
            }
            if let Some(at) = self.start_at[slot] {
                next = next.min(at);
            }
        }
        if self.operators.are_elected() {
            next = next.min(self.keep_lease(now));
        }
        next
    }

    /// The Lease: a holder that is stopped is deposed by its own clock, and another process follows.
    fn keep_lease(&mut self, now: Instant) -> Instant {
        let mut next = now + TICK;
        for process in judged(&self.processes).filter(|p| p.leads()) {
            match process.link.paused_until() {
                Some(until) => {
                    let since = *self.silent_since.get_or_insert(now);
                    if now >= since + FENCED {
                        process.depose();
                    } else {
                        next = next.min(since + FENCED);
                    }
                    next = next.min(until);
                }
                // It wakes up and finds that its Lease has expired: it ends, after the requests that it had sent.
                None if process.is_deposed() => process.end_soon(),
                None => self.silent_since = None,
            }
        }
        let Some(since) = self.silent_since else {
            return next;
        };
        if now < since + TAKEOVER_AFTER && !self.is_released {
            return next.min(since + TAKEOVER_AFTER);
        }
        let is_fit = |p: &Process| {
            let is_judged = p.link.shard().owns(NAMESPACE);
            is_judged && !p.leads() && !p.link.is_dead() && p.link.paused_until().is_none()
        };
        let mut processes = self.processes.iter();
        let standby = processes.position(|p| p.as_ref().is_some_and(is_fit));
        if let Some(slot) = standby {
            let version = {
                let is_stopped =
                    |p: &Process| p.leads() && !p.link.is_dead() && p.link.paused_until().is_some();
                let is_alive = self.judged().any(is_stopped);
                let mut universe = self.universe.lock();
                // A dead process calls nothing any more.
                if is_alive && !self.is_released {
                    universe.oracle.taken_over();
                }
                universe.kube.version()
            };
            if let Some(standby) = &self.processes[slot] {
                standby.lead(version);
            }
            self.universe.with(|u| {
                u.oracle.handed_over();
                u.led_anew();
            });
            (self.silent_since, self.is_released) = (None, false);
            self.universe
                .lock()
                .note(|| "   the other process leads".to_owned());
        }
        next.min(now + Duration::from_secs(1))
    }

    /// Every watch gets every change, each with its own delay.
    fn spread(&mut self) {
        let changes = self.universe.lock().kube.take_changes();
        let now = Instant::now();
        for change in changes {
            for process in self.processes.iter().flatten() {
                let delay = if self.dice.random_bool(0.8) {
                    Duration::from_millis(self.dice.random_range(1..40))
                } else {
                    self.watch_delay.mul_f64(self.dice.random())
                };
                process.will_hear(now + delay, change.clone());
            }
        }
    }
}

fn judged(processes: &[Option<Process>]) -> impl Iterator<Item = &Process> {
    let all = processes.iter().flatten();
    all.filter(|process| process.link.shard().owns(NAMESPACE))
}
