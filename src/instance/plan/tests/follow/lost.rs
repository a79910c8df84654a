//! Tests of a call whose answer was lost, and of a lost record.

use super::*;
use crate::api::{GeneratedLogin, PowerState};

#[test]
fn an_operation_with_a_lost_answer_is_judged_by_the_server_after_the_settling_time() {
    for (verb, target, shown, early, settled) in [
        (Verb::Reinstall, to_second(), vec![SECOND], None, Some(true)),
        (Verb::Reinstall, to_second(), vec![], None, Some(false)),
        (Verb::Start, as_bought(), vec![], Some(true), Some(true)),
        (Verb::Start, as_bought(), vec![OFF], None, Some(false)),
        (Verb::Stop, as_bought(), vec![OFF], Some(true), Some(true)),
        (Verb::Stop, as_bought(), vec![], None, Some(false)),
        (Verb::ModifyPassword, as_bought(), vec![], None, Some(false)),
        (Verb::Restart, as_bought(), vec![], None, Some(false)),
    ] {
        let lost = || {
            shows(
                open_operation(verb, target.clone(), CallState::Unknown),
                &shown,
            )
        };
        assert_eq!(end(&lost()), early, "{verb} {shown:?}, at once");
        let after = later(lost(), SETTLE * 2);
        assert_eq!(end(&after), settled, "{verb} {shown:?}, settled");
        assert!(rests(&after.plan()), "the end is reported before a repeat");
        let busy = [shown.clone(), vec![("ecsPendingStatus", "BUSY")]].concat();
        let busy = shows(lost(), &busy);
        assert_eq!(
            end(&later(busy, SETTLE * 2)),
            None,
            "{verb}: not while it is busy"
        );
        let unread = lost().with(|observed| observed.detail = Fact::Unknown("odd".into()));
        assert_eq!(
            end(&later(unread, SETTLE * 2)),
            None,
            "{verb}: not without a read"
        );
    }
}

#[test]
fn evidence_that_the_service_accepted_the_call_ends_the_wait() {
    for (verb, shown, ends) in [
        (Verb::Reinstall, vec![SECOND], Some(true)),
        (Verb::Reinstall, vec![], None),
        (Verb::Restart, vec![], Some(true)),
        (Verb::ModifyPassword, vec![], None),
    ] {
        let lost = shows(
            open_operation(verb, to_second(), CallState::Unknown),
            &shown,
        );
        let observed =
            lost.memory(|memory| memory.call.as_mut().unwrap().was_busy_after_call = true);
        assert_eq!(end(&observed), ends, "{verb} {shown:?}");
    }
}

#[test]
fn a_server_that_was_busy_has_half_a_minute_to_show_the_new_image() {
    let settled = |rest: Duration| {
        let lost = open_operation(Verb::Reinstall, to_second(), CallState::Unknown);
        let busy = shows(lost, &[])
            .memory(|memory| memory.call.as_mut().unwrap().was_busy_after_call = true);
        later(busy, SETTLE * 2).with(|observed| {
            observed.memory.observations.look.answer = idle(observed.now - rest);
        })
    };
    assert_eq!(end(&settled(Duration::from_secs(29))), None);
    assert_eq!(end(&settled(Duration::from_secs(30))), Some(false));
}

#[test]
fn a_reinstall_with_the_same_image_and_an_unknown_outcome_is_not_repeated() {
    let lost = || {
        shows(
            open_operation(Verb::Reinstall, to_key(), CallState::Unknown),
            &[],
        )
    };
    // The spec still requests the same operation.
    let lost = || {
        with_spec(lost(), |spec| {
            spec.login.password_secret_ref = None;
            spec.login.ssh_key = Some(crate::api::SshKeyRef {
                id: Some("key-1".into()),
                ..crate::api::SshKeyRef::default()
            });
        })
    };
    let plan = later(lost(), SETTLE * 2).plan();
    let unknown = (State::Stalled, Reason::OutcomeUnknown);
    assert_eq!(reason(&plan), Some(unknown));
    assert!(rests(&plan));
    // Its end is on record. The disk is erased again only on a new request of the spec, and nothing else waits for that.
    let ended = || later(lost(), SETTLE * 2).written();
    assert!(rests(&ended().plan()));
    assert_eq!(reason(&ended().plan()), Some(unknown));
    let stop = with_spec(ended(), |spec| spec.power_state = PowerState::Stopped);
    assert_eq!(begins(&stop), Some(Verb::Stop));
    let both = ended()
        .listed(Duration::ZERO, &[(ID, &ours()), ("ecs-2", &ours())])
        .plan();
    assert!(
        matches!(&both.step, Step::Release { why: ReleaseReason::Surplus, id } if id.as_str() == "ecs-2"),
        "{both:?}"
    );
    let busy = lost().memory(|memory| memory.call.as_mut().unwrap().was_busy_after_call = true);
    assert_eq!(
        end(&busy),
        Some(true),
        "the service was busy with the server, so it accepted the call"
    );
    for change in [
        |spec: &mut crate::api::InstanceSpec| spec.image.id = Some("img-2".into()),
        |spec: &mut crate::api::InstanceSpec| spec.login.ssh_key = None,
    ] {
        let edited = later(with_spec(lost(), change), SETTLE * 2);
        assert_eq!(
            end(&edited),
            Some(false),
            "the next plan follows the edited spec"
        );
    }
}

