//! What a receiver asks for, and what is decided.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use webhooks_core::endpoint::EndpointError;
use webhooks_core::outcome::{Failure, Fault};
use webhooks_core::policy::RetryPolicy;
use webhooks_core::retry_after::RetryAfter;
use webhooks_core::{Outcome, Step, decide};

use crate::{LAST_SECOND, cases};

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

fn outcome() -> impl Strategy<Value = Outcome> {
    let failure = prop_oneof![
        any::<u16>().prop_map(Failure::Status),
        select(vec![
            Failure::Timeout,
            Failure::Dns,
            Failure::Connect,
            Failure::Tls,
            Failure::Connection,
            Failure::Protocol,
        ]),
    ];
    let retry =
        (failure, option::of(retry_after())).prop_map(|(failure, retry_after)| Outcome::Retry {
            failure,
            retry_after,
        });
    let fault = select(vec![
        Fault::Subscription,
        Fault::Row,
        Fault::Secret,
        Fault::NoTimeLeft,
        Fault::CutShort,
        Fault::Disable,
        Fault::Internal,
    ]);
    prop_oneof![
        1 => any::<u16>().prop_map(|status| Outcome::Delivered { status }),
        1 => Just(Outcome::Gone),
        6 => retry,
        1 => Just(Outcome::Blocked(EndpointError::UserInfo)),
        2 => fault.prop_map(Outcome::Fault),
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
    (scale, visibility_timeout).prop_map(|(scale, visibility_timeout)| {
        RetryPolicy::standard()
            .with_time_scale(scale)
            .for_visibility_timeout(visibility_timeout)
    })
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn a_delay_is_one_that_the_queue_can_keep_and_no_less_than_the_receiver_asked_for(
        outcome in outcome(),
        attempt in prop_oneof![0..20_u32, any::<u32>()],
        policy in policy(),
        now in 0..=LAST_SECOND,
        jitter in prop_oneof![0.0..1.0, prop::num::f64::ANY],
    ) {
        let now = at(now);
        let ceiling = policy.longest_delay_seconds;
        prop_assert!((1..43_200).contains(&ceiling));

        let step = decide(&outcome, attempt, &policy, now, jitter);

        match (&outcome, step) {
            (Outcome::Delivered { .. }, step) => prop_assert_eq!(step, Step::Ack),
            (Outcome::Gone, step) => prop_assert_eq!(step, Step::Disable),
            (_, Step::Exhausted) => prop_assert_eq!(attempt, policy.attempts),
            (_, Step::Retry { delay_seconds }) => {
                prop_assert_ne!(attempt, policy.attempts);
                prop_assert!((1..=ceiling).contains(&delay_seconds));
                let asked = match &outcome {
                    Outcome::Retry { retry_after: Some(asked), .. } => asked.seconds_from(now),
                    _ => 0,
                };
                let delay = u64::from(delay_seconds);
                prop_assert!(delay >= asked.min(ceiling.into()), "asked for {}", asked);
                // And no longer than anybody wants.
                prop_assert!(delay <= asked.max(policy.cap.as_secs() + 1));
            }
            (_, step @ (Step::Ack | Step::Disable)) => prop_assert!(false, "{:?}", step),
        }
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
