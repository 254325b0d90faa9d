//! What follows the status line cannot change what it said, whatever it is and however long it
//! takes; and what a receiver writes cannot get into our logs as anything but text.

use std::time::Duration;

use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, failures};
use serde_json::Value;

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// More than the socket buffers of four connections take; an answer that is read to its end would
/// never stop.
const MANY_BYTES: u64 = 4 * 512 * 1024;

#[tokio::test]
async fn a_broken_body_after_a_2xx_is_still_a_delivery() {
    let with_length = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
    let cases = [
        (
            "garbage in place of a chunk",
            Answer::raw(format!("{CHUNKED}5\r\nhello\r\nZZ\r\n")).then_close(),
        ),
        (
            "half a body, then FIN",
            Answer::raw(format!("{with_length}hello")).then_close(),
        ),
        (
            "half a body, then RST",
            Answer::raw(format!("{with_length}he")).then_reset(),
        ),
        (
            "half a body, then nothing",
            Answer::raw(format!("{with_length}hello")).then_hang(),
        ),
        ("no body, then FIN", Answer::raw(with_length).then_close()),
        (
            "half a chunk, then FIN",
            Answer::raw(format!("{CHUNKED}5\r\nhel")).then_close(),
        ),
        (
            "a chunk longer than memory",
            Answer::raw(format!("{CHUNKED}FFFFFFFFFFFFFFF0\r\nhello")).then_hang(),
        ),
        (
            "a chunk length that overflows",
            Answer::raw(format!("{CHUNKED}FFFFFFFFFFFFFFFFFF\r\nhello")).then_close(),
        ),
        (
            "a length longer than memory",
            Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n0123456789")
                .then_hang(),
        ),
        (
            "a body that says it is gzip and is not",
            Answer::with(200, &[("Content-Encoding", "gzip")], b"not gzip"),
        ),
        (
            "bytes that are no text",
            Answer::with(200, &[], b"\xff\xfe\x00\x80\x1b[31m"),
        ),
        (
            "more than is announced",
            Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello world"),
        ),
    ];
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    let trials = cases.iter().map(|(_, answer)| (1, answer.clone()));

    let verdicts = stage.try_answers(&deliver, trials).await;

    for ((what, _), verdict) in cases.iter().zip(&verdicts) {
        assert!(!verdict.reported, "{what}");
        assert_eq!(verdict.delay, None, "{what}");
        assert_eq!(verdict.requests.len(), 1, "{what}");
    }
}

#[tokio::test]
async fn an_endless_slow_body_is_left_at_once() {
    for (status, response) in [
        ("200 OK", failures(&[] as &[&str])),
        ("500 No", failures(&["m0"])),
    ] {
        let head = format!("HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n");
        let drip = Answer::raw(head).then_for_ever("1\r\nx\r\n", Duration::from_millis(50));
        let receiver = Receiver::always(drip).await;
        let stage = Stage::for_deliver().await;
        stage.subscribe("kasse-nord", &receiver.url("/"));
        let deliver = stage.start(DELIVER).await;
        let records = [Record::new(0, &Job::for_subscriber("kasse-nord").text())];

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, response);
        assert!(batch.took < Duration::from_secs(2), "{:?}", batch.took);
        receiver.wait_until_open(0).await;
    }
}

