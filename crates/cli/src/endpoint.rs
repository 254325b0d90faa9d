//! Whether a url may be called, judged as `deliver` judges it, so that nobody registers what is
//! then blocked.

use webhooks_core::endpoint::{EndpointError, EndpointRules};
use webhooks_core::identity::SubscriberId;
use webhooks_core::subscription::{Attribute, Row, RowError, Subscription};
use webhooks_post::{ResolveError, resolve};

/// Why a url should not be subscribed.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// It has characters that are not seen, of which a URL parser takes some for nothing.
    #[error(
        "the url has white space at an end, or a control character such as a tab or a line break"
    )]
    Unseen,
    /// A rule forbids it as it is written.
    #[error("{0}")]
    Forbidden(#[from] EndpointError),
    /// It can not be in a row.
    #[error("{0}")]
    Row(#[from] RowError),
    /// Its name leads nowhere now, or to an address that a rule forbids.
    #[error("`{0}`: {1}")]
    Name(String, ResolveError),
}

/// Refuses what is not the url that it is called by: a URL parser drops white space around it, and
/// tabs and line breaks within.
///
/// # Errors
/// If it has any.
pub fn judge_characters(text: &str) -> Result<(), UrlError> {
    if text.contains(char::is_control) || text.trim() != text {
        return Err(UrlError::Unseen);
    }
    Ok(())
}

/// Judges a url as it is written, and gives its host name if it has one to be resolved.
///
/// # Errors
/// The rule that forbids it.
pub fn judge(rules: EndpointRules, text: &str) -> Result<Option<String>, UrlError> {
    let url = rules.judge_url(text)?;
    let id = SubscriberId::parse("x").map_err(RowError::from)?;
    Subscription::from_row(Row {
        subscriber_id: Some(Attribute::Text(id.as_str())),
        url: Some(Attribute::Text(text)),
        enabled: Some(Attribute::Flag(true)),
        headers: None,
    })?;
    Ok(match url.host() {
        Some(url::Host::Domain(name)) => Some(name.to_owned()),
        Some(url::Host::Ipv4(_) | url::Host::Ipv6(_)) | None => None,
    })
}

/// Whether two urls lead to the same scheme, host and port. What is no url leads nowhere.
#[must_use]
pub fn is_same_host(one: &str, other: &str) -> bool {
    match (url::Url::parse(one), url::Url::parse(other)) {
        (Ok(one), Ok(other)) => one.origin() == other.origin(),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Resolves a host name from here, and judges all its addresses.
///
/// # Errors
/// If it has none, or one that may not be called.
pub async fn judge_name(rules: EndpointRules, name: &str) -> Result<(), UrlError> {
    match resolve(rules, name).await {
        Ok(_) => Ok(()),
        Err(error) => Err(UrlError::Name(name.to_owned(), error)),
    }
}

#[cfg(test)]
mod tests {
    use e2e::dns::Dns;
    use e2e::network::within;

    use super::*;

    const RULES: EndpointRules = EndpointRules {
        allow_private: false,
    };

    #[test]
    fn the_same_host_is_the_same_scheme_host_and_port() {
        let url = "https://a.example/h";
        for (other, is_same) in [
            ("https://a.example/h", true),
            ("https://A.example:443/other?token=2", true),
            ("https://b.example/h", false),
            ("https://a.example.evil.example/h", false),
            ("https://a.example:8443/h", false),
            ("http://a.example:443/h", false),
            ("https://a.example@b.example/h", false),
            ("a.example/h", false),
        ] {
            assert_eq!(is_same_host(url, other), is_same, "{other}");
        }
    }

    #[test]
    fn a_url_has_no_characters_that_its_parser_drops() {
        for url in [
            "https://a.example/h\n",
            " https://a.example/h",
            "https://a.example/h\u{a0}",
            "https://a.exa\tmple/h",
            "https://a.example/\r\nh",
            "https://a.example/\u{1b}[2J",
            "\0https://a.example/",
        ] {
            let said = judge_characters(url).map_err(|error| error.to_string());
            assert!(said.unwrap_err().contains("white space"), "{url:?}");
        }
        assert!(judge_characters("https://a.example/größe?a=b c").is_ok());
    }

    #[test]
    fn only_a_name_is_to_be_resolved() {
        for (url, name) in [
            ("https://a.example/h", Some("a.example")),
            ("https://8.8.8.8/h", None),
            ("https://[2606:4700::1111]/h", None),
        ] {
            assert_eq!(judge(RULES, url).unwrap().as_deref(), name, "{url}");
        }
    }

    #[test]
    fn a_url_that_no_row_can_have_is_refused() {
        let long = format!("https://a.example/{}", "x".repeat(2048));
        assert_eq!(
            judge(RULES, &long).unwrap_err().to_string(),
            "`url` is longer than 2048 bytes"
        );
    }

    #[test]
    fn a_name_with_an_address_that_is_not_public_is_refused() {
        within(|| async {
            let dns = Dns::start().await;
            dns.name("partner.example", &["10.0.0.5"]);
            let error = judge_name(RULES, "partner.example").await.unwrap_err();
            assert_eq!(
                error.to_string(),
                "`partner.example`: 10.0.0.5 is not a public address: it is a private network"
            );
            let open = EndpointRules {
                allow_private: true,
            };
            assert!(judge_name(open, "partner.example").await.is_ok());
        });
    }
}
