//! Tests of a recorded server.

use super::diff::with_spec;
use super::*;
use crate::api::PowerState;
use crate::instance::memory::look::RowDigest;
use crate::instance::temporary_state::Temporary;

#[test]
fn a_running_create_is_followed_and_done_only_when_task_and_detail_agree() {
    let scene = |task, detail| {
        Scene::recorded(Some(ID), |record| record.task = Some("t-1".into())).with(|observed| {
            observed.task = task;
            observed.detail = detail;
        })
    };
    let at_rest = || Fact::Known(detail(&[]));
    for (task, found, ready) in [
        (Fact::NotRead, Fact::NotRead, false),
        (Fact::Known(TaskState::Running), Fact::NotRead, false),
        (
            Fact::Known(TaskState::Unknown { word: "ODD".into() }),
            Fact::NotRead,
            false,
        ),
        (Fact::Known(TaskState::Succeeded), Fact::Absent, false),
        (
            Fact::Known(TaskState::Succeeded),
            Fact::Unknown("x".into()),
            false,
        ),
        (Fact::Unknown("x".into()), Fact::NotRead, false),
        (
            Fact::Absent,
            Fact::Known(detail(&[("ecsPendingStatus", "CREATING")])),
            false,
        ),
        (Fact::Known(TaskState::Succeeded), at_rest(), true),
        (Fact::Absent, at_rest(), true),
    ] {
        let plan = scene(task.clone(), found.clone()).plan();
        assert!(rests(&plan));
        let (state, _) = reason(&plan).unwrap();
        assert_eq!(state == State::Ready, ready, "{task:?} {found:?}");
        assert_eq!(plan.changes.ended.is_some(), ready);
    }
}

#[test]
fn a_failed_create_is_reported_then_its_remains_released_then_repeated() {
    let failed = Fact::Known(TaskState::Failed {
        reason: Some("no host".into()),
    });
    let scene = Scene::recorded(Some(ID), |record| record.task = Some("t-1".into()))
        .with(|observed| observed.task = failed);
    let plan = scene.plan();
    assert_eq!(
        reason(&plan),
        Some((State::Reconciling, Reason::CreateFailed))
    );
    assert!(plan.why.as_ref().unwrap().message.contains("no host"));
    assert_eq!(
        plan.changes.ended.as_ref().map(|entry| entry.succeeded),
        Some(false)
    );

    let left_behind = scene
        .written()
        .with(|observed| observed.detail = Fact::Known(detail(&[])));
    assert!(
        matches!(&left_behind.plan().step, Step::Release { why: ReleaseReason::Failed, id } if id.as_str() == ID)
    );

    let gone = left_behind
        .with(|observed| observed.detail = Fact::Absent)
        .known_gone(Gone::NotFound)
        .listed(Duration::ZERO, &[]);
    let plan = gone.plan();
    assert_eq!(
        announced(&plan).map(|b| (b.attempt, b.failed, b.id.clone())),
        Some((2, 1, None))
    );
}

/// Nothing was done to a server whose create failed. Its double is as ordered, so an edit since then is an edit for the double as
/// well.
#[test]
fn a_doubled_server_that_replaces_a_failed_create_has_the_recorded_target() {
    let failed = Fact::Known(TaskState::Failed { reason: None });
    let gone = Scene::recorded(Some(ID), |record| record.task = Some("t-1".into()))
        .with(|observed| observed.task = failed)
        .written()
        .with(|observed| observed.detail = Fact::Absent)
        .known_gone(Gone::NotFound)
        .listed(Duration::ZERO, &[("ecs-2", &ours())]);
    let ordered = gone.0.facts.purchase().unwrap().target.clone();
    let edited = with_spec(gone, |spec| spec.image.id = Some("img-2".into()));
    let adopted = |scene: Scene| match scene.plan().step {
        Step::Record { record } => *record,
        step => panic!("{step:?}"),
    };
    let record = adopted(edited.clone());
    assert_eq!(record.id.as_deref(), Some("ecs-2"));
    assert_eq!(record.target, ordered);
    // If this process may have bought under a later record that is lost, the double may come from that order.
    let bought_again = edited.call_state(CallState::Unknown).memory(|memory| {
        memory.call.as_mut().unwrap().number = 2;
    });
    assert_eq!(adopted(bought_again).target.image, "img-2");
}

#[test]
fn a_server_that_the_listing_shows_unchanged_needs_no_read() {
    let scene = Scene::converged().listed(Duration::ZERO, &[(ID, &ours())]);
    let plan = scene.plan();
    assert!(rests(&plan));
    assert_eq!(reason(&plan), Some((State::Ready, Reason::Available)));
    assert!(plan.changes.detail.is_none());
    assert_eq!(plan.wants, Wants::default());
}

