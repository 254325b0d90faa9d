//! One delivery in hand: what is known about it becomes one attempt, and the attempt a step.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::error::DisplayErrorContext;
use bytes::Bytes;
use hyper::Uri;
use hyper::header::{HeaderMap, HeaderValue};
use tokio::time::Instant;
use webhooks_core::endpoint::EndpointError;
use webhooks_core::outcome::Fault;
use webhooks_core::signature::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, sign};
use webhooks_core::subscription::{RowError, Subscription};
use webhooks_core::{Outcome, Step};

use crate::Deliver;
use crate::post::Posted;
use crate::secrets::SecretResult;
use crate::subscriptions::{Disabled, SubscriptionKey};

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

/// What was read for a delivery before its task began.
pub(crate) struct Known {
    /// `None` if the table could not be read, `Some(None)` if it has no such row.
    pub subscription: Option<Option<Result<Subscription, RowError>>>,
    pub secret: SecretResult,
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
    /// Where the POST went, if there was one.
    host: Option<String>,
    /// How long the POST took, in milliseconds.
    ms: Option<u64>,
    /// What went wrong, for a person.
    error: Option<String>,
}

impl Deliver {
    /// Makes one attempt and decides what follows. `deadline` is when the answer must be in.
    pub(crate) async fn take_turn(
        self: Arc<Self>,
        delivery: Delivery,
        known: Known,
        deadline: Instant,
    ) -> Step {
        match self.attempt(&delivery, known, deadline).await {
            Ok(report) => {
                let step = self.decide(&report.outcome, delivery.attempt);
                report.log(&delivery, step);
                step
            }
            Err(unwanted) => {
                tracing::info!(
                    webhookId = delivery.webhook_id,
                    eventId = delivery.event_id,
                    eventType = delivery.key.event_type,
                    subscriberId = %delivery.key.subscriber_id,
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
        known: Known,
        deadline: Instant,
    ) -> Result<Report, Unwanted> {
        let subscription = match known.subscription {
            None => {
                return Ok(Report::fault(
                    Fault::Subscription,
                    "the table could not be read",
                ));
            }
            Some(None) => return Err(Unwanted::NoSubscription),
            Some(Some(Err(error))) => return Ok(Report::fault(Fault::Row, error)),
            Some(Some(Ok(subscription))) => subscription,
        };
        if !subscription.enabled {
            return Err(Unwanted::Disabled);
        }
        let uri = match self.endpoint(&subscription.url) {
            Ok(uri) => uri,
            Err(error) => return Ok(Report::blocked(error)),
        };
        let secrets = match known.secret {
            Ok(secrets) => secrets,
            Err(error) => return Ok(Report::fault(Fault::Secret, error)),
        };
        let time_left = deadline.saturating_duration_since(Instant::now());
        if time_left < LEAST_TIME {
            return Ok(Report::fault(Fault::NoTimeLeft, "not begun"));
        }
        let now = SystemTime::now();
        let timestamp = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let signature = sign(
            &secrets,
            &delivery.webhook_id,
            timestamp,
            &delivery.payload,
            now,
        );
        let Some(headers) =
            signature.and_then(|signature| signed_headers(delivery, timestamp, &signature))
        else {
            return Ok(Report::fault(
                Fault::Secret,
                "every signing secret has ended",
            ));
        };
        let host = uri.host().map(str::to_owned);
        let limit = self.policy.timeout.min(time_left);
        let began = Instant::now();
        let mut posted = self
            .poster
            .post(uri, headers, delivery.payload.clone(), limit)
            .await;
        let ms = u64::try_from(began.elapsed().as_millis()).ok();
        if posted.is_timeout() && limit < self.policy.timeout {
            posted.outcome = Outcome::Fault(Fault::CutShort);
        }
        if posted.outcome == Outcome::Gone {
            posted = self.disable(delivery, &subscription.url).await;
        }
        Ok(Report {
            outcome: posted.outcome,
            host,
            ms,
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
    async fn disable(&self, delivery: &Delivery, url: &str) -> Posted {
        match self
            .subscriptions
            .disable(&delivery.key, url, SystemTime::now())
            .await
        {
            Ok(disabled) => {
                tracing::warn!(
                    webhookId = delivery.webhook_id,
                    eventType = delivery.key.event_type,
                    subscriberId = %delivery.key.subscriber_id,
                    superseded = (disabled == Disabled::Superseded),
                    "subscription.disabled"
                );
                Posted {
                    outcome: Outcome::Gone,
                    error: None,
                }
            }
            Err(error) => Posted {
                outcome: Outcome::Fault(Fault::Disable),
                error: Some(format!("after a 410: {}", DisplayErrorContext(&*error))),
            },
        }
    }
}

impl Report {
    fn fault(fault: Fault, cause: impl fmt::Display) -> Self {
        Self {
            outcome: Outcome::Fault(fault),
            host: None,
            ms: None,
            error: Some(cause.to_string()),
        }
    }

    fn blocked(error: EndpointError) -> Self {
        Self {
            error: Some(error.to_string()),
            outcome: Outcome::Blocked(error),
            host: None,
            ms: None,
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
            Outcome::Fault(_) => line!(error, "delivery.unsent"),
        }
    }
}

/// The three headers of Standard Webhooks; `None` if one has a character that no header may have,
/// which the job's and the secret's rules exclude.
fn signed_headers(delivery: &Delivery, timestamp: u64, signature: &str) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(ID_HEADER, HeaderValue::from_str(&delivery.webhook_id).ok()?);
    headers.insert(TIMESTAMP_HEADER, HeaderValue::from(timestamp));
    headers.insert(SIGNATURE_HEADER, HeaderValue::from_str(signature).ok()?);
    Some(headers)
}
