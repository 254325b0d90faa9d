//! The delivery job: the SQS message that carries one delivery.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::event::{EVENT_ID_MAX_BYTES, EVENT_TYPE_MAX_BYTES, TIME_MAX_BYTES};
use crate::identity::{SubscriberId, SubscriberIdError, is_webhook_id};
use crate::json::{self, JsonError};
use crate::sqs_text::escape_refused_characters;

/// The only version of the format so far. It is not written; a message that names another one
/// was made by a newer release, and guessing at it could deliver half of it.
const VERSION: u32 = 1;

/// One delivery as it travels on the queue. `body` is embedded JSON: exactly those bytes are
/// signed and sent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job<'a> {
    #[serde(default, skip_serializing)]
    version: Option<u32>,
    /// The delivery's identity, see [`crate::identity::webhook_id`].
    #[serde(borrow)]
    pub webhook_id: Cow<'a, str>,
    /// The event's identity.
    #[serde(borrow)]
    pub event_id: Cow<'a, str>,
    /// The event type, half of the subscription's key.
    #[serde(borrow)]
    pub event_type: Cow<'a, str>,
    /// The subscriber, the other half.
    #[serde(borrow)]
    pub subscriber_id: Cow<'a, str>,
    /// When the event happened, RFC 3339.
    #[serde(borrow)]
    pub occurred_at: Cow<'a, str>,
    /// Where the subscription pointed when the event was fanned out. An attempt asks the
    /// subscription again and goes where it points then.
    #[serde(borrow)]
    pub url: Cow<'a, str>,
    /// The frozen Standard Webhooks payload.
    #[serde(borrow)]
    pub body: &'a RawValue,
}

