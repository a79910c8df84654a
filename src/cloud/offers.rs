//! The lists of the service, row by row: regions, packages, images, security groups, key pairs; and servers, for callers that
//! need whole rows.
//!
//! Rows are read leniently: every field but the identifier may be missing or malformed. A row without an identifier is counted
//! and dropped, since it can neither be chosen nor be distinguished from others.

use serde_json::{Map, Value};

use super::answer::word;
use super::budget::{Charge, Share};
use super::decode::{self, Unfit};
use super::ids::ServerId;
use super::wire::{Detail, hide};

/// The rows of one answer.
#[derive(Debug)]
pub struct Offers<T> {
    /// The readable rows, in the service's order.
    pub rows: Vec<T>,
    /// The number of unreadable rows.
    pub unreadable: usize,
    /// `rowCount`. The specification does not define whether it counts the page or the whole list.
    pub row_count: Option<u64>,
    /// Their share of the memory for listings.
    pub charge: Option<Charge>,
}

/// A row of one of the service's lists.
pub trait Offer: Sized + Send + Sync {
    /// The field of the list in an answer.
    const LIST: &'static str;

    /// Memory of its known fields, as a multiple of the row's text, in addition to the type itself. Two, since each text is
    /// kept once, and the identifier two more times while a list is assembled.
    const KEPT: usize = 2;

    /// Reads a row; none without an identifier.
    fn read(fields: &Map<String, Value>) -> Option<Self>;

    /// Keeps all fields of the row.
    fn keep(&mut self, fields: Map<String, Value>);

    fn id(&self) -> &str;

    /// The row with the service's field names; empty unless the client keeps whole rows.
    fn fields(&self) -> &Map<String, Value>;
}

/// The parts that all kinds of rows share: the name of their list, the field of their identifier, and their whole content.
macro_rules! offer {
    ($kind:ident, $list:literal, $id:ident $(, $kept:literal)?) => {
        impl Offer for $kind {
            const LIST: &'static str = $list;
            $(const KEPT: usize = $kept;)?

            fn read(fields: &Map<String, Value>) -> Option<Self> {
                Self::of(fields)
            }

            fn keep(&mut self, fields: Map<String, Value>) {
                self.fields = fields;
            }

            fn id(&self) -> &str {
                &self.$id
            }

            fn fields(&self) -> &Map<String, Value> {
                &self.fields
            }
        }
    };
}

/// Collects the rows of a list as they arrive.
pub(super) struct Collected<'a, T> {
    offers: Offers<T>,
    share: Share,
    /// A text that no row may contain.
    secret: &'a str,
    whole: bool,
}

/// Memory of a whole row, as a multiple of its text: each short field costs a map entry.
const WHOLE: usize = 8;

impl<'a, T: Offer> Collected<'a, T> {
    pub(super) fn new(share: Share, secret: &'a str, whole: bool) -> Self {
        let offers = Offers {
            rows: Vec::new(),
            unreadable: 0,
            row_count: None,
            charge: None,
        };
        Self {
            offers,
            share,
            secret,
            whole,
        }
    }

    /// Adds a row, and takes memory for it. No text that is kept of it is longer than the row.
    pub(super) fn take(&mut self, text: &[u8]) -> Result<(), Unfit> {
        let Some(mut fields) = decode::fields(text)? else {
            self.offers.unreadable += 1;
            return Ok(());
        };
        hide(&mut fields, &[self.secret]);
        let Some(mut row) = T::read(&fields) else {
            self.offers.unreadable += 1;
            return Ok(());
        };
        let copies = if self.whole { WHOLE } else { T::KEPT };
        // Twice the row itself, since the list grows by doubling.
        let charge = self
            .share
            .charge(copies * text.len() + 2 * size_of::<T>())?;
        match &mut self.offers.charge {
            Some(all) => all.join(charge),
            none => *none = Some(charge),
        }
        if self.whole {
            row.keep(fields);
        }
        self.offers.rows.push(row);
        Ok(())
    }

    pub(super) fn offers(self, row_count: Option<u64>) -> Offers<T> {
        Offers {
            row_count,
            ..self.offers
        }
    }
}

impl Offers<Package> {
    /// Keeps only the packages of one zone. A service that ignores the query's parameters returns those of all zones, and the
    /// same code may denote another package elsewhere. A row without a place counts as belonging to the requested place.
    pub fn within(mut self, region: &str, zone: Option<&str>) -> Self {
        let all = self.rows.len();
        let is =
            |shown: Option<&str>, requested: &str| shown.is_none_or(|shown| shown == requested);
        self.rows.retain(|row| {
            let in_zone = zone.is_none_or(|zone| is(row.zone.as_deref(), zone));
            is(row.region.as_deref(), region) && in_zone
        });
        if self.rows.len() < all {
            // The count included the dropped rows.
            self.row_count = None;
        }
        self
    }
}

