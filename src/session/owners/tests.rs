use super::*;
use serde_json::{Value, json};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

/// An Instance whose UID is its name. `record` changes a record without a server; Null leaves the object without a record.
pub(in crate::session) fn instance(name: &str, record: Value) -> DeserializeGuard<Instance> {
    let mut annotations = json!({});
    if let Value::Object(changes) = record {
        let mut record = json!({
            "cluster": "c", "namespace": "ns", "name": name, "uid": name, "marker": Marker::of_uid(name),
            "attempt": 1, "nonce": "n", "startedAt": "1970-01-01T00:00:00Z", "generation": 1, "target": {},
            "package": "p", "places": ["r/z"], "account": "default", "credential": "x",
        });
        record.as_object_mut().unwrap().extend(changes);
        annotations[BINDING] = record.to_string().into();
    }
    let object = json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": annotations},
        "spec": {
            "accountRef": {"name": "default"}, "region": "r", "zone": "z", "package": {"code": "p"},
            "image": {"id": "i"}, "login": {"passwordSecretRef": {"name": "login", "key": "password"}},
        },
    });
    serde_json::from_value(object).unwrap()
}

fn owners(objects: &[(&str, Value)]) -> Owners {
    let owners = Owners::new("c".into(), |_| {});
    for (name, record) in objects {
        owners.listed(&instance(name, record.clone()));
    }
    owners
}

#[test]
fn a_server_has_an_owner_by_record_or_by_marker() {
    let owners = owners(&[("a", json!({"id": "ecs-1"}))]);
    let marker = Marker::of_uid("a");
    assert!(owners.owns(&"ecs-1".into(), None));
    assert!(owners.owns(&"ecs-2".into(), Some(&marker)));
    assert!(!owners.owns(&"ecs-2".into(), Some(&Marker::of_uid("b"))));
    // The index follows the current record.
    owners.listed(&instance("a", json!({"id": "ecs-3"})));
    assert!(!owners.owns(&"ecs-1".into(), None));
    assert!(owners.owns(&"ecs-3".into(), None) && owners.is_needed_for_release(&key("default")));
    let owner = owners.gone("a").unwrap();
    assert_eq!(owner.recorded.unwrap().id, Some("ecs-3".into()));
    assert!(!owners.owns(&"ecs-3".into(), Some(&marker)));
    assert!(!owners.is_needed_for_release(&key("default")));
}

#[test]
fn a_server_that_only_status_names_is_owned_and_a_record_for_another_object_counts_as_none() {
    let owners = owners(&[("b", json!({"id": "ecs-2", "uid": "other", "name": "other"}))]);
    let mut object = instance("a", Value::Null);
    let instance = object.0.as_mut().ok().unwrap();
    instance.status = serde_json::from_value(json!({"id": "ecs-1"})).unwrap();
    owners.listed(&object);
    assert_eq!(owners.owner(&"ecs-1".into(), None), Some(key("a")));
    assert_eq!(owners.owner(&"ecs-2".into(), None), None);
    assert_eq!(owners.lock().on_record(&key("default")).count(), 1);
    let claims = owners.claims(&"ecs-1".into(), "b");
    assert!(!claims[0].is_better, "its record was lost");
}

#[test]
fn of_two_importers_of_a_server_one_has_the_better_claim_and_the_buyer_precedes_both() {
    let imported = json!({"id": "ecs-1", "imported": "by-hand"});
    let owners = owners(&[("b", imported.clone()), ("c", imported)]);
    let better = |uid: &str| {
        let claims = owners.claims(&"ecs-1".into(), uid).into_iter();
        let better = claims.filter(|claim| claim.is_better);
        better
            .map(|it| it.claimant.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!((better("b"), better("c")), (vec![], vec!["b".to_owned()]));
    owners.listed(&instance("d", json!({"id": "ecs-1"})));
    assert_eq!(better("b"), ["d"]);
}

#[test]
fn an_instance_stays_detached_until_it_is_gone() {
    let owners = owners(&[("a", json!({"id": "ecs-1"}))]);
    owners.set_detached("a", true);
    owners.listed(&instance("a", json!({"id": "ecs-1"})));
    assert!(owners.gone("a").unwrap().is_detached);
    owners.listed(&instance("a", json!({"id": "ecs-1"})));
    assert!(!owners.gone("a").unwrap().is_detached);
}
