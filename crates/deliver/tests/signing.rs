//! What a partner gets: exactly these headers, exactly these bytes, and a signature over them
//! that anyone can check.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::receiver::{Answer, Receiver};
use e2e::signature::{assert_signed, secret_for, v1};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, failures};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::{Value, json};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

/// The key of the specification's first example.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[tokio::test]
async fn a_request_has_exactly_the_headers_of_a_webhook() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/hook?a=1"));
    let deliver = stage.start(DELIVER).await;
    let job = Job::for_subscriber("kasse-nord");

    stage
        .deliver(&deliver, &[Record::new(0, &job.text())])
        .await;

    let requests = receiver.requests();
    let [request] = &requests[..] else {
        panic!("{requests:?}");
    };
    assert_eq!(
        (request.method.as_str(), request.target.as_str()),
        ("POST", "/hook?a=1")
    );
    assert_eq!(
        request.header_names(),
        [
            "content-length",
            "content-type",
            "host",
            "user-agent",
            "webhook-id",
            "webhook-signature",
            "webhook-timestamp",
        ]
    );
    let version = env!("CARGO_PKG_VERSION");
    for (name, value) in [
        ("content-length", job.body.len().to_string()),
        ("content-type", "application/json".to_owned()),
        ("host", receiver.address().to_string()),
        ("user-agent", format!("sqs-webhooks/{version}")),
        (
            "webhook-id",
            "msg_6f1c1a5e-0d8f-4a57-9a52-1d8d3f1c7b11_kasse-nord".to_owned(),
        ),
    ] {
        assert_eq!(request.header(name), Some(value.as_str()), "{name}");
    }
    assert_eq!(request.text(), job.body);
    assert_signed(request, &[&secret_for("kasse-nord")]);
}

#[tokio::test]
async fn every_byte_of_the_payload_is_signed_and_sent_as_it_is() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    stage.set_secret("kasse-nord", SECRET);
    let deliver = stage.start(DELIVER).await;
    let bodies = [
        r#"{}"#,
        r#"{"a":1.0}"#,
        r#"{"a":1}"#,
        r#"{"a":12345678901234567890}"#,
        r#"{"a":123456789012345678901234567890}"#,
        r#"{"a":0.1234567890123456789}"#,
        r#"{"a":-0}"#,
        r#"{"a":1E5,"b":0.10}"#,
        r#"{"a":1e400}"#,
        r#"{"b":1,"a":2}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"b":1,"a":"é"}"#,
        r#"{"a":"é\/\ud800\uffff"}"#,
        r#"{"a":"😀客"}"#,
        r#"{"$serde_json::private::Number":"1"}"#,
        r#"{"$serde_json::private::RawValue":"1"}"#,
        "{ \"a\" :\n\t[1 , 2]\r\n}",
    ];
    let mut records = Vec::new();
    for (n, body) in bodies.iter().enumerate() {
        let mut job = Job::for_subscriber("kasse-nord");
        job.event_id = format!("e{n}");
        job.body = (*body).to_owned();
        records.push(Record::new(n, &job.text()));
    }

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&[] as &[&str]));
    let requests = receiver.requests();
    assert_eq!(requests.len(), bodies.len());
    for (n, body) in bodies.iter().enumerate() {
        let id = format!("msg_e{n}_kasse-nord");
        let request = requests
            .iter()
            .find(|request| request.header("webhook-id") == Some(&id))
            .unwrap();
        assert_eq!(request.body, body.as_bytes(), "{body}");
        assert_eq!(
            request.header("content-length"),
            Some(body.len().to_string().as_str())
        );
        assert_signed(request, &[SECRET]);
    }
}

#[tokio::test]
async fn the_check_of_signatures_is_that_of_other_libraries() {
    // Computed with the reference libraries for the id `evt_1` and the time 1700000000.
    for (body, signature) in [
        ("{}", "v1,zDDZQ0HbZDldGfbXFD+XxplmyMbPhxymu2DUsyrVk1U="),
        (
            r#"{"a":1.0}"#,
            "v1,W1BnTPFOU7bFkxb/KH/BXxIV+4nK7gAnvxwpsCgaYQw=",
        ),
        (
            r#"{"a":1e400}"#,
            "v1,HRS+QzYm4QZ4KGQ//8QrA7uu/x9/K1viNgHFOXAINLI=",
        ),
        (
            r#"{"a":1,"a":2}"#,
            "v1,AsjAKTCX+GTjKDUCclQHJO9jCxlYU6wQqmKsxY2Qtqo=",
        ),
    ] {
        assert_eq!(
            v1(SECRET, "evt_1", "1700000000", body.as_bytes()),
            signature
        );
    }
}

