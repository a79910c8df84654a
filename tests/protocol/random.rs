//! Random schedules: a seed determines the setting, the faults and the users' actions.

mod theme;

use crate::fault::{Act, Dependency, Kind, On, Rule, Step, Timed};
use crate::run::{Operators, Schedule};
use crate::universe::{OTHERS, Setting};
use cloud_simulator::Readings;
use cloud_simulator::readings::{FailedCreate, ListRows, ReleaseWhileCreating};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::time::Duration;
use theme::Theme;

/// The settling time, in seconds. A late execution happens before its end, as the promise requires.
const SETTLE: u32 = 20;
const LATEST: u32 = 15;

/// From this seed on, the judged team is in one shard of two.
pub const OF_SHARDS: u64 = 1 << 48;

/// The schedule of a seed.
pub fn schedule(seed: u64) -> Schedule {
    let mut dice = StdRng::seed_from_u64(seed);
    let operators = match dice.random_range(0..100) {
        _ if seed >= OF_SHARDS => Operators::Shards(2),
        0..60 => Operators::One,
        60..90 => Operators::Lease,
        _ => Operators::NoLease,
    };
    let mut setting = Setting {
        seed,
        settle: SETTLE,
        tasks: Duration::from_millis(*[300, 300, 2500, 8000].choose(&mut dice).unwrap_or(&300)),
        readings: readings(&mut dice),
        by_key: dice.random_bool(0.3),
        ..Setting::default()
    };
    if seed >= OF_SHARDS {
        setting.neighbours = vec![OTHERS; 2];
    }
    let theme = Theme::choose(&mut dice);
    theme.set(&mut setting, &mut dice);
    setting.imports = !theme.is_denied(seed);
    let is_tampered = dice.random_bool(0.15);
    let count = dice.random_range(0..=4);
    let mut rules: Vec<Rule> = (0..count).map(|_| rule(&mut dice, theme)).collect();
    if setting.readings.task_kept.is_some() {
        // Nothing reports a task that failed and was forgotten at once, and nothing is promised for it (docs).
        rules.retain(|rule| !matches!(rule.act, Act::TaskFails | Act::TaskCancelled));
    }
    Schedule {
        setting,
        operators,
        watch_delay: Duration::from_millis(*[50, 2_000, 25_000].choose(&mut dice).unwrap_or(&50)),
        rules,
        steps: steps(&mut dice, is_tampered, operators, theme),
    }
}

fn readings(dice: &mut StdRng) -> Readings {
    Readings {
        visible_late: Duration::from_millis(*[0, 0, 2_000].choose(dice).unwrap_or(&0)),
        detail_late: dice.random_bool(0.2),
        list_rows: *[ListRows::Full, ListRows::Minimal]
            .choose(dice)
            .unwrap_or(&ListRows::Full),
        reinstall_needs_stop: dice.random_bool(0.15),
        release_while_creating: *[ReleaseWhileCreating::Refused, ReleaseWhileCreating::Allowed]
            .choose(dice)
            .unwrap_or(&ReleaseWhileCreating::Refused),
        failed_create: *[FailedCreate::LeavesBroken, FailedCreate::LeavesNothing]
            .choose(dice)
            .unwrap_or(&FailedCreate::LeavesNothing),
        task_kept: dice.random_bool(0.2).then_some(Duration::from_secs(2)),
        ..Readings::default()
    }
}

/// A random fault at a request, of a kind that can happen to such a request.
fn rule(dice: &mut StdRng, theme: Theme) -> Rule {
    if dice.random_bool(0.3) {
        let on = On::Any(dice.random_range(1..60));
        return Rule {
            on,
            act: common(dice, theme),
        };
    }
    let kind = *Kind::ALL.choose(dice).unwrap_or(&Kind::Intent);
    let act = if dice.random_bool(0.5) {
        common(dice, theme)
    } else if kind.is_mutating_call() {
        mutating(dice)
    } else if kind == Kind::Listing {
        [Act::Omit, Act::Empty, Act::Status(500), Act::Cut]
            .choose(dice)
            .cloned()
            .unwrap_or(Act::Omit)
    } else if kind.is_cloud() {
        [
            Act::FalseNotFound,
            Act::Status(500),
            Act::Cut,
            Act::Status(429),
        ]
        .choose(dice)
        .cloned()
        .unwrap_or(Act::Cut)
    } else {
        [
            Act::Meddle,
            Act::Status(500),
            Act::StatusAfter(504),
            Act::Status(429),
            Act::Cut,
        ]
        .choose(dice)
        .cloned()
        .unwrap_or(Act::Meddle)
    };
    Rule {
        on: On::Nth(kind, dice.random_range(1..=3)),
        act,
    }
}

