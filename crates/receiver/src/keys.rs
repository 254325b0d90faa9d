//! What to verify with: given once, or read from SSM and kept for a while.
//!
//! A rotation must not cost a webhook. So whenever a signature does not fit what is kept, the
//! parameter is read again at once; but at most once every ten seconds, since anybody can send a
//! signature that does not fit, and SSM answers 40 requests a second for a whole account.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_sdk_ssm::Client;
use tokio::sync::Mutex;
use webhooks_core::verify::{KeyError, VerifyingKeys};
use webhooks_shell::aws;

/// How long a secret is used before SSM is asked again.
const FRESH: Duration = Duration::from_secs(300);

/// How long a secret that was read is still used while SSM can not be asked.
const STALE: Duration = Duration::from_secs(1800);

/// How long SSM is not asked again because of a signature that does not fit.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

/// How long SSM is not asked again after it had no usable secret or no answer.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Where the secrets come from.
#[derive(Debug)]
pub enum Keys {
    /// Given at the start; a rotation needs a new start.
    Fixed(Arc<VerifyingKeys>),
    /// Read from an SSM parameter.
    Parameter(ParameterKeys),
}

/// Why there is nothing to verify with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysUnavailable {
    /// SSM has no such parameter.
    #[error("there is no parameter {0}")]
    Missing(String),
    /// The parameter's value can not be verified with.
    #[error("parameter {0}: {1}")]
    Broken(String, KeyError),
    /// SSM could not be asked, or refused.
    #[error("parameter {0} can not be read: {1}")]
    Unreadable(String, String),
}

/// The secrets in an SSM SecureString, separated by white space.
pub struct ParameterKeys {
    client: Client,
    name: String,
    /// Held while SSM is asked, so that requests that come together ask once.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: Option<Kept>,
    failed: Option<(SystemTime, KeysUnavailable)>,
}

struct Kept {
    keys: Arc<VerifyingKeys>,
    read_at: SystemTime,
}

impl Keys {
    /// Keys that are read from this SSM parameter.
    #[must_use]
    pub fn of_parameter(aws: &SdkConfig, name: String) -> Self {
        Self::Parameter(ParameterKeys {
            client: Client::new(aws),
            name,
            state: Mutex::default(),
        })
    }

    /// The keys to verify with at `now`, which is the wall clock: a monotonic one may stand still
    /// while Lambda freezes the environment.
    pub(crate) async fn current(
        &self,
        now: SystemTime,
    ) -> Result<Arc<VerifyingKeys>, KeysUnavailable> {
        match self {
            Self::Fixed(keys) => Ok(Arc::clone(keys)),
            Self::Parameter(parameter) => parameter.current(now).await,
        }
    }

    /// Others than those that did not fit, if there may be others.
    pub(crate) async fn newer_than(
        &self,
        tried: &Arc<VerifyingKeys>,
        now: SystemTime,
    ) -> Result<Option<Arc<VerifyingKeys>>, KeysUnavailable> {
        match self {
            Self::Fixed(_) => Ok(None),
            Self::Parameter(parameter) => parameter.newer_than(tried, now).await,
        }
    }
}

impl ParameterKeys {
    async fn current(&self, now: SystemTime) -> Result<Arc<VerifyingKeys>, KeysUnavailable> {
        let mut state = self.state.lock().await;
        if let Some(keys) = state.kept_for(FRESH, now) {
            return Ok(keys);
        }
        let error = match self.ask(&mut state, AFTER_FAILURE, now).await {
            Ok(keys) => return Ok(keys),
            Err(error) => error,
        };
        match (&error, state.kept_for(STALE, now)) {
            (KeysUnavailable::Unreadable(..), Some(keys)) => {
                tracing::warn!(%error, "secret.stale");
                Ok(keys)
            }
            // One that was deleted or broken must not be verified with from memory.
            _ => Err(error),
        }
    }

    async fn newer_than(
        &self,
        tried: &Arc<VerifyingKeys>,
        now: SystemTime,
    ) -> Result<Option<Arc<VerifyingKeys>>, KeysUnavailable> {
        let mut state = self.state.lock().await;
        if let Some(keys) = state.kept_for(BETWEEN_LOOKS, now) {
            // Another request may have read them meanwhile.
            return Ok(Some(keys).filter(|keys| !Arc::ptr_eq(keys, tried)));
        }
        self.ask(&mut state, BETWEEN_LOOKS, now).await.map(Some)
    }

    /// Asks SSM, unless it failed less than `pause` ago.
    async fn ask(
        &self,
        state: &mut State,
        pause: Duration,
        now: SystemTime,
    ) -> Result<Arc<VerifyingKeys>, KeysUnavailable> {
        if let Some((at, error)) = &state.failed
            && is_within(*at, pause, now)
        {
            return Err(error.clone());
        }
        match self.fetch().await {
            Ok(keys) => {
                let keys = Arc::new(keys);
                state.failed = None;
                state.kept = Some(Kept {
                    keys: Arc::clone(&keys),
                    read_at: now,
                });
                Ok(keys)
            }
            Err(error) => {
                state.failed = Some((now, error.clone()));
                Err(error)
            }
        }
    }

    async fn fetch(&self) -> Result<VerifyingKeys, KeysUnavailable> {
        let name = || self.name.clone();
        let answer = self
            .client
            .get_parameter()
            .name(&self.name)
            // Without it SSM answers with the ciphertext.
            .with_decryption(true)
            .send()
            .await;
        let answer = answer.map_err(|error| {
            let service_error = error.as_service_error();
            if service_error.is_some_and(|error| error.is_parameter_not_found()) {
                KeysUnavailable::Missing(name())
            } else {
                KeysUnavailable::Unreadable(name(), aws::describe(&error))
            }
        })?;
        let value = answer.parameter().and_then(|parameter| parameter.value());
        let value = value.ok_or_else(|| {
            KeysUnavailable::Unreadable(name(), "the answer has no value".to_owned())
        })?;
        VerifyingKeys::parse(value).map_err(|error| KeysUnavailable::Broken(name(), error))
    }
}

impl State {
    /// What was read less than `span` ago.
    fn kept_for(&self, span: Duration, now: SystemTime) -> Option<Arc<VerifyingKeys>> {
        let kept = self.kept.as_ref()?;
        is_within(kept.read_at, span, now).then(|| Arc::clone(&kept.keys))
    }
}

/// Whether `at` is less than `span` ago. A clock that was set back must not make it last.
fn is_within(at: SystemTime, span: Duration, now: SystemTime) -> bool {
    now.duration_since(at).is_ok_and(|ago| ago < span)
}

impl fmt::Debug for ParameterKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ParameterKeys({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As of a request that has waited while another one read them.
    #[tokio::test]
    async fn what_another_request_has_just_read_is_not_read_again() {
        let keys = |text: &str| Arc::new(VerifyingKeys::parse(text).unwrap());
        let old = keys("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let new = keys("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_040_000);
        let config = aws_sdk_ssm::Config::builder()
            .behavior_version(aws_sdk_ssm::config::BehaviorVersion::latest());
        // Without a region it can ask nobody.
        let parameter = ParameterKeys {
            client: Client::from_conf(config.build()),
            name: "/secret".to_owned(),
            state: Mutex::new(State {
                kept: Some(Kept {
                    keys: Arc::clone(&new),
                    read_at: now,
                }),
                failed: None,
            }),
        };
        let newer = parameter.newer_than(&old, now).await.unwrap();
        assert!(Arc::ptr_eq(&newer.unwrap(), &new));
        assert!(parameter.newer_than(&new, now).await.unwrap().is_none());
    }
}
