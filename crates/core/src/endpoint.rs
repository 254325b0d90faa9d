//! Which URLs a webhook may be sent to.
//!
//! A URL is parsed once, by the same rules as a browser (WHATWG), and judged by what came out:
//! `https://2852039166/` and `https://①②⑦.⓪.⓪.①/` are IP addresses by then. An address that
//! stands in the URL is judged here, one that a name resolves to is judged where the connection
//! is made, by the same [`EndpointRules`].

use std::net::IpAddr;

use url::{Host, Url};

use crate::address::{self, NotPublic};

/// Names and top-level domains that never belong to a partner on the internet: RFC 6761, 6762,
/// 9476, ICANN's `internal` and those that it will not give to anybody, the infrastructure of DNS
/// in `arpa` with the home networks of RFC 8375, what resolvers and hosts files commonly answer
/// themselves, and a cloud's public name for its metadata.
const SPECIAL_DOMAINS: [&str; 15] = [
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "arpa",
    "alt",
    "onion",
    "test",
    "invalid",
    "metadata.goog",
];

/// The longest name of DNS, as it is written without a dot at its end (RFC 1035 §2.3.4).
const NAME_MAX_BYTES: usize = 253;

/// The longest label of a name (RFC 1035 §2.3.4).
const LABEL_MAX_BYTES: usize = 63;

/// How much of what somebody else wrote is told, in characters.
const TOLD_MAX_CHARS: usize = 100;

/// The switch of the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointRules {
    /// Whether http, private addresses and any port are allowed, for local runs.
    pub allow_private: bool,
}

/// Why a URL or the address behind it may not be called. Never carries the path or query, which
/// may hold a partner's token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not an absolute URL with a host.
    #[error("the url is not an absolute URL")]
    NotAUrl,
    /// Another scheme.
    #[error("the url's scheme is `{0}`, only https is allowed")]
    Scheme(String),
    /// A user name or password stands in it.
    #[error("the url contains a user name or password")]
    UserInfo,
    /// A port that belongs to some other service.
    #[error("port {0} is not allowed, only 443 and 1024 to 65535 are")]
    Port(u16),
    /// A name without a dot, of a special domain, or that no host can have.
    #[error("`{0}` is not a public host name")]
    Name(String),
    /// An address that is not on the public internet.
    #[error(transparent)]
    Address(#[from] NotPublic),
}

impl EndpointRules {
    /// Judges a URL, except for what its name resolves to.
    ///
    /// # Errors
    /// The rule that forbids it.
    pub fn judge_url(self, text: &str) -> Result<Url, EndpointError> {
        let mut url = Url::parse(text).map_err(|_| EndpointError::NotAUrl)?;
        match url.scheme() {
            "https" => {}
            "http" if self.allow_private => {}
            other => return Err(EndpointError::Scheme(shortened(other))),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EndpointError::UserInfo);
        }
        match url.host() {
            None => return Err(EndpointError::NotAUrl),
            Some(Host::Ipv4(address)) => self.judge_address(address.into())?,
            Some(Host::Ipv6(address)) => self.judge_address(address.into())?,
            Some(Host::Domain(name)) => self.judge_name(name)?,
        }
        match url.port_or_known_default() {
            Some(443 | 1024..) => {}
            Some(1..) if self.allow_private => {}
            port => return Err(EndpointError::Port(port.unwrap_or(0))),
        }
        url.set_fragment(None);
        Ok(url)
    }

    /// Judges an address that stands in a URL or that a name resolved to.
    ///
    /// # Errors
    /// If it is not public.
    pub fn judge_address(self, address: IpAddr) -> Result<(), EndpointError> {
        if self.allow_private {
            return Ok(());
        }
        Ok(address::judge(address)?)
    }

    fn judge_name(self, name: &str) -> Result<(), EndpointError> {
        if self.allow_private {
            return Ok(());
        }
        // `url` has already made the name lower case.
        let bare = name.strip_suffix('.').unwrap_or(name);
        let special = SPECIAL_DOMAINS.iter().any(|domain| {
            bare.strip_suffix(domain)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        });
        // A single label would be completed by the search domains of the network we run in, and
        // what a resolver makes of an empty one is anybody's guess.
        let is_host_name = bare.contains('.') && is_host_name(bare);
        if special || !is_host_name {
            return Err(EndpointError::Name(shortened(name)));
        }
        Ok(())
    }
}

