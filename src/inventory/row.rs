//! One server as a listing shows it, kept small, since the rows of the two newest passes of every zone are in memory.

use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::api::Marker;
use crate::cloud::{ImageId, NoMemory, RowMemory, ServerFields, ServerId};

/// Fields with an address of the server: the public one, and that in a private network.
const ADDRESSES: [&str; 2] = ["publicIpAddress", "internalIpAddress"];

/// The longest text that is kept of a row, in bytes: a name of 64 characters of four bytes each. A longer text counts as
/// missing: a long name is not searched for a marker, and a long state is not known.
const LONGEST_TEXT: usize = 256;

/// Memory for the references to a row: in the pass by id and by marker, in the latest page, and its reference counts.
const REFERENCES: usize = 128;

/// One server of a listing. It keeps only the fields that are used; the digest covers every compared field.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// `ecsResourceUUID`.
    pub id: ServerId,
    /// `instanceName`.
    pub name: Option<Box<str>>,
    /// `ecsStatus`.
    pub status: Option<Box<str>>,
    /// `ecsPendingStatus`.
    pub pending: Option<Box<str>>,
    /// `expireTime`, if rows carry it.
    pub expires: Option<Box<str>>,
    /// `imageResourceUUID`, if rows carry it.
    pub image: Option<ImageId>,
    /// `publicIpAddress` and `internalIpAddress`, if rows carry them.
    pub addresses: [Option<IpAddr>; 2],
    /// The marker in the name.
    pub marker: Option<Marker>,
    /// The compared fields that the row has.
    compared: ServerFields,
    /// Their digest, a number that differs if one of these fields differs.
    pub digest: u64,
    paid: Paid,
}

/// The memory that is charged for a row. It is no part of the row's value.
#[derive(Debug, Default)]
struct Paid {
    _charge: Option<RowMemory>,
}

impl PartialEq for Paid {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Paid {}

impl Row {
    /// Parses a row. Returns None without an id; every other field may be missing or malformed.
    pub(super) fn read(fields: &Map<String, Value>) -> Option<Self> {
        let text = |key: &str| {
            fields
                .get(key)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty() && text.len() <= LONGEST_TEXT)
        };
        let id = ServerId::from(text("ecsResourceUUID")?);
        let name = text("instanceName").map(Box::from);
        let compared = ServerFields::of(fields);
        Some(Self {
            id,
            marker: name.as_deref().and_then(Marker::in_name),
            name,
            status: text("ecsStatus").map(Box::from),
            pending: text("ecsPendingStatus").map(Box::from),
            expires: text("expireTime").map(Box::from),
            image: text("imageResourceUUID").map(ImageId::from),
            addresses: addresses(fields),
            compared,
            digest: compared.digest(fields),
            paid: Paid::default(),
        })
    }

    /// Charges the memory of the row; fails if there is not enough.
    pub(super) fn charged(
        mut self,
        charge: impl FnOnce(usize) -> Result<Option<RowMemory>, NoMemory>,
    ) -> Result<Self, NoMemory> {
        // The allocator's minimum and its rounding.
        let text = |text: &str| text.len() + 16;
        let of = |part: &Option<Box<str>>| part.as_deref().map_or(0, text);
        let image = self.image.as_ref().map_or(0, |image| text(image.as_str()));
        let texts = text(self.id.as_str())
            + of(&self.name)
            + of(&self.status)
            + of(&self.pending)
            + of(&self.expires);
        let paid = charge(size_of::<Self>() + REFERENCES + texts + image)?;
        self.paid = Paid { _charge: paid };
        Ok(self)
    }

    /// Whether a detail agrees with this row in every compared field that the row has. A field that the detail lacks counts as
    /// null.
    pub fn agrees_with(&self, detail: &Map<String, Value>) -> bool {
        self.compared.digest(detail) == self.digest
    }

    /// Whether the row has this address. None if the row shows no address, or lacks the field that would contain this one.
    pub fn has_address(&self, address: IpAddr) -> Option<bool> {
        if self.addresses.contains(&Some(address)) {
            return Some(true);
        }
        let field = ADDRESSES[usize::from(is_private(address))];
        let shows_any = self.addresses.iter().any(Option::is_some);
        (shows_any && self.compared.contains(field)).then_some(false)
    }

