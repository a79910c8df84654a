//! A completed operation is reported when it completes: for tasks of every length, including the first of its kind, and with
//! few polls.
//!
//! Next to other tests on two cores, every step may wait for a processor. So the tests that run with all others count: the first
//! query after the task's end finds it, and one read of the server leads to Ready. The pauses between queries are judged in
//! virtual time (`poll_schedule/tests.rs`). Only tests that run on request measure the time.

use crate::support::{
    Follower, Mark, Setup, World, done, instance, mark, other_image, three, within,
};
use cloud_server_operator::api::Verb;
use cloud_simulator::Readings;
use cloud_simulator::model::Effect;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};

const TASK: &str = "/asynctask/getResult";
const DETAIL: &str = "/instance/detail";

/// From the end of a task to the write of Ready; after longer ones, a quarter of their length.
const SHORTEST: SignedDuration = SignedDuration::from_millis(1500);
/// A single report may wait for a processor: for two calls and a write.
const SLACK: SignedDuration = SignedDuration::from_secs(3);

/// Tasks of this many seconds, and the most queries for each: 1.2 s apart, from 6 s on a fifth of the age.
const LENGTHS: [(u64, usize); 3] = [(1, 1), (4, 4), (12, 9)];
const LONG: [(u64, usize); 2] = [(30, 14), (60, 18)];

/// When the task ended that the operator began since then, and the number of that entry in the ledger.
fn ended(world: &World, since: &Mark) -> (Timestamp, u64) {
    let ledger = world.sim.ledger();
    let entries = ledger.since(since.seq).into_iter();
    let mut ends = entries.filter(|entry| {
        let effect = &entry.effect;
        matches!(effect, Effect::Reinstalled { .. } | Effect::Deployed { .. })
    });
    let end = ends.next().unwrap();
    let millis = i64::try_from(end.at.as_millis()).unwrap();
    (Timestamp::from_millisecond(millis).unwrap(), end.seq)
}

/// Counts the calls of a path after this entry of the ledger, up to this time.
fn count(world: &World, seq: u64, until: Timestamp, path: &str) -> usize {
    let until = u64::try_from(until.as_millisecond()).unwrap();
    let calls = world.calls_since(seq).into_iter();
    let calls = calls.filter(|call| call.path == path && call.at.as_millis() <= until);
    calls.count()
}

/// Buys a server in the first turn and then reinstalls it, at a service whose tasks take this long. Judges the time as well.
pub async fn reports_ends_in_time(world: &World, length: (u64, usize), turns: usize) {
    let figures = reports_with_few_calls(world, length, turns).await;
    let quarter = SignedDuration::from_millis(i64::try_from(length.0 * 250).unwrap());
    let what = format!("done, tasks of {} s", length.0);
    within(&what, &figures, SHORTEST.max(quarter), SLACK);
}

/// The same, judged by its calls alone. Returns the time from each task's end to the write of Ready.
async fn reports_with_few_calls(
    world: &World,
    (seconds, most): (u64, usize),
    turns: usize,
) -> Vec<SignedDuration> {
    let (mut since, mut figures, mut follower) = (Mark::default(), Vec::new(), None);
    for turn in 0..turns {
        let verb = match turn {
            0 => Verb::Create,
            _ => Verb::Reinstall,
        };
        if turn == 0 {
            since.seq = world.sim.ledger().last_seq();
        }
        let applied = match turn % 2 {
            0 => world.apply(&instance("erased")).await,
            _ => world.apply(&other_image("erased")).await,
        };
        if follower.is_none() {
            follower = Some(Follower::of(world, "erased").await);
        }
        let follower = follower.as_ref().unwrap();
        done(world, "erased", &since, &[verb]).await;
        let ((at, end), generation) = (ended(world, &since), applied.metadata.generation.unwrap());
        let ready = follower.done(world, &since, generation).await;
        // No write during the task reported its completion.
        assert!(ready >= at, "Ready at {ready}, ended at {at}");
        figures.push(ready.duration_since(at));
        let queries = count(world, since.seq, ready, TASK);
        println!("{seconds} s, {verb}: {queries} queries");
        assert!(queries <= most, "{}", world.ledger_text());
        let after_end = [TASK, DETAIL].map(|path| count(world, end, ready, path));
        assert_eq!(after_end, [1, 1], "{}", world.ledger_text());
        since = mark(world, "erased").await;
    }
    println!("tasks of {seconds} s: Ready {figures:?} after their ends");
    figures
}

async fn reports_at_each_length(
    lengths: &[(u64, usize)],
    turns: usize,
    readings: Readings,
    is_timed: bool,
) {
    let each = lengths.iter().map(|length| {
        let setup = Setup::default().tasks(length.0 * 1000);
        let setup = setup.readings(readings.clone());
        async move {
            let world = setup.begin(&format!("done-{}", length.0)).await;
            match is_timed {
                true => reports_ends_in_time(&world, *length, turns).await,
                false => drop(reports_with_few_calls(&world, *length, turns).await),
            }
            world.finish().await;
        }
    });
    join_all(each).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_is_reported_in_time_as_specified() {
    reports_at_each_length(&LENGTHS, 5, three::specified(), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_is_reported_in_time_where_rows_are_minimal() {
    reports_at_each_length(&LENGTHS, 5, three::minimal(), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_is_reported_in_time_where_results_are_null() {
    reports_at_each_length(&LENGTHS, 5, three::null(), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "three tasks of a minute, one after another"]
async fn an_end_after_a_minute_is_reported_in_time() {
    let readings = [three::specified(), three::minimal(), three::null()];
    join_all(readings.map(|readings| reports_at_each_length(&LONG, 3, readings, true))).await;
}
