//! Tests of Secrets: generated passwords, their rotation, and the connection Secret.

use super::super::secret::wanted_connection;
use super::diff::{server, with_spec};
use super::follow::{open_operation, with_task};
use super::*;
use crate::api::{ConnectionSecretRef, GeneratedLogin, Import, SecretTemplate};
use crate::credentials::{
    ConnectionLogin, ConnectionTrouble, Generated, KnownConnection, LoginMetadata,
};

const FIRST: &str = "web-login/password/u/1";
const SECOND: &str = "web-login/password/u/2";

fn generated(scene: Scene, every: Option<&str>) -> Scene {
    with_spec(scene, |spec| {
        spec.login.password_secret_ref = None;
        spec.login.generate = Some(GeneratedLogin {
            secret_name: None,
            rotate_every: every.map(ToOwned::to_owned),
            template: None,
        });
    })
}

/// The Secret in this version, as read.
fn read(scene: Scene, version: &str, generated: Generated) -> Scene {
    scene.with(|observed| {
        observed.secret_version = Some(version.into());
        observed.login = LoginFact::Ready(KnownLogin {
            secret: Some(version.into()),
            generated: Some(generated),
        });
    })
}

fn settled() -> Generated {
    Generated {
        is_settled: true,
        settled_from: None,
    }
}

fn applied(version: &str) -> Applied {
    Applied {
        password_secret: Some(version.into()),
        ..as_bought()
    }
}

fn step(plan: &Plan) -> Option<Chore> {
    match &plan.step {
        Step::Secret(step) => Some(step.clone()),
        _ => None,
    }
}

/// A quiet server with a generated password that is renewed daily.
fn daily(version: &str) -> Scene {
    let scene = generated(server(applied(version), &[]), Some("24h"));
    read(scene, version, settled())
}

fn rotated(version: &str, rotated_at: Option<Timestamp>) -> Option<Box<LoginMetadata>> {
    Some(Box::new(LoginMetadata {
        version: version.to_owned(),
        rotated_at,
        template: None,
    }))
}

fn since(scene: Scene, version: &str, hours: i64) -> Scene {
    scene.with(|observed| {
        let stamp = observed.wall_clock.as_second() - hours * 3600;
        let stamp = Timestamp::from_second(stamp).unwrap();
        observed.memory.secrets.login = rotated(version, Some(stamp));
    })
}

#[test]
fn a_first_password_is_written_before_anything_is_bought() {
    let scene = generated(Scene::fresh(), None).with(|observed| observed.secret_version = None);
    let unread = Scene(scene.0.clone()).with(|observed| observed.login = LoginFact::NotRead);
    assert_eq!(unread.plan().needs, Some(NeededRead::Login));
    let missing = Scene(scene.0.clone()).with(|observed| observed.login = LoginFact::Missing);
    let plan = missing.plan();
    assert_eq!(step(&plan), Some(Chore::Generate));
    assert!(plan.why.is_none(), "nothing was bought");
    let there = read(scene, FIRST, settled()).plan();
    let sent = announced(&there).unwrap().target.password_secret.as_deref();
    assert_eq!(sent, Some(FIRST));
}

#[test]
fn a_secret_with_another_owner_stops_the_purchase() {
    let problem = Readiness::stalled(Reason::SecretNameConflict, "not ours");
    let scene = generated(Scene::fresh(), None).with(|observed| {
        observed.secret_version = Some(FIRST.into());
        observed.login = LoginFact::Problem(problem);
    });
    let plan = scene.plan();
    assert!(rests(&plan));
    assert_eq!(
        reason(&plan),
        Some((State::Stalled, Reason::SecretNameConflict))
    );
}

#[test]
fn a_deleted_login_secret_is_generated_again_and_its_password_set() {
    let gone = daily(FIRST).with(|observed| {
        observed.secret_version = None;
        observed.login = LoginFact::NotRead;
    });
    assert_eq!(gone.plan().needs, Some(NeededRead::Login));
    let gone = gone.with(|observed| observed.login = LoginFact::Missing);
    assert_eq!(step(&gone.plan()), Some(Chore::Generate));
    let made = read(daily(FIRST), SECOND, settled());
    assert_eq!(begins(&made), Some(Verb::ModifyPassword));
}

