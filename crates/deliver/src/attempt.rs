//! One delivery in hand: what is known about it becomes one attempt, and the attempt a step.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::Uri;
use hyper::header::{HeaderMap, HeaderValue};
use tokio::time::Instant;
use webhooks_core::endpoint::EndpointError;
use webhooks_core::outcome::Fault;
use webhooks_core::signature::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, sign};
use webhooks_core::{Outcome, Step};

use crate::Deliver;
use crate::reads::Reads;
use crate::subscriptions::{Disabled, Lookup, SubscriptionKey};

/// An attempt is only begun with at least this much of the invocation's time before it.
const LEAST_TIME: Duration = Duration::from_secs(1);

/// A delivery job, owned by its task.
pub(crate) struct Delivery {
    pub webhook_id: String,
    pub event_id: String,
    pub key: SubscriptionKey,
    /// The message body and, within it, the payload: the bytes that are signed and sent.
    pub payload: Bytes,
    /// From 1.
    pub attempt: u32,
    /// Identity of the SQS message.
    pub message_id: Option<String>,
}

/// Why a delivery is deleted without an attempt.
#[derive(Debug, thiserror::Error)]
enum Unwanted {
    #[error("the subscription does not exist")]
    NoSubscription,
    #[error("the subscription is disabled")]
    Disabled,
}

/// What came of an attempt, or of the try to make one.
struct Report {
    outcome: Outcome,
    /// The url of the subscription. Never logged: path and query may hold a token.
    url: String,
    /// Where the POST went, if there was one.
    host: Option<String>,
    /// How long the POST took to its status line, in milliseconds.
    ms: Option<u64>,
    /// What went wrong, for a person.
    error: Option<String>,
}

impl Deliver {
    /// Makes one attempt and carries out what follows, except for what is done with the message.
    /// `deadline` is when the answer must be in.
    pub(crate) async fn take_turn(
        self: Arc<Self>,
        delivery: Delivery,
        reads: Arc<Reads>,
        deadline: Instant,
    ) -> Step {
        match self.attempt(&delivery, &reads, deadline).await {
            Ok(mut report) => {
                let mut step = self.decide(&report.outcome, delivery.attempt);
                if step == Step::Disable
                    && let Err(error) = self.disable(&delivery, &report.url, deadline).await
                {
                    report.outcome = Outcome::Fault(Fault::Disable);
                    report.error = Some(error);
                    step = self.decide(&report.outcome, delivery.attempt);
                }
                report.log(&delivery, step);
                step
            }
            Err(unwanted) => {
                tracing::info!(
                    webhookId = delivery.webhook_id,
                    eventId = delivery.event_id,
                    eventType = delivery.key.event_type,
                    subscriberId = delivery.key.subscriber_id.as_str(),
                    messageId = delivery.message_id,
                    reason = %unwanted,
                    "delivery.dropped"
                );
                Step::Ack
            }
        }
    }

    async fn attempt(
        &self,
        delivery: &Delivery,
        reads: &Reads,
        deadline: Instant,
    ) -> Result<Report, Unwanted> {
        let fault = |fault, cause: &dyn fmt::Display| {
            Ok(Report::not_sent(Outcome::Fault(fault), cause.to_string()))
        };
        let time_left = || deadline.saturating_duration_since(Instant::now());
        if time_left() < LEAST_TIME {
            return fault(Fault::NoTimeLeft, &"not begun");
        }
        let (lookup, secret) = tokio::join!(
            reads.lookup(&self.subscriptions, &delivery.key),
            reads.secret(&self.secrets, &delivery.key.subscriber_id),
        );
        let url = match lookup {
            None => return fault(Fault::Subscription, &"the table could not be read"),
            Some(Lookup::Broken(error)) => return fault(Fault::Row, &error),
            Some(Lookup::Missing) => return Err(Unwanted::NoSubscription),
            Some(Lookup::Subscription(row)) if !row.enabled => return Err(Unwanted::Disabled),
            Some(Lookup::Subscription(row)) => row.url,
        };
        let uri = match self.endpoint(&url) {
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
            .and_then(|signature| signed_headers(id, timestamp, &signature))
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
            ms: u64::try_from(posted.elapsed.as_millis()).ok(),
            error: posted.error,
        })
    }

    fn endpoint(&self, url: &str) -> Result<Uri, EndpointError> {
        let url = self.endpoints.judge_url(url)?;
        // Two parsers, one meaning: what the guard judged is written out and read again.
        Uri::try_from(url.as_str()).map_err(|_| EndpointError::NotAUrl)
    }

    /// Switches the subscription off after a 410. While that does not work the delivery stays, or
    /// every further event would still be sent.
    async fn disable(
        &self,
        delivery: &Delivery,
        url: &str,
        deadline: Instant,
    ) -> Result<(), String> {
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
        Ok(())
    }
}

impl Report {
    fn not_sent(outcome: Outcome, error: String) -> Self {
        Self {
            outcome,
            url: String::new(),
            host: None,
            ms: None,
            error: Some(error),
        }
    }

    /// The one line of this attempt. Faults of ours are errors, which an alarm counts.
    fn log(&self, delivery: &Delivery, step: Step) {
        let delay_seconds = match step {
            Step::Retry { delay_seconds } => Some(delay_seconds),
            Step::Ack | Step::Disable | Step::Exhausted => None,
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
                    attempt = delivery.attempt,
                    outcome = self.outcome.name(),
                    status = self.outcome.status(),
                    failure = self.outcome.failure(),
                    error = self.error,
                    ms = self.ms,
                    exhausted = (step == Step::Exhausted),
                    delaySeconds = delay_seconds,
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
                | Fault::Secret
                | Fault::NoTimeLeft
                | Fault::Internal,
            ) => line!(error, "delivery.unsent"),
        }
    }
}

/// The three headers of Standard Webhooks; `None` if one has a character that no header may have,
/// which the job's and the secret's rules exclude.
fn signed_headers(id: &str, timestamp: u64, signature: &str) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(ID_HEADER, HeaderValue::from_str(id).ok()?);
    headers.insert(TIMESTAMP_HEADER, HeaderValue::from(timestamp));
    headers.insert(SIGNATURE_HEADER, HeaderValue::from_str(signature).ok()?);
    Some(headers)
}
