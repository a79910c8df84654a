//! What the stores keep beside each object: what is asked of all of them at once, so that ten thousand need not be made into
//! values for it.

use crate::api::conditions::{DRIFTED, READY, RECONCILING, Reason, STALLED};
use crate::api::{Account, Instance, Operation, Verb};
use crate::runtime::metrics::Standing;
use crate::runtime::queue::{Flow, Priority};
use crate::runtime::store::Kept;
use crate::runtime::strings::shared;
use crate::{account, instance};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;

/// No status yet, or words that this version does not know: a label is never what stands in an object.
const UNKNOWN: &str = "Unknown";

/// Of an Instance.
#[derive(Clone, Debug)]
pub struct InstanceBrief {
    flow: Flow,
    priority: Priority,
    pub(super) standing: Standing,
    pub(super) is_drifted: bool,
    /// The operation that is open, and when it was announced.
    pub(super) open: Option<(Verb, Timestamp)>,
}

/// Of an Account.
#[derive(Clone, Debug)]
pub struct AccountBrief {
    flow: Flow,
    priority: Priority,
    pub(super) standing: Standing,
}

impl InstanceBrief {
    /// Whose place it takes, and how urgent it is.
    pub(super) fn whose(&self) -> (Flow, Priority) {
        (self.flow.clone(), self.priority)
    }
}

impl AccountBrief {
    /// Whose place it takes, and how urgent it is.
    pub(super) fn whose(&self) -> (Flow, Priority) {
        (self.flow.clone(), self.priority)
    }
}

impl Kept for Instance {
    type Brief = InstanceBrief;

    fn brief(object: &DeserializeGuard<Self>) -> InstanceBrief {
        let (flow, priority) = match &object.0 {
            Ok(instance) => instance::flow(instance),
            Err(unreadable) => (nobodys(&unreadable.metadata), Priority::Resync),
        };
        let status = object.0.as_ref().ok().and_then(|it| it.status.as_ref());
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let open = status.and_then(|status| status.operation.as_ref());
        let open = open.filter(|operation| Operation::is_open(operation));
        InstanceBrief {
            flow,
            priority,
            standing: standing(object, conditions),
            is_drifted: holds(conditions, DRIFTED),
            open: open.map(|operation| (operation.verb, operation.started_at.0)),
        }
    }
}

impl Kept for Account {
    type Brief = AccountBrief;

    fn brief(object: &DeserializeGuard<Self>) -> AccountBrief {
        let (flow, priority) = match &object.0 {
            Ok(account) => account::flow(account),
            Err(unreadable) => (nobodys(&unreadable.metadata), Priority::Resync),
        };
        let status = object.0.as_ref().ok().and_then(|it| it.status.as_ref());
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        AccountBrief {
            flow,
            priority,
            standing: standing(object, conditions),
        }
    }
}

/// What cannot be read is of no Account.
fn nobodys(meta: &ObjectMeta) -> Flow {
    Flow {
        namespace: shared(meta.namespace.as_deref().unwrap_or_default()),
        account: shared(""),
    }
}

fn standing<K: Resource>(object: &DeserializeGuard<K>, conditions: &[Condition]) -> Standing {
    if object.0.is_err() {
        return Standing {
            state: "stalled",
            reason: Reason::Undecodable.as_str(),
        };
    }
    let ready = conditions.iter().find(|told| told.type_ == READY);
    let reason = ready.and_then(|told| Reason::of(&told.reason));
    let state = if holds(conditions, READY) {
        "ready"
    } else if holds(conditions, STALLED) {
        "stalled"
    } else if holds(conditions, RECONCILING) {
        "reconciling"
    } else {
        "unknown"
    };
    Standing {
        state,
        reason: reason.map_or(UNKNOWN, Reason::as_str),
    }
}

fn holds(conditions: &[Condition], type_: &str) -> bool {
    let mut of_type = conditions.iter().filter(|told| told.type_ == type_);
    of_type.any(|told| told.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::names::BINDING;
    use crate::runtime::store::store;
    use crate::runtime::watch::ObjectKey;
    use kube::runtime::watcher::Event;
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
        let (store, mut writer) = store::<Instance>();
        let shown: DeserializeGuard<Instance> = serde_json::from_value(instance()).unwrap();
        let key = ObjectKey::of(&shown);
        let read = shown.0.clone().unwrap();
        writer.take(&Event::Apply(shown), &key);
        let kept = store.get(&key).unwrap();
        let kept = kept.0.as_ref().unwrap();
        assert_eq!(read.metadata, kept.metadata);
        assert_eq!(read.spec, kept.spec);
        assert_eq!(read.status, kept.status);
        assert!(read.metadata.annotations.unwrap().contains_key(BINDING));
    }

    #[test]
    fn what_cannot_be_read_is_of_no_account_and_told() {
        let mut unreadable = instance();
        unreadable["spec"] = json!(7);
        let unreadable: DeserializeGuard<Instance> = serde_json::from_value(unreadable).unwrap();
        let brief = Instance::brief(&unreadable);
        assert_eq!(brief.standing.reason, "Undecodable");
        let (flow, priority) = brief.whose();
        assert_eq!((&*flow.namespace, priority), ("team", Priority::Resync));
    }
}
