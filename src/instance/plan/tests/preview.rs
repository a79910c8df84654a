//! Tests that reconciles do what the preview predicts.

use super::diff::{server, with_spec};
use super::follow::{open_operation, with_task};
use super::*;
use crate::api::{
    Import, InstanceSpec, OnExternalDeletion, Pause, PowerState, Reinstall, ReinstallPolicy,
    Restart,
};
use crate::instance::plan::policy::restricted_from;
use crate::instance::plan::preview::{PlannedChange, Preview, preview};
use crate::session::Problem;

const OFF: (&str, &str) = ("ecsStatus", "STOPPED");

fn told(scene: &Scene) -> Preview {
    preview(&scene.0, &scene.plan())
}

fn verbs(preview: &Preview) -> Vec<Verb> {
    let acts = preview.acts.iter();
    acts.map(|act| match act.planned {
        PlannedChange::Operation(verb) => verb,
        PlannedChange::TakeOver(_) | PlannedChange::Secret => panic!("{preview:?}"),
    })
    .collect()
}

fn second_image(spec: &mut InstanceSpec) {
    spec.image.id = Some("img-2".into());
}

#[test]
fn what_is_wanted_of_a_server_is_told_whole_and_its_turn_begins_with_the_first() {
    type Edit = fn(&mut InstanceSpec);
    type Case<'a> = (Edit, &'a [(&'a str, &'a str)], &'a [Verb], &'a str);
    let cases: [Case<'_>; 6] = [
        (|_| {}, &[], &[], ""),
        (second_image, &[], &[Verb::Reinstall], "image img-1 → img-2"),
        (
            |spec| spec.power_state = PowerState::Stopped,
            &[],
            &[Verb::Stop],
            "spec.powerState is Stopped",
        ),
        (|_| {}, &[OFF], &[Verb::Start], "the server is STOPPED"),
        (
            |spec| spec.restart = Some(Restart { token: "b".into() }),
            &[],
            &[Verb::Restart],
            "token none → b",
        ),
        (
            |spec| {
                second_image(spec);
                spec.restart = Some(Restart { token: "b".into() });
            },
            &[],
            // A reinstall counts as a restart.
            &[Verb::Reinstall],
            "image img-1 → img-2",
        ),
    ];
    for (edit, shown, wanted, why) in cases {
        let scene = with_spec(server(as_bought(), shown), edit);
        let preview = told(&scene);
        assert_eq!(verbs(&preview), wanted, "{preview:?}");
        assert!(
            preview.held.is_none() && preview.unknown.is_none(),
            "{preview:?}"
        );
        if let Some(first) = preview.acts.first() {
            assert!(first.why.contains(why), "{why}: {preview:?}");
        }
        let first = begins(&scene);
        assert_eq!(
            first,
            wanted.first().copied(),
            "the reconcile does the same"
        );
    }
}

#[test]
fn a_secret_that_changed_is_a_password_change() {
    let scene = server(as_bought(), &[]).with(|observed| {
        observed.secret_version = Some("login/2".into());
        observed.login = LoginFact::NotAsked;
    });
    assert_eq!(verbs(&told(&scene)), [Verb::ModifyPassword]);
}

#[test]
fn a_policy_that_holds_a_reinstall_back_is_told_and_the_rest_is_done() {
    for (policy, reason) in [
        (ReinstallPolicy::OnRequest, Reason::ReinstallNeedsApproval),
        (ReinstallPolicy::Never, Reason::ReinstallForbidden),
    ] {
        let scene = with_spec(server(as_bought(), &[OFF]), |spec| {
            second_image(spec);
            spec.reinstall_policy = policy;
        });
        let preview = told(&scene);
        assert_eq!(verbs(&preview), [Verb::Start]);
        assert_eq!(preview.held.map(|readiness| readiness.reason), Some(reason));
    }
    let scene = with_spec(server(as_bought(), &[]), |spec| {
        second_image(spec);
        spec.reinstall_policy = ReinstallPolicy::OnRequest;
        spec.reinstall = Some(Reinstall {
            token: "a".into(),
            image: Some("img-2".into()),
        });
    });
    assert_eq!(verbs(&told(&scene)), [Verb::Reinstall]);
}

#[test]
fn what_is_in_flight_counts_as_done() {
    // A reinstall to the second image was announced, and its end has not been observed.
    let open = |image: &str| {
        let target = Applied {
            image: "img-2".into(),
            ..as_bought()
        };
        let scene = open_operation(Verb::Reinstall, target, CallState::Unknown);
        let busy = [("ecsPendingStatus", "REINSTALLING")];
        let scene = with_task(scene, Fact::NotAsked, &busy);
        with_spec(scene, |spec| spec.image.id = Some(image.into()))
    };
    let preview = told(&open("img-2"));
    assert!(preview.acts.is_empty(), "{preview:?}");
    assert!(
        preview
            .first
            .is_some_and(|first| first.contains("reinstall"))
    );
    let preview = told(&open("img-3"));
    assert_eq!(verbs(&preview), [Verb::Reinstall]);
    assert!(preview.acts[0].why.contains("img-2 → img-3"), "{preview:?}");
    // The detail still shows the image that the manifest goes back to.
    let preview = told(&open("img-1"));
    assert_eq!(verbs(&preview), [Verb::Reinstall]);
    assert!(preview.acts[0].why.contains("img-2 → img-1"), "{preview:?}");
}

