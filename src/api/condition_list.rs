//! The list `status.conditions`: other controllers keep conditions of their own in it.

use super::conditions::{OWN_TYPES, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

/// Temporary path to which the patch moves the list while it replaces status. The object has no such field once the patch is
/// applied.
const ASIDE: &str = "/conditions";

/// The types of all conditions of a status, in the order of its list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedTypes(Vec<String>);

impl ListedTypes {
    /// Reads the types, and removes from `conditions` those that decide nothing: the conditions of other controllers, and the
    /// schema's default. The remaining ones get the order of [`OWN_TYPES`], in which a status is computed: the list in the
    /// apiserver may have another order.
    pub fn take(conditions: &mut Vec<Condition>) -> Self {
        let types = conditions.iter().map(|condition| condition.type_.clone());
        let types = types.collect();
        let is_default = |condition: &Condition| condition.reason == Reason::Pending.as_str();
        conditions.retain(|condition| is_own(&condition.type_) && !is_default(condition));
        conditions
            .sort_by_key(|condition| OWN_TYPES.iter().position(|own| *own == condition.type_));
        Self(types)
    }

    /// The types in the list once these conditions are written as the operator's own.
    pub fn after(&self, own: &[Condition]) -> Self {
        let others = self.0.iter().filter(|type_| !is_own(type_)).cloned();
        let own = own.iter().map(|next| next.type_.clone());
        Self(own.chain(others).collect())
    }

    /// Operations of a JSON patch that replace the status, whose `conditions` are the operator's own.
    ///
    /// A condition of another controller keeps its value, even one that was written after the types were read. The patch tests
    /// the types, and fails if the list has another type at one of the positions that were read. A list that was read as empty (as
    /// the schema's default is) is not tested: no test of JSON Patch succeeds for an absent list and for an empty one.
    pub fn replace_status(&self, mut status: Value) -> Vec<Value> {
        if self.0.is_empty() {
            return vec![json!({"op": "add", "path": "/status", "value": status})];
        }
        let fields = status.as_object_mut();
        let own = fields.and_then(|fields| fields.remove("conditions"));
        let mut operations = vec![
            json!({"op": "move", "from": "/status/conditions", "path": ASIDE}),
            json!({"op": "add", "path": "/status", "value": status}),
            json!({"op": "move", "from": ASIDE, "path": "/status/conditions"}),
        ];
        operations.extend(self.replace_own(&own.unwrap_or_default()));
        operations
    }

    /// As [`Self::replace_status`], but for the conditions alone, of an object that has a status.
    pub fn replace_own(&self, own: &Value) -> Vec<Value> {
        if self.0.is_empty() {
            return vec![json!({"op": "add", "path": "/status/conditions", "value": own})];
        }
        let path = |index: usize| format!("/status/conditions/{index}");
        let own = own.as_array().map_or(&[][..], Vec::as_slice);
        let listed = || self.0.iter().enumerate();
        let tests = listed().map(|(index, type_)| {
            json!({"op": "test", "path": format!("{}/type", path(index)), "value": type_})
        });
        // From the end, so that a removal moves no condition that is yet to be removed.
        let removed = listed()
            .rev()
            .filter(|(_, type_)| is_own(type_))
            .map(|(index, _)| json!({"op": "remove", "path": path(index)}));
        // The operator's own stand first, in the order in which a status is computed.
        let added = own
            .iter()
            .enumerate()
            .map(|(index, next)| json!({"op": "add", "path": path(index), "value": next}));
        tests.chain(removed).chain(added).collect()
    }
}

fn is_own(type_: &str) -> bool {
    OWN_TYPES.contains(&type_)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(all: &[(&str, &str)]) -> Value {
        let of = |(type_, reason): &(&str, &str)| {
            json!({
                "type": type_, "status": "True", "reason": reason, "message": "",
                "lastTransitionTime": "2026-11-22T10:00:00Z",
            })
        };
        all.iter().map(of).collect()
    }

    fn status(all: &[(&str, &str)], id: &str) -> Value {
        json!({"status": {"id": id, "conditions": conditions(all)}})
    }

    fn listed(all: &[(&str, &str)]) -> ListedTypes {
        let mut all = serde_json::from_value(conditions(all)).unwrap();
        ListedTypes::take(&mut all)
    }

    /// The object after a write of a status with the conditions `own`, if the apiserver has the list `current` and `read` is the
    /// list that was read.
    fn written(
        current: &[(&str, &str)],
        read: &[(&str, &str)],
        own: &[(&str, &str)],
    ) -> Option<Value> {
        let mut object = status(current, "before");
        let next = status(own, "after")["status"].take();
        let patch = listed(read).replace_status(next);
        let patch: json_patch::Patch = serde_json::from_value(json!(patch)).unwrap();
        json_patch::patch(&mut object, &patch).ok()?;
        Some(object)
    }

    #[test]
    fn the_list_of_own_types_is_complete() {
        let source = include_str!("conditions.rs").lines();
        let constants =
            source.filter_map(|line| line.strip_prefix("pub const ")?.split_once(": &str = "));
        let mut types: Vec<&str> = constants
            .map(|(_, value)| value.trim_matches(['"', ';']))
            .collect();
        let mut own = OWN_TYPES.to_vec();
        types.sort_unstable();
        own.sort_unstable();
        assert_eq!(types, own);
    }

    #[test]
    fn conditions_of_other_controllers_are_dropped_and_the_order_does_not_matter() {
        let all = [
            ("Paid", "a"),
            ("Ready", "b"),
            ("Synced", "e"),
            ("Backup", "c"),
            ("Stalled", "d"),
        ];
        let mut read: Vec<Condition> = serde_json::from_value(conditions(&all)).unwrap();
        ListedTypes::take(&mut read);
        let types: Vec<&str> = read.iter().map(|condition| &*condition.type_).collect();
        assert_eq!(
            types,
            ["Ready", "Stalled", "Synced"],
            "in the order in which a status is computed"
        );
    }

    #[test]
    fn a_status_is_replaced_and_the_conditions_of_other_controllers_stay() {
        let current = [
            ("Paid", "a"),
            ("Ready", "b"),
            ("Stalled", "c"),
            ("Backup", "d"),
            ("Synced", "e"),
        ];
        let own = [("Ready", "new"), ("Drifted", "new"), ("Synced", "e")];
        let left = [
            ("Ready", "new"),
            ("Drifted", "new"),
            ("Synced", "e"),
            ("Paid", "a"),
            ("Backup", "d"),
        ];
        assert_eq!(
            written(&current, &current, &own),
            Some(status(&left, "after"))
        );
        let own_conditions: Vec<Condition> = serde_json::from_value(conditions(&own)).unwrap();
        assert_eq!(listed(&current).after(&own_conditions), listed(&left));
        // The list is the operator's own, or empty.
        let first = [("Ready", "a"), ("Stalled", "b")];
        assert_eq!(
            written(&first, &first, &own),
            Some(status(&[own[0], own[1], own[2]], "after"))
        );
        assert_eq!(written(&[], &[], &own), Some(status(&own, "after")));
    }

    #[test]
    fn a_status_without_conditions_leaves_the_list_to_the_schema() {
        let patch = ListedTypes::default().replace_status(json!({"id": "ecs-1"}));
        let add = json!({"op": "add", "path": "/status", "value": {"id": "ecs-1"}});
        assert_eq!(patch, [add]);
    }

    #[test]
    fn conditions_that_another_controller_wrote_since_the_read_stay() {
        let read = [("Ready", "a"), ("Paid", "old")];
        let own = [("Ready", "new")];
        let changed = written(&[("Ready", "a"), ("Paid", "changed")], &read, &own);
        assert_eq!(
            changed,
            Some(status(&[("Ready", "new"), ("Paid", "changed")], "after"))
        );
        let added = written(
            &[("Ready", "a"), ("Paid", "old"), ("Backup", "b")],
            &read,
            &own,
        );
        let left = [("Ready", "new"), ("Paid", "old"), ("Backup", "b")];
        assert_eq!(added, Some(status(&left, "after")));
        // If another writer reordered the list, the patch fails and the operator retries with the new list.
        assert_eq!(
            written(
                &[("Backup", "b"), ("Ready", "a"), ("Paid", "old")],
                &read,
                &own
            ),
            None
        );
        assert_eq!(written(&[("Ready", "a")], &read, &own), None);
    }
}
