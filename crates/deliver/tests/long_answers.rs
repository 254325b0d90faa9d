//! No answer is read beyond 16 KiB, heads and framing included; and an answer that is too long to
//! be read costs its connection and nothing else.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, failures};
use serde_json::Value;

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

const NONE: [&str; 0] = [];

/// How much of an answer is read, in bytes.
const BOUND: usize = 16 * 1024;

/// How much a peer can send that is not read: what the sockets of both sides hold, with some
/// air. Linux begins with 128 KiB for a socket that nobody has read much from.
const SOCKETS_HOLD: u64 = 512 * 1024;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn chunked(body: &str) -> Answer {
    let chunks: Vec<String> = body
        .as_bytes()
        .chunks(1000)
        .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), "x".repeat(chunk.len())))
        .collect();
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    Answer::raw(format!("{head}{}0\r\n\r\n", chunks.concat()))
}

#[tokio::test]
async fn a_long_answer_is_a_delivery_and_its_connection_is_never_held_against_the_partner() {
    let body = |bytes: usize| "x".repeat(bytes);
    let whole = |bytes: usize| Answer::with(200, &[], body(bytes).as_bytes());
    for (what, answer) in [
        ("100", whole(100)),
        ("16000", whole(16_000)),
        ("16384", whole(16_384)),
        ("16385", whole(16_385)),
        ("20400", whole(20_400)),
        ("chunked 15000", chunked(&body(15_000))),
        ("chunked 18000", chunked(&body(18_000))),
    ] {
        // Whatever connection is used a second time is dead by then.
        let used = Mutex::new(HashSet::new());
        let receiver = Receiver::start(move |received| {
            if used.lock().unwrap().insert(received.connection) {
                answer.clone()
            } else {
                Answer::nothing().then_reset()
            }
        })
        .await;
        let stage = Stage::for_deliver().await;
        stage.subscribe("kasse-nord", &receiver.url("/"));
        let deliver = stage.start(DELIVER).await;

        for n in 0..3 {
            let records = [Record::of_event(n, "kasse-nord")];
            let batch = stage.deliver(&deliver, &records).await;

            assert_eq!(batch.response, failures(&NONE), "{what}, {n}");
            assert_eq!(batch.visibilities, [], "{what}, {n}");
        }
        assert_eq!(receiver.connections(), 3, "{what}");
        let ids: HashSet<Option<String>> = receiver
            .requests()
            .iter()
            .map(|request| request.header("webhook-id").map(str::to_owned))
            .collect();
        assert_eq!(ids.len(), 3, "{what}");
    }
}

/// Interim heads and a final one that have this many bytes together.
fn heads_of(bytes: usize) -> Answer {
    const INTERIM: &str = "HTTP/1.1 102 Processing\r\n\r\n";
    let rest = bytes - OK.len();
    let mut interim = INTERIM.repeat(rest / INTERIM.len() - 1);
    let pad = rest - interim.len() - INTERIM.len() - "X: \r\n".len();
    interim.push_str(&INTERIM.replacen("\r\n", &format!("\r\nX: {}\r\n", "x".repeat(pad)), 1));
    let answer = format!("{interim}{OK}");
    assert_eq!(answer.len(), bytes);
    Answer::raw(answer)
}

#[tokio::test]
async fn interim_answers_count_as_part_of_the_answer() {
    let many = "HTTP/1.1 102 Processing\r\n\r\n".repeat(50);
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    let answers = [
        (Answer::raw(format!("{many}{OK}")), true),
        (heads_of(BOUND - 1), true),
        (heads_of(BOUND), true),
        (heads_of(BOUND + 1), false),
        (heads_of(2 * BOUND), false),
        (heads_of(64 * BOUND), false),
    ];

    let trials = answers.iter().map(|(answer, _)| (1, answer.clone()));
    let verdicts = stage.try_answers(&deliver, trials).await;

    for (n, ((_, delivered), verdict)) in answers.iter().zip(&verdicts).enumerate() {
        assert_eq!(verdict.requests.len(), 1, "{n}");
        assert_eq!(verdict.reported, !delivered, "{n}");
        assert_eq!(verdict.delay.is_some(), !delivered, "{n}");
        if !delivered {
            assert!((30..=60).contains(&verdict.delay.unwrap()), "{verdict:?}");
            let line = deliver
                .line_with(&["delivery.attempted", &format!(r#""subscriberId":"s{n}""#)])
                .await;
            let line: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(line["outcome"], "retry", "{line}");
            assert_eq!(line["failure"], "protocol", "{line}");
            let error = line["error"].as_str().unwrap();
            assert!(error.contains("longer than 16384 bytes"), "{line}");
        }
    }
}

#[tokio::test]
async fn an_answer_without_end_is_left_at_the_bound_whatever_it_is_made_of() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let x = "x".repeat(4000);
    let floods = [
        ("body", "HTTP/1.1 200 OK\r\n\r\n".to_owned(), x.clone()),
        ("chunks", chunked.to_owned(), format!("fa0\r\n{x}\r\n")),
        ("tiny-chunks", chunked.to_owned(), "1\r\nx\r\n".repeat(600)),
        ("extensions", chunked.to_owned(), format!("1;{x}\r\nx\r\n")),
        ("trailers", format!("{chunked}0\r\n"), format!("X: {x}\r\n")),
        (
            "interim",
            String::new(),
            "HTTP/1.1 102 Processing\r\n\r\n".repeat(150),
        ),
        (
            "interim-fields",
            String::new(),
            format!("HTTP/1.1 103 Early Hints\r\nLink: {x}\r\n\r\n"),
        ),
        (
            "fields",
            "HTTP/1.1 200 OK\r\n".to_owned(),
            format!("X: {x}\r\n"),
        ),
    ];
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    let mut receivers = Vec::new();
    let mut records = Vec::new();
    for (n, (name, start, repeated)) in floods.iter().enumerate() {
        let flood = Answer::raw(start).then_for_ever(repeated, Duration::ZERO);
        let receiver = Receiver::always(flood).await;
        stage.subscribe(name, &receiver.url("/"));
        records.push(Record::new(n, &Job::for_subscriber(name).text()));
        receivers.push(receiver);
    }

    let batch = stage.deliver(&deliver, &records).await;

    // Those that never came to a status line.
    assert_eq!(batch.response, failures(&["m5", "m6", "m7"]));
    assert!(batch.took < Duration::from_secs(2), "{:?}", batch.took);
    for ((name, ..), receiver) in floods.iter().zip(&receivers) {
        assert_eq!(receiver.requests().len(), 1, "{name}");
        receiver.wait_until_open(0).await;
        let sent = receiver.bytes_sent();
        assert!(sent < SOCKETS_HOLD, "{name}: {sent} bytes");
    }
}
