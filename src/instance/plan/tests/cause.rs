//! Tests of the cause of an operation, in the operation and in the history.

use super::diff::{server, with_spec};
use super::*;
use crate::api::{Cause, PowerState, Restart};

/// Verb and cause of the operation that a plan announces.
fn why(scene: &Scene) -> Option<(Verb, Cause)> {
    let plan = scene.plan();
    let operation = begun(&plan)?;
    Some((operation.verb, operation.cause?))
}

/// The values of the purchase, with the power state that an operation last gave the server.
fn last_set_to(power_state: PowerState) -> Applied {
    Applied {
        power_state: Some(power_state),
        ..as_bought()
    }
}

const OFF: &[(&str, &str)] = &[("ecsStatus", "STOPPED")];

#[test]
fn a_power_state_that_was_changed_externally_is_drift_and_an_edited_one_is_not() {
    let drifted = server(last_set_to(PowerState::Running), OFF);
    assert_eq!(why(&drifted), Some((Verb::Start, Cause::Drift)));
    let left_off = server(last_set_to(PowerState::Running), OFF);
    let left_off = left_off.status(|status| status.left_off = true);
    assert_eq!(why(&left_off), Some((Verb::Start, Cause::Spec)));
    // An edit of another field, even a token for `spec.reconcile`, did not change the power state.
    let reconciled = with_spec(drifted, |spec| {
        let token = "now".to_owned();
        spec.reconcile = Some(crate::api::Reconcile { token });
    });
    assert_eq!(why(&reconciled), Some((Verb::Start, Cause::Drift)));
    let edited = server(last_set_to(PowerState::Stopped), OFF);
    assert_eq!(why(&edited), Some((Verb::Start, Cause::Spec)));
    let stop = with_spec(server(last_set_to(PowerState::Running), &[]), |spec| {
        spec.power_state = PowerState::Stopped;
    });
    assert_eq!(why(&stop), Some((Verb::Stop, Cause::Spec)));
    // A server that was imported while it was off.
    let imported = Applied {
        power_state: None,
        ..as_bought()
    };
    assert_eq!(
        why(&server(imported, OFF)),
        Some((Verb::Start, Cause::Spec))
    );
}

#[test]
fn a_restart_token_has_the_spec_as_its_cause() {
    let token = "a".to_owned();
    let scene = with_spec(server(as_bought(), &[]), |spec| {
        spec.restart = Some(Restart { token });
    });
    assert_eq!(why(&scene), Some((Verb::Restart, Cause::Spec)));
}

#[test]
fn another_version_of_the_same_secret_is_distinguished_from_another_secret() {
    let password = |before: &str, now: &str| {
        let applied = Applied {
            password_secret: Some(before.into()),
            ..as_bought()
        };
        let now = Some(now.to_owned());
        let target = Applied {
            password_secret: now,
            ..applied.clone()
        };
        let scene = server(applied.clone(), &[]);
        super::super::cause::of(&scene.0, Verb::ModifyPassword, &applied, &target)
    };
    assert_eq!(password("a/key/u/1", "a/key/u/2"), Cause::Secret);
    assert_eq!(password("a/key/u/1", "a/key/v/2"), Cause::Secret);
    assert_eq!(password("a/key/u/1", "b/key/v/2"), Cause::Spec);
    assert_eq!(password("a/key/u/1", "a/other/u/1"), Cause::Spec);
}

#[test]
fn a_history_entry_has_the_cause_the_generation_and_the_secret() {
    let mut password = operation(Verb::ModifyPassword, as_bought());
    password.cause = Some(Cause::Rotation);
    password.generation = 4;
    password.target.password_secret = Some("login/password/u/7".into());
    let scene = server(as_bought(), &[]);
    let entry = ended::ended(&scene.0, &password, None, None);
    assert_eq!(
        (
            entry.cause,
            entry.generation,
            entry.password_secret.as_deref()
        ),
        (Some(Cause::Rotation), Some(4), Some("login/password/u/7"))
    );
    assert!(!entry.power_cut);
    let summary = super::super::cause::summary(&password);
    for word in [
        "replaced",
        "generation 4",
        "Secret login at resourceVersion 7",
    ] {
        assert!(summary.contains(word), "{summary}");
    }
    // A stop sets no password.
    let stop = Operation {
        verb: Verb::Stop,
        power_cut: true,
        ..password
    };
    let entry = ended::ended(&scene.0, &stop, None, None);
    assert!(entry.power_cut && entry.password_secret.is_none());
}
