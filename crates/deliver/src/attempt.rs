//! One delivery in hand: what is known about it becomes one attempt, and the attempt a step.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::time::Instant;
use webhooks_core::outcome::Fault;
use webhooks_core::signature::sign;
use webhooks_core::turn::{Memory, Received, Run};
use webhooks_core::{Outcome, Step, Turn, turn};
use webhooks_post::request;

use crate::Deliver;
use crate::deliveries::Change;
use crate::metrics::Metrics;
use crate::notices::Notice;
use crate::reads::Reads;
use crate::report::Report;
use crate::subscriptions::{Disabled, SubscriptionKey};
use crate::tables::Lookup;

/// An attempt is only begun with at least this much of the invocation's time before it.
const LEAST_TIME: Duration = Duration::from_secs(1);

/// From this many receives without an attempt on it is asked whether attempts can be written down
/// at all.
const IDLE_RECEIVES_TO_WONDER_AT: u32 = 3;

/// A delivery job, owned by its task.
pub(crate) struct Delivery {
    pub webhook_id: String,
    pub event_id: String,
    pub key: SubscriptionKey,
    /// When the event happened, RFC 3339.
    pub occurred_at: String,
    /// The message body and, within it, the payload: the bytes that are signed and sent.
    pub payload: Bytes,
    /// Identity of the SQS message.
    pub message_id: Option<String>,
    /// How often SQS has handed the message out; from 1.
    pub receive_count: u32,
    /// When it was sent to the queue.
    pub sent_at: Option<SystemTime>,
    /// When it was handed out for the first time.
    pub first_received_at: Option<SystemTime>,
}

/// What becomes of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is deleted.
    Delete,
    /// It stays in the queue and is seen again after this many seconds.
    Back(u32),
    /// Once its record says that it is dead it is seen again at once, until the redrive policy
    /// takes it. Unless it says so, each time would be another attempt, so that there has to be a
    /// pause of this many seconds.
    Dead {
        /// In seconds.
        pause: u32,
    },
    /// It stays in the queue: its task has panicked.
    Broken,
}

impl Fate {
    /// It is seen again at once: there is nothing left to do but to let the redrive policy take
    /// it.
    pub(crate) const FAST_FORWARD: Self = Self::Back(0);
}

/// What came of a message's turn.
pub(crate) struct Ended {
    pub fate: Fate,
    /// What is to be written down.
    pub change: Option<Change>,
    /// What operators are told.
    pub notices: Vec<Notice>,
    /// What is counted of it.
    pub metrics: Metrics,
}

impl Ended {
    /// The task has panicked.
    pub(crate) fn broken() -> Self {
        let mut ended = Self::quietly(Fate::Broken);
        ended.metrics.faults = 1;
        ended
    }

    /// While this copy of the message failed, another one was delivered.
    pub(crate) fn another_was_delivered(&mut self) {
        self.fate = Fate::Delete;
        self.is_not_dead_yet();
    }

    /// The record does not say that it is dead, so nobody is told.
    pub(crate) fn is_not_dead_yet(&mut self) {
        self.metrics.dead = 0;
        self.notices.retain(|notice| !notice.is_of_death());
    }

    /// Nothing happened but this.
    fn quietly(fate: Fate) -> Self {
        Self {
            fate,
            change: None,
            notices: Vec::new(),
            metrics: Metrics::default(),
        }
    }
}

/// Why a delivery is deleted without an attempt.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(crate) enum Unwanted {
    #[error("the subscription does not exist")]
    NoSubscription,
    #[error("the subscription is disabled")]
    Disabled,
    #[error("it has been delivered already")]
    AlreadyDelivered,
}

