//! dispatch: fans one event out into one delivery job per subscriber.
//!
//! [`Dispatch::handle`] reads the event, walks through the subscriptions of its type
//! (`subscriptions`), packs the jobs into batches and sends several batches at once
//! (`sender`). It fails only if something could not be sent; then Lambda invokes it again with
//! the same event, and every delivery keeps the identity it had.

mod config;
mod sender;
mod subscriptions;

use aws_config::SdkConfig;
use lambda_runtime::{Context, Diagnostic};
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio::time::Instant;
use webhooks_core::event::{Event, EventError};
use webhooks_core::identity::webhook_id;
use webhooks_core::job::Job;
use webhooks_core::json::JsonError;
use webhooks_core::packing::{Packed, Packer};
use webhooks_core::subscription::Subscription;
use webhooks_shell::time;

pub use config::Config;
use sender::Sender;
use subscriptions::{Subscriptions, read_row};

/// How many `SendMessageBatch` calls are under way at once. Each may carry 1 MiB.
const BATCHES_IN_FLIGHT: usize = 8;

/// What is left of the invocation's time when sending stops, so that the answer still gets out;
/// and of the time for sending when reading stops.
const MARGIN: std::time::Duration = std::time::Duration::from_secs(1);

/// The function with its clients.
pub struct Dispatch {
    subscriptions: Subscriptions,
    sender: Sender,
}

