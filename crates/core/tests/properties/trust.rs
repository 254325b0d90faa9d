//! Secrets that are signed with, and urls that are called.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use sha2::Sha256;
use webhooks_core::endpoint::EndpointRules;
use webhooks_core::secret::{SecretError, SigningSecrets};
use webhooks_core::signature::sign;

use crate::generators::{damaged, text};
use crate::{LAST_SECOND, cases};

/// The text of a secret, with its end in seconds since 1970 if it has one.
fn secret(key: &[u8], until: Option<u64>) -> String {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let end = until.map_or_else(String::new, |seconds| {
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        // `Mon, 30 Nov 2026 12:02:00 GMT`
        let words: Vec<&str> = date.split(' ').collect();
        let month = MONTHS.find(words[2]).expect("a month") / 3 + 1;
        format!(";until={}-{month:02}-{}T{}Z", words[3], words[1], words[4])
    });
    format!("whsec_{}{end}", STANDARD.encode(key))
}

fn v1(key: &[u8], signed: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(signed);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn secrets_sign_newest_first_until_they_end(
        parts in vec((vec(any::<u8>(), 24..=64), option::of(0..=LAST_SECOND)), 1..4),
        space in "[ \t\r\n]{1,3}",
        now in option::of(0..=LAST_SECOND),
        body in vec(any::<u8>(), 0..50),
    ) {
        // As often as not it is the very moment in which the last one ends.
        let now = now.or(parts.last().and_then(|(_, until)| *until)).unwrap_or(0);
        let texts: Vec<String> = parts.iter().map(|(key, until)| secret(key, *until)).collect();
        let secrets = SigningSecrets::parse(&texts.join(&space)).unwrap();

        let clock = UNIX_EPOCH + Duration::from_secs(now);
        let header = sign(&secrets, "msg_1", 7, &body, clock);

        let signed = [b"msg_1.7.", &body[..]].concat();
        let expected: Vec<String> = parts
            .iter()
            .filter(|(_, until)| until.is_none_or(|until| now < until))
            .map(|(key, _)| v1(key, &signed))
            .collect();
        prop_assert_eq!(header.unwrap_or_default(), expected.join(" "));
    }

    #[test]
    fn only_a_key_of_24_to_64_bytes_is_signed_with(key in vec(any::<u8>(), 0..120)) {
        let error = SigningSecrets::parse(&secret(&key, None)).err().map(|error| error.error);

        let fits = (24..=64).contains(&key.len());
        prop_assert_eq!(error, (!fits).then_some(SecretError::Length(key.len())));
    }

    #[test]
    fn a_damaged_secret_is_never_shown(
        value in damaged(vec(any::<u8>(), 24..=64).prop_map(|key| secret(&key, None))),
    ) {
        let shown = match SigningSecrets::parse(&value) {
            Ok(secrets) => format!("{secrets:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        let characters: Vec<char> = value.chars().collect();
        for part in characters.windows(12) {
            let part = String::from_iter(part);
            prop_assert!(!shown.contains(&part), "{}: {}", part, shown);
        }
    }

    #[test]
    fn no_text_makes_the_readers_panic(text in text(60)) {
        let _ = SigningSecrets::parse(&text);
        for allow_private in [false, true] {
            let _ = EndpointRules { allow_private }.judge_url(&text);
        }
    }
}

/// What looks like a URL, or nearly.
fn url() -> impl Strategy<Value = String> {
    let scheme = select(vec![
        "https",
        "https",
        "https",
        "HTTPS",
        "http",
        "ftp",
        "file",
        "javascript",
        "https:",
    ]);
    let user = prop_oneof![
        4 => Just(String::new()),
        1 => "[a-z]{0,3}:?[a-z]{0,3}@",
    ];
    let odd_hosts = vec![
        "localhost",
        "LOCALHOST.",
        "localhost..",
        "..",
        "x.internal",
        "①②⑦.⓪.⓪.①",
        "0x7f.1",
        "exa\u{ad}mple.com",
    ];
    let host = prop_oneof![
        r"[a-z]{1,5}(\.[a-z0-9-]{1,6}){0,3}\.?",
        select(odd_hosts).prop_map(String::from),
        any::<[u8; 4]>().prop_map(|address| Ipv4Addr::from(address).to_string()),
        any::<u32>().prop_map(|number| number.to_string()),
        any::<[u16; 8]>().prop_map(|address| format!("[{}]", Ipv6Addr::from(address))),
        any::<[u8; 4]>()
            .prop_map(|address| { format!("[{}]", Ipv4Addr::from(address).to_ipv6_mapped()) }),
        text(8),
    ];
    let port = prop_oneof![
        2 => Just(String::new()),
        1 => any::<u16>().prop_map(|port| format!(":{port}")),
    ];
    let path = prop_oneof![
        Just(String::new()),
        text(12).prop_map(|path| format!("/{path}"))
    ];
    (scheme, user, host, port, path)
        .prop_map(|(scheme, user, host, port, path)| format!("{scheme}://{user}{host}{port}{path}"))
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn a_url_that_passes_is_public_and_passes_again_as_it_is(text in url()) {
        let production = EndpointRules { allow_private: false };
        let local = EndpointRules { allow_private: true };
        if let Ok(url) = production.judge_url(&text) {
            prop_assert_eq!(url.scheme(), "https");
            prop_assert_eq!((url.username(), url.password(), url.fragment()), ("", None, None));
            prop_assert!(matches!(url.port_or_known_default(), Some(443 | 1024..)), "{}", url);
            let host = url.host_str().unwrap();
            if let Ok(address) = host.trim_matches(['[', ']']).parse() {
                prop_assert_eq!(production.judge_address(address), Ok(()));
            } else {
                // Neither completed by a search domain nor without any meaning in DNS.
                let name = host.strip_suffix('.').unwrap_or(host);
                prop_assert!(name.contains('.'), "{}", url);
                prop_assert!(name.split('.').all(|label| !label.is_empty()), "{}", url);
            }
            let again = production.judge_url(url.as_str());
            prop_assert_eq!(again.as_ref(), Ok(&url));
            prop_assert_eq!(local.judge_url(&text), Ok(url));
        }
        if let Ok(url) = local.judge_url(&text) {
            prop_assert!(["http", "https"].contains(&url.scheme()), "{}", url);
            prop_assert_eq!((url.username(), url.password(), url.fragment()), ("", None, None));
        }
    }
}
