//! Every schedule of a script with up to a number of faults: each fault at each request after the previous fault.

use crate::fault::{Act, Kind, On, Rule, Step, Timed};
use crate::run::{Operators, Outcome, Recording, Schedule, run};
use crate::specs;
use crate::universe::{ImportBy, Setting};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The faults that can happen to a request of this kind. If it makes no difference which request a fault hits, it is tried only
/// once.
fn acts(kind: Kind) -> Vec<Act> {
    let mut acts = vec![Act::CrashBefore];
    if kind.is_write() || kind.is_mutating_call() {
        acts.extend([Act::CrashAfter, Act::LoseRequest, Act::LoseAnswer]);
    }
    if kind.is_mutating_call() {
        acts.extend([Act::Late(12), Act::Status(500)]);
    }
    match kind {
        Kind::Create => acts.extend([Act::Twice, Act::TaskFails]),
        Kind::Reinstall | Kind::Release | Kind::Power => acts.push(Act::TaskFails),
        Kind::Intent | Kind::Receipt => acts.push(Act::Meddle),
        Kind::Secret => acts.push(Act::Before(Step::EditLogin(1))),
        Kind::Listing => acts.push(Act::Omit),
        Kind::Detail => acts.push(Act::FalseNotFound),
        Kind::Task => acts.push(Act::Status(500)),
        _ => {}
    }
    acts
}

/// A script: a user's actions on one Instance.
fn script(steps: &[(u64, Step)]) -> Schedule {
    let apply = [(500, Step::Apply(1))];
    let steps = apply.iter().chain(steps);
    Schedule {
        setting: Setting {
            seed: 3,
            ..Setting::default()
        },
        operators: Operators::One,
        watch_delay: Duration::from_millis(50),
        rules: Vec::new(),
        steps: steps
            .map(|(at, step)| Timed {
                at: *at,
                step: step.clone(),
            })
            .collect(),
    }
}

/// Enough failures to diagnose a defect.
pub const ENOUGH: usize = 20;

/// The results of the runs of one script.
#[derive(Default)]
struct Sum {
    runs: usize,
    states: HashSet<u64>,
    failed: Vec<(Vec<Rule>, Vec<String>)>,
}

impl Sum {
    fn take(&mut self, rules: &[Rule], outcome: Outcome) {
        self.runs += 1;
        self.states.extend(outcome.states);
        if !outcome.violations.is_empty() {
            self.failed.push((rules.to_vec(), outcome.violations));
        }
    }
}

/// Plays a script with every choice of at most `depth` faults.
fn exhaust(script: &Schedule, depth: usize) -> Sum {
    let sum = Mutex::new(Sum::default());
    let mut open: Vec<Vec<Rule>> = vec![Vec::new()];
    for level in 0..=depth {
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(rules) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if sum.lock().unwrap().failed.len() >= ENOUGH {
                            return;
                        }
                        let mut schedule = script.clone();
                        schedule.rules.clone_from(rules);
                        let outcome = run(&schedule, Recording::States);
                        if level < depth {
                            found.lock().unwrap().extend(further(rules, &outcome.kinds));
                        }
                        sum.lock().unwrap().take(rules, outcome);
                    }
                });
            }
        });
        open = found.into_inner().unwrap();
    }
    sum.into_inner().unwrap()
}

/// Adds one more fault, at every request after the last fault.
fn further(rules: &[Rule], kinds: &[(u32, Kind)]) -> Vec<Vec<Rule>> {
    let after = rules.last().map_or(0, |rule| match rule.on {
        On::Any(n) | On::Nth(_, n) => n,
    });
    let mut all = Vec::new();
    for (number, kind) in kinds.iter().filter(|(number, _)| *number > after) {
        for act in acts(*kind) {
            let on = On::Any(*number);
            let mut more = rules.to_vec();
            more.push(Rule { on, act });
            all.push(more);
        }
    }
    all
}

fn scripts() -> Vec<(&'static str, Schedule)> {
    vec![
        ("create", script(&[])),
        ("create, delete", script(&[(4_000, Step::Delete(1))])),
        ("delete at once", script(&[(545, Step::Delete(1))])),
        ("reinstall", script(&[(4_000, Step::EditImage(1))])),
        ("password", script(&[(4_000, Step::RotatePassword)])),
        ("stop", script(&[(4_000, Step::EditPower(1))])),
        ("restart", script(&[(4_000, Step::Restart(1))])),
    ]
}

