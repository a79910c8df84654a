//! Tests of a recorded server that was released externally, where the spec asks for another one.

use super::diff::with_spec;
use super::follow::with_task;
use super::*;
use crate::api::{InstanceSpec, ManagementPolicy, OnExternalDeletion, Pause};
use crate::session::Limit;

/// The recorded server has been missing since the object was first seen, and the listings after this time lack it.
fn missing(limit: i32, after: Duration) -> Scene {
    let scene = Scene::converged()
        .look(|look, since, _| look.answer = LastAnswer::Absent { since })
        .listed(after, &[])
        .with(|observed| observed.detail = Fact::Absent);
    with_spec(scene, |spec| {
        spec.on_external_deletion = OnExternalDeletion::Recreate;
        spec.recreate_limit = limit;
    })
}

/// Status has dropped the old server.
fn forgotten(scene: Scene) -> Scene {
    let purchase = of_purchase(scene.0.facts.purchase().unwrap());
    scene.status(|status| {
        (status.id, status.applied) = (None, None);
        status.detail.clear();
        status.operation = Some(Operation {
            end: bad_end(EndReason::ServerGone, 1),
            ..purchase
        });
    })
}

const RECHECK: Duration = Duration::from_secs(9);

#[test]
fn an_externally_released_server_is_replaced_only_if_the_spec_requests_it_and_its_absence_is_proven()
 {
    let first = missing(1, SETTLE).plan();
    assert!(rests(&first) && first.changes.forget_server);
    assert_eq!(first.changes.id, None);
    let plan = forgotten(missing(1, SETTLE)).plan();
    let record = announced(&plan).unwrap();
    assert_eq!((record.attempt, record.recreated), (2, 1));
    assert_eq!(record.id, None);
    assert!(plan.changes.forget_server);
    let early = missing(1, Duration::ZERO);
    assert!(rests(&early.plan()), "the listings began too early");
    let missing_server = Some((State::Reconciling, Reason::ServerMissing));
    assert_eq!(reason(&early.plan()), missing_server);
    let unread = forgotten(missing(1, SETTLE)).with(|observed| observed.detail = Fact::NotRead);
    assert!(rests(&unread.plan()));
    assert_eq!(unread.plan().needs, Some(NeededRead::Detail));
    let without_replacement = with_spec(missing(1, SETTLE), |spec| {
        spec.on_external_deletion = OnExternalDeletion::Fail;
    });
    let stalled = Some((State::Stalled, Reason::ServerMissing));
    assert_eq!(reason(&without_replacement.plan()), stalled);
    let mut foreign = forgotten(missing(1, SETTLE));
    let AccountFact::AccountSession(session) = &mut foreign.0.account else {
        unreachable!()
    };
    session.credential = "secret/2".into();
    assert!(
        rests(&foreign.plan()),
        "the listing may be that of another account"
    );
    for restrain in [
        (|spec| spec.pause = Some(Pause::default())) as fn(&mut InstanceSpec),
        |spec| spec.management_policy = ManagementPolicy::Observe,
    ] {
        let restrained = with_spec(forgotten(missing(1, SETTLE)), restrain);
        assert!(rests(&restrained.plan()));
    }
}

#[test]
fn a_changed_token_that_delays_the_replacement_is_reported() {
    for mut scene in [missing(1, SETTLE), doubled(SETTLE)] {
        let AccountFact::AccountSession(session) = &mut scene.0.account else {
            unreachable!()
        };
        (session.credential, session.knows_our_account) = ("secret/2".into(), true);
        let readiness = scene.plan().why.unwrap();
        assert_eq!(
            (readiness.state, readiness.reason),
            (State::Stalled, Reason::ServerMissing)
        );
        let message = readiness.message;
        assert!(message.contains("the token was changed"), "{message}");
    }
}

