//! What a run is made of: SQS batches, and all that AWS and the partners answer to them, written
//! down before the clock starts. Only the numbers of the deliveries are put in on the way.

use std::time::{SystemTime, UNIX_EPOCH};

use memchr::memmem;
use serde_json::{Value, json};

use crate::Error;

/// Records of a batch, which is what the template asks SQS for.
pub const BATCH: usize = 10;
/// The table of subscriptions that the functions are told of.
pub const SUBSCRIPTIONS: &str = "subscriptions";
/// The table of delivery records that deliver is told of.
pub const DELIVERIES: &str = "deliveries";
/// The only event type.
pub const EVENT_TYPE: &str = "OrderPaid";

/// Stands where the number of a delivery will stand, and is as long.
const HOLE: &str = "##########";
/// In a record: message id, receipt handle, webhook id and event id.
const HOLES_PER_RECORD: usize = 4;
/// In a delivery record: message id and webhook id.
const HOLES_PER_ITEM: usize = 2;

/// What the partners do with a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Each answers 204.
    Succeed,
    /// Each answers 500.
    Fail,
    /// Every second one answers 500.
    Half,
    /// One of ten answers 500.
    OneOfTen,
}

impl Script {
    /// Whether the partner of this number answers 500.
    #[must_use]
    pub fn fails(self, partner: usize) -> bool {
        match self {
            Self::Succeed => false,
            Self::Fail => true,
            Self::Half => partner % 2 == 1,
            Self::OneOfTen => partner % 10 == 9,
        }
    }
}

/// The batches of a run; after the last one the first one comes again, with new numbers.
#[derive(Debug)]
pub struct Workload {
    batches: Vec<Batch>,
    payload: String,
}

/// A batch of which only the numbers are missing.
#[derive(Debug)]
struct Batch {
    event: Vec<u8>,
    holes: Vec<usize>,
    /// The rows of its subscriptions, as `BatchGetItem` lists them.
    rows: Vec<u8>,
    /// The records of its deliveries, as `BatchGetItem` lists them; none of what is tried first.
    records: Vec<u8>,
    failing: Vec<bool>,
}

impl Workload {
    /// The batches for this many partners, a multiple of [`BATCH`], whose subscriptions point to
    /// these urls in turn. Each webhook has a payload of `payload_bytes`.
    ///
    /// # Errors
    /// If the numbers do not fit.
    pub fn new(
        partners: usize,
        urls: &[String],
        payload_bytes: usize,
        script: Script,
    ) -> Result<Self, Error> {
        if partners == 0
            || !partners.is_multiple_of(BATCH)
            || urls.is_empty()
            || !urls.len().is_multiple_of(BATCH)
        {
            return Err(Error::new(format!(
                "{partners} partners, {} urls",
                urls.len()
            )));
        }
        let payload = payload(payload_bytes)?;
        let batches = (0..partners / BATCH)
            .map(|batch| {
                let first = batch * BATCH;
                Batch::new(first..first + BATCH, urls, &payload, script)
            })
            .collect();
        Ok(Self { batches, payload })
    }

    /// The same deliveries, each of which has failed once, at this time (RFC 3339), and is
    /// due since then.
    #[must_use]
    pub fn again(mut self, tried_at: &str) -> Self {
        let first = br#""ApproximateReceiveCount":"1""#;
        for (index, batch) in self.batches.iter_mut().enumerate() {
            let counts: Vec<usize> = memmem::find_iter(&batch.event, first).collect();
            for count in counts {
                // The digit stands before the last quotation mark.
                batch.event[count + first.len() - 2] = b'2';
            }
            let partners = index * BATCH..(index + 1) * BATCH;
            batch.records = Value::from_iter(partners.map(|partner| record(partner, tried_at)))
                .to_string()
                .into();
        }
        self
    }

    /// The payload of every webhook, byte for byte.
    #[must_use]
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// Writes the event of a batch.
    pub fn write_event(&self, batch: usize, event: &mut Vec<u8>) {
        let template = self.template(batch);
        event.clear();
        event.extend_from_slice(&template.event);
        let first = batch * BATCH;
        fill(event, &template.holes, first, HOLES_PER_RECORD);
    }

    /// The records of a batch's deliveries, as a JSON list.
    #[must_use]
    pub fn records(&self, batch: usize) -> Vec<u8> {
        let mut records = self.template(batch).records.clone();
        let holes: Vec<usize> = memmem::find_iter(&records, HOLE).collect();
        let first = batch * BATCH;
        fill(&mut records, &holes, first, HOLES_PER_ITEM);
        records
    }

    /// The rows of a batch's subscriptions, as a JSON list.
    #[must_use]
    pub fn rows(&self, batch: usize) -> &[u8] {
        &self.template(batch).rows
    }

    /// How many deliveries of the batches before this one fail.
    #[must_use]
    pub fn failures_before(&self, batch: usize) -> usize {
        // Partners fail by their numbers' last digits, so all batches are alike.
        let failing = self.template(0).failing.iter().filter(|fails| **fails);
        failing.count() * batch
    }

