//! The delivery records of a batch: writing down what came of it.
//!
//! A record is a memory, not a condition: failing to write one fails no delivery. It only costs
//! exactness, so it is counted, and until a write succeeds again this environment does not rely
//! on what it reads.

use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata as _, SdkError};
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::task::JoinSet;
use tokio::time::Instant;
use webhooks_core::decide::DeadReason;
use webhooks_core::record::{Entry, KEPT_FOR, Record};
use webhooks_core::turn::Memory;
use webhooks_shell::records::{self, Item, time_value};
use webhooks_shell::{aws, time};

use crate::subscriptions::SubscriptionKey;

/// `BatchWriteItem` takes 25 items.
const ITEMS_PER_CALL: usize = 25;

/// How often items that DynamoDB left unprocessed are written again.
const ROUNDS: u32 = 4;

/// How long a failed write casts doubt on what is read, if none succeeds meanwhile.
const DISTRUST: Duration = Duration::from_secs(60);

/// The longest pause before the second round; it doubles with every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// A payload longer than this is kept compressed, in bytes.
const PLAIN_BODY_MAX: usize = 1024;

/// The longest compressed payload that is kept, in bytes: DynamoDB's 400 KB for an item, less what
/// the rest of the record may take.
const BODY_MAX: usize = 336 * 1024;

/// What is written down about one delivery.
#[derive(Debug)]
pub(crate) struct Change {
    pub webhook_id: String,
    pub event_id: String,
    pub key: SubscriptionKey,
    pub occurred_at: String,
    pub reference: Option<String>,
    /// What was read before.
    pub before: Memory,
    /// How the delivery stands now.
    pub record: Record,
    /// What has just happened.
    pub entry: Entry,
    /// Of a delivery that is dead: why, and its payload.
    pub dead: Option<(DeadReason, Bytes)>,
}

/// What became of a [`Change`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is in the table.
    Done,
    /// It is not: the delivery has been delivered meanwhile, by another copy of its message.
    DeliveredMeanwhile,
    /// It may not be in the table.
    Failed,
    /// It is not, and never will be, for what it holds: that says nothing about others.
    Refused,
}

/// The deliveries table.
pub(crate) struct Deliveries {
    client: Client,
    table_name: String,
    /// When a write failed, unless one has succeeded since.
    failed_at: Mutex<Option<Instant>>,
}

impl Deliveries {
    pub(crate) fn new(aws: &SdkConfig, table_name: String) -> Self {
        Self {
            client: Client::new(aws),
            table_name,
            failed_at: Mutex::new(None),
        }
    }

    /// Whether what is read from the table may lack what this environment wanted to write.
    pub(crate) fn is_failing(&self) -> bool {
        let failed_at = *self
            .failed_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        failed_at.is_some_and(|failed_at| failed_at.elapsed() < DISTRUST)
    }

    /// Whether the table can be written to. Asked when a message has been received more often than
    /// its record tells of attempts: there may have been some that could not be written down, and
    /// this environment may not be the one that knows.
    pub(crate) async fn can_be_written(&self, webhook_id: &str) -> bool {
        let result = self
            .client
            .update_item()
            .table_name(&self.table_name)
            .key("webhookId", AttributeValue::S(webhook_id.to_owned()))
            // Nothing is written: no record has both.
            .update_expression("SET #at = :at")
            .condition_expression("attribute_exists(#at) AND attribute_not_exists(#at)")
            .expression_attribute_names("#at", "updatedAt")
            .expression_attribute_values(":at", AttributeValue::S(String::new()))
            .send()
            .await;
        match result {
            Err(error) if !is_condition(&error) => {
                let error = aws::describe(&error);
                tracing::error!(error, webhookId = webhook_id, "records.unwritable");
                *self
                    .failed_at
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                false
            }
            Ok(_) | Err(_) => true,
        }
    }

    /// Writes down what came of a batch, until `deadline` at most, and gives what became of each.
    pub(crate) async fn write(
        &self,
        changes: Vec<Change>,
        deadline: Instant,
    ) -> HashMap<String, Written> {
        let mut written: HashMap<String, Written> = changes
            .iter()
            .map(|change| (change.webhook_id.clone(), Written::Failed))
            .collect();
        if written.is_empty() {
            return written;
        }
        let mut first = Vec::new();
        let mut writing = JoinSet::new();
        for change in changes {
            if change.before == Memory::Known(None) {
                first.push(change);
            } else {
                let (client, table_name) = (self.client.clone(), self.table_name.clone());
                writing.spawn(async move {
                    let written = update(&client, &table_name, &change).await;
                    vec![(change.webhook_id, written)]
                });
            }
        }
        for chunk in chunks(first) {
            let (client, table_name) = (self.client.clone(), self.table_name.clone());
            writing.spawn(async move { put(&client, &table_name, chunk).await });
        }
        let finish = async {
            while let Some(done) = writing.join_next().await {
                match done {
                    Ok(done) => written.extend(done),
                    Err(error) => tracing::error!(%error, "records.task_failed"),
                }
            }
        };
        if tokio::time::timeout_at(deadline, finish).await.is_err() {
            tracing::error!("records.out_of_time");
        }
        let failed = written.values().any(|written| *written == Written::Failed);
        *self
            .failed_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = failed.then(Instant::now);
        written
    }
}

