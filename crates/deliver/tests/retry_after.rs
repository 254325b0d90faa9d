//! How long a delivery stays away: the larger of the schedule's delay and what the receiver asked
//! for, and never more than SQS takes. What is read here is the number that is sent to SQS.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use e2e::fake_aws::Reply;
use e2e::http1::obsolete_dates;
use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::Record;
use e2e::stage::Stage;

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

/// The delay after the first attempt: one minute, half of it random.
const FIRST_DELAY: RangeInclusive<i64> = 30..=60;

/// 12 h, less the queue's visibility timeout and a minute.
const LONGEST: i64 = 43_200 - 180 - 60;

/// The delays that follow these answers.
async fn delays(stage: &Stage, trials: Vec<(u32, Answer)>) -> Vec<Option<i64>> {
    let deliver = stage.start(DELIVER).await;
    let verdicts = stage.try_answers(&deliver, trials).await;
    assert!(verdicts.iter().all(|verdict| verdict.reported));
    verdicts.iter().map(|verdict| verdict.delay).collect()
}

async fn delays_after_503(values: &[String]) -> Vec<i64> {
    let stage = Stage::for_deliver().await;
    let trials = values
        .iter()
        .map(|value| (1, Answer::retry_after(503, value)))
        .collect();
    let delays = delays(&stage, trials).await;
    delays.into_iter().map(Option::unwrap).collect()
}

fn seconds_from_now(seconds: u64) -> SystemTime {
    SystemTime::now() + Duration::from_secs(seconds)
}

fn obsolete_forms(time: SystemTime) -> [String; 2] {
    obsolete_dates(&httpdate::fmt_http_date(time))
}

#[tokio::test]
async fn seconds_are_waited_exactly() {
    let values = ["120", "00120", "61", "3600", "42960"];
    let stage = Stage::for_deliver().await;
    let mut trials: Vec<_> = values
        .iter()
        .map(|value| (1, Answer::retry_after(503, value)))
        .collect();
    let padded = "HTTP/1.1 503 No\r\nRetry-After: \t 120 \t \r\nContent-Length: 0\r\n\r\n";
    trials.push((1, Answer::raw(padded)));
    let lower_case = "HTTP/1.1 503 No\r\nretry-after:120\r\nContent-Length: 0\r\n\r\n";
    trials.push((1, Answer::raw(lower_case)));

    let delays = delays(&stage, trials).await;

    assert_eq!(delays, [120, 120, 61, 3600, 42_960, 120, 120].map(Some));
}

#[tokio::test]
async fn a_value_that_is_not_digits_or_a_date_leaves_the_own_delay() {
    let values = [
        "-1",
        "-0",
        "-99999999999",
        "1.5",
        "0.493",
        "1.",
        ".5",
        "+120",
        "0x10",
        "120junk",
        "120s",
        "1e3",
        "10 20",
        "120, 240",
        "Infinity",
        "NaN",
        "null",
        "",
        "    ",
        "\"120\"",
        "１２０",
        "soon",
        // Dates that are nearly right.
        "Wed, 21 Oct 2099 07:28:00 UTC",
        "Wed, 21 Oct 2099 07:28:00 +0000",
        "wed, 21 oct 2099 07:28:00 gmt",
        "Wed, 1 Oct 2099 07:28:00 GMT",
        "Mon, 21 Oct 2099 07:28:00 GMT",
        "Thu, 31 Feb 2099 07:28:00 GMT",
        "Wed, 21 Oct 2099 23:59:60 GMT",
        "2099-10-21T07:28:00Z",
        "4096250880.5",
    ]
    .map(String::from);

    let delays = delays_after_503(&values).await;

    for (value, delay) in values.iter().zip(delays) {
        assert!(FIRST_DELAY.contains(&delay), "{value:?}: {delay}");
    }
}

#[tokio::test]
async fn all_three_forms_of_a_date_are_waited_for() {
    let time = seconds_from_now(600);
    let [rfc850, asctime] = obsolete_forms(time);
    let values = [httpdate::fmt_http_date(time), rfc850, asctime];

    let delays = delays_after_503(&values).await;

    for (value, delay) in values.iter().zip(&delays) {
        assert!((580..=600).contains(delay), "{value}: {delay}");
    }
}

