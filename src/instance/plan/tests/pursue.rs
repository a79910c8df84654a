//! An operation on a recorded server is open.

use super::want::{as_bought, with_spec};
use super::*;
use crate::api::PowerState;
use crate::instance::memory::{Aside, Odd};

/// An operation of this process, announced, and this is what became of its call.
pub(super) fn open_operation(verb: Verb, target: Applied, post: Post) -> Scene {
    let mut scene = Scene::recorded(Some(ID), |binding| {
        binding.attempt = 2;
        binding.nonce = "n2".into();
        binding.operation.verb = verb;
        binding.operation.target = target;
        binding.operation.before = Before {
            image: Some("img-1".into()),
            running: true,
        };
    });
    let mut status = InstanceStatus::clone(&Scene::converged().0.facts.status);
    status.applied = Some(as_bought());
    scene.0.facts.status = status.into();
    let since = scene.0.memory.first_seen;
    let attempt = Attempt {
        nonce: "n2".into(),
        account: "default".into(),
        verb,
        is_own: true,
        tries: 1,
        since,
        post,
    };
    scene.memory(|memory| {
        memory.attempts.insert(2, attempt);
    })
}

/// The record names a task, which stands like this, and the server shows this.
fn with_task(scene: Scene, state: Fact<TaskState>, shown: &[(&str, &str)]) -> Scene {
    let found = Fact::Known(detail(shown));
    scene.with(|seen| {
        let Record::Speaks(binding) = &mut seen.facts.record else {
            unreachable!()
        };
        binding.task = Some("t-9".into());
        seen.task = state;
        seen.detail = found;
    })
}

fn shows(scene: Scene, shown: &[(&str, &str)]) -> Scene {
    let found = Fact::Known(detail(shown));
    scene.with(|seen| seen.detail = found)
}

fn later(scene: Scene, time: Duration) -> Scene {
    scene.with(|seen| seen.now += time)
}

fn at_rest(scene: Scene) -> Scene {
    let scene = scene.with(|seen| {
        let since = seen.memory.first_seen;
        seen.memory.at_rest_since = Some(since);
        let tells_nothing = matches!(
            seen.task,
            Fact::Unknown(_) | Fact::Known(TaskState::Unknown { .. })
        );
        let task = TaskId::from("t-9");
        let poll = seen.memory.poll_of(&task, None, since);
        poll.odd = tells_nothing.then(|| Odd {
            since,
            why: "odd".into(),
        });
    });
    later(scene, Duration::from_secs(31))
}

fn to_second() -> Applied {
    Applied {
        image: "img-2".into(),
        ..as_bought()
    }
}

fn to_key() -> Applied {
    Applied {
        key: Some("key-1".into()),
        password_secret: None,
        ..as_bought()
    }
}

/// Whether the operation ended, and how.
fn end(scene: &Scene) -> Option<bool> {
    scene.plan().tell.ended.map(|entry| entry.succeeded)
}

const SECOND: (&str, &str) = ("imageResourceUUID", "img-2");
const OFF: (&str, &str) = ("ecsStatus", "STOPPED");

#[test]
fn a_lost_answer_is_settled_by_what_the_server_shows() {
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
        let lost = || shows(open_operation(verb, target.clone(), Post::Unknown), &shown);
        assert_eq!(end(&lost()), early, "{verb} {shown:?}, at once");
        let after = later(lost(), SETTLE * 2);
        assert_eq!(end(&after), settled, "{verb} {shown:?}, settled");
        assert!(rests(&after.plan()), "told before anything is repeated");
        let busy = [shown.clone(), vec![("ecsPendingStatus", "BUSY")]].concat();
        let busy = shows(lost(), &busy);
        assert_eq!(
            end(&later(busy, SETTLE * 2)),
            None,
            "{verb}: not while it is busy"
        );
        let unread = lost().with(|seen| seen.detail = Fact::Unknown("odd".into()));
        assert_eq!(end(&later(unread, SETTLE * 2)), None, "{verb}: not unseen");
    }
}

