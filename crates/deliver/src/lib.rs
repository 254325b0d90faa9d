//! deliver: signs delivery jobs and POSTs them.
//!
//! A batch goes through [`Deliver::handle`] in three strides. All records are taken apart
//! (`records`). Then every delivery has a task of its own (`attempt`): it waits for what the batch
//! reads from AWS in one call each (`reads`), the rows of the subscriptions (`subscriptions`) and
//! the signing secrets (`secrets`), then signs, POSTs (`post`, on connections that `connection`
//! guards and `counted` watches) and decides. At the end, what failed is hidden until its next
//! attempt (`visibility`) and reported to Lambda, so that the rest of the batch is deleted.

mod attempt;
mod config;
mod connection;
mod counted;
mod post;
mod reads;
mod records;
mod secrets;
mod subscriptions;
mod visibility;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_lambda_events::event::sqs::SqsBatchResponse;
use bytes::Bytes;
use lambda_runtime::{Context, Diagnostic};
use serde_json::value::RawValue;
use tokio::time::Instant;
use webhooks_core::endpoint::EndpointRules;
use webhooks_core::identity::SubscriberId;
use webhooks_core::job::{Job, JobError};
use webhooks_core::outcome::Fault;
use webhooks_core::policy::RetryPolicy;
use webhooks_core::{Outcome, Step, decide};
use webhooks_shell::time;

use attempt::Delivery;
pub use config::Config;
use post::Poster;
use reads::Reads;
use records::{NotAnSqsEvent, Record};
use secrets::SecretCache;
use subscriptions::{SubscriptionKey, Subscriptions};
use visibility::{Queue, Visibility};

/// What is left of the invocation's time when the last attempt is cut off: enough to change
/// visibilities and to answer. A batch that times out is redelivered as a whole, with what
/// succeeded.
const MARGIN: Duration = Duration::from_secs(1);

/// The function with its clients.
pub struct Deliver {
    policy: RetryPolicy,
    endpoints: EndpointRules,
    poster: Poster,
    queue: Queue,
    secrets: SecretCache,
    subscriptions: Subscriptions,
}

/// Why a batch is not answered record by record. Lambda then returns all of it to the queue.
#[derive(Debug, thiserror::Error)]
pub enum DeliverError {
    /// The invocation was for something else.
    #[error(transparent)]
    NotAnSqsEvent(#[from] NotAnSqsEvent),
    /// A record that failed has no message id, so it could not be reported and would be deleted.
    #[error("a record without messageId failed")]
    Unidentified,
}

impl From<DeliverError> for Diagnostic {
    fn from(error: DeliverError) -> Self {
        Self {
            error_type: "DeliverError".into(),
            error_message: error.to_string(),
        }
    }
}

/// What identifies a received message.
struct Receipt {
    message_id: Option<String>,
    receipt_handle: Option<String>,
}

impl Deliver {
    /// A function that uses these clients.
    ///
    /// # Errors
    /// If TLS can not be set up.
    pub fn new(config: Config, aws: &SdkConfig) -> Result<Self, rustls::Error> {
        Ok(Self {
            poster: Poster::new(config.endpoints)?,
            policy: config.policy,
            endpoints: config.endpoints,
            queue: Queue::new(aws, config.queue_url),
            secrets: SecretCache::new(aws, config.secret_prefix),
            subscriptions: Subscriptions::new(aws, config.table_name),
        })
    }

