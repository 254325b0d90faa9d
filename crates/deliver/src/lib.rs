//! deliver: signs delivery jobs and POSTs them.
//!
//! A batch goes through [`Deliver::handle`] in four strides. All messages are taken apart
//! (`sqs_event`). Then every delivery has a task of its own (`attempt`): it waits for what the
//! batch reads from AWS in one call each (`reads`), the subscriptions and delivery records
//! (`tables`) and the signing secrets (`secrets`), then signs, POSTs (`post`, on connections that
//! `connection` guards and `counted` watches) and decides. What came of it is written down
//! (`deliveries`). At the end, what failed is hidden until its next attempt (`visibility`) and
//! reported to Lambda, so that the rest of the batch is deleted; operators are told (`notices`),
//! and what happened is counted (`metrics`).

mod attempt;
mod config;
mod deliveries;
mod metrics;
mod notices;
mod reads;
mod remember;
mod report;
mod secrets;
mod sqs_event;
mod subscriptions;
mod tables;
mod visibility;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_lambda_events::event::sqs::SqsBatchResponse;
use bytes::Bytes;
use lambda_runtime::{Context, Diagnostic};
use tokio::time::Instant;
use webhooks_core::endpoint::EndpointRules;
use webhooks_core::identity::SubscriberId;
use webhooks_core::job::{Job, JobError};
use webhooks_core::policy::RetryPolicy;
use webhooks_core::turn::Run;
use webhooks_core::{Outcome, Step, decide};
use webhooks_post::Poster;
use webhooks_shell::time;

use attempt::{Delivery, Ended, Fate};
pub use config::{Config, DeliveryLog};
use deliveries::{Change, Deliveries, Written};
use metrics::Metrics;
use notices::{Notice, Notices};
use reads::Reads;
use secrets::SecretCache;
use sqs_event::Message;
pub use sqs_event::{NotAnSqsEvent, SqsEvent};
use subscriptions::{SubscriptionKey, Subscriptions};
use tables::Tables;
use visibility::{Queue, Visibility};

/// What is left of the invocation's time when the last attempt is cut off: enough to write down
/// what came of the batch, to change visibilities and to answer. A batch that times out is
/// redelivered as a whole, with what succeeded.
const MARGIN: Duration = Duration::from_secs(1);

/// What is left when writing down ends, and when changing visibilities does.
const MARGIN_AFTER_WRITING: Duration = Duration::from_millis(500);
const MARGIN_AFTER_VISIBILITIES: Duration = Duration::from_millis(250);

/// The function with its clients.
pub struct Deliver {
    policy: RetryPolicy,
    endpoints: EndpointRules,
    delivery_log: DeliveryLog,
    reference_fields: Vec<String>,
    most_receives: u32,
    function_name: String,
    poster: Poster,
    queue: Queue,
    secrets: SecretCache,
    tables: Tables,
    subscriptions: Subscriptions,
    deliveries: Deliveries,
    notices: Notices,
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

/// A message of the batch whose delivery is under way.
struct InHand {
    receipt: Receipt,
    /// `None` for a poison message.
    webhook_id: Option<String>,
    /// What becomes of it if its task breaks, in seconds.
    pause: u32,
}

impl Deliver {
    /// A function that uses these clients. It goes by `function_name` in its metrics.
    ///
    /// # Errors
    /// If TLS can not be set up.
    pub fn new(
        config: Config,
        function_name: String,
        aws: &SdkConfig,
    ) -> Result<Self, rustls::Error> {
        Ok(Self {
            poster: Poster::new(config.endpoints, &config.trust)?,
            policy: config.policy,
            endpoints: config.endpoints,
            delivery_log: config.delivery_log,
            reference_fields: config.reference_fields,
            most_receives: config.most_receives,
            function_name,
            queue: Queue::new(aws, config.queue_url),
            secrets: SecretCache::new(aws, config.secret_prefix, config.secret_cache),
            tables: Tables::new(
                aws,
                config.table_name.clone(),
                config.deliveries_table.clone(),
            ),
            subscriptions: Subscriptions::new(aws, config.table_name),
            deliveries: Deliveries::new(aws, config.deliveries_table),
            notices: Notices::new(aws, config.event_bus_name),
        })
    }

