//! The server is to become another than it is: which operation comes next.

use super::*;
use crate::api::{EndReason, InstanceSpec, PowerState, Restart};
use crate::instance::memory::{Passwords, Pause};

/// A converged server that was given this by the service, and shows this detail.
pub(super) fn server(applied: Applied, shown: &[(&str, &str)]) -> Scene {
    let found = Fact::Known(detail(shown));
    Scene::converged().with(|seen| {
        let status = InstanceStatus {
            applied: Some(applied),
            ..InstanceStatus::clone(&seen.facts.status)
        };
        seen.facts.status = status.into();
        seen.detail = found;
    })
}

pub(super) fn as_bought() -> Applied {
    Applied {
        image: "img-1".into(),
        key: None,
        password_secret: Some("login/1".into()),
        restart: None,
        reinstall: None,
    }
}

pub(super) fn with_spec(scene: Scene, change: impl FnOnce(&mut InstanceSpec)) -> Scene {
    scene.with(|seen| {
        let mut spec = InstanceSpec::clone(&seen.facts.spec);
        change(&mut spec);
        seen.facts.spec = spec.into();
        seen.facts.generation = 2;
    })
}

/// The verb that a plan announces, and its target.
fn asked(plan: &Plan) -> Option<(Verb, Applied)> {
    announced(plan).map(|binding| (binding.operation.verb, binding.operation.target.clone()))
}

pub(super) fn verb(scene: &Scene) -> Option<Verb> {
    asked(&scene.plan()).map(|(verb, _)| verb)
}

fn other_image(spec: &mut InstanceSpec) {
    spec.image.id = Some("img-2".into());
}

fn token(word: &str) -> impl FnOnce(&mut InstanceSpec) {
    let token = word.to_owned();
    move |spec| spec.restart = Some(Restart { token })
}

#[test]
fn a_new_image_is_reinstalled_and_takes_the_login_along() {
    let scene = with_spec(server(as_bought(), &[]), other_image);
    let scene = with_spec(scene, token("a")).with(|seen| {
        seen.secret_version = Some("login/2".into());
    });
    let (verb, target) = asked(&scene.plan()).unwrap();
    assert_eq!(verb, Verb::Reinstall);
    assert_eq!(target.image, "img-2");
    let read = target.password_secret.as_deref();
    assert_eq!(read, Some("login/1"), "the version that was read");
    assert_eq!(target.restart.as_deref(), Some("a"), "it restarts by that");
}

#[test]
fn a_disk_is_erased_only_after_a_look_of_this_turn() {
    let scene = with_spec(server(as_bought(), &[]), other_image);
    let old = scene
        .with(|seen| seen.detail = Fact::NotAsked)
        .memory(|memory| {
            memory.looked = Some(memory.first_seen);
        });
    let old = old.listed(Duration::ZERO, &[(ID, &ours())]);
    assert_eq!(old.plan().needs, Needs::Detail);
    assert!(rests(&old.plan()));
}

#[test]
fn a_drifted_image_erases_nothing_and_a_spec_that_follows_it_is_accepted() {
    let drifted = server(as_bought(), &[("imageResourceUUID", "img-2")]);
    let drift = (State::Drifted, Reason::ImageDiffers);
    assert_eq!(reason(&drifted.plan()), Some(drift));
    let accepted = with_spec(drifted, other_image);
    let plan = accepted.plan();
    assert!(rests(&plan));
    assert_eq!(reason(&plan), Some((State::Ready, Reason::Available)));
    let applied = plan.tell.applied.unwrap();
    assert_eq!(applied.image, "img-2");
}

#[test]
fn a_status_that_lost_what_was_applied_erases_nothing() {
    let scene = server(as_bought(), &[("imageResourceUUID", "img-2")]).with(|seen| {
        let status = InstanceStatus {
            applied: None,
            ..InstanceStatus::clone(&seen.facts.status)
        };
        seen.facts.status = status.into();
    });
    assert!(rests(&scene.plan()));
    let drift = (State::Drifted, Reason::ImageDiffers);
    assert_eq!(reason(&scene.plan()), Some(drift));
}