#[test]
fn evidence_that_the_service_took_it_ends_the_wait() {
    for (verb, shown, ends) in [
        (Verb::Reinstall, vec![SECOND], Some(true)),
        (Verb::Reinstall, vec![], None),
        (Verb::Restart, vec![], Some(true)),
        (Verb::ModifyPassword, vec![], None),
    ] {
        let lost = shows(open_operation(verb, to_second(), Post::Unknown), &shown);
        let seen = lost.memory(|memory| memory.pending_seen = true);
        assert_eq!(end(&seen), ends, "{verb} {shown:?}");
    }
}

#[test]
fn the_same_image_asked_for_again_is_never_repeated_by_itself() {
    let lost = || {
        shows(
            open_operation(Verb::Reinstall, to_key(), Post::Unknown),
            &[],
        )
    };
    // The spec still asks for what was asked for.
    let lost = || {
        with_spec(lost(), |spec| {
            spec.login.password_secret_ref = None;
            spec.login.ssh_key = Some(crate::api::SshKeyRef { id: "key-1".into() });
        })
    };
    let plan = later(lost(), SETTLE * 2).plan();
    let unknown = (State::Stalled, Reason::OutcomeUnknown);
    assert_eq!(reason(&plan), Some(unknown));
    assert!(rests(&plan) && plan.tell.ended.is_none());
    let seen_busy = lost().memory(|memory| memory.pending_seen = true);
    assert_eq!(end(&seen_busy), Some(true), "the service was seen at it");
    for change in [
        |spec: &mut crate::api::InstanceSpec| spec.image.id = "img-2".into(),
        |spec: &mut crate::api::InstanceSpec| spec.login.ssh_key = None,
    ] {
        let asked_again = later(with_spec(lost(), change), SETTLE * 2);
        assert_eq!(end(&asked_again), Some(false), "the spec decides anew");
    }
}

#[test]
fn a_task_tells_how_it_ended() {
    let failed = TaskState::Failed {
        reason: Some("no mood".into()),
    };
    let odd = || TaskState::Unknown {
        word: "RETRY".into(),
    };
    for (verb, state, shown, ends, at_rest_ends) in [
        (
            Verb::Reinstall,
            Fact::Known(failed),
            vec![],
            Some(false),
            Some(false),
        ),
        (
            Verb::Reinstall,
            Fact::Known(TaskState::Succeeded),
            vec![SECOND],
            Some(true),
            Some(true),
        ),
        // The image comes a moment later, or it is a drift; it is not asked for again.
        (
            Verb::Reinstall,
            Fact::Known(TaskState::Succeeded),
            vec![],
            None,
            Some(true),
        ),
        (Verb::Reinstall, Fact::Absent, vec![], None, Some(true)),
        (
            Verb::Reinstall,
            Fact::Known(odd()),
            vec![SECOND],
            None,
            Some(true),
        ),
        // A task that says that it runs is believed for ever.
        (
            Verb::Reinstall,
            Fact::Known(TaskState::Running),
            vec![SECOND],
            None,
            None,
        ),
        (Verb::Restart, Fact::Absent, vec![], None, Some(true)),
        (
            Verb::Restart,
            Fact::Unknown("odd".into()),
            vec![],
            None,
            Some(true),
        ),
        (Verb::ModifyPassword, Fact::Absent, vec![], None, Some(true)),
        (
            Verb::Stop,
            Fact::Known(TaskState::Succeeded),
            vec![OFF],
            Some(true),
            Some(true),
        ),
        (
            Verb::Stop,
            Fact::Known(TaskState::Succeeded),
            vec![],
            None,
            Some(false),
        ),
    ] {
        let scene = || {
            with_task(
                open_operation(verb, to_second(), Post::Unknown),
                state.clone(),
                &shown,
            )
        };
        assert_eq!(end(&scene()), ends, "{verb} {state:?} {shown:?}");
        assert_eq!(
            end(&at_rest(scene())),
            at_rest_ends,
            "{verb} {state:?} {shown:?}, at rest"
        );
        assert!(
            rests(&at_rest(scene()).plan()),
            "a receipt forbids a repeat"
        );
    }
}

