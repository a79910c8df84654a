//! Tests of stops, and of reads that the spec requests.

use super::diff::{server, with_spec};
use super::follow::{later, open_operation, with_task};
use super::*;
use crate::api::{ForceStop, Pause, PowerState, StopPolicy};

const OFF: (&str, &str) = ("ecsStatus", "STOPPED");

fn stop(force: ForceStop, state: Fact<TaskState>, shown: &[(&str, &str)]) -> Scene {
    let call_state = CallState::Accepted {
        id: ServerId::from(ID),
        task: Some(TaskId::from("t-9")),
    };
    let scene = with_task(
        open_operation(Verb::Stop, as_bought(), call_state),
        state,
        shown,
    );
    with_spec(scene, |spec| {
        spec.power_state = PowerState::Stopped;
        spec.stop_policy = StopPolicy {
            force,
            grace_period_seconds: 30,
        };
    })
}

fn cuts(scene: &Scene) -> bool {
    matches!(scene.plan().step, Step::Operate { operation, .. }
        if operation.call() == Verb::Stop && operation.power_cut)
}

#[test]
fn power_is_cut_only_after_the_grace_period_or_a_failure_and_if_the_spec_allows_it() {
    let running = || Fact::Known(TaskState::Running);
    let failed = || Fact::Known(TaskState::Failed { reason: None });
    let after = |scene, seconds| later(scene, Duration::from_secs(seconds));
    let graceful = |state| stop(ForceStop::AfterGracePeriod, state, &[]);
    assert!(!cuts(&after(graceful(running()), 29)));
    assert!(cuts(&after(graceful(running()), 30)));
    assert!(cuts(&graceful(failed())), "its task failed");
    let wiped = after(graceful(running()), 30);
    let operation = wiped.0.facts.operation().cloned().map(Box::new);
    let wiped = wiped
        .memory(|memory| {
            memory.call.as_mut().unwrap().intent = Intent::Operation(operation.unwrap());
        })
        .wiped();
    assert!(!cuts(&wiped), "status must show the stop first");
    for force in [ForceStop::Never, ForceStop::Always] {
        assert!(
            !cuts(&after(stop(force, running(), &[]), 3600)),
            "{force:?}"
        );
        assert!(!cuts(&stop(force, failed(), &[])), "{force:?}");
    }
    let busy = [("ecsPendingStatus", "STOPPING")];
    let busy = stop(ForceStop::AfterGracePeriod, running(), &busy);
    assert!(cuts(&after(busy, 30)), "it is busy with this stop");
    let unread = graceful(running()).with(|observed| observed.detail = Fact::NotRead);
    let unread = after(unread, 30);
    assert!(rests(&unread.plan()));
    assert_eq!(unread.plan().needs, Some(NeededRead::Detail));
    let edited = with_spec(graceful(failed()), |spec| {
        spec.power_state = PowerState::Running;
    });
    assert!(!cuts(&edited));
    let paused = with_spec(graceful(failed()), |spec| {
        spec.pause = Some(Pause::default());
    });
    assert!(!cuts(&paused));
    let ended = stop(ForceStop::AfterGracePeriod, failed(), &[OFF]);
    assert_eq!(ended.plan().changes.ended.map(|e| e.succeeded), Some(true));
}

#[test]
fn the_server_is_read_once_after_the_grace_period() {
    let reads = |observed_at: Option<u64>, is_unread: bool, task| {
        let scene = stop(ForceStop::AfterGracePeriod, Fact::Known(task), &[]);
        let scene = scene.look(|look, first_seen, _| {
            look.at = observed_at.map(|at| first_seen + Duration::from_secs(at));
            look.is_unreadable = is_unread;
        });
        let scene = scene.with(|observed| observed.detail = Fact::NotRead);
        let needs = later(scene, Duration::from_secs(60)).plan().needs;
        needs == Some(NeededRead::Detail)
    };
    let running = || TaskState::Running;
    let failed = || TaskState::Failed { reason: None };
    for (observed_at, is_unread, task, expected) in [
        (None, false, running(), true),
        (Some(29), false, running(), true),
        (Some(31), false, running(), false),
        // It could not be read; it is read again after a while.
        (Some(31), true, running(), true),
        (Some(50), true, running(), false),
        (Some(31), false, failed(), true),
    ] {
        let reads_again = reads(observed_at, is_unread, task.clone());
        assert_eq!(
            reads_again, expected,
            "{observed_at:?} {is_unread} {task:?}"
        );
    }
}

#[test]
fn a_power_cut_has_the_number_of_its_stop_and_is_made_once() {
    let failed = Fact::Known(TaskState::Failed { reason: None });
    let plan = stop(ForceStop::AfterGracePeriod, failed.clone(), &[]).plan();
    let cut = begun(&plan).unwrap();
    assert_eq!((cut.attempt, cut.power_cut, cut.accepted), (2, true, false));
    assert_eq!(cut.task_id, None);
    // A cut that failed is not repeated under the same number.
    let cut = stop(ForceStop::AfterGracePeriod, failed, &[]).status(|status| {
        status.operation.as_mut().unwrap().power_cut = true;
    });
    assert_eq!(cut.plan().changes.ended.map(|e| e.succeeded), Some(false));
}

#[test]
fn force_always_cuts_power_at_once() {
    for (force, at_once) in [
        (ForceStop::Always, true),
        (ForceStop::Never, false),
        (ForceStop::AfterGracePeriod, false),
    ] {
        let scene = with_spec(server(as_bought(), &[]), |spec| {
            spec.power_state = PowerState::Stopped;
            spec.stop_policy.force = force;
        });
        assert_eq!(begins(&scene), Some(Verb::Stop));
        assert_eq!(cuts(&scene), at_once, "{force:?}");
    }
}

#[test]
fn a_reconcile_token_is_acknowledged_once_detail_and_listing_are_newer() {
    let scene = Scene::converged().memory(|memory| {
        memory.reconcile_requested(Some("a"), None, memory.origin.since);
    });
    let plan = scene.plan();
    assert_eq!(plan.changes.reconciled, None);
    assert_eq!(plan.wants.passes, 1);
    let listed = scene.listed(Duration::ZERO, &[(ID, &ours())]);
    assert_eq!(listed.plan().changes.reconciled, None, "not read yet");
    let read = listed.look(|look, first_seen, _| look.at = Some(first_seen));
    assert_eq!(read.plan().changes.reconciled.as_deref(), Some("a"));
    let done = read.memory(|memory| {
        memory.reconcile_requested(Some("a"), Some("a"), memory.origin.since);
    });
    assert_eq!(done.plan().changes.reconciled, None);
}

#[test]
fn a_reconcile_token_is_acknowledged_although_an_operation_has_an_unknown_outcome() {
    let scene = open_operation(Verb::Reinstall, as_bought(), CallState::Unknown);
    let scene = scene.listed(SETTLE, &[(ID, &ours())]).with(|observed| {
        observed.detail = Fact::Known(detail(&[]));
        let began = observed.memory.origin.since;
        observed.memory.reconcile_requested(Some("a"), None, began);
        observed.memory.observations.look.at = Some(observed.now);
    });
    let plan = scene.plan();
    let stalled = Some((State::Stalled, Reason::OutcomeUnknown));
    assert_eq!(reason(&plan), stalled);
    assert_eq!(plan.changes.reconciled.as_deref(), Some("a"));
    let unlisted = scene.with(|observed| {
        observed.listing = Some(ZoneViews::of(here(), testing::view(None, None)));
    });
    let plan = unlisted.plan();
    assert_eq!((plan.changes.reconciled, plan.wants.passes), (None, 1));
}