#[test]
fn an_object_restored_with_another_spec_erases_and_restarts_nothing() {
    let mut binding = binding();
    binding.uid = "of-its-former-life".into();
    binding.operation.uid.clear();
    binding.marker = Marker::of_uid(&binding.uid);
    binding.id = Some(ID.into());
    binding.task = Some("t-1".into());
    let name = format!("web-{}", binding.marker);
    let mut instance = instance();
    instance.spec.image.id = Some("img-2".into());
    instance.spec.restart = Some(Restart {
        token: "new".into(),
    });
    instance.metadata.finalizers = Some(vec![crate::api::names::FINALIZER.into()]);
    instance.metadata.annotations =
        Some([(crate::api::names::BINDING.to_owned(), binding.to_text())].into());
    let scene = Scene::of(&instance, false).with(|seen| {
        seen.task = Fact::Known(TaskState::Succeeded);
        seen.detail = Fact::Known(detail(&[("instanceName", &name)]));
        seen.secret_version = Some("login/of-another-uid".into());
    });
    let plan = scene.plan();
    let drift = (State::Drifted, Reason::ImageDiffers);
    assert_eq!(reason(&plan), Some(drift));
    let applied = plan.tell.applied.unwrap();
    assert_eq!(applied.restart.as_deref(), Some("new"));
    assert_eq!(
        applied.password_secret.as_deref(),
        Some("login/of-another-uid")
    );
}

#[test]
fn a_secret_that_moved_changes_the_password_unless_it_holds_the_same() {
    let moved = || {
        let applied = Applied {
            password_secret: Some("login/0".into()),
            ..as_bought()
        };
        server(applied, &[])
    };
    assert_eq!(verb(&moved()), Some(Verb::ModifyPassword));
    let unread = moved().with(|seen| seen.login = LoginFact::NotAsked);
    assert_eq!(unread.plan().needs, Needs::Login);
    let touched = moved().memory(|memory| {
        memory.password = Passwords {
            sent: None,
            current: Some([1; 32]),
        };
    });
    let plan = touched.plan();
    assert!(rests(&plan));
    let applied = plan.tell.applied.unwrap();
    assert_eq!(applied.password_secret.as_deref(), Some("login/1"));
    let missing = server(as_bought(), &[]).with(|seen| seen.secret_version = None);
    assert_eq!(verb(&missing), None);
    let applied = missing.plan().tell.applied.unwrap();
    assert_eq!(
        applied,
        as_bought(),
        "a Secret that is gone changes nothing"
    );
}

#[test]
fn power_and_restart_are_done_one_at_a_time() {
    let off = &[("ecsStatus", "STOPPED")];
    assert_eq!(verb(&server(as_bought(), off)), Some(Verb::Start));
    let wanted_off = with_spec(server(as_bought(), &[]), to_stop);
    assert_eq!(verb(&wanted_off), Some(Verb::Stop));
    let to_leave = |spec: &mut InstanceSpec| spec.power_state = PowerState::Unmanaged;
    assert_eq!(verb(&with_spec(server(as_bought(), off), to_leave)), None);

    let restart = with_spec(server(as_bought(), &[]), token("a"));
    let (verb_, target) = asked(&restart.plan()).unwrap();
    assert_eq!(
        (verb_, target.restart.as_deref()),
        (Verb::Restart, Some("a"))
    );
    // A server that is off has not been restarted when it is started, but then.
    let both = with_spec(server(as_bought(), off), token("a"));
    let (verb_, target) = asked(&both.plan()).unwrap();
    assert_eq!((verb_, target.restart.as_deref()), (Verb::Start, Some("a")));
    // Nobody knows whether it runs: the token is neither carried out nor forgotten.
    let odd = with_spec(server(as_bought(), &[("ecsStatus", "ODD")]), token("a"));
    assert!(rests(&odd.plan()));
    assert_eq!(odd.plan().tell.applied.unwrap().restart, None);
}

#[test]
fn nothing_is_begun_on_a_server_that_is_busy_or_may_be_somebody_elses() {
    let busy = &[("ecsStatus", "STOPPED"), ("ecsPendingStatus", "STOPPING")];
    let pending = (State::Reconciling, Reason::OperationPending);
    assert_eq!(reason(&server(as_bought(), busy).plan()), Some(pending));
    let renamed = server(
        as_bought(),
        &[("instanceName", "renamed"), ("ecsStatus", "STOPPED")],
    );
    for scene in [
        with_spec(
            server(as_bought(), &[("instanceName", "renamed")]),
            other_image,
        ),
        renamed,
    ] {
        assert!(rests(&scene.plan()));
        let drift = (State::Drifted, Reason::NameDiffers);
        assert_eq!(reason(&scene.plan()), Some(drift));
    }
    // Still ours by its marker.
    let other = format!("other-{}", Marker::of_uid(UID));
    let scene = with_spec(
        server(as_bought(), &[("instanceName", &other)]),
        other_image,
    );
    assert_eq!(verb(&scene), Some(Verb::Reinstall));
}

/// What ended badly is not asked for again before its time.
fn paused(scene: Scene, verb: Verb, time: Duration) -> Scene {
    scene.with(|seen| {
        let pause = Pause {
            until: seen.now + time,
            generation: seen.facts.generation,
            target: as_bought(),
        };
        seen.memory.pauses.insert(verb, pause);
    })
}

