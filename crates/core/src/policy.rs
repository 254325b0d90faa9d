//! Retry policies: schedule, jitter, limits and what each status gets, as a value with a name.
//!
//! Four are published, and a partner can be handed any of them as a contract: `webhooks schedule`
//! prints them from here. What the template must know of a policy stands in its `Mappings`, and a
//! test reads the template and compares.

use std::time::{Duration, SystemTime};

use crate::outcome::Failure;
use crate::retry_after::RetryAfter;

/// SQS hides a message for at most 12 h, counted from its receive, in seconds.
const SQS_LONGEST_VISIBILITY: u32 = 43_200;

/// The visibility timeout of the template's jobs queue, in seconds.
pub const VISIBILITY_TIMEOUT_SECONDS: u32 = 180;

/// What is left free below [`SQS_LONGEST_VISIBILITY`] beyond the queue's own visibility timeout,
/// in seconds: the time between the receive and the call that hides the message.
const MARGIN: u32 = 60;

/// The most receives that a redrive policy can ask for (SQS, `maxReceiveCount`).
const SQS_MOST_RECEIVES: u32 = 1000;

/// How many receives of a message may make no attempt: because something of ours did not work, the
/// process died, or somebody looked at the queue. A delivery that could not be tried for so long
/// is dead.
pub const HEADROOM: u32 = 30;

/// How long the jobs queue keeps a message (the template's `MessageRetentionPeriod`).
pub const JOB_RETENTION: Duration = Duration::from_hours(7 * 24);

/// What is left of it when a delivery is given up, so that it reaches the dead-letter queue in
/// time, however often its last receives go wrong.
const RETENTION_MARGIN: Duration = Duration::from_hours(12);

/// How soon a delivery comes back after the first fault of ours. The delay triples with each
/// further one, so that a short disturbance costs seconds and [`HEADROOM`] lasts for days.
const FAULT_BASE: Duration = Duration::from_secs(5);
const FAULT_FACTOR: u32 = 3;
/// The longest that a delivery waits after a fault of ours.
const FAULT_CAP: Duration = Duration::from_hours(3);

/// How long a run may last under any policy. The schedules without a horizon end long before; it
/// bounds a receiver that asks for the longest wait again and again, so that a message never comes
/// near the end of its life in the queue.
const LONGEST_RUN: Duration = Duration::from_hours(84);

/// The names of the published policies.
pub const NAMES: [&str; 4] = ["standard", "bounded", "contract-72h", "payments-24h"];

/// A retry policy. Delays are counted from the end of the attempt that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// Its published name.
    pub name: &'static str,
    /// The delays before jitter.
    pub schedule: Schedule,
    /// How chance changes a delay.
    pub jitter: Jitter,
    /// The most attempts of a run.
    pub attempts: u32,
    /// How long a run may last: no attempt is planned for later than this after its first receive.
    pub horizon: Option<Duration>,
    /// How long one attempt may take, from connecting to the status line.
    pub timeout: Duration,
    /// The longest wait that a receiver can ask for by `Retry-After`, if it is shorter than what
    /// the queue can keep.
    pub retry_after_cap: Option<Duration>,
    /// What becomes of an answer that is neither 2xx nor 410.
    pub statuses: Statuses,
    /// The longest delay the queue can keep, in seconds, see
    /// [`RetryPolicy::for_visibility_timeout`]. It bounds `Retry-After` too.
    pub longest_delay_seconds: u32,
    /// Factor on every delay of our own and on the horizon; 1 in production.
    pub time_scale: f64,
}

/// The delays of a policy, before jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// Each delay is the one before times a factor.
    Growing {
        /// After the first attempt.
        base: Duration,
        /// At least 1.
        factor: u32,
        /// The longest.
        cap: Duration,
    },
    /// These, and then the last one again and again.
    Table(&'static [Duration]),
}

/// How chance changes a delay, so that a receiver that comes back is not hit by everything at
/// once (AWS Architecture Blog, "Exponential Backoff And Jitter").
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Jitter {
    /// Half of the delay is fixed, half is random.
    Equal,
    /// All of it is random.
    Full,
    /// Up to this part of the delay is added or taken away.
    Around(f64),
}

/// What becomes of the answers that are neither 2xx nor 410, by their status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statuses {
    /// Ranges of statuses, both ends included. The first that holds a status decides.
    pub rules: &'static [(u16, u16, Treatment)],
    /// Every other status.
    pub otherwise: Treatment,
}