#[test]
fn a_secret_that_the_watch_does_not_show_yet_needs_no_step() {
    let scene = daily(FIRST).with(|observed| observed.secret_version = None);
    assert!(
        rests(&scene.plan()),
        "the applied version counts as current"
    );
}

#[test]
fn a_password_is_rotated_at_its_maximum_age() {
    let scene = daily(FIRST);
    assert_eq!(
        scene.plan().needs,
        Some(NeededRead::Login),
        "the time of the last rotation is on the Secret"
    );
    let young = since(daily(FIRST), FIRST, 23).plan();
    assert!(rests(&young) && young.again <= times::IDLE_REQUEUE);
    let almost = since(daily(FIRST), FIRST, 23).with(|observed| {
        let stamp = observed.wall_clock.as_second() - 24 * 3600 + 5;
        let stamp = Timestamp::from_second(stamp).ok();
        observed.memory.secrets.login = rotated(FIRST, stamp);
    });
    assert_eq!(almost.plan().again, Duration::from_secs(5));
    let old = since(daily(FIRST), FIRST, 24).plan();
    let version = FIRST.to_owned();
    assert_eq!(
        step(&old),
        Some(Chore::Renew {
            version: version.clone()
        })
    );
    assert_eq!(reason(&old), Some((State::Ready, Reason::Available)));
    let mut unknown = daily(FIRST);
    unknown.0.memory.secrets.login = rotated(&version, None);
    assert_eq!(step(&unknown.plan()), Some(Chore::Settle { version }));
}

fn templated(scene: Scene, label: &str) -> Scene {
    with_spec(scene, |spec| {
        let generate = spec.login.generate.as_mut().unwrap();
        generate.template = Some(template(label));
    })
}

fn template(label: &str) -> SecretTemplate {
    SecretTemplate {
        labels: [("team".to_owned(), label.to_owned())].into(),
        ..SecretTemplate::default()
    }
}

#[test]
fn labels_of_the_template_are_written_once_and_change_no_password() {
    let scene = || templated(read(server_with(FIRST), FIRST, settled()), "a");
    assert_eq!(scene().plan().needs, Some(NeededRead::Login));
    let known = |of: Option<SecretTemplate>| {
        scene().with(|observed| {
            observed.memory.secrets.login = Some(Box::new(LoginMetadata {
                version: FIRST.to_owned(),
                rotated_at: None,
                template: of,
            }));
        })
    };
    for lacking in [None, Some(template("b"))] {
        let plan = known(lacking).plan();
        let version = FIRST.to_owned();
        assert_eq!(step(&plan), Some(Chore::Keep { version }));
        assert_eq!(reason(&plan), Some((State::Ready, Reason::Available)));
    }
    let whole = known(Some(template("a"))).plan();
    assert!(rests(&whole) && whole.needs.is_none());
    let unchanged = read(server_with(FIRST), FIRST, settled()).plan();
    assert_eq!(unchanged.needs, None, "nothing is read for it");
}

#[test]
fn a_secret_of_an_older_version_gets_its_marker() {
    let scene = read(server_with(FIRST), FIRST, settled());
    let unmarked = scene.with(|observed| observed.secret_is_unmarked = true);
    let version = FIRST.to_owned();
    assert_eq!(step(&unmarked.plan()), Some(Chore::Keep { version }));
    let marked = unmarked.with(|observed| observed.secret_is_unmarked = false);
    assert!(rests(&marked.plan()));
}

#[test]
fn a_secret_without_owner_gets_its_owner_back_before_its_password_is_used() {
    let unowned = |scene: Scene| {
        scene.with(|observed| {
            observed.secret_version = Some(SECOND.into());
            observed.login = LoginFact::Reclaimable(SECOND.into());
        })
    };
    let (first, second) = (
        unowned(generated(Scene::fresh(), None)),
        unowned(server_with(FIRST)),
    );
    for scene in [first, second, unowned(changing(TaskState::Succeeded))] {
        let plan = scene.plan();
        let version = SECOND.to_owned();
        assert_eq!(step(&plan), Some(Chore::Keep { version }));
        let events: Vec<_> = plan.events.iter().map(|event| event.reason).collect();
        assert_eq!(events, ["SecretAdopted"]);
    }
}

