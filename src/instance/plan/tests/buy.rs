//! Tests without a record, or with an attempt that has no server.

use super::*;
use crate::api::conditions::State;
use crate::api::{InstanceSpec, OnExternalDeletion, Refusal};

#[test]
fn an_object_created_while_we_watch_gets_a_server_without_a_listing() {
    let plan = Scene::fresh().plan();
    let record = announced(&plan).unwrap();
    assert_eq!((record.attempt, record.lost, record.failed), (1, 0, 0));
    assert_eq!(record.places, ["r/z"]);
}

#[test]
fn a_server_on_the_record_of_another_cluster_is_reported_before_another_one_is_bought() {
    let copy = || {
        Scene::fresh().with(|observed| {
            let record =
                Scene::recorded(Some("ecs-7"), |record| record.cluster = "other".to_owned());
            let record = record.0.facts.purchase().unwrap().clone();
            observed.recorded_by_other_cluster = Some(Box::new(record));
        })
    };
    // One listing shows whether the server exists.
    let unread = copy().plan();
    assert!(rests(&unread));
    assert_eq!(
        reason(&unread).unwrap().1,
        Reason::CheckingForExistingServer
    );
    assert_eq!(unread.wants.passes, 1);
    let listed = copy().listed(Duration::ZERO, &[("ecs-7", "web-of-there")]);
    let plan = listed.plan();
    assert!(rests(&plan));
    let readiness = plan.why.unwrap();
    assert_eq!(
        (readiness.state, readiness.reason),
        (State::Reconciling, Reason::RecordedByOtherCluster)
    );
    for words in ["server ecs-7", "spec.import.id", "--cluster-id other"] {
        assert!(readiness.message.contains(words), "{}", readiness.message);
    }
    // A copy gets its own server this long after status had the report, regardless of when that was.
    let late = listed.with(|observed| observed.now += times::REPORTED_BEFORE_PURCHASE);
    assert!(rests(&late.plan()));
    let reported = late.with(|observed| {
        observed.memory.origin.other_cluster_reported_since = Some(Box::new(observed.now));
    });
    let plan = reported.plan();
    assert!(rests(&plan));
    assert_eq!(plan.again, times::REPORTED_BEFORE_PURCHASE);
    assert_eq!(plan.why.unwrap().message, readiness.message);
    let later = reported.with(|observed| {
        observed.now += times::REPORTED_BEFORE_PURCHASE;
    });
    assert!(announced(&later.plan()).is_some());
    // The purchase follows at once if the original server is gone.
    let gone = copy().listed(Duration::ZERO, &[("ecs-8", "another")]);
    assert!(announced(&gone.plan()).is_some());
}

#[test]
fn a_first_intent_that_was_refused_waits_out_its_pause_at_every_wake() {
    let refused = Scene::fresh().with(|observed| {
        observed.memory.pace.not_before = Some(observed.now + Duration::from_secs(8));
    });
    let plan = refused.plan();
    assert!(rests(&plan));
    assert_eq!(plan.again, Duration::from_secs(8));
    let later = refused.with(|observed| observed.now += Duration::from_secs(8));
    assert_eq!(announced(&later.plan()).unwrap().attempt, 1);
}

#[test]
fn an_object_older_than_this_process_needs_two_listings_that_would_show_its_server() {
    let scene = || Scene::of(&instance(), false);
    let early = scene().plan();
    assert!(rests(&early));
    assert_eq!((early.wants.passes, early.again), (0, times::LISTED_WITHIN));
    // Earlier listings prove nothing.
    let listed_early = scene().listed(Duration::ZERO, &[("ecs-9", "other")]);
    assert!(rests(&listed_early.plan()));
    assert_eq!(listed_early.plan().wants.passes, 2);
    let listed = scene().listed(times::LISTED_WITHIN, &[("ecs-9", "other")]);
    assert_eq!(announced(&listed.plan()).unwrap().attempt, 1);
}

#[test]
fn the_status_of_an_object_older_than_this_process_stays_until_its_server_would_be_listed() {
    let reported_for = |generation| {
        let scene =
            Scene::of(&instance(), false).status(|status| status.observed_generation = generation);
        reason(&scene.plan()).map(|(_, reason)| reason)
    };
    assert_eq!(reported_for(0), Some(Reason::CheckingForExistingServer));
    assert_eq!(reported_for(1), None);
}

#[test]
fn a_server_with_our_marker_is_recorded_and_not_bought_again() {
    let scene = Scene::of(&instance(), false).listed(Duration::ZERO, &[(ID, &ours())]);
    let plan = scene.plan();
    let Step::Record { record } = &plan.step else {
        panic!("{plan:?}")
    };
    assert_eq!(record.id.as_deref(), Some(ID));
    assert_eq!(record.lost, 1, "its request may have been doubled");
}

