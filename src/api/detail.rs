//! `status.detail`: the instance object in the form that the service reports, with a schema for the fields of the
//! specification.

use Shape::{Disks, Flag, List, Number, Text, Whole};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The type of a known field. The apiserver refuses a whole status if one field has a value of another type, so [`fitting`]
/// removes such values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Text,
    Whole,
    Number,
    Flag,
    /// Objects of [`DISK`].
    Disks,
    /// A list with elements of unknown shape.
    List,
}

/// A known field: its name, its type, its description.
type Field = (&'static str, Shape, &'static str);

/// The fields of section 2.3 of the specification.
const INSTANCE: &[Field] = &[
    ("ecsResourceUUID", Text, "Identifier of the server."),
    ("instanceName", Text, "Name of the server at the service."),
    ("ecsStatus", Text, "For example STARTED or STOPPED."),
    ("ecsPendingStatus", Text, "Operation in progress, or NONE."),
    ("cpu", Whole, "CPUs."),
    ("giftCpu", Whole, "CPUs that the service adds for free."),
    ("memory", Whole, "Memory, in GiB."),
    ("instanceSeries", Text, "Series of the server."),
    ("bandwidth", Whole, "Bandwidth, in Mbit/s."),
    ("bandwidthType", Text, "Type, for example CMCC."),
    ("freeFlow", Whole, "Free traffic, in GB."),
    (
        "usedFlow",
        Number,
        "Traffic used so far, in GB. A change of it alone is not written.",
    ),
    ("limitFlow", Text, "Whether traffic is limited."),
    ("internetChargeType", Text, "For example PAY_BY_TRAFFIC."),
    ("networkType", Text, "For example PRIVATE_NETWORK."),
    ("internalIpAddress", Text, "Internal address."),
    ("publicIpAddress", Text, "Public address."),
    ("publicIpResourceUUID", Text, "Identifier of the address."),
    (
        "secondaryPublicIpInfoList",
        List,
        "Further public addresses, in a form that the service does not specify.",
    ),
    ("systemDiskResourceUUID", Text, "Identifier of the disk."),
    ("systemDiskCategory", Text, "For example LOCAL_SSD."),
    ("systemDiskSize", Whole, "Size of the system disk, in GiB."),
    ("dataDiskSize", Whole, "Size of all data disks, in GiB."),
    ("dataDiskInfoList", Disks, "The data disks."),
    ("snapshotNum", Whole, "Number of snapshots."),
    ("imageResourceUUID", Text, "The installed image."),
    ("imageName", Text, "Name of the image."),
    ("imageType", Text, "System, Self or Application."),
    ("osDistroVersion", Text, "Distribution of the system."),
    ("sysAccount", Text, "Account to log in with."),
    ("supportIpv6", Flag, "Whether the server supports IPv6."),
    ("supportSsh", Flag, "Whether the server supports SSH."),
    ("ifAttachable", Flag, "Whether disks can be attached."),
    ("regionCode", Text, "Region code."),
    ("regionName", Text, "Name of the region."),
    ("zoneCode", Text, "Zone code."),
    ("zoneName", Text, "Name of the zone."),
    (
        "createTime",
        Text,
        "When the server was created, as YYYY-MM-DD HH:MM:SS in the service's time zone.",
    ),
];

/// The fields of a data disk, section 2.4 of the specification.
const DISK: &[Field] = &[
    ("dataDiskResourceUUID", Text, "Identifier of the disk."),
    ("dataDiskCategory", Text, "For example LOCAL_SSD."),
    ("dataDiskSize", Whole, "Size of the disk, in GiB."),
    ("snapshotNum", Whole, "Number of snapshots of the disk."),
];

/// The schema of `status.detail`.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(object(INSTANCE)).unwrap_or_default()
}

