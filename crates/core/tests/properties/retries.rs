//! What a receiver asks for, what is decided, and how runs end.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use webhooks_core::endpoint::EndpointError;
use webhooks_core::outcome::{Failure, Fault};
use webhooks_core::policy::{HEADROOM, NAMES, RetryPolicy};
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

/// A delivery as the queue and the functions handle it: received, given its turn, tried and
/// written down, by one or two copies of its message.
struct Simulation {
    policy: RetryPolicy,
    now: SystemTime,
    record: Option<Record>,
    posts: u32,
    receives: [u32; 2],
}

impl Simulation {
    /// One receive of a copy of the message; gives whether it stays in the queue.
    fn receive(&mut self, copy: usize, outcome: &Outcome, jitter: f64) -> bool {
        self.receives[copy] += 1;
        let message_id = ["m1", "m2"][copy];
        let received = Received {
            message_id: Some(message_id),
            receive_count: self.receives[copy],
            sent_at: Some(at(1_796_040_000)),
            first_received_at: Some(at(1_796_040_000)),
            most_receives: u32::MAX,
        };
        let memory = Memory::Known(self.record.clone());
        let run = match turn(&memory, &received, &self.policy, self.now) {
            Turn::Attempt(run) => run,
            Turn::AlreadyDelivered => return false,
            Turn::FastForward | Turn::NotYet(_) | Turn::TooLate(_) => return true,
            Turn::Uncertain(_) | Turn::Stuck(_) => unreachable!("the record is known"),
        };
        if !matches!(outcome, Outcome::Fault(_)) {
            self.posts += 1;
        }
        let step = decide(outcome, &run, &self.policy, self.now, jitter);
        self.record = Some(Record::after(
            self.record.as_ref(),
            Some(message_id),
            &run,
            outcome,
            step,
            &self.policy,
            self.now,
        ));
        !matches!(step, Step::Ack | Step::Disable)
    }

    /// Waits for the planned attempt, or a little while if there is none.
    fn wait(&mut self) {
        let planned = self.record.as_ref().and_then(|record| record.next_at);
        self.now = planned.unwrap_or(self.now).max(self.now) + Duration::from_millis(10);
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
        let attempts = policy.attempts;
        let began = at(1_796_040_000);
        let horizon = Duration::from_secs(policy.longest_run_seconds());
        let mut it = Simulation { policy, now: began, record: None, posts: 0, receives: [0, 0] };
        // In each round there is an attempt, or there are only faults.
        let rounds = outcomes.len() * attempts as usize + HEADROOM as usize + 1;
        for outcome in outcomes.iter().cycle().take(rounds) {
            for copy in 0..copies {
                prop_assert!(it.receive(copy, outcome, jitter));
            }
            let record = it.record.clone().unwrap();
            prop_assert_eq!(record.attempts, it.posts);
            prop_assert!(record.attempts <= attempts);
            if record.state == State::Dead {
                break;
            }
            prop_assert_eq!(record.state, State::Retrying);
            if !matches!(outcome, Outcome::Fault(_)) {
                prop_assert!(record.next_at.unwrap() <= began + horizon);
            }
            it.wait();
        }
        prop_assert_eq!(it.record.clone().unwrap().state, State::Dead);
        // Afterwards nothing is sent, however often and by whichever copy it is received.
        let posts = it.posts;
        for copy in [0, 1, 0, 1] {
            prop_assert!(it.receive(copy, &DELIVERED, jitter));
        }
        prop_assert_eq!(it.posts, posts);
    }

    #[test]
    fn a_delivered_delivery_is_never_sent_again(
        policy in policy(),
        before in vec(unsuccessful(), 0..5),
        after in vec((0..2_usize, outcome(), 0..100_000_u64), 1..20),
        jitter in 0.0..1.0_f64,
    ) {
        let now = at(1_796_040_000);
        let mut it = Simulation { policy, now, record: None, posts: 0, receives: [0, 0] };
        for outcome in &before {
            it.receive(0, outcome, jitter);
            it.wait();
        }
        if it.record.as_ref().is_some_and(|record| record.state == State::Dead) {
            return Ok(());
        }
        prop_assert!(!it.receive(0, &DELIVERED, jitter));
        let posts = it.posts;
        for (copy, outcome, seconds) in &after {
            it.now += Duration::from_secs(*seconds);
            prop_assert!(!it.receive(*copy, outcome, jitter));
        }
        prop_assert_eq!(it.posts, posts);
        prop_assert_eq!(it.record.unwrap().state, State::Delivered);
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
