//! Which IP addresses a webhook may be sent to: public ones only.
//!
//! The ranges are those of the IANA special-purpose registries (RFC 6890 and its updates), multicast,
//! and the clouds' metadata services that answer elsewhere. For IPv6 the rule is turned round: only
//! global unicast, 2000::/3, less the special ranges inside it.
//!
//! An IPv6 address can carry an IPv4 address that it is delivered to in the end. It is judged by
//! that one too, and where the carrier itself is retired or belongs to one network, it is refused
//! whatever it carries.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 network: address, prefix length in bits, and what it is.
type Network4 = (Ipv4Addr, u32, &'static str);
/// An IPv6 network: address, prefix length in bits, and what it is.
type Network6 = (Ipv6Addr, u32, &'static str);

const SPECIAL_IPV4: [Network4; 19] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this network"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private network"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "a carrier's own network"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "this machine"),
    // Metadata with credentials, the Lambda runtime API, Amazon's DNS and clock.
    (
        Ipv4Addr::new(169, 254, 0, 0),
        16,
        "link-local, with the cloud's metadata and the Lambda runtime",
    ),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "a cloud's metadata"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private network"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "for protocols"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documentation"),
    (Ipv4Addr::new(192, 31, 196, 0), 24, "for AS112"),
    (Ipv4Addr::new(192, 52, 193, 0), 24, "for AMT"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "for 6to4 relays"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private network"),
    (Ipv4Addr::new(192, 175, 48, 0), 24, "for AS112"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

const GLOBAL_UNICAST_IPV6: Network6 = (
    Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0),
    3,
    "global unicast",
);

const SPECIAL_IPV6: [Network6; 11] = [
    // Inside global unicast. The first of these holds Teredo, ORCHID and more.
    (
        Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0),
        23,
        "for protocols",
    ),
    (
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0),
        32,
        "for documentation",
    ),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "6to4"),
    (
        Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0),
        48,
        "for AS112",
    ),
    (
        Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0),
        20,
        "for documentation",
    ),
    // Outside of it, only for the words.
    (Ipv6Addr::UNSPECIFIED, 128, "this machine"),
    (Ipv6Addr::LOCALHOST, 128, "this machine"),
    (
        Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0),
        7,
        "a private network, with a cloud's metadata",
    ),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "site-local"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "multicast"),
];

/// What an IPv6 address carries an IPv4 address for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    /// `::ffff:0:0/96` (RFC 4291 §2.5.5.2): the operating system itself connects to the IPv4
    /// address.
    Mapped,
    /// `::/96` (RFC 4291 §2.5.5.1), retired.
    Compatible,
    /// `64:ff9b::/96` (RFC 6052). Where a network has no other way to IPv4, its resolver gives
    /// every name an address like this, so that what it carries decides.
    Nat64,
    /// `64:ff9b:1::/48` (RFC 8215): a network's own translation.
    LocalNat64,
    /// `2002::/16` (RFC 3056), retired.
    SixToFour,
    /// `2001::/32` (RFC 4380), retired.
    Teredo,
}

/// An address that is not on the public internet, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotPublic {
    address: IpAddr,
    is: &'static str,
    carries: Option<Ipv4Addr>,
}

impl std::error::Error for NotPublic {}

impl fmt::Display for NotPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not a public address: it is {}",
            self.address, self.is
        )?;
        match self.carries {
            Some(address) => write!(f, " (for {address})"),
            None => Ok(()),
        }
    }
}

/// Finds out whether an address belongs to the public internet.
///
/// # Errors
/// If it does not, with what it is instead.
pub fn judge(address: IpAddr) -> Result<(), NotPublic> {
    let (is, carries) = match address {
        IpAddr::V4(ipv4) => (special4(ipv4), None),
        IpAddr::V6(ipv6) => match carried(ipv6) {
            Some((carrier, ipv4)) => (carrier.judge(ipv4), Some(ipv4)),
            None => (special6(ipv6), None),
        },
    };
    match is {
        None => Ok(()),
        Some(is) => Err(NotPublic {
            address,
            is,
            carries,
        }),
    }
}

impl Carrier {
    /// What forbids an address of this kind that carries `address`, if anything does.
    fn judge(self, address: Ipv4Addr) -> Option<&'static str> {
        let retired = match self {
            Self::Mapped | Self::Nat64 => return special4(address),
            Self::Compatible => "an IPv4-compatible address, which are retired",
            Self::LocalNat64 => "translated within its own network",
            Self::SixToFour => "a 6to4 address, which are retired",
            Self::Teredo => "a Teredo address, which are retired",
        };
        Some(special4(address).unwrap_or(retired))
    }
}

