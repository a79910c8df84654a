use super::*;
use serde_json::json;

#[test]
fn a_field_that_changes_by_itself_is_no_change_of_status() {
    let with = |moved: f64, cpu: i64| {
        let mut status = InstanceStatus::default();
        status.detail.insert("usedFlow".into(), json!(moved));
        status.detail.insert("cpuLoad".into(), json!(moved));
        status.detail.insert("cpu".into(), json!(cpu));
        status
    };
    assert!(!differs(&with(1.0, 2), &with(2.0, 2)));
    assert!(differs(&with(1.0, 2), &with(1.0, 4)));
}
