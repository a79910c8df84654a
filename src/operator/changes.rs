//! Whether what the watch shows was changed by somebody, or only written by the operator itself.

use crate::runtime::queue::Priority;
use crate::runtime::watch::{Change, Notice, ObjectKey};
use std::collections::HashMap;

/// What of each object people write, in a digest.
#[derive(Debug, Default)]
pub(super) struct Changes(HashMap<ObjectKey, u64>);

impl Changes {
    /// How urgent what the watch tells is: a change if spec, labels or the deletion are not as they were.
    pub(super) fn priority(&mut self, notice: &Notice) -> Option<Priority> {
        if notice.change == Change::Gone {
            self.0.remove(&notice.key);
            return None;
        }
        let former = self.0.insert(notice.key.clone(), notice.written);
        // What a first listing shows may have stood for long.
        let is_known =
            former == Some(notice.written) || (former.is_none() && notice.change == Change::Listed);
        (!is_known).then_some(Priority::Change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::names::BINDING;
    use kube::api::ObjectMeta;
    use serde_json::{Value, json};

    #[test]
    fn what_people_write_is_a_change_and_what_the_operator_writes_is_none() {
        let mut changes = Changes::default();
        let mut shown = |change: Change, meta: Value| {
            let mut whole = json!({"name": "web", "namespace": "team", "uid": "u"});
            if let (Some(all), Value::Object(more)) = (whole.as_object_mut(), meta) {
                all.extend(more);
            }
            let meta: ObjectMeta = serde_json::from_value(whole).unwrap();
            changes.priority(&Notice::of(&meta, change)).is_some()
        };
        let of = |generation: i64, record: &str| json!({"generation": generation, "resourceVersion": record, "annotations": {BINDING: record}});
        assert!(!shown(Change::Listed, of(1, "a")), "a first listing");
        assert!(!shown(Change::Applied, of(1, "b")), "our record");
        assert!(shown(Change::Applied, of(2, "b")), "the spec");
        assert!(!shown(Change::Listed, of(2, "b")), "a relist");
        assert!(shown(Change::Listed, of(3, "b")), "missed by the watch");
        let label = json!({"generation": 3, "labels": {"team.example/note": "x"}});
        assert!(shown(Change::Applied, label), "a label of somebody's");
        let deleted = json!({"generation": 3, "deletionTimestamp": "2026-11-21T15:34:43Z"});
        assert!(shown(Change::Applied, deleted), "the deletion");
    }

    #[test]
    fn an_object_that_appears_is_a_change_also_where_its_name_was_there_before() {
        let mut changes = Changes::default();
        let notice = |change| Notice::of(&ObjectMeta::default(), change);
        assert!(changes.priority(&notice(Change::Applied)).is_some());
        assert!(changes.priority(&notice(Change::Gone)).is_none());
        assert!(changes.0.is_empty());
        assert!(changes.priority(&notice(Change::Applied)).is_some());
    }
}
