//! Tests of a server that must be stopped for a reinstall.

use super::*;
use crate::api::{PowerState, Stage};

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

#[test]
fn a_reinstall_that_needs_a_stop_is_one_operation_of_three_calls() {
    let (stopping, erasing, starting) = (Stage::Stopping, Stage::Erasing, Stage::Starting);
    let refused = refused(Verb::Reinstall, Reason::Stopping);
    assert_eq!(next(&refused), Some((Some(stopping), false, None)));
    let stopped = shows(at(stopping, accepted()), &[OFF]);
    assert_eq!(next(&stopped), Some((Some(erasing), false, None)));
    let lost = shows(at(stopping, CallState::Unknown), &[OFF]);
    assert_eq!(next(&lost), Some((Some(erasing), false, None)));
    let erased = || shows(at(erasing, accepted()), &[OFF, SECOND]);
    assert_eq!(next(&erased()), Some((Some(starting), false, None)));
    let unmanaged = with_power(erased(), PowerState::Unmanaged);
    assert_eq!(next(&unmanaged), Some((Some(starting), false, None)));
    let off = with_power(erased(), PowerState::Stopped);
    assert_eq!(end(&off), Some(true), "the spec stops the server");
    let started = shows(at(starting, accepted()), &[SECOND]);
    assert_eq!(end(&started), Some(true));
    // A start that fails becomes an operation of its own.
    assert_eq!(end(&failed_start()), Some(true));
}

/// The last call of a reinstall failed.
fn failed_start() -> Scene {
    let failed = Fact::Known(TaskState::Failed {
        reason: Some("no host".into()),
    });
    with_task(at(Stage::Starting, accepted()), failed, &[OFF, SECOND])
}

#[test]
fn a_server_with_unmanaged_power_is_started_after_its_reinstall_until_it_runs() {
    let again = Some((Some(Stage::Starting), false, None));
    let refused = at(Stage::Starting, refused_call(Reason::OperationRefused));
    for failed in [failed_start(), shows(refused, &[OFF, SECOND])] {
        let failed = || with_power(failed.clone(), PowerState::Unmanaged);
        let plan = failed().plan();
        assert!(begun(&plan).is_none() && plan.changes.ended.is_none());
        let why = plan.why.unwrap();
        assert!(
            why.message.contains("could not be started"),
            "{}",
            why.message
        );
        assert_eq!(next(&later(failed(), Duration::from_secs(60))), again);
    }
    let refused = at(Stage::Starting, refused_call(Reason::OperationRefused));
    let runs = with_power(shows(refused, &[SECOND]), PowerState::Unmanaged);
    assert_eq!(end(&runs), Some(true));
}

#[test]
fn an_open_circuit_breaker_delays_the_calls_of_a_reinstall_and_does_not_end_it() {
    let stopped = || shows(at(Stage::Stopping, accepted()), &[OFF]);
    let erased = || shows(at(Stage::Erasing, accepted()), &[OFF, SECOND]);
    let failed = Fact::Known(TaskState::Failed { reason: None });
    let failed = || with_task(at(Stage::Erasing, accepted()), failed.clone(), &[OFF]);
    for scene in [&stopped as &dyn Fn() -> Scene, &erased, &failed] {
        for power in [PowerState::Running, PowerState::Unmanaged] {
            assert!(next(&with_power(scene(), power)).is_some());
            let plan = with_open_breaker(with_power(scene(), power)).plan();
            assert!(begun(&plan).is_none() && plan.changes.ended.is_none());
            let why = plan.why.unwrap();
            assert_eq!(why.reason, Reason::InventoryUnreliable);
            assert!(plan.changes.operation.is_some());
        }
    }
    // Nothing has to be started.
    let off = with_open_breaker(with_power(erased(), PowerState::Stopped));
    assert_eq!(end(&off), Some(true));
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
fn a_server_stopped_for_a_reinstall_that_is_not_made_is_started_again() {
    let starts = |reason| Some((Some(Stage::Starting), false, Some(reason)));
    let refused = shows(
        at(Stage::Erasing, refused_call(Reason::OperationRefused)),
        &[OFF],
    );
    assert_eq!(next(&refused), starts(EndReason::Refused));
    let failed = Fact::Known(TaskState::Failed { reason: None });
    let failed = with_task(at(Stage::Erasing, accepted()), failed, &[OFF]);
    assert_eq!(next(&failed), starts(EndReason::Failed));
    let lost = shows(at(Stage::Erasing, CallState::Unknown), &[OFF]);
    let lost = later(lost, SETTLE * 2);
    assert_eq!(next(&lost), starts(EndReason::AnswerLost));
    let withdrawn = |power| {
        let stopped = shows(at(Stage::Stopping, accepted()), &[OFF]);
        with_spec(stopped, move |spec| spec.power_state = power)
    };
    let superseded = starts(EndReason::Superseded);
    assert_eq!(next(&withdrawn(PowerState::Unmanaged)), superseded);
    assert_eq!(end(&withdrawn(PowerState::Stopped)), Some(false));
    // The server was not read yet.
    let unread = at(Stage::Erasing, refused_call(Reason::OperationRefused));
    assert_eq!(unread.plan().needs, Some(NeededRead::Detail));
}

#[test]
fn a_start_after_a_reinstall_is_repeated_if_its_answer_is_lost_and_keeps_the_end() {
    let starting = |reason| {
        at(Stage::Starting, CallState::Unknown).status(|status| {
            status.operation.as_mut().unwrap().end = bad_end(reason, 1);
        })
    };
    let lost = shows(starting(EndReason::OutcomeUnknown), &[OFF]);
    let lost = later(lost, SETTLE * 2);
    let again = (
        Some(Stage::Starting),
        false,
        Some(EndReason::OutcomeUnknown),
    );
    assert_eq!(next(&lost), Some(again));
    for reason in [EndReason::OutcomeUnknown, EndReason::Refused] {
        let plan = shows(starting(reason), &[]).plan();
        let operation = plan.changes.operation.unwrap();
        assert_eq!(operation.stage, None);
        assert_eq!(operation.end.map(|end| end.reason), Some(reason));
    }
}

#[test]
fn a_reinstall_with_an_unknown_outcome_starts_its_server() {
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
    let starting = (
        Some(Stage::Starting),
        false,
        Some(EndReason::OutcomeUnknown),
    );
    assert_eq!(next(&lost), Some(starting));
}
