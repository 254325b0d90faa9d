//! The url and the headers of a POST.

use hyper::Uri;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use webhooks_core::endpoint::{EndpointError, EndpointRules};
use webhooks_core::header::CustomHeaders;
use webhooks_core::signature::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};

/// Names the sender to receivers.
const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!("sqs-webhooks/", env!("CARGO_PKG_VERSION")));

/// The address of a subscription's url, if the rules allow it.
///
/// # Errors
/// The rule that forbids it.
pub fn endpoint(rules: EndpointRules, url: &str) -> Result<Uri, EndpointError> {
    let url = rules.judge_url(url)?;
    // Two parsers, one meaning: what the guard judged is written out and read again.
    let uri = Uri::try_from(url.as_str()).map_err(|_| EndpointError::NotAUrl)?;
    let is_same = uri.scheme_str() == Some(url.scheme())
        && uri.host() == url.host_str()
        && uri.port_u16() == url.port()
        && uri.path() == url.path()
        && uri.query() == url.query();
    if is_same {
        Ok(uri)
    } else {
        Err(EndpointError::NotAUrl)
    }
}

/// The headers of a request: a subscription's own, and then what no subscription can change.
/// `timestamp` is in seconds since 1970.
///
/// `None` if one has a character that no header may have, which the rules of jobs, secrets and
/// [`CustomHeaders`] exclude.
#[must_use]
pub fn headers(
    webhook_id: &str,
    timestamp: u64,
    signature: &str,
    custom: &CustomHeaders,
) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(8);
    for (name, value) in custom.iter() {
        headers.insert(
            HeaderName::from_bytes(name.as_bytes()).ok()?,
            HeaderValue::from_str(value).ok()?,
        );
    }
    headers.insert(ID_HEADER, HeaderValue::from_str(webhook_id).ok()?);
    headers.insert(TIMESTAMP_HEADER, HeaderValue::from(timestamp));
    headers.insert(SIGNATURE_HEADER, HeaderValue::from_str(signature).ok()?);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, USER_AGENT_VALUE);
    Some(headers)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;
    use url::Host;

    use super::*;

    /// What urls and attacks on them are made of.
    const PARTS: [&str; 48] = [
        "https:",
        "http:",
        "//",
        "/",
        "\\",
        "@",
        ":",
        "?",
        "#",
        ".",
        "..",
        "-",
        "_",
        "%2e",
        "%2f",
        "%40",
        "%00",
        "\t",
        "\n",
        "\0",
        " ",
        "[",
        "]",
        "::1",
        "::ffff:",
        "[::ffff:7f00:1]",
        "[2001:4860::8888]",
        "127.0.0.1",
        "0x7f",
        "0177",
        "2130706433",
        "1",
        "0",
        "443",
        "8443",
        "65536",
        "example.com",
        "localhost",
        "xn--",
        "a",
        "é",
        "。",
        "①",
        "\u{ad}",
        "{",
        "\"",
        "|",
        "~",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn the_client_connects_to_what_the_guard_judged(
            parts in prop::collection::vec(prop::sample::select(&PARTS[..]), 1..8),
            starts_well in prop::bool::weighted(0.9),
            allow_private in any::<bool>(),
        ) {
            let start = if starts_well { "https://" } else { "" };
            let text = format!("{start}{}", parts.concat());
            let rules = EndpointRules { allow_private };
            if let Ok(url) = rules.judge_url(&text) {
                // As the client reads it, and then the connector.
                let uri = Uri::try_from(url.as_str());
                let same = endpoint(rules, &text);
                // Production's rule for names leaves nothing that one parser takes and one does not.
                prop_assert!(allow_private || same.is_ok(), "{text:?}");
                if let Ok(uri) = same {
                    prop_assert_eq!(Ok(uri.clone()), uri_of(&uri.to_string()));
                    let host = uri.host().unwrap().trim_matches(['[', ']']);
                    let address = match url.host().unwrap() {
                        Host::Ipv4(address) => Some(IpAddr::from(address)),
                        Host::Ipv6(address) => Some(address.into()),
                        Host::Domain(name) => {
                            prop_assert_eq!(name, host);
                            None
                        }
                    };
                    prop_assert_eq!(host.parse::<IpAddr>().ok(), address);
                    let port = uri.port_u16().or((uri.scheme_str() == Some("https")).then_some(443));
                    prop_assert_eq!(port.or(Some(80)), url.port_or_known_default());
                    prop_assert!(uri.authority().is_some_and(|all| !all.as_str().contains('@')));
                } else {
                    prop_assert!(uri.is_err(), "read otherwise: {text:?}");
                }
            }
        }
    }

    fn uri_of(text: &str) -> Result<Uri, ()> {
        text.parse().map_err(|_| ())
    }

    #[test]
    fn a_subscription_adds_headers_and_changes_none() {
        let custom = CustomHeaders::new([
            ("X-Api-Key", "k"),
            ("Webhook-Signature", "v1,forged"),
            ("CONTENT-TYPE", "text/plain"),
            ("User-Agent", "other"),
        ]);
        let headers = headers("msg_1_a", 1_700_000_000, "v1,abc=", &custom.unwrap()).unwrap();
        let mut sent: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        sent.sort_unstable();
        assert_eq!(
            sent,
            [
                ("content-type", "application/json"),
                (
                    "user-agent",
                    concat!("sqs-webhooks/", env!("CARGO_PKG_VERSION"))
                ),
                ("webhook-id", "msg_1_a"),
                ("webhook-signature", "v1,abc="),
                ("webhook-timestamp", "1700000000"),
                ("x-api-key", "k"),
            ]
        );
    }
}
