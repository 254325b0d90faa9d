//! Retry policies: schedule, jitter, limits and what each status gets, as a value with a name.
//!
//! Four are published, and a partner can be handed any of them as a contract: `webhooks schedule`
//! prints them from here. What the template must know of a policy stands in its `Mappings`, and a
//! test reads the template and compares.

use std::time::{Duration, SystemTime};

use crate::outcome::Failure;
use crate::retry_after::RetryAfter;

mod configuration;
mod published;

pub use configuration::{Configuration, OverrideError, Overrides};
pub use published::NAMES;

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

impl RetryPolicy {
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
mod tests;
