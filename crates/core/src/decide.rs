//! What happens to a delivery after an attempt.

use std::time::{Duration, SystemTime};

use crate::outcome::{Fault, Outcome};
use crate::policy::{HEADROOM, RetryPolicy, Treatment};
use crate::retry_after::RetryAfter;
use crate::turn::Run;

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
    /// The run has ended: the message stays in the queue and is made visible without any delay,
    /// receive after receive, until the redrive policy moves it to the dead-letter queue.
    Dead(DeadReason),
}

/// Why a run has ended without a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadReason {
    /// All attempts have been made.
    Attempts,
    /// The next attempt would lie beyond the policy's horizon.
    Horizon,
    /// The policy does not try this status again.
    Status,
    /// It could not be tried, too often, through our own fault.
    Faults,
    /// It would soon expire in the queue.
    Age,
    /// SQS will not hand the message out once more.
    Receives,
}

impl DeadReason {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Attempts,
        Self::Horizon,
        Self::Status,
        Self::Faults,
        Self::Age,
        Self::Receives,
    ];

    /// The word in log and record.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Attempts => "attempts",
            Self::Horizon => "horizon",
            Self::Status => "status",
            Self::Faults => "faults",
            Self::Age => "age",
            Self::Receives => "receives",
        }
    }

    /// Reads the word in log and record.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// Decides the step after an attempt under a policy.
///
/// `jitter` is a random number from 0 up to 1. A delay is the larger of the policy's own backoff
/// and the receiver's `Retry-After`, so jitter never takes it below what the receiver asked for;
/// only what the queue can keep, or the policy's own bound, shortens it.
#[must_use]
pub fn decide(
    outcome: &Outcome,
    run: &Run,
    policy: &RetryPolicy,
    now: SystemTime,
    jitter: f64,
) -> Step {
    let delay_seconds = match outcome {
        Outcome::Delivered { .. } => return Step::Ack,
        Outcome::Gone => return Step::Disable,
        // Our own faults spend no attempt.
        Outcome::Fault(fault) => {
            if run.is_known && run.idle_receives >= HEADROOM {
                return Step::Dead(DeadReason::Faults);
            }
            fault_delay(*fault, run, policy, jitter)
        }
        Outcome::Retry {
            failure,
            retry_after,
        } => {
            match policy.treatment(*failure) {
                Treatment::Dead => return Step::Dead(DeadReason::Status),
                Treatment::AtMost(tries) if run.refusals.saturating_add(1) >= tries => {
                    return Step::Dead(DeadReason::Status);
                }
                Treatment::AtMost(_) | Treatment::Retry => {}
            }
            match next_attempt(*retry_after, run, policy, now, jitter) {
                Ok(delay_seconds) => delay_seconds,
                Err(reason) => return Step::Dead(reason),
            }
        }
        Outcome::Blocked(_) => match next_attempt(None, run, policy, now, jitter) {
            Ok(delay_seconds) => delay_seconds,
            Err(reason) => return Step::Dead(reason),
        },
    };
    let next_at = now + Duration::from_secs(u64::from(delay_seconds));
    if run.gives_up_at.is_some_and(|end| next_at > end) {
        return Step::Dead(DeadReason::Age);
    }
    if run.is_last_receive {
        return Step::Dead(DeadReason::Receives);
    }
    Step::Retry { delay_seconds }
}

/// In how many seconds the next attempt is made, or why there is none.
fn next_attempt(
    retry_after: Option<RetryAfter>,
    run: &Run,
    policy: &RetryPolicy,
    now: SystemTime,
    jitter: f64,
) -> Result<u32, DeadReason> {
    if run.attempt >= policy.attempts {
        return Err(DeadReason::Attempts);
    }
    let delay_seconds = policy
        .asked_seconds(retry_after, now)
        .max(policy.backoff_seconds(run.attempt, jitter));
    let age = now.duration_since(run.started_at).unwrap_or_default();
    let horizon = Duration::from_secs(policy.longest_run_seconds());
    if age + Duration::from_secs(u64::from(delay_seconds)) > horizon {
        return Err(DeadReason::Horizon);
    }
    Ok(delay_seconds)
}

