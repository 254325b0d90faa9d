//! What a received message is owed: an attempt, and which one, or something that needs none.
//!
//! SQS's receive count also grows when nothing was sent, and a message can come early, twice, or
//! after its delivery has ended. So the delivery record decides; the receive count only stands in
//! where the record can not be relied on.

use std::time::{Duration, SystemTime};

use crate::policy::RetryPolicy;
use crate::record::{Record, State};

/// The longest that SQS keeps a message, and more than any of our queues does. A time that SQS
/// tells of a message and that lies further back can not be right.
const LONGEST_IN_QUEUE: Duration = Duration::from_hours(14 * 24);

/// How long after its planned attempt a run counts as under way. A message that was sent later
/// than that was not on the queue beside it: it was redriven.
pub const OVERDUE_AFTER: Duration = Duration::from_mins(15);

/// How much longer than the run's own message another copy of it waits.
const COPIES_WAIT: Duration = Duration::from_mins(1);

/// What SQS tells of a message that was received.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// Its identity.
    pub message_id: Option<&'a str>,
    /// How often it was handed out, this time included.
    pub receive_count: u32,
    /// When it was sent to the queue.
    pub sent_at: Option<SystemTime>,
    /// When it was handed out for the first time.
    pub first_received_at: Option<SystemTime>,
    /// After how many receives the queue's redrive policy moves it (`maxReceiveCount`).
    pub most_receives: u32,
}

/// What is known of the delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Memory {
    /// The table was read: this is the record, if there is one.
    Known(Option<Record>),
    /// The table was read: what is there is no record.
    Broken,
    /// The table could not be read, or what was read may be out of date.
    Unreliable,
}

/// The attempt that is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Its number, from 1.
    pub attempt: u32,
    /// How many earlier ones had a status that the policy tries only so often.
    pub refusals: u32,
    /// When the run began.
    pub started_at: SystemTime,
    /// How many receives of this message made no attempt.
    pub idle_receives: u32,
    /// Whether all this is known by the record, and not only by the receive count.
    pub is_known: bool,
    /// Whether the redrive policy moves the message instead of handing it out once more.
    pub is_last_receive: bool,
    /// When it has to be given up, so that it does not expire in the queue.
    pub gives_up_at: Option<SystemTime>,
}

/// What is to be done with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// An attempt.
    Attempt(Run),
    /// Nothing: the receiver has it. The message can be deleted.
    AlreadyDelivered,
    /// Nothing: its run has ended, and it is on its way to the dead-letter queue.
    FastForward,
    /// The same, but SQS hands it out more often than its redrive policy should.
    Stuck(Run),
    /// Nothing: it would soon expire in the queue, and is better kept in the dead-letter queue.
    TooLate(Run),
    /// Nothing yet: the next attempt is planned for this time.
    NotYet(SystemTime),
    /// Nothing: by its receive count, or its age, its run may have ended, and the record, which
    /// would know, can not be relied on.
    Uncertain(Run),
}

/// Decides what a message is owed that was received at `now`.
#[must_use]
pub fn turn(
    memory: &Memory,
    received: &Received<'_>,
    policy: &RetryPolicy,
    now: SystemTime,
) -> Turn {
    let record = match memory {
        Memory::Broken | Memory::Unreliable => {
            let run = Run::by_receive_count(received, now);
            let age = now.duration_since(run.started_at).unwrap_or_default();
            return if run.is_too_late(now) {
                Turn::TooLate(run)
            } else if run.attempt > policy.attempts || age.as_secs() > policy.longest_run_seconds()
            {
                Turn::Uncertain(run)
            } else {
                Turn::Attempt(run)
            };
        }
        Memory::Known(None) => return attempt(first(received, now), now),
        Memory::Known(Some(record)) => record,
    };
    let same_run = belongs_to_run(record, received);
    match record.state {
        State::Delivered => Turn::AlreadyDelivered,
        State::Dead if same_run => {
            let run = next(record, received, now);
            if received.receive_count > received.most_receives {
                Turn::Stuck(run)
            } else {
                Turn::FastForward
            }
        }
        State::Retrying => match due_at(record, received, policy, now) {
            Some(due_at) if due_at > now => Turn::NotYet(due_at),
            Some(_) | None if same_run => attempt(next(record, received, now), now),
            Some(_) | None => attempt(first(received, now), now),
        },
        State::Dead | State::Gone | State::Dropped => attempt(first(received, now), now),
    }
}

