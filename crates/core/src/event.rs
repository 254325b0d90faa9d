//! An event as EventBridge hands it over, and the body that is frozen from it.
//!
//! `detail` is never parsed into values: numbers, key order, duplicate keys and escapes of the
//! publisher reach the subscriber byte for byte.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::{self, JsonError};
use crate::sqs_text::escape_refused_characters;

/// DynamoDB's limit for a partition key, in bytes: the event type is one.
pub(crate) const EVENT_TYPE_MAX_BYTES: usize = 2048;

/// The longest event id, in bytes. EventBridge gives UUIDs.
pub(crate) const EVENT_ID_MAX_BYTES: usize = 256;

/// The longest time, in bytes: RFC 3339 with a fraction takes 35.
pub(crate) const TIME_MAX_BYTES: usize = 64;

/// The `source` of events that this service publishes itself: notices to operators. They never
/// become webhooks.
pub const OWN_SOURCE: &str = "sqs-webhooks";

/// One EventBridge event. Fields that are not listed, such as `replay-name`, are ignored.
#[derive(Debug, Deserialize)]
pub struct Event<'a> {
    /// The event's identity, a UUID that EventBridge gives.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// The event type, exactly as published.
    #[serde(borrow, rename = "detail-type")]
    pub event_type: Cow<'a, str>,
    /// When it happened, RFC 3339.
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// Who published it. Only asked whether it is this service itself.
    #[serde(borrow, default)]
    source: Option<&'a RawValue>,
    /// The published payload, untouched.
    #[serde(borrow)]
    pub detail: &'a RawValue,
}

