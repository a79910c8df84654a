//! Executes one run, and the run without a fault that records the requests.

use super::act::Act;
use super::case::Case;
use super::operation::Operation;
use super::story::Story;
use super::verdict::{self, Report};
use crate::support::World;
use crate::support::recorder::Point;
use std::time::Duration;

/// How long a boundary may take to be reached: longer, on a busy machine, than any wait of an undisturbed operation (the first
/// query for a task comes after 3 s, the second after another 10 s).
const REACH: Duration = Duration::from_secs(30);

/// A world in which an operation can begin; with a standby if one is to take over.
async fn begin(operation: Operation, with_standby: bool) -> (World, Story) {
    let mut setup = operation.setup();
    if with_standby {
        setup = setup.leases();
    }
    let mut world = setup.begin("torture").await;
    if with_standby {
        let active = world.operator().name();
        world.until_holder(&active).await;
        world.start_standby().await;
    }
    let story = Story::prepare(&mut world, operation).await;
    world.recorder().begin();
    (world, story)
}

/// The requests of an undisturbed operation, in order.
pub async fn learn(operation: Operation) -> Vec<Point> {
    let (mut world, story) = begin(operation, false).await;
    story.ask(&world).await;
    let report = verdict::judge(&mut world, &story, None).await;
    assert!(
        report.findings.is_empty(),
        "{operation}: {:#?}",
        report.findings
    );
    let mut points = world.recorder().points();
    world.finish().await;
    // Requests after the last change do not belong to the operation.
    let last = points.iter().rposition(|point| point.kind.is_mutation());
    points.truncate(last.map_or(0, |last| last + 1));
    points
}

/// Executes one run.
pub async fn play(case: Case) -> Report {
    let (mut world, mut story) = begin(case.operation, case.act.has_standby()).await;
    let trap = world
        .recorder()
        .trap(case.point, case.place, case.act.then());
    story.ask(&world).await;
    let reached = trap.reached(REACH).await && is_led(&mut world, case.act).await;
    let mut seen = None;
    if reached {
        let act = case.act;
        story.is_deletion |= act == Act::Deleted;
        seen = act.carry_out(&mut world, &case, &story, &trap).await;
    } else {
        world.recorder().disarm();
        trap.release();
    }
    let mut report = verdict::judge(&mut world, &story, Some(&case)).await;
    report.reached = reached;
    report.findings.extend(seen);
    if !report.findings.is_empty() {
        report.keep_logs(&world);
    } else if report.surplus_healed > 0 {
        world.finish_with_surplus().await;
    } else {
        world.finish().await;
    }
    report
}

/// Whether the operator that the act hits holds the Lease, if the act needs one. If the machine stood still, it may have lost
/// the Lease to the standby already.
async fn is_led(world: &mut World, act: Act) -> bool {
    !act.has_standby() || world.holder().await == world.operator().name()
}
