//! The DynamoDB table of what came. Items of it are read by whoever works on the events.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use flate2::Compression;
use flate2::write::GzEncoder;
use webhooks_core::timestamp;
use webhooks_shell::aws;

use super::{StoreError, Stored};
use crate::envelope::Envelope;

/// How much of an item the data may take, in bytes: an item ends at 400 KiB, and its other
/// attributes are far from the rest.
const DATA_MAX_BYTES: usize = 400_000;

/// An item that should be gone by now is as good as none: DynamoDB deletes late.
const NOT_SEEN: &str = "attribute_not_exists(webhookId) OR expiresAt < :now";

/// The table, with the client that writes to it.
#[derive(Debug)]
pub struct Table {
    client: Client,
    name: String,
}

impl Table {
    pub(super) fn new(aws: &SdkConfig, name: String) -> Self {
        Self {
            client: Client::new(aws),
            name,
        }
    }

    pub(super) async fn put(
        &self,
        webhook_id: &str,
        envelope: &Envelope<'_>,
        now: SystemTime,
        keep: Duration,
    ) -> Result<Stored, StoreError> {
        let (data_name, data) = data(envelope.data.get())?;
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let answer = self
            .client
            .put_item()
            .table_name(&self.name)
            .item("webhookId", text(webhook_id))
            .item("eventType", text(&envelope.event_type))
            .item("occurredAt", text(&envelope.timestamp))
            .item("receivedAt", text(&timestamp::format(now)))
            .item("expiresAt", seconds(now + keep))
            .item(data_name, data)
            .condition_expression(NOT_SEEN)
            .expression_attribute_values(":now", seconds(now))
            .send()
            .await;
        match answer {
            Ok(_) => Ok(Stored::New),
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(|error| error.is_conditional_check_failed_exception()) =>
            {
                Ok(Stored::Repeat)
            }
            Err(error) => Err(StoreError::Unwritable(aws::describe(&error))),
        }
    }
}

/// The name and value of the attribute that holds the data: as it is, or compressed if it is large.
fn data(text: &str) -> Result<(&'static str, AttributeValue), StoreError> {
    if text.len() <= DATA_MAX_BYTES {
        return Ok(("data", AttributeValue::S(text.to_owned())));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let compressed = encoder
        .write_all(text.as_bytes())
        .and_then(|()| encoder.finish())
        .map_err(|error| StoreError::Unwritable(error.to_string()))?;
    if compressed.len() > DATA_MAX_BYTES {
        return Err(StoreError::TooLarge);
    }
    Ok(("dataGzip", AttributeValue::B(Blob::new(compressed))))
}

fn seconds(time: SystemTime) -> AttributeValue {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    AttributeValue::N(since.as_secs().to_string())
}