#[tokio::test]
async fn an_endless_fast_body_is_left_at_once_and_costs_no_memory() {
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let flood = |head: &str| Answer::raw(head).then_for_ever(&chunk, Duration::ZERO);
    let receiver = Receiver::by_target([
        ("/200".to_owned(), flood(CHUNKED)),
        (
            "/500".to_owned(),
            flood("HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ),
        ("/no-length".to_owned(), flood("HTTP/1.1 200 OK\r\n\r\n")),
        (
            "/length".to_owned(),
            flood("HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n"),
        ),
        ("/well".to_owned(), Answer::status(200)),
    ])
    .await;
    let stage = Stage::for_deliver().await;
    let names = ["200", "500", "no-length", "length", "well"];
    for name in names {
        stage.subscribe(name, &receiver.url(&format!("/{name}")));
    }
    let deliver = stage.start(DELIVER).await;
    let record = |n: usize| Record::new(n, &Job::for_subscriber(names[n]).text());
    stage.deliver(&deliver, &[record(4)]).await;
    let before = deliver.peak_memory_kib();

    let batch = stage
        .deliver(&deliver, &[record(0), record(1), record(2), record(3)])
        .await;

    assert_eq!(batch.response, failures(&["m1"]));
    assert!(batch.took < Duration::from_secs(2), "{:?}", batch.took);
    let grown = deliver.peak_memory_kib() - before;
    assert!(grown < 8 * 1024, "{grown} KiB");
    receiver.wait_until_open(0).await;
    assert!(
        receiver.bytes_sent() < MANY_BYTES,
        "{} bytes",
        receiver.bytes_sent()
    );
}

#[tokio::test]
async fn a_head_without_end_is_a_failure_and_costs_no_memory() {
    let start = "HTTP/1.1 200 OK\r\n";
    let line = format!("X-Long: {}\r\n", "x".repeat(0x10000));
    let receiver = Receiver::by_target([
        (
            "/lines".to_owned(),
            Answer::raw(start).then_for_ever("X-Short: x\r\n", Duration::ZERO),
        ),
        (
            "/long-lines".to_owned(),
            Answer::raw(start).then_for_ever(line, Duration::ZERO),
        ),
        (
            "/one-line".to_owned(),
            Answer::raw(format!("{start}X-Endless: "))
                .then_for_ever("x".repeat(0x1000), Duration::ZERO),
        ),
        (
            "/reason".to_owned(),
            Answer::raw("HTTP/1.1 200 ").then_for_ever("x".repeat(0x1000), Duration::ZERO),
        ),
        ("/well".to_owned(), Answer::status(200)),
    ])
    .await;
    let stage = Stage::for_deliver().await;
    let names = ["lines", "long-lines", "one-line", "reason", "well"];
    for name in names {
        stage.subscribe(name, &receiver.url(&format!("/{name}")));
    }
    let deliver = stage.start(DELIVER).await;
    let record = |n: usize| Record::new(n, &Job::for_subscriber(names[n]).text());
    stage.deliver(&deliver, &[record(4)]).await;
    let before = deliver.peak_memory_kib();

    let batch = stage
        .deliver(&deliver, &[record(0), record(1), record(2), record(3)])
        .await;

    assert_eq!(batch.response, failures(&["m0", "m1", "m2", "m3"]));
    assert!(batch.took < Duration::from_secs(2), "{:?}", batch.took);
    let grown = deliver.peak_memory_kib() - before;
    assert!(grown < 8 * 1024, "{grown} KiB");
    receiver.wait_until_open(0).await;
}

#[tokio::test]
async fn malformed_framing_is_a_failure_that_is_tried_again_under_the_same_id() {
    let heads = [
        "Content-Length: 5O",
        "Content-Length: -1",
        "Content-Length: 3\r\nContent-Length: 5",
        "Content-Length: 18446744073709551616",
        "Retry-After: 120\r\n 600\r\nContent-Length: 0",
        "X Bad : y\r\nContent-Length: 0",
        "no colon\r\nContent-Length: 0",
        "X-Nul: a\0b\r\nContent-Length: 0",
    ];
    let answers =
        heads.map(|head| Answer::raw(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n")).then_close());
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;

    let verdicts = stage
        .try_answers(&deliver, answers.map(|answer| (1, answer)))
        .await;

    for (n, (head, verdict)) in heads.iter().zip(&verdicts).enumerate() {
        assert!(verdict.reported, "{head:?}");
        assert!(
            (30..=60).contains(&verdict.delay.unwrap()),
            "{head:?}: {verdict:?}"
        );
        assert_eq!(verdict.requests.len(), 1, "{head:?}");
        assert_eq!(
            verdict.requests[0].header("webhook-id"),
            Some(Job::for_subscriber(&format!("s{n}")).webhook_id().as_str())
        );
    }
}

#[tokio::test]
async fn nothing_that_a_receiver_writes_leaves_the_log_line_it_is_in() {
    let evil = "\x1b[31m\u{7}\u{202e}\u{85}";
    let answers = [
        Answer::raw(format!(
            "HTTP/1.1 500 {evil}\r\nX-Evil: {evil}\r\nContent-Length: 0\r\n\r\n"
        )),
        Answer::with(
            500,
            &[("Content-Type", "text/plain")],
            b"\xff\xfe\x00\x80\x1b[31m\r\n{\"level\":\"ERROR\"}\n",
        ),
        Answer::raw(format!("{evil}\r\n\r\n")).then_close(),
        Answer::with(200, &[], b"\x1b[2J\n{\"level\":\"ERROR\"}"),
    ];
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;

    stage
        .try_answers(&deliver, answers.map(|answer| (1, answer)))
        .await;

    let lines = deliver.stop().await;
    assert!(lines.len() >= 4, "{lines:#?}");
    for line in &lines {
        let json: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(json["level"].is_string(), "{line}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

#[tokio::test]
async fn a_failure_is_logged_without_the_secrets_of_the_url() {
    let (_socket, refusing) = Receiver::refusing();
    let receiver = Receiver::by_target(
        [
            "/hook/PATHSECRET?token=QUERYSECRET",
            "/ok/PATHSECRET?token=QUERYSECRET",
        ]
        .into_iter()
        .zip([Answer::nothing().then_reset(), Answer::status(500)])
        .map(|(target, answer)| (target.to_owned(), answer)),
    )
    .await;
    let stage = Stage::for_deliver().await;
    let urls = [
        format!("http://{refusing}/hook/PATHSECRET?token=QUERYSECRET"),
        receiver.url("/hook/PATHSECRET?token=QUERYSECRET"),
        receiver.url("/ok/PATHSECRET?token=QUERYSECRET"),
        "http://USERSECRET:PASSWORDSECRET@127.0.0.1:9/hook/PATHSECRET?token=QUERYSECRET".to_owned(),
        "http://no-such-host.invalid/hook/PATHSECRET?token=QUERYSECRET".to_owned(),
        "ftp://127.0.0.1/PATHSECRET?token=QUERYSECRET".to_owned(),
        "PATHSECRET not a url".to_owned(),
    ];
    let mut records = Vec::new();
    for (n, url) in urls.iter().enumerate() {
        let name = format!("s{n}");
        stage.subscribe(&name, url);
        records.push(Record::new(n, &Job::for_subscriber(&name).text()));
    }
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.reported().len(), urls.len());
    let lines = deliver.stop().await;
    for n in 0..urls.len() {
        let name = format!(r#""subscriberId":"s{n}""#);
        assert_eq!(
            lines.iter().filter(|line| line.contains(&name)).count(),
            1,
            "{lines:#?}"
        );
    }
    for line in lines {
        assert!(!line.contains("SECRET"), "{line}");
    }
}
