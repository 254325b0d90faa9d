//! How a stack changes a published policy: what its operator says, what its queue allows for, and
//! how much shorter its time is.

use std::time::Duration;

use super::{HEADROOM, MARGIN, RetryPolicy, SQS_LONGEST_VISIBILITY, SQS_MOST_RECEIVES, Schedule};

/// What an operator changes of a policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overrides {
    /// [`Schedule::Growing`]'s first delay, in seconds.
    pub base_seconds: Option<u32>,
    /// [`Schedule::Growing`]'s factor.
    pub factor: Option<u32>,
    /// The longest delay of the schedule, in seconds.
    pub cap_seconds: Option<u32>,
    /// [`RetryPolicy::attempts`].
    pub attempts: Option<u32>,
}

/// Everything that makes the policy of a stack: what deliver reads from its environment, and the
/// command from the stack's parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// As it is published.
    pub policy: RetryPolicy,
    /// See [`RetryPolicy::with_time_scale`].
    pub time_scale: f64,
    /// Of the jobs queue, see [`RetryPolicy::for_visibility_timeout`].
    pub visibility_timeout_seconds: u32,
    /// The longest that an attempt may take, if the policy does not end it sooner.
    pub attempt_timeout_seconds: Option<u32>,
    /// What the operator changes.
    pub overrides: Overrides,
    /// The queue's `maxReceiveCount`; `None` if it is made for the policy as it is published.
    pub receives: Option<u32>,
}

/// Why a policy can not be changed like that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// The policy has a table of delays instead of them.
    #[error("the policy {0} has a fixed table of delays: base, factor and cap can not be changed")]
    Table(&'static str),
    /// The schedule would start above its own end.
    #[error("the base of {base} s is longer than the cap of {cap} s")]
    BaseAboveCap {
        /// In seconds.
        base: u64,
        /// In seconds.
        cap: u64,
    },
    /// SQS could not keep such a delay.
    #[error("a cap of {cap} s is longer than the {longest} s that this queue can hide a message")]
    CapTooLong {
        /// In seconds.
        cap: u64,
        /// In seconds.
        longest: u32,
    },
    /// The redrive policy would end the run before the attempts are used up.
    #[error(
        "{attempts} attempts and {HEADROOM} spare receives are more than the queue's \
         maxReceiveCount of {receives}"
    )]
    TooManyAttempts {
        /// Of the policy as changed.
        attempts: u32,
        /// Of the queue.
        receives: u32,
    },
}

impl RetryPolicy {
    /// The policy that deliver works by.
    ///
    /// # Errors
    /// If SQS, or the policy itself, does not allow for the overrides.
    pub fn configured(configuration: Configuration) -> Result<Self, OverrideError> {
        let Configuration {
            policy,
            time_scale,
            visibility_timeout_seconds,
            attempt_timeout_seconds,
            overrides,
            receives,
        } = configuration;
        let attempt_timeout = attempt_timeout_seconds.map_or(policy.timeout, |seconds| {
            Duration::from_secs(seconds.into())
        });
        policy
            .with_timeout_of_at_most(attempt_timeout)
            .with_time_scale(time_scale)
            .for_visibility_timeout(visibility_timeout_seconds)
            .with_overrides(overrides, receives)
    }

    /// The same policy on a queue with this visibility timeout, in seconds. SQS refuses a delay
    /// that would hide a message for more than 12 h since its receive, and a message can be in
    /// hand for as long as the visibility timeout.
    #[must_use]
    pub fn for_visibility_timeout(self, seconds: u32) -> Self {
        Self {
            longest_delay_seconds: SQS_LONGEST_VISIBILITY
                .saturating_sub(seconds)
                .saturating_sub(MARGIN)
                .max(1),
            ..self
        }
    }

    /// The same policy with its own delays and its horizon multiplied by `scale`; demos and tests
    /// use less than 1. What a receiver asks for by `Retry-After` is real time and is not scaled.
    #[must_use]
    pub fn with_time_scale(self, scale: f64) -> Self {
        Self {
            time_scale: scale,
            ..self
        }
    }

    /// The same policy as an operator has changed it, on a queue whose redrive policy moves a
    /// message after `receives` receives; `None` if the queue's is made for the policy as it is
    /// published.
    ///
    /// # Errors
    /// If SQS, or the policy itself, does not allow for it.
    pub fn with_overrides(
        mut self,
        overrides: Overrides,
        receives: Option<u32>,
    ) -> Result<Self, OverrideError> {
        let receives = receives.unwrap_or(self.receives());
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        if let Some(attempts) = overrides.attempts {
            self.attempts = attempts;
        }
        match &mut self.schedule {
            Schedule::Table(_) => {
                let growing = [
                    overrides.base_seconds,
                    overrides.factor,
                    overrides.cap_seconds,
                ];
                if growing.iter().any(Option::is_some) {
                    return Err(OverrideError::Table(self.name));
                }
            }
            Schedule::Growing { base, factor, cap } => {
                *base = overrides.base_seconds.map_or(*base, seconds);
                *factor = overrides.factor.unwrap_or(*factor);
                *cap = overrides.cap_seconds.map_or(*cap, seconds);
                if base > cap {
                    return Err(OverrideError::BaseAboveCap {
                        base: base.as_secs(),
                        cap: cap.as_secs(),
                    });
                }
                let longest = u64::from(self.longest_delay_seconds);
                if overrides.cap_seconds.is_some() && cap.as_secs() > longest {
                    return Err(OverrideError::CapTooLong {
                        cap: cap.as_secs(),
                        longest: self.longest_delay_seconds,
                    });
                }
            }
        }
        if self.receives() > receives.min(SQS_MOST_RECEIVES) {
            return Err(OverrideError::TooManyAttempts {
                attempts: self.attempts,
                receives: receives.min(SQS_MOST_RECEIVES),
            });
        }
        Ok(self)
    }

    /// The same policy with attempts of at most this long, if that is shorter.
    #[must_use]
    pub fn with_timeout_of_at_most(self, timeout: Duration) -> Self {
        Self {
            timeout: self.timeout.min(timeout),
            ..self
        }
    }
}