#[test]
fn a_generated_password_does_not_count_as_set_on_a_server_that_was_adopted() {
    let found = || Scene::of(&instance(), false).listed(Duration::ZERO, &[(ID, &ours())]);
    let generated = found().with(|observed| {
        let mut spec = InstanceSpec::clone(&observed.facts.spec);
        spec.login = serde_json::from_value(json!({"generate": {}})).unwrap();
        observed.facts.spec = spec.into();
    });
    for (scene, counts_as_set) in [(found(), Some("login/1")), (generated, None)] {
        let plan = scene.plan();
        let Step::Record { record } = &plan.step else {
            panic!("{plan:?}")
        };
        let target = &record.target;
        assert_eq!(target.password_secret.as_deref(), counts_as_set);
    }
}

#[test]
fn an_unusable_login_buys_nothing_and_is_reported() {
    let readiness = Readiness::reconciling(Reason::LoginSecretNotFound, "no Secret");
    let scene = Scene::fresh().with(|observed| observed.login = LoginFact::Problem(readiness));
    assert!(rests(&scene.plan()));
    assert_eq!(
        reason(&scene.plan()),
        Some((State::Reconciling, Reason::LoginSecretNotFound))
    );
}

#[test]
fn a_server_in_status_that_no_listing_shows_is_not_bought_again() {
    let scene = Scene::fresh().with(|observed| {
        observed.facts.status = InstanceStatus {
            id: Some(ID.into()),
            ..InstanceStatus::default()
        }
        .into();
    });
    assert!(
        rests(&scene.plan()),
        "a server was bought once, so the listing is read first"
    );
    let scene = scene.listed(SETTLE, &[]);
    assert_eq!(
        reason(&scene.plan()),
        Some((State::Stalled, Reason::ServerMissing))
    );
}

#[test]
fn after_a_lost_answer_the_settling_time_passes_before_another_purchase() {
    let lost = || Scene::recorded(None, |_| {}).call_state(CallState::Unknown);
    assert_eq!(
        reason(&lost().plan()),
        Some((State::Reconciling, Reason::CreateUnconfirmed))
    );
    let early = lost().listed(Duration::from_secs(10), &[]);
    assert!(
        rests(&early.plan()),
        "two passes before the settling time prove nothing"
    );
    let late = lost().listed(SETTLE, &[("ecs-9", "other")]);
    let plan = late.plan();
    let record = announced(&plan).unwrap();
    assert_eq!((record.attempt, record.lost), (2, 1));
}

#[test]
fn after_a_lost_answer_a_listed_server_is_adopted_at_once() {
    let scene = Scene::recorded(None, |_| {})
        .call_state(CallState::Unknown)
        .listed(Duration::ZERO, &[(ID, &ours()), ("ecs-2", &ours())]);
    let plan = scene.plan();
    let Step::Record { record } = &plan.step else {
        panic!("{plan:?}")
    };
    assert_eq!(
        (record.id.as_deref(), record.attempt, record.lost),
        (Some(ID), 1, 1)
    );
}

#[test]
fn an_adopted_server_is_recorded_in_the_zone_that_lists_it() {
    let scene = Scene::recorded(None, |record| {
        record.places = vec!["r/z".into(), "r/later".into()];
    });
    let plan = scene
        .call_state(CallState::Unknown)
        .listed(Duration::ZERO, &[(ID, &ours())])
        .plan();
    let Step::Record { record } = &plan.step else {
        panic!("{plan:?}")
    };
    assert_eq!(record.places, ["r/later", "r/z"], "the newest place last");
}

#[test]
fn an_empty_listing_of_another_account_proves_nothing() {
    let scene = Scene::recorded(None, |record| record.credential = "secret/old".into())
        .call_state(CallState::Unknown)
        .listed(SETTLE, &[]);
    assert!(rests(&scene.plan()));
    let shown = scene.with(|observed| {
        let AccountFact::AccountSession(session) = &mut observed.account else {
            unreachable!()
        };
        session.knows_our_account = true;
    });
    assert!(
        announced(&shown.plan()).is_some(),
        "this token has shown a server of ours"
    );
}

#[test]
fn a_refused_call_is_repeated_after_its_pause_without_a_new_record() {
    let refusal = CallState::Refused {
        message: "no such image".into(),
        reason: Reason::CreateRefused,
    };
    let scene = Scene::recorded(None, |_| {}).call_state(refusal.clone());
    let waits = |scene: Scene| {
        scene.with(|observed| {
            observed.memory.pace.not_before = Some(observed.now + Duration::from_secs(8));
        })
    };
    let waiting = waits(scene);
    assert!(rests(&waiting.plan()));
    assert_eq!(
        reason(&waiting.plan()),
        Some((State::Stalled, Reason::CreateRefused))
    );
    let due = waiting.with(|observed| observed.now += Duration::from_secs(8));
    assert!(matches!(
        due.plan().step,
        Step::Buy {
            announce: false,
            ..
        }
    ));
    let edited = waits(Scene::recorded(None, |_| {}).call_state(refusal))
        .with(|observed| observed.facts.generation = 2);
    let plan = edited.plan();
    assert_eq!(
        announced(&plan).map(|b| (b.attempt, b.lost)),
        Some((2, 0)),
        "an edited spec does not wait"
    );
}