impl Deliver {
    /// Brings a message to its step and carries out what follows, except for what is done with
    /// the message and what is written down. `deadline` is when the answer must be in.
    pub(crate) async fn take_turn(
        self: Arc<Self>,
        delivery: Delivery,
        reads: Arc<Reads>,
        deadline: Instant,
    ) -> Ended {
        if deadline.saturating_duration_since(Instant::now()) < LEAST_TIME {
            let report = Report::fault(Fault::NoTimeLeft, "not begun");
            let run = Run::by_receive_count(&self.received(&delivery), SystemTime::now());
            return self
                .conclude(&delivery, &run, &Memory::Unreliable, report, deadline)
                .await;
        }
        let mut memory = reads.found(&self.tables).await.memory(&delivery.webhook_id);
        let is_unreadable = memory == Memory::Unreliable;
        let now = SystemTime::now();
        let received = self.received(&delivery);
        let mut next = turn(&memory, &received, &self.policy, now);
        // What was read may lack an attempt that could not be written down; but no missing write
        // can undo that a delivery has ended.
        if let Turn::Attempt(run) = next
            && run.is_known
            && (self.deliveries.is_failing()
                || run.idle_receives >= IDLE_RECEIVES_TO_WONDER_AT
                    && !Box::pin(self.deliveries.can_be_written(&delivery.webhook_id)).await)
        {
            memory = Memory::Unreliable;
            next = turn(&memory, &received, &self.policy, now);
        }
        let mut ended = match next {
            Turn::Attempt(run) => match self.attempt(&delivery, &reads, deadline).await {
                Ok(report) => {
                    self.conclude(&delivery, &run, &memory, report, deadline)
                        .await
                }
                Err(unwanted) => {
                    delivery.log_dropped(unwanted);
                    Ended {
                        change: self.change_of_dropped(&delivery, &run, &memory, unwanted),
                        ..Ended::quietly(Fate::Delete)
                    }
                }
            },
            Turn::Uncertain(run) => {
                let report = Report::fault(Fault::Record, "the receive count is used up");
                self.conclude(&delivery, &run, &memory, report, deadline)
                    .await
            }
            Turn::TooLate(run) => {
                let report = Report::fault(Fault::TooLate, "it has waited for almost a week");
                let ended = self
                    .conclude(&delivery, &run, &memory, report, deadline)
                    .await;
                // Its age tells the same at the next receive, whatever the record says.
                Ended {
                    fate: Fate::FAST_FORWARD,
                    ..ended
                }
            }
            Turn::AlreadyDelivered => {
                delivery.log_dropped(Unwanted::AlreadyDelivered);
                Ended::quietly(Fate::Delete)
            }
            Turn::FastForward => Ended::quietly(Fate::FAST_FORWARD),
            Turn::Stuck(run) => {
                let pause = self.policy.fault_delay_seconds(run.idle_receives, 1.0);
                Ended::quietly(Fate::Back(pause))
            }
            Turn::NotYet(next_at) => {
                let seconds = whole_seconds(next_at, now).min(self.policy.longest_delay_seconds);
                Ended::quietly(Fate::Back(seconds))
            }
        };
        if memory == Memory::Broken {
            ended.metrics.record_errors += 1;
        }
        if is_unreadable {
            ended.metrics.record_errors += 1;
            // That its record says that it is dead could not be read at the next receive either.
            if let Fate::Dead { pause } = ended.fate {
                ended.fate = Fate::Back(pause);
            }
        }
        ended
    }