fn attempt(run: Run, now: SystemTime) -> Turn {
    if run.is_too_late(now) {
        Turn::TooLate(run)
    } else {
        Turn::Attempt(run)
    }
}

/// When this message may make the next attempt of a record that is retried. The run's own message
/// makes it as planned; another copy only if that one does not come, or the two would always come
/// together.
fn due_at(
    record: &Record,
    received: &Received<'_>,
    policy: &RetryPolicy,
    now: SystemTime,
) -> Option<SystemTime> {
    let next_at = record.next_at?;
    let longest = Duration::from_secs(u64::from(policy.longest_delay_seconds));
    if next_at > now + longest {
        // Nobody plans that far ahead.
        return None;
    }
    if is_own_message(record, received) {
        Some(next_at)
    } else {
        Some(next_at + COPIES_WAIT)
    }
}

fn is_own_message(record: &Record, received: &Received<'_>) -> bool {
    received.message_id.is_some() && received.message_id == record.message_id.as_deref()
}

/// Whether a message was on the queue during the record's run: as the run's own message, or as a
/// duplicate of it, which is only another copy of the same delivery. A message that was sent when
/// the run had ended is a redrive, and owed a run of its own.
fn belongs_to_run(record: &Record, received: &Received<'_>) -> bool {
    if is_own_message(record, received) {
        return true;
    }
    let end = match record.state {
        State::Retrying => record.next_at.unwrap_or(record.updated_at) + OVERDUE_AFTER,
        State::Delivered | State::Dead | State::Gone | State::Dropped => record.updated_at,
    };
    received.sent_at.is_some_and(|sent_at| {
        sent_at <= end
            && record
                .created_at
                .duration_since(sent_at)
                .unwrap_or_default()
                <= LONGEST_IN_QUEUE
    })
}

impl Run {
    /// The attempt that the receive count stands for, where nothing else is known.
    #[must_use]
    pub fn by_receive_count(received: &Received<'_>, now: SystemTime) -> Self {
        let before = received.receive_count.saturating_sub(1);
        Self {
            attempt: received.receive_count.max(1),
            refusals: 0,
            started_at: started_at(received, now),
            idle_receives: before,
            is_known: false,
            is_last_receive: received.receive_count >= received.most_receives,
            gives_up_at: received
                .sent_at
                .filter(|sent_at| is_plausible(*sent_at, now))
                .map(RetryPolicy::end_of_life),
        }
    }

    fn is_too_late(&self, now: SystemTime) -> bool {
        self.gives_up_at.is_some_and(|end| now > end)
    }
}

fn first(received: &Received<'_>, now: SystemTime) -> Run {
    Run {
        attempt: 1,
        is_known: true,
        ..Run::by_receive_count(received, now)
    }
}

fn next(record: &Record, received: &Received<'_>, now: SystemTime) -> Run {
    let run = Run::by_receive_count(received, now);
    Run {
        attempt: record.attempts.saturating_add(1),
        refusals: record.refusals,
        started_at: record.started_at.min(run.started_at),
        idle_receives: run.idle_receives.saturating_sub(record.attempts),
        is_known: true,
        ..run
    }
}

/// When the run began: the first receive of its message, if SQS tells it and it can be right.
fn started_at(received: &Received<'_>, now: SystemTime) -> SystemTime {
    received
        .first_received_at
        .filter(|first| is_plausible(*first, now))
        .unwrap_or(now)
}

