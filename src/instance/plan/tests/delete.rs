//! Tests of a deletion.

use super::*;

#[test]
fn an_object_that_is_deleted_before_its_first_record_needs_no_step() {
    assert!(rests(&Scene::fresh().deleting().plan()));
}

#[test]
fn deletion_releases_the_server_then_proves_its_absence_then_removes_the_finalizer() {
    let scene = || {
        Scene::converged()
            .call_state(CallState::Accepted {
                id: ServerId::from(ID),
                task: Some(TaskId::from("t-1")),
            })
            .deleting()
    };
    assert!(
        matches!(&scene().plan().step, Step::Release { why: ReleaseReason::Deleted, id } if id.as_str() == ID)
    );

    let called = scene().memory(|memory| {
        let at = memory.origin.since;
        let call = ReleaseCall {
            at,
            task: Some(TaskId::from("t-2")),
            accepted: true,
            failure: None,
            not_before: None,
        };
        memory
            .releases
            .insert(ServerId::from(ID), Release::Asked(call));
    });
    assert!(rests(&called.plan()));
    assert_eq!(
        reason(&called.plan()),
        Some((State::Reconciling, Reason::Releasing))
    );

    let gone = called.known_gone(Gone::Released);
    assert!(
        rests(&gone.plan()),
        "its task has succeeded; the listings may still show it"
    );
    assert_eq!(gone.plan().wants.passes, 2);
    let listed = gone.listed(Duration::ZERO, &[("ecs-9", "other")]);
    assert!(
        matches!(listed.plan().step, Step::Finish),
        "every attempt has its receipt: no settling time"
    );
}

#[test]
fn deletion_after_a_lost_answer_waits_for_the_settling_time() {
    let scene = Scene::recorded(None, |_| {})
        .call_state(CallState::Unknown)
        .deleting();
    let early = scene.listed(Duration::ZERO, &[]);
    assert!(
        rests(&early.plan()),
        "a late execution would leave an orphan"
    );
    let late = Scene::recorded(None, |_| {})
        .call_state(CallState::Unknown)
        .deleting()
        .listed(SETTLE, &[]);
    assert!(matches!(late.plan().step, Step::Finish));
    let found = Scene::recorded(None, |_| {})
        .call_state(CallState::Unknown)
        .deleting()
        .listed(SETTLE, &[(ID, &ours())]);
    assert!(matches!(&found.plan().step, Step::Release { id, .. } if id.as_str() == ID));
}

#[test]
fn deletion_finds_and_releases_the_server_of_a_doubled_request() {
    let scene = Scene::converged()
        .deleting()
        .known_gone(Gone::Released)
        .listed(Duration::ZERO, &[("ecs-2", &ours())]);
    assert!(matches!(&scene.plan().step, Step::Release { id, .. } if id.as_str() == "ecs-2"));
}

#[test]
fn not_found_by_a_token_of_another_account_is_no_proof_of_a_release() {
    let mut scene = Scene::recorded(Some(ID), |record| {
        record.task = Some("t-1".into());
        record.credential = "secret/old".into();
    });
    scene.0.facts.status = Scene::converged().0.facts.status;
    let scene = scene
        .deleting()
        .known_gone(Gone::NotFound)
        .listed(SETTLE, &[]);
    assert!(rests(&scene.plan()));
    assert_eq!(
        reason(&scene.plan()),
        Some((State::Reconciling, Reason::ReleaseUnconfirmed))
    );
}

#[test]
fn a_refused_repetition_of_a_release_is_reported_unless_the_earlier_one_is_carried_out() {
    let scene = |changes: &[(&str, &str)], task| {
        let mut observed = Scene::converged().deleting();
        observed.0.detail = Fact::Known(detail(changes));
        observed.0.task = task;
        let observed = observed.look(|look, since, _| {
            look.answer = match changes.is_empty() {
                true => idle(since),
                false => LastAnswer::None,
            };
        });
        observed.memory(|memory| {
            let call = ReleaseCall {
                at: memory.origin.since,
                task: Some(TaskId::from("t-2")),
                accepted: true,
                failure: Some(ReleaseFailure {
                    message: "403 Locked: unlock it at the console".to_owned(),
                    category: "refused",
                    is_unknown: false,
                }),
                not_before: None,
            };
            let call = Release::Asked(call);
            memory.releases.insert(ServerId::from(ID), call);
        })
    };
    let failed = || {
        Fact::Known(TaskState::Failed {
            reason: Some("busy".to_owned()),
        })
    };
    let busy = [("ecsPendingStatus", "RELEASING")];
    for (changes, task, is_repeated) in [
        (&[][..], Fact::Known(TaskState::Running), true),
        (&[], failed(), true),
        (&busy, failed(), true),
        (&busy, Fact::Known(TaskState::Running), false),
    ] {
        let plan = scene(changes, task).plan();
        assert_eq!(rests(&plan), !is_repeated);
        let message = plan.why.unwrap().message;
        let expected = match is_repeated {
            true => "unlock it at the console",
            false => "the service is releasing server",
        };
        assert!(message.contains(expected), "{message}");
    }
}