#[test]
fn no_password_is_rotated_while_the_server_needs_something_else() {
    let old = || since(daily(FIRST), FIRST, 48);
    let stopped = with_spec(old(), |spec| {
        spec.power_state = crate::api::PowerState::Unmanaged;
    })
    .with(|observed| observed.detail = Fact::Known(detail(&[("ecsStatus", "STOPPED")])));
    assert_eq!(step(&stopped.plan()), None);
    let busy = old().with(|observed| {
        observed.detail = Fact::Known(detail(&[("ecsPendingStatus", "RESTARTING")]));
    });
    assert_eq!(step(&busy.plan()), None);
    let other = read(old(), SECOND, Generated::default());
    assert_eq!(
        step(&other.plan()),
        None,
        "another password is already pending"
    );
    assert_eq!(step(&old().deleting().plan()), None);
    let never = generated(old(), None);
    assert_eq!(step(&never.plan()), None);
}

fn server_with(version: &str) -> Scene {
    generated(server(applied(version), &[]), None)
}

/// A password change that the service accepted, with this state of its task.
fn changing(task: TaskState) -> Scene {
    let call_state = CallState::Accepted {
        id: ID.into(),
        task: Some(TaskId::from("t-9")),
    };
    let scene = open_operation(Verb::ModifyPassword, applied(SECOND), call_state);
    let scene = scene.status(|status| status.applied = Some(applied(FIRST)));
    let scene = generated(with_task(scene, Fact::Known(task), &[]), None);
    read(scene, SECOND, Generated::default())
}

#[test]
fn a_new_password_is_in_force_only_once_its_task_succeeded() {
    let running = changing(TaskState::Running).plan();
    assert_eq!(step(&running), None);
    let failed = changing(TaskState::Failed {
        reason: Some("no".into()),
    })
    .plan();
    assert_eq!(step(&failed), None);
    assert_eq!(
        reason(&failed),
        Some((State::Reconciling, Reason::OperationFailed))
    );
    let unread =
        changing(TaskState::Succeeded).with(|observed| observed.login = LoginFact::NotRead);
    assert_eq!(unread.plan().needs, Some(NeededRead::Login));
    let done = changing(TaskState::Succeeded).plan();
    let version = SECOND.to_owned();
    assert_eq!(step(&done), Some(Chore::Settle { version }));
    assert!(
        done.changes.ended.is_none(),
        "reported only once it is written"
    );
}

#[test]
fn a_password_settled_from_the_sent_version_is_not_sent_again() {
    let third = "web-login/password/u/3";
    let settled = Generated {
        is_settled: true,
        settled_from: Some(SECOND.into()),
    };
    let plan = read(changing(TaskState::Succeeded), third, settled).plan();
    assert!(rests(&plan));
    let ended = plan.changes.ended.unwrap();
    assert!(ended.succeeded && ended.verb == Verb::ModifyPassword);
    let version = plan.changes.applied.unwrap().password_secret;
    assert_eq!(version.as_deref(), Some(third));
    // A user edited the Secret meanwhile: the password that was sent counts, and the edit makes the next operation due.
    let edited = Generated {
        is_settled: false,
        settled_from: Some(SECOND.into()),
    };
    let plan = read(changing(TaskState::Succeeded), third, edited).plan();
    let version = plan.changes.applied.unwrap().password_secret;
    assert_eq!(version.as_deref(), Some(SECOND));
}

#[test]
fn a_password_of_the_spec_is_set_after_a_pending_generated_one() {
    let given = |waiting| {
        let scene = changing(TaskState::Succeeded)
            .status(|status| {
                status.operation.as_mut().unwrap().waiting_password = waiting;
            })
            .with(|observed| observed.login = LoginFact::NotRead);
        with_spec(scene, |spec| {
            spec.login.generate = None;
            spec.login.password_secret_ref = Some(crate::api::SecretKeyRef {
                name: "web-login".into(),
                key: "password".into(),
            });
        })
        .plan()
    };
    // The same Secret, key and version, which has another password under the key in the spec now.
    let plan = given(true);
    let applied = plan.changes.applied.clone().unwrap();
    assert!(plan.changes.ended.as_ref().is_some_and(|end| end.succeeded));
    assert_eq!(applied.password_secret, None);
    let changing = Some((State::Reconciling, Reason::ChangingPassword));
    assert_eq!(reason(&plan), changing);
    let applied = given(false).changes.applied.unwrap();
    assert_eq!(applied.password_secret.as_deref(), Some(SECOND));
    // The record shows which password was sent.
    let waits = read(server_with(FIRST), SECOND, Generated::default()).plan();
    assert!(begun(&waits).unwrap().waiting_password);
    let edited = read(server_with(FIRST), SECOND, settled()).plan();
    assert!(!begun(&edited).unwrap().waiting_password);
}

