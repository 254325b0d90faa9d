//! Signing secrets from SSM, kept for a while.
//!
//! SSM answers 40 requests a second for a whole account, so secrets are kept for a while (five
//! minutes unless set otherwise), and a batch asks for all that it misses in one call. Since an
//! environment handles one batch at a time, that is also what keeps two tasks from asking for the
//! same secret.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_sdk_ssm::Client;
use aws_sdk_ssm::error::{ProvideErrorMetadata as _, SdkError};
use aws_sdk_ssm::operation::get_parameters::builders::GetParametersFluentBuilder;
use aws_sdk_ssm::operation::get_parameters::{GetParametersError, GetParametersOutput};
use tokio::task::JoinSet;
use tokio::time::Instant;
use webhooks_core::identity::SubscriberId;
use webhooks_core::secret::{self, SecretsError, SigningSecrets};
use webhooks_shell::aws;

/// How much of the time for which a secret is used without asking SSM again is random, so that
/// environments started together do not ask together.
const JITTER: f64 = 0.2;

/// How long a secret that was read is still used while SSM can not be asked. A rotation may be
/// missed for that long, which the old secret's overlap has to cover.
const STALE: Duration = Duration::from_secs(1800);

/// How long SSM is not asked again, at most, after it had no usable secret or no answer. The first
/// failure is asked about again at once, since someone may be mending it; with each further one in
/// a row the pause doubles, since a subscriber without a secret must not use up the account's
/// requests.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// `GetParameters` takes ten names.
const NAMES_PER_CALL: usize = 10;

/// Why there is no secret to sign with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SecretUnavailable {
    /// SSM has no such parameter.
    #[error("there is no parameter {0}")]
    Missing(String),
    /// The parameter's value can not be signed with.
    #[error("parameter {0}: {1}")]
    Broken(String, SecretsError),
    /// SSM could not be asked, or refused.
    #[error("parameter {0} can not be read: {1}")]
    Unreadable(String, String),
}

/// What is known about a subscriber's secret.
pub(crate) type SecretResult = Result<Arc<SigningSecrets>, SecretUnavailable>;

/// The secrets of all subscribers that were delivered to lately.
pub(crate) struct SecretCache {
    client: Client,
    prefix: String,
    /// How long a secret is used before SSM is asked again, at most.
    fresh: Duration,
    kept: Mutex<HashMap<SubscriberId, Kept>>,
}

struct Kept {
    result: SecretResult,
    /// How often in a row asking has failed.
    failures: u32,
    /// Until when it is used without asking.
    fresh_until: SystemTime,
    /// Until when it is used if asking fails.
    usable_until: SystemTime,
}

impl SecretCache {
    pub(crate) fn new(aws: &SdkConfig, prefix: String, fresh: Duration) -> Self {
        Self {
            client: Client::new(aws),
            prefix,
            fresh,
            kept: Mutex::default(),
        }
    }

    /// The name of a subscriber's parameter.
    fn parameter_name(&self, subscriber: &SubscriberId) -> String {
        secret::parameter_name(&self.prefix, subscriber.as_str())
    }

    /// What is known without asking; `None` if SSM is to be asked. `now` is the wall clock: a
    /// monotonic one may stand still while Lambda freezes the environment.
    pub(crate) fn known(&self, subscriber: &SubscriberId, now: SystemTime) -> Option<SecretResult> {
        self.lock()
            .get(subscriber)
            .filter(|kept| kept.fresh_until > now)
            .map(|kept| kept.result.clone())
    }

    /// Asks SSM for the secrets of these subscribers, until `deadline`.
    pub(crate) async fn ask(
        &self,
        subscribers: Vec<SubscriberId>,
        now: SystemTime,
        deadline: Instant,
    ) -> HashMap<SubscriberId, SecretResult> {
        let mut results = HashMap::with_capacity(subscribers.len());
        for chunk in subscribers.chunks(NAMES_PER_CALL) {
            let answers = tokio::time::timeout_at(deadline, self.fetch(chunk))
                .await
                .unwrap_or_else(|_| self.unreadable(chunk, "SSM did not answer in time"));
            for (subscriber, result) in answers {
                let result = self.settle(&subscriber, result, now);
                results.insert(subscriber, result);
            }
        }
        results
    }

    /// Keeps what was learned, and falls back to what was kept where SSM could not be asked.
    fn settle(
        &self,
        subscriber: &SubscriberId,
        learned: SecretResult,
        now: SystemTime,
    ) -> SecretResult {
        let mut cache = self.lock();
        let before = cache.get(subscriber);
        let failures = before.map_or(0, |kept| kept.failures) + 1;
        let ask_again_at = now + pause_after(failures);
        let stale = before.filter(|kept| kept.usable_until > now && kept.result.is_ok());
        let kept = match (learned, stale) {
            (Ok(secrets), _) => Kept {
                result: Ok(secrets),
                failures: 0,
                fresh_until: now + self.fresh.mul_f64(1.0 - JITTER * rand::random::<f64>()),
                usable_until: now + STALE.max(self.fresh),
            },
            (Err(error @ SecretUnavailable::Unreadable(..)), Some(stale)) => {
                tracing::warn!(%error, subscriberId = %subscriber, "secret.stale");
                Kept {
                    result: stale.result.clone(),
                    failures,
                    fresh_until: ask_again_at,
                    usable_until: stale.usable_until,
                }
            }
            // A parameter that was deleted or broken must not be signed with from memory.
            (Err(error), _) => Kept {
                result: Err(error),
                failures,
                fresh_until: ask_again_at,
                usable_until: now,
            },
        };
        let result = kept.result.clone();
        cache.insert(subscriber.clone(), kept);
        result
    }