#[test]
fn a_server_released_before_status_showed_its_create_is_replaced_once_the_task_has_ended() {
    let open = |task| {
        let open = missing(1, SETTLE)
            .without_the_end_of_its_create()
            .with(|observed| {
                observed.task = task;
                // A listing that began this long after the purchase would show it.
                observed.memory.call = None;
            });
        open.status(|status| status.detail.clear())
    };
    // First status drops the server, then another one is bought.
    let recreated = |open: Scene| {
        assert!(rests(&open.plan()), "{:?}", open.plan());
        let is_dropped = open.plan().changes.forget_server;
        let plan = open.written().plan();
        let recreated = announced(&plan).map(|record| record.recreated);
        assert_eq!(recreated.is_some(), is_dropped, "{plan:?}");
        recreated
    };
    let running = open(Fact::Known(TaskState::Running));
    assert_eq!(recreated(running), None, "the create may still succeed");
    assert_eq!(recreated(open(Fact::NotRead)), None, "its end is unknown");
    let imported = open(Fact::NotRead).record(|record| {
        (record.imported, record.task) = (Some("by-hand".into()), None);
    });
    let imported = recreated(imported);
    assert_eq!(
        imported,
        Some(1),
        "the operator did not create an imported server"
    );
    let done = || open(Fact::Known(TaskState::Succeeded));
    assert_eq!(recreated(done()), Some(1));
    let unread = done().written().with(|observed| {
        observed.detail = Fact::Unknown("it fails".to_owned());
        let look = &mut observed.memory.observations.look;
        (look.is_unreadable, look.at) = (true, Some(observed.now));
    });
    let unread = unread.plan();
    assert!(rests(&unread) && unread.needs.is_none());
    assert_eq!(unread.changes.id, None, "status has dropped it");
    let operated = |verb| {
        let known = missing(1, SETTLE).with(|observed| observed.memory.call = None);
        known.status(|status| status.operation = Some(operation(verb, as_bought())))
    };
    let lost = recreated(operated(Verb::Stop));
    assert_eq!(lost, Some(1), "a call without a task has ended by now");
    assert_eq!(
        recreated(open(Fact::Absent)),
        None,
        "the create may still succeed"
    );
    let shown = operated(Verb::ModifyPassword);
    let forgotten =
        with_task(shown, Fact::Absent, &[]).with(|observed| observed.detail = Fact::Absent);
    assert_eq!(recreated(forgotten), Some(1));
}

#[test]
fn replacements_end_at_the_limit() {
    let used = |times: u32, limit| missing(limit, SETTLE).record(|record| record.recreated = times);
    let over = Some((State::Stalled, Reason::RecreateLimitReached));
    assert_eq!(reason(&used(0, 0).plan()), over);
    assert_eq!(reason(&used(1, 1).plan()), over);
    let plan = forgotten(used(1, 2)).plan();
    assert_eq!(announced(&plan).map(|record| record.recreated), Some(2));
}

/// The service gave this process this server in the attempt with this number.
fn given(observed: &mut Observation, number: u32, id: &str) {
    let Record::Speaks(recorded) = &observed.facts.record else {
        unreachable!()
    };
    let mut purchase = recorded.clone();
    (purchase.attempt, purchase.nonce, purchase.id) = (number, "n2".into(), None);
    (purchase.recreated, purchase.package) = (1, "another".into());
    purchase.target.password_secret = Some("login/2".into());
    purchase.target.reinstall = Some("requested later".into());
    purchase.target.image = "img-of-later".into();
    let task = Some(TaskId::from("t-2"));
    let id = ServerId::from(id);
    let call = purchased(&purchase, CallState::NotSent, &observed.memory);
    observed.memory.call = Some(call);
    observed.memory.call_is(CallState::Accepted { id, task });
}