#[test]
fn after_a_lost_answer_the_password_is_set_also_if_the_spec_has_the_former_one_again() {
    let target = Applied {
        password_secret: Some("login/2".into()),
        ..as_bought()
    };
    let lost = open_operation(Verb::ModifyPassword, target, CallState::Unknown);
    let ended = later(shows(lost, &[]), SETTLE * 2).written();
    let applied = ended.0.facts.status.applied.clone().unwrap();
    assert_eq!(
        (applied.password_secret, applied.image),
        (None, as_bought().image)
    );
    let retried = ended.with(|observed| observed.wall_clock += Duration::from_secs(3_600));
    assert_eq!(begins(&retried), Some(Verb::ModifyPassword));
}

/// This process follows the operation, and status was lost.
fn wiped(scene: Scene) -> Scene {
    let scene = scene.with(|observed| {
        let operation = observed.facts.status.operation.clone().map(Box::new);
        observed.memory.call.as_mut().unwrap().intent = Intent::Operation(operation.unwrap());
    });
    scene.wiped()
}

#[test]
fn an_operation_ends_in_the_same_way_if_status_was_lost() {
    for (verb, shown, settled) in [
        (Verb::ModifyPassword, vec![], Some(false)),
        (Verb::Restart, vec![], Some(false)),
        (Verb::Stop, vec![OFF], Some(true)),
    ] {
        let scene = || {
            let scene = open_operation(verb, as_bought(), CallState::Unknown);
            let scene = shows(scene, &shown).memory(|memory| {
                memory.call.as_mut().unwrap().is_own = false;
            });
            later(scene, SETTLE * 2)
        };
        assert_eq!(end(&scene()), settled, "{verb}");
        assert_eq!(end(&wiped(scene())), settled, "{verb}");
        let operation = |scene: Scene| scene.plan().changes.operation;
        assert_eq!(operation(wiped(scene())), operation(scene()), "{verb}");
    }
}

/// A reinstall with the same image shows nowhere: the disk is not erased again, and the Secret claims nothing uncertain.
#[test]
fn a_reinstall_whose_status_was_lost_is_not_repeated_and_claims_no_password() {
    let generated = |spec: &mut crate::api::InstanceSpec| {
        spec.login.password_secret_ref = None;
        spec.login.generate = Some(GeneratedLogin::default());
    };
    for change in [generated, |_: &mut crate::api::InstanceSpec| {}] {
        let scene = open_operation(Verb::Reinstall, as_bought(), CallState::Unknown);
        let scene = with_spec(shows(scene, &[]), change);
        let scene = scene.memory(|memory| memory.call.as_mut().unwrap().is_own = false);
        let wiped = wiped(later(scene, SETTLE * 2));
        let plan = wiped.plan();
        let unknown = (State::Stalled, Reason::OutcomeUnknown);
        assert_eq!(reason(&plan), Some(unknown));
        assert!(rests(&plan));
        assert_eq!(plan.changes.applied, None);
    }
}

/// The service does not know the task, and shows the image from before: neither image nor password was set.
#[test]
fn a_reinstall_without_an_effect_claims_no_password() {
    let denied = open_operation(Verb::Reinstall, to_second(), CallState::Unknown);
    let denied = with_task(denied, Fact::Absent, &[]).with(|observed| {
        observed.memory.observations.look.answer = idle(observed.now);
    });
    let denied = later(denied, SETTLE * 2);
    let plan = denied.plan();
    assert_eq!(end(&denied), Some(true), "a receipt forbids a repeat");
    let applied = plan.changes.applied.unwrap();
    assert_eq!(applied.image, to_second().image);
    assert_eq!(applied.password_secret, None);
}

/// The image is neither the former nor the requested one: a user installed it, and their work must not be erased.
#[test]
fn an_image_that_a_user_installed_after_a_lost_reinstall_is_not_erased() {
    let lost = || open_operation(Verb::Reinstall, to_second(), CallState::Unknown);
    let requested = |scene| {
        with_spec(scene, |spec| {
            spec.image = crate::api::ImageRef {
                id: Some("img-2".into()),
                ..crate::api::ImageRef::default()
            };
        })
    };
    let shown = |image| {
        let scene = shows(requested(lost()), &[("imageResourceUUID", image)]);
        at_rest(later(scene, SETTLE * 2))
    };
    assert_eq!(end(&shown("img-1")), Some(false), "it was not carried out");
    let unknown = (State::Stalled, Reason::OutcomeUnknown);
    assert_eq!(reason(&shown("img-3").plan()), Some(unknown));
    let written = shown("img-3").written();
    assert_eq!(reason(&written.plan()), Some(unknown));
}

