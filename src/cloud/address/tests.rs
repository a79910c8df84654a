use super::Internal::{Broadcast, LinkLocal, Loopback, Metadata, Multicast, Unspecified};
use super::*;

/// Every class, in every form that IPv6 has for an IPv4 address.
const REFUSED: &[(&str, Internal)] = &[
    ("0.0.0.0", Unspecified),
    ("0.1.2.3", Unspecified),
    ("::", Unspecified),
    ("127.0.0.1", Loopback),
    ("127.255.255.254", Loopback),
    ("::1", Loopback),
    ("169.254.0.0", LinkLocal),
    ("169.254.169.254", LinkLocal),
    ("169.254.170.2", LinkLocal),
    ("169.254.255.255", LinkLocal),
    ("fe80::1", LinkLocal),
    ("febf:ffff::1", LinkLocal),
    ("100.100.100.200", Metadata),
    ("168.63.129.16", Metadata),
    ("192.0.0.192", Metadata),
    ("fd00:ec2::254", Metadata),
    ("fd00:ec2::23", Metadata),
    ("fd20:ce::254", Metadata),
    ("224.0.0.1", Multicast),
    ("239.255.255.255", Multicast),
    ("ff02::1", Multicast),
    ("255.255.255.255", Broadcast),
    // Compatible.
    ("::127.0.0.1", Loopback),
    ("::169.254.169.254", LinkLocal),
    // Mapped.
    ("::ffff:0.0.0.0", Unspecified),
    ("::ffff:127.0.0.1", Loopback),
    ("::ffff:169.254.169.254", LinkLocal),
    ("::ffff:100.100.100.200", Metadata),
    ("::ffff:224.0.0.1", Multicast),
    ("::ffff:255.255.255.255", Broadcast),
    // Translated.
    ("::ffff:0:127.0.0.1", Loopback),
    ("::ffff:0:169.254.169.254", LinkLocal),
    // NAT64.
    ("64:ff9b::127.0.0.1", Loopback),
    ("64:ff9b::169.254.169.254", LinkLocal),
    ("64:ff9b::100.100.100.200", Metadata),
    // Local NAT64: prefixes of 48, 56, 64 and 96 bits.
    ("64:ff9b:1:a9fe:a9:fe00::", LinkLocal),
    ("64:ff9b:1:a9:fe:a9fe::", LinkLocal),
    ("64:ff9b:1:2:a9:fea9:fe00::", LinkLocal),
    ("64:ff9b:1:2:3:4:a9fe:a9fe", LinkLocal),
    // 6to4.
    ("2002:7f00:1::", Loopback),
    ("2002:a9fe:a9fe::1", LinkLocal),
    // Teredo: the server, the client.
    ("2001:0:a9fe:a9fe::", LinkLocal),
    ("2001:0:102:304:0:0:5601:5601", LinkLocal),
    // ISATAP.
    ("2001:db8::5efe:a9fe:a9fe", LinkLocal),
    ("fd12:3456::200:5efe:7f00:1", Loopback),
];

const ALLOWED: &[&str] = &[
    "1.1.1.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "100.100.100.201",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "169.255.0.0",
    "168.63.129.17",
    "223.255.255.255",
    "240.0.0.1",
    "255.255.255.254",
    "2606:4700::1111",
    "fc00::1",
    "fd00:ec3::254",
    "fd12:3456:789a::1",
    "fe00::1",
    "fec0::1",
    "::ffff:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::10.0.0.1",
    "64:ff9b:1:a00:0:100::",
    "2002:808:808::1",
    "2001:db8::a9fe:a9fe",
    "2001:4860:4860::8888",
];

#[test]
fn every_form_of_an_internal_address_is_known() {
    for (text, kind) in REFUSED {
        let address: IpAddr = text.parse().unwrap();
        assert_eq!(internal(address), Some(*kind), "{text}");
    }
}

#[test]
fn public_and_private_addresses_are_allowed() {
    for text in ALLOWED {
        let address: IpAddr = text.parse().unwrap();
        assert_eq!(internal(address), None, "{text}");
    }
}
