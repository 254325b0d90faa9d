//! The SQS event, read so that nothing in one record can harm another.
//!
//! Typed fields would make the whole event unreadable when a single one of them is not as
//! expected. So each record gives what it can. That happens while the runtime reads the
//! invocation: an event is up to 6 MB of escaped JSON, and each further walk through it would cost
//! more than signing it.

use std::fmt;
use std::marker::PhantomData;
use std::time::SystemTime;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use webhooks_core::json;
use webhooks_core::timestamp::parse_epoch_millis;

/// What an invocation brought.
#[derive(Debug)]
pub struct SqsEvent(Result<Vec<Message>, NotAnSqsEvent>);

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an SQS event: it has no list `Records`")]
pub struct NotAnSqsEvent;

impl SqsEvent {
    /// The messages of the batch.
    ///
    /// # Errors
    /// If there is no list of records. An empty success would tell Lambda to delete the whole batch.
    pub(crate) fn into_messages(self) -> Result<Vec<Message>, NotAnSqsEvent> {
        self.0
    }
}

impl<'de> Deserialize<'de> for SqsEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Event(records) = any(deserializer)?;
        Ok(Self(records.ok_or(NotAnSqsEvent)))
    }
}

/// A part of the event, which may be of any kind.
trait Part: Default {
    /// Reads it, where it is an object.
    fn of_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    /// Reads it, where it is a list.
    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

/// Reads a part; nothing is made of one that is neither object nor list.
fn any<'de, P: Part, D: Deserializer<'de>>(deserializer: D) -> Result<P, D::Error> {
    deserializer.deserialize_any(PartVisitor(PhantomData))
}

struct PartVisitor<P>(PhantomData<P>);

impl<'de, P: Part> Visitor<'de> for PartVisitor<P> {
    type Value = P;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<P, A::Error> {
        P::of_object(object)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<P, A::Error> {
        P::of_list(list)
    }

    fn visit_bool<E>(self, _: bool) -> Result<P, E> {
        Ok(P::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<P, E> {
        Ok(P::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<P, E> {
        Ok(P::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<P, E> {
        Ok(P::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<P, E> {
        Ok(P::default())
    }

    fn visit_unit<E>(self) -> Result<P, E> {
        Ok(P::default())
    }
}

/// The whole of it: its records, if there is one list of them.
#[derive(Default)]
struct Event(Option<Vec<Message>>);

impl Part for Event {
    fn of_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier)]
        enum Field {
            Records,
            #[serde(other)]
            Other,
        }
        let mut found: Option<Records> = None;
        let mut is_twice = false;
        while let Some(field) = object.next_key()? {
            match field {
                Field::Records => is_twice |= found.replace(object.next_value()?).is_some(),
                Field::Other => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        let records = found.filter(|_| !is_twice);
        Ok(Self(records.and_then(|Records(messages)| messages)))
    }
}

/// The list of records.
#[derive(Default)]
struct Records(Option<Vec<Message>>);

impl Part for Records {
    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut messages = Vec::new();
        while let Some(message) = list.next_element()? {
            messages.push(message);
        }
        Ok(Self(Some(messages)))
    }
}

impl<'de> Deserialize<'de> for Records {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        any(deserializer)
    }
}

impl Part for Message {
    fn of_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "camelCase")]
        enum Field {
            MessageId,
            ReceiptHandle,
            Body,
            Attributes,
            #[serde(other)]
            Other,
        }
        let [mut id, mut handle, mut body] = [None, None, None];
        let mut attributes = None;
        let mut is_twice = false;
        while let Some(field) = object.next_key()? {
            // Whatever it is, it is JSON; and it is gone again before the next one is read.
            let mut value = || object.next_value::<Box<RawValue>>();
            is_twice |= match field {
                Field::MessageId => id.replace(text(&value()?)).is_some(),
                Field::ReceiptHandle => handle.replace(text(&value()?)).is_some(),
                Field::Body => body.replace(text(&value()?)).is_some(),
                Field::Attributes => attributes.replace(Attributes::read(&value()?)).is_some(),
                Field::Other => {
                    object.next_value::<IgnoredAny>()?;
                    false
                }
            };
        }
        // Nobody knows which of the two is meant.
        if is_twice {
            return Ok(Self::default());
        }
        let Attributes {
            receive_count,
            sent_at,
            first_received_at,
        } = attributes.unwrap_or_default();
        Ok(Self {
            message_id: id.flatten().filter(|id| !id.is_empty()),
            receipt_handle: handle.flatten().filter(|handle| !handle.is_empty()),
            body: body.flatten(),
            receive_count,
            sent_at,
            first_received_at,
        })
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        any(deserializer)
    }
}

/// What SQS tells of a message.
#[derive(Default)]
struct Attributes {
    receive_count: Option<u32>,
    sent_at: Option<SystemTime>,
    first_received_at: Option<SystemTime>,
}

impl Attributes {
    fn read(json: &RawValue) -> Self {
        #[derive(Default, Deserialize)]
        struct Fields<'a> {
            #[serde(borrow, rename = "ApproximateReceiveCount")]
            receive_count: Option<&'a RawValue>,
            #[serde(borrow, rename = "SentTimestamp")]
            sent_at: Option<&'a RawValue>,
            #[serde(borrow, rename = "ApproximateFirstReceiveTimestamp")]
            first_received_at: Option<&'a RawValue>,
        }
        let fields = json::object::<Fields<'_>>(json.get()).unwrap_or_default();
        let time = |millis: Option<&RawValue>| parse_epoch_millis(&text(millis?)?);
        Self {
            receive_count: fields
                .receive_count
                .and_then(text)
                .and_then(|count| count.parse().ok()),
            sent_at: time(fields.sent_at),
            first_received_at: time(fields.first_received_at),
        }
    }
}

/// A text; nothing if it is of another type, or not of Unicode.
fn text(json: &RawValue) -> Option<String> {
    serde_json::from_str(json.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(event: &str) -> Result<Vec<Message>, NotAnSqsEvent> {
        let event: SqsEvent = serde_json::from_str(event).expect("JSON");
        event.into_messages()
    }

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
                {"messageId":"m6","o":"\udfff","receiptHandle":"r\ud800","body":"b","more":1e999},
                {"messageId":"m7","body":1e999},
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
                    message_id: Some("m6".into()),
                    body: Some("b".into()),
                    ..Message::default()
                },
                Message {
                    message_id: Some("m7".into()),
                    ..Message::default()
                },
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
            r#"{"Records":"m1"}"#,
            r#"{"Records":[],"Records":[]}"#,
            "\"text\"",
            "true",
            "-7",
            "7",
            "7.5",
            r#"{"key1":"value1"}"#,
        ] {
            assert_eq!(parse(event), Err(NotAnSqsEvent), "{event}");
        }
        assert_eq!(parse(r#"{"Records":[]}"#).unwrap(), []);
    }
}