/// A fault that can happen to any request.
fn common(dice: &mut StdRng, theme: Theme) -> Act {
    match dice.random_range(0..10) {
        0 | 1 => Act::CrashBefore,
        2 | 3 => Act::CrashAfter,
        4 => Act::LoseRequest,
        5 => Act::LoseAnswer,
        6 => Act::PauseBefore(*[5, 20, 60].choose(dice).unwrap_or(&5)),
        7 => Act::PauseAfter(*[5, 20, 60].choose(dice).unwrap_or(&5)),
        8 => Act::Before(any_step(dice, theme)),
        _ => Act::After(any_step(dice, theme)),
    }
}

fn mutating(dice: &mut StdRng) -> Act {
    match dice.random_range(0..9) {
        0 => Act::Late(dice.random_range(1..=LATEST)),
        1 => Act::Twice,
        2 => Act::TaskFails,
        3 => Act::TaskCancelled,
        4 => Act::StatusAfter(502),
        5 => Act::Status(500),
        6 => Act::Slow(70),
        7 => Act::Cut,
        _ => Act::NotSent,
    }
}

fn steps(dice: &mut StdRng, is_tampered: bool, operators: Operators, theme: Theme) -> Vec<Timed> {
    let mut steps = vec![Timed {
        at: 500,
        step: Step::Apply(1),
    }];
    if dice.random_bool(0.2) {
        steps.push(Timed {
            at: 600,
            step: Step::Apply(2),
        });
    }
    for _ in 0..dice.random_range(0..=4) {
        let longest = *[3_000, 20_000, 90_000].choose(dice).unwrap_or(&3_000);
        let slot = match operators {
            Operators::Lease | Operators::Shards(_) => dice.random_range(0..2),
            Operators::One | Operators::NoLease => 0,
        };
        let step = match dice.random_range(0..13) {
            0 => Step::Kill(slot),
            1 => Step::Terminate(slot),
            _ => any_step(dice, theme),
        };
        steps.push(Timed {
            at: 500 + dice.random_range(0..longest),
            step,
        });
    }
    if dice.random_bool(0.15) {
        let both = [Dependency::Service, Dependency::Apiserver];
        let dependency = *both.choose(dice).unwrap_or(&Dependency::Service);
        let from = 500 + dice.random_range(0..20_000);
        let longest = *[5_000, 60_000, 600_000].choose(dice).unwrap_or(&5_000);
        let (at, step) = (from, Step::Away(dependency));
        steps.push(Timed { at, step });
        let (at, step) = (from + dice.random_range(0..longest), Step::Back(dependency));
        steps.push(Timed { at, step });
    }
    steps.extend(theme.steps(dice));
    if is_tampered {
        for step in tampering(dice) {
            steps.push(Timed {
                at: 500 + dice.random_range(0..40_000),
                step,
            });
        }
    }
    if dice.random_bool(0.1) {
        steps.extend(refusals(dice));
    }
    steps
}

/// For a while all requests to a dependency get the same answer: a revoked key, missing permissions, a service in trouble.
fn refusals(dice: &mut StdRng) -> [Timed; 2] {
    let all = [
        (Dependency::Service, 401),
        (Dependency::Service, 401),
        (Dependency::Service, 403),
        (Dependency::Service, 500),
        (Dependency::Apiserver, 403),
        (Dependency::Apiserver, 500),
    ];
    let (dependency, status) = *all.choose(dice).unwrap_or(&all[0]);
    let from = 500 + dice.random_range(0..30_000);
    let longest = *[20_000, 120_000, 900_000].choose(dice).unwrap_or(&20_000);
    let until = from + dice.random_range(0..longest);
    let (goes, comes) = (Step::Answers(dependency, status), Step::Back(dependency));
    [(from, goes), (until, comes)].map(|(at, step)| Timed { at, step })
}

fn any_step(dice: &mut StdRng, theme: Theme) -> Step {
    if dice.random_bool(0.5)
        && let Some(step) = theme.step(dice)
    {
        return step;
    }
    match dice.random_range(0..13) {
        0 | 1 => Step::EditImage(1),
        2 => Step::EditPower(1),
        3 => Step::Restart(1),
        4 => Step::Reinstall(1),
        5 => Step::RotatePassword,
        6 => Step::Label(1),
        7 | 8 => Step::Delete(1),
        9 => Step::Apply(1),
        10 => Step::WipeStatus(1),
        11 => [
            Step::ConsoleRelease(1),
            Step::ConsoleOff(1),
            Step::ConsoleRebuild(1),
        ]
        .choose(dice)
        .cloned()
        .unwrap_or(Step::ConsoleOff(1)),
        _ => Step::EditPower(1),
    }
}

fn tampering(dice: &mut StdRng) -> Vec<Step> {
    match dice.random_range(0..5) {
        0 => vec![Step::ForceFinalizers(1)],
        1 => vec![Step::Replace(1)],
        2 => vec![Step::Copy(1)],
        3 => vec![Step::Backup(1), Step::Delete(1), Step::RestoreBackup(1)],
        _ => vec![Step::SnapshotEtcd, Step::RestoreEtcd],
    }
}
