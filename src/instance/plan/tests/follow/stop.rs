//! Tests of a server that must be stopped for a reinstall.

use super::*;
use crate::api::{Cause, PowerState, Stage};

/// A reinstall at this stage, with this outcome of the stage's call.
fn at(stage: Stage, call_state: CallState) -> Scene {
    open_operation(Verb::Reinstall, to_second(), call_state).status(|status| {
        status.operation.as_mut().unwrap().stage = Some(stage);
    })
}

fn accepted() -> CallState {
    CallState::Accepted {
        id: ServerId::from(ID),
        task: None,
    }
}

fn refused_call(reason: Reason) -> CallState {
    let message = "no".to_owned();
    CallState::Refused { message, reason }
}

/// The call that the plan announces: its stage, whether it cuts the power, and how the reinstall has ended.
fn next(scene: &Scene) -> Option<(Option<Stage>, bool, Option<EndReason>)> {
    let plan = scene.plan();
    let next = begun(&plan)?;
    assert_eq!((next.verb, next.attempt), (Verb::Reinstall, 2));
    assert!(!next.accepted && next.task_id.is_none());
    let end = next.end.as_ref().map(|end| end.reason);
    Some((next.stage, next.power_cut, end))
}

fn with_power(scene: Scene, power_state: PowerState) -> Scene {
    scene.with(|observed| {
        let mut spec = crate::api::InstanceSpec::clone(&observed.facts.spec);
        spec.power_state = power_state;
        observed.facts.spec = spec.into();
    })
}

/// Whether the end of the operation shows that the server is to be started; None if it does not end.
fn leaves_off(scene: &Scene) -> Option<bool> {
    let changes = scene.plan().changes;
    changes.ended.and(changes.left_off)
}

#[test]
fn a_reinstall_that_needs_a_stop_is_one_operation_of_two_calls() {
    let (stopping, erasing) = (Stage::Stopping, Stage::Erasing);
    let refused = refused(Verb::Reinstall, Reason::Stopping);
    assert_eq!(next(&refused), Some((Some(stopping), false, None)));
    let stopped = shows(at(stopping, accepted()), &[OFF]);
    assert_eq!(next(&stopped), Some((Some(erasing), false, None)));
    // A stop that takes effect late must not follow the start at the end.
    let lost = || shows(at(stopping, CallState::Unknown), &[OFF]);
    assert_eq!(next(&lost()), None);
    let settled = later(lost(), SETTLE * 2);
    assert_eq!(next(&settled), Some((Some(erasing), false, None)));
    let erased = |power| with_power(shows(at(erasing, accepted()), &[OFF, SECOND]), power);
    for power in [PowerState::Running, PowerState::Unmanaged] {
        let erased = erased(power);
        assert_eq!(
            (end(&erased), leaves_off(&erased)),
            (Some(true), Some(true))
        );
        assert_eq!(erased.plan().why.unwrap().state, State::Reconciling);
    }
    let off = erased(PowerState::Stopped);
    assert_eq!((end(&off), leaves_off(&off)), (Some(true), Some(false)));
    let runs = shows(at(erasing, accepted()), &[SECOND]);
    assert_eq!((end(&runs), leaves_off(&runs)), (Some(true), Some(false)));
}

#[test]
fn a_server_with_unmanaged_power_that_a_reinstall_left_off_is_started() {
    let unmanaged = |left_off, shown: &[(&str, &str)]| {
        let scene = Scene::converged().status(|status| {
            status.left_off = left_off;
            status.applied.as_mut().unwrap().power_state = Some(PowerState::Unmanaged);
        });
        shows(with_power(scene, PowerState::Unmanaged), shown)
    };
    let left_off = unmanaged(true, &[OFF]).plan();
    let start = begun(&left_off).unwrap();
    assert_eq!((start.verb, start.cause), (Verb::Start, Some(Cause::Spec)));
    let runs = unmanaged(true, &[]).plan();
    assert!(begun(&runs).is_none());
    assert_eq!(runs.changes.left_off, Some(false));
    // A user switched it off.
    let off = unmanaged(false, &[OFF]).plan();
    assert!(begun(&off).is_none());
    assert_eq!(off.changes.left_off, Some(false));
    let stopped = with_power(unmanaged(true, &[OFF]), PowerState::Stopped).plan();
    assert!(begun(&stopped).is_none());
    assert_eq!(stopped.changes.left_off, Some(false));
}