#[test]
fn readiness_follows_the_detail_of_the_server() {
    let judged = |changes: &[(&str, &str)]| {
        let found = Fact::Known(detail(changes));
        reason(
            &Scene::converged()
                .with(|observed| observed.detail = found)
                .plan(),
        )
        .unwrap()
    };
    assert_eq!(judged(&[]), (State::Ready, Reason::Available));
    assert_eq!(
        judged(&[("imageResourceUUID", "img-2")]),
        (State::Drifted, Reason::ImageDiffers)
    );
    assert_eq!(
        judged(&[("ecsStatus", "STOPPED")]),
        (State::Reconciling, Reason::Starting)
    );
    assert_eq!(
        judged(&[("instanceName", "renamed")]),
        (State::Drifted, Reason::NameDiffers)
    );
    assert_eq!(
        judged(&[("ecsStatus", "MELTED")]),
        (State::Drifted, Reason::PowerStateDiffers)
    );
    assert_eq!(
        judged(&[("ecsPendingStatus", "RESTARTING")]),
        (State::Reconciling, Reason::ForeignOperationRunning)
    );
}

/// A server that has been in an unknown state for this long.
fn migrating(seconds: u64) -> Scene {
    Scene::converged().with(|observed| {
        let found = detail(&[("ecsStatus", "MIGRATING")]);
        let begun = observed.now - Duration::from_secs(seconds);
        let former = &InstanceStatus::default();
        observed.memory.observations.look.answer = LastAnswer::Exists {
            idle_since: None,
            temporary: Temporary::next(None, former, &found.fields, begun),
        };
        observed.detail = Fact::Known(found);
    })
}

#[test]
fn an_unknown_power_state_is_awaited_and_counts_as_drift_after_fifteen_minutes() {
    let waits = (State::Reconciling, Reason::ForeignOperationRunning);
    let drifted = (State::Drifted, Reason::PowerStateDiffers);
    for (seconds, expected) in [(0, waits), (180, waits), (899, waits), (900, drifted)] {
        let plan = migrating(seconds).plan();
        assert!(rests(&plan));
        assert_eq!(reason(&plan), Some(expected), "{seconds} s");
    }
    // No call is made meanwhile, regardless of the spec; it is made afterwards.
    let other_image = |scene| with_spec(scene, |spec| spec.image.id = Some("img-2".into()));
    let held = other_image(migrating(180)).plan();
    assert!(rests(&held));
    assert_eq!(reason(&held), Some(waits));
    let begun = other_image(migrating(900)).plan();
    assert!(
        matches!(&begun.step, Step::Operate { operation, .. } if operation.verb == Verb::Reinstall)
    );
    // If the power state is not managed, it does not matter for the server's readiness.
    let unmanaged = with_spec(migrating(180), |spec| {
        spec.power_state = PowerState::Unmanaged;
    });
    assert_eq!(
        reason(&unmanaged.plan()),
        Some((State::Ready, Reason::Available))
    );
}

#[test]
fn a_recorded_server_that_is_missing_is_reported_and_not_bought_again() {
    let missing = Scene::converged()
        .listed(SETTLE, &[])
        .with(|observed| observed.detail = Fact::Absent);
    assert_eq!(
        reason(&missing.plan()),
        Some((State::Stalled, Reason::ServerMissing))
    );
    assert!(rests(&missing.plan()));
    let unread = Scene::converged()
        .listed(SETTLE, &[])
        .with(|observed| observed.detail = Fact::Unknown("503".into()));
    assert_eq!(reason(&unread.plan()), None, "a listing alone is no proof");
    let foreign = Scene::recorded(Some(ID), |record| record.credential = "secret/old".into());
    let mut foreign = foreign
        .listed(SETTLE, &[])
        .with(|observed| observed.detail = Fact::Absent);
    foreign.0.facts.status = Scene::converged().0.facts.status;
    assert_eq!(
        reason(&foreign.plan()),
        Some((State::Reconciling, Reason::ServerReadFailed)),
        "the token may be that of another account"
    );
}

#[test]
fn a_surplus_server_is_released_only_if_the_recorded_one_exists() {
    let both = Scene::converged().listed(Duration::ZERO, &[(ID, &ours()), ("ecs-2", &ours())]);
    assert!(
        matches!(&both.plan().step, Step::Release { why: ReleaseReason::Surplus, id } if id.as_str() == "ecs-2")
    );
    let alone = Scene::converged().listed(Duration::ZERO, &[("ecs-2", &ours())]);
    assert!(rests(&alone.plan()), "it may be the last one");
}

#[test]
fn a_listing_from_before_the_purchase_does_not_make_the_server_missing() {
    let scene = Scene::converged()
        .listed(Duration::ZERO, &[])
        .look(|look, first_seen, _| {
            look.at = Some(first_seen + Duration::from_secs(30));
            look.row = Some(RowDigest::Absent);
        });
    assert!(rests(&scene.plan()));
    let available = (State::Ready, Reason::Available);
    assert_eq!(
        reason(&scene.plan()),
        Some(available),
        "a later read showed the server"
    );
}
