//! The delivery record: what is remembered of a delivery, so that attempts are counted where they
//! are made, a delivered webhook is never sent again, and every question has an answer.

use std::time::{Duration, SystemTime};

use crate::decide::{DeadReason, Step};
use crate::outcome::Outcome;
use crate::policy::{RetryPolicy, Treatment};
use crate::turn::Run;

/// How long a record is kept after its last change (DynamoDB, "time to live").
pub const KEPT_FOR: Duration = Duration::from_hours(30 * 24);

/// How a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Another attempt is planned.
    Retrying,
    /// The receiver has it.
    Delivered,
    /// Given up; it waits in the dead-letter queue, and can be redriven.
    Dead,
    /// The receiver wants no more of these: it answered 410.
    Gone,
    /// Not sent, as the subscription was switched off or did not exist.
    Dropped,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Retrying,
        Self::Delivered,
        Self::Dead,
        Self::Gone,
        Self::Dropped,
    ];

    /// The word in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Retrying => "retrying",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
            Self::Gone => "gone",
            Self::Dropped => "dropped",
        }
    }

    /// Reads the word in the table.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// What an attempt needs to know of the record. A run is everything between the first receive of
/// an SQS message and its end; a redrive makes a new message and so a new run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// How the delivery stands.
    pub state: State,
    /// The SQS message of the run.
    pub message_id: Option<String>,
    /// Attempts that were made in the run.
    pub attempts: u32,
    /// Attempts of the run whose status the policy tries only so often.
    pub refusals: u32,
    /// When the run began.
    pub started_at: SystemTime,
    /// When the delivery was first tried.
    pub created_at: SystemTime,
    /// When the record was last changed.
    pub updated_at: SystemTime,
    /// While it is retried: no attempt before this.
    pub next_at: Option<SystemTime>,
}

/// One entry of the record's history: an attempt, a fault of ours, or why there was none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The number of the attempt, from 1 in each run; for a fault, of the one it prevented.
    pub n: u32,
    /// When it ended.
    pub at: SystemTime,
    /// The word for what came of it: `delivered`, `gone`, `retry`, `dead`, `blocked`, `fault` or
    /// `dropped`.
    pub outcome: String,
    /// The status of the answer.
    pub status: Option<u16>,
    /// How long the POST took to its status line, in milliseconds.
    pub ms: Option<u64>,
    /// What went wrong, for a person. Holds no secret, no url and no payload.
    pub error: Option<String>,
    /// When the next attempt is planned.
    pub next_at: Option<SystemTime>,
}

/// The word for what an attempt came to, in log and record.
#[must_use]
pub fn word(outcome: &Outcome, step: Step) -> &'static str {
    match step {
        Step::Dead(_) => "dead",
        Step::Ack | Step::Disable | Step::Retry { .. } => outcome.name(),
    }
}

/// Why a step ends a run as dead, if it does.
#[must_use]
pub fn dead_reason(step: Step) -> Option<DeadReason> {
    match step {
        Step::Dead(reason) => Some(reason),
        Step::Ack | Step::Disable | Step::Retry { .. } => None,
    }
}

/// When the next attempt is planned that a step asks for at `now`.
#[must_use]
pub fn next_at(step: Step, now: SystemTime) -> Option<SystemTime> {
    match step {
        Step::Retry { delay_seconds } => {
            now.checked_add(Duration::from_secs(u64::from(delay_seconds)))
        }
        Step::Ack | Step::Disable | Step::Dead(_) => None,
    }
}

