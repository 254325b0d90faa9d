//! Retry policies: schedule, jitter and limits as a value with a name.

use std::time::Duration;

/// SQS hides a message for at most 12 h, counted from its receive, in seconds.
const SQS_LONGEST_VISIBILITY: u32 = 43_200;

/// What is left free below [`SQS_LONGEST_VISIBILITY`] beyond the queue's own visibility timeout,
/// in seconds: the time between the receive and the call that hides the message.
const MARGIN: u32 = 60;

/// The names of the published policies.
pub const NAMES: [&str; 1] = ["standard"];

/// A retry policy. Delays are counted from the end of the attempt that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// Its published name.
    pub name: &'static str,
    /// The delay after the first attempt, before jitter.
    pub base: Duration,
    /// By how much each further delay grows.
    pub factor: u32,
    /// The longest delay of the schedule, before jitter.
    pub cap: Duration,
    /// How many attempts there are in all.
    pub attempts: u32,
    /// How long one attempt may take, from connecting to the status line.
    pub timeout: Duration,
    /// The longest delay the queue can keep, in seconds, see
    /// [`RetryPolicy::for_visibility_timeout`]. It bounds `Retry-After` too.
    pub longest_delay_seconds: u32,
}

impl RetryPolicy {
    /// The policy of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "standard" => Some(Self::standard()),
            _ => None,
        }
    }

    /// `standard`: 1, 3, 9, 27, 81, 243 minutes, then 6 hours; 8 attempts of at most 10 s.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            name: "standard",
            base: Duration::from_secs(60),
            factor: 3,
            cap: Duration::from_hours(6),
            attempts: 8,
            timeout: Duration::from_secs(10),
            longest_delay_seconds: SQS_LONGEST_VISIBILITY - MARGIN,
        }
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

    /// The same policy with its schedule multiplied by `scale`; demos and tests use less than 1.
    /// What a receiver asks for by `Retry-After` is real time and is not scaled.
    #[must_use]
    pub fn with_time_scale(self, scale: f64) -> Self {
        Self {
            base: self.base.mul_f64(scale),
            cap: self.cap.mul_f64(scale),
            ..self
        }
    }

    /// The policy's own delay after attempt number `attempt` (from 1), in whole seconds, at least
    /// one. `jitter` is a number from 0 up to 1.
    ///
    /// Equal jitter: half of the delay is fixed, half is random
    /// (AWS Architecture Blog, "Exponential Backoff And Jitter").
    #[must_use]
    pub fn backoff_seconds(&self, attempt: u32, jitter: f64) -> u32 {
        let steps = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let delay = self.base.as_secs_f64() * f64::from(self.factor).powi(steps);
        let delay = delay.min(self.cap.as_secs_f64());
        let jittered = delay * (0.5 + 0.5 * jitter.clamp(0.0, 1.0));
        // `max` before `min`: unlike `clamp` it turns a NaN into the bound.
        let bounded = jittered
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_schedule_is_the_published_one() {
        let policy = RetryPolicy::standard();
        let longest: Vec<u32> = (1..=8).map(|n| policy.backoff_seconds(n, 1.0)).collect();
        assert_eq!(longest, [60, 180, 540, 1620, 4860, 14_580, 21_600, 21_600]);
        let shortest: Vec<u32> = (1..=8).map(|n| policy.backoff_seconds(n, 0.0)).collect();
        assert_eq!(shortest, [30, 90, 270, 810, 2430, 7290, 10_800, 10_800]);
        assert_eq!(policy.attempts, 8);
        assert_eq!(policy.timeout, Duration::from_secs(10));
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
    fn a_time_scale_stretches_the_schedule_and_keeps_a_second_as_the_least() {
        let policy = RetryPolicy::standard().with_time_scale(0.01);
        let delays: Vec<u32> = (1..=7).map(|n| policy.backoff_seconds(n, 1.0)).collect();
        assert_eq!(delays, [1, 2, 6, 17, 49, 146, 216]);
    }

    #[test]
    fn every_published_name_has_its_policy() {
        for name in NAMES {
            assert_eq!(RetryPolicy::by_name(name).unwrap().name, name);
        }
        assert_eq!(RetryPolicy::by_name("Standard"), None);
    }
}
