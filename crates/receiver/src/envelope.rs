//! The event in a body: `{"type":"OrderPaid","timestamp":"…","data":{…}}`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use webhooks_core::{json, timestamp};

use crate::request::Refusal;

/// The longest type, in bytes; EventBridge ends at 128 characters.
const TYPE_MAX_BYTES: usize = 256;

/// The longest timestamp, in bytes: RFC 3339 allows any number of decimals.
const TIMESTAMP_MAX_BYTES: usize = 64;

/// The payload of a webhook (Standard Webhooks 1.0, "Payload structure").
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    /// What has happened, such as `OrderPaid`.
    #[serde(rename = "type", borrow)]
    pub event_type: Cow<'a, str>,
    /// When it happened, as the sender wrote it.
    #[serde(borrow)]
    pub timestamp: Cow<'a, str>,
    /// The event itself, byte for byte: a number that is read and written again may be another.
    #[serde(borrow)]
    pub data: &'a RawValue,
}

impl<'a> Envelope<'a> {
    /// Reads a body whose signature is right.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, Refusal> {
        let text = str::from_utf8(body).map_err(|_| Refusal::NotText)?;
        let envelope: Self = json::object(text).map_err(Refusal::NotAnEvent)?;
        if !(1..=TYPE_MAX_BYTES).contains(&envelope.event_type.len()) {
            return Err(Refusal::Type);
        }
        if envelope.timestamp.len() > TIMESTAMP_MAX_BYTES {
            return Err(Refusal::Timestamp);
        }
        timestamp::parse(&envelope.timestamp).ok_or(Refusal::Timestamp)?;
        Ok(envelope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> String {
        Envelope::parse(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn the_data_stays_as_it_is() {
        let data = r#"{ "b":1.0, "a":1e400, "a":"\u00e4" }"#;
        let body = format!(
            r#"{{"type":"Order\u0050aid","timestamp":"2026-11-30T12:00:00Z","data":{data},"more":1}}"#
        );
        let envelope = Envelope::parse(body.as_bytes()).unwrap();
        assert_eq!(envelope.event_type, "OrderPaid");
        assert_eq!(envelope.timestamp, "2026-11-30T12:00:00Z");
        assert_eq!(envelope.data.get(), data);
    }

    #[test]
    fn what_is_no_event_is_refused_without_being_quoted() {
        let begin = "the body is not an event with type, timestamp and data: ";
        for (body, reason) in [
            ("", "incomplete JSON at line 1 column 0"),
            ("secret", "not JSON at line 1 column 1"),
            ("[]", "not a JSON object"),
            (
                r#"{"type":"A","timestamp":"t"}"#,
                "missing field `data` at line 1 column 28",
            ),
            (
                r#"{"type":"A","type":"B","timestamp":"t","data":1}"#,
                "duplicate field `type` at line 1 column 18",
            ),
            (
                r#"{"type":7,"timestamp":"t","data":1}"#,
                "a value of another type than expected at line 1 column 9",
            ),
        ] {
            assert_eq!(refused(body), format!("{begin}{reason}"), "{body}");
        }
        let of = |event_type: &str, timestamp: &str| {
            refused(&format!(
                r#"{{"type":"{event_type}","timestamp":"{timestamp}","data":null}}"#
            ))
        };
        let date = "2026-11-30T12:00:00Z";
        for event_type in ["", &"x".repeat(257)] {
            assert_eq!(of(event_type, date), Refusal::Type.to_string());
        }
        let long = format!("2026-11-30T12:00:00.{}Z", "0".repeat(60));
        for timestamp in ["", "2026-11-30", "1796040000", &long] {
            assert_eq!(of("A", timestamp), Refusal::Timestamp.to_string());
        }
        assert_eq!(Envelope::parse(b"\xff").unwrap_err(), Refusal::NotText);
    }
}
