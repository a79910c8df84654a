//! A completed operation is reported when it completes: for tasks of every length, including the first of its kind, and with
//! few polls.

use crate::support::{Mark, Setup, Told, World, done, instance, mark, other_image, three, within};
use cloud_server_operator::api::Verb;
use cloud_simulator::Readings;
use cloud_simulator::model::Effect;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};

const TASK: &str = "/asynctask/getResult";

/// From the end of a task to the write of Ready; after longer ones, a quarter of their length.
const SHORTEST: SignedDuration = SignedDuration::from_millis(1500);
/// A single report may wait for a processor that other tests use: for two calls and a write.
const SLACK: SignedDuration = SignedDuration::from_secs(3);

/// Tasks of this many seconds, and the most queries for each: 1.2 s apart, from 7.2 s on a sixth of the age.
const LENGTHS: [(u64, usize); 3] = [(1, 1), (4, 4), (12, 10)];
const LONG: [(u64, usize); 2] = [(30, 16), (60, 20)];

/// When the task ended that the operator began since then.
fn ended(world: &World, since: &Mark) -> Timestamp {
    let ledger = world.sim.ledger();
    let entries = ledger.since(since.seq).into_iter();
    let mut ends = entries.filter(|entry| {
        let effect = &entry.effect;
        matches!(effect, Effect::Reinstalled { .. } | Effect::Deployed { .. })
    });
    let at = ends.next().map(|entry| entry.at).unwrap();
    Timestamp::from_millisecond(i64::try_from(at.as_millis()).unwrap()).unwrap()
}

/// Buys a server in the first turn and then reinstalls it, at a service whose tasks take this long.
pub async fn tells_when_done(world: &World, (seconds, most): (u64, usize), turns: usize) {
    let (mut since, mut figures, mut told) = (Mark::default(), Vec::new(), None);
    for turn in 0..turns {
        let verb = match turn {
            0 => Verb::Create,
            _ => Verb::Reinstall,
        };
        if turn == 0 {
            since.seq = world.sim.ledger().last_seq();
        }
        let asked = match turn % 2 {
            0 => world.apply(&instance("erased")).await,
            _ => world.apply(&other_image("erased")).await,
        };
        if told.is_none() {
            told = Some(Told::of(world, "erased").await);
        }
        let told = told.as_ref().unwrap();
        done(world, "erased", &since, &[verb]).await;
        let (at, generation) = (ended(world, &since), asked.metadata.generation.unwrap());
        let ready = told.done(world, &since, generation).await;
        // No write during the task reported its completion.
        assert!(ready >= at, "Ready at {ready}, ended at {at}");
        figures.push(ready.duration_since(at));
        let calls = world.calls_since(since.seq);
        let questions = calls.iter().filter(|call| call.path == TASK).count();
        println!("{seconds} s, {verb}: {questions} questions");
        assert!(questions <= most, "{}", world.ledger_text());
        since = mark(world, "erased").await;
    }
    let quarter = SignedDuration::from_millis(i64::try_from(seconds * 250).unwrap());
    let what = format!("done, tasks of {seconds} s");
    within(&what, &figures, SHORTEST.max(quarter), SLACK);
}

async fn told_when_done(lengths: &[(u64, usize)], turns: usize, readings: Readings) {
    let each = lengths.iter().map(|length| {
        let setup = Setup::default().tasks(length.0 * 1000);
        let setup = setup.readings(readings.clone());
        async move {
            let world = setup.begin(&format!("done-{}", length.0)).await;
            tells_when_done(&world, *length, turns).await;
            world.finish().await;
        }
    });
    join_all(each).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_is_told_when_it_is_done_as_specified() {
    told_when_done(&LENGTHS, 5, three::specified()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_is_told_when_it_is_done_where_rows_are_minimal() {
    told_when_done(&LENGTHS, 5, three::minimal()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_is_told_when_it_is_done_where_results_are_null() {
    told_when_done(&LENGTHS, 5, three::null()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "three tasks of a minute, one after another"]
async fn done_is_told_when_it_is_done_after_a_minute_too() {
    let readings = [three::specified(), three::minimal(), three::null()];
    join_all(readings.map(|readings| told_when_done(&LONG, 3, readings))).await;
}