fn chunks(changes: Vec<Change>) -> Vec<Vec<Change>> {
    let mut chunks: Vec<Vec<Change>> = Vec::new();
    for change in changes {
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < ITEMS_PER_CALL => chunk.push(change),
            Some(_) | None => chunks.push(vec![change]),
        }
    }
    chunks
}

/// Writes the first entries of deliveries of which there was no record.
async fn put(client: &Client, table_name: &str, changes: Vec<Change>) -> Vec<(String, Written)> {
    let mut waiting: Vec<WriteRequest> = changes
        .iter()
        .filter_map(|change| {
            let put = PutRequest::builder().set_item(Some(item(change))).build();
            // The builder only refuses a request without an item.
            Some(WriteRequest::builder().put_request(put.ok()?).build())
        })
        .collect();
    let mut error = None;
    let mut one_by_one = false;
    for round in 0..ROUNDS {
        if round > 0 {
            time::pause(FIRST_PAUSE, round).await;
        }
        let answer = client
            .batch_write_item()
            .request_items(table_name, std::mem::take(&mut waiting))
            .send()
            .await;
        match answer {
            Ok(answer) => {
                let mut unprocessed = answer.unprocessed_items.unwrap_or_default();
                waiting = unprocessed.remove(table_name).unwrap_or_default();
                if !unprocessed.is_empty() {
                    // It proves nothing about what it leaves out.
                    error = Some("the answer is not one to what was asked".to_owned());
                    break;
                }
            }
            Err(failed) => {
                // One of them may not be to DynamoDB's liking.
                one_by_one = failed.code() == Some("ValidationException");
                error = Some(aws::describe(&failed));
                break;
            }
        }
        if waiting.is_empty() {
            break;
        }
    }
    if one_by_one {
        let mut written = Vec::with_capacity(changes.len());
        for change in changes {
            let result = update(client, table_name, &change).await;
            written.push((change.webhook_id, result));
        }
        return written;
    }
    let unwritten: HashSet<&str> = waiting
        .iter()
        .filter_map(|request| records::text(request.put_request()?.item(), "webhookId"))
        .collect();
    let is_written =
        |change: &Change| error.is_none() && !unwritten.contains(change.webhook_id.as_str());
    let failed = changes.iter().filter(|change| !is_written(change)).count();
    if failed > 0 {
        let error = error.as_deref().unwrap_or("still unprocessed");
        tracing::error!(error, records = failed, "records.unwritten");
    }
    changes
        .iter()
        .map(|change| {
            let written = if is_written(change) {
                Written::Done
            } else {
                Written::Failed
            };
            (change.webhook_id.clone(), written)
        })
        .collect()
}

/// Adds an entry to a record that is there, or may be.
async fn update(client: &Client, table_name: &str, change: &Change) -> Written {
    let send = |mode| send_update(client, table_name, change, mode);
    let mut result = match &change.before {
        Memory::Unreliable if change.record.message_id.is_some() => {
            let result = send(Mode::SameRun).await;
            if result.as_ref().is_err_and(is_condition) {
                // There is no record, or it is of another run.
                send(Mode::Overwrite).await
            } else {
                result
            }
        }
        Memory::Broken => send(Mode::BeginAnew).await,
        Memory::Known(_) | Memory::Unreliable => send(Mode::Overwrite).await,
    };
    // The item would be too large, or what is there is not what it should be.
    if result.as_ref().is_err_and(is_invalid) {
        result = send(Mode::BeginAnew).await;
    }
    match result {
        Ok(()) => Written::Done,
        Err(error) if is_condition(&error) => Written::DeliveredMeanwhile,
        Err(error) => {
            let text = aws::describe(&error);
            tracing::error!(
                error = text,
                webhookId = change.webhook_id,
                records = 1,
                "records.unwritten"
            );
            if is_invalid(&error) {
                Written::Refused
            } else {
                Written::Failed
            }
        }
    }
}

/// How a record that is there, or may be, is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// One more attempt of the run that the record is about, however many it has by now: it could
    /// not be read.
    SameRun,
    /// The record is as the change says, and its history grows.
    Overwrite,
    /// The record is as the change says, and its history begins anew.
    BeginAnew,
}