#[test]
fn failures_are_told_and_after_the_third_waiting_is_not_enough() {
    let failed = || {
        let state = TaskState::Failed { reason: None };
        with_task(
            open_operation(Verb::Stop, as_bought(), Post::Unknown),
            Fact::Known(state),
            &[],
        )
    };
    let plan = failed().plan();
    assert_eq!(
        reason(&plan),
        Some((State::Reconciling, Reason::OperationFailed))
    );
    assert_eq!(plan.pause, Some(FAILED[0]));
    let third = failed().with(|seen| {
        let mut status = InstanceStatus::clone(&seen.facts.status);
        let entry = HistoryEntry {
            verb: Verb::Stop,
            attempt: 1,
            succeeded: false,
            ..status.history[0].clone()
        };
        status.history = vec![entry.clone(), entry];
        seen.facts.status = status.into();
    });
    let plan = third.plan();
    assert_eq!(
        reason(&plan),
        Some((State::Stalled, Reason::OperationFailed))
    );
    assert_eq!(plan.pause, Some(FAILED[2]));
}

fn refused(verb: Verb, reason: Reason) -> Scene {
    let message = "no".to_owned();
    let post = Post::Refused { message, reason };
    shows(open_operation(verb, to_second(), post), &[])
}

#[test]
fn a_refusal_of_what_was_asked_for_ends_the_attempt_and_one_of_the_moment_does_not() {
    let scene = refused(Verb::Reinstall, Reason::OperationRefused);
    assert_eq!(end(&scene), Some(false));
    assert_eq!(scene.plan().pause, Some(Duration::from_secs(75)));
    let busy = || refused(Verb::Reinstall, Reason::ServiceBusy);
    let waits = busy().with(|seen| seen.memory.not_before = Some(seen.now + SETTLE));
    assert!(rests(&waits.plan()));
    let told = (State::Reconciling, Reason::ServiceBusy);
    assert_eq!(reason(&waits.plan()), Some(told));
    let repeats = |scene: &Scene| {
        matches!(
            scene.plan().step,
            Step::Call {
                announce: false,
                ..
            }
        )
    };
    assert!(repeats(&busy()), "the same attempt, once more");
    // What it asked for is not what is asked for now.
    assert_eq!(end(&with_spec(busy(), |_| {})), Some(false));
    let rotated = busy().with(|seen| seen.secret_version = Some("login/2".into()));
    assert_eq!(end(&rotated), Some(false));
    let unsent = || shows(open_operation(Verb::Stop, as_bought(), Post::NotSent), &[]);
    assert!(repeats(&unsent()));
    assert_eq!(end(&with_spec(unsent(), |_| {})), Some(false));
    // It is stopped already: that is why.
    let stopped = shows(refused(Verb::Stop, Reason::ServiceBusy), &[OFF]);
    assert_eq!(end(&stopped), Some(true));
}

