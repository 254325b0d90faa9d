//! A delivery job made anew from the record of a dead delivery.
//!
//! The payload is what was signed and sent before, byte for byte: a receiver may have kept it, and
//! compares.

use std::io::Read as _;

use aws_sdk_dynamodb::types::AttributeValue;
use flate2::read::GzDecoder;
use serde_json::value::RawValue;
use webhooks_core::job::Job;
use webhooks_core::packing::MAX_BYTES;
use webhooks_shell::records::Item;

use super::filter::Identity;
use super::verdict::Obstacle;

/// The message body of a delivery to `url` with the payload of its record.
pub(crate) fn job(identity: &Identity, url: &str, record: &Item) -> Result<String, Obstacle> {
    let payload = payload(record)?;
    let unreadable = Obstacle::BodyUnreadable;
    let body: &RawValue = serde_json::from_str(&payload).map_err(|_| unreadable)?;
    let message = Job::new(
        &identity.webhook_id,
        &identity.event_id,
        &identity.event_type,
        &identity.subscriber_id,
        &identity.occurred_at,
        url,
        body,
    )
    .to_message_body()
    .map_err(|_| unreadable)?;
    if message.len() > MAX_BYTES {
        return Err(Obstacle::TooLarge);
    }
    // Whatever stands in the table: only a job goes to the queue, and with these very bytes.
    match Job::parse(&message) {
        Ok(job) if job.body.get() == payload => Ok(message),
        Ok(_) | Err(_) => Err(unreadable),
    }
}

/// The payload in a record.
fn payload(record: &Item) -> Result<String, Obstacle> {
    match record.get("body") {
        Some(AttributeValue::S(text)) => Ok(text.clone()),
        Some(AttributeValue::B(compressed)) => {
            let mut text = String::new();
            // One byte more than any payload has: what is larger was not compressed by deliver.
            let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
            GzDecoder::new(compressed.as_ref())
                .take(limit + 1)
                .read_to_string(&mut text)
                .map_err(|_| Obstacle::BodyUnreadable)?;
            Ok(text)
        }
        Some(_) => Err(Obstacle::BodyUnreadable),
        None if record.contains_key("bodyOmitted") => Err(Obstacle::BodyOmitted),
        None => Err(Obstacle::BodyUnreadable),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use aws_sdk_dynamodb::primitives::Blob;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use webhooks_core::identity::SubscriberId;

    use super::*;

    const PAYLOAD: &str = r#"{"type":"OrderPaid","timestamp":"2026-10-29T12:00:00Z","data":{"total":1.0,"n":1e400,"z":"\u00e9é","z":-0, "a" : []}}"#;

    fn identity() -> Identity {
        Identity {
            webhook_id: "msg_e1_kasse-nord".into(),
            event_id: "e1".into(),
            event_type: "Order\"Paid".into(),
            subscriber_id: SubscriberId::parse("kasse-nord").unwrap(),
            occurred_at: "2026-10-29T12:00:00Z".into(),
        }
    }

    fn record(body: AttributeValue) -> Item {
        Item::from([("body".to_owned(), body)])
    }

    fn compressed(payload: &str) -> AttributeValue {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(payload.as_bytes()).unwrap();
        AttributeValue::B(Blob::new(encoder.finish().unwrap()))
    }

    fn rebuilt(record: &Item) -> Result<String, Obstacle> {
        job(&identity(), "https://example.com/hook", record)
    }

    #[test]
    fn a_job_carries_the_payload_as_it_was_and_the_url_of_today() {
        for body in [AttributeValue::S(PAYLOAD.into()), compressed(PAYLOAD)] {
            assert_eq!(
                rebuilt(&record(body)).unwrap(),
                format!(
                    r#"{{"webhookId":"msg_e1_kasse-nord","eventId":"e1","eventType":"Order\"Paid","subscriberId":"kasse-nord","occurredAt":"2026-10-29T12:00:00Z","url":"https://example.com/hook","body":{PAYLOAD}}}"#
                )
            );
        }
    }

    #[test]
    fn a_payload_that_was_left_out_is_told_from_one_that_can_not_be_read() {
        let omitted = Item::from([("bodyOmitted".to_owned(), AttributeValue::Bool(true))]);
        assert_eq!(rebuilt(&omitted), Err(Obstacle::BodyOmitted));
        for body in [
            AttributeValue::S(String::new()),
            AttributeValue::S("null".into()),
            AttributeValue::S(" {}".into()),
            AttributeValue::S("{".into()),
            AttributeValue::B(Blob::new(*b"not gzip")),
            AttributeValue::B(Blob::new([])),
            compressed("\u{feff}{}"),
            AttributeValue::Bool(true),
        ] {
            assert_eq!(
                rebuilt(&record(body.clone())),
                Err(Obstacle::BodyUnreadable),
                "{body:?}"
            );
        }
        assert_eq!(rebuilt(&Item::new()), Err(Obstacle::BodyUnreadable));
    }

    #[test]
    fn a_record_that_would_make_no_job_sends_none() {
        let body = record(AttributeValue::S(PAYLOAD.into()));
        let odd = Identity {
            webhook_id: "msg.1".into(),
            ..identity()
        };
        assert_eq!(
            job(&odd, "https://example.com/", &body),
            Err(Obstacle::BodyUnreadable)
        );
    }

    #[test]
    fn a_job_of_one_mebibyte_is_sent_and_a_larger_one_is_not() {
        let with = |length: usize| {
            let payload = format!(r#"{{"a":"{}"}}"#, "x".repeat(length));
            rebuilt(&record(compressed(&payload)))
        };
        let around = with(0).unwrap().len();
        assert_eq!(with(MAX_BYTES - around).unwrap().len(), MAX_BYTES);
        assert_eq!(with(MAX_BYTES - around + 1), Err(Obstacle::TooLarge));
        // What unpacks to far more is not unpacked to its end.
        assert_eq!(with(64 * MAX_BYTES), Err(Obstacle::BodyUnreadable));
    }
}
