//! Tests of what the spec forbids and what it allows.

use super::diff::{server, with_spec};
use super::*;
use crate::api::{
    DeletionPolicy, InstanceSpec, ManagementPolicy, Pause, Reinstall, ReinstallPolicy,
};
use crate::credentials::Generated;

const OFF: (&str, &str) = ("ecsStatus", "STOPPED");

fn message(plan: &Plan) -> &str {
    plan.why
        .as_ref()
        .map_or("", |readiness| readiness.message.as_str())
}

/// A server as bought, with a spec that names another image, under this policy and with this token.
fn with_second_image(policy: ReinstallPolicy, token: Option<(&str, Option<&str>)>) -> Scene {
    with_spec(server(as_bought(), &[]), |spec| {
        spec.image.id = Some("img-2".into());
        spec.reinstall_policy = policy;
        spec.reinstall = token.map(|(token, image)| Reinstall {
            token: token.into(),
            image: image.map(Into::into),
        });
    })
}

#[test]
fn on_request_a_disk_is_erased_only_by_a_new_token_that_names_the_image() {
    let on_request = |token| with_second_image(ReinstallPolicy::OnRequest, token);
    for token in [
        None,
        Some(("a", None)),
        Some(("a", Some("img-1"))),
        Some(("a", Some("img-3"))),
    ] {
        let scene = on_request(token);
        let plan = scene.plan();
        assert!(rests(&plan), "{token:?}");
        let pending = Some((State::Stalled, Reason::ReinstallNeedsApproval));
        assert_eq!(reason(&plan), pending, "{token:?}");
        assert!(message(&plan).contains("ERASES THE DISK"), "{plan:?}");
        assert!(message(&plan).contains("img-2"), "{plan:?}");
        let applied = plan.changes.applied.unwrap();
        assert_eq!(applied, as_bought(), "it does not count as done");
    }
    let approved = on_request(Some(("a", Some("img-2"))));
    assert_eq!(begins(&approved), Some(Verb::Reinstall));
}

#[test]
fn a_token_that_was_used_approves_no_later_image() {
    let mut applied = as_bought();
    applied.reinstall = Some("a".into());
    let scene = with_spec(server(applied, &[]), |spec| {
        spec.image.id = Some("img-2".into());
        spec.reinstall_policy = ReinstallPolicy::OnRequest;
        spec.reinstall = Some(Reinstall {
            token: "a".into(),
            image: Some("img-2".into()),
        });
    });
    assert!(rests(&scene.plan()));
    let pending = Some((State::Stalled, Reason::ReinstallNeedsApproval));
    assert_eq!(reason(&scene.plan()), pending);
}

#[test]
fn a_token_alone_reinstalls_only_with_the_image_that_it_names() {
    let with = |policy, image: Option<&str>| {
        with_spec(server(as_bought(), &[]), |spec| {
            spec.reinstall_policy = policy;
            spec.reinstall = Some(Reinstall {
                token: "a".into(),
                image: image.map(Into::into),
            });
        })
    };
    for (policy, image, due) in [
        (ReinstallPolicy::Automatic, None, true),
        (ReinstallPolicy::Automatic, Some("img-1"), true),
        (ReinstallPolicy::Automatic, Some("img-2"), false),
        (ReinstallPolicy::OnRequest, None, false),
        (ReinstallPolicy::OnRequest, Some("img-1"), true),
        (ReinstallPolicy::OnRequest, Some("img-2"), false),
        (ReinstallPolicy::Never, None, false),
        (ReinstallPolicy::Never, Some("img-1"), false),
    ] {
        let scene = with(policy, image);
        let found = begins(&scene) == Some(Verb::Reinstall);
        assert_eq!(found, due, "{policy:?} {image:?}");
        if !due {
            let (state, _) = reason(&scene.plan()).unwrap();
            assert_eq!(state, State::Stalled, "{policy:?} {image:?}");
        }
    }
}

#[test]
fn the_policy_never_forbids_every_reinstall_and_reports_it() {
    let image = with_second_image(ReinstallPolicy::Never, Some(("a", Some("img-2"))));
    let key = with_spec(server(as_bought(), &[]), |spec| {
        spec.reinstall_policy = ReinstallPolicy::Never;
        spec.login.password_secret_ref = None;
        spec.login.ssh_key = Some(crate::api::SshKeyRef {
            id: Some("key-1".into()),
            name: None,
        });
    });
    for scene in [image, key] {
        let plan = scene.plan();
        assert!(rests(&plan));
        let forbidden = Some((State::Stalled, Reason::ReinstallForbidden));
        assert_eq!(reason(&plan), forbidden);
        assert!(message(&plan).contains("ERASES THE DISK"));
        assert_eq!(plan.changes.applied, Some(as_bought()));
    }
}