/// Why an event can not be fanned out.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// Not JSON, or a field is missing or has another type.
    #[error("not an EventBridge event: {0}")]
    Malformed(#[from] JsonError),
    /// A field that identifies the event is empty.
    #[error("the event's `{0}` is empty")]
    Empty(&'static str),
    /// The field is longer than it can be used: as a key of the subscriptions table, or in every
    /// log line.
    #[error("the event's `{0}` is longer than {1} bytes")]
    TooLong(&'static str, usize),
    /// EventBridge only carries objects.
    #[error("the event's `detail` is not a JSON object")]
    DetailNotAnObject,
}

impl<'a> Event<'a> {
    /// Reads an event from the JSON text that the function was invoked with.
    ///
    /// # Errors
    /// See [`EventError`].
    pub fn parse(json: &'a str) -> Result<Self, EventError> {
        let event: Self = json::object(json)?;
        for (field, value, longest) in [
            ("id", &event.id, EVENT_ID_MAX_BYTES),
            ("detail-type", &event.event_type, EVENT_TYPE_MAX_BYTES),
            ("time", &event.time, TIME_MAX_BYTES),
        ] {
            if value.is_empty() {
                return Err(EventError::Empty(field));
            }
            if value.len() > longest {
                return Err(EventError::TooLong(field, longest));
            }
        }
        if !json::is_object(event.detail.get()) {
            return Err(EventError::DetailNotAnObject);
        }
        Ok(event)
    }

    /// Whether this service has published it itself.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.source
            .and_then(|source| serde_json::from_str::<Cow<'_, str>>(source.get()).ok())
            .is_some_and(|source| source == OWN_SOURCE)
    }

    /// The Standard Webhooks payload, `{"type":…,"timestamp":…,"data":<detail>}`: these exact
    /// bytes are carried by every job of the event, signed and sent.
    ///
    /// # Errors
    /// None for an event that was parsed; the type is what the JSON writer asks for.
    pub fn freeze_body(&self) -> Result<Box<RawValue>, JsonError> {
        #[derive(Serialize)]
        struct Payload<'a> {
            r#type: &'a str,
            timestamp: &'a str,
            data: &'a RawValue,
        }
        let json = serde_json::to_string(&Payload {
            r#type: &self.event_type,
            timestamp: &self.time,
            data: self.detail,
        })?;
        Ok(RawValue::from_string(escape_refused_characters(json))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(detail: &str) -> String {
        format!(
            r#"{{"version":"0","id":"e1","detail-type":"OrderPaid","source":"shop.orders","account":"111122223333","time":"2026-10-29T12:00:00Z","region":"eu-central-1","resources":[],"replay-name":"r1","detail":{detail}}}"#
        )
    }

    fn body_of(detail: &str) -> String {
        let json = event(detail);
        let body = Event::parse(&json).unwrap().freeze_body().unwrap();
        body.get().to_owned()
    }

    #[test]
    fn the_detail_is_passed_byte_for_byte() {
        for detail in [
            r#"{"a":1.0}"#,
            r#"{"a":12345678901234567890}"#,
            r#"{"a":123456789012345678901234567890}"#,
            r#"{"a":0.1234567890123456789}"#,
            r#"{"a":-0}"#,
            r#"{"a":1E5,"b":0.10}"#,
            r#"{"a":1e400}"#,
            r#"{"b":1,"a":2}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"b":1,"a":"é"}"#,
            r#"{"a":"\u00e9\/\ud800"}"#,
            "{ \"a\" :\n\t[1 , 2] }",
            "{}",
            r#"{"a":"😀"}"#,
        ] {
            assert_eq!(
                body_of(detail),
                format!(
                    r#"{{"type":"OrderPaid","timestamp":"2026-10-29T12:00:00Z","data":{detail}}}"#
                )
            );
        }
    }

    #[test]
    fn characters_that_sqs_refuses_are_escaped_and_mean_the_same() {
        let body = body_of("{\"a\":\"\u{ffff}\"}");
        assert!(body.ends_with(r#""data":{"a":"\uffff"}}"#), "{body}");
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["data"]["a"], "\u{ffff}");
    }

    #[test]
    fn the_event_type_is_exactly_what_was_published() {
        for event_type in [
            "Order Placed",
            "a/b",
            "заказ",
            " lead",
            "order\r\nX-Injected: 1",
            &"x".repeat(128),
        ] {
            let json =
                event("{}").replace("\"OrderPaid\"", &serde_json::to_string(event_type).unwrap());
            let event = Event::parse(&json).unwrap();
            assert_eq!(event.event_type, event_type);
            let body = event.freeze_body().unwrap();
            let value: serde_json::Value = serde_json::from_str(body.get()).unwrap();
            assert_eq!(value["type"], event_type);
        }
    }

    #[test]
    fn a_detail_that_is_not_an_object_is_refused() {
        for detail in ["null", "[1,2]", "\"x\"", "123", "true"] {
            assert!(
                matches!(
                    Event::parse(&event(detail)),
                    Err(EventError::DetailNotAnObject)
                ),
                "{detail}"
            );
        }
    }

    #[test]
    fn a_missing_or_empty_field_is_named() {
        let message = |json: &str| Event::parse(json).unwrap_err().to_string();
        assert!(message("{}").contains("missing field `id`"));
        assert!(
            message(r#"{"id":"1","detail-type":"T","time":"t"}"#)
                .contains("missing field `detail`")
        );
        assert_eq!(
            message(&event("{}").replace("\"OrderPaid\"", "\"\"")),
            "the event's `detail-type` is empty"
        );
        assert_eq!(
            message(&event("{}").replace("\"e1\"", "\"\"")),
            "the event's `id` is empty"
        );
        assert_eq!(
            message("hello"),
            "not an EventBridge event: not JSON at line 1 column 1"
        );
        assert_eq!(
            message(r#"["e1","OrderPaid","t",{}]"#),
            "not an EventBridge event: not a JSON object"
        );
        let long = event("{}").replace("\"e1\"", &format!("\"{}\"", "x".repeat(257)));
        assert_eq!(message(&long), "the event's `id` is longer than 256 bytes");
        let long = event("{}").replace("OrderPaid", &"x".repeat(2049));
        assert_eq!(
            message(&long),
            "the event's `detail-type` is longer than 2048 bytes"
        );
    }
}