#[test]
fn a_pending_password_is_set_again_if_its_secret_was_edited_meanwhile() {
    let touched = "web-login/password/u/3";
    let scene = generated(server(applied(SECOND), &[]), None);
    let waits = read(scene, touched, Generated::default());
    assert_eq!(begins(&waits), Some(Verb::ModifyPassword));
}

#[test]
fn a_generated_password_whose_outcome_was_lost_with_status_is_set_again() {
    let lost = || {
        let scene = open_operation(Verb::ModifyPassword, applied(SECOND), CallState::Unknown);
        let scene = generated(scene, None).with(|observed| {
            let operation = observed.facts.status.operation.clone().map(Box::new);
            observed.memory.call.as_mut().unwrap().intent = Intent::Operation(operation.unwrap());
            observed.detail = Fact::Known(detail(&[]));
            observed.now += SETTLE * 2;
        });
        let scene = scene.record(|record| record.target = applied(FIRST));
        read(scene.wiped(), SECOND, Generated::default())
    };
    let plan = lost().plan();
    let ended = plan.changes.ended.unwrap();
    assert_eq!(ended.reason, Some(EndReason::AnswerLost));
    assert!(plan.changes.applied.unwrap().password_secret.is_none());
    // A process that does not know the operation does not take the password in the Secret for the one in force either.
    let other_process = lost().memory(|memory| {
        memory.call = None;
    });
    let other_process =
        other_process.with(|observed| observed.task = Fact::Known(TaskState::Succeeded));
    let applied = other_process.plan().changes.applied.unwrap();
    assert_eq!(applied.password_secret.as_deref(), Some(FIRST));
    assert_eq!(begins(&other_process.written()), Some(Verb::ModifyPassword));
}

/// The server was bought with a pending password, the spec has named the Secret itself since then, and no status shows that. Or
/// the server was found while another password was on record, before its image was resolved.
#[test]
fn a_pending_password_does_not_count_as_that_of_the_spec_when_status_is_lost() {
    let bought = |target: Applied, waiting| {
        let scene = Scene::recorded(Some(ID), |record| {
            record.target = target.clone();
            record.waiting_password = waiting;
        });
        let scene = with_spec(scene, |spec| {
            spec.login.password_secret_ref = Some(crate::api::SecretKeyRef {
                name: "web-login".into(),
                key: "password".into(),
            });
        });
        let scene = scene.with(|observed| {
            observed.task = Fact::Known(TaskState::Succeeded);
            observed.detail = Fact::Known(detail(&[]));
            observed.secret_version = Some(FIRST.into());
            observed.login = LoginFact::NotRead;
        });
        scene.plan().changes.applied.unwrap().password_secret
    };
    let without_lookup = Applied::default();
    for target in [applied(FIRST), without_lookup] {
        assert_eq!(bought(target.clone(), false).as_deref(), Some(FIRST));
        assert_eq!(
            bought(target, true),
            None,
            "the password of the Secret is set"
        );
    }
}

/// The server may have another password than the generated one, and no later spec can change that.
#[test]
fn a_generated_password_does_not_count_as_set_on_an_adopted_or_imported_server() {
    let found = generated(Scene::fresh(), None).listed(SETTLE, &[(ID, &ours())]);
    let mut instance = instance();
    instance.spec.import = Some(Import {
        id: Some(ID.into()),
        ..Import::default()
    });
    let imported = Scene::of(&instance, true).listed(Duration::ZERO, &[(ID, "by-hand")]);
    let imported = generated(imported, None).with(|observed| {
        observed.candidate = Fact::Known(detail(&[("instanceName", "by-hand")]));
        observed.conflicting_owner = ConflictingOwner::None;
    });
    for scene in [found, imported] {
        let plan = read(scene, FIRST, settled()).plan();
        let Step::Record { record } = &plan.step else {
            panic!("{plan:?}");
        };
        let target = &record.target;
        assert_eq!(
            (&target.password_secret, record.waiting_password),
            (&None, true)
        );
    }
}

