//! What came of an attempt, as it is told: one line of the log, figures, and an entry of the
//! delivery record.

use std::time::{Duration, SystemTime};

use webhooks_core::outcome::Fault;
use webhooks_core::record::{self, Entry, State};
use webhooks_core::turn::{Memory, Run};
use webhooks_core::{Outcome, Step, timestamp};

use crate::attempt::Delivery;
use crate::metrics::Metrics;

/// What came of an attempt, or of the try to make one.
pub(crate) struct Report {
    pub outcome: Outcome,
    /// The url of the subscription. Never logged: path and query may hold a token.
    pub url: String,
    /// Where the POST went, if there was one.
    pub host: Option<String>,
    /// When the POST began, if there was one.
    pub posted_at: Option<SystemTime>,
    /// How long the POST took to its status line.
    pub elapsed: Option<Duration>,
    /// What went wrong, for a person.
    pub error: Option<String>,
}

impl Report {
    /// Nothing was sent.
    pub(crate) fn not_sent(outcome: Outcome, error: String) -> Self {
        Self {
            outcome,
            url: String::new(),
            host: None,
            posted_at: None,
            elapsed: None,
            error: Some(error),
        }
    }

    /// Nothing was sent, through our fault.
    pub(crate) fn fault(fault: Fault, error: impl ToString) -> Self {
        Self::not_sent(Outcome::Fault(fault), error.to_string())
    }

    fn is_security_event(&self) -> bool {
        matches!(self.outcome, Outcome::Blocked(_))
    }

    fn millis(&self) -> Option<u64> {
        u64::try_from(self.elapsed?.as_millis()).ok()
    }

    /// The entry of the record's history.
    pub(crate) fn entry(&self, run: &Run, step: Step, now: SystemTime) -> Entry {
        Entry {
            n: run.attempt,
            at: now,
            outcome: record::word(&self.outcome, step).to_owned(),
            status: self.outcome.status(),
            ms: self.millis(),
            // With the kind of failure before it, which the text alone may not tell.
            error: match (self.outcome.failure(), &self.error) {
                (Some(failure), Some(error)) => Some(format!("{failure}: {error}")),
                (_, error) => error.clone(),
            },
            next_at: record::next_at(step, now),
        }
    }

    /// Counts what came of the attempt.
    pub(crate) fn metrics(
        &self,
        delivery: &Delivery,
        run: &Run,
        memory: &Memory,
        step: Step,
    ) -> Metrics {
        let mut metrics = Metrics {
            attempts: u32::from(self.posted_at.is_some()),
            ..Metrics::default()
        };
        match self.outcome {
            Outcome::Fault(_) => metrics.faults = 1,
            Outcome::Blocked(_) => metrics.blocked = 1,
            Outcome::Delivered { .. } => {
                metrics.delivered = 1;
                metrics.attempts_per_delivered.push(run.attempt);
            }
            Outcome::Gone => metrics.gone = 1,
            Outcome::Retry { .. } => {
                metrics.retried = u32::from(matches!(step, Step::Retry { .. }));
            }
        }
        metrics.dead = u32::from(matches!(step, Step::Dead(_)));
        metrics.latencies.extend(self.elapsed);
        if is_first_post(run, memory)
            && let Some(posted_at) = self.posted_at
            && let Some(occurred_at) = timestamp::parse(&delivery.occurred_at)
        {
            let waited = posted_at.duration_since(occurred_at).unwrap_or_default();
            metrics.first_attempt_latencies.push(waited);
        }
        metrics
    }

    /// The one line of this attempt. Faults of ours are errors, which an alarm counts; an endpoint
    /// that is not allowed is a matter for whoever watches over security.
    pub(crate) fn log(&self, delivery: &Delivery, run: &Run, step: Step, now: SystemTime) {
        let delay_seconds = match step {
            Step::Retry { delay_seconds } => Some(delay_seconds),
            Step::Ack | Step::Disable | Step::Dead(_) => None,
        };
        macro_rules! line {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    webhookId = delivery.webhook_id,
                    eventId = delivery.event_id,
                    eventType = delivery.key.event_type,
                    subscriberId = delivery.key.subscriber_id.as_str(),
                    messageId = delivery.message_id,
                    host = self.host,
                    attempt = run.attempt,
                    outcome = record::word(&self.outcome, step),
                    status = self.outcome.status(),
                    failure = self.outcome.failure(),
                    error = self.error,
                    ms = self.millis(),
                    security = self.is_security_event().then_some("endpoint.blocked"),
                    deadReason = record::dead_reason(step).map(|reason| reason.name()),
                    delaySeconds = delay_seconds,
                    nextAt = record::next_at(step, now).map(timestamp::format),
                    $message
                )
            };
        }
        match self.outcome {
            Outcome::Delivered { .. } | Outcome::Retry { .. } | Outcome::Gone => {
                line!(info, "delivery.attempted");
            }
            Outcome::Blocked(_) | Outcome::Fault(Fault::CutShort) => {
                line!(warn, "delivery.attempted");
            }
            Outcome::Fault(Fault::Disable) => line!(error, "delivery.attempted"),
            Outcome::Fault(
                Fault::Subscription
                | Fault::Row
                | Fault::Record
                | Fault::TooLate
                | Fault::Secret
                | Fault::NoTimeLeft,
            ) => line!(error, "delivery.unsent"),
        }
    }
}

/// Whether nothing of the delivery was sent before. A redriven one is old, and not because of us.
fn is_first_post(run: &Run, memory: &Memory) -> bool {
    match memory {
        Memory::Known(None) => true,
        Memory::Known(Some(record)) => {
            record.state == State::Retrying && record.attempts == 0 && run.attempt == 1
        }
        Memory::Broken | Memory::Unreliable => false,
    }
}
