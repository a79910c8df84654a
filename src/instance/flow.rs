//! The flow that a reconcile belongs to, and its priority, as far as the object shows them.

use crate::api::names::BINDING;
use crate::api::{Instance, Operation, PurchaseRecord};
use crate::runtime::queue::{Flow, Priority};
use crate::runtime::watch::ObjectKey;
use crate::session::Sessions;
use kube::ResourceExt;

/// The flow is that of the Account on record, or else in the spec. The priority shows whether a user waits for an answer to an
/// edit, or an operation is in progress. An edit that the watch notices gets [`Priority::Change`], regardless of this one.
pub fn flow(instance: &Instance) -> (Flow, Priority) {
    let record = instance.annotations().get(BINDING);
    let record = record.and_then(|text| PurchaseRecord::parse(text).ok());
    let account = record
        .as_ref()
        .map_or(&*instance.spec.account_ref.name, |record| {
            record.account.as_str()
        });
    let flow = Flow {
        namespace: instance.namespace().unwrap_or_default().into(),
        account: account.into(),
    };
    (flow, priority(instance, record.as_ref()))
}

/// How many reconciles per Account may run in addition to those that hold a slot for calls; they end soon.
const EXTRA_RECONCILES: usize = 16;

/// How many reconciles of a flow may run concurrently: as many as may call the service, and some that make no call.
pub fn bound(sessions: &Sessions, flow: &Flow) -> usize {
    let account = ObjectKey::new(&flow.namespace, &flow.account);
    EXTRA_RECONCILES.saturating_add(sessions.slots(&account))
}

fn priority(instance: &Instance, record: Option<&PurchaseRecord>) -> Priority {
    let Some(status) = &instance.status else {
        return Priority::Change;
    };
    if Some(status.observed_generation) != instance.metadata.generation {
        return Priority::Change;
    }
    let operation = status.operation.as_ref();
    // The create of an adopted server is open although status shows no operation.
    let is_open = operation.is_some_and(Operation::is_open)
        || record.is_some_and(|record| {
            !status.shows_create_is_done(record) && status.end_of(record).is_none()
        });
    let is_deleting = instance.metadata.deletion_timestamp.is_some();
    if is_open || is_deleting || status.id.is_none() {
        Priority::Operation
    } else {
        Priority::Resync
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Marker;
    use serde_json::{Value, json};

    fn shown(status: Value, meta: Value) -> (String, Priority) {
        let mut instance = json!({
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
            "metadata": {"name": "web", "namespace": "team", "generation": 2},
            "spec": {
                "accountRef": {"name": "second"}, "region": "r", "zone": "z", "package": {"code": "p"},
                "image": {"id": "i"}, "firewall": {"id": "f"}, "login": {"sshKey": {"id": "k"}},
            },
        });
        if !status.is_null() {
            instance["status"] = status;
        }
        if let (Some(all), Value::Object(more)) = (instance["metadata"].as_object_mut(), meta) {
            all.extend(more);
        }
        let instance: Instance = serde_json::from_value(instance).unwrap();
        let (flow, priority) = flow(&instance);
        assert_eq!(&*flow.namespace, "team");
        (flow.account.to_string(), priority)
    }

    #[test]
    fn an_edit_goes_first_then_an_operation_in_progress() {
        let record = json!({
            "cluster": "c", "namespace": "team", "name": "web", "uid": "u", "marker": Marker::of_uid("u"), "attempt": 3,
            "nonce": "n", "id": "ecs-1", "startedAt": "2026-11-21T15:34:43Z", "generation": 2,
            "package": "p", "firewall": "f", "places": ["r/z"], "account": "first", "credential": "c",
        });
        let recorded = json!({"annotations": {BINDING: record.to_string()}});
        let open = json!({"verb": "Stop", "attempt": 4, "startedAt": "2026-11-21T15:34:43Z"});
        let end = json!({"reason": "Failed", "finishedAt": "2026-11-21T15:34:43Z"});
        let mut ended = open.clone();
        ended["end"] = end;
        let unrecorded = [
            (Value::Null, Priority::Change),
            (json!({"observedGeneration": -1}), Priority::Change),
            (
                json!({"observedGeneration": 1, "id": "ecs-1"}),
                Priority::Change,
            ),
            (json!({"observedGeneration": 2}), Priority::Operation),
            (
                json!({"observedGeneration": 2, "id": "ecs-1"}),
                Priority::Resync,
            ),
        ];
        for (status, priority) in unrecorded {
            let expected = ("second".to_owned(), priority);
            assert_eq!(shown(status.clone(), json!({})), expected, "{status}");
        }
        let known = json!({"observedGeneration": 2, "id": "ecs-1"});
        let with = |field: &str, value: Value| {
            let mut status = known.clone();
            status["applied"] = json!({"image": "i"});
            status[field] = value;
            status
        };
        for (status, priority) in [
            (known.clone(), Priority::Operation),
            (with("id", json!("ecs-1")), Priority::Resync),
            (with("operation", open), Priority::Operation),
            (with("operation", ended), Priority::Resync),
        ] {
            let expected = ("first".to_owned(), priority);
            assert_eq!(
                shown(status.clone(), recorded.clone()),
                expected,
                "{status}"
            );
        }
        let deleted = json!({"deletionTimestamp": "2026-11-21T15:34:43Z"});
        let expected = ("second".to_owned(), Priority::Operation);
        assert_eq!(shown(known, deleted), expected);
    }
}
