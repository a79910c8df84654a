//! The fields of a server whose change counts as a change of the server.
//!
//! A service may add fields that change continuously (traffic, load, days left). So the compared fields are those of the
//! specification that do not change continuously, and the time of expiry. Status shows the others as of the last change.

use crate::api::detail;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// The fields of the specification that change continuously, of a server and of a disk.
const MOVING: [&str; 2] = ["usedFlow", "snapshotNum"];
/// A field that the specification lacks, and that the operator reports.
const EXPIRY: &str = "expireTime";

/// A set of compared fields: one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerFields(u64);

const _: () = assert!(
    detail::FIELDS < 64,
    "a bit for each field, and one for EXPIRY"
);

impl ServerFields {
    /// All compared fields.
    pub fn all() -> Self {
        Self(compared().fold(0, |set, (bit, _)| set | 1 << bit))
    }

    /// The compared fields that an object has.
    pub fn of(object: &Map<String, Value>) -> Self {
        let present = compared().filter(|(_, field)| object.contains_key(*field));
        Self(present.fold(0, |set, (bit, _)| set | 1 << bit))
    }

    pub fn contains(self, field: &str) -> bool {
        self.names().any(|name| name == field)
    }

    /// A hash of these fields in the object. A missing field counts as null, and so does a value that status does not keep, so
    /// that a row matches the status made from the same values.
    pub fn digest(self, object: &Map<String, Value>) -> u64 {
        let kept = detail::fitting(object);
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        for field in self.names() {
            let value = kept.get(field).unwrap_or(&Value::Null);
            match field {
                "dataDiskInfoList" => disks(value).hash(&mut hasher),
                "secondaryPublicIpInfoList" => addresses(value).hash(&mut hasher),
                _ => hash_plain(value, &mut hasher),
            }
        }
        hasher.finish()
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        compared().filter_map(move |(bit, field)| (self.0 & 1 << bit != 0).then_some(field))
    }
}

/// The compared fields, each with its bit.
fn compared() -> impl Iterator<Item = (usize, &'static str)> {
    let all = detail::fields().chain([EXPIRY]).enumerate();
    all.filter(|(_, field)| !MOVING.contains(field))
}

/// The disks of a list as a set, since the service may list them in any order.
fn disks(list: &Value) -> BTreeSet<u64> {
    let disks = list.as_array().into_iter().flatten();
    disks
        .filter(|disk| disk.is_object())
        .map(|disk| {
            let mut hasher = DefaultHasher::new();
            for field in detail::disk_fields().filter(|field| !MOVING.contains(field)) {
                hash_plain(disk.get(field).unwrap_or(&Value::Null), &mut hasher);
            }
            hasher.finish()
        })
        .collect()
}

/// Every address in a value as a set. The specification does not show the elements of `secondaryPublicIpInfoList`.
fn addresses(value: &Value) -> BTreeSet<IpAddr> {
    match value {
        Value::String(text) => text.trim().parse().into_iter().collect(),
        Value::Array(items) => items.iter().flat_map(addresses).collect(),
        Value::Object(fields) => fields.values().flat_map(addresses).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => BTreeSet::new(),
    }
}

/// Numbers are hashed as floating point, so that `2` and `2.0` are equal. A list or an object in place of a plain value counts
/// as null.
fn hash_plain(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Bool(bool) => (1u8, bool).hash(hasher),
        Value::Number(number) => (2u8, number.as_f64().unwrap_or_default().to_bits()).hash(hasher),
        Value::String(text) => (3u8, text).hash(hasher),
        Value::Null | Value::Array(_) | Value::Object(_) => 0u8.hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn digest(object: &Value) -> u64 {
        ServerFields::all().digest(object.as_object().unwrap())
    }

    #[test]
    fn a_field_that_changes_by_itself_is_no_change_at_any_depth() {
        let at = |moved: i64| {
            digest(&json!({
                "cpu": 2, "usedFlow": moved, "snapshotNum": moved, "cpuLoad": moved, "remainingDays": {"days": moved},
                "dataDiskInfoList": [{"dataDiskResourceUUID": "disk-1", "snapshotNum": moved, "usedSize": moved}],
                "secondaryPublicIpInfoList": [{"ip": "203.0.113.9", "bytes": moved, "seen": format!("10:0{moved}")}],
            }))
        };
        assert_eq!(at(1), at(2));
    }

    #[test]
    fn every_compared_field_is_a_change() {
        for (_, field) in compared() {
            let address = json!(["203.0.113.9"]);
            let disk = json!([{"dataDiskSize": 20}]);
            let mut values = [address, disk, json!("another"), json!(7), json!(true)].into_iter();
            let none = digest(&json!({}));
            assert!(
                values.any(|value| digest(&json!({ field: value })) != none),
                "{field}"
            );
        }
    }

    #[test]
    fn lists_are_compared_as_sets() {
        let disk = |id: &str, size: i64| json!({"dataDiskResourceUUID": id, "dataDiskSize": size});
        let disks = |list: Value| digest(&json!({ "dataDiskInfoList": list }));
        let both = disks(json!([disk("disk-1", 20), disk("disk-2", 40)]));
        assert_eq!(both, disks(json!([disk("disk-2", 40), disk("disk-1", 20)])));
        assert_ne!(both, disks(json!([disk("disk-1", 20), disk("disk-2", 80)])));
        assert_ne!(both, disks(json!([disk("disk-1", 20)])));
        let ips = |list: Value| digest(&json!({ "secondaryPublicIpInfoList": list }));
        let both = ips(json!([{"ip": "203.0.113.8"}, {"ip": "2001:db8::1"}]));
        assert_eq!(
            both,
            ips(json!([{"ip": "2001:DB8:0::1"}, {"ip": "203.0.113.8"}]))
        );
        assert_ne!(both, ips(json!([{"ip": "2001:db8::1"}])));
    }
}
