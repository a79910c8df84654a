//! Random schedules, on all processors.

use crate::exhaust::ENOUGH;
use crate::oracle::{Count, Rule, idle, table};
use crate::random::{OF_SHARDS, schedule};
use crate::run::{Recording, Schedule, run};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tracing_subscriber::EnvFilter;

/// The results of many runs.
#[derive(Default)]
struct Sum {
    runs: u64,
    requests: u64,
    surplus: u64,
    judged: BTreeMap<Rule, Count>,
    failed: Vec<(u64, Vec<String>)>,
}

/// Plays the schedules of these seeds until all are done or the time is over.
fn play(first: u64, count: u64, longest: Option<Duration>) -> (Sum, Duration) {
    let (next, sum, began) = (
        AtomicU64::new(first),
        Mutex::new(Sum::default()),
        Instant::now(),
    );
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let is_over = longest.is_some_and(|longest| began.elapsed() >= longest);
                    let is_hopeless = sum.lock().unwrap().failed.len() >= ENOUGH;
                    if seed >= first + count || is_over || is_hopeless {
                        return;
                    }
                    let outcome = run(&schedule(seed), Recording::Verdict);
                    let mut sum = sum.lock().unwrap();
                    sum.runs += 1;
                    sum.requests += u64::from(outcome.requests);
                    sum.surplus += outcome.surplus as u64;
                    for (rule, count) in outcome.judged {
                        let all = sum.judged.entry(rule).or_default();
                        all.judged += count.judged;
                        all.excused += count.excused;
                    }
                    if !outcome.violations.is_empty() {
                        sum.failed.push((seed, outcome.violations));
                    }
                }
            });
        }
    });
    (sum.into_inner().unwrap(), began.elapsed())
}

fn report(sum: &Sum, took: Duration) {
    let per_minute = sum.runs as f64 * 60.0 / took.as_secs_f64();
    println!(
        "{} schedules in {:.1} s, {per_minute:.0} a minute; {} requests; {} surplus servers released; {} failed",
        sum.runs,
        took.as_secs_f64(),
        sum.requests,
        sum.surplus,
        sum.failed.len(),
    );
    for line in table(&sum.judged) {
        println!("{line}");
    }
    for (seed, violations) in sum.failed.iter().take(20) {
        println!("seed {seed}: {}", violations.join("; "));
    }
}

fn assert_well(sum: &Sum) {
    let Some((seed, violations)) = sum.failed.first() else {
        assert_eq!(idle(&sum.judged, sum.runs), [""; 0]);
        return;
    };
    let smallest = shrink(schedule(*seed));
    println!("seed {seed}, as small as it gets:\n{smallest:#?}");
    for line in run(&smallest, Recording::Trace).trace {
        println!("{line}");
    }
    panic!(
        "seed {seed}: {violations:?}; again with SEED={seed} cargo test --locked --profile fast --test protocol replay -- --ignored --nocapture"
    );
}

