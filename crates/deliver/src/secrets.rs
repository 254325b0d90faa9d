//! Signing secrets from SSM, kept for a while.
//!
//! SSM answers 40 requests a second for a whole account, so secrets are kept for up to five
//! minutes, and a batch asks for all that it misses in one call. Since an environment handles one
//! batch at a time, that is also what keeps two tasks from asking for the same secret.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_sdk_ssm::Client;
use aws_sdk_ssm::error::{DisplayErrorContext, ProvideErrorMetadata as _, SdkError};
use aws_sdk_ssm::operation::get_parameters::{GetParametersError, GetParametersOutput};
use tokio::task::JoinSet;
use webhooks_core::identity::SubscriberId;
use webhooks_core::secret::{SecretError, SigningSecrets};

/// How long a secret is used before SSM is asked again. Each is kept for a random part of it
/// between four fifths and all, so that environments started together do not ask together.
const FRESH: Duration = Duration::from_secs(300);

/// How long a secret that was read is still used while SSM can not be asked. A rotation may be
/// missed for that long, which the old secret's overlap has to cover.
const STALE: Duration = Duration::from_secs(1800);

/// `GetParameters` takes ten names.
const NAMES_PER_CALL: usize = 10;

/// Why there is no secret to sign with.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum SecretUnavailable {
    /// SSM has no such parameter.
    #[error("there is no parameter {0}")]
    Missing(String),
    /// The parameter's value can not be signed with.
    #[error("parameter {0}: {1}")]
    Broken(String, SecretError),
    /// SSM could not be asked, or refused.
    #[error("parameter {0} can not be read: {1}")]
    Unreadable(String, String),
    /// The batch had no time left to ask.
    #[error("parameter {0} could not be read in time")]
    OutOfTime(String),
}

/// What is known about a subscriber's secret.
pub(crate) type SecretResult = Result<Arc<SigningSecrets>, SecretUnavailable>;

/// The secrets of all subscribers that were delivered to lately.
pub(crate) struct SecretCache {
    client: Client,
    prefix: String,
    kept: Mutex<HashMap<SubscriberId, Kept>>,
}

struct Kept {
    secrets: Arc<SigningSecrets>,
    fresh_until: SystemTime,
    usable_until: SystemTime,
}

impl SecretCache {
    pub(crate) fn new(aws: &SdkConfig, prefix: String) -> Self {
        Self {
            client: Client::new(aws),
            prefix,
            kept: Mutex::default(),
        }
    }

    /// The name of a subscriber's parameter.
    pub(crate) fn parameter_name(&self, subscriber: &SubscriberId) -> String {
        format!("/{}/{subscriber}/signing-secret", self.prefix)
    }

    /// The secrets of these subscribers, from the cache where they are fresh. `now` is the wall
    /// clock: a monotonic one may stand still while Lambda freezes the environment.
    pub(crate) async fn read(
        &self,
        subscribers: Vec<SubscriberId>,
        now: SystemTime,
    ) -> HashMap<SubscriberId, SecretResult> {
        let mut results = HashMap::with_capacity(subscribers.len());
        let mut wanted = Vec::new();
        for subscriber in subscribers {
            match self.kept(&subscriber, |kept| kept.fresh_until > now) {
                Some(secrets) => {
                    results.insert(subscriber, Ok(secrets));
                }
                None => wanted.push(subscriber),
            }
        }
        for chunk in wanted.chunks(NAMES_PER_CALL) {
            for (subscriber, result) in self.fetch(chunk).await {
                let result = self.settle(&subscriber, result, now);
                results.insert(subscriber, result);
            }
        }
        results
    }

    /// Keeps what was read; falls back to what was kept where nothing could be read.
    fn settle(
        &self,
        subscriber: &SubscriberId,
        result: SecretResult,
        now: SystemTime,
    ) -> SecretResult {
        match result {
            Ok(secrets) => {
                let fresh_for = FRESH.mul_f64(1.0 - 0.2 * rand::random::<f64>());
                self.lock().insert(
                    subscriber.clone(),
                    Kept {
                        secrets: Arc::clone(&secrets),
                        fresh_until: now + fresh_for,
                        usable_until: now + STALE,
                    },
                );
                Ok(secrets)
            }
            Err(error @ (SecretUnavailable::Unreadable(..) | SecretUnavailable::OutOfTime(_))) => {
                match self.kept(subscriber, |kept| kept.usable_until > now) {
                    Some(secrets) => {
                        tracing::warn!(%error, subscriberId = %subscriber, "secret.stale");
                        Ok(secrets)
                    }
                    None => Err(error),
                }
            }
            // A parameter that was deleted or broken on purpose must not be signed with from memory.
            Err(error @ (SecretUnavailable::Missing(_) | SecretUnavailable::Broken(..))) => {
                self.lock().remove(subscriber);
                Err(error)
            }
        }
    }