    /// Handles one batch.
    ///
    /// # Errors
    /// If the batch can not be answered record by record, see [`DeliverError`].
    pub async fn handle(
        self: Arc<Self>,
        event: SqsEvent,
        context: Context,
    ) -> Result<SqsBatchResponse, DeliverError> {
        let end = time::end_of(context.deadline());
        let messages = event.into_messages().inspect_err(|error| {
            tracing::error!(%error, requestId = context.request_id, "batch.refused");
        })?;
        let (batch, deliveries) = self.take_apart(messages);
        let mut ended = self.take_turns(deliveries, time::before(end, MARGIN)).await;
        let changes = ended.values_mut().filter_map(|ended| ended.change.take());
        let written = self
            .write_down(changes.collect(), time::before(end, MARGIN_AFTER_WRITING))
            .await;
        let mut metrics = Metrics::default();
        let mut notices = Vec::new();
        for (webhook_id, ended) in &mut ended {
            match written.get(webhook_id) {
                Some(Written::Done) => {}
                Some(Written::DeliveredMeanwhile) => ended.another_was_delivered(),
                // It will be dead again, or delivered after all.
                Some(Written::Failed | Written::Refused) | None => ended.is_not_dead_yet(),
            }
            notices.append(&mut ended.notices);
            metrics.add(std::mem::take(&mut ended.metrics));
        }

        let answer = Answer::to(batch, &ended, &written);
        metrics.poison = answer.poison;
        let unwritten = written
            .values()
            .filter(|written| matches!(written, Written::Failed | Written::Refused));
        metrics.record_errors += u32::try_from(unwritten.count()).unwrap_or(u32::MAX);
        metrics.print(&self.function_name, SystemTime::now());
        if !answer.wishes.is_empty() || !notices.is_empty() {
            self.change_visibility_and_tell(
                answer.wishes,
                notices,
                time::before(end, MARGIN_AFTER_VISIBILITIES),
            )
            .await;
        }
        if answer.unidentified {
            tracing::error!(requestId = context.request_id, "batch.unidentified");
            return Err(DeliverError::Unidentified);
        }
        Ok(answer.response)
    }

    /// Reads the jobs in the messages. Copies of one delivery in the same batch share one turn.
    fn take_apart(&self, messages: Vec<Message>) -> (Vec<InHand>, Vec<Delivery>) {
        let mut batch = Vec::with_capacity(messages.len());
        let mut deliveries = Vec::with_capacity(messages.len());
        let mut seen = HashSet::new();
        for message in messages {
            let receipt = Receipt {
                message_id: message.message_id.clone(),
                receipt_handle: message.receipt_handle.clone(),
            };
            let before = message.receive_count.unwrap_or(1).saturating_sub(1);
            let pause = self.policy.fault_delay_seconds(before, rand::random());
            let webhook_id = match delivery(message) {
                Ok(delivery) => {
                    let webhook_id = delivery.webhook_id.clone();
                    if seen.insert(webhook_id.clone()) {
                        deliveries.push(delivery);
                    }
                    Some(webhook_id)
                }
                Err(error) => {
                    tracing::error!(%error, messageId = receipt.message_id, "message.poison");
                    None
                }
            };
            batch.push(InHand {
                receipt,
                webhook_id,
                pause,
            });
        }
        (batch, deliveries)
    }

    /// Writes down what came of the batch, and gives what became of each part of it.
    async fn write_down(
        self: &Arc<Self>,
        changes: Vec<Change>,
        deadline: Instant,
    ) -> HashMap<String, Written> {
        if changes.is_empty() {
            return HashMap::new();
        }
        // In a task, so that not even a panic costs those that were delivered.
        let this = Arc::clone(self);
        let writing = tokio::spawn(async move { this.deliveries.write(changes, deadline).await });
        writing.await.unwrap_or_else(|error| {
            tracing::error!(%error, "records.task_failed");
            HashMap::new()
        })
    }

    /// Hides what failed until its next attempt, and tells operators. A visibility that could not
    /// be changed in time is the queue's own.
    async fn change_visibility_and_tell(
        self: &Arc<Self>,
        wishes: Vec<Visibility>,
        notices: Vec<Notice>,
        deadline: Instant,
    ) {
        let this = Arc::clone(self);
        let changing = tokio::spawn(async move {
            tokio::join!(
                this.queue.change_visibility(wishes),
                this.notices.send(notices)
            )
        });
        match tokio::time::timeout_at(deadline, changing).await {
            Ok(Ok(((), ()))) => {}
            Ok(Err(error)) => tracing::error!(%error, "visibility.task_failed"),
            Err(_) => tracing::error!("visibility.out_of_time"),
        }
    }