fn is_condition<R>(error: &SdkError<UpdateItemError, R>) -> bool {
    error
        .as_service_error()
        .is_some_and(UpdateItemError::is_conditional_check_failed_exception)
}

fn is_invalid<R>(error: &SdkError<UpdateItemError, R>) -> bool {
    error.code() == Some("ValidationException")
}

async fn send_update(
    client: &Client,
    table_name: &str,
    change: &Change,
    mode: Mode,
) -> Result<(), SdkError<UpdateItemError>> {
    let mut item = item(change);
    item.remove("webhookId");
    if mode == Mode::BeginAnew {
        item.insert("historyCut".into(), AttributeValue::Bool(true));
    }
    let mut condition = "attribute_not_exists(#state) OR #state <> :delivered";
    if mode == Mode::SameRun {
        condition = "#messageId = :messageId AND #state <> :delivered";
        item.remove("startedAt");
        item.insert("attempts".into(), AttributeValue::N("1".into()));
    }
    // What stands in the record only in some states.
    let gone: Vec<&str> = ["nextAt", "deadReason", "body", "bodyOmitted"]
        .into_iter()
        .filter(|name| !item.contains_key(*name))
        .collect();
    let mut request = client
        .update_item()
        .table_name(table_name)
        .key("webhookId", AttributeValue::S(change.webhook_id.clone()))
        .condition_expression(condition)
        .expression_attribute_values(":delivered", AttributeValue::S("delivered".into()));
    // Each name through a `#name`: some of them are reserved words.
    let mut assignments = Vec::with_capacity(item.len());
    for (name, value) in item {
        assignments.push(match (name.as_str(), mode) {
            ("createdAt", Mode::SameRun | Mode::Overwrite) => {
                "#createdAt = if_not_exists(#createdAt, :createdAt)".to_owned()
            }
            ("attempts" | "refusals", Mode::SameRun) => format!("#{name} = #{name} + :{name}"),
            ("history", Mode::SameRun | Mode::Overwrite) => {
                request =
                    request.expression_attribute_values(":empty", AttributeValue::L(Vec::new()));
                "#history = list_append(if_not_exists(#history, :empty), :history)".to_owned()
            }
            _ => format!("#{name} = :{name}"),
        });
        request = request
            .expression_attribute_names(format!("#{name}"), &name)
            .expression_attribute_values(format!(":{name}"), value);
    }
    let mut expression = format!("SET {}", assignments.join(", "));
    if !gone.is_empty() {
        expression += " REMOVE ";
        expression += &gone.join(", ");
    }
    request.update_expression(expression).send().await?;
    Ok(())
}

/// The row as it is when nothing was there before.
fn item(change: &Change) -> Item {
    let record = &change.record;
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let number = |number: u64| AttributeValue::N(number.to_string());
    let mut item = Item::with_capacity(20);
    let mut set = |name: &str, value| item.insert(name.to_owned(), value);
    set("webhookId", text(&change.webhook_id));
    set("subscriberId", text(change.key.subscriber_id.as_str()));
    set("eventType", text(&change.key.event_type));
    set("eventId", text(&change.event_id));
    set("occurredAt", text(&change.occurred_at));
    set("state", text(record.state.name()));
    set("attempts", number(record.attempts.into()));
    set("refusals", number(record.refusals.into()));
    set("startedAt", time_value(record.started_at));
    set("createdAt", time_value(record.created_at));
    set("updatedAt", time_value(record.updated_at));
    set("expiresAt", number(expires_at(record.updated_at)));
    set(
        "history",
        AttributeValue::L(vec![records::entry(&change.entry)]),
    );
    if let Some(reference) = &change.reference {
        set("reference", text(reference));
    }
    if let Some(message_id) = &record.message_id {
        set("messageId", text(message_id));
    }
    if let Some(next_at) = record.next_at {
        set("nextAt", time_value(next_at));
    }
    if let Some((reason, payload)) = &change.dead {
        set("deadReason", text(reason.name()));
        match body(payload) {
            Some(body) => set("body", body),
            None => set("bodyOmitted", AttributeValue::Bool(true)),
        };
    }
    item
}

/// In seconds since 1970, which is what DynamoDB's TTL wants.
fn expires_at(updated_at: SystemTime) -> u64 {
    (updated_at + KEPT_FOR)
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// The payload as it is kept; `None` if it is too large.
fn body(payload: &Bytes) -> Option<AttributeValue> {
    if payload.len() <= PLAIN_BODY_MAX {
        return Some(AttributeValue::S(str::from_utf8(payload).ok()?.to_owned()));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(payload).ok()?;
    let compressed = encoder.finish().ok()?;
    (compressed.len() <= BODY_MAX).then(|| AttributeValue::B(Blob::new(compressed)))
}