    /// Whether the row shows state and image. If not, only the detail shows their changes.
    pub fn shows_enough(&self) -> bool {
        self.status.is_some() && self.image.is_some()
    }
}

/// Whether the address belongs to a private network.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

/// The addresses in a row or a detail, as far as they can be parsed.
pub fn addresses(fields: &Map<String, Value>) -> [Option<IpAddr>; 2] {
    ADDRESSES.map(|field| fields.get(field)?.as_str()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(value: &Value) -> Option<Row> {
        Row::read(value.as_object().unwrap())
    }

    #[test]
    fn a_row_needs_an_id_and_every_other_field_may_be_malformed() {
        assert!(row(&json!({"instanceName": "x"})).is_none());
        assert!(row(&json!({"ecsResourceUUID": ""})).is_none());
        assert!(row(&json!({"ecsResourceUUID": 7})).is_none());
        let bad = row(&json!({"ecsResourceUUID": "ecs-1", "instanceName": 7, "ecsStatus": null, "cpu": "two"})).unwrap();
        assert_eq!((bad.name, bad.status, bad.marker), (None, None, None));
    }

    #[test]
    fn a_detail_agrees_when_the_fields_of_the_row_are_the_same() {
        let row = row(&json!({
            "ecsResourceUUID": "ecs-1", "instanceName": "web", "cpu": 2, "usedFlow": 1.5,
            "dataDiskInfoList": [], "publicIpAddress": null, "cpuLoad": 7,
        }))
        .unwrap();
        let mut detail = json!({
            "cpu": 2.0, "ecsResourceUUID": "ecs-1", "instanceName": "web", "usedFlow": 99,
            "dataDiskInfoList": [], "memory": 4, "cpuLoad": 93,
        });
        assert!(row.agrees_with(detail.as_object().unwrap()));
        detail["cpu"] = json!(4);
        assert!(!row.agrees_with(detail.as_object().unwrap()));
    }

    #[test]
    fn a_row_agrees_with_a_status_that_dropped_values_of_another_type() {
        let served = json!({
            "ecsResourceUUID": "ecs-1", "cpu": "2", "memory": 2.5, "supportIpv6": "TRUE", "limitFlow": false, "imageName": 7,
            "bandwidth": 5.0, "secondaryPublicIpInfoList": "203.0.113.9",
            "dataDiskInfoList": [{"dataDiskResourceUUID": "disk-1", "dataDiskSize": "10"}, null, "disk-2"],
        });
        let mut kept = crate::api::detail::fitting(served.as_object().unwrap());
        assert!(!kept.contains_key("cpu"));
        let row = row(&served).unwrap();
        assert!(row.agrees_with(&kept));
        assert!(row.agrees_with(served.as_object().unwrap()));
        kept.insert("bandwidth".into(), json!(6));
        assert!(!row.agrees_with(&kept));
    }

    #[test]
    fn an_address_is_known_only_if_the_row_shows_one() {
        let has = |fields: Value, address: &str| {
            let mut fields = fields;
            fields["ecsResourceUUID"] = json!("ecs-1");
            row(&fields).unwrap().has_address(address.parse().unwrap())
        };
        let both = json!({"publicIpAddress": "203.0.113.7", "internalIpAddress": "10.0.0.4"});
        assert_eq!(has(both.clone(), "203.0.113.7"), Some(true));
        assert_eq!(has(both.clone(), "10.0.0.4"), Some(true));
        assert_eq!(has(both, "10.0.0.5"), Some(false));
        let inside_left_out = json!({"publicIpAddress": "203.0.113.7"});
        assert_eq!(has(inside_left_out.clone(), "10.0.0.4"), None);
        assert_eq!(has(inside_left_out, "203.0.113.8"), Some(false));
        let inside_empty = json!({"publicIpAddress": "203.0.113.7", "internalIpAddress": ""});
        assert_eq!(has(inside_empty, "10.0.0.4"), Some(false));
        let six = json!({"publicIpAddress": "2001:DB8:0::1"});
        assert_eq!(has(six, "2001:db8::1"), Some(true));
        for none in [
            json!({}),
            json!({"publicIpAddress": ""}),
            json!({"publicIpAddress": 7}),
        ] {
            assert_eq!(has(none, "10.0.0.4"), None);
        }
    }
}
