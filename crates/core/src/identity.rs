//! Names that must be safe wherever they go: DynamoDB key, SQS message group, SSM path, HTTP
//! header, signed content.

use std::fmt;

use sha2::{Digest, Sha256};

/// The longest subscriber id, in characters.
pub const SUBSCRIBER_ID_MAX: usize = 64;

/// The longest event id that becomes part of a webhook id as it is, in characters.
const EVENT_ID_MAX: usize = 128;

/// A subscriber's name: `[A-Za-z0-9_-]{1,64}`.
///
/// The alphabet is what an SSM parameter path, an SQS `MessageGroupId` and a `webhook-id` header
/// can all carry without escaping.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriberId(String);

/// The text is not a subscriber id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a subscriberId is 1 to 64 characters of A-Z, a-z, 0-9, `_` and `-`")]
pub struct SubscriberIdError;

impl SubscriberId {
    /// Reads a subscriber id.
    ///
    /// # Errors
    /// If the text is empty, longer than 64 characters, or has any other character.
    pub fn parse(text: &str) -> Result<Self, SubscriberIdError> {
        if is_plain(text, SUBSCRIBER_ID_MAX) {
            Ok(Self(text.to_owned()))
        } else {
            Err(SubscriberIdError)
        }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SubscriberId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The identity of a delivery, `msg_{event id}_{subscriber id}`: the same for every attempt,
/// redrive and duplicate of the event, so that a receiver can tell a repeat.
///
/// It never contains a `.`, which separates id, timestamp and body in the signed content: with
/// one, two different messages could share a signature (Standard Webhooks 1.0, "Signature
/// scheme"). An event id from EventBridge is a UUID and passes as it is; any other alphabet is
/// replaced by the first half of its SHA-256 in hex.
#[must_use]
pub fn webhook_id(event_id: &str, subscriber_id: &SubscriberId) -> String {
    if is_plain(event_id, EVENT_ID_MAX) {
        format!("msg_{event_id}_{subscriber_id}")
    } else {
        let digest = Sha256::digest(event_id.as_bytes());
        let hex: String = digest
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("msg_{hex}_{subscriber_id}")
    }
}

/// Whether the text is a webhook id that may be signed and sent as a header.
#[must_use]
pub fn is_webhook_id(text: &str) -> bool {
    is_plain(
        text,
        "msg_".len() + EVENT_ID_MAX + "_".len() + SUBSCRIBER_ID_MAX,
    )
}

fn is_plain(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriber_ids_are_letters_digits_underscore_and_dash() {
        for good in ["kasse-nord", "A", "9_9", &"x".repeat(64)] {
            assert_eq!(SubscriberId::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "a b",
            "客户 1",
            "😀",
            "a.b",
            "a/b",
            "a\n",
            &"x".repeat(65),
            &"x".repeat(129),
        ] {
            assert_eq!(SubscriberId::parse(bad), Err(SubscriberIdError), "{bad:?}");
        }
    }

    #[test]
    fn a_webhook_id_is_made_of_event_and_subscriber_alone() {
        let subscriber = SubscriberId::parse("kasse-nord").unwrap();
        assert_eq!(
            webhook_id("6f1c1a5e-0d8f-4a57-9a52-1d8d3f1c7b11", &subscriber),
            "msg_6f1c1a5e-0d8f-4a57-9a52-1d8d3f1c7b11_kasse-nord"
        );
    }

    #[test]
    fn an_event_id_with_a_dot_never_reaches_the_webhook_id() {
        let subscriber = SubscriberId::parse("s").unwrap();
        // printf 'evt_1.1700000000' | sha256sum
        let id = webhook_id("evt_1.1700000000", &subscriber);
        assert_eq!(id, "msg_83c11578613676651d67a18509333e91_s");
        assert!(is_webhook_id(&id));
        assert_ne!(id, webhook_id("evt_1-1700000000", &subscriber));
        for odd in ["", "a\r\nb", "é", &"x".repeat(129)] {
            assert!(is_webhook_id(&webhook_id(odd, &subscriber)), "{odd:?}");
        }
    }

    #[test]
    fn a_webhook_id_is_header_safe() {
        assert!(is_webhook_id("msg_1_a"));
        for bad in ["", "msg_1.2", "msg 1", "msg_é", "msg\r\nx"] {
            assert!(!is_webhook_id(bad), "{bad:?}");
        }
    }
}
