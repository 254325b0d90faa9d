//! The log of a delivery: one line, from which an operator can tell what came of the attempt and
//! what happens next.

use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, Record};
use e2e::stage::Stage;
use serde_json::{Value, json};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

#[tokio::test]
async fn each_attempt_has_one_line_that_says_what_came_of_it() {
    let receiver = Receiver::by_target([
        ("/0".to_owned(), Answer::status(204)),
        ("/1".to_owned(), Answer::retry_after(503, "300")),
        ("/2".to_owned(), Answer::status(410)),
        ("/3".to_owned(), Answer::status(500)),
        ("/4".to_owned(), Answer::nothing().then_reset()),
    ])
    .await;
    let stage = Stage::for_deliver().await;
    let null = Value::Null;
    let blocked = "ftp://127.0.0.1/".to_owned();
    let cases = [
        // Url, attempt, then of the line: outcome, status, deadReason, whether it comes back.
        (receiver.url("/0"), 1, "delivered", json!(204), None, false),
        (receiver.url("/1"), 3, "retry", json!(503), None, true),
        (receiver.url("/2"), 1, "gone", json!(410), None, false),
        (
            receiver.url("/3"),
            8,
            "dead",
            json!(500),
            Some("attempts"),
            false,
        ),
        (receiver.url("/4"), 1, "retry", null.clone(), None, true),
        (blocked, 2, "blocked", null.clone(), None, true),
    ];
    let mut records = Vec::new();
    for (n, (url, attempt, ..)) in cases.iter().enumerate() {
        let name = format!("s{n}");
        stage.subscribe(&name, url);
        let job = Job::for_subscriber(&name);
        stage.put_earlier_attempts(&job, &format!("m{n}"), attempt - 1);
        records.push(Record::new(n, &job.text()).received(attempt));
    }
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    let lines = deliver.stop().await;
    for (n, (_, attempt, outcome, status, dead_reason, comes_back)) in cases.into_iter().enumerate()
    {
        let name = format!("s{n}");
        let attempts: Vec<Value> = lines
            .iter()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|line| line["message"] == "delivery.attempted" && line["subscriberId"] == name)
            .collect();
        let [line] = &attempts[..] else {
            panic!("{name}: {lines:#?}");
        };
        let job = Job::for_subscriber(&name);
        // What is said is what was sent to SQS and written down.
        let (delay, next_at) = if comes_back {
            let record = stage.record_of(&job);
            (
                json!(batch.delay(n).unwrap()),
                record["nextAt"]["S"].clone(),
            )
        } else {
            (null.clone(), null.clone())
        };
        for (field, value) in [
            ("webhookId", json!(job.webhook_id())),
            ("eventId", json!(job.event_id)),
            ("eventType", json!("OrderPaid")),
            ("messageId", json!(format!("m{n}"))),
            ("attempt", json!(attempt)),
            ("outcome", json!(outcome)),
            ("status", status),
            ("deadReason", json!(dead_reason)),
            ("delaySeconds", delay),
            ("nextAt", next_at),
        ] {
            assert_eq!(line[field], value, "{field}: {line}");
        }
        assert!(
            line["timestamp"].is_string() && line["level"].is_string(),
            "{line}"
        );
    }
}
