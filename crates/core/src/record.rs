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
