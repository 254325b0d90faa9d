//! What a receiver asks for, what is decided, and how runs end.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use webhooks_core::endpoint::EndpointError;
use webhooks_core::outcome::{Failure, Fault};
use webhooks_core::policy::{JOB_RETENTION, NAMES, RetryPolicy};
use webhooks_core::record::{Record, State};
use webhooks_core::retry_after::RetryAfter;
use webhooks_core::turn::{Memory, Received, Run};
use webhooks_core::{Outcome, Step, Turn, decide, turn};

use crate::{LAST_SECOND, cases};

const DELIVERED: Outcome = Outcome::Delivered { status: 204 };

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn retry_after() -> impl Strategy<Value = RetryAfter> {
    prop_oneof![
        any::<u64>().prop_map(RetryAfter::Seconds),
        (0..100_000_u64).prop_map(RetryAfter::Seconds),
        (0..=LAST_SECOND).prop_map(|seconds| RetryAfter::At(at(seconds))),
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    prop_oneof![
        any::<u16>().prop_map(Failure::Status),
        (400..600_u16).prop_map(Failure::Status),
        select(vec![
            Failure::Timeout,
            Failure::Dns,
            Failure::Connect,
            Failure::Tls,
            Failure::Connection,
            Failure::Protocol,
        ]),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    select(vec![
        Fault::Subscription,
        Fault::Row,
        Fault::Record,
        Fault::TooLate,
        Fault::Secret,
        Fault::NoTimeLeft,
        Fault::CutShort,
        Fault::Disable,
    ])
}

/// Whatever can come of an attempt except a success.
fn unsuccessful() -> impl Strategy<Value = Outcome> {
    let retry =
        (failure(), option::of(retry_after())).prop_map(|(failure, retry_after)| Outcome::Retry {
            failure,
            retry_after,
        });
    prop_oneof![
        6 => retry,
        1 => Just(Outcome::Blocked(EndpointError::UserInfo)),
        2 => fault().prop_map(Outcome::Fault),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        1 => any::<u16>().prop_map(|status| Outcome::Delivered { status }),
        1 => Just(Outcome::Gone),
        9 => unsuccessful(),
    ]
}

/// Whatever can happen, a success not too often.
fn anything() -> impl Strategy<Value = Outcome> {
    prop_oneof![3 => unsuccessful(), 1 => outcome()]
}

/// As the environment may set it up.
fn policy() -> impl Strategy<Value = RetryPolicy> {
    let scale = prop_oneof![
        Just(1.0),
        0.0..1.0,
        select(vec![f64::from_bits(1), f64::MIN_POSITIVE, 1e-9]),
    ];
    let visibility_timeout = prop_oneof![0..=43_200_u32, any::<u32>()];
    (select(&NAMES[..]), scale, visibility_timeout).prop_map(|(name, scale, visibility_timeout)| {
        RetryPolicy::by_name(name)
            .unwrap()
            .with_time_scale(scale)
            .for_visibility_timeout(visibility_timeout)
    })
}

fn jitter() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..1.0, prop::num::f64::ANY]
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn a_delay_is_one_that_the_queue_can_keep_and_no_less_than_the_receiver_asked_for(
        outcome in outcome(),
        attempt in prop_oneof![0..20_u32, any::<u32>()],
        refusals in prop_oneof![0..5_u32, any::<u32>()],
        idle_receives in prop_oneof![0..40_u32, any::<u32>()],
        policy in policy(),
        now in 0..=LAST_SECOND,
        started in 0..=LAST_SECOND,
        gives_up in option::of(0..=LAST_SECOND),
        is_known in any::<bool>(),
        is_last_receive in any::<bool>(),
        jitter in jitter(),
    ) {
        let now = at(now);
        let gives_up_at = gives_up.map(at);
        let run =
            Run { attempt, refusals, started_at: at(started), idle_receives, is_known, is_last_receive, gives_up_at };
        let ceiling = policy.longest_delay_seconds;
        prop_assert!((1..43_200).contains(&ceiling));

        let step = decide(&outcome, &run, &policy, now, jitter);

        match (&outcome, step) {
            (Outcome::Delivered { .. }, step) => prop_assert_eq!(step, Step::Ack),
            (Outcome::Gone, step) => prop_assert_eq!(step, Step::Disable),
            (Outcome::Fault(_), Step::Retry { delay_seconds }) => {
                prop_assert!((1..=ceiling.min(10_800)).contains(&delay_seconds));
            }
            (_, Step::Dead(_)) => {}
            (_, Step::Retry { delay_seconds }) => {
                prop_assert!(attempt < policy.attempts);
                prop_assert!((1..=ceiling).contains(&delay_seconds));
                let asked = match &outcome {
                    Outcome::Retry { retry_after: Some(asked), .. } => asked.seconds_from(now),
                    _ => 0,
                };
                let delay = u64::from(delay_seconds);
                let asked = asked.min(policy.longest_retry_after_seconds().into());
                prop_assert!(delay >= asked, "asked for {}", asked);
                // And no longer than anybody wants.
                let own = policy.backoff_seconds(attempt, 1.0);
                prop_assert!(delay <= asked.max(own.into()));
                let age = now.duration_since(run.started_at).unwrap_or_default().as_secs();
                prop_assert!(age + delay <= policy.longest_run_seconds());
            }
            (_, step @ (Step::Ack | Step::Disable)) => prop_assert!(false, "{:?}", step),
        }
    }
}

