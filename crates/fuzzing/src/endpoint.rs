//! Where webhooks may go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use webhooks_core::address;
use webhooks_core::endpoint::EndpointRules;

const PRODUCTION: EndpointRules = EndpointRules {
    allow_private: false,
};
const LOCAL: EndpointRules = EndpointRules {
    allow_private: true,
};

/// A url that passes leads to a public address or to a name, over https, and passes again as it
/// came out; what passes in production passes locally.
///
/// # Panics
/// If that does not hold.
pub fn url(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let production = PRODUCTION.judge_url(text);
    let local = LOCAL.judge_url(text);
    if let Ok(url) = &production {
        assert_eq!(url.scheme(), "https");
        assert!(url.username().is_empty() && url.password().is_none());
        assert_eq!(url.fragment(), None);
        assert!(
            matches!(url.port_or_known_default(), Some(443 | 1024..)),
            "{url}"
        );
        let host = url.host_str().expect("a host");
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => assert!(!is_surely_private(address), "{url}"),
            Err(_) => {
                let name = host.strip_suffix('.').unwrap_or(host);
                assert!(name.contains('.'), "{url}");
                // What a resolver, of any kind, could take for an address.
                let last = name.rsplit('.').next().unwrap_or_default();
                assert!(!last.bytes().all(|byte| byte.is_ascii_digit()), "{url}");
                assert!(name.is_ascii() && name.len() <= 253, "{url}");
                for label in name.split('.') {
                    assert!((1..=63).contains(&label.len()), "{url}");
                }
            }
        }
        assert_eq!(PRODUCTION.judge_url(url.as_str()).as_ref(), Ok(url));
        assert_eq!(local.as_ref(), Ok(url));
    }
    if let Ok(url) = local {
        assert!(["http", "https"].contains(&url.scheme()), "{url}");
        assert!(url.username().is_empty() && url.password().is_none());
    }
    if let Err(error) = production {
        // It stands in a log, and the url may be as long as an attribute can be.
        assert!(error.to_string().chars().count() < 300, "{error}");
    }
}

/// An address passes if, and only if, it is public by a second reading of the registries.
///
/// # Panics
/// If that does not hold.
pub fn address(data: &[u8]) {
    let (ipv4, ipv6) = match (data.first_chunk::<4>(), data.first_chunk::<16>()) {
        (_, Some(bytes)) => (None, Ipv6Addr::from(*bytes)),
        (Some(bytes), None) => {
            let ipv4 = Ipv4Addr::from(*bytes);
            (Some(ipv4), ipv4.to_ipv6_mapped())
        }
        (None, None) => return,
    };
    let judged = address::judge(ipv6.into());
    assert_eq!(judged.is_ok(), !is_surely_private(ipv6.into()), "{ipv6}");
    if let Some(ipv4) = ipv4 {
        let alone = address::judge(ipv4.into());
        assert_eq!(alone.is_ok(), !is_surely_private(ipv4.into()), "{ipv4}");
    }
    assert_eq!(
        PRODUCTION.judge_address(ipv6.into()).is_ok(),
        judged.is_ok()
    );
    assert_eq!(LOCAL.judge_address(ipv6.into()), Ok(()));
}

/// The special ranges of IPv4, from their first to their last address, in order.
const SPECIAL_IPV4: [(&str, &str); 18] = [
    ("0.0.0.0", "0.255.255.255"),
    ("10.0.0.0", "10.255.255.255"),
    // RFC 6598, carriers' own, where some clouds have their metadata service.
    ("100.64.0.0", "100.127.255.255"),
    ("127.0.0.0", "127.255.255.255"),
    ("168.63.129.16", "168.63.129.16"),
    ("169.254.0.0", "169.254.255.255"),
    ("172.16.0.0", "172.31.255.255"),
    ("192.0.0.0", "192.0.0.255"),
    ("192.0.2.0", "192.0.2.255"),
    ("192.31.196.0", "192.31.196.255"),
    ("192.52.193.0", "192.52.193.255"),
    ("192.88.99.0", "192.88.99.255"),
    ("192.168.0.0", "192.168.255.255"),
    ("192.175.48.0", "192.175.48.255"),
    ("198.18.0.0", "198.19.255.255"),
    ("198.51.100.0", "198.51.100.255"),
    ("203.0.113.0", "203.0.113.255"),
    // Multicast, then reserved.
    ("224.0.0.0", "255.255.255.255"),
];