#[test]
fn power_and_password_go_on_while_a_reinstall_waits() {
    for policy in [ReinstallPolicy::OnRequest, ReinstallPolicy::Never] {
        let scene = || with_second_image(policy, None);
        let reads = |generated: Option<Generated>| {
            scene().with(move |observed| {
                observed.secret_version = Some("login/2".into());
                if let LoginFact::Ready(login) = &mut observed.login {
                    login.secret.clone_from(&observed.secret_version);
                    login.generated = generated;
                }
            })
        };
        let other_secret = reads(None);
        assert_eq!(begins(&other_secret), Some(Verb::ModifyPassword));
        let off = scene().with(|observed| observed.detail = Fact::Known(detail(&[OFF])));
        assert_eq!(begins(&off), Some(Verb::Start));
        let same = reads(Some(Generated {
            is_settled: true,
            settled_from: Some("login/1".into()),
        }));
        let applied = same.plan().changes.applied.unwrap();
        assert_eq!(applied.password_secret.as_deref(), Some("login/2"));
        assert_eq!(applied.image, "img-1");
    }
}

#[test]
fn an_image_that_the_server_already_has_needs_no_approval() {
    let scene = with_second_image(ReinstallPolicy::OnRequest, None);
    let shown = detail(&[("imageResourceUUID", "img-2")]);
    let plan = scene
        .with(|observed| observed.detail = Fact::Known(shown))
        .plan();
    assert_eq!(reason(&plan), Some((State::Ready, Reason::Available)));
}

#[test]
fn a_protected_instance_that_is_deleted_keeps_its_server_and_stays() {
    let protected = |scene: Scene| {
        let scene = scene.with(|observed| observed.facts.deleted_at = Some(observed.wall_clock));
        with_spec(scene, |spec| {
            spec.deletion_protection = true;
            spec.deletion_policy = DeletionPolicy::Retain;
        })
    };
    let protected_reason = Some((State::Stalled, Reason::DeletionProtected));
    let known = protected(Scene::converged());
    let surplus =
        protected(Scene::converged()).listed(Duration::ZERO, &[(ID, &ours()), ("ecs-2", &ours())]);
    let lost =
        protected(Scene::recorded(None, |_| {}).call_state(CallState::Unknown)).listed(SETTLE, &[]);
    let away =
        protected(Scene::converged()).with(|observed| observed.account = AccountFact::NotFound);
    for scene in [known, surplus, lost, away] {
        let plan = scene.plan();
        assert!(rests(&plan), "{plan:?}");
        assert_eq!(reason(&plan), protected_reason);
        assert!(message(&plan).contains("spec.deletionProtection"));
    }
}

fn retained(scene: Scene) -> Scene {
    with_spec(scene.deleting(), |spec| {
        spec.deletion_policy = DeletionPolicy::Retain;
    })
}

/// The note of the Event when the finalizer is removed and the server kept; empty without an Event, None if the finalizer stays.
fn kept(scene: &Scene) -> Option<String> {
    match scene.plan().step {
        Step::Retain { event } => Some(event.map(|event| event.note).unwrap_or_default()),
        _ => None,
    }
}

#[test]
fn a_retained_server_is_named_in_an_event_and_not_released() {
    let note = kept(&retained(Scene::converged())).unwrap();
    assert!(note.contains(ID) && note.contains("billed"), "{note}");
    let away =
        retained(Scene::converged()).with(|observed| observed.account = AccountFact::NotFound);
    assert!(kept(&away).is_some(), "this needs no Account");
    let running = retained(Scene::recorded(Some(ID), |_| {}));
    let note = kept(&running).unwrap();
    assert!(note.contains("may still run"), "{note}");
}