fn number(fields: &Map<String, Value>, key: &str) -> Option<u64> {
    word(fields, key)?.parse().ok()
}

/// A region (field note 8).
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// `regionCode`.
    pub code: String,
    /// `regionName`.
    pub name: Option<String>,
    pub zones: Vec<Zone>,
    fields: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// `zoneCode`.
    pub code: String,
    /// `zoneName`.
    pub name: Option<String>,
}

// A zone has its own type, and zones with short codes make up most of a row.
offer!(Region, "regions", code, 8);

impl Region {
    fn of(fields: &Map<String, Value>) -> Option<Self> {
        let zone = |zone: &Value| {
            let zone = zone.as_object()?;
            Some(Zone {
                code: word(zone, "zoneCode")?,
                name: word(zone, "zoneName"),
            })
        };
        let zones = fields.get("zones").and_then(Value::as_array);
        Some(Self {
            code: word(fields, "regionCode")?,
            name: word(fields, "regionName"),
            zones: zones.into_iter().flatten().filter_map(zone).collect(),
            fields: Map::new(),
        })
    }
}

/// A package (specification section 2.8). As far as known, sizes are in GiB, bandwidth in Mbit/s and free traffic in GB.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    /// `packageCode`.
    pub code: String,
    /// `regionCode`.
    pub region: Option<String>,
    /// `zoneCode`.
    pub zone: Option<String>,
    /// `cpu`.
    pub cpu: Option<u64>,
    /// `memory`.
    pub memory: Option<u64>,
    /// `systemDiskSize`.
    pub system_disk: Option<u64>,
    /// `dataDiskSize`; absent on packages without a data disk.
    pub data_disk: Option<u64>,
    /// `publicIpChargeMode`.
    pub charge_mode: Option<String>,
    /// `bandwidth`, on packages that are charged by bandwidth.
    pub bandwidth: Option<u64>,
    /// `freeFlow`, on packages that are charged by traffic.
    pub free_flow: Option<u64>,
    fields: Map<String, Value>,
}

offer!(Package, "packages", code);

impl Package {
    fn of(fields: &Map<String, Value>) -> Option<Self> {
        Some(Self {
            code: word(fields, "packageCode")?,
            region: word(fields, "regionCode"),
            zone: word(fields, "zoneCode"),
            cpu: number(fields, "cpu"),
            memory: number(fields, "memory"),
            system_disk: number(fields, "systemDiskSize"),
            data_disk: number(fields, "dataDiskSize"),
            charge_mode: word(fields, "publicIpChargeMode"),
            bandwidth: number(fields, "bandwidth"),
            free_flow: number(fields, "freeFlow"),
            fields: Map::new(),
        })
    }
}

/// An image (specification section 2.6).
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// `imageResourceUUID`.
    pub id: String,
    /// `imageName`.
    pub name: Option<String>,
    /// `imageType`.
    pub kind: Option<String>,
    /// `osDistroVersion`.
    pub distribution: Option<String>,
    fields: Map<String, Value>,
}

offer!(Image, "images", id);

impl Image {
    fn of(fields: &Map<String, Value>) -> Option<Self> {
        Some(Self {
            id: word(fields, "imageResourceUUID")?,
            name: word(fields, "imageName"),
            kind: word(fields, "imageType"),
            distribution: word(fields, "osDistroVersion"),
            fields: Map::new(),
        })
    }
}

/// A security group (specification section 2.5).
#[derive(Clone, Debug, PartialEq)]
pub struct Firewall {
    /// `firewallUUID`.
    pub id: String,
    /// `firewallName`.
    pub name: Option<String>,
    fields: Map<String, Value>,
}

offer!(Firewall, "firewalls", id);

impl Firewall {
    fn of(fields: &Map<String, Value>) -> Option<Self> {
        Some(Self {
            id: word(fields, "firewallUUID")?,
            name: word(fields, "firewallName"),
            fields: Map::new(),
        })
    }
}

/// A key pair (specification section 2.7).
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// `sshKeyUUID`.
    pub id: String,
    /// `sshKeyName`.
    pub name: Option<String>,
    fields: Map<String, Value>,
}

offer!(Key, "sshKeys", id);

