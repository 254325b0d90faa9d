//! The events that EventBridge hands to `dispatch`, and what a subscriber is to get of them.

use serde_json::Value;

/// The identity of every event that is built here.
pub const ID: &str = "6f1c1a5e-0d8f-4a57-9a52-1d8d3f1c7b11";

/// An event whose `detail` is this JSON text, byte for byte.
#[must_use]
pub fn event(event_type: &str, detail: &str) -> String {
    format!(
        r#"{{"version":"0","id":"{ID}","detail-type":{},"source":"shop.orders","account":"111122223333","time":"2026-10-29T12:00:00Z","region":"eu-central-1","resources":[],"detail":{detail}}}"#,
        Value::from(event_type)
    )
}

/// The Standard Webhooks payload that is made of such an event.
#[must_use]
pub fn payload(event_type: &str, detail: &str) -> String {
    format!(
        r#"{{"type":{},"timestamp":"2026-10-29T12:00:00Z","data":{detail}}}"#,
        Value::from(event_type)
    )
}
