//! The addresses to which the operator sends no request unless an allowed endpoint names the host: addresses of the machine
//! itself, of its link, of many machines at once, and of services that give a cloud's machines confidential data. Private ranges
//! are ordinary for a service and are allowed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// 0.0.0.0/8, ::. Linux sends 0.0.0.0 and :: to the machine itself.
const UNSPECIFIED: &str = "an unspecified address";
/// 127.0.0.0/8, ::1.
const LOOPBACK: &str = "a loopback address";
/// 169.254.0.0/16, fe80::/10. Most clouds have their metadata service here.
const LINK_LOCAL: &str = "a link-local address";
/// Metadata services that are not link-local.
const METADATA: &str = "the address of a metadata service";
/// 224.0.0.0/4, ff00::/8.
const MULTICAST: &str = "a multicast address";
/// 255.255.255.255.
const BROADCAST: &str = "the broadcast address";

/// Metadata services outside of 169.254.0.0/16: Alibaba Cloud, Azure's WireServer, Oracle Cloud.
const METADATA_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];
/// The first 32 bits of the addresses that AWS (fd00:ec2::254, ::23 and others), Google (fd20:ce::254), Oracle
/// (fd00:c1::a9fe:a9fe), Scaleway (fd00:42::42) and Akamai (fd00:a9fe:a9fe::1) use for such services.
const METADATA_V6: [[u16; 2]; 5] = [
    [0xfd00, 0x0ec2],
    [0xfd20, 0x00ce],
    [0xfd00, 0x00c1],
    [0xfd00, 0x0042],
    [0xfd00, 0xa9fe],
];

/// The class of the address if nothing may be sent to it. An IPv6 address that contains an IPv4 address also has the class of
/// that address.
pub(super) fn internal_class(address: IpAddr) -> Option<&'static str> {
    let embedded = match address {
        IpAddr::V4(_) => Vec::new(),
        IpAddr::V6(v6) => embedded(v6),
    };
    let mut embedded = embedded.into_iter().map(IpAddr::V4);
    class(address).or_else(|| embedded.find_map(class))
}

fn class(address: IpAddr) -> Option<&'static str> {
    let (is_unspecified, is_link_local, is_metadata, is_broadcast) = match address {
        IpAddr::V4(v4) => (
            v4.octets()[0] == 0,
            v4.is_link_local(),
            METADATA_V4.contains(&v4),
            v4.is_broadcast(),
        ),
        IpAddr::V6(v6) => {
            let [first, second, ..] = v6.segments();
            let is_metadata = METADATA_V6.contains(&[first, second]);
            (
                v6.is_unspecified(),
                v6.is_unicast_link_local(),
                is_metadata,
                false,
            )
        }
    };
    let classes = [
        (is_unspecified, UNSPECIFIED),
        (address.is_loopback(), LOOPBACK),
        (is_link_local, LINK_LOCAL),
        (is_metadata, METADATA),
        (address.is_multicast(), MULTICAST),
        (is_broadcast, BROADCAST),
    ];
    let mut classes = classes.into_iter();
    classes.find_map(|(is_member, class)| is_member.then_some(class))
}

/// The IPv4 addresses that a gateway, a tunnel or the kernel may derive from an IPv6 address.
fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let octets = address.octets();
    let at = |positions: [usize; 4]| {
        let [a, b, c, d] = positions.map(|position| octets[position]);
        Ipv4Addr::new(a, b, c, d)
    };
    let last = at([12, 13, 14, 15]);
    match address.segments() {
        // Compatible, mapped, translated (SIIT), NAT64.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..]
        | [0, 0, 0, 0, 0xffff, 0, ..]
        | [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![last],
        // Local NAT64 (RFC 8215), with a prefix of any length. By RFC 6052 the positions skip octet 8. A zero octet at the
        // beginning counts as part of the prefix.
        [0x64, 0xff9b, 1, ..] => {
            let positions = [
                [6, 7, 9, 10],
                [7, 9, 10, 11],
                [9, 10, 11, 12],
                [12, 13, 14, 15],
            ];
            let found = positions.into_iter().map(at);
            found.filter(|address| address.octets()[0] != 0).collect()
        }
        // 6to4.
        [0x2002, ..] => vec![at([2, 3, 4, 5])],
        // Teredo: the server, and the client with its bits inverted.
        [0x2001, 0, ..] => vec![at([4, 5, 6, 7]), Ipv4Addr::from(!u32::from(last))],
        // ISATAP.
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => vec![last],
        _ => Vec::new(),
    }
}

/// An address to which nothing is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address}, {class}")]
pub struct Refused {
    pub address: IpAddr,
    pub class: &'static str,
}

/// The field of an Account that contains a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `spec.endpoint`.
    Endpoint,
    /// `spec.proxy.url`.
    Proxy,
}

#[cfg(test)]
mod tests;