fn to_stop(spec: &mut InstanceSpec) {
    spec.power_state = PowerState::Stopped;
}

#[test]
fn what_ended_badly_waits_until_its_time_or_until_something_else_is_asked_for() {
    let nine = Duration::from_secs(9);
    let failed_stop = || {
        paused(
            with_spec(server(as_bought(), &[]), to_stop),
            Verb::Stop,
            nine,
        )
    };
    let plan = failed_stop().plan();
    assert!(rests(&plan));
    assert_eq!(plan.again, nine);
    // It ended well, again and again.
    let restless = (State::Reconciling, Reason::PowerStateDiffers);
    assert_eq!(reason(&plan), Some(restless));
    for (ended, told) in [
        (
            EndReason::Failed,
            (State::Reconciling, Reason::OperationFailed),
        ),
        (
            EndReason::AnswerLost,
            (State::Reconciling, Reason::OperationFailed),
        ),
        (
            EndReason::Refused,
            (State::Stalled, Reason::OperationRefused),
        ),
    ] {
        let scene = failed_stop().with(|seen| {
            let mut status = InstanceStatus::clone(&seen.facts.status);
            let entry = HistoryEntry {
                verb: Verb::Stop,
                attempt: 1,
                succeeded: false,
                reason: Some(ended),
                message: Some("no".into()),
                ..status.history[0].clone()
            };
            status.history.insert(0, entry);
            seen.facts.status = status.into();
        });
        assert_eq!(reason(&scene.plan()), Some(told), "{ended:?}");
    }
    let mut edited = failed_stop();
    edited.0.facts.generation += 1;
    assert_eq!(verb(&edited), Some(Verb::Stop), "an edit is a new wish");
    let over = failed_stop().with(|seen| seen.now += nine + Duration::from_secs(1));
    assert_eq!(verb(&over), Some(Verb::Stop));
}

#[test]
fn what_cannot_be_done_holds_up_nothing_else() {
    let refused = |scene: Scene| {
        let mut scene = paused(scene, Verb::Reinstall, SETTLE);
        let generation = scene.0.facts.generation;
        let pause = scene.0.memory.pauses.get_mut(&Verb::Reinstall).unwrap();
        pause.generation = generation;
        pause.target.image = "img-2".into();
        scene
    };
    let both = |spec: &mut InstanceSpec| {
        other_image(spec);
        to_stop(spec);
    };
    let scene = refused(with_spec(server(as_bought(), &[]), both));
    assert_eq!(verb(&scene), Some(Verb::Stop));
    // A login that cannot be used holds up what needs it, and is told.
    let bad = LoginFact::Problem(crate::api::conditions::Verdict::stalled(
        Reason::LoginPasswordInvalid,
        "bad",
    ));
    let moved = |shown: &[(&str, &str)]| {
        let applied = Applied {
            password_secret: Some("login/0".into()),
            ..as_bought()
        };
        server(applied, shown)
    };
    let scene = with_spec(moved(&[]), to_stop).with(|seen| seen.login = bad.clone());
    assert_eq!(verb(&scene), Some(Verb::Stop));
    let told = moved(&[]).with(|seen| seen.login = bad);
    let invalid = (State::Stalled, Reason::LoginPasswordInvalid);
    assert_eq!(reason(&told.plan()), Some(invalid));
    // A service may want the server running to set its password.
    assert_eq!(verb(&moved(&[("ecsStatus", "STOPPED")])), Some(Verb::Start));
}

#[test]
fn an_image_that_a_failed_reinstall_left_behind_is_not_accepted() {
    let target = Applied {
        image: "img-2".into(),
        ..as_bought()
    };
    let failed = super::pursue::open_operation(Verb::Reinstall, target, Post::Unknown);
    let failed = with_spec(failed, other_image).with(|seen| {
        let mut status = InstanceStatus::clone(&seen.facts.status);
        let entry = HistoryEntry {
            verb: Verb::Reinstall,
            attempt: 2,
            succeeded: false,
            ..status.history[0].clone()
        };
        status.history.insert(0, entry);
        seen.facts.status = status.into();
        seen.detail = Fact::Known(detail(&[("imageResourceUUID", "img-2")]));
    });
    assert_eq!(verb(&failed), Some(Verb::Reinstall));
    // Also when another operation came in between.
    let between = failed.with(|seen| {
        let Record::Speaks(binding) = &mut seen.facts.record else {
            unreachable!()
        };
        binding.operation.verb = Verb::Start;
        binding.unfinished = Some("img-2".into());
    });
    assert_eq!(verb(&between), Some(Verb::Reinstall));
}