/// Whether a name is one that a host can have, which is narrower than what DNS and URLs allow
/// (RFC 1123 §2.1). Underscores are none, and common.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_MAX_BYTES).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= NAME_MAX_BYTES && name.split('.').all(is_label)
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TOLD_MAX_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCTION: EndpointRules = EndpointRules {
        allow_private: false,
    };
    const LOCAL: EndpointRules = EndpointRules {
        allow_private: true,
    };

    fn judged(url: &str) -> Result<String, String> {
        PRODUCTION
            .judge_url(url)
            .map(String::from)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_public_https_url_is_sent_to_in_its_whatwg_form() {
        for (url, form) in [
            ("https://example.com", "https://example.com/"),
            ("HTTPS://EXAMPLE.COM/", "https://example.com/"),
            ("https://example.com:443/", "https://example.com/"),
            ("https://example.com:8443/x", "https://example.com:8443/x"),
            ("https://example.com/h#part", "https://example.com/h"),
            (
                "https://example.com/a%20b?q=%22x%22&z=%2B+%20&a=1&a=2",
                "https://example.com/a%20b?q=%22x%22&z=%2B+%20&a=1&a=2",
            ),
            (
                "https://example.com/a b?q=a b&r=é",
                "https://example.com/a%20b?q=a%20b&r=%C3%A9",
            ),
            ("https://example.com/a%2520b", "https://example.com/a%2520b"),
            ("https://example.com/%zz", "https://example.com/%zz"),
            ("https://example.com/a/./b//c", "https://example.com/a/b//c"),
            ("https://example.com/../../a", "https://example.com/a"),
            ("https://exa\u{ad}mple.com/", "https://example.com/"),
            ("https://@example.com/", "https://example.com/"),
            ("https://134744072/", "https://8.8.8.8/"),
            ("https://[64:ff9b::808:808]/", "https://[64:ff9b::808:808]/"),
            ("https://172.32.0.1/", "https://172.32.0.1/"),
            // Ports of other services are high ones too, and theirs speak no TLS.
            ("https://example.com:6379/", "https://example.com:6379/"),
            ("https://example.com:9001/", "https://example.com:9001/"),
            // Judged where it is resolved.
            ("https://127.0.0.1.nip.io/", "https://127.0.0.1.nip.io/"),
            (
                "https://169-254-169-254.sslip.io/",
                "https://169-254-169-254.sslip.io/",
            ),
        ] {
            assert_eq!(judged(url), Ok(form.to_owned()), "{url}");
        }
    }

    #[test]
    fn addresses_are_judged_however_they_are_written() {
        for (url, address) in [
            ("https://169.254.169.254/", "169.254.169.254"),
            ("https://127.0.0.1/", "127.0.0.1"),
            ("https://[::1]/", "::1"),
            ("https://2852039166/", "169.254.169.254"),
            ("https://0xa9fea9fe/", "169.254.169.254"),
            ("https://0xa9.0xfe.0xa9.0xfe/", "169.254.169.254"),
            ("https://0251.0376.0251.0376/", "169.254.169.254"),
            ("https://169.254.43518/", "169.254.169.254"),
            ("https://%31%36%39.254.169.254/", "169.254.169.254"),
            ("https://127.1/", "127.0.0.1"),
            ("https://0/", "0.0.0.0"),
            ("https://0.0.0.0/", "0.0.0.0"),
            ("https://[::]/", "::"),
            (
                "https://[::ffff:169.254.169.254]/",
                "::ffff:169.254.169.254",
            ),
            ("https://[::ffff:7f00:1]/", "::ffff:127.0.0.1"),
            ("https://[64:ff9b::a9fe:a9fe]/", "64:ff9b::a9fe:a9fe"),
            ("https://[64:ff9b:1::a9fe:a9fe]/", "64:ff9b:1::a9fe:a9fe"),
            ("https://[2002:a9fe:a9fe::]/", "2002:a9fe:a9fe::"),
            ("https://[64:ff9b::10.0.0.1]/", "64:ff9b::10.0.0.1"),
            (
                "https://[2001:0:a9fe:a9fe::5601:5601]/",
                "2001:0:a9fe:a9fe::5601:5601",
            ),
            ("https://[fd00:ec2::254]/", "fd00:ec2::254"),
            ("https://[fd12:3456:789a::1]/", "fd12:3456:789a::1"),
            ("https://[fc00::1]/", "fc00::1"),
            ("https://①②⑦.⓪.⓪.①/", "127.0.0.1"),
            ("https://１６９.２５４.１６９.２５４/", "169.254.169.254"),
            ("https://127。0。0。1/", "127.0.0.1"),
            (
                "https://169.254.100.1:9001/2018-06-01/runtime/invocation/next",
                "169.254.100.1",
            ),
        ] {
            let address: IpAddr = address.parse().unwrap();
            let not_public = address::judge(address).unwrap_err();
            assert_eq!(judged(url), Err(not_public.to_string()), "{url}");
        }
    }

    #[test]
    fn special_names_are_refused() {
        for name in [
            "localhost",
            "LOCALHOST",
            "localhost.",
            "db.localhost",
            "foo.local",
            "x.internal",
            "ip6-localhost",
            "metadata",
            "instance-data",
            "intranet",
            "printer.intranet",
            "metadata.google.internal",
            "nas.home.arpa",
            "x.test",
            "localhost..",
            "example..com",
            ".example.com",
        ] {
            assert_eq!(
                judged(&format!("https://{name}/")),
                Err(format!(
                    "`{}` is not a public host name",
                    name.to_lowercase()
                )),
                "{name}"
            );
        }
        assert!(judged("https://notlocalhost.com/").is_ok());
        assert!(judged("https://example.com./").is_ok());
    }

    #[test]
    fn whatever_is_not_plain_https_is_refused() {
        for (url, message) in [
            (
                "http://example.com/",
                "the url's scheme is `http`, only https is allowed",
            ),
            (
                "ftp://example.com/",
                "the url's scheme is `ftp`, only https is allowed",
            ),
            (
                "file:///etc/passwd",
                "the url's scheme is `file`, only https is allowed",
            ),
            ("", "the url is not an absolute URL"),
            ("//example.com/h", "the url is not an absolute URL"),
            ("not a url", "the url is not an absolute URL"),
            ("null", "the url is not an absolute URL"),
            ("https://256.256.256.256/", "the url is not an absolute URL"),
            ("https://1.2.3.4.5/", "the url is not an absolute URL"),
            (
                "https://example.com:65536/",
                "the url is not an absolute URL",
            ),
            (
                "https://example.com:pw@169.254.169.254/",
                "the url contains a user name or password",
            ),
            (
                "https://example.com@169.254.169.254/",
                "the url contains a user name or password",
            ),
            (
                "https://a:b@10.0.0.1:443/x",
                "the url contains a user name or password",
            ),
            (
                "https://example.com:22/",
                "port 22 is not allowed, only 443 and 1024 to 65535 are",
            ),
            (
                "https://example.com:25/",
                "port 25 is not allowed, only 443 and 1024 to 65535 are",
            ),
            (
                "https://example.com:0/",
                "port 0 is not allowed, only 443 and 1024 to 65535 are",
            ),
            (
                "https://example.com:80/",
                "port 80 is not allowed, only 443 and 1024 to 65535 are",
            ),
        ] {
            assert_eq!(judged(url), Err(message.to_owned()), "{url}");
        }
    }

    #[test]
    fn a_local_run_allows_http_and_private_addresses_but_no_user_info() {
        for url in [
            "http://127.0.0.1:9200/hook",
            "http://localhost:80/",
            "https://[::1]:22/",
        ] {
            assert!(LOCAL.judge_url(url).is_ok(), "{url}");
        }
        assert_eq!(
            LOCAL.judge_url("http://a@127.0.0.1/"),
            Err(EndpointError::UserInfo)
        );
        assert!(matches!(
            LOCAL.judge_url("ftp://127.0.0.1/"),
            Err(EndpointError::Scheme(_))
        ));
        assert_eq!(
            LOCAL.judge_url("http://127.0.0.1:0/"),
            Err(EndpointError::Port(0))
        );
    }
}
