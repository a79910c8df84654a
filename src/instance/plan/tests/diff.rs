//! Tests of the next operation on a server that must change.

use super::follow::{open_operation, with_task};
use super::*;
use crate::api::{InstanceSpec, PowerState, Restart};

/// A converged server with this applied state and this detail.
pub(super) fn server(applied: Applied, shown: &[(&str, &str)]) -> Scene {
    let found = Fact::Known(detail(shown));
    Scene::converged().with(|observed| {
        let status = InstanceStatus {
            applied: Some(applied),
            ..InstanceStatus::clone(&observed.facts.status)
        };
        observed.facts.status = status.into();
        observed.detail = found;
    })
}

pub(super) fn as_bought() -> Applied {
    Applied {
        image: "img-1".into(),
        key: None,
        password_secret: Some("login/1".into()),
        restart: None,
        reinstall: None,
        power_state: Some(PowerState::Running),
    }
}

pub(super) fn with_spec(scene: Scene, change: impl FnOnce(&mut InstanceSpec)) -> Scene {
    scene.with(|observed| {
        let mut spec = InstanceSpec::clone(&observed.facts.spec);
        change(&mut spec);
        observed.facts.spec = spec.into();
        observed.facts.generation = 2;
    })
}

/// The verb that a plan announces, and its target.
fn operation_of(plan: &Plan) -> Option<(Verb, Applied)> {
    begun(plan).map(|operation| (operation.verb, operation.target.clone()))
}

fn other_image(spec: &mut InstanceSpec) {
    spec.image.id = Some("img-2".into());
}

fn token(word: &str) -> impl FnOnce(&mut InstanceSpec) {
    let token = word.to_owned();
    move |spec| spec.restart = Some(Restart { token })
}

#[test]
fn a_reinstall_for_a_new_image_includes_login_and_restart() {
    let scene = with_spec(server(as_bought(), &[]), other_image);
    let scene = with_spec(scene, token("a")).with(|observed| {
        observed.secret_version = Some("login/2".into());
    });
    let (verb, target) = operation_of(&scene.plan()).unwrap();
    assert_eq!(verb, Verb::Reinstall);
    assert_eq!(target.image, "img-2");
    let read = target.password_secret.as_deref();
    assert_eq!(read, Some("login/1"), "the version that was read");
    assert_eq!(
        target.restart.as_deref(),
        Some("a"),
        "the reinstall restarts the server"
    );
}

#[test]
fn a_disk_is_erased_only_after_a_read_in_the_same_reconcile() {
    let scene = with_spec(server(as_bought(), &[]), other_image);
    let old = scene
        .with(|observed| observed.detail = Fact::NotRead)
        .look(|look, first_seen, _| look.at = Some(first_seen));
    let old = old.listed(Duration::ZERO, &[(ID, &ours())]);
    assert_eq!(old.plan().needs, Some(NeededRead::Detail));
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
    let applied = plan.changes.applied.unwrap();
    assert_eq!(applied.image, "img-2");
}

#[test]
fn a_status_without_the_applied_values_erases_nothing() {
    let scene = server(as_bought(), &[("imageResourceUUID", "img-2")])
        .status(|status| status.applied = None)
        .with(|observed| observed.task = Fact::Known(TaskState::Succeeded));
    assert!(rests(&scene.plan()));
    let drift = (State::Drifted, Reason::ImageDiffers);
    assert_eq!(reason(&scene.plan()), Some(drift));
}

#[test]
fn an_object_restored_with_another_spec_erases_and_restarts_nothing() {
    let mut record = record();
    record.uid = "of-its-former-life".into();
    record.marker = Marker::of_uid(&record.uid);
    record.id = Some(ID.into());
    record.task = Some("t-1".into());
    let name = format!("web-{}", record.marker);
    let mut instance = instance();
    instance.spec.image.id = Some("img-2".into());
    instance.spec.restart = Some(Restart {
        token: "new".into(),
    });
    instance.metadata.finalizers = Some(vec![crate::api::names::FINALIZER.into()]);
    instance.metadata.annotations =
        Some([(crate::api::names::BINDING.to_owned(), record.to_text())].into());
    let scene = Scene::of(&instance, false).with(|observed| {
        observed.task = Fact::Known(TaskState::Succeeded);
        observed.detail = Fact::Known(detail(&[("instanceName", &name)]));
        observed.secret_version = Some("login/of-another-uid".into());
    });
    let plan = scene.plan();
    let drift = (State::Drifted, Reason::ImageDiffers);
    assert_eq!(reason(&plan), Some(drift));
    let applied = plan.changes.applied.unwrap();
    assert_eq!(applied.restart.as_deref(), Some("new"));
    assert_eq!(
        applied.password_secret.as_deref(),
        Some("login/of-another-uid")
    );
}

