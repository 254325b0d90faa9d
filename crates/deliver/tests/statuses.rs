//! What an answer's status does to a delivery: 2xx ends it, and everything else but 410 brings
//! it back.

use std::ops::RangeInclusive;

use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, Verdict, failures};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

/// The delay after the first attempt: one minute, half of it random.
const FIRST_DELAY: RangeInclusive<i64> = 30..=60;

fn assert_delivered(verdict: &Verdict, what: &str) {
    assert!(!verdict.reported, "{what}: {verdict:?}");
    assert_eq!(verdict.delay, None, "{what}");
    assert_eq!(verdict.requests.len(), 1, "{what}");
    assert!(verdict.enabled, "{what}");
}

fn assert_comes_back(verdict: &Verdict, what: &str) {
    assert!(verdict.reported, "{what}: {verdict:?}");
    let in_range = verdict
        .delay
        .is_some_and(|delay| FIRST_DELAY.contains(&delay));
    assert!(in_range, "{what}: {verdict:?}");
    assert_eq!(verdict.requests.len(), 1, "{what}");
    assert!(verdict.enabled, "{what}");
}

#[tokio::test]
async fn every_2xx_is_success() {
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    let statuses = [200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 250, 299];
    let trials = statuses.map(|status| (1, Answer::status(status)));

    let verdicts = stage.try_answers(&deliver, trials).await;

    for (status, verdict) in statuses.iter().zip(&verdicts) {
        assert_delivered(verdict, &status.to_string());
    }
}

#[tokio::test]
async fn the_status_line_is_enough_for_success() {
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    let cases = [
        (
            "no reason",
            Answer::raw("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"),
        ),
        (
            "an empty reason",
            Answer::raw("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n"),
        ),
        (
            "no length",
            Answer::raw("HTTP/1.1 200 OK\r\n\r\n").then_close(),
        ),
        (
            "HTTP/1.0",
            Answer::raw("HTTP/1.0 200 OK\r\n\r\n").then_close(),
        ),
        (
            "204 with a length and a body",
            Answer::raw("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"),
        ),
        (
            "a body that is not JSON",
            Answer::with(200, &[("Content-Type", "application/json")], b"OK"),
        ),
        ("Retry-After", Answer::retry_after(200, "300")),
    ];
    let trials = cases.iter().map(|(_, answer)| (1, answer.clone()));

    let verdicts = stage.try_answers(&deliver, trials).await;

    for ((what, _), verdict) in cases.iter().zip(&verdicts) {
        assert_delivered(verdict, what);
    }
}

#[tokio::test]
async fn every_other_status_brings_the_delivery_back_and_disables_nothing() {
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    let statuses = [
        300, 301, 303, 304, 305, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 411,
        412, 413, 414, 415, 418, 421, 422, 423, 425, 426, 428, 429, 431, 451, 499, 500, 501, 502,
        503, 504, 505, 507, 511, 520, 599, 600, 999,
    ];
    let trials = statuses.map(|status| (1, Answer::status(status)));

    let verdicts = stage.try_answers(&deliver, trials).await;

    for (status, verdict) in statuses.iter().zip(&verdicts) {
        assert_comes_back(verdict, &status.to_string());
    }
    assert_eq!(stage.aws.calls("UpdateItem").len(), 0);
}

#[tokio::test]
async fn what_is_no_status_brings_the_delivery_back() {
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    let lines = [
        "HTTP/1.1 000 Zero",
        "HTTP/1.1 099 Low",
        "HTTP/1.1 2000 Long",
        "HTTP/1.1 20 Short",
        "HTTP/1.1 -200 Negative",
        "HTTP/1.1 2OO Letters",
        "HTTP/1.1  200 Spaces",
        "HTTP/2 200",
        "HTTP/9.9 200 OK",
        "200 OK",
        "SSH-2.0-OpenSSH_9.6",
        "",
        "<html>200 OK</html>",
    ];
    let answer =
        |line: &str| Answer::raw(format!("{line}\r\nContent-Length: 0\r\n\r\n")).then_close();
    let trials = lines.map(|line| (1, answer(line)));

    let verdicts = stage.try_answers(&deliver, trials).await;

    for (line, verdict) in lines.iter().zip(&verdicts) {
        assert_comes_back(verdict, line);
    }
}

#[tokio::test]
async fn a_redirect_is_never_followed() {
    let elsewhere = Receiver::always(Answer::status(200)).await;
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    let there = elsewhere.url("/latest/meta-data/");
    let cases: Vec<(u16, Option<&str>)> = [301, 302, 303, 307, 308]
        .into_iter()
        .flat_map(|status| {
            [
                (status, Some(there.as_str())),
                (status, Some("/other")),
                (status, None),
            ]
        })
        .collect();
    let trials = cases.iter().map(|(status, location)| {
        let headers: Vec<(&str, &str)> = location
            .iter()
            .map(|location| ("Location", *location))
            .collect();
        (1, Answer::with(*status, &headers, b""))
    });

    let verdicts = stage.try_answers(&deliver, trials).await;

    for (case, verdict) in cases.iter().zip(&verdicts) {
        assert_comes_back(verdict, &format!("{case:?}"));
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn interim_answers_are_not_the_final_one() {
    // Scaled so that the own delay is one second, and the receiver's wish shows.
    let stage = Stage::for_deliver().await.with("RETRY_TIME_SCALE", "0.01");
    let deliver = stage.start(DELIVER).await;
    let early_hints = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";
    let processing = "HTTP/1.1 102 Processing\r\n\r\n";
    let trials = [
        Answer::status(200).preceded_by(early_hints),
        Answer::retry_after(503, "7").preceded_by("HTTP/1.1 100 Continue\r\n\r\n"),
        Answer::status(200).preceded_by(processing.repeat(50)),
        Answer::status(500).preceded_by("HTTP/1.1 103 Early Hints\r\nRetry-After: 99\r\n\r\n"),
    ];

    let verdicts = stage
        .try_answers(&deliver, trials.map(|answer| (1, answer)))
        .await;

    assert_delivered(&verdicts[0], "103, 200");
    assert!(verdicts[1].reported);
    assert_eq!(verdicts[1].delay, Some(7));
    assert_delivered(&verdicts[2], "50 × 102, 200");
    assert_eq!(
        verdicts[3].delay,
        Some(1),
        "the final answer asked for nothing"
    );
}

#[tokio::test]
async fn a_switch_of_protocols_is_a_failure_and_ends_the_connection() {
    let upgrade =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let receiver = Receiver::sequence(vec![Answer::raw(upgrade), Answer::status(200)]).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let deliver = stage.start(DELIVER).await;
    let job = Job::for_subscriber("kasse-nord");
    let record = Record::new(0, &job.text());

    let first = stage.deliver(&deliver, std::slice::from_ref(&record)).await;
    stage.make_due(&job);
    let second = stage.deliver(&deliver, &[record.received(2)]).await;

    assert_eq!(first.response, failures(&["m0"]));
    first.assert_delay(0, FIRST_DELAY);
    assert_eq!(second.response, failures(&[] as &[&str]));
    let connections: Vec<usize> = receiver.requests().iter().map(|r| r.connection).collect();
    assert_eq!(connections, [0, 1]);
}