impl Record {
    /// The record after an attempt, or after a fault of ours, that ended at `now`.
    #[must_use]
    pub fn after(
        before: Option<&Self>,
        message_id: Option<&str>,
        run: &Run,
        outcome: &Outcome,
        step: Step,
        policy: &RetryPolicy,
        now: SystemTime,
    ) -> Self {
        let refused = match outcome {
            Outcome::Retry { failure, .. } => {
                matches!(policy.treatment(*failure), Treatment::AtMost(_))
            }
            Outcome::Delivered { .. } | Outcome::Gone | Outcome::Blocked(_) | Outcome::Fault(_) => {
                false
            }
        };
        let attempts = match outcome {
            Outcome::Fault(_) => run.attempt.saturating_sub(1),
            Outcome::Delivered { .. }
            | Outcome::Gone
            | Outcome::Retry { .. }
            | Outcome::Blocked(_) => run.attempt,
        };
        Self {
            state: match step {
                Step::Ack => State::Delivered,
                Step::Disable => State::Gone,
                Step::Retry { .. } => State::Retrying,
                Step::Dead(_) => State::Dead,
            },
            message_id: message_id.map(str::to_owned),
            attempts,
            refusals: run.refusals.saturating_add(u32::from(refused)),
            started_at: run.started_at,
            created_at: before.map_or(now, |before| before.created_at),
            updated_at: now,
            next_at: next_at(step, now),
        }
    }

    /// The record of a delivery that was not sent at `now`, as its subscription is off or gone.
    #[must_use]
    pub fn dropped(
        before: Option<&Self>,
        message_id: Option<&str>,
        run: &Run,
        now: SystemTime,
    ) -> Self {
        Self {
            state: State::Dropped,
            message_id: message_id.map(str::to_owned),
            attempts: run.attempt.saturating_sub(1),
            refusals: run.refusals,
            started_at: run.started_at,
            created_at: before.map_or(now, |before| before.created_at),
            updated_at: now,
            next_at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointError;
    use crate::outcome::{Failure, Fault};

    /// 2026-11-30T12:00:00Z
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_040_000)
    }

    fn ago(seconds: u64) -> SystemTime {
        now() - Duration::from_secs(seconds)
    }

    /// The fourth attempt of a run that began an hour ago.
    fn run() -> Run {
        Run {
            attempt: 4,
            refusals: 1,
            started_at: ago(3600),
            idle_receives: 2,
            is_known: true,
            is_last_receive: false,
            gives_up_at: None,
        }
    }

    /// The record of an earlier run, which began yesterday.
    fn before() -> Record {
        Record {
            state: State::Dead,
            message_id: Some("m1".into()),
            attempts: 8,
            refusals: 3,
            started_at: ago(86_400),
            created_at: ago(86_400),
            updated_at: ago(7200),
            next_at: Some(ago(7200)),
        }
    }

    fn after(before: Option<&Record>, outcome: &Outcome, step: Step) -> Record {
        let contract = RetryPolicy::contract_72h();
        Record::after(before, Some("m2"), &run(), outcome, step, &contract, now())
    }

    fn failed(failure: Failure) -> Outcome {
        Outcome::without_answer(failure)
    }

    const LATER: Step = Step::Retry { delay_seconds: 300 };
    const DEAD: Step = Step::Dead(DeadReason::Attempts);

    fn outcomes() -> [Outcome; 5] {
        [
            Outcome::Delivered { status: 204 },
            Outcome::Gone,
            failed(Failure::Status(401)),
            Outcome::Blocked(EndpointError::UserInfo),
            Outcome::Fault(Fault::Secret),
        ]
    }

    #[test]
    fn states_have_words_by_which_they_are_read() {
        let words = State::ALL.map(State::name);
        assert_eq!(words, ["retrying", "delivered", "dead", "gone", "dropped"]);
        for state in State::ALL {
            assert_eq!(State::by_name(state.name()), Some(state));
        }
        for word in ["", "Dead", "dead ", "failed"] {
            assert_eq!(State::by_name(word), None, "{word:?}");
        }
    }

    #[test]
    fn the_step_decides_how_a_delivery_stands() {
        for (step, state) in [
            (Step::Ack, State::Delivered),
            (Step::Disable, State::Gone),
            (LATER, State::Retrying),
            (DEAD, State::Dead),
        ] {
            for outcome in outcomes() {
                assert_eq!(after(None, &outcome, step).state, state, "{outcome:?}");
            }
        }
    }

