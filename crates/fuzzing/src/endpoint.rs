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

/// An address that passes is none of those that the standard library knows to be special, and an
/// IPv6 address that carries an IPv4 address never passes if that does not.
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
    if judged.is_ok() {
        assert!(!is_surely_private(ipv6.into()), "{ipv6}");
        if let Some(carried) = ipv6.to_ipv4() {
            assert_eq!(address::judge(carried.into()), Ok(()), "{ipv6}");
        }
    }
    if let Some(ipv4) = ipv4 {
        let alone = address::judge(ipv4.into());
        assert_eq!(alone.is_ok(), judged.is_ok(), "{ipv4}");
        if alone.is_ok() {
            assert!(!is_surely_private(ipv4.into()), "{ipv4}");
        }
    }
    assert_eq!(
        PRODUCTION.judge_address(ipv6.into()).is_ok(),
        judged.is_ok()
    );
    assert_eq!(LOCAL.judge_address(ipv6.into()), Ok(()));
}

/// A second reading of the registries, as far as the standard library has one.
fn is_surely_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ipv4) => {
            ipv4.is_loopback()
                || ipv4.is_private()
                || ipv4.is_link_local()
                || ipv4.is_broadcast()
                || ipv4.is_documentation()
                || ipv4.is_multicast()
                || ipv4.octets().first() == Some(&0)
                // RFC 6598, carriers' own, where some clouds have their metadata service.
                || matches!(ipv4.octets(), [100, 64..=127, ..])
        }
        IpAddr::V6(ipv6) => {
            ipv6.is_loopback()
                || ipv6.is_unspecified()
                || ipv6.is_multicast()
                || ipv6.is_unique_local()
                || ipv6.is_unicast_link_local()
                || ipv6
                    .to_ipv4_mapped()
                    .is_some_and(|ipv4| is_surely_private(ipv4.into()))
        }
    }
}