#[test]
fn a_replacement_that_this_process_bought_is_recorded_again_after_etcd_was_restored() {
    let failed = |scene: Scene| {
        let purchase = of_purchase(scene.0.facts.purchase().unwrap());
        let failed = scene.status(|status| {
            status.applied = None;
            status.operation = Some(Operation {
                end: bad_end(EndReason::Failed, 1),
                ..purchase
            });
        });
        failed.known_gone(Gone::NotFound)
    };
    for gone in [missing(5, SETTLE), failed(missing(5, SETTLE))] {
        let plan = gone.with(|observed| given(observed, 2, "ecs-2")).plan();
        let Step::Record { record } = &plan.step else {
            panic!("{plan:?}");
        };
        assert_eq!(record.id.as_deref(), Some("ecs-2"));
        assert_eq!(record.task.as_deref(), Some("t-2"));
        assert_eq!((record.attempt, record.recreated), (2, 1));
        assert_eq!(
            (record.nonce.as_str(), record.package.as_str()),
            ("n2", "another")
        );
        let password = record.target.password_secret.as_deref();
        assert_eq!(password, Some("login/2"), "the announced version");
        let target = &record.target;
        assert_eq!(
            (target.image.as_str(), &target.reinstall),
            ("img-1", &None),
            "no reinstall undoes it"
        );
    }
    // An unresolved selector claims nothing: neither an image nor the absence of a key pair.
    let by_name = with_spec(missing(5, SETTLE), |spec| {
        spec.image.id = None;
        spec.image.name = Some("Ubuntu".into());
    });
    let by_name = by_name.with(|observed| {
        given(observed, 2, "ecs-2");
        observed.facts.record = Record::None;
    });
    let plan = by_name.plan();
    let Step::Record { record } = &plan.step else {
        panic!("{plan:?}");
    };
    let target = &record.target;
    assert_eq!((target.image.as_str(), &target.key), ("", &None));
    assert_eq!(target.password_secret.as_deref(), Some("login/2"));
    for (number, id) in [(1, "ecs-2"), (2, ID)] {
        let plan = missing(5, SETTLE)
            .with(|observed| given(observed, number, id))
            .plan();
        assert!(rests(&plan), "{number} {id}: {plan:?}");
    }
}

const SIBLING: &str = "ecs-2";

/// A request was doubled: another server bears our marker.
fn doubled(after: Duration) -> Scene {
    missing(0, Duration::ZERO).listed(after, &[(SIBLING, &ours())])
}

#[test]
fn a_doubled_server_replaces_the_released_one_without_a_purchase() {
    let early = doubled(Duration::ZERO).plan();
    assert!(rests(&early), "the listings began too early");
    let first = doubled(SETTLE).plan();
    assert!(rests(&first) && first.changes.forget_server);
    let unread = forgotten(doubled(SETTLE)).with(|observed| observed.detail = Fact::NotRead);
    assert_eq!(
        unread.plan().needs,
        Some(NeededRead::Detail),
        "an earlier read does not count"
    );
    // A server that is not bought needs no budget.
    let plan = forgotten(doubled(SETTLE)).plan();
    let Step::Record { record } = &plan.step else {
        panic!("{plan:?}");
    };
    assert_eq!(record.id.as_deref(), Some(SIBLING));
    assert_eq!((record.attempt, record.recreated), (2, 0));
    assert_eq!(plan.changes.id, Some(ServerId::from(SIBLING)));
    assert!(record.target.password_secret.is_none() && record.waiting_password);
    // The target of the former server's reinstall was never requested for this one.
    let reinstalled = with_spec(forgotten(doubled(SETTLE)), |spec| {
        spec.image.id = Some("img-2".into());
    });
    // The same if its status was cleared since.
    for attempt in [7, 1] {
        let plan = reinstalled
            .clone()
            .status(|status| status.attempt = attempt)
            .plan();
        let Step::Record { record } = &plan.step else {
            panic!("{plan:?}");
        };
        let target = &record.target;
        assert_eq!(
            (target.image.as_str(), &target.password_secret),
            ("img-2", &None)
        );
    }
    assert!(plan.events.iter().any(|event| event.reason == "Adopted"));
    let name = ours();
    let both = [(ID, name.as_str()), (SIBLING, name.as_str())];
    let listed = forgotten(missing(1, Duration::ZERO)).listed(SETTLE, &both);
    assert!(
        !matches!(listed.plan().step, Step::Record { .. }),
        "the listing still shows the former server"
    );
    let fails = with_spec(forgotten(doubled(SETTLE)), |spec| {
        spec.on_external_deletion = OnExternalDeletion::Fail;
    });
    let fails = fails.plan();
    assert!(rests(&fails), "the spec does not request another server");
    let message = fails.why.unwrap().message;
    assert!(message.contains(SIBLING), "{message}");
    let paused = with_spec(doubled(SETTLE), |spec| spec.pause = Some(Pause::default()));
    let message = paused.plan().why.unwrap().message;
    let is_in_force = message.contains("set spec.onExternalDeletion to Recreate");
    assert!(!is_in_force, "{message}");
}