#[test]
fn an_open_circuit_breaker_delays_the_next_call_of_a_reinstall_and_does_not_end_it() {
    let read = shows(at(Stage::Stopping, accepted()), &[OFF]);
    assert!(next(&read).is_some());
    let unread = at(Stage::Stopping, accepted());
    let unread = unread.with(|observed| observed.task = Fact::Known(TaskState::Succeeded));
    for scene in [read, unread] {
        let plan = with_open_breaker(scene).plan();
        assert!(begun(&plan).is_none() && plan.changes.ended.is_none());
        assert_eq!(plan.why.unwrap().reason, Reason::InventoryUnreliable);
        assert!(plan.changes.operation.is_some());
    }
}

fn with_open_breaker(scene: Scene) -> Scene {
    scene.with(|observed| {
        observed.listing = Some(ZoneViews::of(here(), testing::view_of_open_breaker()));
    })
}

#[test]
fn a_stop_before_a_reinstall_that_has_no_effect_is_forced() {
    let running = || shows(at(Stage::Stopping, accepted()), &[]);
    assert_eq!(next(&running()), None);
    let forced = Some((Some(Stage::Stopping), true, None));
    let late = || later(running(), Duration::from_secs(30));
    assert_eq!(next(&late()), forced);
    let edited = with_spec(late(), |_| {});
    assert_eq!(next(&edited), None, "the spec requests something else");
    let refused = shows(
        at(Stage::Stopping, refused_call(Reason::OperationRefused)),
        &[],
    );
    assert_eq!(next(&refused), forced);
    let failed = Fact::Known(TaskState::Failed { reason: None });
    assert_eq!(next(&with_task(running(), failed, &[])), forced);
}

#[test]
fn a_reinstall_that_is_not_made_shows_that_its_server_was_left_off() {
    let ends = |scene: &Scene| (end(scene), leaves_off(scene));
    let left_off = (Some(false), Some(true));
    let refused = || at(Stage::Erasing, refused_call(Reason::OperationRefused));
    assert_eq!(ends(&shows(refused(), &[OFF])), left_off);
    let failed = Fact::Known(TaskState::Failed { reason: None });
    let failed = with_task(at(Stage::Erasing, accepted()), failed, &[OFF]);
    assert_eq!(ends(&failed), left_off);
    let lost = shows(at(Stage::Erasing, CallState::Unknown), &[OFF]);
    let lost = later(lost, SETTLE * 2);
    assert_eq!(ends(&lost), left_off);
    let withdrawn = |power| {
        let stopped = shows(at(Stage::Stopping, accepted()), &[OFF]);
        with_spec(stopped, move |spec| spec.power_state = power)
    };
    assert_eq!(ends(&withdrawn(PowerState::Unmanaged)), left_off);
    let off = withdrawn(PowerState::Stopped);
    assert_eq!(ends(&off), (Some(false), Some(false)));
    // The state of the server is not known yet.
    let migrating = shows(refused(), &[("ecsStatus", "MIGRATING")]);
    assert_eq!(ends(&migrating), left_off);
    assert_eq!(refused().plan().needs, Some(NeededRead::Detail));
    let absent = refused().with(|observed| observed.detail = Fact::Absent);
    assert_eq!(ends(&absent), (None, None));
}

#[test]
fn a_reinstall_with_an_unknown_outcome_shows_that_it_left_its_server_off() {
    let lost = open_operation(Verb::Reinstall, to_key(), CallState::Unknown);
    let lost = later(shows(lost, &[OFF]), SETTLE * 2).with(|observed| {
        let mut spec = crate::api::InstanceSpec::clone(&observed.facts.spec);
        spec.login.password_secret_ref = None;
        spec.login.ssh_key = Some(crate::api::SshKeyRef {
            id: Some("key-1".into()),
            ..crate::api::SshKeyRef::default()
        });
        observed.facts.spec = spec.into();
    });
    assert_eq!((end(&lost), leaves_off(&lost)), (Some(false), Some(true)));
}
