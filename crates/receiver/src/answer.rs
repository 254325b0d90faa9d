//! What a sender is told: a status that it can act on, and a line of JSON for the person who looks
//! into its log. Nothing in it is secret, since anybody may ask.

use serde_json::json;
use webhooks_shell::aws;

use crate::keys::KeysUnavailable;
use crate::request::Refusal;
use crate::store::StoreError;

/// When a sender is asked to come again, in seconds.
pub const RETRY_AFTER_SECONDS: u32 = 30;

/// What came of a request.
#[derive(Debug)]
pub enum Answer {
    /// The event is new and stored.
    Stored {
        /// Its identity.
        webhook_id: String,
        /// What has happened.
        event_type: String,
    },
    /// It has been stored before.
    Repeat {
        /// Its identity.
        webhook_id: String,
        /// What has happened.
        event_type: String,
    },
    /// Somebody tried whether we listen.
    Pong {
        /// The identity of the try.
        webhook_id: String,
    },
    /// It is not taken, and would not be the next time.
    Refused(Refusal),
    /// It can not be judged or stored for now.
    Unavailable(Unavailable),
}

/// Why a request can not be judged or stored for now.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// There is nothing to verify with.
    #[error("the secret can not be read")]
    Secret(#[source] KeysUnavailable),
    /// There is nowhere to write it down.
    #[error("the event can not be stored")]
    Store(#[source] StoreError),
    /// AWS did not answer while the sender waited.
    #[error("it took too long")]
    Time,
}

impl Answer {
    /// The status. Never 410: it would end the subscription.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Stored { .. } | Self::Pong { .. } => 202,
            Self::Repeat { .. } => 200,
            Self::Refused(refusal) => match refusal {
                Refusal::MissingHeader(_)
                | Refusal::LongId
                | Refusal::NotText
                | Refusal::NotAnEvent(_)
                | Refusal::Type
                | Refusal::Timestamp
                | Refusal::Encoding
                | Refusal::Cut => 400,
                Refusal::Rejected(_) => 401,
                Refusal::Method => 405,
                Refusal::Slow => 408,
                Refusal::TooLarge | Refusal::TooLargeToStore => 413,
                Refusal::ContentType => 415,
            },
            Self::Unavailable(_) => 503,
        }
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![("content-type", "application/json".to_owned())];
        match self {
            Self::Refused(Refusal::Method) => headers.push(("allow", "POST".to_owned())),
            Self::Unavailable(_) => headers.push(("retry-after", RETRY_AFTER_SECONDS.to_string())),
            Self::Stored { .. } | Self::Repeat { .. } | Self::Pong { .. } | Self::Refused(_) => {}
        }
        headers
    }

    /// The body, a JSON object with a `result` and, where there is one, a `reason`.
    #[must_use]
    pub fn body(&self) -> String {
        match self {
            Self::Stored { .. } => json!({"result": "stored"}),
            Self::Repeat { .. } => json!({"result": "repeat"}),
            Self::Pong { .. } => json!({"result": "pong"}),
            Self::Refused(refusal) => json!({"result": "refused", "reason": refusal.to_string()}),
            Self::Unavailable(cause) => {
                json!({"result": "unavailable", "reason": cause.to_string()})
            }
        }
        .to_string()
    }

    /// One line for each request. Of what was not verified nothing is written down.
    pub(crate) fn log(&self) {
        match self {
            Self::Stored {
                webhook_id,
                event_type,
            } => {
                tracing::info!(
                    webhookId = webhook_id,
                    eventType = event_type,
                    "webhook.stored"
                );
            }
            Self::Repeat {
                webhook_id,
                event_type,
            } => {
                tracing::info!(
                    webhookId = webhook_id,
                    eventType = event_type,
                    "webhook.repeat"
                );
            }
            Self::Pong { webhook_id } => {
                tracing::info!(webhookId = webhook_id, "webhook.pong");
            }
            Self::Refused(refusal) => {
                tracing::warn!(status = self.status(), reason = %refusal, "webhook.refused");
            }
            Self::Unavailable(cause) => {
                tracing::error!(error = aws::causes(cause), "webhook.unavailable");
            }
        }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Unavailable> for Answer {
    fn from(cause: Unavailable) -> Self {
        Self::Unavailable(cause)
    }
}

impl From<StoreError> for Answer {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::TooLarge => Refusal::TooLargeToStore.into(),
            StoreError::Unwritable(_) => Unavailable::Store(error).into(),
        }
    }
}