#[test]
fn an_edited_secret_changes_the_password_and_a_deleted_one_does_not() {
    let moved = || {
        let applied = Applied {
            password_secret: Some("login/0".into()),
            ..as_bought()
        };
        server(applied, &[])
    };
    assert_eq!(begins(&moved()), Some(Verb::ModifyPassword));
    let unread = moved().with(|observed| observed.login = LoginFact::NotRead);
    assert_eq!(unread.plan().needs, Some(NeededRead::Login));
    let missing = server(as_bought(), &[]).with(|observed| observed.secret_version = None);
    assert_eq!(begins(&missing), None);
    let applied = missing.plan().changes.applied.unwrap();
    assert_eq!(applied, as_bought(), "a deleted Secret changes nothing");
}

#[test]
fn power_and_restart_are_done_one_at_a_time() {
    let off = &[("ecsStatus", "STOPPED")];
    assert_eq!(begins(&server(as_bought(), off)), Some(Verb::Start));
    let to_be_off = with_spec(server(as_bought(), &[]), to_stop);
    assert_eq!(begins(&to_be_off), Some(Verb::Stop));
    let to_leave = |spec: &mut InstanceSpec| spec.power_state = PowerState::Unmanaged;
    assert_eq!(begins(&with_spec(server(as_bought(), off), to_leave)), None);

    let restart = with_spec(server(as_bought(), &[]), token("a"));
    let (verb, target) = operation_of(&restart.plan()).unwrap();
    assert_eq!(
        (verb, target.restart.as_deref()),
        (Verb::Restart, Some("a"))
    );
    // A start of a server that is off counts as its restart.
    let both = with_spec(server(as_bought(), off), token("a"));
    let (verb, target) = operation_of(&both.plan()).unwrap();
    assert_eq!((verb, target.restart.as_deref()), (Verb::Start, Some("a")));
    // The power state is unknown: the token is neither carried out nor dropped.
    let unknown = with_spec(server(as_bought(), &[("ecsStatus", "ODD")]), token("a"));
    assert!(rests(&unknown.plan()));
    assert_eq!(unknown.plan().changes.applied.unwrap().restart, None);
}

#[test]
fn no_operation_begins_on_a_server_that_is_busy_or_has_another_name() {
    let busy = &[("ecsStatus", "STOPPED"), ("ecsPendingStatus", "STOPPING")];
    let pending = (State::Reconciling, Reason::ForeignOperationRunning);
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
    // The server is ours by its marker.
    let other = format!("other-{}", Marker::of_uid(UID));
    let scene = with_spec(
        server(as_bought(), &[("instanceName", &other)]),
        other_image,
    );
    assert_eq!(begins(&scene), Some(Verb::Reinstall));
}

fn to_stop(spec: &mut InstanceSpec) {
    spec.power_state = PowerState::Stopped;
}

#[test]
fn a_failed_operation_waits_out_its_pause_or_until_an_edit() {
    let nine = Duration::from_secs(9);
    for (ended, reported) in [
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
        let waits = |wait| {
            with_spec(server(as_bought(), &[]), to_stop)
                .status(|status| status.retries = vec![retry(Verb::Stop, ended, 1, wait)])
        };
        let plan = waits(nine).plan();
        assert!(rests(&plan));
        assert_eq!(
            (plan.again, reason(&plan)),
            (nine, Some(reported)),
            "{ended:?}"
        );
        let clock = |time: Duration| {
            let now = Timestamp::UNIX_EPOCH + time;
            waits(nine).with(|observed| observed.wall_clock = now)
        };
        assert_eq!(begins(&clock(nine)), Some(Verb::Stop), "{ended:?}");
        // A time that only a clock that ran ahead can have written does not count.
        let ahead = waits(Duration::from_secs(900_000));
        assert_eq!(begins(&ahead), Some(Verb::Stop), "{ended:?}");
        let mut edited = waits(nine);
        edited.0.facts.generation += 1;
        assert_eq!(begins(&edited), Some(Verb::Stop), "an edit ends the pause");
    }
}

