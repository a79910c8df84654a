//! Servers: as the service stores them, as detail shows them, and as tests read them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::request::Verb;
use crate::catalogue::{Catalogue, Charge, Package};
use crate::mix;
use crate::readings::Readings;
use crate::secret::Secret;
use crate::time::Timestamp;

/// `ecsStatus`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Power {
    /// Not deployed yet.
    Creating,
    /// Powered on.
    Started,
    /// Powered off.
    Stopped,
    /// The service is moving it to another host.
    Migrating,
    /// The deployment failed and left a broken server, which can only be released.
    Broken,
}

impl Power {
    /// The word on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Creating => "CREATING",
            Self::Started => "STARTED",
            Self::Stopped => "STOPPED",
            Self::Migrating => "MIGRATING",
            Self::Broken => "ERROR",
        }
    }
}

/// A server, from its create on. The record of a released server is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Server {
    /// Its number in the order of creation.
    pub number: u64,
    /// `ecsResourceUUID`
    pub id: String,
    /// The account that owns it.
    pub account: String,
    /// `instanceName`
    pub name: String,
    /// Its region.
    pub region: String,
    /// Its zone.
    pub zone: String,
    /// Its package.
    pub package: String,
    /// The installed image.
    pub image: String,
    /// Its security group.
    pub firewall: String,
    /// The key pair for its login.
    pub key: Option<String>,
    /// The password for its login.
    pub password: Option<Secret>,
    /// `ecsStatus`
    pub power: Power,
    /// The task that runs on it.
    pub task: Option<u64>,
    /// The operation of that task.
    pub pending: Option<Verb>,
    /// When the create was accepted. Billing begins then.
    pub created_at: Timestamp,
    /// The time from which listings show it.
    pub visible_at: Timestamp,
    /// The time from which its public address is shown, once it is deployed.
    #[serde(default)]
    pub addressed_at: Timestamp,
    /// When the release completed. Billing ends then.
    pub released_at: Option<Timestamp>,
    /// How often its detail was read. `usedFlow` and `cpuLoad` may grow with this number.
    pub reads: u32,
}

impl Server {
    /// Whether it exists and is billed.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.released_at.is_none()
    }
}

/// The true state of a server, for tests and the control port.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    /// `ecsResourceUUID`
    pub id: String,
    /// `instanceName`
    pub name: String,
    /// The account that owns it.
    pub account: String,
    /// Its region.
    pub region: String,
    /// Its zone.
    pub zone: String,
    /// Its package.
    pub package: String,
    /// The installed image.
    pub image: String,
    /// Its security group.
    pub firewall: String,
    /// The key pair for its login.
    pub key: Option<String>,
    /// `ecsStatus`
    pub status: &'static str,
    /// `ecsPendingStatus`
    pub pending: &'static str,
    /// How long it has been billed.
    #[serde(rename = "billedSeconds", serialize_with = "as_seconds")]
    pub billed: Duration,
    /// When the create was accepted.
    #[serde(rename = "createdAtMillis")]
    pub created_at: Timestamp,
    /// When the release completed.
    #[serde(rename = "releasedAtMillis")]
    pub released_at: Option<Timestamp>,
    /// Whether its deployment failed.
    pub broken: bool,
    /// Whether the listing shows it.
    pub visible: bool,
}

fn as_seconds<S: serde::Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}

impl ServerInfo {
    pub(super) fn of(server: &Server, now: Timestamp) -> Self {
        Self {
            id: server.id.clone(),
            name: server.name.clone(),
            account: server.account.clone(),
            region: server.region.clone(),
            zone: server.zone.clone(),
            package: server.package.clone(),
            image: server.image.clone(),
            firewall: server.firewall.clone(),
            key: server.key.clone(),
            status: server.power.word(),
            pending: server.pending.map_or("NONE", Verb::pending),
            billed: server.released_at.unwrap_or(now).since(server.created_at),
            created_at: server.created_at,
            released_at: server.released_at,
            broken: server.power == Power::Broken,
            visible: server.is_live() && server.visible_at <= now,
        }
    }
}

/// The detail object of the specification, field by field, and the further fields that rows of the instance list may contain.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerView {
    #[serde(rename = "ecsResourceUUID")]
    pub id: String,
    #[serde(rename = "instanceName")]
    pub name: String,
    pub ecs_status: &'static str,
    pub ecs_pending_status: &'static str,
    pub cpu: u32,
    pub gift_cpu: u32,
    pub memory: u32,
    pub instance_series: &'static str,
    pub bandwidth: u32,
    pub bandwidth_type: &'static str,
    pub free_flow: u32,
    pub used_flow: f64,
    /// A field that is not in the specification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_load: Option<u32>,
    pub limit_flow: &'static str,
    pub internet_charge_type: &'static str,
    pub network_type: &'static str,
    pub internal_ip_address: String,
    pub public_ip_address: String,
    #[serde(rename = "publicIpResourceUUID")]
    pub public_ip_id: String,
    pub secondary_public_ip_info_list: [(); 0],
    #[serde(rename = "systemDiskResourceUUID")]
    pub system_disk_id: String,
    pub system_disk_category: &'static str,
    pub system_disk_size: u32,
    pub data_disk_size: u32,
    pub data_disk_info_list: Vec<DiskView>,
    pub snapshot_num: u32,
    #[serde(rename = "imageResourceUUID")]
    pub image_id: String,
    pub image_name: String,
    pub image_type: &'static str,
    pub os_distro_version: String,
    pub sys_account: String,
    pub support_ipv6: bool,
    pub support_ssh: bool,
    pub if_attachable: bool,
    pub region_code: String,
    pub region_name: String,
    pub zone_code: String,
    pub zone_name: String,
    pub create_time: String,
    #[serde(skip)]
    pub expire_time: Option<String>,
}