fn object(fields: &[Field]) -> Value {
    let properties = fields.iter().map(|(name, shape, description)| {
        let mut schema = match shape {
            Text => json!({"type": "string"}),
            Whole => json!({"type": "integer", "format": "int64"}),
            Number => json!({"type": "number"}),
            Flag => json!({"type": "boolean"}),
            Disks => json!({"type": "array", "items": object(DISK)}),
            List => {
                json!({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}})
            }
        };
        schema["description"] = json!(description);
        ((*name).to_owned(), schema)
    });
    let properties: Map<String, Value> = properties.collect();
    json!({"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": true})
}

/// The detail without those values of known fields that the schema refuses or the apiserver drops, nulls included.
pub fn fitting(detail: &Map<String, Value>) -> Map<String, Value> {
    fit_object(INSTANCE, detail)
}

fn fit_object(fields: &[Field], object: &Map<String, Value>) -> Map<String, Value> {
    let fitted = object.iter().filter_map(|(name, value)| {
        let known = fields.iter().find(|(known, ..)| known == name);
        let value = match known {
            Some((_, shape, _)) => fit(*shape, value)?,
            None => value.clone(),
        };
        Some((name.clone(), value))
    });
    fitted.collect()
}

/// The number of known fields of a server.
pub const FIELDS: usize = INSTANCE.len();

/// The known fields of a server.
pub fn fields() -> impl Iterator<Item = &'static str> {
    INSTANCE.iter().map(|(name, ..)| *name)
}

/// The known fields of a data disk.
pub fn disk_fields() -> impl Iterator<Item = &'static str> {
    DISK.iter().map(|(name, ..)| *name)
}

/// The value as status keeps it; none if it is not of this type.
fn fit(shape: Shape, value: &Value) -> Option<Value> {
    Some(match (shape, value) {
        (Disks, Value::Array(items)) => {
            let disks = items.iter().filter_map(Value::as_object);
            disks.map(|disk| fit_object(DISK, disk)).collect()
        }
        (List, Value::Array(items)) => {
            let items = items.iter().filter(|item| !item.is_null());
            items.cloned().collect()
        }
        (Whole, Value::Number(_)) => whole(value)?,
        (Number, Value::Number(_)) => whole(value).unwrap_or_else(|| value.clone()),
        (Text, Value::String(_)) | (Flag, Value::Bool(_)) => value.clone(),
        (Text | Whole | Number | Flag | Disks | List, _) => return None,
    })
}

/// A whole number as the apiserver returns it: 2.0 becomes 2.
fn whole(value: &Value) -> Option<Value> {
    /// Above this, one float stands for several integers.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = value
        .as_f64()
        .filter(|float| float.fract() == 0.0 && float.abs() <= EXACT);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number within EXACT"
    )]
    let from_float = || float.map(|float| float as i64);
    value.as_i64().or_else(from_float).map(Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_the_schema_rejects_is_omitted_and_all_others_stay() {
        let shown = json!({
            "cpu": 2.0, "giftCpu": "0", "memory": 2.5, "usedFlow": 1.5, "freeFlow": null,
            "imageName": "Ubuntu", "imageType": 7, "publicIpAddress": null,
            "supportSsh": true, "supportIpv6": "TRUE", "ifAttachable": null,
            "dataDiskInfoList": [{"dataDiskSize": "10", "snapshotNum": 1, "more": null}, null, "disk-1"],
            "secondaryPublicIpInfoList": ["203.0.113.7", null, {"ip": null}],
            "load": null, "expireTime": 5, "more": {"cpu": "2"},
        });
        let fitted = json!({
            "cpu": 2, "usedFlow": 1.5, "imageName": "Ubuntu", "supportSsh": true,
            "dataDiskInfoList": [{"snapshotNum": 1, "more": null}],
            "secondaryPublicIpInfoList": ["203.0.113.7", {"ip": null}],
            "load": null, "expireTime": 5, "more": {"cpu": "2"},
        });
        let shown = shown.as_object().unwrap();
        assert_eq!(Value::Object(fitting(shown)), fitted);
        assert_eq!(
            fitting(fitted.as_object().unwrap()),
            *fitted.as_object().unwrap()
        );
    }
}