#[test]
fn a_reinstall_that_needs_a_stop_stops_reinstalls_and_starts_under_one_record() {
    let refused = || refused(Verb::Reinstall, Reason::Stopping);
    let is_aside = |scene: &Scene, wanted: fn(&Request) -> bool| matches!(scene.plan().step, Step::Aside { request } if wanted(&request));
    let is_stop: fn(&Request) -> bool = |request| matches!(request, Request::Stop { .. });
    let is_start: fn(&Request) -> bool = |request| matches!(request, Request::Start(_));
    assert!(is_aside(&refused(), is_stop));
    let asked = refused().with(|seen| {
        let at = seen.now;
        seen.memory.aside = Some(Aside {
            verb: Verb::Stop,
            at,
            trouble: None,
        });
    });
    assert!(rests(&asked.plan()), "asked once in a while");
    let stopped = shows(refused(), &[OFF]);
    assert!(matches!(
        stopped.plan().step,
        Step::Call {
            announce: false,
            ..
        }
    ));

    let done = || {
        let scene = open_operation(Verb::Reinstall, to_second(), Post::Unknown);
        with_task(scene, Fact::Known(TaskState::Succeeded), &[OFF, SECOND])
    };
    assert!(is_aside(&done(), is_start));
    let off = with_spec(done(), |spec| spec.power_state = PowerState::Stopped);
    assert_eq!(end(&off), Some(true), "it is to stay off");
    let left_alone = || with_spec(done(), |spec| spec.power_state = PowerState::Unmanaged);
    assert!(is_aside(&left_alone(), is_start), "it ran before");
    // A start that does not come about is an operation of its own.
    let in_vain = done().with(|seen| {
        let at = seen.now;
        seen.memory.aside = Some(Aside {
            verb: Verb::Start,
            at,
            trouble: None,
        });
        seen.now += Duration::from_secs(31);
    });
    assert_eq!(end(&in_vain), Some(true));
}

#[test]
fn an_answer_without_a_task_is_followed_by_the_servers_state() {
    let accepted = |verb| {
        let id = ServerId::from(ID);
        open_operation(verb, as_bought(), Post::Accepted { id, task: None })
    };
    assert_eq!(end(&shows(accepted(Verb::Stop), &[OFF])), Some(true));
    assert_eq!(end(&shows(accepted(Verb::Stop), &[])), None);
    assert_eq!(end(&at_rest(shows(accepted(Verb::Stop), &[]))), Some(false));
    assert_eq!(end(&shows(accepted(Verb::Restart), &[])), None);
    assert_eq!(
        end(&at_rest(shows(accepted(Verb::Restart), &[]))),
        Some(true)
    );
}

#[test]
fn a_receipt_stands_in_the_record_unless_repeating_does_no_harm() {
    let accepted = |verb| {
        let (id, task) = (ServerId::from(ID), Some(TaskId::from("t-9")));
        open_operation(verb, as_bought(), Post::Accepted { id, task })
    };
    for verb in [Verb::Reinstall, Verb::Restart] {
        let plan = accepted(verb).plan();
        let Step::Record { binding } = &plan.step else {
            panic!("{verb}: {plan:?}")
        };
        assert_eq!(binding.task.as_deref(), Some("t-9"));
    }
    for verb in [Verb::ModifyPassword, Verb::Start, Verb::Stop] {
        let plan = accepted(verb).plan();
        assert!(rests(&plan));
        let operation = plan.tell.operation.unwrap();
        assert_eq!(
            (operation.task_id.as_deref(), operation.attempt),
            (Some("t-9"), 2)
        );
    }
}

#[test]
fn an_attempt_of_a_lost_status_counts_as_applied() {
    let scene = || {
        let scene = open_operation(Verb::ModifyPassword, as_bought(), Post::Unknown);
        let scene = shows(scene, &[]).memory(|memory| {
            memory.attempts.get_mut(&2).unwrap().is_own = false;
        });
        later(scene, SETTLE * 2)
    };
    assert_eq!(
        end(&scene()),
        Some(false),
        "it may not have been carried out"
    );
    let wiped = scene().with(|seen| seen.facts.status = InstanceStatus::default().into());
    assert_eq!(end(&wiped), Some(true));
    assert_eq!(wiped.plan().tell.applied, Some(as_bought()));
}

