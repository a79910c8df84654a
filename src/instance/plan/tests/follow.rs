//! Tests of an open operation on a recorded server.

mod lost;
mod stop;

use super::diff::with_spec;
use super::*;
use crate::instance::memory::look::Poll;

/// An announced operation of this process, with this outcome of its call.
pub(super) fn open_operation(verb: Verb, target: Applied, state: CallState) -> Scene {
    let scene = Scene::converged().status(|status| {
        status.attempt = 2;
        status.operation = Some(operation(verb, target));
    });
    let operation = scene.0.facts.status.operation.clone().unwrap();
    scene.memory(|memory| {
        let since = memory.origin.since;
        memory.call = Some(Box::new(NewestCall {
            intent: Intent::Unneeded,
            is_own: true,
            tries: 1,
            was_busy_after_call: false,
            ..NewestCall::of_operation(&operation, &record(), state, since)
        }));
    })
}

/// Status names a task in this state, and the server shows this detail.
pub(super) fn with_task(scene: Scene, state: Fact<TaskState>, shown: &[(&str, &str)]) -> Scene {
    let found = Fact::Known(detail(shown));
    let scene = scene.status(|status| {
        if let Some(open) = &mut status.operation {
            (open.accepted, open.task_id) = (true, Some("t-9".into()));
        }
    });
    scene.with(|observed| {
        observed.task = state;
        observed.detail = found;
    })
}

fn shows(scene: Scene, shown: &[(&str, &str)]) -> Scene {
    let found = Fact::Known(detail(shown));
    scene.with(|observed| observed.detail = found)
}

pub(super) fn later(scene: Scene, time: Duration) -> Scene {
    scene.with(|observed| observed.now += time)
}