    /// Asks SSM for up to ten secrets.
    async fn fetch(&self, subscribers: &[SubscriberId]) -> Vec<(SubscriberId, SecretResult)> {
        match self.call(subscribers).send().await {
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
                while let Some(Ok((subscriber, answer))) = single.join_next().await {
                    let one = std::slice::from_ref(&subscriber);
                    results.extend(match answer {
                        Ok(answer) => self.read_answer(one, &answer),
                        Err(error) => self.unreadable(one, &aws::describe(&error)),
                    });
                }
                results
            }
            Err(error) => self.unreadable(subscribers, &aws::describe(&error)),
        }
    }

    fn call(&self, subscribers: &[SubscriberId]) -> GetParametersFluentBuilder {
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
        cause: &str,
    ) -> Vec<(SubscriberId, SecretResult)> {
        subscribers
            .iter()
            .map(|subscriber| {
                let name = self.parameter_name(subscriber);
                let error = SecretUnavailable::Unreadable(name, cause.to_owned());
                (subscriber.clone(), Err(error))
            })
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SubscriberId, Kept>> {
        // Nothing is done under the lock that could leave it half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long to wait before asking again: nothing, 1, 2, 4, 8 s, then always [`LONGEST_PAUSE`].
fn pause_after(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => Duration::from_secs(2_u64.saturating_pow(more - 2)).min(LONGEST_PAUSE),
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

#[cfg(test)]
mod tests {
    use super::*;

    const S1: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const S2: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const FRESH: Duration = Duration::from_secs(300);
    const SECOND: Duration = Duration::from_secs(1);

    fn cache() -> SecretCache {
        let config = SdkConfig::builder()
            .behavior_version(aws_config::BehaviorVersion::latest())
            .build();
        SecretCache::new(&config, "webhooks".into(), FRESH)
    }

    fn cache_at_start() -> (SecretCache, SubscriberId, SystemTime) {
        let subscriber = SubscriberId::parse("s").unwrap();
        (cache(), subscriber, SystemTime::now())
    }

    fn learned(value: &str) -> SecretResult {
        Ok(Arc::new(SigningSecrets::parse(value).unwrap()))
    }

    fn throttled() -> SecretResult {
        Err(SecretUnavailable::Unreadable(
            "/p".into(),
            "throttled".into(),
        ))
    }

    fn signature(result: &SecretResult, now: SystemTime) -> Option<String> {
        webhooks_core::signature::sign(result.as_ref().ok()?, "msg_1", 1, b"{}", now)
    }

    #[test]
    fn a_secret_is_fresh_for_four_to_five_minutes_and_then_a_rotation_is_seen() {
        let (cache, subscriber, now) = cache_at_start();
        assert!(cache.known(&subscriber, now).is_none());
        cache.settle(&subscriber, learned(S1), now).unwrap();
        let almost = now + Duration::from_secs(240) - SECOND;
        assert_eq!(
            signature(&cache.known(&subscriber, almost).unwrap(), now),
            signature(&learned(S1), now)
        );
        let later = now + FRESH;
        assert!(cache.known(&subscriber, later).is_none());
        cache.settle(&subscriber, learned(S2), later).unwrap();
        assert_eq!(
            signature(&cache.known(&subscriber, later).unwrap(), now),
            signature(&learned(S2), now)
        );
    }

    #[test]
    fn while_ssm_can_not_be_asked_a_kept_secret_serves_for_half_an_hour_at_most() {
        let (cache, subscriber, now) = cache_at_start();
        cache.settle(&subscriber, learned(S1), now).unwrap();
        for age in [FRESH, STALE - SECOND] {
            assert!(cache.settle(&subscriber, throttled(), now + age).is_ok());
        }
        let end = now + STALE;
        assert_eq!(
            cache.settle(&subscriber, throttled(), end).unwrap_err(),
            throttled().unwrap_err()
        );
    }

    #[test]
    fn a_secret_that_was_deleted_or_broken_is_not_signed_with_from_memory() {
        for error in [
            SecretUnavailable::Missing("/p".into()),
            SecretUnavailable::Broken("/p".into(), SigningSecrets::parse("").unwrap_err()),
        ] {
            let (cache, subscriber, now) = cache_at_start();
            cache.settle(&subscriber, learned(S1), now).unwrap();
            let later = now + FRESH;
            let gone = cache.settle(&subscriber, Err(error.clone()), later);
            assert_eq!(gone.unwrap_err(), error);
            assert!(cache.settle(&subscriber, throttled(), later).is_err());
        }
    }

    #[test]
    fn ssm_is_asked_again_at_once_after_one_failure_and_ever_later_after_more() {
        let (cache, subscriber, now) = cache_at_start();
        for (failures, pause) in [0, 1, 2, 4, 8, 16, 16].into_iter().enumerate() {
            let missing = SecretUnavailable::Missing("/p".into());
            cache.settle(&subscriber, Err(missing), now).unwrap_err();
            let end = now + SECOND * pause;
            assert!(cache.known(&subscriber, end).is_none(), "{failures}");
            if pause > 0 {
                let known = cache.known(&subscriber, end - SECOND / 2).unwrap();
                assert!(known.is_err(), "{failures}");
            }
        }
        cache.settle(&subscriber, learned(S1), now).unwrap();
        cache.settle(&subscriber, throttled(), now).unwrap();
        assert!(cache.known(&subscriber, now).is_none(), "one failure again");
        assert_eq!(pause_after(u32::MAX), LONGEST_PAUSE);
    }
}
