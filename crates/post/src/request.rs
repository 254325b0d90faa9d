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
    Uri::try_from(url.as_str()).map_err(|_| EndpointError::NotAUrl)
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
    use super::*;

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
