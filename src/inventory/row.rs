//! One server as a listing shows it, kept small: ten thousand of them, twice, are held in memory.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::api::Marker;
use crate::cloud::{Charge, ImageId, NoMemory, ServerId};

/// Fields that move by themselves: the traffic counter of a quiet server is no change of it.
const SELF_MOVING: [&str; 1] = ["usedFlow"];

/// Fields with an address of the server.
const ADDRESSES: [&str; 2] = ["publicIpAddress", "internalIpAddress"];

/// The longest text that is kept of a row: four times a name of 64 letters that take four bytes each. A longer one counts as
/// missing: a name as one that cannot be looked at, a state as one that is not told.
const LONGEST_TEXT: usize = 256;

/// Most fields whose names are kept, and the longest such name: an instance of the specification has 38. A row with more agrees
/// with no detail, which is then asked for.
const MOST_KEYS: usize = 128;
const LONGEST_KEY: usize = 64;

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
    /// `imageResourceUUID`, if rows carry it.
    pub image: Option<ImageId>,
    /// `publicIpAddress` and `internalIpAddress`, if rows carry them.
    pub addresses: [Option<IpAddr>; 2],
    /// The marker in the name.
    pub marker: Option<Marker>,
    digest: u64,
    /// The names of its fields, as long as there are not too many sorts of rows.
    keys: Option<Keys>,
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

/// The names of a row's fields, sorted; rows share them.
type Keys = Arc<[Box<str>]>;

impl Row {
    /// Reads a row. Without an id it is none; every other field may be missing or odd.
    pub(super) fn read(fields: &Map<String, Value>, keys: &mut KeySets) -> Option<Self> {
        let text = |key: &str| {
            fields
                .get(key)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty() && text.len() <= LONGEST_TEXT)
        };
        let id = ServerId::from(text("ecsResourceUUID")?);
        let name = text("instanceName").map(Box::from);
        let mut present: Vec<&str> = fields
            .keys()
            .map(String::as_str)
            .filter(|key| !SELF_MOVING.contains(key))
            .collect();
        present.sort_unstable();
        Some(Self {
            id,
            marker: name.as_deref().and_then(Marker::in_name),
            name,
            status: text("ecsStatus").map(Box::from),
            pending: text("ecsPendingStatus").map(Box::from),
            image: text("imageResourceUUID").map(ImageId::from),
            addresses: addresses(fields),
            digest: digest(present.iter().copied(), fields),
            keys: keys.share(&present),
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
        let texts = text(self.id.as_str()) + of(&self.name) + of(&self.status) + of(&self.pending);
        let paid = charge(size_of::<Self>() + PLACES + texts + image)?;
        Ok(Self {
            paid: Paid { _room: paid },
            ..self
        })
    }

    /// Whether a detail object says the same as this row in every field that the row had. A field that the detail
    /// lacks counts as null, and what moves by itself does not count.
    pub fn agrees_with(&self, detail: &Map<String, Value>) -> bool {
        let keys = self.keys.iter();
        keys.into_iter()
            .any(|keys| digest(keys.iter().map(AsRef::as_ref), detail) == self.digest)
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
        let mut keys = self.keys.iter().flat_map(|keys| keys.iter());
        let is_told = keys.any(|key| **key == *field);
        let tells_any = self.addresses.iter().any(Option::is_some);
        (tells_any && is_told).then_some(false)
    }

    /// Whether it shows the state and the image: otherwise their changes show in the detail alone.
    pub fn tells_enough(&self) -> bool {
        self.status.is_some() && self.image.is_some()
    }

    /// A number that differs when a field differs.
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

/// Key sets that were seen, so that rows share them: listings have one or two.
#[derive(Debug, Default)]
pub(super) struct KeySets(Vec<Keys>);

impl KeySets {
    /// As many as are kept. Rows of any further sort agree with no detail.
    const KEPT: usize = 8;

    /// Starts with the sets that rows of a former pass had.
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a Arc<Row>>) -> Self {
        let mut sets = Self::default();
        for keys in rows.filter_map(|row| row.keys.as_ref()) {
            if sets.0.len() == Self::KEPT {
                break;
            }
            if !sets.0.iter().any(|known| Arc::ptr_eq(known, keys)) {
                sets.0.push(keys.clone());
            }
        }
        sets
    }

    fn share(&mut self, keys: &[&str]) -> Option<Keys> {
        let same = |known: &&Keys| known.iter().map(AsRef::as_ref).eq(keys.iter().copied());
        if let Some(known) = self.0.iter().find(same) {
            return Some(known.clone());
        }
        let is_usual = keys.len() <= MOST_KEYS && keys.iter().all(|key| key.len() <= LONGEST_KEY);
        if self.0.len() == Self::KEPT || !is_usual {
            return None;
        }
        let fresh: Keys = keys.iter().map(|key| Box::from(*key)).collect();
        self.0.push(fresh.clone());
        Some(fresh)
    }
}

/// Digest of some fields, their keys in sorted order.
fn digest<'a>(keys: impl Iterator<Item = &'a str>, fields: &Map<String, Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for key in keys {
        key.hash(&mut hasher);
        hash_value(fields.get(key).unwrap_or(&Value::Null), &mut hasher);
    }
    hasher.finish()
}