    /// Handles one batch.
    ///
    /// # Errors
    /// If the batch can not be answered record by record, see [`DeliverError`].
    pub async fn handle(
        self: Arc<Self>,
        payload: Box<RawValue>,
        context: Context,
    ) -> Result<SqsBatchResponse, DeliverError> {
        let end = time::end_of(&context);
        let records = records::parse(payload.get()).map_err(|error| {
            tracing::error!(%error, requestId = context.request_id, "batch.refused");
            error
        })?;
        drop(payload);
        let turns = self.take_turns(records, time::before(end, MARGIN)).await;

        let mut response = SqsBatchResponse::default();
        let mut reported = HashSet::new();
        let mut wishes = Vec::new();
        let mut unidentified = false;
        for (receipt, step) in turns {
            let visible_in = match step {
                Some(Step::Ack | Step::Disable) => continue,
                Some(Step::Retry { delay_seconds }) => Some(delay_seconds),
                Some(Step::Exhausted) => Some(0),
                // A poison message keeps the queue's own pace: during a deployment a newer
                // function may know it.
                None => None,
            };
            let Some(message_id) = receipt.message_id else {
                unidentified = true;
                continue;
            };
            if let Some((seconds, receipt_handle)) = visible_in.zip(receipt.receipt_handle) {
                wishes.push(Visibility {
                    message_id: message_id.clone(),
                    receipt_handle,
                    seconds,
                });
            }
            if reported.insert(message_id.clone()) {
                response.add_failure(message_id);
            }
        }
        if !wishes.is_empty() {
            self.change_visibility(wishes, time::before(end, MARGIN / 4))
                .await;
        }
        if unidentified {
            tracing::error!(requestId = context.request_id, "batch.unidentified");
            return Err(DeliverError::Unidentified);
        }
        Ok(response)
    }

    /// Hides what failed until its next attempt. A visibility that could not be changed in time is
    /// the queue's own.
    async fn change_visibility(self: &Arc<Self>, wishes: Vec<Visibility>, deadline: Instant) {
        // In a task, so that not even a panic costs those that were delivered.
        let this = Arc::clone(self);
        let changing = tokio::spawn(async move { this.queue.change_visibility(wishes).await });
        match tokio::time::timeout_at(deadline, changing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "visibility.task_failed"),
            Err(_) => tracing::error!("visibility.out_of_time"),
        }
    }

    /// Brings every record to its step; `None` for a poison message.
    async fn take_turns(
        self: &Arc<Self>,
        records: Vec<Record>,
        deadline: Instant,
    ) -> Vec<(Receipt, Option<Step>)> {
        let mut batch = Vec::with_capacity(records.len());
        for record in records {
            let receipt = Receipt {
                message_id: record.message_id.clone(),
                receipt_handle: record.receipt_handle.clone(),
            };
            let delivery = match delivery(record) {
                Ok(delivery) => Some(delivery),
                Err(error) => {
                    tracing::error!(%error, messageId = receipt.message_id, "message.poison");
                    None
                }
            };
            batch.push((receipt, delivery));
        }
        let deliveries = batch.iter().filter_map(|(_, delivery)| delivery.as_ref());
        let reads = Arc::new(Reads::for_batch(deliveries, &self.secrets, deadline));
        let begun: Vec<_> = batch
            .into_iter()
            .map(|(receipt, delivery)| {
                let turn = delivery.map(|delivery| {
                    let attempt = delivery.attempt;
                    let turn = Arc::clone(self).take_turn(delivery, Arc::clone(&reads), deadline);
                    (attempt, tokio::spawn(turn))
                });
                (receipt, turn)
            })
            .collect();
        let mut turns = Vec::with_capacity(begun.len());
        for (receipt, turn) in begun {
            let step = match turn {
                None => None,
                Some((attempt, turn)) => Some(turn.await.unwrap_or_else(|error| {
                    tracing::error!(%error, messageId = receipt.message_id, "delivery.task_failed");
                    self.decide(&Outcome::Fault(Fault::Internal), attempt)
                })),
            };
            turns.push((receipt, step));
        }
        turns
    }

    /// The step after an outcome, with this moment's clock and jitter.
    fn decide(&self, outcome: &Outcome, attempt: u32) -> Step {
        decide(
            outcome,
            attempt,
            &self.policy,
            SystemTime::now(),
            rand::random(),
        )
    }
}

/// Reads the job in a record.
fn delivery(record: Record) -> Result<Delivery, JobError> {
    let message = Bytes::from(record.body.unwrap_or_default());
    let job = Job::parse(str::from_utf8(&message).unwrap_or_default())?;
    Ok(Delivery {
        webhook_id: job.webhook_id.into_owned(),
        event_id: job.event_id.into_owned(),
        key: SubscriptionKey {
            event_type: job.event_type.into_owned(),
            subscriber_id: SubscriberId::parse(&job.subscriber_id)?,
        },
        payload: message.slice_ref(job.body.get().as_bytes()),
        attempt: record.receive_count.unwrap_or(1),
        message_id: record.message_id,
    })
}
