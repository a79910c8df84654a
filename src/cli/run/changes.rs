//! Whether what the watch shows was changed by somebody, or only written by the operator itself.

use crate::runtime::queue::Priority;
use crate::runtime::watch::{Change, Notice, ObjectKey};
use kube::api::ObjectMeta;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What of each object people write, in a digest.
#[derive(Debug, Default)]
pub(super) struct Changes(HashMap<ObjectKey, u64>);

impl Changes {
    /// How urgent what the watch tells is: a change if spec, labels or the deletion are not as they were. Without
    /// the object it is gone.
    pub(super) fn priority(
        &mut self,
        notice: &Notice,
        meta: Option<&ObjectMeta>,
    ) -> Option<Priority> {
        let Some(meta) = meta.filter(|_| notice.change != Change::Gone) else {
            self.0.remove(&notice.key);
            return None;
        };
        let now = digest(meta);
        let former = self.0.insert(notice.key.clone(), now);
        // What a first listing shows may have stood for long.
        let is_known = former == Some(now) || (former.is_none() && notice.change == Change::Listed);
        (!is_known).then_some(Priority::Change)
    }
}

fn digest(meta: &ObjectMeta) -> u64 {
    let mut hasher = DefaultHasher::new();
    meta.uid.hash(&mut hasher);
    meta.generation.hash(&mut hasher);
    meta.deletion_timestamp.is_some().hash(&mut hasher);
    meta.labels.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::names::BINDING;
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
            let key = ObjectKey::new("team", "web");
            let notice = Notice {
                key,
                uid: "u".into(),
                version: "1".to_owned(),
                change,
            };
            changes.priority(&notice, Some(&meta)).is_some()
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
        let meta = ObjectMeta::default();
        let notice = |change| Notice {
            key: ObjectKey::new("team", "web"),
            uid: "u".into(),
            version: "1".to_owned(),
            change,
        };
        assert!(
            changes
                .priority(&notice(Change::Applied), Some(&meta))
                .is_some()
        );
        assert!(changes.priority(&notice(Change::Gone), None).is_none());
        assert!(changes.0.is_empty());
        assert!(
            changes
                .priority(&notice(Change::Applied), Some(&meta))
                .is_some()
        );
    }
}