/// Features that are newer than the model-checked protocol.
fn newer_scripts() -> Vec<(&'static str, Schedule)> {
    let release = script(&[(4_000, Step::ConsoleRelease(1))]);
    let offer_image = script(&[(800, Step::OfferImage)]);
    [
        imports(),
        vec![("recreate", with(specs::recreates(1), release))],
        made_logins(),
        policies(),
        vec![
            ("forced stop", forced_stop()),
            (
                "reinstall of the same image with a stop",
                needs_stop(Step::Reinstall(1)),
            ),
            (
                "reinstall with a stop, unmanaged",
                with(
                    json!({"powerState": "Unmanaged"}),
                    needs_stop(Step::EditImage(1)),
                ),
            ),
            ("by name", with(specs::by_name(), offer_image)),
        ],
    ]
    .concat()
}

fn imports() -> Vec<(&'static str, Schedule)> {
    vec![
        ("import", import(script(&[]))),
        ("import by two", import(script(&[(520, Step::Apply(2))]))),
        (
            "import, delete",
            import(script(&[(4_000, Step::Delete(1))])),
        ),
    ]
}

/// The operator generates the password.
fn made_logins() -> Vec<(&'static str, Schedule)> {
    vec![
        ("made login", with(specs::generated(), script(&[]))),
        (
            "made login, edited",
            with(specs::generated(), script(&[(4_000, Step::EditLogin(1))])),
        ),
        (
            "made login, rotated",
            with(
                specs::generated(),
                script(&[
                    (4_000, Step::Spec(1, specs::rotates())),
                    (45_000, Step::Spec(1, specs::rotates_no_more())),
                ]),
            ),
        ),
    ]
}

/// The spec restricts the operator.
fn policies() -> Vec<(&'static str, Schedule)> {
    vec![
        (
            "reinstall on request",
            with(
                specs::reinstalls("OnRequest"),
                script(&[(4_000, Step::EditImage(1)), (6_000, Step::Acknowledge(1))]),
            ),
        ),
        (
            "retain, delete",
            with(specs::retains(), script(&[(4_000, Step::Delete(1))])),
        ),
        (
            "protected, delete",
            with(
                specs::protected(true),
                script(&[
                    (4_000, Step::Delete(1)),
                    (9_000, Step::Spec(1, specs::protected(false))),
                ]),
            ),
        ),
        (
            "observe",
            script(&[
                (800, Step::Spec(1, specs::management("Observe"))),
                (4_000, Step::EditImage(1)),
                (15_000, Step::Spec(1, specs::management("Manage"))),
            ]),
        ),
        (
            "pause",
            script(&[
                (800, Step::Spec(1, specs::paused())),
                (4_000, Step::EditPower(1)),
                (15_000, Step::Spec(1, specs::goes_on())),
            ]),
        ),
    ]
}

fn with(spec: Value, mut script: Schedule) -> Schedule {
    script.setting.spec.push(spec);
    script
}

fn import(mut script: Schedule) -> Schedule {
    script.setting.import = Some(ImportBy::Name);
    script
}

fn forced_stop() -> Schedule {
    let stop = script(&[(4_000, Step::EditPower(1))]);
    let mut script = with(specs::forces("AfterGracePeriod"), stop);
    script.setting.stop = Some(Duration::from_secs(60));
    script
}

/// The service reinstalls only stopped servers.
fn needs_stop(reinstall: Step) -> Schedule {
    let mut script = script(&[(4_000, reinstall)]);
    script.setting.readings.reinstall_needs_stop = true;
    script
}

fn all_to_depth(depth: usize, scripts: &[(&str, Schedule)]) {
    let mut failed = Vec::new();
    for (name, script) in scripts {
        let began = Instant::now();
        let sum = exhaust(script, depth);
        println!(
            "{name}: at most {depth} faults: {} schedules, {} states, {} failed, {:.1} s",
            sum.runs,
            sum.states.len(),
            sum.failed.len(),
            began.elapsed().as_secs_f64(),
        );
        for (rules, violations) in sum.failed.iter().take(5) {
            println!("  {rules:?}: {}", violations.join("; "));
        }
        if let Some((rules, _)) = sum.failed.first() {
            let mut first = script.clone();
            first.rules.clone_from(rules);
            println!("{}", run(&first, Recording::Trace).trace.join("\n"));
        }
        failed.extend(sum.failed);
        if failed.len() >= ENOUGH {
            break;
        }
    }
    assert!(failed.is_empty(), "{} schedules failed", failed.len());
}

#[test]
fn every_single_fault() {
    all_to_depth(1, &[scripts(), newer_scripts()].concat());
}

#[test]
#[ignore = "takes minutes: make soak"]
fn every_two_faults() {
    all_to_depth(2, &[scripts(), newer_scripts()].concat());
}