/// What a failed attempt leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// It is tried again.
    Retry,
    /// It is tried again until this many attempts of a run have failed this way.
    AtMost(u32),
    /// The delivery is dead at once.
    Dead,
}

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

/// 30 s, 5 min, 30 min, 2 h, 6 h, then every 12 h.
const CONTRACT_72H: [Duration; 6] = [
    Duration::from_secs(30),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(6),
    Duration::from_hours(12),
];

impl RetryPolicy {
    /// The policy of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "standard" => Some(Self::standard()),
            "bounded" => Some(Self::bounded()),
            "contract-72h" => Some(Self::contract_72h()),
            "payments-24h" => Some(Self::payments_24h()),
            _ => None,
        }
    }

    /// `standard`: 1, 3, 9, 27, 81, 243 minutes, then 6 hours; 8 attempts of at most 10 s. Every
    /// failure is retried.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            name: "standard",
            schedule: Schedule::Growing {
                base: Duration::from_mins(1),
                factor: 3,
                cap: Duration::from_hours(6),
            },
            jitter: Jitter::Equal,
            attempts: 8,
            horizon: None,
            timeout: Duration::from_secs(10),
            retry_after_cap: None,
            statuses: Statuses {
                rules: &[],
                otherwise: Treatment::Retry,
            },
            longest_delay_seconds: SQS_LONGEST_VISIBILITY - MARGIN,
            time_scale: 1.0,
        }
    }

    /// `bounded`: 30 s, doubled up to 6 hours; 8 attempts of at most 10 s. Only what may pass by
    /// itself is retried, and no `Retry-After` delays it by more than 6 hours.
    #[must_use]
    pub fn bounded() -> Self {
        let cap = Duration::from_hours(6);
        Self {
            name: "bounded",
            schedule: Schedule::Growing {
                base: Duration::from_secs(30),
                factor: 2,
                cap,
            },
            retry_after_cap: Some(cap),
            statuses: Statuses {
                rules: &[
                    (408, 408, Treatment::Retry),
                    (425, 425, Treatment::Retry),
                    (429, 429, Treatment::Retry),
                    (500, 599, Treatment::Retry),
                ],
                otherwise: Treatment::Dead,
            },
            ..Self::standard()
        }
    }

    /// `contract-72h`: a fixed table of delays until 72 hours have passed, attempts of at most
    /// 8 s. What the receiver rejects is tried three times.
    #[must_use]
    pub fn contract_72h() -> Self {
        const REJECTED: Treatment = Treatment::AtMost(3);
        Self {
            name: "contract-72h",
            schedule: Schedule::Table(&CONTRACT_72H),
            jitter: Jitter::Around(0.05),
            // As many as the table has within the horizon, however the jitter falls.
            attempts: 11,
            horizon: Some(Duration::from_hours(72)),
            timeout: Duration::from_secs(8),
            statuses: Statuses {
                rules: &[(400, 401, REJECTED), (403, 404, REJECTED)],
                otherwise: Treatment::Retry,
            },
            ..Self::standard()
        }
    }

    /// `payments-24h`: 10 s, doubled up to an hour, all of it random, until 24 hours have passed;
    /// attempts of at most 10 s. What can not get better by itself is dead at once.
    #[must_use]
    pub fn payments_24h() -> Self {
        Self {
            name: "payments-24h",
            schedule: Schedule::Growing {
                base: Duration::from_secs(10),
                factor: 2,
                cap: Duration::from_hours(1),
            },
            jitter: Jitter::Full,
            // About 56 in the mean. A hundred within the horizon would need a mean delay of less
            // than half of what chance gives.
            attempts: 100,
            horizon: Some(Duration::from_hours(24)),
            statuses: Statuses {
                rules: &[
                    (400, 401, Treatment::Dead),
                    (403, 403, Treatment::Dead),
                    (422, 422, Treatment::Dead),
                ],
                otherwise: Treatment::Retry,
            },
            ..Self::standard()
        }
    }

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

    /// How often SQS must hand a message out before its redrive policy moves it: the queue's
    /// `maxReceiveCount`.
    #[must_use]
    pub fn receives(&self) -> u32 {
        self.attempts.saturating_add(HEADROOM)
    }

    /// How long a run may last at most, in seconds.
    #[must_use]
    pub fn longest_run_seconds(&self) -> u64 {
        self.horizon
            .map_or(LONGEST_RUN, |horizon| {
                LONGEST_RUN.min(horizon.mul_f64(self.time_scale))
            })
            .as_secs()
    }

    /// How long the spare receives of a message last at most, in seconds.
    #[must_use]
    pub fn longest_faults_seconds(&self) -> u64 {
        (0..HEADROOM)
            .map(|fault| u64::from(self.fault_delay_seconds(fault, 1.0)))
            .sum()
    }

    /// When a message that was sent at that time is given up, or it would expire in the queue.
    #[must_use]
    pub fn end_of_life(sent_at: SystemTime) -> SystemTime {
        sent_at + (JOB_RETENTION - RETENTION_MARGIN)
    }

    /// How long a delivery waits, in seconds, whose run has ended after this `Retry-After` and of
    /// which that could not be written down: as long as at the end of the schedule.
    #[must_use]
    pub fn pause_seconds(&self, retry_after: Option<RetryAfter>, now: SystemTime) -> u32 {
        self.asked_seconds(retry_after, now)
            .max(self.backoff_seconds(self.attempts, 1.0))
    }

    /// How long a receiver wants to be left alone, in seconds, as far as it can be granted.
    #[must_use]
    pub fn asked_seconds(&self, retry_after: Option<RetryAfter>, now: SystemTime) -> u32 {
        let asked = retry_after.map_or(0, |retry_after| retry_after.seconds_from(now));
        u32::try_from(asked)
            .unwrap_or(u32::MAX)
            .min(self.longest_retry_after_seconds())
    }

    /// What a failure leads to.
    #[must_use]
    pub fn treatment(&self, failure: Failure) -> Treatment {
        match failure {
            Failure::Status(status) => self
                .statuses
                .rules
                .iter()
                .find(|(from, to, _)| (from..=to).contains(&&status))
                .map_or(self.statuses.otherwise, |(_, _, treatment)| *treatment),
            Failure::Timeout
            | Failure::Dns
            | Failure::Connect
            | Failure::Tls
            | Failure::Connection
            | Failure::Protocol => Treatment::Retry,
        }
    }

    /// The policy's own delay after attempt number `attempt` (from 1), in whole seconds, at least
    /// one. `jitter` is a number from 0 up to 1.
    #[must_use]
    pub fn backoff_seconds(&self, attempt: u32, jitter: f64) -> u32 {
        self.whole_seconds(self.jitter.apply(self.planned_seconds(attempt), jitter))
    }

    /// Whether the schedule asks for a longer delay after attempt number `attempt` than SQS can
    /// keep.
    #[must_use]
    pub fn is_clamped(&self, attempt: u32) -> bool {
        self.planned_seconds(attempt) > f64::from(self.longest_delay_seconds)
    }

    /// The same policy with attempts of at most this long, if that is shorter.
    #[must_use]
    pub fn with_timeout_of_at_most(self, timeout: Duration) -> Self {
        Self {
            timeout: self.timeout.min(timeout),
            ..self
        }
    }

    /// The longest wait that a receiver can ask for, in seconds.
    #[must_use]
    pub fn longest_retry_after_seconds(&self) -> u32 {
        self.retry_after_cap
            .and_then(|cap| u32::try_from(cap.as_secs()).ok())
            .map_or(self.longest_delay_seconds, |cap| {
                cap.min(self.longest_delay_seconds)
            })
    }

    /// How soon a delivery comes back after a fault of ours, in seconds. `before` is the number of
    /// earlier receives in which nothing was sent. `jitter` is a number from 0 up to 1.
    #[must_use]
    pub fn fault_delay_seconds(&self, before: u32, jitter: f64) -> u32 {
        let delay = growing(FAULT_BASE, FAULT_FACTOR, FAULT_CAP, before) * self.time_scale;
        self.whole_seconds(Jitter::Equal.apply(delay, jitter))
    }

    /// The delay that the schedule asks for after attempt number `attempt` (from 1), before chance
    /// and the queue change it, in seconds. It is multiplied by [`Self::time_scale`] already.
    #[must_use]
    pub fn planned_seconds(&self, attempt: u32) -> f64 {
        let before = attempt.saturating_sub(1);
        let delay = match self.schedule {
            Schedule::Growing { base, factor, cap } => growing(base, factor, cap, before),
            Schedule::Table(delays) => usize::try_from(before)
                .ok()
                .and_then(|before| delays.get(before))
                .or(delays.last())
                .map_or(0.0, Duration::as_secs_f64),
        };
        delay * self.time_scale
    }

    /// Rounded up, at least one, and no more than the queue can keep.
    fn whole_seconds(&self, seconds: f64) -> u32 {
        // `max` before `min`: unlike `clamp` it turns a NaN into the bound.
        let bounded = seconds
            .ceil()
            .max(1.0)
            .min(f64::from(self.longest_delay_seconds));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number between 1 and a u32"
        )]
        let seconds = bounded as u32;
        seconds
    }
}

