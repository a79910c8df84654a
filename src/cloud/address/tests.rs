use super::*;

/// Every class, in every form that IPv6 has for an IPv4 address.
const REFUSED: &[(&str, &str)] = &[
    ("0.0.0.0", UNSPECIFIED),
    ("0.1.2.3", UNSPECIFIED),
    ("::", UNSPECIFIED),
    ("127.0.0.1", LOOPBACK),
    ("127.255.255.254", LOOPBACK),
    ("::1", LOOPBACK),
    ("169.254.0.0", LINK_LOCAL),
    ("169.254.169.254", LINK_LOCAL),
    ("169.254.170.2", LINK_LOCAL),
    ("169.254.255.255", LINK_LOCAL),
    ("fe80::1", LINK_LOCAL),
    ("febf:ffff::1", LINK_LOCAL),
    ("100.100.100.200", METADATA),
    ("168.63.129.16", METADATA),
    ("192.0.0.192", METADATA),
    ("fd00:ec2::254", METADATA),
    ("fd00:ec2::23", METADATA),
    ("fd20:ce::254", METADATA),
    ("fd00:c1::a9fe:a9fe", METADATA),
    ("fd00:42::42", METADATA),
    ("fd00:a9fe:a9fe::1", METADATA),
    ("224.0.0.1", MULTICAST),
    ("239.255.255.255", MULTICAST),
    ("ff02::1", MULTICAST),
    ("255.255.255.255", BROADCAST),
    // Compatible.
    ("::127.0.0.1", LOOPBACK),
    ("::169.254.169.254", LINK_LOCAL),
    // Mapped.
    ("::ffff:0.0.0.0", UNSPECIFIED),
    ("::ffff:127.0.0.1", LOOPBACK),
    ("::ffff:169.254.169.254", LINK_LOCAL),
    ("::ffff:100.100.100.200", METADATA),
    ("::ffff:224.0.0.1", MULTICAST),
    ("::ffff:255.255.255.255", BROADCAST),
    // Translated.
    ("::ffff:0:127.0.0.1", LOOPBACK),
    ("::ffff:0:169.254.169.254", LINK_LOCAL),
    // NAT64.
    ("64:ff9b::127.0.0.1", LOOPBACK),
    ("64:ff9b::169.254.169.254", LINK_LOCAL),
    ("64:ff9b::100.100.100.200", METADATA),
    // Local NAT64: prefixes of 48, 56, 64 and 96 bits.
    ("64:ff9b:1:a9fe:a9:fe00::", LINK_LOCAL),
    ("64:ff9b:1:a9:fe:a9fe::", LINK_LOCAL),
    ("64:ff9b:1:2:a9:fea9:fe00::", LINK_LOCAL),
    ("64:ff9b:1:2:3:4:a9fe:a9fe", LINK_LOCAL),
    // 6to4.
    ("2002:7f00:1::", LOOPBACK),
    ("2002:a9fe:a9fe::1", LINK_LOCAL),
    // Teredo: the server, the client.
    ("2001:0:a9fe:a9fe::", LINK_LOCAL),
    ("2001:0:102:304:0:0:5601:5601", LINK_LOCAL),
    // ISATAP.
    ("2001:db8::5efe:a9fe:a9fe", LINK_LOCAL),
    ("fd12:3456::200:5efe:7f00:1", LOOPBACK),
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
        assert_eq!(internal_class(address), Some(*kind), "{text}");
    }
}

#[test]
fn public_and_private_addresses_are_allowed() {
    for text in ALLOWED {
        let address: IpAddr = text.parse().unwrap();
        assert_eq!(internal_class(address), None, "{text}");
    }
}