fn special4(address: Ipv4Addr) -> Option<&'static str> {
    SPECIAL_IPV4
        .iter()
        .find(|network| contains4(network, address))
        .map(|(_, _, is)| *is)
}

fn special6(address: Ipv6Addr) -> Option<&'static str> {
    SPECIAL_IPV6
        .iter()
        .find(|network| contains6(network, address))
        .map(|(_, _, is)| *is)
        .or_else(|| (!contains6(&GLOBAL_UNICAST_IPV6, address)).then_some("reserved"))
}

/// The IPv4 address that an IPv6 address carries.
fn carried(address: Ipv6Addr) -> Option<(Carrier, Ipv4Addr)> {
    let at = |shift: u32| {
        let [.., a, b, c, d] = (address.to_bits() >> shift).to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    let segments = address.segments();
    Some(match segments {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => return None,
        [0, 0, 0, 0, 0, 0xffff, ..] => (Carrier::Mapped, at(0)),
        [0, 0, 0, 0, 0, 0, ..] => (Carrier::Compatible, at(0)),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => (Carrier::Nat64, at(0)),
        [0x64, 0xff9b, 1, ..] => (Carrier::LocalNat64, at(0)),
        [0x2002, ..] => (Carrier::SixToFour, at(80)),
        // The client's address stands there with every bit turned (RFC 4380 §4).
        [0x2001, 0, ..] => (Carrier::Teredo, Ipv4Addr::from_bits(!at(0).to_bits())),
        _ => return None,
    })
}

fn contains4((network, prefix, _): &Network4, address: Ipv4Addr) -> bool {
    let mask = u32::MAX << (u32::BITS - prefix);
    address.to_bits() & mask == network.to_bits()
}

fn contains6((network, prefix, _): &Network6, address: Ipv6Addr) -> bool {
    let mask = u128::MAX << (u128::BITS - prefix);
    address.to_bits() & mask == network.to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(address: &str) -> bool {
        judge(address.parse().unwrap()).is_ok()
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
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::808:808",
            "::8.8.8.8",
            "2002:808:808::1",
            "2001:0:808:808::f7f7:f7f7",
            "168.63.129.16",
            "100.100.100.200",
            "fd20:ce::254",
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
            "ff0e::1",
            "192.31.196.1",
            "192.52.193.1",
            "192.175.48.1",
            "192.0.0.170",
            "172.31.255.255",
            "2620:4f:8000::1",
            "2001:2::1",
            "2001:20::1",
            "100:0:0:1::1",
            "1fff:ffff::1",
            "4000::1",
            "64:ff9a::808:808",
            "64:ff9b::1:0:808:808",
            // IPv4-translated (RFC 2765), and mapped addresses that are none.
            "::ffff:0:127.0.0.1",
            "::ffff:0:8.8.8.8",
            "::fffe:8.8.8.8",
            "0:0:0:0:1:ffff:808:808",
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
            "168.63.129.15",
            "168.63.129.17",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(public(address), "{address}");
        }
    }

    #[test]
    fn what_an_address_is_and_carries_is_told() {
        for (address, told) in [
            (
                "10.1.2.3",
                "10.1.2.3 is not a public address: it is a private network",
            ),
            (
                "::ffff:169.254.169.254",
                "::ffff:169.254.169.254 is not a public address: it is link-local, with the cloud's \
                 metadata and the Lambda runtime (for 169.254.169.254)",
            ),
            (
                "64:ff9b::a00:1",
                "64:ff9b::a00:1 is not a public address: it is a private network (for 10.0.0.1)",
            ),
            (
                "64:ff9b:1::808:808",
                "64:ff9b:1::808:808 is not a public address: it is translated within its own \
                 network (for 8.8.8.8)",
            ),
            (
                "2002:a00:1::",
                "2002:a00:1:: is not a public address: it is a private network (for 10.0.0.1)",
            ),
            // 5601:5601 is 169.254.169.254 turned.
            (
                "2001:0:808:808::5601:5601",
                "2001:0:808:808::5601:5601 is not a public address: it is link-local, with the \
                 cloud's metadata and the Lambda runtime (for 169.254.169.254)",
            ),
            ("::1", "::1 is not a public address: it is this machine"),
            ("5f00::1", "5f00::1 is not a public address: it is reserved"),
        ] {
            let error = judge(address.parse().unwrap()).unwrap_err();
            assert_eq!(error.to_string(), told);
        }
    }
}