/// Numbers go in as floating point, so that `2` and `2.0` are one value; the order of an object's keys does not count.
fn hash_value(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Null => 0u8.hash(hasher),
        Value::Bool(bool) => (1u8, bool).hash(hasher),
        Value::Number(number) => (2u8, number.as_f64().unwrap_or_default().to_bits()).hash(hasher),
        Value::String(text) => (3u8, text).hash(hasher),
        Value::Array(items) => {
            (4u8, items.len()).hash(hasher);
            items.iter().for_each(|item| hash_value(item, hasher));
        }
        Value::Object(fields) => {
            (5u8, fields.len()).hash(hasher);
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            for key in keys {
                key.hash(hasher);
                hash_value(&fields[key], hasher);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(value: &Value) -> Option<Row> {
        Row::read(value.as_object().unwrap(), &mut KeySets::default())
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
            "disks": [{"a": 1, "b": null}], "gone": null,
        }))
        .unwrap();
        let mut detail = json!({
            "cpu": 2.0, "ecsResourceUUID": "ecs-1", "instanceName": "web", "usedFlow": 99,
            "disks": [{"b": null, "a": 1}], "memory": 4,
        });
        assert!(row.agrees_with(detail.as_object().unwrap()));
        detail["cpu"] = json!(4);
        assert!(!row.agrees_with(detail.as_object().unwrap()));
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

    #[test]
    fn traffic_alone_is_no_change() {
        let with = |flow: f64| {
            row(&json!({"ecsResourceUUID": "ecs-1", "usedFlow": flow}))
                .unwrap()
                .digest()
        };
        assert_eq!(with(1.0), with(2.0));
    }

    #[test]
    fn rows_share_their_key_sets_and_the_number_of_sets_is_bounded() {
        let mut keys = KeySets::default();
        let read =
            |value: Value, keys: &mut KeySets| Row::read(value.as_object().unwrap(), keys).unwrap();
        let one = read(json!({"ecsResourceUUID": "a", "cpu": 1}), &mut keys);
        let two = read(json!({"cpu": 2, "ecsResourceUUID": "b"}), &mut keys);
        assert!(Arc::ptr_eq(
            one.keys.as_ref().unwrap(),
            two.keys.as_ref().unwrap()
        ));
        for n in 0..100 {
            read(
                json!({"ecsResourceUUID": "c", format!("odd{n}"): 1}),
                &mut keys,
            );
        }
        assert_eq!(keys.0.len(), KeySets::KEPT);
    }
}