/// Those of IPv6. What carries an IPv4 address and is not in here is judged by that.
const SPECIAL_IPV6: [(&str, &str); 14] = [
    // Unspecified, loopback, and what was IPv4-compatible.
    ("::", "::ffff:ffff"),
    ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
    ("100::", "100::ffff:ffff:ffff:ffff"),
    // Teredo, benchmarks, AMT, AS112, ORCHID: all that is for protocols.
    ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
    // 6to4.
    ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff"),
    ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
    // Segment routing.
    ("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    // Reserved.
    ("4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    // Unique local, link-local, site-local, multicast.
    ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
];

/// A second reading of the registries: other words for the same ranges, and nothing shared.
fn is_surely_private(address: IpAddr) -> bool {
    let within = |(first, last): &(&str, &str)| {
        let bound = |text: &str| text.parse::<IpAddr>().expect("an address");
        (bound(first)..=bound(last)).contains(&address)
    };
    match address {
        IpAddr::V4(_) => SPECIAL_IPV4.iter().any(within),
        IpAddr::V6(ipv6) => {
            // A 96-bit prefix, and an IPv4 address: mapped (RFC 4291) and NAT64 (RFC 6052).
            let text = |prefix: &str| prefix.parse::<Ipv6Addr>().expect("a prefix").to_bits();
            let bits = ipv6.to_bits();
            let carries = [text("::ffff:0:0"), text("64:ff9b::")]
                .iter()
                .any(|prefix| bits >> 32 == prefix >> 32);
            if carries {
                let [.., a, b, c, d] = bits.to_be_bytes();
                return is_surely_private(Ipv4Addr::new(a, b, c, d).into());
            }
            // Of all the rest only 2000::/3 is given out.
            SPECIAL_IPV6.iter().any(within) || bits >> 125 != 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_everybody_knows_to_be_public_passes() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "9.9.9.9",
            "52.94.236.248",
            "192.0.1.1",
            "198.20.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2001:4860:4860::8888",
            "2606:4700:4700::1111",
            "2620:fe::fe",
            "2a00:1450:4001::1",
        ] {
            let parsed: IpAddr = public.parse().unwrap();
            assert_eq!(address::judge(parsed), Ok(()), "{public}");
            assert!(!is_surely_private(parsed), "{public}");
        }
    }

    #[test]
    fn the_ends_of_each_special_range_do_not_pass() {
        for (first, last) in SPECIAL_IPV4.iter().chain(&SPECIAL_IPV6) {
            for end in [first, last] {
                let parsed: IpAddr = end.parse().unwrap();
                assert!(address::judge(parsed).is_err(), "{end}");
            }
        }
    }

    #[test]
    fn beside_the_ranges_it_is_as_the_second_reading_says() {
        for (first, last) in SPECIAL_IPV4.iter() {
            let bits = |text: &str| text.parse::<Ipv4Addr>().unwrap().to_bits();
            for bits in [bits(first).checked_sub(1), bits(last).checked_add(1)] {
                let beside = bits.map(|bits| IpAddr::from(Ipv4Addr::from_bits(bits)));
                if let Some(beside) = beside {
                    let is_public = !is_surely_private(beside);
                    assert_eq!(address::judge(beside).is_ok(), is_public, "{beside}");
                }
            }
        }
        for (first, last) in SPECIAL_IPV6.iter() {
            let bits = |text: &str| text.parse::<Ipv6Addr>().unwrap().to_bits();
            for bits in [bits(first).checked_sub(1), bits(last).checked_add(1)] {
                let beside = bits.map(|bits| IpAddr::from(Ipv6Addr::from_bits(bits)));
                if let Some(beside) = beside {
                    let is_public = !is_surely_private(beside);
                    assert_eq!(address::judge(beside).is_ok(), is_public, "{beside}");
                }
            }
        }
    }
}
