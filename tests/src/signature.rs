//! A partner's check of a webhook, written from the text of Standard Webhooks 1.0 and not from
//! our signer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use crate::receiver::Received;

/// How far a webhook's timestamp may be from its arrival, in seconds. Partners allow 300; an
/// attempt on this machine is signed within moments of its arrival.
const TOLERANCE_SECONDS: u64 = 20;

/// The `v1` signature of a message, `v1,<base64>`.
///
/// # Panics
/// If the secret is not `whsec_` and base64.
#[must_use]
pub fn v1(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> String {
    let key = STANDARD
        .decode(secret.strip_prefix("whsec_").expect("whsec_"))
        .expect("base64");
    let mut signed = format!("{id}.{timestamp}.").into_bytes();
    signed.extend_from_slice(body);
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(&signed);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// A secret of its own for each name, with a key of 32 bytes.
#[must_use]
pub fn secret_for(name: &str) -> String {
    format!("whsec_{}", STANDARD.encode(Sha256::digest(name)))
}

/// Checks that a request carries exactly the signatures of these secrets, in this order, over
/// exactly the bytes that came, and a fresh timestamp; and that the library for receivers accepts
/// it with each of the secrets.
///
/// The whole header is compared, since that library also accepts a header it should not
/// (it takes any list of which one entry fits).
///
/// # Panics
/// If any of it does not hold.
pub fn assert_signed(received: &Received, secrets: &[&str]) {
    let id = received.header("webhook-id").expect("webhook-id");
    let timestamp = received
        .header("webhook-timestamp")
        .expect("webhook-timestamp");
    let header = received
        .header("webhook-signature")
        .expect("webhook-signature");

    let expected: Vec<String> = secrets
        .iter()
        .map(|secret| v1(secret, id, timestamp, &received.body))
        .collect();
    assert_eq!(header, expected.join(" "), "{received:?}");
    assert!(!id.contains('.'), "{id}");
    assert!(
        timestamp.bytes().all(|byte| byte.is_ascii_digit()),
        "{timestamp}"
    );
    let distance = received
        .at_unix_seconds
        .abs_diff(timestamp.parse().unwrap());
    assert!(
        distance <= TOLERANCE_SECONDS,
        "{timestamp}, {distance} s off"
    );

    let mut headers = http::HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        headers.insert(name, received.header(name).unwrap().parse().unwrap());
    }
    for secret in secrets {
        standardwebhooks::Webhook::new(secret)
            .unwrap()
            .verify(&received.body, &headers)
            .expect("the official library accepts it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vectors_are_met() {
        assert_eq!(
            v1(
                "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                "1614265330",
                br#"{"test": 2432232314}"#
            ),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
        assert_eq!(
            v1(
                "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
                "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
                "1649367553",
                br#"{"email":"test@example.com","username":"test_user"}"#
            ),
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="
        );
    }
}
