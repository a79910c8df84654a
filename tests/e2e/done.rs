//! What is done is told when it is done: of tasks of every length, the first of their kind too, and at few questions.

use crate::support::{Mark, Setup, World, done, eventually, instance, mark, once, other_image};
use cloud_server_operator::api::Verb;
use cloud_simulator::Readings;
use cloud_simulator::model::Effect;
use cloud_simulator::readings::{HttpStatus, ListRows, ResultWhileProcessing, TaskId};
use jiff::{SignedDuration, Timestamp};

const TASK: &str = "/asynctask/getResult";

/// More than a machine that many tests share takes for the last questions, far less than ten seconds, which a miss once cost.
const SOON: SignedDuration = SignedDuration::from_secs(6);

/// Tasks of this many seconds, and the most questions for each: 1.2 s apart, from 14 s on a twelfth of the age, one more for an
/// end that was expected and one that the listing leads to.
const LENGTHS: [(u64, usize); 4] = [(1, 3), (4, 6), (7, 9), (12, 13)];

async fn told_after(world: &World, verb: Verb, since: &Mark) -> SignedDuration {
    let at = {
        let ledger = world.sim.ledger();
        let entries = ledger.since(since.seq);
        let mut ends = entries.iter().filter(|entry| {
            matches!(
                entry.effect,
                Effect::Reinstalled { .. } | Effect::Deployed { .. }
            )
        });
        ends.next().map(|entry| entry.at).unwrap()
    };
    let ended = Timestamp::from_millisecond(i64::try_from(at.as_millis()).unwrap()).unwrap();
    eventually("the end is in the audit log", async || {
        let writes = once(world.writes().await);
        let mut told = writes
            .iter()
            .filter(|e| e.subresource == "status" && e.received_at >= ended);
        let first = told.next().map(|e| e.received_at.duration_since(ended));
        first.ok_or_else(|| format!("{verb}"))
    })
    .await
}

async fn told_when_done(readings: &Readings, name: &str) {
    let lengths = LENGTHS.map(|(seconds, most)| async move {
        let (name, setup) = (format!("{name}-{seconds}"), Setup::default());
        let setup = setup.tasks(seconds * 1000).readings(readings.clone());
        let world = setup.begin(&name).await;
        let mut since = Mark::default();
        for turn in 0..4 {
            let verb = if turn == 0 {
                Verb::Create
            } else {
                Verb::Reinstall
            };
            match turn % 2 {
                0 => world.apply(&instance("web")).await,
                _ => world.apply(&other_image("web")).await,
            };
            done(&world, "web", &since, &[verb]).await;
            let late = told_after(&world, verb, &since).await;
            let calls = world.calls_since(since.seq);
            let count = |path| calls.iter().filter(|call| call.path == path).count();
            println!(
                "{name}, {verb}: told {late:#} after its end, {} questions",
                count(TASK)
            );
            assert!(late < SOON, "{verb}: {late:#}");
            assert!(count(TASK) <= most, "{}", world.ledger_text());
            since = mark(&world, "web").await;
        }
        world.finish().await;
    });
    futures::future::join_all(lengths).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_is_told_when_it_is_done_as_specified() {
    told_when_done(&Readings::default(), "specified").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_is_told_when_it_is_done_where_rows_are_minimal() {
    let readings = Readings {
        task_id: TaskId::Nested,
        http_status: HttpStatus::Ok,
        list_rows: ListRows::Minimal,
        ..Readings::default()
    };
    told_when_done(&readings, "minimal").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_is_told_when_it_is_done_where_results_are_null() {
    let readings = Readings {
        task_id: TaskId::Flat,
        result_while_processing: ResultWhileProcessing::Null,
        ..Readings::default()
    };
    told_when_done(&readings, "null").await;
}