#[test]
fn a_server_that_vanishes_under_an_operation_is_missing() {
    let scene = with_task(
        open_operation(Verb::Reinstall, to_second(), Post::Unknown),
        Fact::Known(TaskState::Running),
        &[],
    );
    let scene = scene.listed(Duration::ZERO, &[]).with(|seen| {
        seen.detail = Fact::Absent;
        seen.memory.not_found = true;
    });
    let missing = (State::Stalled, Reason::ServerMissing);
    assert_eq!(reason(&scene.plan()), Some(missing));
}

#[test]
fn an_unknown_outcome_is_said_without_another_look() {
    let by_key = |spec: &mut crate::api::InstanceSpec| {
        spec.login.password_secret_ref = None;
        spec.login.ssh_key = Some(crate::api::SshKeyRef { id: "key-1".into() });
    };
    let lost = || {
        let scene = with_spec(
            open_operation(Verb::Reinstall, to_key(), Post::Unknown),
            by_key,
        );
        let scene = later(scene, SETTLE * 2);
        scene.with(|seen| {
            seen.memory.looked = Some(seen.now);
            seen.memory.at_rest_since = Some(seen.now);
        })
    };
    let plan = lost().plan();
    let unknown = (State::Stalled, Reason::OutcomeUnknown);
    assert_eq!(reason(&plan), Some(unknown));
    assert_eq!((plan.again, plan.wants.attention), (LONG, Attention::Quiet));
    // A new token asks again, after a look.
    let asked = with_spec(lost(), |spec| {
        by_key(spec);
        spec.reinstall = Some(crate::api::Reinstall { token: "a".into() });
    });
    assert_eq!(asked.plan().needs, Needs::Detail);
    assert_eq!(end(&shows(asked, &[])), Some(false));
}

#[test]
fn a_server_stopped_for_a_reinstall_that_does_not_come_is_started_again() {
    let is_start = |scene: &Scene| matches!(&scene.plan().step, Step::Aside { request } if matches!(**request, Request::Start(_)));
    let refused = || shows(refused(Verb::Reinstall, Reason::OperationRefused), &[OFF]);
    assert!(is_start(&refused()));
    let taken_back = |power| {
        let stopped = shows(
            super::pursue::refused(Verb::Reinstall, Reason::Stopping),
            &[OFF],
        );
        with_spec(stopped, move |spec| spec.power_state = power)
    };
    assert!(is_start(&taken_back(PowerState::Unmanaged)));
    assert_eq!(end(&taken_back(PowerState::Stopped)), Some(false));
    let in_vain = refused().with(|seen| {
        let at = seen.now;
        seen.memory.aside = Some(Aside {
            verb: Verb::Start,
            at,
            trouble: Some("no".into()),
        });
        seen.now += Duration::from_secs(31);
    });
    assert_eq!(end(&in_vain), Some(false));
}

#[test]
fn a_repeat_is_made_only_of_a_server_that_is_still_ours() {
    for shown in [("instanceName", "renamed"), ("ecsPendingStatus", "BUSY")] {
        for why in [Reason::ServiceBusy, Reason::Stopping] {
            let plan = shows(refused(Verb::Reinstall, why), &[shown]).plan();
            assert!(rests(&plan), "{shown:?} {why:?}");
        }
    }
}

#[test]
fn a_service_that_is_busy_with_an_idle_server_does_not_want_it() {
    let busy = |tries| {
        refused(Verb::ModifyPassword, Reason::ServiceBusy).memory(|memory| {
            memory.attempts.get_mut(&2).unwrap().tries = tries;
        })
    };
    assert_eq!(end(&busy(3)), None);
    assert_eq!(end(&busy(4)), Some(false));
}

#[test]
fn a_task_that_runs_for_ever_ends_with_the_server_that_shows_its_effect() {
    let overdue = |shown: &[(&str, &str)]| {
        let open = open_operation(Verb::Stop, as_bought(), Post::Unknown);
        later(
            at_rest(with_task(open, Fact::Known(TaskState::Running), shown)),
            SETTLE * 5,
        )
    };
    assert_eq!(end(&overdue(&[OFF])), Some(true));
    assert_eq!(end(&overdue(&[])), None);
    let stalled = (State::Stalled, Reason::OperationOverdue);
    assert_eq!(reason(&overdue(&[]).plan()), Some(stalled));
}