#[test]
fn a_server_to_retain_is_searched_for_after_a_lost_answer_before_the_finalizer_is_removed() {
    let lost = || retained(Scene::recorded(None, |_| {}).call_state(CallState::Unknown));
    let early = lost().listed(Duration::ZERO, &[]);
    assert!(rests(&early.plan()));
    let unconfirmed = Some((State::Reconciling, Reason::CreateUnconfirmed));
    assert_eq!(reason(&early.plan()), unconfirmed);
    let absent = lost().listed(SETTLE, &[]);
    let nothing = Some(String::new());
    assert_eq!(kept(&absent), nothing, "there is nothing to report");
    let found = lost().listed(Duration::ZERO, &[(ID, &ours())]);
    let note = kept(&found).unwrap();
    assert!(note.contains(ID), "{note}");
    let refused = retained(Scene::recorded(None, |_| {}).call_state(CallState::NotSent));
    assert_eq!(kept(&refused), nothing, "the call bought nothing");
}

#[test]
fn a_listing_of_another_account_does_not_prove_a_retained_server_absent() {
    let scene = Scene::recorded(None, |record| record.credential = "secret/old".into());
    let scene = retained(scene.call_state(CallState::Unknown)).listed(SETTLE, &[]);
    assert!(rests(&scene.plan()));
    let unconfirmed = Some((State::Reconciling, Reason::ReleaseUnconfirmed));
    assert_eq!(reason(&scene.plan()), unconfirmed);
}

fn observe_only(scene: Scene, change: impl FnOnce(&mut InstanceSpec)) -> Scene {
    with_spec(scene, |spec| {
        spec.management_policy = ManagementPolicy::Observe;
        change(spec);
    })
}

#[test]
fn a_server_that_is_only_observed_is_reported_and_not_changed() {
    let same = observe_only(server(as_bought(), &[]), |_| {});
    let available = Some((State::Ready, Reason::Available));
    assert_eq!(reason(&same.plan()), available);
    let image = observe_only(server(as_bought(), &[]), |spec| {
        spec.image.id = Some("img-2".into());
    });
    let held = observe_only(server(as_bought(), &[]), |spec| {
        spec.image.id = Some("img-2".into());
        spec.reinstall_policy = ReinstallPolicy::OnRequest;
    });
    let off = observe_only(server(as_bought(), &[OFF]), |_| {});
    for scene in [image, held, off] {
        let plan = scene.plan();
        assert!(rests(&plan));
        let observed_only = Some((State::Drifted, Reason::ObservedOnly));
        assert_eq!(reason(&plan), observed_only, "{plan:?}");
        assert!(plan.changes.detail.is_some(), "status gets the new detail");
    }
    let surplus = observe_only(server(as_bought(), &[]), |_| {})
        .listed(Duration::ZERO, &[(ID, &ours()), ("ecs-2", &ours())]);
    // A report needs no proof: a server that only one listing shows is reported as well.
    let once = surplus.clone().with(|observed| {
        let rows = vec![row(ID, &ours()), row("ecs-2", &ours())];
        let pass = testing::pass(observed.now, rows, Some(2));
        observed.listing = Some(ZoneViews::of(here(), testing::view(None, Some(pass))));
    });
    let observed_only = Some((State::Drifted, Reason::ObservedOnly));
    assert_eq!(reason(&once.plan()), observed_only);
    let plan = surplus.plan();
    assert!(rests(&plan));
    let readiness = plan.why.as_ref().unwrap();
    assert_eq!(readiness.reason, Reason::ObservedOnly);
    assert!(readiness.message.contains("server ecs-2"), "{plan:?}");
}

#[test]
fn the_policy_observe_buys_nothing_and_releases_nothing() {
    let no_server = Some((State::Stalled, Reason::NoServer));
    let fresh = observe_only(Scene::fresh(), |_| {});
    let unread =
        observe_only(Scene::fresh(), |_| {}).with(|observed| observed.login = LoginFact::NotRead);
    for scene in [fresh, unread] {
        assert!(rests(&scene.plan()));
        assert_eq!(scene.plan().needs, None);
        assert_eq!(reason(&scene.plan()), no_server);
    }
    let lost = observe_only(
        Scene::recorded(None, |_| {}).call_state(CallState::Unknown),
        |_| {},
    );
    let absent = lost.listed(SETTLE, &[]);
    assert_eq!(reason(&absent.plan()), no_server);
    let leaving = observe_only(Scene::converged().deleting(), |_| {});
    let note = kept(&leaving).unwrap();
    assert!(note.contains("Observe"), "{note}");
    let failed = Fact::Known(TaskState::Failed { reason: None });
    let scene = Scene::recorded(Some(ID), |record| record.task = Some("t-1".into()))
        .with(|observed| observed.task = failed);
    let reported = scene
        .written()
        .with(|observed| observed.detail = Fact::Known(detail(&[])));
    assert!(matches!(reported.plan().step, Step::Release { .. }));
    assert!(rests(&observe_only(reported, |_| {}).plan()));
}