#[test]
fn the_record_of_an_adopted_server_has_no_values_of_the_former_one() {
    let scene = forgotten(doubled(SETTLE))
        .record(|record| record.imported = Some("by-hand".into()))
        .status(|status| status.attempt = 2);
    let plan = scene.plan();
    let Step::Record { record } = &plan.step else {
        panic!("{plan:?}");
    };
    assert_eq!(record.imported, None, "it is not the imported server");
    let password = &record.target.password_secret;
    assert_eq!(*password, None, "the password of its purchase is unknown");
}

type Change = fn(&mut Observation);

/// Observations that prove no more than the one before.
const NO_NEWS: [(&str, Change); 6] = [
    ("the same", |_| {}),
    ("not read", |observed| observed.detail = Fact::NotRead),
    ("unreadable", |observed| {
        observed.detail = Fact::Unknown("503".into());
    }),
    ("the listing moved", |observed| {
        let began = observed.now + SETTLE;
        let before = testing::pass(began, Vec::new(), Some(0));
        let rows = vec![row("ecs-7", "other")];
        let after = testing::pass(began + Duration::from_secs(5), rows, Some(1));
        observed.listing = Some(ZoneViews::of(
            here(),
            testing::view(Some(before), Some(after)),
        ));
    }),
    ("no listing", |observed| {
        observed.listing = Some(ZoneViews::of(here(), testing::view(None, None)));
    }),
    ("another process", |observed| {
        observed.memory.forget_server();
        observed.detail = Fact::NotRead;
        observed.listing = Some(ZoneViews::of(here(), testing::view(None, None)));
    }),
];

#[test]
fn status_does_not_change_while_a_replacement_is_not_possible() {
    let full = |scene: Scene| {
        scene.with(|observed| observed.quota = QuotaState::Reached(Limit::Instances, 3, RECHECK))
    };
    let slow = |scene: Scene| {
        scene.with(|observed| {
            observed.quota = QuotaState::Reached(Limit::Creates, 1, RECHECK);
        })
    };
    let no_login = |scene: Scene| {
        scene.with(|observed| {
            let problem = Readiness::reconciling(Reason::LoginSecretNotFound, "no Secret");
            observed.login = LoginFact::Problem(problem);
        })
    };
    let imports = |scene: Scene| {
        with_spec(scene, |spec| {
            spec.import = Some(crate::api::Import {
                id: Some("ecs-9".into()),
                name: None,
                address: None,
            });
        })
    };
    for (hindered, why) in [
        (full as fn(Scene) -> Scene, Reason::AccountLimitReached),
        (slow as fn(Scene) -> Scene, Reason::CreateRateReached),
        (no_login as fn(Scene) -> Scene, Reason::LoginSecretNotFound),
        (imports as fn(Scene) -> Scene, Reason::ImportNotFound),
    ] {
        let waits = hindered(hindered(missing(1, SETTLE)).written()).written();
        let status = waits.0.facts.status.clone();
        assert_eq!(status.id, None);
        assert_eq!(status.conditions[0].reason, why.as_str());
        for (what, change) in NO_NEWS {
            let scene = hindered(forgotten(missing(1, SETTLE))).with(|observed| {
                observed.facts.status = status.clone();
                change(observed);
            });
            assert_eq!(scene.written().0.facts.status, status, "{why:?}: {what}");
        }
    }
}

