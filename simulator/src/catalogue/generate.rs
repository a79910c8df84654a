//! Generates the catalogue from short tables.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::{Catalogue, Charge, Firewall, Image, ImageKind, Key, Package, Region, Zone, example};
use crate::mix::suffix;
use crate::time::Timestamp;

/// The catalogue has a fixed seed, independent of the world's: examples name its codes.
const SEED: u64 = 0x0c10_0d5e;

/// 2024-01-08 06:40:00, the creation time of the oldest records.
const OPENING: Timestamp = Timestamp::from_millis(1_704_696_000_000);

/// Region code, name, zones.
const REGIONS: [(&str, &str, &str); 8] = [
    ("ru-moscow-1", "Moscow", "abc"),
    ("cn-taiwan-2", "Taiwan", "ab"),
    ("cn-dev-2", "Development", "a"),
    ("de-frankfurt-1", "Frankfurt", "abc"),
    ("sg-singapore-1", "Singapore", "ab"),
    ("us-losangeles-1", "Los Angeles", "a"),
    ("br-saopaulo-1", "Sao Paulo", "a"),
    ("jp-tokyo-3", "Tokyo", "ab"),
];

/// Processors, GiB of memory, GiB of system disk, and GiB of data disk for packages that have one.
const SIZES: [(u32, u32, u32, u32); 7] = [
    (1, 1, 25, 50),
    (1, 2, 40, 50),
    (2, 4, 50, 100),
    (2, 8, 80, 200),
    (4, 8, 100, 200),
    (8, 16, 160, 400),
    (16, 32, 320, 800),
];

/// Distribution, version, full name, size in GiB, whether key pairs work.
const SYSTEMS: [(&str, &str, &str, u32, bool); 22] = [
    ("Ubuntu", "24.04", "Ubuntu 24.04 LTS", 10, true),
    ("Debian", "12", "Debian 12", 10, true),
    (
        "Windows",
        "2022",
        "Windows Server 2022 Datacenter",
        25,
        false,
    ),
    ("Ubuntu", "26.04", "Ubuntu 26.04 LTS", 10, true),
    ("Ubuntu", "22.04", "Ubuntu 22.04 LTS", 10, true),
    ("Ubuntu", "20.04", "Ubuntu 20.04 LTS", 10, true),
    ("Debian", "13", "Debian 13", 10, true),
    ("Debian", "11", "Debian 11", 10, true),
    ("AlmaLinux", "9", "AlmaLinux 9", 10, true),
    ("AlmaLinux", "8", "AlmaLinux 8", 10, true),
    ("Rocky", "9", "Rocky Linux 9", 10, true),
    ("Rocky", "8", "Rocky Linux 8", 10, true),
    ("CentOS", "9", "CentOS Stream 9", 10, true),
    ("CentOS", "7.9", "CentOS 7.9", 10, true),
    ("Fedora", "42", "Fedora Server 42", 10, true),
    ("openSUSE", "15.6", "openSUSE Leap 15.6", 10, true),
    ("Alpine", "3.22", "Alpine Linux 3.22", 5, true),
    ("Arch", "rolling", "Arch Linux", 10, true),
    ("FreeBSD", "14.3", "FreeBSD 14.3", 10, true),
    (
        "Windows",
        "2025",
        "Windows Server 2025 Datacenter",
        25,
        false,
    ),
    (
        "Windows",
        "2019",
        "Windows Server 2019 Datacenter",
        25,
        false,
    ),
    (
        "Windows",
        "2016",
        "Windows Server 2016 Datacenter",
        25,
        false,
    ),
];

/// Applications, each on two systems.
const APPLICATIONS: [&str; 14] = [
    "WordPress",
    "GitLab",
    "Docker",
    "Nextcloud",
    "Minecraft",
    "WireGuard",
    "LAMP",
    "LEMP",
    "Node.js",
    "PostgreSQL",
    "MySQL",
    "Redis",
    "Grafana",
    "Plesk",
];

const OWN_IMAGES: [&str; 14] = [
    "golden-web",
    "golden-db",
    "golden-cache",
    "ci-runner",
    "bastion",
    "edge-proxy",
    "mail-relay",
    "build-box",
    "before-upgrade",
    "after-upgrade",
    "game-server",
    "vpn-exit",
    "monitoring",
    "lab",
];

const GROUP_PURPOSES: [&str; 8] = [
    "web",
    "ssh-only",
    "database",
    "mail",
    "game",
    "vpn",
    "internal",
    "monitoring",
];

/// Security groups of each region: more than one page at every page size.
const GROUPS_A_REGION: u64 = 56;

/// Key pairs of the catalogue: more than one page at every page size.
const KEYS: u64 = 58;

pub(super) fn catalogue() -> Catalogue {
    let regions: Vec<Region> = REGIONS.iter().map(region).collect();
    let packages: Vec<Package> = regions.iter().flat_map(packages_of).collect();
    let images: Vec<Image> = regions.iter().flat_map(images_of).collect();
    let firewalls: Vec<Firewall> = regions.iter().flat_map(firewalls_of).collect();
    let keys: Vec<Key> = (0..KEYS).rev().map(key).collect();
    Catalogue {
        package_by_code: index(&packages, |package| &package.code),
        image_by_id: index(&images, |image| &image.id),
        firewall_by_id: index(&firewalls, |firewall| &firewall.id),
        key_by_id: index(&keys, |key| &key.id),
        regions,
        packages,
        images,
        firewalls,
        keys,
        withdrawn: HashSet::new(),
    }
}

