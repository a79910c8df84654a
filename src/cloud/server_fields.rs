//! The fields of a server whose change counts as a change of the server.
//!
//! A service may add fields that change continuously (traffic, load, days left). So only the fields below are compared: those
//! that the operator acts on, and those that status keeps current. Status shows the others as of the last change.

use crate::api::detail;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// The compared fields. The specification's `usedFlow` and `snapshotNum` change continuously and are not included.
const COMPARED: [&str; 37] = [
    "ecsResourceUUID",
    "instanceName",
    "ecsStatus",
    "ecsPendingStatus",
    "cpu",
    "giftCpu",
    "memory",
    "instanceSeries",
    "bandwidth",
    "bandwidthType",
    "freeFlow",
    "limitFlow",
    "internetChargeType",
    "networkType",
    "internalIpAddress",
    "publicIpAddress",
    "publicIpResourceUUID",
    "secondaryPublicIpInfoList",
    "systemDiskResourceUUID",
    "systemDiskCategory",
    "systemDiskSize",
    "dataDiskSize",
    "dataDiskInfoList",
    "imageResourceUUID",
    "imageName",
    "imageType",
    "osDistroVersion",
    "sysAccount",
    "supportIpv6",
    "supportSsh",
    "ifAttachable",
    "regionCode",
    "regionName",
    "zoneCode",
    "zoneName",
    "createTime",
    "expireTime",
];

/// The compared fields of an element of `dataDiskInfoList`.
const COMPARED_OF_A_DISK: [&str; 3] = ["dataDiskResourceUUID", "dataDiskCategory", "dataDiskSize"];

/// A set of compared fields: one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerFields(u64);

const _: () = assert!(COMPARED.len() <= 64, "a bit for each field");

impl ServerFields {
    /// All compared fields.
    pub const ALL: Self = Self(u64::MAX >> (64 - COMPARED.len()));

    /// The compared fields that an object has.
    pub fn of(object: &Map<String, Value>) -> Self {
        let bits = COMPARED.iter().enumerate();
        let present = bits.filter(|(_, field)| object.contains_key(**field));
        Self(present.fold(0, |set, (bit, _)| set | 1 << bit))
    }

    pub fn contains(self, field: &str) -> bool {
        self.names().any(|name| name == field)
    }

    /// A hash of these fields in the object. A missing field counts as null, and so does a value that status does not keep, so
    /// that a row matches the status made from the same values.
    pub fn digest(self, object: &Map<String, Value>) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        for field in self.names() {
            let value = object.get(field);
            let value = value.filter(|value| detail::keeps(field, value));
            let value = value.unwrap_or(&Value::Null);
            match field {
                "dataDiskInfoList" => disks(value).hash(&mut hasher),
                "secondaryPublicIpInfoList" => addresses(value).hash(&mut hasher),
                _ => hash_plain(value, &mut hasher),
            }
        }
        hasher.finish()
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        let bits = COMPARED.iter().enumerate();
        bits.filter_map(move |(bit, field)| (self.0 & 1 << bit != 0).then_some(*field))
    }
}

/// The disks of a list as a set, since the service may list them in any order.
fn disks(list: &Value) -> BTreeSet<u64> {
    let disks = list.as_array().into_iter().flatten();
    disks
        .filter(|disk| disk.is_object())
        .map(|disk| {
            let mut hasher = DefaultHasher::new();
            for field in COMPARED_OF_A_DISK {
                let value = disk.get(field);
                let value = value.filter(|value| detail::keeps_of_a_disk(field, value));
                hash_plain(value.unwrap_or(&Value::Null), &mut hasher);
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
        ServerFields::ALL.digest(object.as_object().unwrap())
    }

    #[test]
    fn a_field_that_moves_by_itself_is_no_change_wherever_it_stands() {
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
        for field in COMPARED {
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