fn fault_delay(fault: Fault, run: &Run, policy: &RetryPolicy, jitter: f64) -> u32 {
    match fault {
        Fault::NoTimeLeft => NO_TIME_LEFT_DELAY_SECONDS,
        Fault::Subscription
        | Fault::Row
        | Fault::Record
        | Fault::TooLate
        | Fault::Secret
        | Fault::CutShort
        | Fault::Disable => policy.fault_delay_seconds(run.idle_receives, jitter),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

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

    fn attempt(attempt: u32) -> Run {
        Run {
            attempt,
            refusals: 0,
            started_at: now(),
            idle_receives: 0,
            is_known: true,
            is_last_receive: false,
            gives_up_at: None,
        }
    }

    fn failed(status: u16, retry_after: &str) -> Outcome {
        Outcome::of_response(status, RetryAfter::parse(retry_after.as_bytes()))
    }

    fn step(outcome: &Outcome, run: &Run) -> Step {
        decide(outcome, run, &policy(), now(), 0.5)
    }

    fn delay(outcome: &Outcome, number: u32, jitter: f64) -> u32 {
        match decide(outcome, &attempt(number), &policy(), now(), jitter) {
            Step::Retry { delay_seconds } => delay_seconds,
            step @ (Step::Ack | Step::Disable | Step::Dead(_)) => panic!("{step:?}"),
        }
    }

    #[test]
    fn every_reason_is_read_by_its_own_word() {
        for reason in DeadReason::ALL {
            assert_eq!(DeadReason::by_name(reason.name()), Some(reason));
        }
        assert_eq!(DeadReason::by_name("Age"), None);
    }

    #[test]
    fn success_and_410_end_a_delivery_whatever_else_the_answer_says() {
        for number in [1, 8, 9, u32::MAX] {
            for name in crate::policy::NAMES {
                let policy = RetryPolicy::by_name(name).unwrap();
                let step = |outcome| decide(&outcome, &attempt(number), &policy, now(), 0.5);
                assert_eq!(step(failed(200, "300")), Step::Ack, "{name}");
                assert_eq!(step(failed(410, "300")), Step::Disable, "{name}");
            }
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
    fn the_last_attempt_ends_the_run() {
        assert_eq!(delay(&failed(500, ""), 7, 1.0), 21_600);
        for outcome in [
            failed(503, "300"),
            Outcome::without_answer(Failure::Timeout),
            Outcome::Blocked(EndpointError::UserInfo),
        ] {
            for number in [8, 9, u32::MAX] {
                assert_eq!(
                    step(&outcome, &attempt(number)),
                    Step::Dead(DeadReason::Attempts),
                    "{outcome:?}"
                );
            }
        }
    }

    #[test]
    fn our_own_faults_spend_no_attempt_and_come_back_soon() {
        for (before, longest) in [(0, 5), (1, 15), (4, 405), (29, 10_800)] {
            let run = Run {
                attempt: 8,
                idle_receives: before,
                ..attempt(8)
            };
            let secret = Outcome::Fault(Fault::Secret);
            assert_eq!(
                decide(&secret, &run, &policy(), now(), 1.0),
                Step::Retry {
                    delay_seconds: longest
                }
            );
            let no_time = Outcome::Fault(Fault::NoTimeLeft);
            assert_eq!(step(&no_time, &run), Step::Retry { delay_seconds: 1 });
        }
    }

    #[test]
    fn what_can_not_be_tried_for_days_is_given_up_before_it_expires() {
        let fault = Outcome::Fault(Fault::Secret);
        let often = Run {
            idle_receives: 30,
            ..attempt(1)
        };
        assert_eq!(step(&fault, &often), Step::Dead(DeadReason::Faults));
        // How often it was tried is only known by the record.
        let unknown = Run {
            is_known: false,
            ..often
        };
        assert_eq!(
            step(&fault, &unknown),
            Step::Retry {
                delay_seconds: 8100
            }
        );
        // An attempt that can be made after all is one like any other.
        assert_eq!(
            step(&failed(500, ""), &often),
            Step::Retry { delay_seconds: 45 }
        );

        let last = Run {
            is_last_receive: true,
            ..attempt(1)
        };
        for outcome in [&fault, &failed(500, "")] {
            assert_eq!(step(outcome, &last), Step::Dead(DeadReason::Receives));
        }
        assert_eq!(step(&failed(200, ""), &last), Step::Ack);

        let old = |seconds| Run {
            gives_up_at: Some(now() + Duration::from_secs(seconds)),
            ..attempt(1)
        };
        let outcome = failed(503, "100");
        assert_eq!(
            step(&outcome, &old(100)),
            Step::Retry { delay_seconds: 100 }
        );
        assert_eq!(step(&outcome, &old(99)), Step::Dead(DeadReason::Age));
        assert_eq!(step(&fault, &old(0)), Step::Dead(DeadReason::Age));
    }

    #[test]
    fn a_status_that_the_policy_does_not_retry_ends_the_run_at_once() {
        let bounded = RetryPolicy::bounded().for_visibility_timeout(180);
        let step = |status, retry_after| {
            let outcome = failed(status, retry_after);
            decide(&outcome, &attempt(1), &bounded, now(), 0.5)
        };
        assert_eq!(step(400, ""), Step::Dead(DeadReason::Status));
        assert_eq!(step(404, "10"), Step::Dead(DeadReason::Status));
        assert_eq!(step(429, "100"), Step::Retry { delay_seconds: 100 });
        assert_eq!(
            step(503, "86400"),
            Step::Retry {
                delay_seconds: 21_600
            }
        );
    }

    #[test]
    fn a_rejection_is_tried_as_often_as_the_policy_says() {
        let contract = RetryPolicy::contract_72h().for_visibility_timeout(180);
        let step = |status, number, refusals| {
            let run = Run {
                refusals,
                ..attempt(number)
            };
            decide(&failed(status, ""), &run, &contract, now(), 0.5)
        };
        assert_eq!(step(401, 1, 0), Step::Retry { delay_seconds: 30 });
        assert_eq!(step(401, 2, 1), Step::Retry { delay_seconds: 300 });
        assert_eq!(step(401, 3, 2), Step::Dead(DeadReason::Status));
        // What has failed otherwise does not count.
        assert_eq!(
            step(401, 3, 0),
            Step::Retry {
                delay_seconds: 1800
            }
        );
        assert_eq!(
            step(500, 3, 2),
            Step::Retry {
                delay_seconds: 1800
            }
        );
    }

    #[test]
    fn no_attempt_is_planned_beyond_the_horizon() {
        let payments = RetryPolicy::payments_24h().for_visibility_timeout(180);
        let after = |hours: u64, seconds: u64, retry_after| {
            let run = Run {
                started_at: now() - Duration::from_secs(hours * 3600 + seconds),
                ..attempt(40)
            };
            decide(&failed(503, retry_after), &run, &payments, now(), 1.0)
        };
        assert_eq!(
            after(23, 0, ""),
            Step::Retry {
                delay_seconds: 3600
            }
        );
        assert_eq!(after(23, 1, ""), Step::Dead(DeadReason::Horizon));
        assert_eq!(after(18, 0, "21601"), Step::Dead(DeadReason::Horizon));
        assert_eq!(after(90, 0, ""), Step::Dead(DeadReason::Horizon));
    }
}