#[tokio::test]
async fn a_day_of_one_digit_in_the_oldest_form_is_a_date_too() {
    let [_, asctime] = obsolete_dates("Wed, 07 Oct 2099 07:28:00 GMT");
    assert_eq!(asctime, "Wed Oct  7 07:28:00 2099");

    let delays = delays_after_503(&[asctime]).await;

    assert_eq!(delays, [LONGEST]);
}

#[tokio::test]
async fn a_time_that_has_passed_leaves_the_own_delay() {
    let second_ago = SystemTime::now() - Duration::from_secs(1);
    let mut values = vec![
        "Thu, 01 Jan 1970 00:00:00 GMT".to_owned(),
        "Wednesday, 21-Oct-70 07:28:00 GMT".to_owned(),
        "Mon, 30 Nov 1998 12:02:00 GMT".to_owned(),
        httpdate::fmt_http_date(second_ago),
    ];
    values.extend(obsolete_forms(second_ago));

    let delays = delays_after_503(&values).await;

    for (value, delay) in values.iter().zip(delays) {
        assert!(FIRST_DELAY.contains(&delay), "{value}: {delay}");
    }
}

#[tokio::test]
async fn a_wait_longer_than_sqs_can_hide_a_message_is_shortened_to_what_it_takes() {
    let values = [
        "42961",
        "43200",
        "86400",
        "9999999999",
        "9223372037",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999999999",
        "Wed, 21 Oct 2099 07:28:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ]
    .map(String::from);

    let delays = delays_after_503(&values).await;

    for (value, delay) in values.iter().zip(delays) {
        assert_eq!(delay, LONGEST, "{value}");
    }
}

#[tokio::test]
async fn the_longest_delay_leaves_room_for_the_queues_own_visibility_timeout() {
    for (visibility_timeout, longest) in [("30", 43_110), ("0", 43_140), ("43200", 1)] {
        let stage = Stage::for_deliver()
            .await
            .with("VISIBILITY_TIMEOUT_SECONDS", visibility_timeout);

        let delays = delays(&stage, vec![(1, Answer::retry_after(503, "86400"))]).await;

        assert_eq!(delays, [Some(longest)], "{visibility_timeout}");
    }
}

#[tokio::test]
async fn every_failure_waits_as_long_as_the_receiver_asks() {
    let statuses = [500, 502, 504, 429, 503, 408, 404, 401, 302, 304, 600];
    let stage = Stage::for_deliver().await;
    let trials = statuses.map(|status| (1, Answer::retry_after(status, "300")));

    let delays = delays(&stage, trials.to_vec()).await;

    for (status, delay) in statuses.iter().zip(delays) {
        assert_eq!(delay, Some(300), "{status}");
    }
}

#[tokio::test]
async fn of_two_wishes_the_later_one_counts() {
    let stage = Stage::for_deliver().await;
    let answer = |first: &str, second: &str| {
        Answer::with(503, &[("Retry-After", first), ("Retry-After", second)], b"")
    };
    let trials = vec![
        (1, answer("100", "300")),
        (1, answer("300", "100")),
        (1, answer("soon", "100")),
    ];

    assert_eq!(delays(&stage, trials).await, [300, 300, 100].map(Some));
}

#[tokio::test]
async fn jitter_never_takes_a_delay_below_what_the_receiver_asked_for() {
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    // In the middle of the own delay, so that jitter decides which of the two is larger.
    let trials = vec![(1, Answer::retry_after(503, "45")); 200];

    let verdicts = stage.try_answers(&deliver, trials).await;

    let delays: Vec<i64> = verdicts
        .iter()
        .map(|verdict| verdict.delay.unwrap())
        .collect();
    assert!(
        delays.iter().all(|delay| (45..=60).contains(delay)),
        "{delays:?}"
    );
    assert!(delays.contains(&45));
    assert!(delays.iter().any(|delay| *delay > 45));
}

#[tokio::test]
async fn delays_are_spread_over_half_of_the_schedules_value() {
    let stage = Stage::for_deliver().await;

    let delays = delays(&stage, vec![(1, Answer::status(500)); 200]).await;

    let delays: Vec<i64> = delays.into_iter().map(Option::unwrap).collect();
    assert!(
        delays.iter().all(|delay| FIRST_DELAY.contains(delay)),
        "{delays:?}"
    );
    // 200 draws of 31 values: fewer than ten different ones would take a broken random source.
    let mut distinct = delays.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() >= 10, "{delays:?}");
}

