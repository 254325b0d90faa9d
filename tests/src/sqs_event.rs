//! The batches that Lambda hands to `deliver`, and the delivery jobs in them, written out from
//! the wire format and not with our types.

use serde_json::{Map, Value, json};

/// When the event of a [`Job`] happened.
pub const OCCURRED_AT: &str = "2026-10-29T12:00:00Z";

/// A delivery job, see [`Job::text`].
#[derive(Clone, Debug)]
pub struct Job {
    /// The event's identity.
    pub event_id: String,
    /// The event type.
    pub event_type: String,
    /// The subscriber.
    pub subscriber_id: String,
    /// Where the subscription pointed at fan-out.
    pub url: String,
    /// JSON text that is embedded as it is.
    pub body: String,
}

impl Job {
    /// An `OrderPaid` for a subscriber. Its url leads nowhere: an attempt goes where the
    /// subscription points when it is made.
    #[must_use]
    pub fn for_subscriber(subscriber_id: &str) -> Self {
        Self {
            event_id: "6f1c1a5e-0d8f-4a57-9a52-1d8d3f1c7b11".into(),
            event_type: "OrderPaid".into(),
            subscriber_id: subscriber_id.into(),
            url: "http://127.0.0.1:9/of-the-job".into(),
            body: r#"{"type":"OrderPaid","timestamp":"2026-10-29T12:00:00Z","data":{"orderId":"K-1001","total":1.0}}"#.into(),
        }
    }

    /// The same of another event.
    #[must_use]
    pub fn with_event_id(mut self, event_id: &str) -> Self {
        self.event_id = event_id.into();
        self
    }

    /// The delivery's identity.
    #[must_use]
    pub fn webhook_id(&self) -> String {
        format!("msg_{}_{}", self.event_id, self.subscriber_id)
    }

    /// The message body.
    #[must_use]
    pub fn text(&self) -> String {
        let quote = |text: &str| Value::from(text).to_string();
        format!(
            r#"{{"webhookId":{},"eventId":{},"eventType":{},"subscriberId":{},"occurredAt":"{OCCURRED_AT}","url":{},"body":{}}}"#,
            quote(&self.webhook_id()),
            quote(&self.event_id),
            quote(&self.event_type),
            quote(&self.subscriber_id),
            quote(&self.url),
            self.body
        )
    }
}

/// One SQS message as Lambda hands it over.
#[derive(Clone, Debug)]
pub struct Record(Map<String, Value>);

impl Record {
    /// The message number `number`: its id is `m<number>` and its receipt handle `rh<number>`,
    /// and it is received for the first time.
    #[must_use]
    pub fn new(number: usize, message_body: &str) -> Self {
        let record = json!({
            "messageId": format!("m{number}"),
            "receiptHandle": format!("rh{number}"),
            "body": message_body,
            "attributes": {
                "ApproximateReceiveCount": "1",
                "AWSTraceHeader": "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700",
                "SentTimestamp": "1793275200000",
                "SenderId": "AIDAIT2UOQQY3AUEKVGXU",
                "ApproximateFirstReceiveTimestamp": "1793275200010",
            },
            "messageAttributes": {},
            "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-central-1:111122223333:jobs",
            "awsRegion": "eu-central-1",
        });
        match record {
            Value::Object(record) => Self(record),
            other => panic!("{other}"),
        }
    }

    /// The message number `number`, with the delivery of an event of its own to a subscriber.
    #[must_use]
    pub fn of_event(number: usize, subscriber_id: &str) -> Self {
        let job = Job::for_subscriber(subscriber_id).with_event_id(&format!("e{number}"));
        Self::new(number, &job.text())
    }

    /// The same with another receive count.
    #[must_use]
    pub fn received(mut self, count: impl ToString) -> Self {
        self.0["attributes"]["ApproximateReceiveCount"] = count.to_string().into();
        self
    }

    /// The same with another message id.
    #[must_use]
    pub fn with_message_id(self, message_id: &str) -> Self {
        self.with("messageId", message_id.into())
    }

    /// The same sent at this time, in milliseconds since 1970.
    #[must_use]
    pub fn sent_at_ms(mut self, unix_ms: u64) -> Self {
        self.0["attributes"]["SentTimestamp"] = unix_ms.to_string().into();
        self
    }

    /// The same received for the first time at this time, in milliseconds since 1970.
    #[must_use]
    pub fn first_received_at_ms(mut self, unix_ms: u64) -> Self {
        let attributes = &mut self.0["attributes"];
        attributes["ApproximateFirstReceiveTimestamp"] = unix_ms.to_string().into();
        self
    }

    /// The same with a field set to any value.
    #[must_use]
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.0.insert(field.to_owned(), value);
        self
    }

    /// The same without a field.
    #[must_use]
    pub fn without(mut self, field: &str) -> Self {
        assert!(self.0.remove(field).is_some(), "no field {field}");
        self
    }
}

/// The event for a batch.
#[must_use]
pub fn event(records: &[Record]) -> String {
    let records: Vec<&Map<String, Value>> = records.iter().map(|record| &record.0).collect();
    json!({"Records": records}).to_string()
}
