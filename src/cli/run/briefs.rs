//! What the stores keep beside each object: what is asked of all of them at once, so that ten thousand need not be made into
//! values for it.

use super::wiring::Guarded;
use crate::api::conditions::{DRIFTED, READY, RECONCILING, Reason, STALLED};
use crate::api::{Account, Instance, Operation, Verb};
use crate::runtime::metrics::Standing;
use crate::runtime::queue::{Flow, Priority};
use crate::runtime::store::Kept;
use crate::runtime::strings::shared;
use crate::runtime::watch::ObjectKey;
use crate::{account, instance};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::error_boundary::InvalidObject;

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

impl Kept for Guarded<Instance> {
    type Brief = InstanceBrief;

    fn brief(&self) -> InstanceBrief {
        let (flow, priority) = match &self.0 {
            Ok(instance) => instance::flow(instance),
            Err(unreadable) => (nobodys(&unreadable.metadata), Priority::Resync),
        };
        let status = self.0.as_ref().ok().and_then(|it| it.status.as_ref());
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let open = status.and_then(|status| status.operation.as_ref());
        let open = open.filter(|operation| Operation::is_open(operation));
        InstanceBrief {
            flow,
            priority,
            standing: standing(self, conditions),
            is_drifted: holds(conditions, DRIFTED),
            open: open.map(|operation| (operation.verb, operation.started_at.0)),
        }
    }

    fn text(&self) -> Option<Vec<u8>> {
        let instance = self.0.as_ref().ok()?;
        let text = serde_json::to_vec(instance).ok()?;
        // Where somebody else wrote a time with a fraction of a second, say, the text has none.
        let again: Instance = serde_json::from_slice(&text).ok()?;
        let is_same = instance.metadata == again.metadata
            && instance.spec == again.spec
            && instance.status == again.status;
        is_same.then_some(text)
    }

    fn parse(text: &[u8], key: &ObjectKey) -> Option<Self> {
        let parsed = serde_json::from_slice(text).map_err(|error| InvalidObject {
            error: error.to_string(),
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                ..ObjectMeta::default()
            },
        });
        Some(Self(parsed))
    }
}

/// There are few Accounts: they are kept as values.
impl Kept for Guarded<Account> {
    type Brief = AccountBrief;

    fn brief(&self) -> AccountBrief {
        let (flow, priority) = match &self.0 {
            Ok(account) => account::flow(account),
            Err(unreadable) => (nobodys(&unreadable.metadata), Priority::Resync),
        };
        let status = self.0.as_ref().ok().and_then(|it| it.status.as_ref());
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        AccountBrief {
            flow,
            priority,
            standing: standing(self, conditions),
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

fn standing<K: Resource>(object: &Guarded<K>, conditions: &[Condition]) -> Standing {
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
    fn an_instance_is_the_same_after_it_was_text() {
        let read: Guarded<Instance> = serde_json::from_value(instance()).unwrap();
        let text = read.text().unwrap();
        let again = Guarded::<Instance>::parse(&text, &ObjectKey::of(&read)).unwrap();
        let (read, again) = (read.0.unwrap(), again.0.unwrap());
        assert_eq!(read.metadata, again.metadata);
        assert_eq!(read.spec, again.spec);
        assert_eq!(read.status, again.status);
    }

    #[test]
    fn an_instance_that_would_be_another_one_is_kept_as_it_is() {
        let mut exact = instance();
        exact["status"]["operation"]["startedAt"] = json!("2026-11-21T15:34:43.5Z");
        let exact: Guarded<Instance> = serde_json::from_value(exact).unwrap();
        assert!(exact.text().is_none());
    }

    #[test]
    fn what_cannot_be_read_is_kept_as_it_is_and_told() {
        let mut unreadable = instance();
        unreadable["spec"] = json!(7);
        let unreadable: Guarded<Instance> = serde_json::from_value(unreadable).unwrap();
        assert!(unreadable.text().is_none());
        let brief = unreadable.brief();
        assert_eq!(brief.standing.reason, "Undecodable");
        let (flow, priority) = brief.whose();
        assert_eq!((&*flow.namespace, priority), ("team", Priority::Resync));
        // A text that is none any more is told as well, and not taken for an object that is gone.
        let key = ObjectKey::of(&unreadable);
        let broken = Guarded::<Instance>::parse(b"{", &key).unwrap();
        assert!(broken.0.is_err());
        assert_eq!(ObjectKey::of(&broken), key);
    }
}