    /// Whether this is the response to a batch: a report of the deliveries that failed, and of no
    /// others.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, batch: usize, response: &[u8]) -> Result<(), Error> {
        let template = self.template(batch);
        if response == br#"{"batchItemFailures":[]}"# && !template.failing.contains(&true) {
            return Ok(());
        }
        let wrong = || {
            let text = String::from_utf8_lossy(response);
            Error::new(format!("batch {batch} was answered with {text:.300}"))
        };
        let response: Value = serde_json::from_slice(response).map_err(|_| wrong())?;
        let mut reported: Vec<&str> = response["batchItemFailures"]
            .as_array()
            .ok_or_else(wrong)?
            .iter()
            .map(|failure| failure["itemIdentifier"].as_str().unwrap_or_default())
            .collect();
        reported.sort_unstable();
        let failing = template.failing.iter().enumerate();
        let expected: Vec<String> = failing
            .filter(|(_, fails)| **fails)
            .map(|(index, _)| format!("m{}", number(batch * BATCH + index)))
            .collect();
        if reported == expected {
            Ok(())
        } else {
            Err(wrong())
        }
    }

    fn template(&self, batch: usize) -> &Batch {
        &self.batches[batch % self.batches.len()]
    }
}

impl Batch {
    fn new(
        partners: std::ops::Range<usize>,
        urls: &[String],
        payload: &str,
        script: Script,
    ) -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_millis();
        let (mut records, mut rows, mut failing) = (Vec::new(), Vec::new(), Vec::new());
        for partner in partners {
            let subscriber = subscriber(partner);
            let url = &urls[partner % urls.len()];
            // As text, or the payload would be read and written anew.
            let job = format!(
                r#"{{"webhookId":"msg_{HOLE}_{subscriber}","eventId":"{HOLE}","eventType":"{EVENT_TYPE}","subscriberId":"{subscriber}","occurredAt":"{OCCURRED_AT}","url":"{url}","body":{payload}}}"#
            );
            records.push(json!({
                "messageId": format!("m{HOLE}"),
                "receiptHandle": format!("r{HOLE}"),
                "body": job,
                "attributes": {
                    "ApproximateReceiveCount": "1",
                    "SentTimestamp": now.to_string(),
                    "SenderId": "AROAEXAMPLE",
                    "ApproximateFirstReceiveTimestamp": now.to_string(),
                    "MessageGroupId": subscriber,
                },
                "messageAttributes": {},
                "md5OfBody": "0".repeat(32),
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:eu-central-1:111122223333:jobs",
                "awsRegion": "eu-central-1",
            }));
            rows.push(json!({
                "eventType": {"S": EVENT_TYPE},
                "subscriberId": {"S": subscriber},
                "url": {"S": url},
                "enabled": {"BOOL": true},
            }));
            failing.push(script.fails(partner));
        }
        let event = json!({ "Records": records }).to_string().into_bytes();
        let holes = memmem::find_iter(&event, HOLE).collect();
        Self {
            event,
            holes,
            rows: Value::from(rows).to_string().into_bytes(),
            records: b"[]".to_vec(),
            failing,
        }
    }
}

/// Puts the numbers of deliveries in, from the first on, each of which has so many holes.
fn fill(text: &mut [u8], holes: &[usize], first: usize, holes_each: usize) {
    for (index, hole) in holes.iter().enumerate() {
        let number = number(first + index / holes_each);
        text[*hole..*hole + HOLE.len()].copy_from_slice(number.as_bytes());
    }
}

/// The record of a delivery that has failed once. Its message has not been sent anew.
fn record(partner: usize, tried_at: &str) -> Value {
    json!({
        "webhookId": {"S": format!("msg_{HOLE}_{}", subscriber(partner))},
        "messageId": {"S": format!("m{HOLE}")},
        "state": {"S": "retrying"},
        "attempts": {"N": "1"},
        "refusals": {"N": "1"},
        "startedAt": {"S": tried_at},
        "createdAt": {"S": tried_at},
        "updatedAt": {"S": tried_at},
        "nextAt": {"S": tried_at},
    })
}

/// When every event happened: of no importance to what is measured.
const OCCURRED_AT: &str = "2026-10-29T12:00:00Z";

/// The id of a partner.
#[must_use]
pub fn subscriber(partner: usize) -> String {
    format!("partner-{partner:06}")
}

/// The number of a delivery as it stands in ids.
#[must_use]
pub fn number(delivery: usize) -> String {
    format!("{delivery:010}")
}

