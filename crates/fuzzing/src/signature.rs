//! Verifying: nothing is accepted that the official library refuses.

use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use standardwebhooks::Webhook;
use webhooks_core::verify::{Rejection, Signed, VerifyingKeys};

/// Keys, `webhook-id`, `webhook-timestamp` and `webhook-signature` on a line each, then the body.
/// `{now}` in the timestamp is this second, and `{sign}` in the signature is the right one by the
/// first key: no seed could have them.
///
/// # Panics
/// If a request passes that does not for the official library, with any of the shared secrets; or
/// if the library's own signature does not pass, at this second also with a look at the clock.
pub fn verify(data: &[u8]) {
    let mut parts = data.splitn(5, |byte| *byte == b'\n');
    let mut line = || str::from_utf8(parts.next()?).ok();
    let (Some(keys), Some(id), Some(timestamp), Some(signature)) = (line(), line(), line(), line())
    else {
        return;
    };
    let body = parts.next().unwrap_or_default();
    let now = SystemTime::now();
    let seconds = now.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let is_now = timestamp == "{now}";
    let timestamp = timestamp.replace("{now}", &seconds.to_string());
    let made = made_by_the_library(keys, id, &timestamp, body);
    let is_right = made.is_some() && signature == "{sign}";
    let signature = signature.replace("{sign}", made.as_deref().unwrap_or_default());
    let signed = Signed {
        id,
        timestamp: &timestamp,
        signature: &signature,
    };
    let Ok(parsed) = VerifyingKeys::parse(keys) else {
        return;
    };
    let signature_is_right = parsed.verify_signature(signed, body);
    let verified = parsed.verify(signed, body, now);
    match verified {
        Ok(()) => assert_eq!(signature_is_right, Ok(())),
        Err(error @ (Rejection::NoSignature | Rejection::Signature)) => {
            assert_eq!(signature_is_right, Err(error));
        }
        Err(Rejection::Id | Rejection::Timestamp | Rejection::TooOld(_) | Rejection::TooNew(_)) => {
        }
    }
    if is_right {
        assert_eq!(signature_is_right, Ok(()), "{keys:?} {signed:?}");
        if is_now && !id.is_empty() && !id.contains('.') {
            assert_eq!(verified, Ok(()), "{keys:?} {signed:?}");
        }
    }
    // The library knows shared secrets only, and no body that is not a text.
    if verified.is_ok() && !keys.contains("whpk_") && str::from_utf8(body).is_ok() {
        // What can not be a header does not come.
        if let Some(headers) = headers(signed) {
            let accepted = keys.split_whitespace().any(|secret| {
                Webhook::new(secret).is_ok_and(|webhook| webhook.verify(body, &headers).is_ok())
            });
            assert!(accepted, "{keys:?} {signed:?}");
        }
    }
}

fn headers(signed: Signed<'_>) -> Option<HeaderMap> {
    [
        ("webhook-id", signed.id),
        ("webhook-timestamp", signed.timestamp),
        ("webhook-signature", signed.signature),
    ]
    .into_iter()
    .map(|(name, value)| {
        let value = HeaderValue::from_str(value).ok()?;
        value.to_str().ok()?;
        Some((HeaderName::from_static(name), value))
    })
    .collect()
}

/// The signature by the first key; none by a public one, or of a timestamp that would be signed as
/// another text.
fn made_by_the_library(keys: &str, id: &str, timestamp: &str, body: &[u8]) -> Option<String> {
    let number = timestamp.parse::<i64>().ok()?;
    let first = keys.split_whitespace().next()?;
    if number.to_string() != timestamp || !first.starts_with("whsec_") {
        return None;
    }
    Webhook::new(first).ok()?.sign(id, number, body).ok()
}