    /// Asks SSM for up to ten secrets.
    async fn fetch(&self, subscribers: &[SubscriberId]) -> Vec<(SubscriberId, SecretResult)> {
        match self.get(subscribers).await {
            Ok(answer) => self.read_answer(subscribers, &answer),
            // One name that we may not read, or whose key is disabled, makes SSM refuse them all.
            Err(error) if subscribers.len() > 1 && is_refusal(&error) => {
                let mut single = JoinSet::new();
                for subscriber in subscribers {
                    let call = self.call(std::slice::from_ref(subscriber));
                    let subscriber = subscriber.clone();
                    single.spawn(async move { (subscriber, call.send().await) });
                }
                let mut results = Vec::with_capacity(subscribers.len());
                for (subscriber, answer) in single.join_all().await {
                    let one = std::slice::from_ref(&subscriber);
                    results.extend(match answer {
                        Ok(answer) => self.read_answer(one, &answer),
                        Err(error) => self.unreadable(one, &error),
                    });
                }
                results
            }
            Err(error) => self.unreadable(subscribers, &error),
        }
    }

    fn call(
        &self,
        subscribers: &[SubscriberId],
    ) -> aws_sdk_ssm::operation::get_parameters::builders::GetParametersFluentBuilder {
        let names = subscribers
            .iter()
            .map(|subscriber| self.parameter_name(subscriber))
            .collect();
        self.client
            .get_parameters()
            .set_names(Some(names))
            // Without it SSM answers with the ciphertext, which looks like a secret.
            .with_decryption(true)
    }

    async fn get(
        &self,
        subscribers: &[SubscriberId],
    ) -> Result<GetParametersOutput, SdkError<GetParametersError>> {
        self.call(subscribers).send().await
    }

    fn read_answer(
        &self,
        subscribers: &[SubscriberId],
        answer: &GetParametersOutput,
    ) -> Vec<(SubscriberId, SecretResult)> {
        subscribers
            .iter()
            .map(|subscriber| {
                let name = self.parameter_name(subscriber);
                let value = answer
                    .parameters()
                    .iter()
                    .find(|parameter| parameter.name() == Some(&name))
                    .and_then(|parameter| parameter.value());
                let result = match value.map(SigningSecrets::parse) {
                    Some(Ok(secrets)) => Ok(Arc::new(secrets)),
                    Some(Err(error)) => Err(SecretUnavailable::Broken(name, error)),
                    None => Err(SecretUnavailable::Missing(name)),
                };
                (subscriber.clone(), result)
            })
            .collect()
    }

    fn unreadable(
        &self,
        subscribers: &[SubscriberId],
        error: &SdkError<GetParametersError>,
    ) -> Vec<(SubscriberId, SecretResult)> {
        let cause = DisplayErrorContext(error).to_string();
        subscribers
            .iter()
            .map(|subscriber| {
                let name = self.parameter_name(subscriber);
                let error = SecretUnavailable::Unreadable(name, cause.clone());
                (subscriber.clone(), Err(error))
            })
            .collect()
    }

    /// What is kept for a subscriber, whatever its age within [`STALE`]; for a batch that had no
    /// time to ask.
    pub(crate) fn without_asking(
        &self,
        subscriber: &SubscriberId,
        now: SystemTime,
    ) -> SecretResult {
        let error = SecretUnavailable::OutOfTime(self.parameter_name(subscriber));
        self.settle(subscriber, Err(error), now)
    }

    fn kept(
        &self,
        subscriber: &SubscriberId,
        usable: impl FnOnce(&Kept) -> bool,
    ) -> Option<Arc<SigningSecrets>> {
        self.lock()
            .get(subscriber)
            .filter(|kept| usable(kept))
            .map(|kept| Arc::clone(&kept.secrets))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SubscriberId, Kept>> {
        // Nothing is done under the lock that could leave it half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether SSM understood and said no, so that asking for fewer names can help. It can not where
/// SSM is throttling, failing or silent.
fn is_refusal(error: &SdkError<GetParametersError>) -> bool {
    let client_fault = error
        .raw_response()
        .is_some_and(|response| response.status().is_client_error());
    client_fault
        && !error
            .code()
            .is_some_and(|code| code.contains("Throttl") || code == "TooManyRequestsException")
}