/// What can be done with the deliveries table during a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Works,
    /// It can be written to.
    Unread,
    /// It can neither be read nor be written to.
    Away,
}

fn table() -> impl Strategy<Value = Table> {
    select(vec![Table::Works, Table::Unread, Table::Away])
}

/// What becomes of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Deleted,
    /// It is seen again, and its run goes on.
    Back,
    /// It is on its way to the dead-letter queue.
    Dead,
}

/// When the message was sent, and is received for the first time.
fn began() -> SystemTime {
    at(1_796_040_000)
}

/// A delivery as the queue and the functions handle it: received, given its turn, tried and
/// written down, by one or two copies of its message.
struct Simulation {
    policy: RetryPolicy,
    now: SystemTime,
    record: Option<Record>,
    /// How often it was tried, faults of ours included.
    tries: u32,
    /// How many of them were attempts.
    posts: u32,
    /// How many of those could not be written down.
    lost: u32,
    receives: [u32; 2],
    /// When each copy is seen again.
    visible_at: [SystemTime; 2],
}

impl Simulation {
    fn new(policy: RetryPolicy) -> Self {
        Self {
            policy,
            now: began(),
            record: None,
            tries: 0,
            posts: 0,
            lost: 0,
            receives: [0; 2],
            visible_at: [began(); 2],
        }
    }

    fn state(&self) -> Option<State> {
        self.record.as_ref().map(|record| record.state)
    }

    /// One receive of a copy of the message.
    fn receive(&mut self, copy: usize, table: Table, outcome: &Outcome, jitter: f64) -> Fate {
        self.receives[copy] += 1;
        let message_id = ["m1", "m2"][copy];
        let received = Received {
            message_id: Some(message_id),
            receive_count: self.receives[copy],
            sent_at: Some(began()),
            first_received_at: Some(began()),
            most_receives: self.policy.receives(),
        };
        let memory = match table {
            Table::Works => Memory::Known(self.record.clone()),
            Table::Unread | Table::Away => Memory::Unreliable,
        };
        self.visible_at[copy] = self.now;
        let turn = turn(&memory, &received, &self.policy, self.now);
        let (run, outcome) = match turn {
            Turn::Attempt(run) => (run, outcome.clone()),
            Turn::TooLate(run) => (run, Outcome::Fault(Fault::TooLate)),
            Turn::Uncertain(run) => (run, Outcome::Fault(Fault::Record)),
            Turn::AlreadyDelivered => return Fate::Deleted,
            Turn::FastForward | Turn::Stuck(_) => return Fate::Dead,
            Turn::NotYet(due_at) => {
                self.visible_at[copy] = due_at;
                return Fate::Back;
            }
        };
        let is_post = !matches!(outcome, Outcome::Fault(_));
        let step = decide(&outcome, &run, &self.policy, self.now, jitter);
        let is_written = self.write(table, message_id, &run, &outcome, step);
        self.tries += u32::from(matches!(turn, Turn::Attempt(_)));
        self.posts += u32::from(is_post);
        self.lost += u32::from(is_post && !is_written);
        // At the last receive nothing else is left, whether it is known or not.
        let is_passed_on = matches!(turn, Turn::TooLate(_))
            || run.is_last_receive
            || (is_written && table == Table::Works);
        let seconds = match step {
            Step::Ack | Step::Disable => return Fate::Deleted,
            Step::Dead(_) if is_passed_on => return Fate::Dead,
            Step::Dead(_) => self.policy.pause_seconds(outcome.retry_after(), self.now),
            Step::Retry { delay_seconds } => delay_seconds,
        };
        self.visible_at[copy] = self.now + Duration::from_secs(seconds.into());
        Fate::Back
    }

