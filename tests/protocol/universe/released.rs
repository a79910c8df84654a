//! Replaces objects of a run by objects that the last release wrote (`tests/released`).

use super::TOKEN;
use crate::judges;
use crate::oracle::{CLUSTER, reason};
use cloud_server_operator::api::names::BINDING;
use cloud_server_operator::session::FormerKey;
use secrecy::SecretString;
use serde_json::Value;
use std::fs;

/// The key of the last release, which every process finds.
pub const FORMER_KEY: [u8; 32] = [7; 32];

/// The fields that differ between any two runs, and not only between versions: the identity of object and server, the token,
/// and the start time. Other values, such as the image of a restart, are the same in both.
const OF_RECORD: [&str; 9] = [
    "/cluster",
    "/namespace",
    "/name",
    "/uid",
    "/marker",
    "/nonce",
    "/id",
    "/task",
    "/startedAt",
];
/// The same kind of fields in status. The restart token belongs to them: the user of this run chose another one.
const OF_STATUS: [&str; 5] = [
    "/id",
    "/operation/nonce",
    "/operation/taskId",
    "/operation/startedAt",
    "/operation/target/restart",
];
/// A Secret's name, key, UID and version, separated by slashes: both values must have the same number of parts, or the format
/// has changed.
const SECRETS: [&str; 3] = [
    "/applied/passwordSecret",
    "/operation/target/passwordSecret",
    "/target/passwordSecret",
];
/// Values that must be the same at this point in both.
const SAME: [&str; 3] = ["/operation/verb", "/operation/cause", "/cause"];

/// The object of this name that the last release wrote.
fn kept(name: &str) -> Value {
    let file = judges::root().join(format!("tests/released/objects/{name}.json"));
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// Writes into an object what an operator writes, as the last release did at this point. The identifiers of this run stay.
/// The credential is the one that the last release writes for this Account.
pub(super) fn write(object: &mut Value, name: &str, account: &Value) {
    let mut kept = kept(name);
    let reason_kept = reason(&kept);
    // The first status of a create comes after its receipt.
    assert!(
        reason_kept.is_none() || reason_kept == reason(object),
        "{name}: {reason_kept:?}, and here {object:#}"
    );
    let [mut theirs, ours] = [&kept, object].map(record);
    fit(name, &mut theirs, &ours, &OF_RECORD);
    let spec = serde_json::from_value(account.clone()).unwrap();
    let token = SecretString::from(TOKEN);
    let former = FormerKey::from_bytes(&FORMER_KEY).credential(CLUSTER, &spec, &token);
    theirs["credential"] = Value::String(former);
    let annotations = &mut object["metadata"]["annotations"];
    *annotations = kept["metadata"]["annotations"].take();
    annotations[BINDING] = Value::String(theirs.to_string());
    object["metadata"]["finalizers"] = kept["metadata"]["finalizers"].take();
    let mut theirs = kept["status"].take();
    fit(name, &mut theirs, &object["status"], &OF_STATUS);
    object["status"] = theirs;
}

fn record(object: &Value) -> Value {
    let text = object["metadata"]["annotations"][BINDING].as_str();
    serde_json::from_str(text.unwrap()).unwrap()
}

/// Replaces their identifiers by ours. Every value of theirs must exist in ours, or the two are at different points.
fn fit(name: &str, theirs: &mut Value, ours: &Value, identifiers: &[&str]) {
    let here = |pointer: &str| {
        let ours = ours.pointer(pointer).cloned();
        ours.unwrap_or_else(|| panic!("{name}: {pointer} is absent here"))
    };
    for pointer in SAME {
        if let Some(theirs) = theirs.pointer(pointer) {
            assert_eq!(*theirs, here(pointer), "{name}: {pointer}");
        }
    }
    for pointer in identifiers.iter().chain(&SECRETS) {
        if let Some(theirs) = theirs.pointer_mut(pointer) {
            let ours = here(pointer);
            let parts = |text: &Value| text.as_str().map(|text| text.split('/').count());
            assert_eq!(
                parts(theirs),
                parts(&ours),
                "{name}: {pointer}: {theirs}, and here {ours}"
            );
            *theirs = ours;
        }
    }
}
