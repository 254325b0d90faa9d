//! The `webhook-signature` header (Standard Webhooks 1.0, "Signature scheme"): how it is made.
//! How it is verified stands in [`verify`](crate::verify).

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::Mac as _;

use crate::secret::{Key, SigningSecret, SigningSecrets};

/// Name of the header that carries the delivery's identity.
pub const ID_HEADER: &str = "webhook-id";
/// Name of the header that carries the time of the attempt, in whole seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// Name of the header that carries the signatures.
pub const SIGNATURE_HEADER: &str = "webhook-signature";

/// Signs one attempt with every secret that is active at `now`: `v1,<base64>` or `v1a,<base64>` for
/// each, newest first, separated by one space. `None` if no secret is active any more; then nothing
/// may be sent.
///
/// `timestamp` is the number that stands in [`TIMESTAMP_HEADER`], in seconds.
#[must_use]
pub fn sign(
    secrets: &SigningSecrets,
    webhook_id: &str,
    timestamp: u64,
    body: &[u8],
    now: SystemTime,
) -> Option<String> {
    let mut header = String::new();
    let timestamp = timestamp.to_string();
    for secret in secrets.active(now) {
        if !header.is_empty() {
            header.push(' ');
        }
        header.push_str(secret.scheme().name());
        header.push(',');
        sign_with(
            secret,
            signed_content(webhook_id, &timestamp, body),
            &mut header,
        );
    }
    (!header.is_empty()).then_some(header)
}

/// What is signed, in parts that follow each other: id, timestamp and body, with dots between them.
pub(crate) fn signed_content<'a>(
    webhook_id: &'a str,
    timestamp: &'a str,
    body: &'a [u8],
) -> [&'a [u8]; 5] {
    [
        webhook_id.as_bytes(),
        b".",
        timestamp.as_bytes(),
        b".",
        body,
    ]
}

/// Appends the base64 of a signature.
fn sign_with(secret: &SigningSecret, content: [&[u8]; 5], header: &mut String) {
    match &secret.key {
        Key::Shared(hmac) => {
            let mut mac = hmac.clone();
            for part in content {
                mac.update(part);
            }
            STANDARD.encode_string(mac.finalize().into_bytes(), header);
        }
        // It goes over what it signs twice, and so needs it in one piece.
        Key::Ed25519(pair) => {
            STANDARD.encode_string(pair.sign(&content.concat()), header);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const S: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn signature(value: &str, id: &str, timestamp: u64, body: &str) -> Option<String> {
        let now = UNIX_EPOCH + Duration::from_secs(timestamp);
        sign(
            &SigningSecrets::parse(value).unwrap(),
            id,
            timestamp,
            body.as_bytes(),
            now,
        )
    }

    #[test]
    fn the_published_vectors_are_met() {
        assert_eq!(
            signature(
                S,
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                1_614_265_330,
                r#"{"test": 2432232314}"#
            )
            .unwrap(),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
        assert_eq!(
            signature(
                "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
                "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
                1_649_367_553,
                r#"{"email":"test@example.com","username":"test_user"}"#
            )
            .unwrap(),
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="
        );
    }

    #[test]
    fn every_byte_of_the_body_is_signed_as_it_is() {
        for (body, expected) in [
            ("{}", "v1,zDDZQ0HbZDldGfbXFD+XxplmyMbPhxymu2DUsyrVk1U="),
            (
                r#"{"a":1.0}"#,
                "v1,W1BnTPFOU7bFkxb/KH/BXxIV+4nK7gAnvxwpsCgaYQw=",
            ),
            (
                r#"{"a":1}"#,
                "v1,qObqaT8ae+L7ApT9haiUyL954tN4bu4sTnfiYqdvNz0=",
            ),
            (
                r#"{"a":123456789012345678901234567890}"#,
                "v1,mIIEsuMNuBs3oFcxcRIy1Nep1Df8ZWFRBUYjh9t07dk=",
            ),
            (
                r#"{"a":1e400}"#,
                "v1,HRS+QzYm4QZ4KGQ//8QrA7uu/x9/K1viNgHFOXAINLI=",
            ),
            (
                r#"{"b":1,"a":2}"#,
                "v1,krTYhIsRLFfYMMcF5Lm5Z7PPU4I7Vw05IKIhpJ5pED8=",
            ),
            (
                r#"{"a":1,"a":2}"#,
                "v1,AsjAKTCX+GTjKDUCclQHJO9jCxlYU6wQqmKsxY2Qtqo=",
            ),
        ] {
            assert_eq!(
                signature(S, "evt_1", 1_700_000_000, body).unwrap(),
                expected,
                "{body}"
            );
        }
    }

    /// The seed and the signature that the official Go library tests with.
    const GO_SEED: &str = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=";
    const GO_SIGNATURE: &str = "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag==";

    #[test]
    fn an_ed25519_secret_signs_as_in_the_official_library() {
        let signed = |value: &str| {
            signature(
                value,
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                1_614_265_330,
                r#"{"test": 2432232314}"#,
            )
            .unwrap()
        };
        assert_eq!(signed(GO_SEED), GO_SIGNATURE);
        // While a partner moves from one scheme to the other.
        assert_eq!(
            signed(&format!("{GO_SEED} {S}")),
            format!("{GO_SIGNATURE} v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        );
    }

    #[test]
    fn each_active_secret_adds_a_signature_newest_first() {
        let newer = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        let of = |value: &str| signature(value, "evt_1", 1_700_000_000, "{}");
        assert_eq!(
            of(&format!("{newer}\n{S}")).unwrap(),
            format!("{} {}", of(newer).unwrap(), of(S).unwrap())
        );
        assert_eq!(
            of(&format!("{newer} {S};until=2023-01-01T00:00:00Z")),
            of(newer)
        );
    }

    #[test]
    fn nothing_is_signed_once_every_secret_has_ended() {
        assert_eq!(
            signature(
                &format!("{S};until=2023-01-01T00:00:00Z"),
                "evt_1",
                1_700_000_000,
                "{}"
            ),
            None
        );
    }
}