/// Whether a message that SQS still has can have been sent, or received, at that time.
fn is_plausible(then: SystemTime, now: SystemTime) -> bool {
    now.duration_since(then)
        .is_ok_and(|age| age <= LONGEST_IN_QUEUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-30T12:00:00Z
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_040_000)
    }

    fn ago(seconds: u64) -> SystemTime {
        now() - Duration::from_secs(seconds)
    }

    fn received(message_id: &str) -> Received<'_> {
        Received {
            message_id: Some(message_id),
            receive_count: 1,
            sent_at: None,
            first_received_at: None,
            most_receives: 38,
        }
    }

    /// A run of message `m1` that began an hour ago and has made three attempts.
    fn record(state: State) -> Record {
        Record {
            state,
            message_id: Some("m1".into()),
            attempts: 3,
            refusals: 2,
            started_at: ago(3600),
            created_at: ago(3600),
            updated_at: ago(600),
            next_at: (state == State::Retrying).then(|| ago(1)),
        }
    }

    fn turn_of(record: Record, received: &Received<'_>) -> Turn {
        let memory = Memory::Known(Some(record));
        turn(&memory, received, &RetryPolicy::standard(), now())
    }

    const FIRST: Run = Run {
        attempt: 1,
        refusals: 0,
        started_at: SystemTime::UNIX_EPOCH,
        idle_receives: 0,
        is_known: true,
        is_last_receive: false,
        gives_up_at: None,
    };

    fn first_now() -> Turn {
        Turn::Attempt(Run {
            started_at: now(),
            ..FIRST
        })
    }

    #[test]
    fn the_first_receive_is_the_first_attempt() {
        let policy = RetryPolicy::standard();
        let none = Memory::Known(None);
        assert_eq!(turn(&none, &received("m1"), &policy, now()), first_now());
    }

    #[test]
    fn receives_without_an_attempt_spend_none() {
        let policy = RetryPolicy::standard();
        let again = Received {
            receive_count: 9,
            first_received_at: Some(ago(700)),
            ..received("m1")
        };
        assert_eq!(
            turn(&Memory::Known(None), &again, &policy, now()),
            Turn::Attempt(Run {
                started_at: ago(700),
                idle_receives: 8,
                ..FIRST
            })
        );
        assert_eq!(
            turn_of(record(State::Retrying), &again),
            Turn::Attempt(Run {
                attempt: 4,
                refusals: 2,
                started_at: ago(3600),
                idle_receives: 5,
                ..FIRST
            })
        );
    }

    #[test]
    fn a_time_that_can_not_be_right_is_not_believed() {
        let policy = RetryPolicy::standard();
        for first_received_at in [
            Some(SystemTime::UNIX_EPOCH),
            Some(now() + OVERDUE_AFTER),
            None,
        ] {
            let odd = Received {
                first_received_at,
                ..received("m1")
            };
            let turn = turn(&Memory::Known(None), &odd, &policy, now());
            assert_eq!(turn, first_now(), "{first_received_at:?}");
        }
    }

    #[test]
    fn what_was_delivered_is_never_sent_again() {
        for sent_at in [None, Some(ago(3601)), Some(ago(1))] {
            for message_id in ["m1", "m2"] {
                let received = Received {
                    sent_at,
                    ..received(message_id)
                };
                let turn = turn_of(record(State::Delivered), &received);
                assert_eq!(turn, Turn::AlreadyDelivered);
            }
        }
    }

    /// A copy of the message that was sent so many seconds ago.
    fn copy_sent(seconds: u64) -> Received<'static> {
        Received {
            sent_at: Some(ago(seconds)),
            ..received("m2")
        }
    }

    fn attempt_of(turn: Turn) -> u32 {
        match turn {
            Turn::Attempt(run) => run.attempt,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_dead_delivery_is_fast_forwarded_and_a_redriven_one_begins_anew() {
        let dead = || record(State::Dead);
        assert_eq!(turn_of(dead(), &received("m1")), Turn::FastForward);
        // A redriven message is a new one, sent after the end of the run.
        assert_eq!(turn_of(dead(), &received("m2")), first_now());
        assert_eq!(attempt_of(turn_of(dead(), &copy_sent(10))), 1);
        // A duplicate of the dead message has been on the queue all the time.
        assert_eq!(turn_of(dead(), &copy_sent(3599)), Turn::FastForward);
        let stuck = Received {
            receive_count: 39,
            ..received("m1")
        };
        assert!(matches!(turn_of(dead(), &stuck), Turn::Stuck(_)));
    }

    #[test]
    fn nothing_is_sent_before_the_planned_time() {
        let next_at = now() + Duration::from_millis(1);
        let record = Record {
            next_at: Some(next_at),
            ..record(State::Retrying)
        };
        let turn = turn_of(record.clone(), &received("m1"));
        assert_eq!(turn, Turn::NotYet(next_at));
        let due = Record {
            next_at: Some(now()),
            ..record.clone()
        };
        assert_eq!(attempt_of(turn_of(due.clone(), &received("m1"))), 4);
        // Another copy leaves the planned time to the run's own message.
        let turn = turn_of(due, &received("m2"));
        assert_eq!(turn, Turn::NotYet(now() + COPIES_WAIT));
        // A time that nobody has planned is none.
        let odd = Record {
            next_at: Some(now() + Duration::from_secs(50_000)),
            ..record
        };
        assert_eq!(attempt_of(turn_of(odd, &received("m1"))), 4);
    }

    #[test]
    fn a_duplicate_shares_the_run_and_a_message_sent_after_it_went_missing_does_not() {
        let overdue = |seconds| Record {
            next_at: Some(ago(seconds)),
            ..record(State::Retrying)
        };
        assert_eq!(attempt_of(turn_of(overdue(60), &copy_sent(3500))), 4);
        assert_eq!(attempt_of(turn_of(overdue(1000), &copy_sent(3500))), 4);
        assert_eq!(attempt_of(turn_of(overdue(1000), &copy_sent(50))), 1);
    }

    #[test]
    fn what_would_expire_in_the_queue_is_not_sent_any_more() {
        const DAY: u64 = 86_400;
        let memories = [
            Memory::Known(None),
            Memory::Unreliable,
            Memory::Known(Some(record(State::Retrying))),
        ];
        for memory in memories {
            let policy = RetryPolicy::standard();
            let old = |seconds| Received {
                sent_at: Some(ago(seconds)),
                ..received("m1")
            };
            let in_time = turn(&memory, &old(6 * DAY + DAY / 2), &policy, now());
            assert!(matches!(in_time, Turn::Attempt(_)), "{in_time:?}");
            let late = turn(&memory, &old(6 * DAY + DAY / 2 + 1), &policy, now());
            assert!(matches!(late, Turn::TooLate(_)), "{late:?}");
            // SQS keeps nothing for 15 days.
            let odd = turn(&memory, &old(15 * DAY), &policy, now());
            assert!(matches!(odd, Turn::Attempt(_)), "{odd:?}");
        }
    }

    #[test]
    fn the_last_receive_is_known_to_be_the_last() {
        for (receive_count, last) in [(37, false), (38, true), (39, true)] {
            let received = Received {
                receive_count,
                ..received("m1")
            };
            let memory = Memory::Known(None);
            match turn(&memory, &received, &RetryPolicy::standard(), now()) {
                Turn::Attempt(run) => assert_eq!(run.is_last_receive, last),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn who_went_or_was_dropped_and_is_back_begins_anew() {
        for state in [State::Gone, State::Dropped] {
            assert_eq!(turn_of(record(state), &received("m1")), first_now());
        }
    }

    #[test]
    fn without_a_reliable_record_the_receive_count_stands_in_up_to_the_last_attempt() {
        let policy = RetryPolicy::standard();
        let turn = |receive_count| {
            let received = Received {
                receive_count,
                ..received("m1")
            };
            turn(&Memory::Unreliable, &received, &policy, now())
        };
        let run = |attempt| Run {
            attempt,
            started_at: now(),
            idle_receives: attempt - 1,
            is_known: false,
            ..FIRST
        };
        assert_eq!(attempt_of(turn(0)), 1);
        assert_eq!(turn(8), Turn::Attempt(run(8)));
        assert_eq!(turn(9), Turn::Uncertain(run(9)));
        let old = Received {
            first_received_at: Some(ago(84 * 3600 + 1)),
            ..received("m1")
        };
        let old = super::turn(&Memory::Unreliable, &old, &policy, now());
        assert!(matches!(old, Turn::Uncertain(_)), "{old:?}");
    }
}
