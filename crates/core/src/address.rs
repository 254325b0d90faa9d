//! Which IP addresses a webhook may be sent to: public ones only.
//!
//! The ranges are those of the IANA special-purpose registries (RFC 6890 and its updates) plus
//! multicast. For IPv6 the rule is turned round: only global unicast, 2000::/3, less the special
//! ranges inside it. That leaves out, without naming each, loopback, link-local, unique local
//! (with the clouds' metadata addresses), IPv4-mapped and -compatible, and NAT64, which all embed
//! or are addresses that must not be reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 network: address and prefix length in bits.
type Network4 = (Ipv4Addr, u32);
/// An IPv6 network: address and prefix length in bits.
type Network6 = (Ipv6Addr, u32);

const SPECIAL_IPV4: [Network4; 18] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // "this network"
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private use
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // carrier-grade NAT
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link local: metadata, the Lambda runtime API
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private use
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // IETF protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 31, 196, 0), 24), // AS112
    (Ipv4Addr::new(192, 52, 193, 0), 24), // AMT
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relay anycast, deprecated
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private use
    (Ipv4Addr::new(192, 175, 48, 0), 24), // AS112
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarking
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved, limited broadcast
];

const GLOBAL_UNICAST_IPV6: Network6 = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

const SPECIAL_IPV6: [Network6; 5] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // IETF assignments, with Teredo and ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4, embeds any IPv4 address
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48), // AS112
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// Whether the address belongs to the public internet.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !SPECIAL_IPV4
            .iter()
            .any(|network| contains4(*network, address)),
        IpAddr::V6(address) => {
            contains6(GLOBAL_UNICAST_IPV6, address)
                && !SPECIAL_IPV6
                    .iter()
                    .any(|network| contains6(*network, address))
        }
    }
}

fn contains4((network, prefix): Network4, address: Ipv4Addr) -> bool {
    let mask = u32::MAX << (u32::BITS - prefix);
    address.to_bits() & mask == network.to_bits()
}

fn contains6((network, prefix): Network6, address: Ipv6Addr) -> bool {
    let mask = u128::MAX << (u128::BITS - prefix);
    address.to_bits() & mask == network.to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(address: &str) -> bool {
        is_public(address.parse().unwrap())
    }

    #[test]
    fn special_addresses_are_not_public() {
        for address in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.1",
            "169.254.169.254",
            "169.254.170.2",
            "169.254.100.1",
            "169.254.169.253",
            "169.254.169.123",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:8.8.8.8",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::808:808",
            "64:ff9b:1::a9fe:a9fe",
            "100::1",
            "2001::1",
            "2001:0:a9fe:a9fe::5601:5601",
            "2001:1ff:ffff::1",
            "2001:db8::1",
            "2002:a9fe:a9fe::",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd12:3456:789a::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!public(address), "{address}");
        }
    }

    #[test]
    fn neighbours_of_special_ranges_are_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.1",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2003::1",
            "2600:1f18::1",
            "2a00:1450::1",
        ] {
            assert!(public(address), "{address}");
        }
    }
}