/// Why an event was not fanned out completely. Lambda tries again, then puts the event into the
/// dispatch failure queue.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// The event itself is unusable.
    #[error(transparent)]
    Event(#[from] EventError),
    /// A body or job could not be written as JSON.
    #[error("cannot write a job: {0}")]
    Json(#[from] JsonError),
    /// The invocation's time was over before all subscriptions were read and sent to.
    #[error("the time was over before all subscriptions were read and their jobs sent")]
    OutOfTime,
    /// The subscriptions could not be read to the end.
    #[error("cannot read the subscriptions: {0}")]
    Subscriptions(#[from] subscriptions::ReadError),
    /// Some jobs did not reach the queue.
    #[error("{unsent} of {jobs} jobs were not sent")]
    Unsent {
        /// How many.
        unsent: usize,
        /// Of how many.
        jobs: usize,
    },
}

impl From<DispatchError> for Diagnostic {
    fn from(error: DispatchError) -> Self {
        Self {
            error_type: "DispatchError".into(),
            error_message: error.to_string(),
        }
    }
}

/// What became of the rows of one event.
#[derive(Debug, Default)]
struct Tally {
    jobs: usize,
    unsent: usize,
    disabled: usize,
    skipped: usize,
}

impl Dispatch {
    /// A function that uses these clients.
    #[must_use]
    pub fn new(config: Config, aws: &SdkConfig) -> Self {
        Self {
            subscriptions: Subscriptions::new(aws, config.table_name),
            sender: Sender::new(aws, config.queue_url),
        }
    }

    /// Handles one event.
    ///
    /// # Errors
    /// If the event is not one, or not every job reached the queue.
    pub async fn handle(
        &self,
        payload: Box<RawValue>,
        context: Context,
    ) -> Result<(), DispatchError> {
        let deadline = time::before(time::end_of(context.deadline()), MARGIN);
        let result = self.fan_out(payload.get(), deadline).await;
        if let Err(error) = &result {
            tracing::error!(%error, requestId = context.request_id, "event.failed");
        }
        result
    }

    async fn fan_out(&self, json: &str, deadline: Instant) -> Result<(), DispatchError> {
        let event = Event::parse(json)?;
        if event.is_own() {
            tracing::info!(eventId = %event.id, eventType = %event.event_type, "event.ignored");
            return Ok(());
        }
        let body = event.freeze_body()?;
        let mut fan_out = FanOut {
            sender: &self.sender,
            deadline,
            packer: Packer::default(),
            in_flight: JoinSet::new(),
            tally: Tally::default(),
        };
        // What was packed goes out even if the rest can not be read: every job that is sent now
        // comes early, and the next run sends it again with the same id.
        let read = self.read_and_pack(&event, &body, &mut fan_out).await;
        let tally = fan_out.finish().await;
        read?;
        tracing::info!(
            eventId = %event.id,
            eventType = %event.event_type,
            jobs = tally.jobs,
            unsent = tally.unsent,
            disabled = tally.disabled,
            skipped = tally.skipped,
            "event.dispatched"
        );
        match tally.unsent {
            0 => Ok(()),
            unsent => Err(DispatchError::Unsent {
                unsent,
                jobs: tally.jobs,
            }),
        }
    }

    async fn read_and_pack(
        &self,
        event: &Event<'_>,
        body: &RawValue,
        fan_out: &mut FanOut<'_>,
    ) -> Result<(), DispatchError> {
        let mut pages = self.subscriptions.of_type(&event.event_type);
        // What was read by then still has time to be sent.
        let read_by = time::before(fan_out.deadline, MARGIN);
        while let Some(rows) = tokio::time::timeout_at(read_by, pages.next())
            .await
            .map_err(|_| DispatchError::OutOfTime)??
        {
            for row in &rows {
                // A page may hold thousands of rows, and each job copies the payload.
                if fan_out.is_late() {
                    return Err(DispatchError::OutOfTime);
                }
                if let Some(subscription) = read_row(row, event, &mut fan_out.tally) {
                    let message = job(event, body, &subscription)?;
                    fan_out.add(event, message).await;
                }
            }
        }
        Ok(())
    }
}

/// The jobs of one event on their way to the queue.
struct FanOut<'a> {
    sender: &'a Sender,
    deadline: Instant,
    packer: Packer,
    in_flight: JoinSet<usize>,
    tally: Tally,
}

impl FanOut<'_> {
    /// Takes a job, and sends a batch if one is full.
    async fn add(&mut self, event: &Event<'_>, message: Packed) {
        self.tally.jobs += 1;
        let subscriber = message.group.clone();
        match self.packer.push(message) {
            Ok(None) => {}
            Ok(Some(batch)) => self.send(batch).await,
            Err(error) => {
                self.tally.unsent += 1;
                tracing::error!(
                    %error,
                    eventId = %event.id,
                    eventType = %event.event_type,
                    subscriberId = subscriber,
                    "job.too_large"
                );
            }
        }
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Starts sending a batch, once fewer than [`BATCHES_IN_FLIGHT`] are under way.
    async fn send(&mut self, batch: Vec<Packed>) {
        if self.in_flight.len() >= BATCHES_IN_FLIGHT
            && let Some(sent) = self.in_flight.join_next().await
        {
            self.tally.count(sent);
        }
        if self.is_late() {
            self.tally.unsent += batch.len();
            return;
        }
        let sender = self.sender.clone();
        let deadline = self.deadline;
        let size = batch.len();
        self.in_flight.spawn(async move {
            tokio::time::timeout_at(deadline, sender.send(batch))
                .await
                .unwrap_or_else(|_| {
                    tracing::error!(jobs = size, "jobs.out_of_time");
                    size
                })
        });
    }

    /// Sends what is left and waits for all that is under way.
    async fn finish(mut self) -> Tally {
        if let Some(batch) = self.packer.finish() {
            self.send(batch).await;
        }
        while let Some(sent) = self.in_flight.join_next().await {
            self.tally.count(sent);
        }
        self.tally
    }
}

impl Tally {
    /// Adds the unsent jobs of one batch. A task that broke has told nothing, so all that a
    /// batch can hold counts as unsent.
    fn count(&mut self, unsent: Result<usize, tokio::task::JoinError>) {
        self.unsent += unsent.unwrap_or_else(|error| {
            tracing::error!(%error, "jobs.task_failed");
            webhooks_core::packing::MAX_ENTRIES
        });
    }
}

fn job(
    event: &Event<'_>,
    body: &RawValue,
    subscription: &Subscription,
) -> Result<Packed, JsonError> {
    let id = webhook_id(&event.id, &subscription.subscriber_id);
    let job = Job::new(
        &id,
        &event.id,
        &event.event_type,
        &subscription.subscriber_id,
        &event.time,
        &subscription.url,
        body,
    );
    Ok(Packed {
        group: subscription.subscriber_id.to_string(),
        body: job.to_message_body()?,
    })
}