#[tokio::test]
async fn every_attempt_has_the_same_id_and_bytes_and_a_timestamp_of_its_own() {
    let receiver = Receiver::always(Answer::status(500)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let deliver = stage.start(DELIVER).await;
    let job = Job::for_subscriber("kasse-nord");
    let text = job.text();
    // A repetition, a message handed out twice, and a redrive: a new message whose count starts
    // again or goes on.
    let receives = [(0, 1), (0, 2), (0, 2), (1, 1), (2, 9)];
    let mut timestamp = 0;
    for (n, (message, count)) in receives.into_iter().enumerate() {
        if n > 0 {
            stage.make_due(&job);
        }
        if message > 0 {
            stage.edit_record(&job, &json!({"state": {"S": "dead"}}));
        }
        if n == 1 {
            // The next second, so that a timestamp that was kept would show.
            tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        }
        let record = Record::new(message, &text).received(count);
        stage.deliver(&deliver, &[record]).await;
        let request = receiver.requests().pop().unwrap();
        assert_signed(&request, &[&secret_for("kasse-nord")]);
        let this: u64 = request
            .header("webhook-timestamp")
            .unwrap()
            .parse()
            .unwrap();
        assert!(
            this >= timestamp + u64::from(n == 1),
            "{timestamp}, then {this}"
        );
        assert!(request.at_unix_seconds - this <= 1, "{this}");
        timestamp = this;
    }
    let requests = receiver.requests();
    assert_eq!(requests.len(), 5);
    let ids: BTreeSet<_> = requests.iter().map(|r| r.header("webhook-id")).collect();
    let bodies: BTreeSet<_> = requests.iter().map(|r| &r.body).collect();
    assert_eq!((ids.len(), bodies.len()), (1, 1));
}

#[tokio::test]
async fn an_event_type_of_any_characters_reaches_the_payload_and_no_header() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    let long = "x".repeat(300);
    for (n, event_type) in [
        "order\r\nX-Injected: 1",
        "заказ",
        "a b/c",
        " lead",
        "\u{7f}\u{0}",
        &long,
    ]
    .into_iter()
    .enumerate()
    {
        stage.subscribe("kasse-nord", &receiver.url("/"));
        stage
            .aws
            .put_subscription(event_type, "kasse-nord", &receiver.url("/"));
        let mut job = Job::for_subscriber("kasse-nord").with_event_id(&format!("e{n}"));
        job.event_type = event_type.to_owned();
        job.body = e2e::bridge_event::payload(event_type, "{}");

        let batch = stage
            .deliver(&deliver, &[Record::new(0, &job.text())])
            .await;

        assert_eq!(batch.response, failures(&[] as &[&str]), "{event_type:?}");
        let request = receiver.requests().pop().unwrap();
        assert_eq!(request.headers.len(), 7, "{request:?}");
        let payload: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(payload["type"], event_type);
        assert_signed(&request, &[&secret_for("kasse-nord")]);
    }
}

#[tokio::test]
async fn an_id_that_could_be_taken_for_another_message_is_never_signed() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let deliver = stage.start(DELIVER).await;
    let ids = [
        "evt_1.1700000000",
        ".",
        "",
        "a b",
        "é",
        "x\r\nwebhook-id: y",
        "\u{0}",
    ];
    let text = Job::for_subscriber("kasse-nord").text();
    let good = Job::for_subscriber("kasse-nord").webhook_id();
    let records: Vec<Record> = ids
        .iter()
        .enumerate()
        .map(|(n, id)| {
            let id = Value::from(*id).to_string();
            Record::new(n, &text.replacen(&format!("\"{good}\""), &id, 1))
        })
        .collect();

    let batch = stage.deliver(&deliver, &records).await;

    let all: Vec<String> = (0..ids.len()).map(|n| format!("m{n}")).collect();
    assert_eq!(batch.response, failures(&all));
    assert_eq!(receiver.connections(), 0);
}

/// The seed that the official library for Go tests with, and what it signs with it.
const ED25519_SECRET: &str = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=";

#[tokio::test]
async fn an_ed25519_secret_adds_a_signature_that_its_public_key_verifies() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    stage.set_secret("kasse-nord", &format!("{ED25519_SECRET}\n{SECRET}"));
    let deliver = stage.start(DELIVER).await;
    let job = Job::for_subscriber("kasse-nord");

    let batch = stage
        .deliver(&deliver, &[Record::new(0, &job.text())])
        .await;

    assert_eq!(batch.reported(), [] as [&str; 0]);
    let requests = receiver.requests();
    let [request] = &requests[..] else {
        panic!("{requests:?}");
    };
    let header = |name| request.header(name).unwrap();
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    let signatures: Vec<&str> = header("webhook-signature").split(' ').collect();
    let [ed25519, shared] = signatures[..] else {
        panic!("{signatures:?}");
    };
    assert_eq!(shared, v1(SECRET, id, timestamp, &request.body));
    // The public key was computed from the seed by another library (Python's cryptography).
    let public = STANDARD
        .decode("ZlN4eg7dSSqi0moX9hQUk3orrOouK3QVQSlJa248c/g=")
        .unwrap();
    let signature = STANDARD
        .decode(ed25519.strip_prefix("v1a,").unwrap())
        .unwrap();
    let signed = [format!("{id}.{timestamp}.").as_bytes(), &request.body].concat();
    UnparsedPublicKey::new(&ED25519, public)
        .verify(&signed, &signature)
        .unwrap();
}