fn connected(scene: Scene) -> Scene {
    with_spec(scene, |spec| {
        spec.connection_secret = Some(ConnectionSecretRef {
            name: "web-connection".into(),
            template: None,
        });
    })
    .with(|observed| {
        let status = InstanceStatus {
            addresses: Some(crate::api::Addresses {
                public: Some("203.0.113.5".into()),
                internal: None,
            }),
            ..InstanceStatus::clone(&observed.facts.status)
        };
        observed.facts.status = status.into();
    })
}

fn converged() -> Scene {
    connected(server(as_bought(), &[]))
}

#[test]
fn a_connection_secret_is_compared_once_and_again_after_another_writer_changed_it() {
    let connects = |scene: &Scene| matches!(step(&scene.plan()), Some(Chore::Connect(_)));
    assert!(connects(&converged()));
    let known = |trouble: Option<ConnectionTrouble>, version: &str| {
        converged().with(|observed| {
            observed.connection_version = Some("u/1".into());
            observed.memory.secrets.connection = Some(Box::new(KnownConnection {
                wanted: wanted_connection(observed).unwrap(),
                version: Some(version.into()),
                trouble,
            }));
        })
    };
    let quiet = known(None, "u/1").plan();
    assert!(rests(&quiet) && quiet.needs.is_none());
    assert!(connects(&known(None, "u/0")), "another writer changed it");
    let with_trouble = |until| {
        let words = "not ours".into();
        known(Some(ConnectionTrouble { words, until }), "u/1")
    };
    let foreign = with_trouble(None);
    assert!(rests(&foreign.plan()));
    let retried = with_trouble(Some(foreign.0.now));
    assert!(
        connects(&retried),
        "the pause after the refused write is over"
    );
    for scene in [foreign, retried] {
        let readiness = scene.plan().why.expect("status must follow the server");
        assert_eq!(readiness.state, State::Ready, "the server is as specified");
        assert!(
            readiness.message.ends_with("; not ours"),
            "{}",
            readiness.message
        );
    }
}

#[test]
fn a_connection_secret_waits_until_the_login_is_in_force() {
    let newer = converged().with(|observed| observed.secret_version = Some("login/2".into()));
    assert!(wanted_connection(&newer.0).is_none());
    let bought = converged().without_the_end_of_its_create();
    assert!(
        wanted_connection(&bought.0).is_none(),
        "the create has not ended"
    );
    assert!(wanted_connection(&converged().deleting().0).is_none());
    let by_key = with_spec(converged(), |spec| {
        spec.login.password_secret_ref = None;
        spec.login.ssh_key = Some(crate::api::SshKeyRef {
            id: Some("key-1".into()),
            name: None,
        });
    });
    assert!(
        wanted_connection(&by_key.0).is_none(),
        "the reinstall with the key pair comes first"
    );
    let by_key = by_key.with(|observed| {
        let mut status = InstanceStatus::clone(&observed.facts.status);
        status.applied = Some(Applied {
            key: Some("key-1".into()),
            password_secret: None,
            ..as_bought()
        });
        observed.facts.status = status.into();
    });
    let content = wanted_connection(&by_key.0).unwrap();
    assert_eq!(content.login, ConnectionLogin::Key("key-1".into()));
}

#[test]
fn a_failed_password_change_is_repeated_if_the_record_has_no_image() {
    let ended = |state| {
        let applied = |version: &str| Applied {
            image: String::new(),
            password_secret: Some(version.into()),
            ..as_bought()
        };
        let open = open_operation(Verb::ModifyPassword, applied("login/2"), CallState::Unknown)
            .record(|record| record.target = applied("login/1"))
            .status(|status| status.applied = Some(applied("login/1")));
        let open = with_task(open, Fact::Known(state), &[]).with(|observed| {
            observed.secret_version = Some("login/2".into());
            if let LoginFact::Ready(credentials) = &mut observed.login {
                credentials.secret.clone_from(&observed.secret_version);
            }
        });
        open.written()
    };
    assert_eq!(begins(&ended(TaskState::Succeeded)), None);
    let failed = ended(TaskState::Failed { reason: None });
    assert_eq!(begins(&failed), Some(Verb::ModifyPassword));
}