fn paused(scene: Scene, until: Option<&str>) -> Scene {
    let until = until.map(ToOwned::to_owned);
    with_spec(scene, |spec| spec.pause = Some(Pause { until }))
}

#[test]
fn a_paused_instance_begins_no_step() {
    let image = with_second_image(ReinstallPolicy::Automatic, None);
    let off = server(as_bought(), &[OFF]);
    let surplus = Scene::converged().listed(Duration::ZERO, &[(ID, &ours()), ("ecs-2", &ours())]);
    let found = Scene::of(&instance(), false).listed(Duration::ZERO, &[(ID, &ours())]);
    let lost = Scene::recorded(None, |_| {})
        .call_state(CallState::Unknown)
        .listed(SETTLE, &[]);
    let refused = Scene::recorded(None, |_| {}).call_state(CallState::NotSent);
    let leaving = Scene::converged().deleting();
    let kept = retained(Scene::converged());
    let scenes = [
        Scene::fresh(),
        image,
        off,
        surplus,
        found,
        lost,
        refused,
        leaving,
        kept,
    ];
    for (at, scene) in scenes.into_iter().enumerate() {
        assert!(
            !rests(&scene.plan()),
            "scene {at} has a step without the pause"
        );
        let plan = paused(scene, None).plan();
        assert!(rests(&plan), "{plan:?}");
        assert_eq!(plan.needs, None);
        let paused = Some((State::Reconciling, Reason::Paused));
        assert_eq!(reason(&plan), paused, "{plan:?}");
    }
}

#[test]
fn a_lost_finalizer_is_restored_during_a_pause() {
    let unheld = Scene::converged().with(|observed| observed.facts.finalizers.clear());
    let plan = paused(unheld, None).plan();
    assert!(matches!(plan.step, Step::Record { .. }), "{plan:?}");
}

#[test]
fn a_pause_ends_at_its_time_and_the_next_reconcile_comes_then() {
    let scene = || server(as_bought(), &[OFF]);
    let over = paused(scene(), Some("1969-12-31T23:59:59Z"));
    assert_eq!(begins(&over), Some(Verb::Start));
    let lasts = paused(scene(), Some("1970-01-01T00:01:00Z")).plan();
    assert!(rests(&lasts));
    assert_eq!(lasts.again, Duration::from_secs(60));
    assert!(message(&lasts).contains("1970-01-01T00:01:00Z"));
}

#[test]
fn an_operation_in_progress_is_followed_during_a_pause() {
    let running = Scene::recorded(Some(ID), |record| record.task = Some("t-1".into()))
        .with(|observed| observed.task = Fact::Known(TaskState::Running));
    let plan = paused(running, None).plan();
    assert!(rests(&plan) && plan.wants.attention == Attention::InFlight);
    assert_eq!(reason(&plan), Some((State::Reconciling, Reason::Paused)));
    let done =
        Scene::recorded(Some(ID), |record| record.task = Some("t-1".into())).with(|observed| {
            observed.task = Fact::Known(TaskState::Succeeded);
            observed.detail = Fact::Known(detail(&[]));
        });
    let plan = paused(done, None).plan();
    assert_eq!(plan.changes.ended.as_ref().map(|e| e.succeeded), Some(true));
    assert_eq!(reason(&plan), Some((State::Reconciling, Reason::Paused)));
    let given = Scene::recorded(None, |_| {}).call_state(CallState::Accepted {
        id: ServerId::from(ID),
        task: Some(TaskId::from("t-1")),
    });
    let plan = paused(given, None).plan();
    assert!(
        matches!(&plan.step, Step::Record { record } if record.id.as_deref() == Some(ID)),
        "the receipt of the purchase is written"
    );
}

#[test]
fn the_message_after_a_pause_shows_how_to_pause_again() {
    let at_rest = paused(server(as_bought(), &[]), Some("1969-12-31T23:59:59Z"));
    let plan = at_rest.plan();
    assert_eq!(reason(&plan), Some((State::Ready, Reason::Available)));
    let message = message(&plan);
    for words in [
        "the pause is over: spec.pause.until (1969-12-31T23:59:59Z) has passed",
        "take spec.pause out, or set a later time",
    ] {
        assert!(message.contains(words), "{message}");
    }
}
