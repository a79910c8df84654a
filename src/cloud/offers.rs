//! The lists of the service, row by row.
//!
//! Rows are read leniently: every field but the identifier may be missing or malformed. A row without an identifier is counted
//! and dropped, since it can neither be chosen nor be distinguished from others.

use serde_json::{Map, Value};

use super::answer::word;
use super::cloud_call::CloudCall;
use super::ids::Place;

/// A list of the service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// Field note 8: the regions and their zones, in one answer. A region that is sold out may be missing.
    Regions,
    /// Section 4.8: the packages of a region, or of one of its zones, in one answer.
    Packages {
        region: String,
        zone: Option<String>,
    },
    /// Section 4.6: the images of a region.
    Images { region: String },
    /// Section 4.5: the security groups of a region.
    Firewalls { region: String },
    /// Section 4.7: the key pairs of the account.
    Keys,
    /// Field note 7: the servers of a zone.
    Servers(Place),
}

impl List {
    /// The call, the list in messages, and the fields of a row that contain its identifier and its name.
    fn properties(&self) -> (CloudCall, &'static str, &'static str, &'static str) {
        use CloudCall as Call;
        match self {
            Self::Regions => (Call::Regions, "regions", "regionCode", "regionName"),
            Self::Packages { .. } => (Call::Packages, "packages", "packageCode", "packageName"),
            Self::Images { .. } => (Call::Images, "images", "imageResourceUUID", "imageName"),
            Self::Firewalls { .. } => {
                let name = "security groups";
                (Call::Firewalls, name, "firewallUUID", "firewallName")
            }
            Self::Keys => (Call::Keys, "key pairs", "sshKeyUUID", "sshKeyName"),
            Self::Servers(_) => (
                Call::Instances,
                "servers",
                "ecsResourceUUID",
                "instanceName",
            ),
        }
    }

    pub(super) fn call(&self) -> CloudCall {
        self.properties().0
    }

    /// The list in messages.
    pub fn name(&self) -> &'static str {
        self.properties().1
    }

    /// Region and zone of the request.
    pub(super) fn place(&self) -> (Option<&str>, Option<&str>) {
        match self {
            Self::Regions | Self::Keys => (None, None),
            Self::Images { region } | Self::Firewalls { region } => (Some(region), None),
            Self::Packages { region, zone } => (Some(region), zone.as_deref()),
            Self::Servers(Place { region, zone }) => (Some(region), Some(zone)),
        }
    }

    /// Whether the list arrives page by page.
    pub fn is_paged(&self) -> bool {
        !matches!(self, Self::Regions | Self::Packages { .. })
    }

    /// Memory for the known fields of a row, as a multiple of its text, in addition to the type itself. Two, since each text is
    /// kept once, and the identifier two more times while a list is assembled. Eight for regions: most of such a row is zones,
    /// whose codes are short.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Regions => 8,
            _ => 2,
        }
    }
}

/// An identifier or code, and its name if the service lists one.
pub type IdAndName = (String, Option<String>);

/// A row of one of the service's lists. It has the fields that its list has; the others are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offer {
    /// The identifier, or the code of a region, zone or package.
    pub id: String,
    pub name: Option<String>,
    /// The zones of a region.
    pub zones: Vec<IdAndName>,
    /// `regionCode` and `zoneCode` of a package.
    pub region: Option<String>,
    pub zone: Option<String>,
    /// `imageType` of an image.
    pub kind: Option<String>,
    /// `osDistroVersion` of an image.
    pub distribution: Option<String>,
    /// `publicIpChargeMode` of a package.
    pub charge_mode: Option<String>,
    /// The figures of a package (specification section 2.8). As far as known, sizes are in GiB, bandwidth in Mbit/s and free
    /// traffic in GB.
    pub cpu: Option<u64>,
    pub memory: Option<u64>,
    pub system_disk: Option<u64>,
    /// Absent on packages without a data disk.
    pub data_disk: Option<u64>,
    /// On packages that are charged by bandwidth.
    pub bandwidth: Option<u64>,
    /// On packages that are charged by traffic.
    pub free_flow: Option<u64>,
    /// The row with the service's field names; empty unless the client keeps whole rows.
    pub fields: Map<String, Value>,
}

impl Offer {
    /// Reads a row; none without an identifier.
    pub fn read(list: &List, row: &Map<String, Value>) -> Option<Self> {
        let (_, _, id, name) = list.properties();
        let number = |field| word(row, field)?.parse().ok();
        Some(Self {
            id: word(row, id)?,
            name: word(row, name),
            zones: zones(row),
            region: word(row, "regionCode"),
            zone: word(row, "zoneCode"),
            kind: word(row, "imageType"),
            distribution: word(row, "osDistroVersion"),
            charge_mode: word(row, "publicIpChargeMode"),
            cpu: number("cpu"),
            memory: number("memory"),
            system_disk: number("systemDiskSize"),
            data_disk: number("dataDiskSize"),
            bandwidth: number("bandwidth"),
            free_flow: number("freeFlow"),
            fields: Map::new(),
        })
    }

    pub fn named(&self) -> IdAndName {
        (self.id.clone(), self.name.clone())
    }
}

/// The zones in the row of a region.
fn zones(row: &Map<String, Value>) -> Vec<IdAndName> {
    let zones = row.get("zones").and_then(Value::as_array);
    let zones = zones.into_iter().flatten().filter_map(Value::as_object);
    let named = |zone| Some((word(zone, "zoneCode")?, word(zone, "zoneName")));
    zones.filter_map(named).collect()
}
