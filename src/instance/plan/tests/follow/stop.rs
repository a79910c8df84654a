//! Tests of a server that must be stopped for a reinstall.

use super::*;
use crate::api::PowerState;
use crate::instance::memory::kinds::Auxiliary;

#[test]
fn a_reinstall_that_needs_a_stop_stops_reinstalls_and_starts_under_one_record() {
    let refused = || refused(Verb::Reinstall, Reason::Stopping);
    let is_auxiliary = |scene: &Scene, wanted: fn(&Request) -> bool| matches!(scene.plan().step, Step::Auxiliary { request } if wanted(&request));
    let is_stop: fn(&Request) -> bool = |request| matches!(request, Request::Stop { .. });
    let is_start: fn(&Request) -> bool = |request| matches!(request, Request::Start(_));
    assert!(is_auxiliary(&refused(), is_stop));
    let asked = refused().with(|observed| {
        let at = observed.now;
        observed.memory.calls.auxiliary = Some(Box::new(Auxiliary {
            verb: Verb::Stop,
            at,
            trouble: None,
            is_unknown: false,
            is_refused: false,
        }));
    });
    assert!(rests(&asked.plan()), "asked once in a while");
    let stopped = shows(refused(), &[OFF]);
    assert!(matches!(
        stopped.plan().step,
        Step::Operate {
            announce: false,
            ..
        }
    ));

    let done = || {
        let scene = open_operation(Verb::Reinstall, to_second(), CallState::Unknown);
        with_task(scene, Fact::Known(TaskState::Succeeded), &[OFF, SECOND])
    };
    assert!(is_auxiliary(&done(), is_start));
    let off = with_spec(done(), |spec| spec.power_state = PowerState::Stopped);
    assert_eq!(end(&off), Some(true), "it is to stay off");
    let left_alone = || with_spec(done(), |spec| spec.power_state = PowerState::Unmanaged);
    assert!(is_auxiliary(&left_alone(), is_start), "it ran before");
    // A start that fails becomes an operation of its own.
    let in_vain = done().with(|observed| {
        let at = observed.now;
        observed.memory.calls.auxiliary = Some(Box::new(Auxiliary {
            verb: Verb::Start,
            at,
            trouble: None,
            is_unknown: false,
            is_refused: false,
        }));
        observed.now += Duration::from_secs(31);
    });
    assert_eq!(end(&in_vain), Some(true));
}

#[test]
fn a_server_stopped_for_a_reinstall_that_does_not_come_is_started_again() {
    let is_start = |scene: &Scene| matches!(&scene.plan().step, Step::Auxiliary { request } if matches!(**request, Request::Start(_)));
    let refused = || shows(refused(Verb::Reinstall, Reason::OperationRefused), &[OFF]);
    assert!(is_start(&refused()));
    let taken_back = |power| {
        let stopped = shows(super::refused(Verb::Reinstall, Reason::Stopping), &[OFF]);
        with_spec(stopped, move |spec| spec.power_state = power)
    };
    assert!(is_start(&taken_back(PowerState::Unmanaged)));
    assert_eq!(end(&taken_back(PowerState::Stopped)), Some(false));
    // The plan waits a while for a stop whose effect does not show yet.
    let on_its_way = super::refused(Verb::Reinstall, Reason::Stopping);
    let on_its_way = with_spec(shows(on_its_way, &[]), |_| {});
    let on_its_way = on_its_way.with(|observed| {
        let at = observed.now;
        observed.memory.calls.auxiliary = Some(Box::new(Auxiliary {
            verb: Verb::Stop,
            at,
            trouble: None,
            is_unknown: false,
            is_refused: false,
        }));
    });
    assert_eq!(end(&on_its_way), None);
    let long_ago = later(on_its_way, Duration::from_secs(31));
    assert_eq!(end(&long_ago), Some(false));
    let in_vain = refused().with(|observed| {
        let at = observed.now;
        observed.memory.calls.auxiliary = Some(Box::new(Auxiliary {
            verb: Verb::Start,
            at,
            trouble: Some("no".into()),
            is_unknown: false,
            is_refused: false,
        }));
        observed.now += Duration::from_secs(31);
    });
    assert_eq!(end(&in_vain), Some(false));
}

#[test]
fn a_server_stopped_for_a_reinstall_of_which_nothing_tells_is_started() {
    let lost = shows(
        open_operation(Verb::Reinstall, to_key(), CallState::Unknown),
        &[OFF],
    );
    let lost = later(lost, SETTLE * 2).with(|observed| {
        let mut spec = crate::api::InstanceSpec::clone(&observed.facts.spec);
        spec.login.password_secret_ref = None;
        spec.login.ssh_key = Some(crate::api::SshKeyRef::of_id("key-1"));
        observed.facts.spec = spec.into();
    });
    let Step::Auxiliary { request } = lost.plan().step else {
        panic!("{:?}", lost.plan())
    };
    assert!(matches!(*request, Request::Start(_)));
}

#[test]
fn a_server_is_not_stopped_twice_for_a_reinstall_that_is_refused_then() {
    let again = |stopped_for| {
        let scene = shows(refused(Verb::Reinstall, Reason::OperationRefused), &[]);
        scene.memory(|memory| memory.calls.stopped_for = stopped_for)
    };
    assert_eq!(pause(&again(None).plan()), Some(Duration::from_secs(75)));
    let waits = pause(&again(Some(2)).plan()).unwrap();
    assert!(waits > Duration::from_secs(3600), "an outage each time");
}
