//! What happens to a delivery after an attempt.

use std::time::SystemTime;

use crate::outcome::{Fault, Outcome};
use crate::policy::RetryPolicy;

/// How soon a delivery comes back whose invocation had no time left when it began, in seconds:
/// the next invocation has all of its time, so there is nothing to wait for.
const NO_TIME_LEFT_DELAY_SECONDS: u32 = 1;

/// What is done with the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Done: the message is deleted.
    Ack,
    /// The subscription is switched off, then the message is deleted.
    Disable,
    /// The message stays in the queue and is seen again after this many seconds.
    Retry {
        /// From now, in seconds; within what SQS takes.
        delay_seconds: u32,
    },
    /// That was the last attempt: the message stays in the queue and is made visible without any
    /// delay, so that the redrive policy moves it to the dead-letter queue at its next receive.
    Exhausted,
}

/// Decides the step after attempt number `attempt` (from 1) under a policy.
///
/// `jitter` is a random number from 0 up to 1. A delay is the larger of the policy's own backoff
/// and the receiver's `Retry-After`, so jitter never takes it below what the receiver asked for;
/// only what the queue can keep bounds it.
#[must_use]
pub fn decide(
    outcome: &Outcome,
    attempt: u32,
    policy: &RetryPolicy,
    now: SystemTime,
    jitter: f64,
) -> Step {
    let (retry_after, own_delay) = match outcome {
        Outcome::Delivered { .. } => return Step::Ack,
        Outcome::Gone => return Step::Disable,
        Outcome::Retry { retry_after, .. } => (*retry_after, None),
        Outcome::Fault(Fault::NoTimeLeft) => (None, Some(NO_TIME_LEFT_DELAY_SECONDS)),
        // While the receive count stands for the attempts, each of our own faults spends one.
        // Growing delays make the budget outlast an outage of hours.
        Outcome::Blocked(_)
        | Outcome::Fault(
            Fault::Subscription
            | Fault::Row
            | Fault::Secret
            | Fault::CutShort
            | Fault::Disable
            | Fault::Internal,
        ) => (None, None),
    };
    // A queue that still hands a message out after the last attempt was set up with more receives
    // than the policy has attempts, or SQS kept counting across a redrive. It goes on at the pace
    // of the schedule's end; "no delay" each time would be a loop without a pause.
    if attempt == policy.attempts {
        return Step::Exhausted;
    }
    let own_delay = own_delay.unwrap_or_else(|| policy.backoff_seconds(attempt, jitter));
    let asked = retry_after.map_or(0, |retry_after| retry_after.seconds_from(now));
    let delay_seconds = u32::try_from(asked)
        .unwrap_or(u32::MAX)
        .max(own_delay)
        .min(policy.longest_delay_seconds);
    Step::Retry { delay_seconds }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::endpoint::EndpointError;
    use crate::outcome::Failure;
    use crate::retry_after::RetryAfter;

    /// 2026-11-30T12:00:00Z
    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_796_040_000)
    }

    fn policy() -> RetryPolicy {
        RetryPolicy::standard().for_visibility_timeout(180)
    }

    fn failed(status: u16, retry_after: &str) -> Outcome {
        Outcome::of_response(status, RetryAfter::parse(retry_after.as_bytes()))
    }

    fn delay(outcome: &Outcome, attempt: u32, jitter: f64) -> u32 {
        match decide(outcome, attempt, &policy(), now(), jitter) {
            Step::Retry { delay_seconds } => delay_seconds,
            step @ (Step::Ack | Step::Disable | Step::Exhausted) => panic!("{step:?}"),
        }
    }

    #[test]
    fn success_and_410_end_a_delivery_whatever_else_the_answer_says() {
        for attempt in [1, 8, 9, u32::MAX] {
            assert_eq!(
                decide(&failed(200, "300"), attempt, &policy(), now(), 0.5),
                Step::Ack
            );
            assert_eq!(
                decide(&failed(410, "300"), attempt, &policy(), now(), 0.5),
                Step::Disable
            );
        }
    }

    #[test]
    fn every_failure_waits_at_least_as_long_as_the_receiver_asked() {
        for status in [302, 404, 408, 429, 500, 502, 503, 504] {
            for jitter in [0.0, 0.3, 0.999] {
                assert_eq!(delay(&failed(status, "300"), 1, jitter), 300, "{status}");
            }
        }
        assert_eq!(
            delay(&failed(503, "Mon, 30 Nov 2026 12:02:00 GMT"), 1, 0.5),
            120
        );
    }

    #[test]
    fn a_receiver_that_asks_for_less_gets_the_own_schedule() {
        for retry_after in [
            "0",
            "1",
            "-1",
            "1.5",
            "",
            "soon",
            "Thu, 01 Jan 1970 00:00:00 GMT",
        ] {
            assert_eq!(
                delay(&failed(503, retry_after), 6, 1.0),
                14_580,
                "{retry_after:?}"
            );
            assert_eq!(
                delay(&failed(503, retry_after), 1, 0.0),
                30,
                "{retry_after:?}"
            );
        }
    }

    #[test]
    fn a_wait_longer_than_sqs_can_keep_is_shortened() {
        for retry_after in [
            "43200",
            "86400",
            "9999999999",
            "18446744073709551615",
            "Wed, 21 Oct 2099 07:28:00 GMT",
        ] {
            assert_eq!(
                delay(&failed(503, retry_after), 1, 0.5),
                42_960,
                "{retry_after}"
            );
        }
    }

    #[test]
    fn the_last_attempt_leaves_the_message_to_the_redrive_policy() {
        assert_eq!(delay(&failed(500, ""), 7, 1.0), 21_600);
        for outcome in [
            failed(503, "300"),
            Outcome::without_answer(Failure::Timeout),
            Outcome::Blocked(EndpointError::UserInfo),
            Outcome::Fault(Fault::Secret),
            Outcome::Fault(Fault::NoTimeLeft),
        ] {
            assert_eq!(
                decide(&outcome, 8, &policy(), now(), 0.5),
                Step::Exhausted,
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn receives_beyond_the_last_attempt_keep_the_longest_pace() {
        for attempt in [9, 1000, u32::MAX] {
            assert_eq!(delay(&failed(500, ""), attempt, 1.0), 21_600, "{attempt}");
            assert_eq!(
                delay(&failed(503, "30000"), attempt, 1.0),
                30_000,
                "{attempt}"
            );
        }
    }

    #[test]
    fn our_own_faults_come_back_without_any_wish_of_the_receiver() {
        assert_eq!(delay(&Outcome::Fault(Fault::Secret), 1, 0.0), 30);
        assert_eq!(delay(&Outcome::Fault(Fault::Secret), 5, 1.0), 4860);
        assert_eq!(delay(&Outcome::Fault(Fault::NoTimeLeft), 5, 1.0), 1);
    }
}