fn index<T>(all: &[T], id: impl Fn(&T) -> &String) -> HashMap<String, usize> {
    all.iter()
        .enumerate()
        .map(|(at, each)| (id(each).clone(), at))
        .collect()
}

fn region((code, name, zones): &(&str, &str, &str)) -> Region {
    let zone = |letter: char| Zone {
        code: format!("{code}-{letter}"),
        name: format!("{name} Zone {}", letter.to_ascii_uppercase()),
    };
    Region {
        code: (*code).to_owned(),
        name: (*name).to_owned(),
        zones: zones.chars().map(zone).collect(),
    }
}

fn packages_of(region: &Region) -> Vec<Package> {
    let mut packages = Vec::new();
    for zone in &region.zones {
        for (at, &(cpu, memory, system_disk, data)) in (0u32..).zip(&SIZES) {
            let charges = [
                Charge::Traffic {
                    free_flow: 1_000 * (at + 1) / if at == 1 { 2 } else { 1 },
                },
                Charge::Bandwidth {
                    bandwidth: 10 * at.max(1),
                },
            ];
            for charge in charges {
                for data_disk in [None, Some(data)] {
                    packages.push(package(
                        region,
                        zone,
                        (cpu, memory, system_disk),
                        data_disk,
                        charge,
                    ));
                }
            }
        }
    }
    packages
}

fn package(
    region: &Region,
    zone: &Zone,
    (cpu, memory, system_disk): (u32, u32, u32),
    data_disk: Option<u32>,
    charge: Charge,
) -> Package {
    let disk = data_disk
        .map(|size| format!("-d{size}"))
        .unwrap_or_default();
    let paid = match charge {
        Charge::Traffic { free_flow } => format!("t{free_flow}"),
        Charge::Bandwidth { bandwidth } => format!("b{bandwidth}"),
    };
    Package {
        code: format!("{}-c{cpu}m{memory}-s{system_disk}{disk}-{paid}", zone.code),
        region: region.code.clone(),
        zone: zone.code.clone(),
        cpu,
        memory,
        system_disk,
        data_disk,
        charge,
    }
}

fn images_of(region: &Region) -> Vec<Image> {
    let mut images: Vec<Image> = SYSTEMS
        .iter()
        .map(|system| image(region, ImageKind::System, system, system.2))
        .collect();
    for (at, application) in APPLICATIONS.iter().enumerate() {
        for system in [&SYSTEMS[0], &SYSTEMS[1]] {
            let name = format!("{application} on {}", system.2);
            images.push(image(region, ImageKind::Application, system, &name));
        }
        let base = &SYSTEMS[at % SYSTEMS.len()];
        images.push(image(
            region,
            ImageKind::Own,
            base,
            OWN_IMAGES[at % OWN_IMAGES.len()],
        ));
    }
    images
}

fn image(
    region: &Region,
    kind: ImageKind,
    &(distro, version, full, size, ssh): &(&str, &str, &str, u32, bool),
    name: &str,
) -> Image {
    let purpose = format!("{}/{}/{name}", region.code, kind.word());
    let known = example();
    let id = match (region.code == known.region, full == name, distro, version) {
        (true, true, "Ubuntu", "24.04") => known.image.to_owned(),
        (true, true, "Debian", "12") => known.other_image.to_owned(),
        (true, true, "Windows", "2022") => known.windows_image.to_owned(),
        _ => format!("img-{}", suffix(SEED, &purpose, 0)),
    };
    Image {
        id,
        name: name.to_owned(),
        kind,
        region: region.code.clone(),
        size,
        account: if distro == "Windows" {
            "Administrator"
        } else {
            "root"
        }
        .to_owned(),
        distro: distro.to_owned(),
        os_version: version.to_owned(),
        os_version_detail: format!("{full} 64-bit"),
        snapshot: (kind == ImageKind::Own).then(|| format!("snp-{}", suffix(SEED, &purpose, 1))),
        resizable: kind != ImageKind::Own,
        ipv6: distro != "Windows",
        ssh,
    }
}

fn firewalls_of(region: &Region) -> Vec<Firewall> {
    let firewall = |number: u64| {
        let purposes = GROUP_PURPOSES.len() as u64;
        let purpose = usize::try_from(number % purposes).map_or("web", |at| GROUP_PURPOSES[at]);
        let known = region.code == example().region && number == 0;
        Firewall {
            id: if known {
                example().firewall.to_owned()
            } else {
                format!("fw-{}", suffix(SEED, &region.code, number))
            },
            name: format!("{purpose}-{}", number / purposes + 1),
            description: (number % 3 != 2).then(|| format!("Security group for {purpose}")),
            region: region.code.clone(),
            bind_allowance: 100,
            rules: 2 + u32::try_from(number % 7).unwrap_or(0),
            created_at: made(number),
        }
    };
    (0..GROUPS_A_REGION).map(firewall).collect()
}

fn key(number: u64) -> Key {
    let holders = ["laptop", "workstation", "ci", "backup", "on-call"];
    let holder = usize::try_from(number % 5).map_or("laptop", |at| holders[at]);
    Key {
        id: if number == 0 {
            example().key.to_owned()
        } else {
            format!("key-{}", suffix(SEED, "key", number))
        },
        name: format!("{holder}-{}", number / 5 + 1),
        created_at: made(number),
    }
}

/// The creation time of a record: a little over nine hours after the record before it.
fn made(number: u64) -> Timestamp {
    OPENING.plus(Duration::from_secs(number * 33_337))
}