#[tokio::test]
async fn a_receiver_that_asks_for_less_than_the_schedule_does_not_hurry_it() {
    let stage = Stage::for_deliver().await;
    let trials = ["0", "1", "7289"].map(|value| (6, Answer::retry_after(503, value)));

    let delays = delays(&stage, trials.to_vec()).await;

    for delay in delays {
        assert!((7290..=14_580).contains(&delay.unwrap()), "{delay:?}");
    }
}

#[tokio::test]
async fn the_delay_grows_with_each_attempt_and_the_last_one_has_none() {
    let schedule: [(u32, RangeInclusive<i64>); 14] = [
        (1, 30..=60),
        (2, 90..=180),
        (3, 270..=540),
        (4, 810..=1620),
        (5, 2430..=4860),
        (6, 7290..=14_580),
        (7, 10_800..=21_600),
        // Visible at once, so that SQS moves it to the dead-letter queue.
        (8, 0..=0),
        // As after a deployment of a policy with fewer attempts.
        (9, 0..=0),
        (31, 0..=0),
        (32, 0..=0),
        (64, 0..=0),
        (1000, 0..=0),
        (u32::MAX, 0..=0),
    ];
    for answer in [Answer::status(500), Answer::nothing().then_close()] {
        let stage = Stage::for_deliver().await;
        let trials = schedule.iter().map(|(n, _)| (*n, answer.clone()));

        let delays = delays(&stage, trials.collect()).await;

        for ((attempt, range), delay) in schedule.iter().zip(delays) {
            let delay = delay.unwrap_or_else(|| panic!("no visibility at attempt {attempt}"));
            assert!(range.contains(&delay), "attempt {attempt}: {delay}");
        }
    }
}

/// As long as the record does not say that it is over, each further receive is another attempt.
#[tokio::test]
async fn a_last_attempt_that_cannot_be_written_down_makes_no_loop_without_a_pause() {
    let stage = Stage::for_deliver().await;
    let refused = Reply::error(400, "AccessDeniedException");
    stage.aws.always("UpdateItem", refused);
    let trials = [8, 9, 32, 1000, u32::MAX].map(|n| (n, Answer::status(500)));

    let delays = delays(&stage, trials.to_vec()).await;

    assert_eq!(delays, [Some(21_600); 5]);
}

#[tokio::test]
async fn the_schedule_begins_with_the_first_attempt_however_often_the_message_was_received() {
    let receiver = Receiver::always(Answer::status(500)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let deliver = stage.start(DELIVER).await;
    let counts = [0, 1, 2, 8, 9, 31, 32, 37];
    // After which SQS hands it out no more.
    let last = [38, 64, 1000, u32::MAX];
    let records: Vec<Record> = counts
        .iter()
        .chain(&last)
        .enumerate()
        .map(|(n, count)| Record::of_event(n, "kasse-nord").received(count))
        .collect();

    let batch = stage.deliver(&deliver, &records).await;

    for n in 0..counts.len() {
        batch.assert_delay(n, FIRST_DELAY);
    }
    for n in counts.len()..records.len() {
        assert_eq!(batch.delay(n), Some(0));
    }
    assert_eq!(receiver.requests().len(), records.len());
}

#[tokio::test]
async fn a_time_scale_shortens_the_schedule_and_not_the_receivers_wish() {
    let stage = Stage::for_deliver().await.with("RETRY_TIME_SCALE", "0.01");
    let trials = vec![
        (1, Answer::status(500)),
        (3, Answer::status(500)),
        (7, Answer::status(500)),
        (1, Answer::retry_after(503, "120")),
    ];

    let delays: Vec<i64> = delays(&stage, trials)
        .await
        .into_iter()
        .map(Option::unwrap)
        .collect();

    assert_eq!(delays[0], 1);
    assert!((3..=6).contains(&delays[1]), "{delays:?}");
    assert!((108..=216).contains(&delays[2]), "{delays:?}");
    assert_eq!(delays[3], 120);
}