fn at_rest(scene: Scene) -> Scene {
    let scene = scene.with(|observed| {
        let since = observed.memory.origin.since;
        observed.memory.observations.look.answer = idle(since);
        let mut poll = Poll::of(None, TaskId::from("t-9"), Verb::Start, None, since);
        poll.answered(observed.task.clone(), since);
        observed.memory.observations.poll = Some(poll);
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

/// Whether the operation ended, and whether it succeeded.
fn end(scene: &Scene) -> Option<bool> {
    scene.plan().changes.ended.map(|entry| entry.succeeded)
}

const SECOND: (&str, &str) = ("imageResourceUUID", "img-2");
const OFF: (&str, &str) = ("ecsStatus", "STOPPED");

#[test]
fn an_operation_of_a_protected_instance_that_is_deleted_is_followed_to_its_end() {
    let protected = |scene: Scene| {
        let scene = with_spec(scene, |spec| spec.deletion_protection = true);
        scene.with(|observed| observed.facts.deleted_at = Some(observed.wall_clock))
    };
    let ends = |task| {
        let state = CallState::Accepted {
            id: ServerId::from(ID),
            task: Some(TaskId::from("t-9")),
        };
        let scene = open_operation(Verb::Stop, as_bought(), state);
        let plan = protected(with_task(scene, Fact::Known(task), &[OFF])).plan();
        assert_eq!(
            reason(&plan),
            Some((State::Stalled, Reason::DeletionProtected))
        );
        assert!(rests(&plan), "{plan:?}");
        plan.changes.ended.is_some()
    };
    assert!(ends(TaskState::Succeeded) && !ends(TaskState::Running));
    // Nothing else begins.
    let edited = protected(with_spec(Scene::converged(), |spec| {
        spec.image.id = Some("img-2".into());
    }));
    assert_eq!(begins(&edited), None);
}

#[test]
fn the_state_of_a_task_decides_how_its_operation_ended() {
    let failed = TaskState::Failed {
        reason: Some("no host".into()),
    };
    let unknown_state = || {
        Fact::Known(TaskState::Unknown {
            word: "RETRY".into(),
        })
    };
    let (yes, no, never) = (Some(true), Some(false), None);
    let done = || Fact::Known(TaskState::Succeeded);
    let runs = || Fact::Known(TaskState::Running);
    let away = || Fact::Unknown("503".into());
    for (verb, state, shown, ends, at_rest_ends) in [
        (Verb::Reinstall, Fact::Known(failed), vec![], no, no),
        (Verb::Reinstall, done(), vec![SECOND], yes, yes),
        // The image shows a moment later, or it counts as drift; the reinstall is not repeated.
        (Verb::Reinstall, done(), vec![], never, yes),
        (Verb::Reinstall, Fact::Absent, vec![], never, yes),
        (Verb::Reinstall, unknown_state(), vec![SECOND], never, yes),
        // A task that is reported as running is believed without a limit.
        (Verb::Reinstall, runs(), vec![SECOND], never, never),
        (Verb::Restart, Fact::Absent, vec![], never, yes),
        (Verb::Restart, away(), vec![], never, yes),
        (Verb::ModifyPassword, Fact::Absent, vec![], never, yes),
        (Verb::Stop, done(), vec![OFF], yes, yes),
        (Verb::Stop, done(), vec![], never, no),
    ] {
        let scene = || {
            with_task(
                open_operation(verb, to_second(), CallState::Unknown),
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
fn failures_are_reported_and_the_third_is_stalled() {
    let failed = || {
        let state = TaskState::Failed { reason: None };
        with_task(
            open_operation(Verb::Stop, as_bought(), CallState::Unknown),
            Fact::Known(state),
            &[],
        )
    };
    let plan = failed().plan();
    assert_eq!(
        reason(&plan),
        Some((State::Reconciling, Reason::OperationFailed))
    );
    assert_eq!(pause(&plan), Some(times::RETRY_FAILED[0]));
    let end = |plan: &Plan| plan.changes.operation.clone().unwrap().end.unwrap();
    assert_eq!(end(&plan).times, 1);
    let third = failed().status(|status| {
        status.retries = vec![retry(Verb::Stop, EndReason::AnswerLost, 2, Duration::ZERO)];
    });
    let plan = third.plan();
    assert_eq!(end(&plan).times, 3);
    assert_eq!(
        reason(&plan),
        Some((State::Stalled, Reason::OperationFailed))
    );
    assert_eq!(pause(&plan), Some(times::RETRY_FAILED[2]));
    // The failures of another request do not count.
    let edited = failed().status(|status| {
        let mut other = retry(Verb::Stop, EndReason::Failed, 2, Duration::ZERO);
        other.target.image = "img-other".to_owned();
        status.retries = vec![other];
    });
    assert_eq!(end(&edited.plan()).times, 1);
}

fn refused(verb: Verb, reason: Reason) -> Scene {
    let message = "no".to_owned();
    let call_state = CallState::Refused { message, reason };
    shows(open_operation(verb, to_second(), call_state), &[])
}

#[test]
fn a_permanent_refusal_ends_the_attempt_and_a_temporary_one_does_not() {
    let scene = refused(Verb::Reinstall, Reason::OperationRefused);
    assert_eq!(end(&scene), Some(false));
    assert_eq!(pause(&scene.plan()), Some(Duration::from_secs(75)));
    let busy = || refused(Verb::Reinstall, Reason::ServiceBusy);
    let waits =
        busy().with(|observed| observed.memory.pace.not_before = Some(observed.now + SETTLE));
    assert!(rests(&waits.plan()));
    let reported = (State::Reconciling, Reason::ServiceBusy);
    assert_eq!(reason(&waits.plan()), Some(reported));
    let repeats = |scene: &Scene| match scene.plan().step {
        Step::Operate { announce, .. } => Some(announce),
        _ => None,
    };
    assert_eq!(repeats(&busy()), Some(true), "a reinstall needs an intent");
    let stop = refused(Verb::Stop, Reason::ServiceBusy);
    assert_eq!(repeats(&stop), Some(false), "the same intent, once more");
    // The spec no longer requests the operation.
    assert_eq!(end(&with_spec(busy(), |_| {})), Some(false));
    let rotated = busy().with(|observed| observed.secret_version = Some("login/2".into()));
    assert_eq!(end(&rotated), Some(false));
    let unsent = || {
        shows(
            open_operation(Verb::Stop, as_bought(), CallState::NotSent),
            &[],
        )
    };
    assert_eq!(repeats(&unsent()), Some(false));
    assert_eq!(end(&with_spec(unsent(), |_| {})), Some(false));
    // The server is stopped already, which is why the service refused.
    let stopped = shows(refused(Verb::Stop, Reason::ServiceBusy), &[OFF]);
    assert_eq!(end(&stopped), Some(true));
}

#[test]
fn an_operation_without_a_task_is_judged_by_the_state_of_the_server() {
    let accepted = |verb| {
        let id = ServerId::from(ID);
        open_operation(verb, as_bought(), CallState::Accepted { id, task: None })
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
fn an_unwritten_receipt_is_written_with_the_next_status() {
    for verb in [
        Verb::Reinstall,
        Verb::Restart,
        Verb::ModifyPassword,
        Verb::Start,
        Verb::Stop,
    ] {
        let (id, task) = (ServerId::from(ID), Some(TaskId::from("t-9")));
        let call_state = CallState::Accepted { id, task };
        let accepted = open_operation(verb, as_bought(), call_state);
        assert!(rests(&accepted.plan()), "{verb}");
        let reported = accepted.written().0.facts.status.operation.clone();
        let receipt = Operation {
            accepted: true,
            task_id: Some("t-9".into()),
            ..operation(verb, as_bought())
        };
        assert_eq!(reported, Some(receipt));
    }
}

#[test]
fn a_failed_operation_stays_in_status_until_the_server_is_ready_and_a_running_one_until_it_ends() {
    let failed = |is_well: bool| {
        let ended = Scene::converged().status(|status| {
            status.attempt = 2;
            status.operation = Some(Operation {
                end: bad_end(EndReason::Failed, 1),
                ..operation(Verb::Stop, as_bought())
            });
        });
        let shown = match is_well {
            true => vec![],
            false => vec![("ecsPendingStatus", "BUSY")],
        };
        let reported = shows(ended, &shown).written();
        reported.0.facts.status.operation.is_some()
    };
    assert!(failed(false) && !failed(true));
    let open = open_operation(Verb::Stop, as_bought(), CallState::Unknown);
    let away = open.with(|observed| observed.account = AccountFact::NotFound);
    let reported = away.0.facts.status.operation.clone();
    assert_eq!(away.written().0.facts.status.operation, reported);
}

#[test]
fn a_server_that_vanishes_under_an_operation_is_missing() {
    let scene = with_task(
        open_operation(Verb::Reinstall, to_second(), CallState::Unknown),
        Fact::Known(TaskState::Running),
        &[],
    );
    let scene = scene.listed(Duration::ZERO, &[]).with(|observed| {
        observed.detail = Fact::Absent;
        let since = observed.now;
        observed.memory.observations.look.answer = LastAnswer::Absent { since };
    });
    // The next step depends on the end of the operation, while its task may still report it.
    let plan = scene.plan();
    let ending = (State::Reconciling, Reason::ServerMissing);
    assert_eq!(reason(&plan), Some(ending));
    assert_eq!(plan.again, times::UNREADABLE_RETRY);
    // Any process counts from the first report.
    let reported = scene.written();
    assert_eq!(reason(&reported.plan()), Some(ending));
    let given_up = reported.with(|observed| {
        observed.wall_clock += times::ENDING_FOR;
    });
    let missing = (State::Stalled, Reason::ServerMissing);
    assert_eq!(reason(&given_up.plan()), Some(missing));
}

#[test]
fn a_task_is_queried_again_only_while_it_may_still_report_the_end() {
    let failed = TaskState::Failed { reason: None };
    for (task, may_report) in [
        (Fact::NotRead, true),
        (Fact::Unknown("away".into()), true),
        (Fact::Known(TaskState::Running), true),
        (Fact::Absent, false),
        (Fact::Known(failed), false),
        (Fact::Known(TaskState::Succeeded), false),
    ] {
        let open = open_operation(Verb::Reinstall, to_second(), CallState::Unknown);
        let gone = with_task(open, task.clone(), &[])
            .listed(Duration::ZERO, &[])
            .with(|observed| {
                observed.detail = Fact::Absent;
                let since = observed.now;
                observed.memory.observations.look.answer = LastAnswer::Absent { since };
            });
        let queries_again = gone.plan().again == times::UNREADABLE_RETRY;
        assert_eq!(queries_again, may_report, "{task:?}");
        let without_task = gone.status(|status| {
            if let Some(open) = &mut status.operation {
                open.task_id = None;
            }
        });
        let again = without_task.plan().again;
        assert_ne!(again, times::UNREADABLE_RETRY, "{task:?}");
    }
}

#[test]
fn a_call_is_repeated_only_on_a_server_that_is_idle_and_still_ours() {
    for shown in [("instanceName", "renamed"), ("ecsPendingStatus", "BUSY")] {
        for why in [Reason::ServiceBusy, Reason::Stopping] {
            let plan = shows(refused(Verb::Reinstall, why), &[shown]).plan();
            assert!(rests(&plan), "{shown:?} {why:?}");
        }
    }
}

#[test]
fn the_fourth_busy_answer_about_an_idle_server_counts_as_a_refusal() {
    let busy = |tries| {
        refused(Verb::ModifyPassword, Reason::ServiceBusy).memory(|memory| {
            memory.call.as_mut().unwrap().tries = tries;
        })
    };
    assert_eq!(end(&busy(3)), None);
    assert_eq!(end(&busy(4)), Some(false));
}

#[test]
fn an_overdue_task_counts_as_ended_if_the_server_shows_its_effect() {
    let overdue = |shown: &[(&str, &str)]| {
        let open = open_operation(Verb::Stop, as_bought(), CallState::Unknown);
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
fn a_single_failed_query_does_not_end_an_operation() {
    let running = || {
        let open = open_operation(Verb::Reinstall, to_second(), CallState::Unknown);
        with_task(open, Fact::Unknown("503".into()), &[SECOND])
    };
    assert_eq!(end(&at_rest(running())), Some(true));
    let just_now = at_rest(running()).with(|observed| {
        let since = observed.now;
        let poll = observed.memory.observations.poll.as_mut().unwrap();
        poll.inconclusive_since = Some(since);
    });
    assert_eq!(end(&just_now), None);
}