#[test]
fn a_token_asks_once_and_taking_it_away_asks_for_nothing() {
    let again = |spec: &mut InstanceSpec| {
        spec.reinstall = Some(crate::api::Reinstall {
            token: "a".into(),
            image: None,
        });
    };
    let (verb_, target) = asked(&with_spec(server(as_bought(), &[]), again).plan()).unwrap();
    assert_eq!(
        (verb_, target.reinstall.as_deref()),
        (Verb::Reinstall, Some("a"))
    );
    let done = || Applied {
        reinstall: Some("a".into()),
        restart: Some("b".into()),
        ..as_bought()
    };
    for scene in [with_spec(server(done(), &[]), again), server(done(), &[])] {
        let plan = scene.plan();
        assert!(rests(&plan));
        assert_eq!(plan.tell.applied, Some(done()));
    }
}

#[test]
fn a_record_that_is_lost_while_an_operation_runs_is_written_again() {
    let open = super::pursue::open_operation(Verb::Reinstall, as_bought(), Post::Unknown);
    let announced = open.0.facts.binding().unwrap().clone();
    for former in [None, Some(binding())] {
        let mut instance = instance();
        if let Some(mut former) = former {
            former.id = Some(ID.into());
            instance.metadata.annotations =
                Some([(crate::api::names::BINDING.to_owned(), former.to_text())].into());
        }
        let mut lost = Scene::of(&instance, true);
        lost.0.facts.status = open.0.facts.status.clone();
        lost.0.memory = open.0.memory.clone();
        lost.0.memory.announced = Some(Box::new(announced.clone()));
        let lost = lost.with(|seen| {
            seen.facts.finalizers = vec![crate::api::names::FINALIZER.into()];
        });
        let plan = lost.plan();
        let Step::Record { binding } = &plan.step else {
            panic!("{plan:?}")
        };
        assert_eq!(**binding, announced);
    }
}

#[test]
fn an_operation_that_another_process_began_is_known_once_its_record_names_the_task() {
    let mut memory = Scene::converged().0.memory;
    let mut record = binding();
    (record.attempt, record.operation.verb) = (2, Verb::Reinstall);
    memory.follows(&record);
    assert_eq!(memory.announced, None, "it may not have been called");
    record.task = Some("t-1".to_owned());
    memory.follows(&record);
    assert_eq!(memory.announced.as_deref(), Some(&record));
    // A record that was put back is older than what is known.
    let older = Binding {
        attempt: record.attempt - 1,
        ..record.clone()
    };
    memory.follows(&older);
    assert_eq!(memory.announced.as_deref(), Some(&record));
}

#[test]
fn an_operation_that_only_status_tells_of_is_put_on_record_again() {
    let cases = [
        (None, Verb::Reinstall),
        (Some(binding()), Verb::Reinstall),
        (None, Verb::ModifyPassword),
        (None, Verb::Restart),
        (Some(binding()), Verb::Restart),
    ];
    for (former, verb) in cases {
        let is_older = former.is_some();
        let mut instance = instance();
        if let Some(mut former) = former {
            former.id = Some(ID.into());
            former.task = Some("t-1".into());
            instance.metadata.annotations =
                Some([(crate::api::names::BINDING.to_owned(), former.to_text())].into());
        }
        instance.metadata.finalizers = Some(vec![crate::api::names::FINALIZER.into()]);
        let lost = Scene::of(&instance, false).listed(Duration::ZERO, &[(ID, &ours())]);
        let lost = lost.with(|seen| {
            let mut status = InstanceStatus::clone(&Scene::converged().0.facts.status);
            status.applied = Some(as_bought());
            let started_at = status.history[0].started_at.clone();
            status.operation = Some(OperationStatus {
                verb,
                attempt: 2,
                task_id: Some("t-9".into()),
                started_at,
            });
            seen.facts.status = status.into();
            seen.secret_version = Some("login/2".into());
        });
        let plan = lost.plan();
        let Step::Record { binding } = &plan.step else {
            panic!("{is_older}: {plan:?}")
        };
        assert_eq!(binding.operation.verb, verb);
        // The Secret was edited meanwhile: which of the two passwords a reinstall brings is not known, and a restart brings none.
        let in_force = (verb == Verb::Restart).then_some("login/1");
        let target = &binding.operation.target;
        assert_eq!(target.password_secret.as_deref(), in_force);
        assert_eq!((binding.attempt, binding.task.as_deref()), (2, Some("t-9")));
        assert_eq!(binding.id.as_deref(), Some(ID));
    }
}
