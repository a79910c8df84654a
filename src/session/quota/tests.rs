use super::super::owners::tests::instance;
use super::*;
use crate::session::admissions::MINUTE;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

fn account() -> ObjectKey {
    ObjectKey::new("ns", "default")
}

const fn at_most(instances: usize) -> AccountLimits {
    AccountLimits {
        instances: Some(instances),
        creates: None,
    }
}

/// A quota, and the subjects that it woke.
fn quota(names: &[&str]) -> (Owners, Arc<Mutex<Vec<String>>>) {
    let woken: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = woken.clone();
    let wake = move |subject: InstanceUid| noted.lock().unwrap().push(subject.to_string());
    let quota = Owners::new("c".into(), wake);
    for name in names {
        shows(&quota, name, Value::Null);
    }
    (quota, woken)
}

fn shows(quota: &Owners, name: &str, record: Value) {
    quota.shown(
        &ObjectKey::new("ns", name),
        &name.into(),
        &instance(name, record),
    );
}

fn admits(quota: &Owners, name: &str, limits: AccountLimits) -> bool {
    quota.admit(name, &account(), limits)
}

#[tokio::test(start_paused = true)]
async fn the_limit_holds_and_an_instance_that_goes_wakes_the_waiting_ones() {
    let (quota, woken) = quota(&["a", "b", "c"]);
    assert!(admits(&quota, "a", at_most(2)) && admits(&quota, "b", at_most(2)));
    assert!(!admits(&quota, "c", at_most(2)));
    let QuotaState::Reached(limit, 2, again) = quota.check("c", &account(), at_most(2)) else {
        panic!("reached");
    };
    assert!((RECHECK_AFTER..=2 * RECHECK_AFTER).contains(&again));
    quota.set_waiting("c", &account(), Some(limit));
    let waiting = vec![("c".to_owned(), Limit::Instances)];
    let usage = quota.usage(&account());
    assert_eq!((usage.instances, usage.waiting), (2, waiting));
    // An older version of the object ends nothing that is under way. The record counts once.
    shows(&quota, "a", Value::Null);
    shows(&quota, "b", json!({}));
    assert!(!admits(&quota, "c", at_most(2)) && admits(&quota, "c", at_most(3)));
    quota.withdraw("c");
    woken.lock().unwrap().clear();
    quota.gone("b");
    assert_eq!(*woken.lock().unwrap(), ["c"]);
    assert!(admits(&quota, "c", at_most(2)));
    // An Instance that goes before the watch shows its record leaves no place behind.
    quota.gone("c");
    assert_eq!(quota.usage(&account()).instances, 1);
}

#[tokio::test(start_paused = true)]
async fn an_instance_with_a_record_keeps_its_place_under_a_lower_limit() {
    let (quota, _) = quota(&["c"]);
    shows(&quota, "a", json!({}));
    shows(&quota, "b", json!({"id": "ecs-1"}));
    assert!(admits(&quota, "a", at_most(1)) && !admits(&quota, "c", at_most(1)));
    // Each Account has a limit of its own.
    assert!(quota.admit("c", &ObjectKey::new("ns", "other"), at_most(1)));
}

#[tokio::test(start_paused = true)]
async fn creates_count_for_a_minute_unless_they_bought_nothing() {
    let (quota, _) = quota(&["a", "b", "c"]);
    let two = AccountLimits {
        instances: None,
        creates: Some(2),
    };
    assert!(admits(&quota, "a", two));
    tokio::time::advance(MINUTE / 6).await;
    let began = Instant::now();
    assert!(admits(&quota, "b", two));
    tokio::time::advance(MINUTE / 6).await;
    assert!(!admits(&quota, "c", two));
    // The next create of "a" was not admitted, so only the former one counts.
    quota.bought_nothing("a", began);
    assert_eq!(quota.usage(&account()).creates, 2);
    quota.bought_nothing("b", began);
    assert_eq!(quota.usage(&account()).creates, 1);
    assert!(admits(&quota, "c", two) && !admits(&quota, "b", two));
    tokio::time::advance(MINUTE / 3 * 2).await;
    assert!(admits(&quota, "b", two));
}

#[tokio::test(start_paused = true)]
async fn two_instances_do_not_record_one_server_at_once() {
    let (quota, _) = quota(&["a", "b"]);
    let id = ServerId::from("ecs-1");
    assert!(quota.admit_server("a", &account(), Some(id.clone())));
    assert!(!quota.admit_server("b", &account(), Some(id.clone())));
    shows(&quota, "a", json!({}));
    assert!(
        !quota.admit_server("b", &account(), Some(id.clone())),
        "an older record"
    );
    quota.withdraw("a");
    assert!(quota.admit_server("b", &account(), Some(id)));
}