/// Two processes without a Lease must not alternate at a create that the service refuses.
#[test]
fn a_create_that_was_refused_to_another_process_gets_a_new_record_after_our_own_pause() {
    let refused = CallState::Refused {
        message: "sold out".into(),
        reason: Reason::CreateRefused,
    };
    let of_another = Scene::recorded(None, |_| {})
        .call_state(refused)
        .memory(|memory| {
            memory.call.as_mut().unwrap().is_own = false;
        })
        .listed(SETTLE, &[]);
    let number = |scene: &Scene| announced(&scene.plan()).map(|record| record.attempt);
    assert_eq!(number(&of_another), Some(2), "never under its own record");
    let waits = of_another.with(|observed| {
        observed.memory.pace.not_before = Some(observed.now + Duration::from_secs(8));
    });
    let plan = waits.plan();
    assert!(rests(&plan));
    assert_eq!(plan.again, Duration::from_secs(8));
    let due = waits.clone().with(|observed| observed.now += plan.again);
    assert_eq!(number(&due), Some(2));
    let edited = waits.with(|observed| observed.facts.generation = 2);
    assert_eq!(number(&edited), Some(2), "an edited spec does not wait");
}

#[test]
fn an_unwritten_receipt_comes_before_every_other_step() {
    let given = CallState::Accepted {
        id: ServerId::from(ID),
        task: Some(TaskId::from("t-1")),
    };
    for scene in [
        Scene::recorded(None, |_| {}).call_state(given.clone()),
        Scene::fresh().memory(|memory| {
            memory.call = Some(purchased(&record(), given, memory));
        }),
    ] {
        let plan = scene.plan();
        let Step::Record { record } = &plan.step else {
            panic!("{plan:?}")
        };
        assert_eq!(record.id.as_deref(), Some(ID));
        assert_eq!(record.task.as_deref(), Some("t-1"));
    }
}

#[test]
fn a_server_that_status_dropped_is_replaced_up_to_the_limit_even_without_its_record() {
    let lost = |limit: Option<i32>| {
        let mut instance = instance();
        instance.status = Some(InstanceStatus {
            attempt: 1,
            operation: Some(Operation {
                end: bad_end(EndReason::ServerGone, 1),
                ..of_purchase(&record())
            }),
            ..InstanceStatus::default()
        });
        if let Some(limit) = limit {
            instance.spec.on_external_deletion = OnExternalDeletion::Recreate;
            instance.spec.recreate_limit = limit;
        }
        Scene::of(&instance, false).listed(SETTLE, &[]).plan()
    };
    let missing = (State::Stalled, Reason::ServerMissing);
    assert_eq!(reason(&lost(None)), Some(missing));
    let reached = (State::Stalled, Reason::RecreateLimitReached);
    assert_eq!(reason(&lost(Some(0))), Some(reached));
    let plan = lost(Some(1));
    assert_eq!(announced(&plan).map(|record| record.recreated), Some(1));
}

#[test]
fn an_impossible_attempt_number_in_status_is_ignored() {
    let with_attempt = |attempt: i64| {
        let mut instance = instance();
        instance.status = Some(InstanceStatus {
            attempt,
            ..InstanceStatus::default()
        });
        Scene::of(&instance, true).listed(SETTLE, &[]).plan()
    };
    let attempt = |plan: &Plan| announced(plan).map(|record| record.attempt);
    assert_eq!(attempt(&with_attempt(7)), Some(8));
    for absurd in [i64::from(u32::MAX), i64::MAX, -1] {
        assert_eq!(attempt(&with_attempt(absurd)), Some(1), "{absurd}");
    }
}

#[test]
fn a_recorded_refusal_is_reported_by_its_reason_and_the_spec_chooses_the_account() {
    let scene = |reason: &str| {
        Scene::recorded(None, |record| {
            record.refused = Some(Refusal {
                reason: reason.to_owned(),
                message: "no".to_owned(),
            });
            record.account = "former".to_owned();
        })
    };
    for (reason, reported, state) in [
        ("ServiceBusy", Reason::ServiceBusy, State::Reconciling),
        ("CreateRefused", Reason::CreateRefused, State::Stalled),
        ("OfANewerVersion", Reason::CreateRefused, State::Stalled),
    ] {
        let scene = scene(reason);
        let plan = scene.plan();
        let readiness = plan.why.as_ref().unwrap();
        assert_eq!((readiness.reason, readiness.state), (reported, state));
        let account = crate::instance::observe::account_of(&scene.0.facts, &scene.0.memory)
            .name
            .clone();
        assert_eq!(
            account, "default",
            "nothing was bought with the former Account"
        );
    }
}
