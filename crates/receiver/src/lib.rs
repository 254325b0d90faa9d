//! A partner's side of a webhook, done right.
//!
//! [`Receiver::handle`] takes the bytes of a request as they came, verifies them, and writes the
//! event down in the same conditional write that finds out whether it has come before. Only then
//! does it answer 2xx: what has been acknowledged is stored, and what is stored was stored once.
//! Whatever it can not judge for now it answers with 503, so that the sender tries again.
//!
//! | module | has |
//! |---|---|
//! | `request` | what of a request counts, and every reason to refuse one |
//! | `envelope` | the event in a body |
//! | `keys` | secrets from SSM, kept for a while and read again after a rotation |
//! | `store` | the table of what came, or a memory of it |
//! | `answer` | status, headers and body of each answer |
//! | [`function_url`] | the way in through a Lambda function URL |
//! | [`server`] | the way in through a server on this machine |
//! | `config` | the environment variables of both |

mod answer;
mod config;
mod envelope;
pub mod function_url;
mod keys;
mod request;
pub mod server;
mod store;

use std::time::{Duration, SystemTime};

use webhooks_core::verify::{Rejection, Signed};

pub use answer::{Answer, RETRY_AFTER_SECONDS, Unavailable};
pub use config::{Config, ConfigError, LocalConfig, Secret};
pub use keys::{Keys, KeysUnavailable};
pub use request::{BODY_MAX_BYTES, ID_MAX_BYTES, Refusal, Request};
pub use store::{Store, StoreError, Stored};

use envelope::Envelope;

/// How long an answer may take: senders wait 8 s or 10 s, and an answer that says "later" is
/// better than none.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(6);

/// The type of the event by which a sender tries whether anybody listens.
pub const PING: &str = "webhooks.ping";

/// A receiver with its secrets and its memory.
#[derive(Debug)]
pub struct Receiver {
    keys: Keys,
    store: Store,
    keep: Duration,
}

impl Receiver {
    /// A receiver that remembers for `keep` what has come.
    #[must_use]
    pub fn new(keys: Keys, store: Store, keep: Duration) -> Self {
        Self { keys, store, keep }
    }

    /// Answers a request that came at `now`, and writes one line into the log.
    pub async fn handle(&self, request: &Request, now: SystemTime) -> Answer {
        // Boxed, or the compiler would have to follow the SDK's futures down through every caller.
        let answer = Box::pin(self.take(request, now));
        let answer = tokio::time::timeout(ANSWER_WITHIN, answer)
            .await
            .unwrap_or_else(|_| Err(Unavailable::Time.into()))
            .unwrap_or_else(|answer| answer);
        answer.log();
        answer
    }

    async fn take(&self, request: &Request, now: SystemTime) -> Result<Answer, Answer> {
        let signed = request.check()?;
        self.verify(signed, &request.body, now).await?;
        // Nothing of the body has been looked at before.
        let envelope = Envelope::parse(&request.body)?;
        let webhook_id = signed.id.to_owned();
        let event_type = envelope.event_type.clone().into_owned();
        if event_type == PING {
            return Ok(Answer::Pong { webhook_id });
        }
        let stored = self.store.put(&webhook_id, &envelope, now, self.keep).await;
        match stored.map_err(Answer::from)? {
            Stored::New => Ok(Answer::Stored {
                webhook_id,
                event_type,
            }),
            Stored::Repeat => Ok(Answer::Repeat {
                webhook_id,
                event_type,
            }),
        }
    }

    /// Verifies with the secrets that are kept, and if none fits, with those that are in force now.
    async fn verify(&self, signed: Signed<'_>, body: &[u8], now: SystemTime) -> Result<(), Answer> {
        let keys = self.keys.current(now).await.map_err(Unavailable::Secret)?;
        let rejection = match keys.verify(signed, body, now) {
            Ok(()) => return Ok(()),
            Err(rejection @ (Rejection::NoSignature | Rejection::Signature)) => rejection,
            Err(
                rejection @ (Rejection::Id
                | Rejection::Timestamp
                | Rejection::TooOld(_)
                | Rejection::TooNew(_)),
            ) => return Err(Refusal::Rejected(rejection).into()),
        };
        let newer = self.keys.newer_than(&keys, now).await;
        match newer.map_err(Unavailable::Secret)? {
            Some(newer) => newer.verify(signed, body, now),
            None => Err(rejection),
        }
        .map_err(|rejection| Refusal::Rejected(rejection).into())
    }
}