#[test]
fn an_operation_that_a_restored_object_began_counts_as_it_was_asked_for() {
    let restored = |made_for: &str| {
        let target = Applied {
            password_secret: Some("login/of-then".into()),
            ..as_bought()
        };
        let open = open_operation(Verb::ModifyPassword, target, Post::Unknown);
        let scene = with_task(open, Fact::Known(TaskState::Succeeded), &[]);
        scene.with(|seen| {
            let Record::Speaks(binding) = &mut seen.facts.record else {
                unreachable!()
            };
            binding.uid = "of-its-former-life".into();
            binding.operation.uid = made_for.into();
            seen.memory.attempts.clear();
            seen.secret_version = Some("login/of-now".into());
        })
    };
    let applied = |scene: Scene| scene.plan().tell.applied.unwrap().password_secret;
    assert_eq!(applied(restored(UID)).as_deref(), Some("login/of-then"));
    assert_eq!(applied(restored("")).as_deref(), Some("login/of-now"));
}

#[test]
fn one_query_that_fails_ends_nothing() {
    let running = || {
        let open = open_operation(Verb::Reinstall, to_second(), Post::Unknown);
        with_task(open, Fact::Unknown("503".into()), &[SECOND])
    };
    assert_eq!(end(&at_rest(running())), Some(true));
    let just_now = at_rest(running()).with(|seen| {
        let since = seen.now;
        let poll = seen.memory.poll.as_mut().unwrap();
        poll.odd.as_mut().unwrap().since = since;
    });
    assert_eq!(end(&just_now), None);
}

#[test]
fn a_server_stopped_for_a_reinstall_of_which_nothing_tells_is_started() {
    let lost = shows(
        open_operation(Verb::Reinstall, to_key(), Post::Unknown),
        &[OFF],
    );
    let lost = later(lost, SETTLE * 2).with(|seen| {
        let mut spec = crate::api::InstanceSpec::clone(&seen.facts.spec);
        spec.login.password_secret_ref = None;
        spec.login.ssh_key = Some(crate::api::SshKeyRef { id: "key-1".into() });
        seen.facts.spec = spec.into();
    });
    let Step::Aside { request } = lost.plan().step else {
        panic!("{:?}", lost.plan())
    };
    assert!(matches!(*request, Request::Start(_)));
}

#[test]
fn a_server_is_not_stopped_twice_for_a_reinstall_that_is_refused_then() {
    let again = |stopped_for| {
        let scene = shows(refused(Verb::Reinstall, Reason::OperationRefused), &[]);
        scene.memory(|memory| memory.stopped_for = stopped_for)
    };
    assert_eq!(again(None).plan().pause, Some(Duration::from_secs(75)));
    let waits = again(Some(2)).plan().pause.unwrap();
    assert!(waits > Duration::from_secs(3600), "an outage each time");
}

#[test]
fn a_reinstall_token_whose_answer_was_lost_can_be_taken_back() {
    let with_token = || Applied {
        reinstall: Some("a".into()),
        ..as_bought()
    };
    let lost = || {
        later(
            shows(
                open_operation(Verb::Reinstall, with_token(), Post::Unknown),
                &[],
            ),
            SETTLE * 2,
        )
    };
    let asked = with_spec(lost(), |spec| {
        spec.reinstall = Some(crate::api::Reinstall { token: "a".into() });
    });
    let unknown = (State::Stalled, Reason::OutcomeUnknown);
    assert_eq!(reason(&asked.plan()), Some(unknown));
    assert_eq!(end(&with_spec(lost(), |_| {})), Some(false));
}