#[test]
fn an_operation_that_cannot_be_made_does_not_delay_another() {
    let refused = |scene: Scene| {
        scene.status(|status| {
            let mut refused = retry(Verb::Reinstall, EndReason::Refused, 1, SETTLE);
            refused.target.image = "img-2".into();
            status.retries = vec![refused];
        })
    };
    let both = |spec: &mut InstanceSpec| {
        other_image(spec);
        to_stop(spec);
    };
    let scene = refused(with_spec(server(as_bought(), &[]), both));
    assert_eq!(begins(&scene), Some(Verb::Stop));
    // An unusable login delays the operations that need it, and is reported.
    let bad = LoginFact::Problem(crate::api::conditions::Readiness::stalled(
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
    let scene = with_spec(moved(&[]), to_stop).with(|observed| observed.login = bad.clone());
    assert_eq!(begins(&scene), Some(Verb::Stop));
    let reported = moved(&[]).with(|observed| observed.login = bad);
    let invalid = (State::Stalled, Reason::LoginPasswordInvalid);
    assert_eq!(reason(&reported.plan()), Some(invalid));
    // A service may require a running server to set its password.
    assert_eq!(
        begins(&moved(&[("ecsStatus", "STOPPED")])),
        Some(Verb::Start)
    );
}

#[test]
fn an_image_that_a_failed_reinstall_left_behind_is_not_accepted() {
    let target = || Applied {
        image: "img-2".into(),
        ..as_bought()
    };
    let failed = Fact::Known(TaskState::Failed { reason: None });
    let open = open_operation(Verb::Reinstall, target(), CallState::Unknown);
    let open = with_task(open, failed, &[("imageResourceUUID", "img-2")]);
    let failed = with_spec(open, other_image).written();
    let failed = failed.with(|observed| observed.wall_clock += Duration::from_secs(3_600));
    assert_eq!(begins(&failed), Some(Verb::Reinstall));
    // The same if another operation came in between.
    let between = failed.status(|status| status.operation = None);
    assert_eq!(begins(&between), Some(Verb::Reinstall));
    // A later reinstall that succeeded finished the installation.
    let reinstalled = between.status(|status| {
        status.attempt = 3;
        status.operation = Some(Operation {
            attempt: 3,
            ..operation(Verb::Reinstall, target())
        });
    });
    let shown = [("imageResourceUUID", "img-2")];
    let reinstalled = with_task(reinstalled, Fact::Known(TaskState::Succeeded), &shown).written();
    assert_eq!(reinstalled.0.facts.status.unfinished_image, None);
    assert_eq!(begins(&reinstalled), None);
}

#[test]
fn a_reinstall_token_counts_once_and_its_removal_requests_nothing() {
    let again = |spec: &mut InstanceSpec| {
        spec.reinstall = Some(crate::api::Reinstall {
            token: "a".into(),
            image: None,
        });
    };
    let (verb, target) = operation_of(&with_spec(server(as_bought(), &[]), again).plan()).unwrap();
    assert_eq!(
        (verb, target.reinstall.as_deref()),
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
        assert_eq!(plan.changes.applied, Some(done()));
    }
}

/// An open operation whose record, status or both are lost, in a process that has followed it or has not.
fn lost(verb: Verb, is_followed: bool) -> Scene {
    let open = open_operation(verb, as_bought(), CallState::Unknown);
    let open = with_task(open, Fact::Known(TaskState::Running), &[]);
    open.with(|observed| {
        let reported = observed.facts.status.operation.clone().map(Box::new);
        if let Some(reported) = reported.filter(|_| is_followed) {
            observed.memory.call.as_mut().unwrap().intent = Intent::Operation(reported);
        }
    })
}

#[test]
fn a_running_operation_is_followed_from_memory_when_status_is_lost() {
    for verb in [Verb::Reinstall, Verb::ModifyPassword, Verb::Restart] {
        let announced = lost(verb, true).0.facts.status.operation.clone();
        let known = lost(verb, true).wiped();
        assert_eq!(known.0.open(), announced);
        assert!(rests(&known.plan()), "{verb}");
        let next = crate::instance::plan::attempt::next_attempt(&known.0);
        assert_eq!(next, 3, "its number is not used again");
        // Status shows it again, and nothing else.
        let reported = known.written();
        assert_eq!(reported.0.facts.status.operation, announced);
        assert_eq!(reported.0.facts.operation(), announced.as_ref());
    }
}

#[test]
fn memory_follows_an_operation_until_status_shows_a_later_state() {
    let apply_status = |scene: Scene| {
        scene.with(|observed| {
            let (facts, now) = (&observed.facts, observed.now);
            observed.memory.apply_operation(facts, now);
        })
    };
    let followed = |scene: &Scene| scene.0.memory.followed().cloned();
    let open = apply_status(lost(Verb::Stop, false));
    let announced = open.0.facts.status.operation.clone();
    assert_eq!(followed(&open), announced);
    let wiped = apply_status(open.wiped());
    assert_eq!(followed(&wiped), announced, "a wiped status ends nothing");
    // If the spec may be older than the operation, the operation is dropped.
    let now = wiped.0.now;
    let doubtful = Scene(wiped.0.clone()).memory(|memory| memory.doubt(now));
    assert_eq!(followed(&doubtful), None);
    // An older status without the operation does not end it.
    let older = apply_status(wiped.status(|status| status.attempt = 1));
    assert_eq!(followed(&older), announced);
    for end in [None, bad_end(EndReason::Failed, 1)] {
        let ended = Scene(older.0.clone()).status(|status| {
            status.attempt = 2;
            status.operation = end.map(|end| Operation {
                end: Some(end),
                ..operation(Verb::Stop, as_bought())
            });
        });
        assert_eq!(followed(&apply_status(ended)), None);
    }
}

#[test]
fn an_operation_on_the_former_server_is_not_followed_on_the_recorded_one() {
    let another = lost(Verb::Reinstall, true)
        .record(|record| record.attempt = 3)
        .with(|observed| {
            observed
                .memory
                .apply_operation(&observed.facts, observed.now);
        });
    assert_eq!(another.0.open(), None);
    assert_eq!(another.0.memory.followed(), None);
    assert_eq!(another.written().0.facts.status.operation, None);
}

/// The record was removed, and is written again once the server is found by its name.
fn rebuilt(open: Scene) -> Scene {
    let dropped = open
        .with(|observed| observed.facts.record = Record::None)
        .listed(Duration::ZERO, &[(ID, &ours())]);
    let plan = dropped.plan();
    let Step::Record { record } = &plan.step else {
        panic!("{plan:?}")
    };
    assert_eq!(record.id.as_deref(), Some(ID));
    dropped.with(|observed| {
        observed.memory.apply(Some(record), observed.now);
        observed.facts.record = Record::Speaks(record.clone());
        observed
            .memory
            .apply_operation(&observed.facts, observed.now);
    })
}

#[test]
fn a_removed_record_does_not_affect_a_running_operation() {
    for verb in [Verb::Reinstall, Verb::ModifyPassword, Verb::Restart] {
        for is_followed in [true, false] {
            let open = lost(verb, is_followed);
            let announced = open.0.facts.status.operation.clone();
            let again = rebuilt(open);
            assert_eq!(again.0.open(), announced);
            let plan = again.plan();
            assert!(rests(&plan) && plan.changes.ended.is_none(), "{plan:?}");
            let reported = again.written();
            assert_eq!(reported.0.facts.status.operation, announced);
        }
    }
}

#[test]
fn the_known_outcome_of_a_call_outlives_the_record() {
    let refused = CallState::Refused {
        message: "busy".into(),
        reason: Reason::ServiceBusy,
    };
    let (id, task) = (ServerId::from(ID), Some(TaskId::from("t-9")));
    for call_state in [
        CallState::NotSent,
        refused,
        CallState::Accepted { id, task },
    ] {
        let open = open_operation(Verb::Restart, as_bought(), call_state.clone());
        let again = rebuilt(open);
        let open = again.0.open().unwrap();
        let known = again.0.memory.call_of(&open).map(|call| &call.state);
        assert_eq!(known, Some(&call_state));
    }
}

fn by_key(spec: &mut InstanceSpec) {
    spec.login.password_secret_ref = None;
    spec.login.ssh_key = Some(crate::api::SshKeyRef {
        id: Some("key-1".into()),
        ..crate::api::SshKeyRef::default()
    });
}

/// A process that bought the server or saw its create; or one that came later.
fn saw_the_purchase(scene: Scene, is_newest: bool) -> Scene {
    scene.memory(|memory| memory.call.as_mut().unwrap().is_newest = is_newest)
}

/// The server was reinstalled with a key pair after its purchase, and status was lost since: the record shows only the purchase.
#[test]
fn an_operation_after_the_purchase_is_not_repeated_when_status_is_lost() {
    let applied = Applied {
        key: Some("key-1".into()),
        password_secret: None,
        ..as_bought()
    };
    for is_newest in [true, false] {
        let rekeyed = saw_the_purchase(server(applied.clone(), &[]), is_newest);
        let rekeyed = with_spec(rekeyed, by_key).with(|observed| {
            observed
                .memory
                .apply_operation(&observed.facts, observed.now);
            observed.task = Fact::Absent;
        });
        assert_eq!(begins(&rekeyed), None);
        let lost = rekeyed.wiped();
        assert!(rests(&lost.plan()));
        assert_eq!(lost.plan().changes.applied.unwrap().key, applied.key);
        assert_eq!(begins(&lost.written()), None, "{is_newest}");
    }
}

#[test]
fn an_edit_during_the_create_is_carried_out_if_no_later_operation_is_possible() {
    let edited = |is_newest| {
        let open = Scene::recorded(Some(ID), |record| record.task = Some("t-1".into()));
        let open = with_spec(saw_the_purchase(open, is_newest), by_key);
        open.with(|observed| {
            observed.task = Fact::Known(TaskState::Succeeded);
            observed.detail = Fact::Known(detail(&[]));
        })
    };
    assert_eq!(begins(&edited(true).written()), Some(Verb::Reinstall));
    let shown = edited(false).status(|status| {
        status.operation = Some(of_purchase(&record()));
    });
    assert_eq!(begins(&shown.written()), Some(Verb::Reinstall));
    // It is unknown whether the server got that key since.
    assert_eq!(begins(&edited(false).written()), None);
}