/// A payload of exactly this many bytes: an order of as many items as there is room for.
fn payload(bytes: usize) -> Result<String, Error> {
    let with = |data: &str| {
        format!(r#"{{"type":"{EVENT_TYPE}","timestamp":"{OCCURRED_AT}","data":{data}}}"#)
    };
    let room = bytes.saturating_sub(with("").len());
    Ok(with(&order(room)?))
}

/// The detail of an event, in exactly this many bytes. Numbers are whole: JavaScript would write
/// others in its own way.
///
/// # Errors
/// If that is too few.
pub fn order(bytes: usize) -> Result<String, Error> {
    let mut order =
        r#"{"orderId":"K-1001","currency":"EUR","totalCents":4250,"items":["#.to_owned();
    let end = |note: &str| format!(r#"],"note":"{note}"}}"#);
    let mut items = 0;
    loop {
        let item = format!(
            r#"{}{{"sku":"C-{items:05}","name":"Kaffee \"Verona\" 500 g","quantity":2,"unitCents":1275,"gift":false}}"#,
            if items == 0 { "" } else { "," }
        );
        if order.len() + item.len() + end("").len() > bytes {
            break;
        }
        order += &item;
        items += 1;
    }
    let room = bytes.checked_sub(order.len() + end("").len());
    let room = room.ok_or_else(|| Error::new(format!("no order has {bytes} bytes")))?;
    order += &end(&"n".repeat(room));
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls() -> Vec<String> {
        (0..10)
            .map(|port| format!("http://127.0.0.1:{}/hook", 2000 + port))
            .collect()
    }

    #[test]
    fn a_payload_has_exactly_the_bytes_that_were_asked_for() {
        for bytes in [1024, 20_000, 250_000] {
            let payload = payload(bytes).unwrap();
            assert_eq!(payload.len(), bytes);
            let value: Value = serde_json::from_str(&payload).unwrap();
            assert_eq!(value["type"], "OrderPaid");
        }
        assert!(payload(20).is_err());
    }

    #[test]
    fn an_event_has_the_numbers_of_its_deliveries_and_the_payload_as_it_is() {
        let workload = Workload::new(20, &urls(), 1024, Script::Succeed).unwrap();
        let mut event = Vec::new();
        workload.write_event(3, &mut event);
        let event: Value = serde_json::from_slice(&event).unwrap();
        let records = event["Records"].as_array().unwrap();
        assert_eq!(records.len(), 10);
        assert_eq!(records[2]["messageId"], "m0000000032");
        assert_eq!(records[2]["receiptHandle"], "r0000000032");
        let body = records[2]["body"].as_str().unwrap();
        assert!(body.ends_with(&format!("\"body\":{}}}", workload.payload())));
        let job: Value = serde_json::from_str(body).unwrap();
        // The second batch of two, again.
        assert_eq!(job["webhookId"], "msg_0000000032_partner-000012");
        assert_eq!(job["eventId"], "0000000032");
        assert_eq!(job["url"], "http://127.0.0.1:2002/hook");
        let rows: Value = serde_json::from_slice(workload.rows(3)).unwrap();
        assert_eq!(rows[2]["subscriberId"]["S"], "partner-000012");
        assert_eq!(rows[2]["url"]["S"], "http://127.0.0.1:2002/hook");
    }

    #[test]
    fn what_is_tried_again_has_records_of_the_same_deliveries() {
        let workload = Workload::new(20, &urls(), 1024, Script::Succeed).unwrap();
        assert_eq!(workload.records(3), b"[]");
        let workload = workload.again("2026-11-30T12:00:00Z");
        let records: Value = serde_json::from_slice(&workload.records(3)).unwrap();
        assert_eq!(records.as_array().unwrap().len(), 10);
        assert_eq!(
            records[2]["webhookId"]["S"],
            "msg_0000000032_partner-000012"
        );
        assert_eq!(records[2]["messageId"]["S"], "m0000000032");
        let mut event = Vec::new();
        workload.write_event(3, &mut event);
        let event: Value = serde_json::from_slice(&event).unwrap();
        for record in event["Records"].as_array().unwrap() {
            assert_eq!(record["attributes"]["ApproximateReceiveCount"], "2");
        }
    }

    #[test]
    fn only_the_report_of_exactly_the_failed_deliveries_is_right() {
        let all = Workload::new(10, &urls(), 1024, Script::Succeed).unwrap();
        assert!(all.check(0, br#"{"batchItemFailures":[]}"#).is_ok());
        assert!(
            all.check(
                0,
                br#"{"batchItemFailures":[{"itemIdentifier":"m0000000001"}]}"#
            )
            .is_err()
        );
        assert!(all.check(0, b"null").is_err());
        let tenth = Workload::new(10, &urls(), 1024, Script::OneOfTen).unwrap();
        let report = |id: &str| format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{id}"}}]}}"#);
        assert!(tenth.check(2, report("m0000000029").as_bytes()).is_ok());
        assert!(tenth.check(2, report("m0000000019").as_bytes()).is_err());
        assert!(tenth.check(2, br#"{"batchItemFailures":[]}"#).is_err());
        assert_eq!(tenth.failures_before(7), 7);
    }

    #[test]
    fn partners_that_do_not_fill_batches_are_refused() {
        assert!(Workload::new(15, &urls(), 1024, Script::Succeed).is_err());
        assert!(Workload::new(10, &urls()[..7], 1024, Script::Succeed).is_err());
    }
}