impl Key {
    fn of(fields: &Map<String, Value>) -> Option<Self> {
        Some(Self {
            id: word(fields, "sshKeyUUID")?,
            name: word(fields, "sshKeyName"),
            fields: Map::new(),
        })
    }
}

/// A server in a listing. The fields of its row other than the identifier are not known (field note 7).
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// `ecsResourceUUID`.
    pub id: ServerId,
    /// `instanceName`.
    pub name: Option<String>,
    fields: Map<String, Value>,
}

impl Server {
    /// Adds the fields of the server's detail, which is complete.
    #[must_use]
    pub fn with_detail(self, detail: Detail) -> Self {
        let mut fields = self.fields;
        fields.extend(detail.fields);
        Self { fields, ..self }
    }
}

impl Offer for Server {
    const LIST: &'static str = "instances";

    fn keep(&mut self, fields: Map<String, Value>) {
        self.fields = fields;
    }

    fn read(fields: &Map<String, Value>) -> Option<Self> {
        Some(Self {
            id: ServerId::from(word(fields, "ecsResourceUUID")?),
            name: word(fields, "instanceName"),
            fields: Map::new(),
        })
    }

    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budget;
    use super::*;
    use serde_json::json;

    /// Collects these rows.
    fn collected<T: Offer>(rows: &[Value], secret: &str) -> Offers<T> {
        let mut collected = Collected::new(Budget::default().share(""), secret, true);
        for row in rows {
            collected.take(row.to_string().as_bytes()).unwrap();
        }
        collected.offers(Some(5))
    }

    #[test]
    fn one_odd_field_or_row_does_not_cost_the_others() {
        let rows = [
            json!({"packageCode": "a", "cpu": "2", "memory": 4, "systemDiskSize": null, "token": "t", "note": "is tok"}),
            json!({"cpu": 1}),
            json!("odd"),
        ];
        let offers = collected::<Package>(&rows, "tok");
        assert_eq!((offers.rows.len(), offers.unreadable), (1, 2));
        assert_eq!(offers.row_count, Some(5));
        let package = &offers.rows[0];
        assert_eq!(
            (package.cpu, package.memory, package.system_disk),
            (Some(2), Some(4), None)
        );
        assert_eq!(
            package.fields().get("token"),
            None,
            "no secret is carried on"
        );
        assert_eq!(package.fields()["note"], "is [redacted]");
    }

    #[test]
    fn packages_of_other_zones_are_none_of_this_one() {
        let rows = [
            json!({"packageCode": "same", "regionCode": "r", "zoneCode": "other", "cpu": 1}),
            json!({"packageCode": "same", "regionCode": "r", "zoneCode": "z", "cpu": 2}),
            json!({"packageCode": "silent"}),
            json!({"packageCode": "far", "regionCode": "elsewhere", "zoneCode": "z"}),
            json!({"packageCode": "wide", "regionCode": "r"}),
        ];
        let offers = || collected::<Package>(&rows, "");
        let codes = |offers: &Offers<Package>| -> Vec<String> {
            offers.rows.iter().map(|row| row.code.clone()).collect()
        };
        let here = offers().within("r", Some("z"));
        assert_eq!(codes(&here), ["same", "silent", "wide"]);
        assert_eq!((here.rows[0].cpu, here.row_count), (Some(2), None));
        assert_eq!(codes(&offers().within("r", None)).len(), 4);
        let all = offers().within("elsewhere", Some("z"));
        assert_eq!(codes(&all), ["silent", "far"]);
    }

    #[test]
    fn a_row_takes_room_until_it_is_dropped_and_is_whole_only_where_it_is_shown() {
        let row =
            json!({"imageResourceUUID": "img-1", "imageName": "x", "more": [1, 2, 3]}).to_string();
        let share = Budget::default().share("");
        for (whole, at_least) in [(false, row.len()), (true, 8 * row.len())] {
            let mut collected = Collected::<Image>::new(share.clone(), "", whole);
            collected.take(row.as_bytes()).unwrap();
            let offers = collected.offers(None);
            assert_eq!(offers.rows[0].fields().is_empty(), !whole);
            assert!(share.kept() > at_least, "{}", share.kept());
            drop(offers);
            assert_eq!(share.kept(), 0);
        }
    }

    #[test]
    fn a_region_has_its_zones() {
        let row = json!({"regionCode": "r", "regionName": "Moscow",
            "zones": [{"zoneCode": "z", "zoneName": "A"}, {"zoneName": "nameless"}, 7]});
        let region = Region::read(row.as_object().unwrap()).unwrap();
        assert_eq!(region.zones.len(), 1);
        assert_eq!(region.zones[0].name.as_deref(), Some("A"));
    }
}
