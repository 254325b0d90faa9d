//! The SQS event, read so that nothing in one record can harm another.
//!
//! Typed fields would make the whole event unreadable when a single one of them is not as
//! expected. So an event is only asked to be a list, and each record gives what it can.

use std::time::SystemTime;

use serde::Deserialize;
use serde_json::value::RawValue;
use webhooks_core::json::{self, JsonError};
use webhooks_core::timestamp::parse_epoch_millis;

/// What is needed of one SQS record. Each field is `None` if it is missing or has another type.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// Identity of the SQS message, which a failure is reported by.
    pub message_id: Option<String>,
    /// What the message's visibility is changed by.
    pub receipt_handle: Option<String>,
    /// The message itself.
    pub body: Option<String>,
    /// How often SQS has handed the message out; from 1.
    pub receive_count: Option<u32>,
    /// When it was sent to the queue.
    pub sent_at: Option<SystemTime>,
    /// When SQS handed it out for the first time.
    pub first_received_at: Option<SystemTime>,
}

/// The invocation was not for a batch of SQS messages.
#[derive(Debug, thiserror::Error)]
#[error("not an SQS event: {0}")]
pub struct NotAnSqsEvent(#[from] JsonError);

/// Reads the records of an event.
///
/// # Errors
/// If there is no list of records. An empty success would tell Lambda to delete the whole batch.
pub(crate) fn parse(event: &str) -> Result<Vec<Message>, NotAnSqsEvent> {
    #[derive(Deserialize)]
    struct SqsEvent<'a> {
        #[serde(borrow, rename = "Records")]
        records: Vec<&'a RawValue>,
    }
    let event: SqsEvent<'_> = json::object(event)?;
    Ok(event.records.into_iter().map(parse_message).collect())
}

fn parse_message(record: &RawValue) -> Message {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields<'a> {
        #[serde(borrow)]
        message_id: Option<&'a RawValue>,
        #[serde(borrow)]
        receipt_handle: Option<&'a RawValue>,
        #[serde(borrow)]
        body: Option<&'a RawValue>,
        #[serde(borrow)]
        attributes: Option<&'a RawValue>,
    }
    #[derive(Default, Deserialize)]
    struct Attributes<'a> {
        #[serde(borrow, rename = "ApproximateReceiveCount")]
        receive_count: Option<&'a RawValue>,
        #[serde(borrow, rename = "SentTimestamp")]
        sent_at: Option<&'a RawValue>,
        #[serde(borrow, rename = "ApproximateFirstReceiveTimestamp")]
        first_received_at: Option<&'a RawValue>,
    }
    let Ok(fields) = json::object::<Fields<'_>>(record.get()) else {
        return Message::default();
    };
    let attributes = fields
        .attributes
        .and_then(|attributes| json::object::<Attributes<'_>>(attributes.get()).ok())
        .unwrap_or_default();
    let time = |millis| parse_epoch_millis(&text(millis)?);
    Message {
        message_id: text(fields.message_id).filter(|id| !id.is_empty()),
        receipt_handle: text(fields.receipt_handle).filter(|handle| !handle.is_empty()),
        body: text(fields.body),
        receive_count: text(attributes.receive_count).and_then(|count| count.parse().ok()),
        sent_at: time(attributes.sent_at),
        first_received_at: time(attributes.first_received_at),
    }
}

fn text(json: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(json?.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_what_it_can() {
        let records = parse(
            r#"{"Records":[
                {"messageId":"m1","receiptHandle":"r1","body":"{}","attributes":{"ApproximateReceiveCount":"3","SenderId":"x","SentTimestamp":"1796040000000","ApproximateFirstReceiveTimestamp":1},"newField":{"z":1},
                 "messageAttributes":{"k":{"stringValue":"v","binaryValue":null,"dataType":"String"}}},
                {"messageId":7,"receiptHandle":"","body":null,"attributes":{"ApproximateReceiveCount":3}},
                {"messageId":"","attributes":null},
                "text",
                null,
                ["m5","r5","{}",{"ApproximateReceiveCount":"1"}],
                {"messageId":"m2","messageId":"m3"},
                {"messageId":"m4","body":"x\ud83d\ude00\u0000","attributes":{"ApproximateReceiveCount":"99999999999"}}
            ]}"#,
        )
        .unwrap();
        assert_eq!(
            records,
            [
                Message {
                    message_id: Some("m1".into()),
                    receipt_handle: Some("r1".into()),
                    body: Some("{}".into()),
                    receive_count: Some(3),
                    sent_at: parse_epoch_millis("1796040000000"),
                    first_received_at: None,
                },
                Message::default(),
                Message::default(),
                Message::default(),
                Message::default(),
                Message::default(),
                Message::default(),
                Message {
                    message_id: Some("m4".into()),
                    body: Some("x😀\0".into()),
                    ..Message::default()
                },
            ]
        );
    }

    #[test]
    fn an_event_without_a_list_of_records_is_an_error() {
        for event in [
            "{}",
            "null",
            "[]",
            "[[]]",
            r#"{"Records":null}"#,
            r#"{"Records":{}}"#,
            r#"{"key1":"value1"}"#,
        ] {
            assert!(parse(event).is_err(), "{event}");
        }
        assert_eq!(parse(r#"{"Records":[]}"#).unwrap(), []);
    }
}