impl Jitter {
    /// A delay after chance has changed it; `jitter` is a number from 0 up to 1.
    fn apply(self, delay: f64, jitter: f64) -> f64 {
        let jitter = jitter.clamp(0.0, 1.0);
        match self {
            Self::Equal => delay * (0.5 + 0.5 * jitter),
            Self::Full => delay * jitter,
            Self::Around(part) => delay * (1.0 - part + 2.0 * part * jitter),
        }
    }
}

/// `base` multiplied by `factor` as often as there were steps before, at most `cap`, in seconds.
fn growing(base: Duration, factor: u32, cap: Duration, before: u32) -> f64 {
    let steps = i32::try_from(before).unwrap_or(i32::MAX);
    let delay = base.as_secs_f64() * f64::from(factor).powi(steps);
    delay.min(cap.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shortest and longest delay after each attempt but the last.
    fn delays(policy: &RetryPolicy) -> (Vec<u32>, Vec<u32>) {
        let policy = policy.clone().for_visibility_timeout(180);
        (1..policy.attempts.min(12))
            .map(|n| {
                (
                    policy.backoff_seconds(n, 0.0),
                    policy.backoff_seconds(n, 1.0),
                )
            })
            .unzip()
    }

    #[test]
    fn the_standard_schedule_is_the_published_one() {
        let policy = RetryPolicy::standard();
        let (shortest, longest) = delays(&policy);
        assert_eq!(longest, [60, 180, 540, 1620, 4860, 14_580, 21_600]);
        assert_eq!(shortest, [30, 90, 270, 810, 2430, 7290, 10_800]);
        assert_eq!(policy.attempts, 8);
        assert_eq!(policy.timeout, Duration::from_secs(10));
    }

    #[test]
    fn the_bounded_schedule_is_the_published_one() {
        let policy = RetryPolicy::bounded();
        let (shortest, longest) = delays(&policy);
        assert_eq!(longest, [30, 60, 120, 240, 480, 960, 1920]);
        assert_eq!(shortest, [15, 30, 60, 120, 240, 480, 960]);
        assert_eq!(policy.backoff_seconds(30, 1.0), 21_600);
        assert_eq!(policy.attempts, 8);
        assert_eq!(policy.timeout, Duration::from_secs(10));
        assert_eq!(policy.longest_retry_after_seconds(), 21_600);
    }

    #[test]
    fn the_contract_has_eleven_attempts_in_72_hours_however_the_jitter_falls() {
        let policy = RetryPolicy::contract_72h();
        let (shortest, longest) = delays(&policy);
        assert_eq!(longest[..5], [32, 315, 1890, 7560, 22_680]);
        assert_eq!(longest[5..], [42_960; 5]);
        assert_eq!(shortest[..5], [29, 285, 1710, 6840, 20_520]);
        assert_eq!(shortest[5..], [41_040; 5]);
        let horizon = u32::try_from(policy.longest_run_seconds()).unwrap();
        assert_eq!(horizon, 259_200);
        assert!(longest.iter().sum::<u32>() < horizon);
        assert!(
            shortest.iter().sum::<u32>() + 41_040 > horizon,
            "no twelfth"
        );
        assert_eq!(policy.timeout, Duration::from_secs(8));
    }

    #[test]
    fn the_payments_schedule_is_the_published_one() {
        let policy = RetryPolicy::payments_24h();
        let (shortest, longest) = delays(&policy);
        let doubled = [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600];
        assert_eq!(longest, doubled);
        assert_eq!(shortest, [1; 11]);
        assert_eq!(policy.longest_run_seconds(), 24 * 3600);
        let mean: u32 = (1..100).map(|n| policy.backoff_seconds(n, 0.5)).sum();
        assert!(mean > 24 * 3600 * 18 / 10, "the horizon ends it: {mean} s");
    }

    #[test]
    fn each_policy_treats_a_status_as_published() {
        use Treatment::{AtMost, Dead, Retry};
        for (status, bounded, contract, payments) in [
            (302, Dead, Retry, Retry),
            (400, Dead, AtMost(3), Dead),
            (401, Dead, AtMost(3), Dead),
            (402, Dead, Retry, Retry),
            (403, Dead, AtMost(3), Dead),
            (404, Dead, AtMost(3), Retry),
            (408, Retry, Retry, Retry),
            (409, Dead, Retry, Retry),
            (422, Dead, Retry, Dead),
            (425, Retry, Retry, Retry),
            (429, Retry, Retry, Retry),
            (499, Dead, Retry, Retry),
            (500, Retry, Retry, Retry),
            (599, Retry, Retry, Retry),
            (600, Dead, Retry, Retry),
            (101, Dead, Retry, Retry),
        ] {
            let of = |name| {
                let policy = RetryPolicy::by_name(name).unwrap();
                policy.treatment(Failure::Status(status))
            };
            assert_eq!(of("standard"), Retry, "{status}");
            assert_eq!(of("bounded"), bounded, "{status}");
            assert_eq!(of("contract-72h"), contract, "{status}");
            assert_eq!(of("payments-24h"), payments, "{status}");
        }
        for name in NAMES {
            let policy = RetryPolicy::by_name(name).unwrap();
            assert_eq!(policy.treatment(Failure::Timeout), Retry);
            assert_eq!(policy.treatment(Failure::Tls), Retry);
        }
    }

    #[test]
    fn any_attempt_number_gives_a_delay_within_bounds() {
        let policy = RetryPolicy::standard();
        for attempt in [0, 1] {
            assert_eq!(policy.backoff_seconds(attempt, 1.0), 60, "{attempt}");
        }
        for attempt in [31, 32, 64, 1000, u32::MAX] {
            assert_eq!(policy.backoff_seconds(attempt, 1.0), 21_600, "{attempt}");
        }
        for jitter in [f64::NAN, -1.0, 2.0, f64::INFINITY] {
            assert!(
                (1..=60).contains(&policy.backoff_seconds(1, jitter)),
                "{jitter}"
            );
        }
    }

    #[test]
    fn the_queues_visibility_timeout_lowers_the_ceiling() {
        let policy = RetryPolicy::standard().for_visibility_timeout(180);
        assert_eq!(policy.longest_delay_seconds, 42_960);
        assert_eq!(
            RetryPolicy::standard()
                .for_visibility_timeout(u32::MAX)
                .longest_delay_seconds,
            1
        );
    }

    #[test]
    fn a_schedule_longer_than_sqs_can_keep_is_known_to_be() {
        let contract = RetryPolicy::contract_72h().for_visibility_timeout(180);
        assert!(!contract.is_clamped(5));
        assert!(contract.is_clamped(6));
        assert!(
            !RetryPolicy::standard()
                .for_visibility_timeout(180)
                .is_clamped(99)
        );
        let scaled = contract.with_time_scale(0.5);
        assert!(!scaled.is_clamped(6));
        assert_eq!(scaled.planned_seconds(6).to_bits(), 21_600_f64.to_bits());
    }

    #[test]
    fn a_policy_is_made_of_all_that_a_stack_says() {
        let policy = RetryPolicy::contract_72h;
        let published = Configuration {
            policy: policy(),
            time_scale: 1.0,
            visibility_timeout_seconds: VISIBILITY_TIMEOUT_SECONDS,
            attempt_timeout_seconds: None,
            overrides: Overrides::default(),
            receives: None,
        };
        assert_eq!(
            RetryPolicy::configured(published.clone()),
            Ok(policy().for_visibility_timeout(180))
        );
        let overrides = Overrides {
            attempts: Some(12),
            ..Overrides::default()
        };
        let configuration = Configuration {
            time_scale: 0.5,
            visibility_timeout_seconds: 30,
            attempt_timeout_seconds: Some(3),
            overrides,
            receives: Some(42),
            ..published.clone()
        };
        assert_eq!(
            RetryPolicy::configured(configuration),
            Ok(RetryPolicy {
                time_scale: 0.5,
                longest_delay_seconds: 43_110,
                timeout: Duration::from_secs(3),
                attempts: 12,
                ..policy()
            })
        );
        let not_longer = Configuration {
            attempt_timeout_seconds: Some(10),
            ..published.clone()
        };
        assert_eq!(
            RetryPolicy::configured(not_longer).unwrap().timeout,
            Duration::from_secs(8)
        );
        let too_many = Configuration {
            overrides,
            ..published
        };
        assert_eq!(
            RetryPolicy::configured(too_many),
            Err(OverrideError::TooManyAttempts {
                attempts: 12,
                receives: 41,
            })
        );
    }

    #[test]
    fn a_time_scale_stretches_the_schedule_and_keeps_a_second_as_the_least() {
        let policy = RetryPolicy::standard().with_time_scale(0.01);
        let delays: Vec<u32> = (1..=7).map(|n| policy.backoff_seconds(n, 1.0)).collect();
        assert_eq!(delays, [1, 2, 6, 17, 49, 146, 216]);
        assert_eq!(policy.longest_run_seconds(), 84 * 3600);
        let contract = RetryPolicy::contract_72h().with_time_scale(0.01);
        assert_eq!(contract.longest_run_seconds(), 2592);
    }

    #[test]
    fn faults_of_ours_come_back_soon_and_their_spare_receives_last_for_days() {
        let policy = RetryPolicy::standard();
        let delays: Vec<u32> = (0..9).map(|k| policy.fault_delay_seconds(k, 1.0)).collect();
        assert_eq!(delays, [5, 15, 45, 135, 405, 1215, 3645, 10_800, 10_800]);
        assert_eq!(policy.fault_delay_seconds(0, 0.0), 3);
        assert_eq!(policy.fault_delay_seconds(u32::MAX, 1.0), 10_800);
        assert_eq!(policy.longest_faults_seconds(), 253_865);
    }

    #[test]
    fn an_operator_can_change_what_sqs_allows_for() {
        let policy = || RetryPolicy::standard().for_visibility_timeout(180);
        let changed = policy()
            .with_overrides(
                Overrides {
                    base_seconds: Some(10),
                    factor: Some(2),
                    cap_seconds: Some(100),
                    attempts: Some(5),
                },
                None,
            )
            .unwrap();
        let delays: Vec<u32> = (1..=5).map(|n| changed.backoff_seconds(n, 1.0)).collect();
        assert_eq!(delays, [10, 20, 40, 80, 100]);
        assert_eq!(changed.attempts, 5);
        assert_eq!(
            policy().with_overrides(Overrides::default(), None),
            Ok(policy())
        );
        let more = Overrides {
            attempts: Some(20),
            ..Overrides::default()
        };
        assert_eq!(
            policy().with_overrides(more, Some(50)).unwrap().attempts,
            20
        );
    }

    #[test]
    fn an_override_that_sqs_does_not_allow_for_says_why() {
        let none = Overrides::default();
        for (policy, overrides, receives, message) in [
            (
                "contract-72h",
                Overrides {
                    cap_seconds: Some(100),
                    ..none
                },
                None,
                "the policy contract-72h has a fixed table of delays: base, factor and cap can not be changed",
            ),
            (
                "standard",
                Overrides {
                    base_seconds: Some(30_000),
                    ..none
                },
                None,
                "the base of 30000 s is longer than the cap of 21600 s",
            ),
            (
                "bounded",
                Overrides {
                    cap_seconds: Some(43_200),
                    ..none
                },
                None,
                "a cap of 43200 s is longer than the 42960 s that this queue can hide a message",
            ),
            (
                "standard",
                Overrides {
                    attempts: Some(9),
                    ..none
                },
                None,
                "9 attempts and 30 spare receives are more than the queue's maxReceiveCount of 38",
            ),
            (
                "standard",
                Overrides {
                    attempts: Some(u32::MAX),
                    ..none
                },
                Some(u32::MAX),
                "4294967295 attempts and 30 spare receives are more than the queue's maxReceiveCount of 1000",
            ),
            (
                "payments-24h",
                none,
                Some(100),
                "100 attempts and 30 spare receives are more than the queue's maxReceiveCount of 100",
            ),
        ] {
            let policy = RetryPolicy::by_name(policy)
                .unwrap()
                .for_visibility_timeout(180);
            let error = policy.with_overrides(overrides, receives).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn every_published_name_has_its_policy() {
        for name in NAMES {
            assert_eq!(RetryPolicy::by_name(name).unwrap().name, name);
        }
        assert_eq!(RetryPolicy::by_name("Standard"), None);
    }
}