    /// What SQS tells of the message.
    pub(crate) fn received<'a>(&self, delivery: &'a Delivery) -> Received<'a> {
        Received {
            message_id: delivery.message_id.as_deref(),
            receive_count: delivery.receive_count,
            sent_at: delivery.sent_at,
            first_received_at: delivery.first_received_at,
            most_receives: self.most_receives,
        }
    }

    async fn attempt(
        &self,
        delivery: &Delivery,
        reads: &Reads,
        deadline: Instant,
    ) -> Result<Report, Unwanted> {
        let fault = |fault, cause: &dyn fmt::Display| Ok(Report::fault(fault, cause));
        let time_left = || deadline.saturating_duration_since(Instant::now());
        let (found, secret) = tokio::join!(
            reads.found(&self.tables),
            reads.secret(&self.secrets, &delivery.key.subscriber_id),
        );
        let (url, custom) = match found.subscription(&delivery.key) {
            None => return fault(Fault::Subscription, &"the table could not be read"),
            Some(Lookup::Broken(error)) => return fault(Fault::Row, &error),
            Some(Lookup::Missing) => return Err(Unwanted::NoSubscription),
            Some(Lookup::Subscription(row)) if !row.enabled => return Err(Unwanted::Disabled),
            Some(Lookup::Subscription(row)) => (row.url, row.headers),
        };
        let uri = match request::endpoint(self.endpoints, &url) {
            Ok(uri) => uri,
            Err(error) => {
                let text = error.to_string();
                return Ok(Report::not_sent(Outcome::Blocked(error), text));
            }
        };
        let secrets = match secret {
            Ok(secrets) => secrets,
            Err(error) => return fault(Fault::Secret, &error),
        };
        let time_left = time_left();
        if time_left < LEAST_TIME {
            return fault(Fault::NoTimeLeft, &"reading took too long");
        }
        let now = SystemTime::now();
        let timestamp = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let id = &delivery.webhook_id;
        let Some(headers) = sign(&secrets, id, timestamp, &delivery.payload, now)
            .and_then(|signature| request::headers(id, timestamp, &signature, &custom))
        else {
            return fault(Fault::Secret, &"every signing secret has ended");
        };
        let host = uri.host().map(str::to_owned);
        let limit = self.policy.timeout.min(time_left);
        let mut posted = self
            .poster
            .post(uri, headers, delivery.payload.clone(), limit)
            .await;
        if posted.is_timeout() && limit < self.policy.timeout {
            posted.outcome = Outcome::Fault(Fault::CutShort);
        }
        Ok(Report {
            outcome: posted.outcome,
            url,
            host,
            posted_at: Some(now),
            elapsed: Some(posted.elapsed),
            error: posted.error,
        })
    }

    /// From what came of an attempt to the message's fate.
    async fn conclude(
        &self,
        delivery: &Delivery,
        run: &Run,
        memory: &Memory,
        mut report: Report,
        deadline: Instant,
    ) -> Ended {
        let mut notices = Vec::new();
        let mut now = SystemTime::now();
        let mut step = self.decide(&report.outcome, run, now);
        if step == Step::Disable {
            // In a box: hardly any delivery needs it, and each would have the room for it.
            match Box::pin(self.disable(delivery, &report.url, deadline)).await {
                Ok(Disabled::Done) => notices.push(delivery.disabled_notice()),
                Ok(Disabled::Superseded) => {}
                Err(error) => {
                    report.outcome = Outcome::Fault(Fault::Disable);
                    report.error = Some(error);
                    now = SystemTime::now();
                    step = self.decide(&report.outcome, run, now);
                }
            }
        }
        report.log(delivery, run, step, now);
        if let Step::Dead(reason) = step {
            notices.push(Notice::Dead {
                webhook_id: delivery.webhook_id.clone(),
                event_id: delivery.event_id.clone(),
                event_type: delivery.key.event_type.clone(),
                subscriber_id: delivery.key.subscriber_id.to_string(),
                attempts: run.attempt,
                reason: reason.name(),
                status: report.outcome.status(),
                error: report.error.clone(),
            });
        }
        let fate = match step {
            Step::Ack | Step::Disable => Fate::Delete,
            Step::Retry { delay_seconds } => Fate::Back(delay_seconds),
            Step::Dead(_) => Fate::Dead {
                pause: self.policy.pause_seconds(report.outcome.retry_after(), now),
            },
        };
        Ended {
            fate,
            change: self.change(delivery, run, memory, &report, step, now),
            notices,
            metrics: report.metrics(delivery, run, memory, step),
        }
    }

    /// Switches the subscription off after a 410. While that does not work the delivery stays, or
    /// every further event would still be sent.
    async fn disable(
        &self,
        delivery: &Delivery,
        url: &str,
        deadline: Instant,
    ) -> Result<Disabled, String> {
        let disabling = self
            .subscriptions
            .disable(&delivery.key, url, SystemTime::now());
        let disabled = tokio::time::timeout_at(deadline, disabling)
            .await
            .unwrap_or_else(|_| Err("the table did not answer in time".into()))?;
        let message = match disabled {
            Disabled::Done => "subscription.disabled",
            Disabled::Superseded => "subscription.changed_meanwhile",
        };
        tracing::warn!(
            webhookId = delivery.webhook_id,
            eventType = delivery.key.event_type,
            subscriberId = delivery.key.subscriber_id.as_str(),
            message
        );
        Ok(disabled)
    }
}

impl Delivery {
    fn disabled_notice(&self) -> Notice {
        Notice::Disabled {
            event_type: self.key.event_type.clone(),
            subscriber_id: self.key.subscriber_id.to_string(),
            webhook_id: self.webhook_id.clone(),
            reason: "the endpoint answered 410 Gone",
        }
    }

    fn log_dropped(&self, unwanted: Unwanted) {
        tracing::info!(
            webhookId = self.webhook_id,
            eventId = self.event_id,
            eventType = self.key.event_type,
            subscriberId = self.key.subscriber_id.as_str(),
            messageId = self.message_id,
            reason = %unwanted,
            "delivery.dropped"
        );
    }
}

/// From `now` until then, in whole seconds rounded up.
fn whole_seconds(then: SystemTime, now: SystemTime) -> u32 {
    let wait = then.duration_since(now).unwrap_or_default();
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}