/// Removes the parts that are not needed for the failure.
fn shrink(mut schedule: Schedule) -> Schedule {
    let fails = |schedule: &Schedule| !run(schedule, Recording::Verdict).violations.is_empty();
    loop {
        let smaller = (0..schedule.rules.len())
            .map(|n| {
                let mut smaller = schedule.clone();
                smaller.rules.remove(n);
                smaller
            })
            .chain((1..schedule.steps.len()).map(|n| {
                let mut smaller = schedule.clone();
                smaller.steps.remove(n);
                smaller
            }))
            .find(fails);
        match smaller {
            Some(smaller) => schedule = smaller,
            None => return schedule,
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn ten_thousand_schedules_by_chance() {
    let first = number("FIRST_SEED").unwrap_or(1);
    let (sum, took) = play(first, number("SCHEDULES").unwrap_or(10_000), None);
    report(&sum, took);
    assert_well(&sum);
}

/// As above, but the judged team is in one shard of two, which changes hands, and another process acts on the other shard all
/// the time.
#[test]
fn five_hundred_schedules_by_chance_of_a_shard() {
    let count = number("SCHEDULES").unwrap_or(500);
    let (sum, took) = play(OF_SHARDS + number("FIRST_SEED").unwrap_or(1), count, None);
    report(&sum, took);
    assert_well(&sum);
}

#[test]
#[ignore = "runs for SOAK_MINUTES: make soak"]
fn soak() {
    let minutes = number("SOAK_MINUTES").unwrap_or(10);
    // Different schedules each time; the first seed is printed, so that they can be repeated.
    let first = number("FIRST_SEED").unwrap_or_else(|| rand::random::<u32>().into());
    let quarter = Duration::from_secs(minutes * 60) / 4;
    let played = [(OF_SHARDS + first, quarter), (first, 3 * quarter)].map(|(first, longest)| {
        println!("seeds from {first}");
        play(first, u64::MAX - first, Some(longest))
    });
    for (sum, took) in &played {
        report(sum, *took);
    }
    for (sum, _) in &played {
        assert_well(sum);
    }
}

#[test]
#[ignore = "plays the schedule of SEED again without the parts that its failure does not need, and prints its trace"]
fn replay() {
    // With RUST_LOG, the log of the operator is printed, too.
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .init();
    let seed = number("SEED").expect("set SEED to the number that a failure printed");
    let mut schedule = schedule(seed);
    if !run(&schedule, Recording::Verdict).violations.is_empty() {
        schedule = shrink(schedule);
    }
    println!("{schedule:#?}");
    let outcome = run(&schedule, Recording::Trace);
    for line in &outcome.trace {
        println!("{line}");
    }
    assert_eq!(outcome.violations, [""; 0]);
}

/// Seeds of long runs that failed once because of defects in the operator or its judges, which are fixed. A seed means another
/// schedule as soon as the generator changes; some of these cases also have a named schedule or a test of their own.
const FAILED_ONCE: [u64; 142] = [
    880, 8053, 800082792, 800109082, 800118098, 800121322, 800128766, 800156758, 800164542,
    800174036, 800194782, 800214643, 800222817, 804882662, 1165100748, 1165126177, 1165128029,
    1165175829, 1165177783, 1165213514, 1165270390, 1165305753, 1165308795, 1165322607, 1165325202,
    1165328850, 3368205255, 3368264255, 3368279023, 3807785503, 3807819219, 3807857159, 3807866035,
    3807880349, 3807892628, 3807919026, 3807939194, 3807959911, 3807959938, 3807969291, 4168984409,
    4168997484, 4169002514, 4169008816, 4169031076, 4169035168, 4169039634, 4169040168, 4169045553,
    4169065962, 2085002074, 2085038136, 2085023312, 2085057790, 1505302896, 1436878867, 1436882607,
    1436914603, 1436971276, 1436993772, 1437105867, 1437124848, 2408538730, 2408616046, 2408621244,
    2408642927, 2408675575, 407957477, 407984237, 1538885449, 1539008538, 832614770, 832707878,
    2315557075, 2315674686, 2315687972, 2315713979, 3726142883, 1246808154, 1246836107, 1246952763,
    1655488451, 1332835773, 1332866598, 3029993703, 496398509, 225463621, 225517904, 3800393844,
    3800478875, 2943471994, 648313671, 648369865, 648403656, 45759752, 264338453, 264360310,
    264405920, 264418538, 264425951, 264467594, 579361718, 579351782, 2448277466, 2448280207,
    1295886439, 1295888284, 1295996038, 1296012098, 1028905434, 1028985692, 3522953614, 1194583101,
    3735264410, 452429931, 2083217399, 1038209762, 1038216561, 1038217047, 1038228604, 1038230629,
    1038237532, 1038256467, 1038270057, 1038270972, 1724958374, 1724963908, 1724980904, 1724984089,
    1724993514, 1724998089, 1724961305, 1724967607, 1724971328, 1724966937, 2511135178, 2511139651,
    1742786707, 1742882776, 1035119336, 2521561980, 7662066,
];

#[test]
fn seeds_that_failed_once_pass() {
    for seed in FAILED_ONCE {
        let outcome = run(&schedule(seed), Recording::Verdict);
        assert_eq!(outcome.violations, [""; 0], "seed {seed}");
    }
}

#[test]
fn a_schedule_played_twice_goes_the_same_way() {
    for seed in 1..40 {
        let (first, again) = (
            run(&schedule(seed), Recording::Trace),
            run(&schedule(seed), Recording::Trace),
        );
        assert_eq!(first.trace, again.trace, "seed {seed}");
        assert_eq!(first.states, again.states, "seed {seed}");
    }
}
