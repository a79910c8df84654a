//! Many runs: selects them, runs them in parallel, and prints the table at the end.

use super::act::Act;
use super::case::Case;
use super::operation::Operation;
use super::play::{learn, play};
use super::verdict::{Finding, Report};
use crate::support::each_side_by_side;
use crate::support::recorder::{Kind, Place, Point};
use std::sync::{Arc, LazyLock};
use std::time::Instant;
use tokio::sync::Semaphore;

/// The number of simultaneous worlds, over all tests of this file: each world has an operator of its own, and other tests share
/// the machine.
static ROOM: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(24)));

/// The same for the whole matrix, whose worlds may have two operators each. `TORTURE_AT_ONCE` overrides it: on a machine that
/// is busy otherwise, operators lose their Leases before a boundary is reached.
static MATRIX_ROOM: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let chosen = std::env::var("TORTURE_AT_ONCE").ok();
    let chosen = chosen.and_then(|number| number.parse().ok());
    Arc::new(Semaphore::new(chosen.unwrap_or(16)))
});

/// The number of runs that record the requests of an operation: the shortest one counts. On a busy machine, an edit is
/// acknowledged in parallel with a late reconcile, which takes one more write.
const LEARNT: usize = 3;

/// How many times an unreached boundary is tried again.
const TRIES: usize = 2;

/// An undisturbed run has the fewest changes, then the fewest requests: a busy machine adds some.
fn cost(points: &[Point]) -> (usize, usize) {
    let changes = points.iter().filter(|point| point.kind.is_mutation());
    (changes.count(), points.len())
}

/// The requests of each operation, recorded in runs without a fault.
async fn learn_all(
    room: &Arc<Semaphore>,
    operations: Vec<Operation>,
) -> Vec<(Operation, Vec<Point>)> {
    let mut learnt: Vec<(Operation, Vec<Point>)> = Vec::new();
    let items = operations
        .into_iter()
        .flat_map(|each| [(each, each); LEARNT]);
    each_side_by_side(room.clone(), items, learn, |operation, points| {
        let points = points.unwrap_or_else(|why| panic!("{operation} without a fault: {why}"));
        match learnt.iter_mut().find(|(known, _)| *known == operation) {
            Some((_, known)) if cost(known) > cost(&points) => *known = points,
            Some(_) => {}
            None => learnt.push((operation, points)),
        }
    })
    .await;
    for (operation, points) in &learnt {
        let text: Vec<String> = points.iter().map(ToString::to_string).collect();
        println!("TORTURE {operation} is {}", text.join(" "));
    }
    learnt
}

/// Kills at every boundary of an operation.
pub async fn kill_everywhere(operation: Operation) {
    for (operation, points) in learn_all(&ROOM, vec![operation]).await {
        let mut cases = Case::all(operation, &points, &Act::KILLS);
        // The traces of a killed process differ only from one change to the next: therefore a read has only one boundary, and
        // "after a reply" equals "before the next request".
        cases.retain(|case| match case.place {
            Place::Before => true,
            Place::AfterEffect => case.point.kind.is_mutation(),
            Place::AfterReply => Some(&case.point) == points.last(),
        });
        run(&ROOM, cases).await;
    }
}

/// Loses the answers to the writes of these operations, with and without their effect.
pub async fn lose_acknowledgements(operations: &[Operation]) {
    let learnt = learn_all(&ROOM, operations.to_vec()).await;
    let all = learnt
        .iter()
        .flat_map(|(operation, points)| Case::all(*operation, points, &[Act::Lost]));
    let is_write = |case: &Case| case.point.kind.is_kubernetes() && case.place != Place::AfterReply;
    run(&ROOM, all.filter(is_write).collect()).await;
}

/// Every operation, boundary and act, or those that `TORTURE_ONLY` selects.
pub async fn everything() {
    let only = std::env::var("TORTURE_ONLY").unwrap_or_default();
    let mut operations = Operation::ALL.to_vec();
    // The name of a run begins with its operation: the requests of other operations are not needed.
    if let Some((first, _)) = only.split_once('/')
        && operations.iter().any(|each| each.to_string() == first)
    {
        operations.retain(|each| each.to_string() == first);
    }
    let mut learnt = learn_all(&MATRIX_ROOM, operations).await;
    learnt.sort_by_key(|(operation, _)| Operation::ALL.iter().position(|each| each == operation));
    let cases = learnt
        .iter()
        .flat_map(|(operation, points)| Case::all(*operation, points, &Act::ALL))
        .filter(|case| only.is_empty() || case.to_string().contains(&only));
    run(&MATRIX_ROOM, cases.collect()).await;
}

