//! The catalogue of the service: regions and zones, packages, images, security groups and key pairs.
//!
//! The catalogue is the same for every seed and every account, so that examples can name codes. A test may add to the catalogue
//! of its own service, for the life of that service. Accounts share the security groups, key pairs and self-made images; each
//! account has its own instances.

mod generate;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use crate::time::Timestamp;

/// A region and its zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// For example `ru-moscow-1`.
    pub code: String,
    /// For example `Moscow`.
    pub name: String,
    /// The zones of the region.
    pub zones: Vec<Zone>,
}

/// A zone of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// For example `ru-moscow-1-a`.
    pub code: String,
    /// For example `Moscow Zone A`.
    pub name: String,
}

/// How the traffic of a package is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// `PayByTraffic`, with an amount of free traffic.
    Traffic {
        /// Free traffic, in GB a month.
        free_flow: u32,
    },
    /// `PayByBandwidth`, with a fixed bandwidth.
    Bandwidth {
        /// Mbit/s.
        bandwidth: u32,
    },
}

/// A package: the size of a server, in one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Encodes zone, size, disks and charge mode.
    pub code: String,
    /// The region that sells it.
    pub region: String,
    /// The zone that sells it.
    pub zone: String,
    /// Virtual processors.
    pub cpu: u32,
    /// GiB.
    pub memory: u32,
    /// GiB.
    pub system_disk: u32,
    /// GiB; `None` on packages without a data disk.
    pub data_disk: Option<u32>,
    /// How its traffic is charged.
    pub charge: Charge,
}

/// The kind of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// An operating system provided by the service.
    System,
    /// An image that a customer made from a snapshot.
    Own,
    /// An operating system with an application.
    Application,
}

impl ImageKind {
    /// The word on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::System => "System",
            Self::Own => "Self",
            Self::Application => "Application",
        }
    }

    /// The kind with this word on the wire.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::System, Self::Own, Self::Application]
            .into_iter()
            .find(|kind| kind.word() == word)
    }
}

/// An image, in one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// `img-…`
    pub id: String,
    /// For example `Ubuntu 24.04 LTS`.
    pub name: String,
    /// Operating system, self-made or application.
    pub kind: ImageKind,
    /// The region that has it.
    pub region: String,
    /// GiB.
    pub size: u32,
    /// `root` or `Administrator`.
    pub account: String,
    /// For example `Ubuntu`.
    pub distro: String,
    /// For example `24.04`.
    pub os_version: String,
    /// For example `Ubuntu 24.04 LTS 64-bit`.
    pub os_version_detail: String,
    /// `snp-…`, for images made by a customer.
    pub snapshot: Option<String>,
    /// Whether the system disk may be larger than the image.
    pub resizable: bool,
    /// Whether IPv6 works.
    pub ipv6: bool,
    /// Whether key pairs work.
    pub ssh: bool,
}

/// A security group, in one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firewall {
    /// `fw-…`
    pub id: String,
    /// For example `web-12`.
    pub name: String,
    /// Absent on some records.
    pub description: Option<String>,
    /// The region that has it.
    pub region: String,
    /// How many addresses may be bound to it.
    pub bind_allowance: u32,
    /// How many rules it has.
    pub rules: u32,
    /// Its creation time.
    pub created_at: Timestamp,
}

/// A key pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// `key-…`
    pub id: String,
    /// For example `laptop-3`.
    pub name: String,
    /// Its creation time.
    pub created_at: Timestamp,
}

/// Everything for sale, with its indices.
#[derive(Clone, Debug)]
pub struct Catalogue {
    regions: Vec<Region>,
    packages: Vec<Package>,
    images: Vec<Image>,
    firewalls: Vec<Firewall>,
    keys: Vec<Key>,
    package_by_code: HashMap<String, usize>,
    image_by_id: HashMap<String, usize>,
    firewall_by_id: HashMap<String, usize>,
    key_by_id: HashMap<String, usize>,
    withdrawn: HashSet<String>,
}

