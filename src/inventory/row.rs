//! One server as a listing shows it, kept small: ten thousand of them, twice, are held in memory.

use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::api::Marker;
use crate::cloud::{Charge, ImageId, NoMemory, ServerFields, ServerId};

/// Fields with an address of the server.
const ADDRESSES: [&str; 2] = ["publicIpAddress", "internalIpAddress"];

/// The longest text that is kept of a row: four times a name of 64 letters that take four bytes each. A longer one counts as
/// missing: a name as one that cannot be looked at, a state as one that is not told.
const LONGEST_TEXT: usize = 256;

/// What a row takes where it stands: in the pass by its id and by its marker, in the latest page, and counted by reference.
const PLACES: usize = 128;

/// One server of a listing. Only what is looked at is kept; the rest is in the digest.
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
    /// Which of the compared fields it has, and their digest.
    compared: ServerFields,
    digest: u64,
    paid: Paid,
}

/// The room that a row takes. It is no part of what the row says.
#[derive(Debug, Default)]
struct Paid {
    _room: Option<Charge>,
}

impl PartialEq for Paid {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Paid {}

impl Row {
    /// Reads a row. Without an id it is none; every other field may be missing or odd.
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

    /// The row, once there is room for it.
    pub(super) fn charged(
        self,
        charge: impl FnOnce(usize) -> Result<Option<Charge>, NoMemory>,
    ) -> Result<Self, NoMemory> {
        // What the allocator gives at least, and what it rounds up to.
        let text = |text: &str| text.len() + 16;
        let of = |part: &Option<Box<str>>| part.as_deref().map_or(0, text);
        let image = self.image.as_ref().map_or(0, |image| text(image.as_str()));
        let texts = text(self.id.as_str())
            + of(&self.name)
            + of(&self.status)
            + of(&self.pending)
            + of(&self.expires);
        let paid = charge(size_of::<Self>() + PLACES + texts + image)?;
        Ok(Self {
            paid: Paid { _room: paid },
            ..self
        })
    }

    /// Whether a detail object agrees with this row in every compared field that the row had. A field that the detail lacks
    /// counts as null.
    pub fn agrees_with(&self, detail: &Map<String, Value>) -> bool {
        self.compared.digest(detail) == self.digest
    }

    /// Whether one of its addresses is this; none where the row tells no address, or leaves out the one that it could be.
    pub fn has_address(&self, address: IpAddr) -> Option<bool> {
        if self.addresses.contains(&Some(address)) {
            return Some(true);
        }
        let [public, internal] = ADDRESSES;
        let field = if is_private(address) {
            internal
        } else {
            public
        };
        let shows_any = self.addresses.iter().any(Option::is_some);
        (shows_any && self.compared.contains(field)).then_some(false)
    }

    /// Whether it shows the state and the image: otherwise their changes show in the detail alone.
    pub fn tells_enough(&self) -> bool {
        self.status.is_some() && self.image.is_some()
    }

    /// A number that differs when a compared field differs.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

/// Whether an address is of a private network, which no public address is.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

/// The addresses that a row or a detail tells, as far as they are any.
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
    fn a_row_without_an_id_is_none_and_every_other_field_may_be_odd() {
        assert!(row(&json!({"instanceName": "x"})).is_none());
        assert!(row(&json!({"ecsResourceUUID": ""})).is_none());
        assert!(row(&json!({"ecsResourceUUID": 7})).is_none());
        let odd = row(&json!({"ecsResourceUUID": "ecs-1", "instanceName": 7, "ecsStatus": null, "cpu": "two"})).unwrap();
        assert_eq!((odd.name, odd.status, odd.marker), (None, None, None));
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
    fn an_address_is_known_as_far_as_the_row_tells_one() {
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