/// Why a message is not a delivery job: a poison message, which is never sent and never deleted.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// Not JSON, or a field is missing or has another type.
    #[error("not a delivery job: {0}")]
    Malformed(#[from] JsonError),
    /// Written by a newer release.
    #[error("a delivery job of version {0}, this release knows version {VERSION}")]
    UnknownVersion(u32),
    /// The subscriber id is not one.
    #[error("not a delivery job: `subscriberId`: {0}")]
    SubscriberId(#[from] SubscriberIdError),
    /// A field has a value that can not be used safely.
    #[error("not a delivery job: `{field}` is not {expected}")]
    BadField {
        /// Which field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
}

impl<'a> Job<'a> {
    /// A job for one subscriber.
    #[must_use]
    pub fn new(
        webhook_id: &'a str,
        event_id: &'a str,
        event_type: &'a str,
        subscriber_id: &'a SubscriberId,
        occurred_at: &'a str,
        url: &'a str,
        body: &'a RawValue,
    ) -> Self {
        Self {
            version: None,
            webhook_id: webhook_id.into(),
            event_id: event_id.into(),
            event_type: event_type.into(),
            subscriber_id: subscriber_id.as_str().into(),
            occurred_at: occurred_at.into(),
            url: url.into(),
            body,
        }
    }

    /// Reads a job from a message body.
    ///
    /// # Errors
    /// See [`JobError`].
    pub fn parse(message_body: &'a str) -> Result<Self, JobError> {
        let job: Self = json::object(message_body)?;
        if let Some(version) = job.version
            && version != VERSION
        {
            return Err(JobError::UnknownVersion(version));
        }
        let bad = |field, expected| Err(JobError::BadField { field, expected });
        if !is_webhook_id(&job.webhook_id) {
            return bad(
                "webhookId",
                "1 to 197 characters of A-Z, a-z, 0-9, `_` and `-`",
            );
        }
        SubscriberId::parse(&job.subscriber_id)?;
        if job.event_type.is_empty() || job.event_type.len() > EVENT_TYPE_MAX_BYTES {
            return bad("eventType", "1 to 2048 bytes");
        }
        if job.event_id.len() > EVENT_ID_MAX_BYTES {
            return bad("eventId", "at most 256 bytes");
        }
        if job.occurred_at.len() > TIME_MAX_BYTES {
            return bad("occurredAt", "at most 64 bytes");
        }
        if !json::is_object(job.body.get()) {
            return bad("body", "a JSON object");
        }
        Ok(job)
    }

    /// The message body that carries this job, with no character that SQS refuses.
    ///
    /// # Errors
    /// None in practice; the type is what the JSON writer asks for.
    pub fn to_message_body(&self) -> Result<String, JsonError> {
        Ok(escape_refused_characters(serde_json::to_string(self)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = r#"{"webhookId":"msg_e1_kasse-nord","eventId":"e1","eventType":"OrderPaid","subscriberId":"kasse-nord","occurredAt":"2026-10-29T12:00:00Z","url":"https://example.com/","body":{"type":"OrderPaid","timestamp":"2026-10-29T12:00:00Z","data":{"total":1.0}}}"#;

    #[test]
    fn a_job_is_written_and_read_in_the_wire_format() {
        let job = Job::parse(JOB).unwrap();
        assert_eq!(job.webhook_id, "msg_e1_kasse-nord");
        assert_eq!(
            job.body.get(),
            r#"{"type":"OrderPaid","timestamp":"2026-10-29T12:00:00Z","data":{"total":1.0}}"#
        );
        assert_eq!(job.to_message_body().unwrap(), JOB);
    }

    #[test]
    fn the_bytes_of_the_body_are_those_in_the_message() {
        for body in [
            r#"{"a":1e400,"a":-0}"#,
            "{ \"b\" : 1.0 ,\"a\":\"\\u00e9\" }",
        ] {
            let message = JOB.replace(
                r#"{"type":"OrderPaid","timestamp":"2026-10-29T12:00:00Z","data":{"total":1.0}}"#,
                body,
            );
            assert_eq!(Job::parse(&message).unwrap().body.get(), body);
        }
    }

    #[test]
    fn unknown_fields_are_ignored_and_version_1_is_known() {
        let message = JOB.replacen('{', r#"{"newField":{"z":1},"version":1,"#, 1);
        assert_eq!(Job::parse(&message).unwrap().event_id, "e1");
    }

    #[test]
    fn another_version_is_poison() {
        let message = JOB.replacen('{', r#"{"version":2,"#, 1);
        assert_eq!(
            Job::parse(&message).unwrap_err().to_string(),
            "a delivery job of version 2, this release knows version 1"
        );
    }

    #[test]
    fn whatever_else_lands_on_the_queue_is_poison() {
        for message in [
            "hello",
            "",
            "null",
            "[]",
            "\"str\"",
            "{",
            "{}",
            r#"{"Type":"Notification","Message":"{}"}"#,
            r#"{"Event":"s3:TestEvent"}"#,
            r#"{"version":"0","id":"e1","detail-type":"OrderPaid","source":"s","time":"t","detail":{}}"#,
            &format!("\u{feff}{JOB}"),
            r#"["msg_1_s","1","T","s","t","https://example.com/",{}]"#,
            r#"[1,"msg_1_s","1","T","s","t","https://example.com/",{}]"#,
            &JOB.replace(r#""webhookId":"msg_e1_kasse-nord""#, r#""webhookId":null"#),
            &JOB.replace("msg_e1_kasse-nord", "msg_e.1_kasse-nord"),
            &JOB.replace("msg_e1_kasse-nord", "msg_e1\\r\\nx: y"),
            &JOB.replace(r#""subscriberId":"kasse-nord""#, r#""subscriberId":"../x""#),
            &JOB.replace(r#""eventType":"OrderPaid""#, r#""eventType":"""#),
        ] {
            assert!(Job::parse(message).is_err(), "{message}");
        }
        for body in ["null", "[]", "\"text\"", "1"] {
            let start = JOB.find(r#"{"type""#).unwrap();
            let message = format!("{}{body}}}", &JOB[..start]);
            assert_eq!(
                Job::parse(&message).unwrap_err().to_string(),
                "not a delivery job: `body` is not a JSON object"
            );
        }
    }

    #[test]
    fn each_missing_field_is_named() {
        for field in [
            "webhookId",
            "eventId",
            "eventType",
            "subscriberId",
            "occurredAt",
            "url",
            "body",
        ] {
            let message = JOB.replace(&format!("\"{field}\":"), "\"other\":");
            assert!(
                Job::parse(&message)
                    .unwrap_err()
                    .to_string()
                    .contains(&format!("missing field `{field}`")),
            );
        }
    }
}
