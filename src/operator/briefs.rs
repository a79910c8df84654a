//! The properties that the stores keep next to the text of each object, so that ten thousand objects need not be decoded for them.

use crate::api::conditions::{DRIFTED, READY, RECONCILING, Reason, STALLED};
use crate::api::{Account, Instance, Operation};
use crate::runtime::metrics::ObjectState;
use crate::runtime::queue::{Flow, Priority};
use crate::runtime::store::{Brief, Stored};
use crate::runtime::strings::shared;
use crate::{account, instance};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::core::DeserializeGuard;

/// The reason of an object without status, or with a reason that this version does not know.
const UNKNOWN: &str = "Unknown";

/// The properties of an object with these conditions.
fn brief(flow: (Flow, Priority), conditions: &[Condition]) -> Brief {
    let ready = conditions.iter().find(|condition| condition.type_ == READY);
    let reason = ready.and_then(|ready| Reason::of(&ready.reason));
    let is_true = |type_: &str| {
        let mut of_type = conditions.iter().filter(|it| it.type_ == type_);
        of_type.any(|condition| condition.status == "True")
    };
    let states = [
        (READY, "ready"),
        (STALLED, "stalled"),
        (RECONCILING, "reconciling"),
    ];
    let state = states.into_iter().find(|(type_, _)| is_true(type_));
    Brief {
        flow,
        state: ObjectState {
            state: state.map_or("unknown", |(_, state)| state),
            reason: reason.map_or(UNKNOWN, Reason::as_str),
        },
        is_drifted: is_true(DRIFTED),
        operation: None,
    }
}

/// An object that does not decode is in the flow of no Account.
fn undecodable<K: Resource>(object: &DeserializeGuard<K>) -> Brief {
    let namespace = object.meta().namespace.as_deref();
    let flow = Flow {
        namespace: shared(namespace.unwrap_or_default()),
        account: shared(""),
    };
    Brief {
        state: ObjectState {
            state: "stalled",
            reason: Reason::Undecodable.as_str(),
        },
        ..brief((flow, Priority::Resync), &[])
    }
}

impl Stored for Instance {
    fn brief(object: &DeserializeGuard<Self>) -> Brief {
        let Ok(instance) = &object.0 else {
            return undecodable(object);
        };
        let status = instance.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let operation = status.and_then(|status| status.operation.as_ref());
        let open = operation.filter(|operation| Operation::is_open(operation));
        Brief {
            operation: open.map(|open| (open.verb.as_str(), open.started_at.0)),
            ..brief(instance::flow(instance), conditions)
        }
    }
}

impl Stored for Account {
    fn brief(object: &DeserializeGuard<Self>) -> Brief {
        let Ok(account) = &object.0 else {
            return undecodable(object);
        };
        let conditions = account.status.as_ref().map(|status| &status.conditions[..]);
        brief(account::flow(account), conditions.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::names::BINDING;
    use crate::runtime::store::Store;
    use crate::runtime::watch::ObjectKey;
    use serde_json::{Value, json};

    fn instance() -> Value {
        json!({
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
            "metadata": {
                "name": "web", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-11-21T15:00:00Z", "deletionTimestamp": "2026-11-21T16:00:00Z",
                "finalizers": ["cloudserver.dev/release"], "labels": {"team.example/note": "x"},
                "annotations": {"cloudserver.dev/binding": "{\"attempt\":1}"},
            },
            "spec": {
                "region": "r", "zone": "z", "package": {"code": "p"}, "image": {"id": "i"}, "firewall": {"id": "f"},
                "login": {"passwordSecretRef": {"name": "login", "key": "password"}},
                "powerState": "Stopped", "restart": {"token": "one"},
            },
            "status": {
                "observedGeneration": 3, "attempt": 2, "id": "ecs-1",
                "conditions": [{
                    "type": "Ready", "status": "False", "reason": "Stopping", "message": "m",
                    "lastTransitionTime": "2026-11-21T15:00:00Z", "observedGeneration": 3,
                }],
                "detail": {"ecsStatus": "STARTED", "bandwidth": 0.1, "share": 1.0e-7, "nested": {"a": [1, null, "é\u{1F600}"]}},
                "operation": {
                    "verb": "Stop", "attempt": 2, "nonce": "n", "generation": 3, "accepted": true, "taskId": "t",
                    "startedAt": "2026-11-21T15:34:43Z",
                },
                "history": [{
                    "verb": "Create", "attempt": 1, "outcome": "Succeeded", "succeeded": true,
                    "startedAt": "2026-11-21T15:00:00Z", "finishedAt": "2026-11-21T15:01:00Z",
                    "cause": {"reason": "SomethingNew"},
                }],
            },
        })
    }

    #[test]
    fn an_instance_is_the_same_when_it_is_taken_from_the_store() {
        let store = Store::<Instance>::default();
        let shown: DeserializeGuard<Instance> = serde_json::from_value(instance()).unwrap();
        let key = ObjectKey::of(&shown);
        let read = shown.0.clone().unwrap();
        store.put(&key, &shown);
        let kept = store.get(&key).unwrap();
        let kept = kept.0.as_ref().unwrap();
        assert_eq!(read.metadata, kept.metadata);
        assert_eq!(read.spec, kept.spec);
        assert_eq!(read.status, kept.status);
        assert!(read.metadata.annotations.unwrap().contains_key(BINDING));
    }

    #[test]
    fn an_object_that_does_not_decode_is_in_the_flow_of_no_account() {
        let mut unreadable = instance();
        unreadable["spec"] = json!(7);
        let unreadable: DeserializeGuard<Instance> = serde_json::from_value(unreadable).unwrap();
        let brief = Instance::brief(&unreadable);
        assert_eq!(brief.state.reason, "Undecodable");
        let (flow, priority) = brief.flow;
        assert_eq!((&*flow.namespace, priority), ("team", Priority::Resync));
    }
}