#[test]
fn an_operation_of_a_restored_object_counts_with_its_recorded_target() {
    let target = Applied {
        password_secret: Some("login/of-then".into()),
        ..as_bought()
    };
    let open = open_operation(Verb::ModifyPassword, target, CallState::Unknown);
    let scene = with_task(open, Fact::Known(TaskState::Succeeded), &[])
        .record(|record| record.uid = "of-its-former-life".into());
    let restored = scene.with(|observed| {
        observed.memory.call = None;
        observed.secret_version = Some("login/of-now".into());
    });
    let applied = restored.plan().changes.applied.unwrap();
    assert_eq!(applied.password_secret.as_deref(), Some("login/of-then"));
}

#[test]
fn a_reinstall_token_whose_answer_was_lost_can_be_withdrawn() {
    let with_token = || Applied {
        reinstall: Some("a".into()),
        ..as_bought()
    };
    let lost = || {
        later(
            shows(
                open_operation(Verb::Reinstall, with_token(), CallState::Unknown),
                &[],
            ),
            SETTLE * 2,
        )
    };
    let requested = with_spec(lost(), |spec| {
        spec.reinstall = Some(crate::api::Reinstall {
            token: "a".into(),
            image: None,
        });
    });
    let unknown = (State::Stalled, Reason::OutcomeUnknown);
    assert_eq!(reason(&requested.plan()), Some(unknown));
    assert_eq!(end(&with_spec(lost(), |_| {})), Some(false));
}

/// The request was withdrawn, but the server may have its password.
#[test]
fn after_a_withdrawn_reinstall_with_another_password_the_one_of_the_spec_is_set() {
    let target = Applied {
        password_secret: Some("other/1".into()),
        reinstall: Some("a".into()),
        ..as_bought()
    };
    let open = open_operation(Verb::Reinstall, target, CallState::Unknown);
    let lost = later(shows(open, &[]), SETTLE * 2);
    assert_eq!(end(&lost), Some(false));
    let plan = lost.plan();
    assert_eq!(plan.changes.applied.as_ref().unwrap().password_secret, None);
    let due = (State::Reconciling, Reason::ChangingPassword);
    assert_eq!(reason(&plan), Some(due));
}

/// Only the key went back before the end: the server may have the other one, and the token does not erase it again.
#[test]
fn after_a_withdrawn_key_a_user_decides_also_if_the_token_or_an_accepted_image_stays() {
    let lost = |image: &str, token: Option<&str>| {
        let target = Applied {
            image: image.into(),
            key: Some("key-2".into()),
            password_secret: None,
            reinstall: token.map(Into::into),
            ..as_bought()
        };
        let open = open_operation(Verb::Reinstall, target, CallState::Unknown);
        let open = open.status(|status| {
            let operation = status.operation.as_mut().unwrap();
            operation.before.image = Some(image.into());
        });
        let open = with_spec(open, |spec| {
            spec.image.id = Some(image.into());
            spec.reinstall = token.map(|token| crate::api::Reinstall {
                token: token.into(),
                image: None,
            });
        });
        later(shows(open, &[("imageResourceUUID", image)]), SETTLE * 2)
    };
    let unknown = (State::Stalled, Reason::OutcomeUnknown);
    for (image, token) in [("img-1", Some("a")), ("img-2", None)] {
        let lost = lost(image, token);
        assert_eq!(reason(&lost.plan()), Some(unknown), "{image}");
        let ended = lost.written();
        assert_eq!(begins(&ended), Some(Verb::ModifyPassword), "{image}");
        let set = ended.status(|status| {
            status.operation = None;
            status.applied.as_mut().unwrap().password_secret = Some("login/1".into());
        });
        assert_eq!(begins(&set), None, "{image}");
        assert_eq!(reason(&set.plan()), Some(unknown), "{image}");
        let paused = with_spec(set, |spec| spec.pause = Some(crate::api::Pause::default()));
        assert_eq!(reason(&paused.plan()), Some(unknown), "{image}");
        let observed = with_spec(paused, |spec| {
            (spec.pause, spec.management_policy) = (None, crate::api::ManagementPolicy::Observe);
        });
        assert_eq!(reason(&observed.plan()), Some(unknown), "{image}");
        let seen = observed.with(|observed| observed.facts.generation += 1);
        assert_ne!(reason(&seen.plan()), Some(unknown), "{image}");
    }
}