/// A data disk of the detail object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskView {
    #[serde(rename = "dataDiskResourceUUID")]
    pub id: String,
    pub data_disk_category: &'static str,
    pub data_disk_size: u32,
    pub snapshot_num: u32,
}

/// Mbit/s of a package that is charged by traffic.
const TRAFFIC_BANDWIDTH: u32 = 100;

impl ServerView {
    /// A server as the service shows it to its callers.
    pub(super) fn of(
        server: &Server,
        catalogue: &Catalogue,
        seed: u64,
        readings: &Readings,
        now: Timestamp,
    ) -> Self {
        let package = catalogue.package(&server.package);
        let image = catalogue.image(&server.image);
        let addresses = Addresses::of(server, seed, now);
        let (charge_type, free_flow, bandwidth) = charge(package);
        let data_disk = package.and_then(|package| package.data_disk);
        Self {
            id: server.id.clone(),
            name: server.name.clone(),
            ecs_status: server.power.word(),
            ecs_pending_status: server.pending.map_or("NONE", Verb::pending),
            cpu: package.map_or(0, |package| package.cpu),
            gift_cpu: 0,
            memory: package.map_or(0, |package| package.memory),
            instance_series: "Standard",
            bandwidth,
            bandwidth_type: "CMCC",
            free_flow,
            used_flow: if readings.used_flow_grows {
                f64::from(server.reads) * 0.125
            } else {
                0.0
            },
            cpu_load: readings.used_flow_grows.then_some(server.reads),
            limit_flow: "FALSE",
            internet_charge_type: charge_type,
            network_type: "PRIVATE_NETWORK",
            internal_ip_address: addresses.internal,
            public_ip_address: addresses.public,
            public_ip_id: addresses.public_id,
            secondary_public_ip_info_list: [],
            system_disk_id: disk_id(server, seed, "system disk"),
            system_disk_category: "LOCAL_SSD",
            system_disk_size: package.map_or(0, |package| package.system_disk),
            data_disk_size: data_disk.unwrap_or(0),
            data_disk_info_list: data_disk
                .map(|size| DiskView {
                    id: disk_id(server, seed, "data disk"),
                    data_disk_category: "LOCAL_SSD",
                    data_disk_size: size,
                    snapshot_num: 0,
                })
                .into_iter()
                .collect(),
            snapshot_num: 0,
            image_id: server.image.clone(),
            image_name: image.map_or_else(String::new, |image| image.name.clone()),
            image_type: image.map_or("System", |image| image.kind.word()),
            os_distro_version: image.map_or_else(String::new, |image| image.distro.clone()),
            sys_account: image.map_or_else(|| "root".to_owned(), |image| image.account.clone()),
            support_ipv6: image.is_some_and(|image| image.ipv6),
            support_ssh: image.is_some_and(|image| image.ssh),
            if_attachable: false,
            region_code: server.region.clone(),
            region_name: catalogue
                .region(&server.region)
                .map_or_else(String::new, |region| region.name.clone()),
            zone_code: server.zone.clone(),
            zone_name: catalogue
                .zone(&server.region, &server.zone)
                .map_or_else(String::new, |zone| zone.name.clone()),
            create_time: readings.time(server.created_at),
            expire_time: readings
                .expires_after
                .map(|after| readings.time(server.created_at.plus(after))),
        }
    }
}

/// How a package is charged, its free traffic, and its Mbit/s.
fn charge(package: Option<&Package>) -> (&'static str, u32, u32) {
    match package.map(|package| package.charge) {
        Some(Charge::Bandwidth { bandwidth }) => ("PAY_BY_BANDWIDTH", 0, bandwidth),
        Some(Charge::Traffic { free_flow }) => ("PAY_BY_TRAFFIC", free_flow, TRAFFIC_BANDWIDTH),
        None => ("PAY_BY_TRAFFIC", 0, TRAFFIC_BANDWIDTH),
    }
}

fn disk_id(server: &Server, seed: u64, purpose: &str) -> String {
    format!("disk-{}", mix::suffix(seed, purpose, server.number))
}

/// The addresses of a server.
#[derive(Default)]
struct Addresses {
    internal: String,
    public: String,
    public_id: String,
}

impl Addresses {
    /// The addresses appear when the server is deployed; until then they are empty strings.
    fn of(server: &Server, seed: u64, now: Timestamp) -> Self {
        if matches!(server.power, Power::Creating | Power::Broken) {
            return Self::default();
        }
        let place = mix::mix(seed, "address", server.number);
        let octet = |shift: u32| (place >> shift) & 0xff;
        let internal = format!("10.{}.{}.{}", octet(0), octet(8), octet(16));
        if server.addressed_at > now {
            return Self {
                internal,
                ..Self::default()
            };
        }
        Self {
            internal,
            // 198.18.0.0/15 is reserved for benchmarks: no host on the Internet has such an address.
            public: format!("198.{}.{}.{}", 18 + (octet(24) & 1), octet(32), octet(40)),
            public_id: format!("eip-{}", mix::suffix(seed, "address", server.number)),
        }
    }
}