    /// Writes down what came of a turn, as far as the functions do; gives whether they did.
    fn write(
        &mut self,
        table: Table,
        message_id: &str,
        run: &Run,
        outcome: &Outcome,
        step: Step,
    ) -> bool {
        let is_noted = match outcome {
            Outcome::Fault(Fault::Subscription | Fault::Record | Fault::NoTimeLeft) => false,
            Outcome::Fault(_) => table == Table::Works,
            _ => true,
        };
        // What was delivered stays delivered.
        if !is_noted || table == Table::Away || self.state() == Some(State::Delivered) {
            return false;
        }
        let before = self.record.take();
        let after = Record::after(
            before.as_ref().filter(|_| table == Table::Works),
            Some(message_id),
            run,
            outcome,
            step,
            &self.policy,
            self.now,
        );
        self.record = Some(match before {
            // One more of its run, however many there are by now.
            Some(before) if table == Table::Unread && before.message_id == after.message_id => {
                Record {
                    attempts: before.attempts + 1,
                    refusals: before.refusals + after.refusals,
                    started_at: before.started_at,
                    created_at: before.created_at,
                    ..after
                }
            }
            Some(before) => Record {
                created_at: before.created_at,
                ..after
            },
            None => after,
        });
        true
    }

    /// Waits until the first copy is seen again.
    fn wait(&mut self) {
        self.now = self.now.max(self.visible_at[0]) + Duration::from_millis(10);
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn every_run_ends_within_its_attempts_its_receives_and_its_horizon(
        policy in policy(),
        outcomes in vec(unsuccessful(), 1..8),
        copies in 1..=2_usize,
        jitter in 0.0..1.0_f64,
    ) {
        let (attempts, receives) = (policy.attempts, policy.receives());
        let horizon = Duration::from_secs(policy.longest_run_seconds());
        let mut it = Simulation::new(policy);
        let mut fate = Fate::Back;
        for outcome in outcomes.iter().cycle().take(receives as usize) {
            fate = it.receive(0, Table::Works, outcome, jitter);
            prop_assert_ne!(fate, Fate::Deleted);
            if copies == 2 {
                prop_assert_ne!(it.receive(1, Table::Works, outcome, jitter), Fate::Deleted);
            }
            if let Some(record) = &it.record {
                prop_assert_eq!(record.attempts, it.posts);
                prop_assert!(record.attempts <= attempts);
                prop_assert!([State::Retrying, State::Dead].contains(&record.state));
                if record.state == State::Retrying && !matches!(outcome, Outcome::Fault(_)) {
                    prop_assert!(record.next_at.unwrap() <= began() + horizon);
                }
            } else {
                prop_assert_eq!(it.posts, 0);
            }
            if fate == Fate::Dead {
                break;
            }
            it.wait();
        }
        prop_assert_eq!(fate, Fate::Dead);
        if it.state() != Some(State::Dead) {
            // Nothing is written down of some faults, not even at the last receive.
            prop_assert_eq!(it.receives[0], receives);
            return Ok(());
        }
        // Afterwards nothing is sent, however often and by whichever copy it is received.
        let tries = it.tries;
        for copy in [0, 1, 0, 1] {
            prop_assert_eq!(it.receive(copy, Table::Works, &DELIVERED, jitter), Fate::Dead);
        }
        prop_assert_eq!(it.tries, tries);
    }

    #[test]
    fn a_message_is_delivered_or_dead_within_its_receives_whatever_happens(
        policy in policy(),
        events in vec((table(), anything(), 0..200_u64), 1..10),
        jitter in 0.0..1.0_f64,
    ) {
        let receives = policy.receives();
        let mut it = Simulation::new(policy);
        let mut fate = Fate::Back;
        let mut last = None;
        for (table, outcome, late) in events.iter().cycle().take(receives as usize) {
            if fate == Fate::Back {
                // Nor does the queue lose it before.
                it.now += Duration::from_secs(*late);
                prop_assert!(it.now < began() + JOB_RETENTION);
            }
            fate = it.receive(0, *table, outcome, jitter);
            last = Some((*table, outcome));
            if fate == Fate::Deleted {
                break;
            }
            it.wait();
        }
        prop_assert!([Fate::Deleted, Fate::Dead].contains(&fate));
        // And the record says so, if that was an attempt and there is a table.
        if let Some((Table::Works, outcome)) = last
            && !matches!(outcome, Outcome::Fault(_))
        {
            let ends = [State::Delivered, State::Gone, State::Dead];
            prop_assert!(it.state().is_some_and(|state| ends.contains(&state)));
        }
    }

    #[test]
    fn an_attempt_is_made_once_more_only_if_it_could_not_be_written_down(
        policy in policy(),
        events in vec((table(), unsuccessful()), 1..20),
        jitter in 0.0..1.0_f64,
    ) {
        let (attempts, receives) = (policy.attempts, policy.receives());
        let mut it = Simulation::new(policy);
        for (table, outcome) in events.iter().cycle().take(receives as usize) {
            it.receive(0, *table, outcome, jitter);
            it.wait();
            prop_assert!(it.posts <= attempts + it.lost);
            // While nothing is known, the receive count is an attempt's number.
            prop_assert!(it.lost <= attempts.min(it.receives[0]));
        }
        prop_assert!(it.posts <= receives.min(2 * attempts));
    }

    #[test]
    fn nothing_is_sent_that_is_known_to_be_delivered_or_dead(
        policy in policy(),
        events in vec((0..2_usize, table(), anything(), 0..100_000_u64), 1..60),
        jitter in 0.0..1.0_f64,
    ) {
        let mut it = Simulation::new(policy);
        for (copy, table, outcome, seconds) in &events {
            let tries = it.tries;
            let before = it.state();

            let fate = it.receive(*copy, *table, outcome, jitter);

            let end = match before {
                Some(State::Delivered) => Some(Fate::Deleted),
                Some(State::Dead) => Some(Fate::Dead),
                Some(State::Retrying | State::Gone | State::Dropped) | None => None,
            };
            if let (Table::Works, Some(end)) = (table, end) {
                prop_assert_eq!(fate, end);
                prop_assert_eq!(it.tries, tries);
            }
            if before == Some(State::Delivered) {
                prop_assert_eq!(it.state(), before);
            }
            it.now += Duration::from_secs(*seconds);
        }
    }

    #[test]
    fn a_delivered_delivery_is_never_sent_again(
        policy in policy(),
        before in vec(unsuccessful(), 0..5),
        after in vec((0..2_usize, outcome(), 0..100_000_u64), 1..20),
        jitter in 0.0..1.0_f64,
    ) {
        let mut it = Simulation::new(policy);
        for outcome in &before {
            it.receive(0, Table::Works, outcome, jitter);
            it.wait();
        }
        if it.state() == Some(State::Dead) {
            return Ok(());
        }
        prop_assert_eq!(it.receive(0, Table::Works, &DELIVERED, jitter), Fate::Deleted);
        let tries = it.tries;
        for (copy, outcome, seconds) in &after {
            it.now += Duration::from_secs(*seconds);
            prop_assert_eq!(it.receive(*copy, Table::Works, outcome, jitter), Fate::Deleted);
        }
        prop_assert_eq!(it.tries, tries);
        prop_assert_eq!(it.state(), Some(State::Delivered));
    }

    #[test]
    fn without_a_reliable_record_a_message_is_tried_as_often_as_the_policy_has_attempts_at_most(
        policy in policy(),
        receives in 1..1000_u32,
        now in 0..=LAST_SECOND,
    ) {
        let posts = (1..=receives).filter(|receive_count| {
            let received = Received {
                message_id: None,
                receive_count: *receive_count,
                sent_at: None,
                first_received_at: None,
                most_receives: 38,
            };
            let turn = turn(&Memory::Unreliable, &received, &policy, at(now));
            matches!(turn, Turn::Attempt(_))
        });
        prop_assert_eq!(posts.count(), receives.min(policy.attempts) as usize);
    }
}

#[test]
fn after_an_outage_of_the_table_all_attempts_can_be_made_once_more() {
    // The other policies' horizon is over by then, or the receives are.
    for (name, posts) in [
        ("standard", 16),
        ("bounded", 16),
        ("contract-72h", 12),
        ("payments-24h", 130),
    ] {
        let policy = RetryPolicy::by_name(name).unwrap();
        let (attempts, receives) = (policy.attempts, policy.receives());
        let failed = Outcome::without_answer(Failure::Connect);
        let mut it = Simulation::new(policy);
        for receive in 1..=receives {
            let table = if receive <= attempts {
                Table::Away
            } else {
                Table::Works
            };
            it.receive(0, table, &failed, 0.0);
            it.wait();
        }
        assert_eq!(it.posts, posts, "{name}");
        assert_eq!(it.state(), Some(State::Dead), "{name}");
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn no_bytes_make_the_reader_panic_and_what_it_reads_it_reads_again(
        value in prop_oneof![
            vec(any::<u8>(), 0..60),
            "[ \t]{0,2}[0-9]{0,40}[ \t]{0,2}".prop_map(String::into_bytes),
            "[SMTWF][a-z]{2,8},? [ 0-9]{1,2}[ -][A-Z][a-z]{2}[ -][0-9]{2,4} [0-9:]{8} (GMT|[0-9]{4})"
                .prop_map(String::into_bytes),
        ],
    ) {
        let Some(read) = RetryAfter::parse(&value) else {
            return Ok(());
        };
        let again = match read {
            RetryAfter::Seconds(seconds) => seconds.to_string(),
            RetryAfter::At(time) => httpdate::fmt_http_date(time),
        };
        prop_assert_eq!(RetryAfter::parse(again.as_bytes()), Some(read));
    }

    #[test]
    fn a_number_of_seconds_is_read_as_it_is_or_as_the_largest(
        seconds in prop_oneof![any::<u64>().prop_map(u128::from), any::<u128>()],
        zeros in 0..3_usize,
        space in "[ \t]{0,2}",
    ) {
        let value = format!("{space}{}{seconds}{space}", "0".repeat(zeros));

        let read = RetryAfter::parse(value.as_bytes());

        let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
        prop_assert_eq!(read, Some(RetryAfter::Seconds(seconds)));
    }

    #[test]
    fn a_date_is_read_to_the_second_in_its_newest_and_in_its_oldest_form(
        seconds in 0..=LAST_SECOND,
        now in 0..=LAST_SECOND,
    ) {
        let date = httpdate::fmt_http_date(at(seconds));
        let words: Vec<&str> = date.split([' ', ',']).collect();
        let [weekday, "", day, month, year, clock, "GMT"] = words[..] else {
            panic!("{date}");
        };
        let day = day.trim_start_matches('0');
        let asctime = format!("{weekday} {month} {day:>2} {clock} {year}");

        for value in [date.clone(), asctime] {
            let read = RetryAfter::parse(value.as_bytes());

            prop_assert_eq!(read, Some(RetryAfter::At(at(seconds))), "{}", value);
            prop_assert_eq!(read.unwrap().seconds_from(at(now)), seconds.saturating_sub(now));
        }
    }
}