impl Catalogue {
    /// The shared catalogue, generated on first use.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<Catalogue>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| Arc::new(generate::catalogue())))
    }

    /// All regions.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The region with this code.
    #[must_use]
    pub fn region(&self, code: &str) -> Option<&Region> {
        self.regions.iter().find(|region| region.code == code)
    }

    /// The zone with this code, in the region with that code.
    #[must_use]
    pub fn zone(&self, region: &str, zone: &str) -> Option<&Zone> {
        self.region(region)?
            .zones
            .iter()
            .find(|each| each.code == zone)
    }

    /// All packages.
    #[must_use]
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The package with this code.
    #[must_use]
    pub fn package(&self, code: &str) -> Option<&Package> {
        self.package_by_code
            .get(code)
            .and_then(|at| self.packages.get(*at))
    }

    /// All images of all regions.
    #[must_use]
    pub fn images(&self) -> &[Image] {
        &self.images
    }

    /// The image with this id.
    #[must_use]
    pub fn image(&self, id: &str) -> Option<&Image> {
        self.image_by_id.get(id).and_then(|at| self.images.get(*at))
    }

    /// All security groups of all regions.
    #[must_use]
    pub fn firewalls(&self) -> &[Firewall] {
        &self.firewalls
    }

    /// The security group with this id.
    #[must_use]
    pub fn firewall(&self, id: &str) -> Option<&Firewall> {
        self.firewall_by_id
            .get(id)
            .and_then(|at| self.firewalls.get(*at))
    }

    /// Adds an image on behalf of the service: from now on it is listed and can be installed.
    pub fn add_image(&mut self, image: Image) {
        self.image_by_id.insert(image.id.clone(), self.images.len());
        self.images.push(image);
    }

    /// Stops listing an image, on behalf of the service. Servers that have it keep running and still show its name.
    pub fn withdraw_image(&mut self, id: &str) {
        self.withdrawn.insert(id.to_owned());
    }

    /// Whether an image is listed.
    #[must_use]
    pub fn is_listed(&self, image: &Image) -> bool {
        !self.withdrawn.contains(&image.id)
    }

    /// Adds a security group on behalf of the customer.
    pub fn add_firewall(&mut self, firewall: Firewall) {
        self.firewall_by_id
            .insert(firewall.id.clone(), self.firewalls.len());
        self.firewalls.push(firewall);
    }

    /// Adds a key pair on behalf of the customer.
    pub fn add_key(&mut self, key: Key) {
        self.key_by_id.insert(key.id.clone(), self.keys.len());
        self.keys.push(key);
    }

    /// All key pairs, newest first.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The key pair with this id.
    #[must_use]
    pub fn key(&self, id: &str) -> Option<&Key> {
        self.key_by_id.get(id).and_then(|at| self.keys.get(*at))
    }
}

/// Codes for examples and tests. They fit together and stay the same from release to release.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// A region.
    pub region: &'static str,
    /// A zone of the region.
    pub zone: &'static str,
    /// Another zone of the region.
    pub other_zone: &'static str,
    /// A package of the zone: 1 processor, 2 GiB, charged by traffic, without a data disk.
    pub package: &'static str,
    /// A package of the zone: 2 processors, 4 GiB, charged by bandwidth, with a data disk.
    pub other_package: &'static str,
    /// Ubuntu 24.04 in the region.
    pub image: &'static str,
    /// Debian 12 in the region.
    pub other_image: &'static str,
    /// Windows Server 2022 in the region.
    pub windows_image: &'static str,
    /// A security group of the region.
    pub firewall: &'static str,
    /// A key pair.
    pub key: &'static str,
}

/// The codes for examples and tests.
#[must_use]
pub const fn example() -> Example {
    Example {
        region: "ru-moscow-1",
        zone: "ru-moscow-1-a",
        other_zone: "ru-moscow-1-b",
        package: "ru-moscow-1-a-c1m2-s40-t1000",
        other_package: "ru-moscow-1-a-c2m4-s50-d100-b20",
        image: "img-ubuntu2404aa",
        other_image: "img-debian12aaaa",
        windows_image: "img-windows2022a",
        firewall: "fw-examplegroup2",
        key: "key-examplepair2",
    }
}