#[test]
fn what_is_in_flight_does_not_hide_a_later_wish_for_the_same() {
    let open = |verb, power: PowerState, token: &str| {
        let target = Applied {
            restart: Some("a".into()),
            ..as_bought()
        };
        let scene = open_operation(verb, target, CallState::Unknown);
        let busy = [("ecsPendingStatus", "BUSY")];
        let scene = with_task(scene, Fact::NotAsked, &busy);
        let restart = Restart {
            token: token.into(),
        };
        with_spec(scene, |spec| {
            spec.power_state = power;
            spec.restart = Some(restart);
        })
    };
    let restarts = |token| open(Verb::Restart, PowerState::Running, token);
    assert!(verbs(&told(&restarts("a"))).is_empty());
    assert_eq!(verbs(&told(&restarts("b"))), [Verb::Restart]);
    let stops = |power| open(Verb::Stop, power, "a");
    assert!(verbs(&told(&stops(PowerState::Stopped))).is_empty());
    assert_eq!(verbs(&told(&stops(PowerState::Running))), [Verb::Start]);
    // A start does not carry out a restart token that came after it.
    let starts = open(Verb::Start, PowerState::Running, "b").with(|observed| {
        observed.detail = Fact::Known(detail(&[OFF]));
    });
    assert_eq!(verbs(&told(&starts)), [Verb::Restart]);
}

#[test]
fn a_new_object_buys_and_one_that_imports_takes_over() {
    let preview = told(&Scene::fresh());
    assert_eq!(verbs(&preview), [Verb::Create]);
    assert!(
        preview.acts[0]
            .why
            .contains("package p in r/z, image img-1"),
        "{preview:?}"
    );

    let mut instance = instance();
    instance.spec.import = Some(Import {
        id: Some(ID.into()),
        name: None,
        address: None,
    });
    let scene = Scene::of(&instance, true).listed(Duration::ZERO, &[(ID, "by-hand")]);
    let scene = scene.with(|observed| {
        observed.candidate = Fact::Known(detail(&[("instanceName", "by-hand")]));
        observed.claim = Claim::Taken;
    });
    assert_eq!(
        told(&scene).acts[0].planned,
        PlannedChange::TakeOver(ServerId::from(ID))
    );
    let nobody = Scene::of(&instance, true).listed(Duration::ZERO, &[]);
    let held = told(&nobody).held.map(|readiness| readiness.reason);
    assert_eq!(held, Some(Reason::ImportNotFound));
}

#[test]
fn what_cannot_be_looked_at_is_judged_by_status_or_not_at_all() {
    let away = |scene: Scene| {
        scene.with(|observed| {
            observed.account = AccountFact::Unusable(Problem {
                reason: Reason::ServiceUnreachable,
                message: "no answer".into(),
            });
            observed.detail = Fact::NotAsked;
        })
    };
    assert!(told(&away(Scene::fresh())).unknown.is_some());
    let known = away(with_spec(Scene::converged(), second_image));
    let preview = told(&known);
    assert_eq!(verbs(&preview), [Verb::Reinstall]);
    let why = preview.unseen.as_ref().map(|unseen| unseen.why.as_str());
    assert!(
        why.is_some_and(|why| why.ends_with("no answer")),
        "{preview:?}"
    );
    let unseen = away(Scene::recorded(Some(ID), |_| {}));
    assert!(told(&unseen).unknown.is_some());
}

#[test]
fn a_server_that_is_gone_is_bought_again_only_where_the_spec_says_so() {
    let gone = |policy| {
        with_spec(Scene::converged(), |spec| {
            spec.on_external_deletion = policy;
            spec.recreate_limit = 1;
        })
        .with(|observed| observed.detail = Fact::Absent)
    };
    let preview = told(&gone(OnExternalDeletion::Recreate));
    assert_eq!(verbs(&preview), [Verb::Create]);
    let preview = told(&gone(OnExternalDeletion::Fail));
    let held = preview.held.unwrap();
    assert_eq!(held.reason, Reason::ServerMissing);
    assert!(!held.message.contains("spec.import"), "{held:?}");
    // An Instance with `spec.import` buys nothing, regardless of its policy.
    for (policy, says) in [
        (OnExternalDeletion::Recreate, "spec.import names"),
        (OnExternalDeletion::Fail, "without spec.import"),
    ] {
        let imports = with_spec(gone(policy), |spec| {
            spec.import = Some(Import {
                id: Some(ID.into()),
                name: None,
                address: None,
            });
        })
        .memory(|memory| {
            memory.observations.missing_since = Some(memory.origin.first_seen);
            memory.observations.not_found = true;
        })
        .listed(Duration::ZERO, &[]);
        let preview = told(&imports);
        assert!(preview.acts.is_empty(), "{preview:?}");
        let held = preview.held.unwrap();
        assert_eq!(held.reason, Reason::ServerMissing);
        assert!(held.message.contains(says), "{held:?}");
    }
}

#[test]
fn an_object_that_is_being_deleted_is_not_planned_for() {
    let preview = told(&Scene::converged().deleting());
    assert!(preview.acts.is_empty() && preview.held.is_some());
}

#[test]
fn a_pause_and_a_look_only_are_told_in_the_words_of_the_status() {
    let paused = with_spec(Scene::converged(), |spec| {
        spec.pause = Some(Pause::default());
    });
    let reason = restricted_from(&paused.0).map(|readiness| readiness.reason);
    assert_eq!(reason, Some(Reason::Paused));
    assert!(restricted_from(&Scene::converged().0).is_none());
}