async fn run(room: &Arc<Semaphore>, cases: Vec<Case>) {
    let (began, total) = (Instant::now(), cases.len());
    assert!(total > 0, "no boundary and act bears that name");
    let mut done = play_all(room, &cases, began).await;
    // A boundary that is not reached proves nothing: most likely the machine was too busy to repeat the recorded sequence.
    for _ in 0..TRIES {
        let missed = done.iter().filter(|(_, report)| report.is_missed());
        let missed: Vec<Case> = missed.map(|(case, _)| *case).collect();
        done.retain(|(_, report)| !report.is_missed());
        done.extend(play_all(room, &missed, began).await);
    }
    print_table(&cases, &done);
    print_figures(&done, began);
    let failed: Vec<&(Case, Report)> = done
        .iter()
        .filter(|(_, report)| !report.findings.is_empty())
        .collect();
    for (case, report) in &failed {
        println!("TORTURE_ONLY={case} make torture\n{:#?}", report.findings);
        println!("{}\n", report.evidence);
    }
    assert!(failed.is_empty(), "{} of {total} failed", failed.len());
    let never = still_on_the_way(room, &done).await;
    assert!(never.is_empty(), "never reached: {never:?}");
}

/// The boundaries that were never reached although each run of their operation has them. The number of queries of an operation
/// depends on timing. Its changes do not, with one exception: the acknowledgement of an edit is a status write and may cause a
/// pending intent to be refused, if the machine was busy while the sequence was recorded. In that case the sequence is recorded
/// again.
async fn still_on_the_way(room: &Arc<Semaphore>, done: &[(Case, Report)]) -> Vec<String> {
    let missed = done.iter().filter(|(_, report)| report.is_missed());
    let missed: Vec<Case> = missed
        .map(|(case, _)| *case)
        .filter(|case| case.point.kind.is_mutation())
        .collect();
    let may_vary = |case: &Case| matches!(case.point.kind, Kind::Status | Kind::Intent);
    let mut operations = Operation::ALL.to_vec();
    operations.retain(|each| {
        let mut of_it = missed.iter().filter(|case| case.operation == *each);
        of_it.any(may_vary)
    });
    let learnt = learn_all(room, operations).await;
    let is_on_the_way = |case: &Case| {
        let way = learnt.iter().find(|(known, _)| *known == case.operation);
        way.is_some_and(|(_, points)| points.contains(&case.point))
    };
    let never = missed
        .iter()
        .filter(|case| !may_vary(case) || is_on_the_way(case));
    never.map(ToString::to_string).collect()
}

async fn play_all(room: &Arc<Semaphore>, cases: &[Case], began: Instant) -> Vec<(Case, Report)> {
    let mut done: Vec<(Case, Report)> = Vec::new();
    let items = cases.iter().map(|case| (*case, *case));
    each_side_by_side(room.clone(), items, play, |case, report| {
        let report = report.unwrap_or_else(Report::broken);
        let (seconds, count) = (began.elapsed().as_secs(), done.len() + 1);
        println!(
            "TORTURE {seconds:>5} s {count:>4}/{} {case}: {report}",
            cases.len()
        );
        for finding in &report.findings {
            println!("TORTURE         {finding:?}");
        }
        done.push((case, report));
    })
    .await;
    done
}

/// Prints boundary and act of each case with its outcome.
fn print_table(cases: &[Case], done: &[(Case, Report)]) {
    let acts: Vec<Act> = Act::ALL
        .into_iter()
        .filter(|act| cases.iter().any(|case| case.act == *act))
        .collect();
    let head: String = acts.iter().map(|act| format!("{act:<12}")).collect();
    println!("\n{:<44}{head}", "boundary");
    let mut boundaries: Vec<String> = cases.iter().map(Case::boundary).collect();
    boundaries.dedup();
    for boundary in boundaries {
        let cell = |act: &Act| {
            let found = done
                .iter()
                .find(|(case, _)| case.act == *act && case.boundary() == boundary);
            let text = found.map(|(_, report)| report.to_string());
            format!("{:<12}", text.unwrap_or_default())
        };
        let row: String = acts.iter().map(cell).collect();
        println!("{boundary:<44}{row}");
    }
}

fn print_figures(done: &[(Case, Report)], began: Instant) {
    let count = |is: fn(&Finding) -> bool| {
        let all = done.iter().flat_map(|(_, report)| &report.findings);
        all.filter(|finding| is(finding)).count()
    };
    let runs = |is: fn(&Report) -> bool| done.iter().filter(|(_, report)| is(report)).count();
    println!(
        "\nruns {}, boundary not reached {}, duplicates {}, orphans {}, destructive repeats {}, human interventions {}, \
         restless {}, broken {}; surplus healed {}, known repeats {}; {} s\n",
        done.len(),
        runs(|report| !report.reached),
        count(|finding| matches!(finding, Finding::Duplicate(_))),
        count(|finding| matches!(finding, Finding::Orphan(_))),
        count(|finding| matches!(finding, Finding::Repeat(_))),
        count(|finding| matches!(finding, Finding::Helped(_))),
        count(|finding| matches!(finding, Finding::Unsettled(_))),
        count(|finding| matches!(finding, Finding::Broken(_))),
        runs(|report| report.surplus_healed > 0),
        runs(|report| report.known_repeats > 0),
        began.elapsed().as_secs()
    );
}