    /// Brings every delivery to its end, by its id.
    async fn take_turns(
        self: &Arc<Self>,
        deliveries: Vec<Delivery>,
        deadline: Instant,
    ) -> HashMap<String, Ended> {
        let reads = Arc::new(Reads::for_batch(&deliveries, &self.secrets, deadline));
        let asking = {
            let (this, reads) = (Arc::clone(self), Arc::clone(&reads));
            tokio::spawn(async move { reads.ask_for_secrets(&this.secrets).await })
        };
        let begun: Vec<_> = deliveries
            .into_iter()
            .map(|delivery| {
                let webhook_id = delivery.webhook_id.clone();
                let turn = Arc::clone(self).take_turn(delivery, Arc::clone(&reads), deadline);
                (webhook_id, tokio::spawn(turn))
            })
            .collect();
        let mut all = HashMap::with_capacity(begun.len());
        for (webhook_id, turn) in begun {
            let ended = turn.await.unwrap_or_else(|error| {
                tracing::error!(%error, webhookId = webhook_id, "delivery.task_failed");
                Ended::broken()
            });
            all.insert(webhook_id, ended);
        }
        // Whoever needs a secret has waited for it.
        asking.abort();
        all
    }

    /// The step after an outcome, with this moment's jitter.
    fn decide(&self, outcome: &Outcome, run: &Run, now: SystemTime) -> Step {
        decide(outcome, run, &self.policy, now, rand::random())
    }
}

/// What is answered to a batch.
#[derive(Default)]
struct Answer {
    response: SqsBatchResponse,
    /// When the messages that stay are to be seen again.
    wishes: Vec<Visibility>,
    /// How many messages are no jobs.
    poison: u32,
    /// Whether a message has to stay that can not be named.
    unidentified: bool,
}

impl Answer {
    fn to(
        batch: Vec<InHand>,
        ended: &HashMap<String, Ended>,
        written: &HashMap<String, Written>,
    ) -> Self {
        let mut answer = Self::default();
        let mut reported = HashSet::new();
        for message in batch {
            // A poison message keeps the queue's own pace: during a deployment a newer function
            // may know it.
            let mut visible_in = None;
            if let Some(webhook_id) = message.webhook_id {
                visible_in = match visible_in_seconds(&webhook_id, ended, written, message.pause) {
                    None => continue,
                    seconds => seconds,
                };
            } else {
                answer.poison += 1;
            }
            let Some(message_id) = message.receipt.message_id else {
                answer.unidentified = true;
                continue;
            };
            if let Some((seconds, receipt_handle)) = visible_in.zip(message.receipt.receipt_handle)
            {
                answer.wishes.push(Visibility {
                    message_id: message_id.clone(),
                    receipt_handle,
                    seconds,
                });
            }
            if reported.insert(message_id.clone()) {
                answer.response.add_failure(message_id);
            }
        }
        answer
    }
}

/// When a message is seen again, now that it is known what could be written down, in seconds;
/// `None` if it is deleted. `pause` is for one whose task has broken.
fn visible_in_seconds(
    webhook_id: &str,
    ended: &HashMap<String, Ended>,
    written: &HashMap<String, Written>,
    pause: u32,
) -> Option<u32> {
    match ended
        .get(webhook_id)
        .map_or(Fate::Broken, |ended| ended.fate)
    {
        Fate::Delete => None,
        Fate::Back(seconds) => Some(seconds),
        Fate::Dead { .. } if written.get(webhook_id) == Some(&Written::Done) => Some(0),
        Fate::Dead { pause } => Some(pause),
        Fate::Broken => Some(pause),
    }
}

/// Reads the job in a message.
fn delivery(message: Message) -> Result<Delivery, JobError> {
    let text = Bytes::from(message.body.unwrap_or_default());
    let job = Job::parse(str::from_utf8(&text).unwrap_or_default())?;
    Ok(Delivery {
        webhook_id: job.webhook_id.into_owned(),
        event_id: job.event_id.into_owned(),
        key: SubscriptionKey {
            event_type: job.event_type.into_owned(),
            subscriber_id: SubscriberId::parse(&job.subscriber_id)?,
        },
        occurred_at: job.occurred_at.into_owned(),
        payload: text.slice_ref(job.body.get().as_bytes()),
        message_id: message.message_id,
        receive_count: message.receive_count.unwrap_or(1),
        sent_at: message.sent_at,
        first_received_at: message.first_received_at,
    })
}