    #[test]
    fn an_attempt_is_counted_and_a_fault_of_ours_is_none() {
        for outcome in outcomes() {
            let attempts = after(Some(&before()), &outcome, LATER).attempts;
            let is_fault = matches!(outcome, Outcome::Fault(_));
            assert_eq!(attempts, if is_fault { 3 } else { 4 }, "{outcome:?}");
        }
    }

    #[test]
    fn a_refusal_is_a_status_that_the_policy_tries_only_so_often() {
        let refusals = |outcome: &Outcome| after(Some(&before()), outcome, LATER).refusals;
        for (status, expected) in [(400, 2), (401, 2), (403, 2), (404, 2), (402, 1), (503, 1)] {
            let outcome = failed(Failure::Status(status));
            assert_eq!(refusals(&outcome), expected, "{status}");
        }
        assert_eq!(refusals(&failed(Failure::Timeout)), 1);
        for outcome in outcomes() {
            let is_refused = outcome == failed(Failure::Status(401));
            assert_eq!(refusals(&outcome), 1 + u32::from(is_refused), "{outcome:?}");
        }
        // What is dead at once, or always tried again, needs no count.
        for policy in [RetryPolicy::bounded(), RetryPolicy::standard()] {
            let outcome = failed(Failure::Status(401));
            let record = Record::after(None, None, &run(), &outcome, DEAD, &policy, now());
            assert_eq!(record.refusals, 1, "{}", policy.name);
        }
    }

    #[test]
    fn a_delivery_keeps_the_time_of_its_first_try_across_runs() {
        for outcome in outcomes() {
            let first = after(None, &outcome, LATER);
            assert_eq!(first.created_at, now());
            let later = after(Some(&before()), &outcome, LATER);
            assert_eq!(later.created_at, before().created_at);
            // All else is of this run.
            for record in [first, later] {
                assert_eq!(record.started_at, run().started_at);
                assert_eq!(record.updated_at, now());
                assert_eq!(record.message_id.as_deref(), Some("m2"));
            }
        }
    }

    #[test]
    fn an_attempt_is_planned_only_for_what_is_tried_again() {
        let planned = now() + Duration::from_secs(300);
        for (step, expected) in [
            (Step::Ack, None),
            (Step::Disable, None),
            (DEAD, None),
            (LATER, Some(planned)),
        ] {
            assert_eq!(next_at(step, now()), expected, "{step:?}");
            for outcome in outcomes() {
                let record = after(Some(&before()), &outcome, step);
                assert_eq!(record.next_at, expected, "{step:?} {outcome:?}");
            }
        }
    }

    #[test]
    fn what_is_dropped_is_no_attempt() {
        for before in [None, Some(before())] {
            let dropped = Record::dropped(before.as_ref(), Some("m2"), &run(), now());
            assert_eq!(
                dropped,
                Record {
                    state: State::Dropped,
                    message_id: Some("m2".into()),
                    attempts: 3,
                    refusals: 1,
                    started_at: ago(3600),
                    created_at: before.map_or(now(), |before| before.created_at),
                    updated_at: now(),
                    next_at: None,
                }
            );
        }
    }

    #[test]
    fn the_word_is_that_of_the_outcome_unless_the_run_has_ended_dead() {
        let words = ["delivered", "gone", "retry", "blocked", "fault"];
        for (outcome, expected) in outcomes().iter().zip(words) {
            for step in [Step::Ack, Step::Disable, LATER] {
                assert_eq!(word(outcome, step), expected);
                assert_eq!(dead_reason(step), None);
            }
            assert_eq!(word(outcome, DEAD), "dead");
        }
        assert_eq!(dead_reason(DEAD), Some(DeadReason::Attempts));
    }
}