#[test]
fn a_server_that_status_dropped_with_the_end_of_its_operation_is_not_reported_again() {
    let open = || {
        missing(1, SETTLE)
            .without_the_end_of_its_create()
            .with(|observed| {
                observed.task = Fact::Known(TaskState::Succeeded);
                observed.memory.call = None;
                observed.quota = QuotaState::Reached(Limit::Instances, 3, RECHECK);
            })
    };
    let waits = open().written().written();
    let status = waits.0.facts.status.clone();
    assert_eq!(status.id, None);
    assert!(!waits.0.facts.is_open(), "status has its end");
    let full = Reason::AccountLimitReached.as_str();
    assert_eq!(status.conditions[0].reason, full);
    let restarted: Change = |observed| {
        observed.memory.forget_server();
        observed.detail = Fact::NotRead;
        observed.task = Fact::Unknown("503".into());
    };
    for (what, change) in NO_NEWS.into_iter().chain([("no task", restarted)]) {
        let scene = open().with(|observed| {
            observed.facts.status = status.clone();
            change(observed);
        });
        assert_eq!(scene.written().0.facts.status, status, "{what}");
    }
}

#[test]
fn an_operation_on_a_server_that_is_gone_ends_when_status_drops_the_server() {
    for (verb, accepted, task, reason) in [
        (Verb::Reinstall, true, Fact::Absent, None),
        (
            Verb::Reinstall,
            false,
            Fact::NotRead,
            Some(EndReason::Superseded),
        ),
        (
            Verb::ModifyPassword,
            true,
            Fact::Absent,
            Some(EndReason::Superseded),
        ),
        (
            Verb::Reinstall,
            true,
            Fact::Known(TaskState::Failed { reason: None }),
            Some(EndReason::Failed),
        ),
    ] {
        let scene = missing(1, SETTLE).status(|status| {
            status.operation = Some(Operation {
                accepted,
                task_id: accepted.then(|| "t-9".into()),
                ..operation(verb, as_bought())
            });
        });
        let scene = scene.with(|observed| {
            observed.task = task;
            observed.memory.call = None;
        });
        let plan = scene.plan();
        assert!(plan.changes.forget_server);
        let ended = plan.changes.ended.map(|ended| (ended.verb, ended.reason));
        assert_eq!(ended, Some((verb, reason)));
    }
}

#[test]
fn a_dropped_server_that_appears_again_is_not_reinstalled() {
    // The server was reinstalled with a key pair before. Status no longer shows that, and the record shows only the purchase.
    let back = with_spec(forgotten(missing(1, SETTLE)), |spec| {
        spec.login.password_secret_ref = None;
        spec.login.ssh_key = Some(crate::api::SshKeyRef {
            id: Some("key-1".into()),
            ..crate::api::SshKeyRef::default()
        });
    });
    let back = back.with(|observed| observed.detail = Fact::Known(detail(&[])));
    assert_eq!(begins(&back), None);
    assert_eq!(begins(&back.written()), None);
}

#[test]
fn a_dropped_server_that_appears_again_is_reported_again() {
    let back =
        forgotten(missing(1, SETTLE)).with(|observed| observed.detail = Fact::Known(detail(&[])));
    assert_eq!(back.plan().changes.id, Some(ServerId::from(ID)));
    let lost = Scene::recorded(Some(ID), |_| {});
    assert_eq!(
        lost.0.facts.status_id(),
        Some(ServerId::from(ID)),
        "a lost status shows the recorded server"
    );
}
