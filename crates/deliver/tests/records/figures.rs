//! What can be counted and read afterwards: one line of figures for a batch, which names nobody,
//! and one line for each attempt, which says what came of it and what comes next.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use e2e::delivery_record::{moment, now_ms, parse_ms, time_value};
use e2e::receiver::{Answer, Receiver};
use e2e::runtime::Environment;
use e2e::signature::secret_for;
use e2e::sqs_event::{Job, OCCURRED_AT, Record};
use e2e::stage::{Stage, assert_untold, failures, parameter_name};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::helpers::{DELIVER, lines_of};

const TOKEN: &str = "URLTOKEN";

/// How a batch of everything came out: subscriber, answer if there is one.
const MIXED: [(&str, Option<u16>); 10] = [
    ("delivered", Some(204)),
    ("second", Some(200)),
    ("retried", Some(503)),
    ("dead", Some(400)),
    ("gone", Some(410)),
    ("blocked", None),
    ("secretless", None),
    ("missing", None),
    ("already", None),
    ("poison", None),
];

/// A stage and the records for [`MIXED`], under `bounded`.
async fn mixed() -> (Stage, Receiver, Vec<Record>) {
    let answers = MIXED.iter().filter_map(|(name, status)| {
        let status = (*status)?;
        Some((format!("/{name}?token={TOKEN}"), Answer::status(status)))
    });
    let receiver = Receiver::by_target(answers).await;
    let stage = Stage::for_deliver().await.with("RETRY_POLICY", "bounded");
    let ago = time_value(now_ms() - 60_000);
    let mut records = Vec::new();
    for (n, (name, _)) in MIXED.into_iter().enumerate() {
        stage.subscribe(name, &receiver.url(&format!("/{name}?token={TOKEN}")));
        let job = Job::for_subscriber(name);
        records.push(Record::new(n, &job.text()));
        let state = match name {
            "second" => "retrying",
            "already" => "delivered",
            _ => continue,
        };
        stage.put_record(
            &job,
            &json!({
                "state": {"S": state}, "attempts": {"N": "1"}, "refusals": {"N": "0"},
                "messageId": {"S": format!("m{n}")}, "startedAt": ago, "createdAt": ago,
                "updatedAt": ago,
            }),
        );
    }
    stage.subscribe("blocked", &format!("ftp://example.com/{TOKEN}"));
    stage.aws.delete_parameter(&parameter_name("secretless"));
    stage.aws.delete_row("OrderPaid", "missing");
    records[9] = Record::new(9, "no job");
    (stage, receiver, records)
}

#[tokio::test]
async fn a_batch_has_one_line_of_figures() {
    let (stage, _receiver, records) = mixed().await;
    let deliver = stage.start(DELIVER).await;
    let begun = now_ms();

    let batch = stage.deliver(&deliver, &records).await;

    let ended = now_ms();
    assert_eq!(batch.response, failures(&["m2", "m3", "m5", "m6", "m9"]));
    let lines = deliver.stop().await;
    let figures = lines_of(&lines, "metrics");
    let [line] = &figures[..] else {
        panic!("{lines:#?}");
    };
    let at = line["_aws"]["Timestamp"].as_u64().unwrap();
    assert!((begun..=ended).contains(&at), "{line}");
    let numbers = |name: &str| -> Vec<u64> {
        let list = line[name].as_array().unwrap_or_else(|| panic!("{line}"));
        let mut list: Vec<u64> = list.iter().map(|value| value.as_u64().unwrap()).collect();
        list.sort_unstable();
        list
    };
    // The POSTs to `delivered`, `second`, `retried`, `dead` and `gone`.
    let latencies = numbers("Latency");
    assert_eq!(latencies.len(), 5);
    assert!(u128::from(latencies[4]) <= batch.took.as_millis(), "{line}");
    // The same but for the second attempt.
    let waits = numbers("FirstAttemptLatency");
    assert_eq!(waits.len(), 4);
    let occurred = parse_ms(&OCCURRED_AT.replace('Z', ".000Z"));
    for wait in waits {
        assert!(
            (begun - occurred..=ended - occurred).contains(&wait),
            "{line}"
        );
    }
    assert_eq!(numbers("AttemptsPerDelivered"), [1, 2]);
    let count = |name: &str| json!({"Name": name, "Unit": "Count"});
    let milliseconds = |name: &str| json!({"Name": name, "Unit": "Milliseconds"});
    assert_eq!(
        line,
        &json!({
            "_aws": {
                "Timestamp": at,
                "CloudWatchMetrics": [{
                    "Namespace": "SqsWebhooks",
                    "Dimensions": [["FunctionName"]],
                    "Metrics": [
                        count("Attempts"),
                        count("Delivered"),
                        count("Retried"),
                        count("Dead"),
                        count("Gone"),
                        count("Blocked"),
                        count("Faults"),
                        count("Poison"),
                        milliseconds("Latency"),
                        milliseconds("FirstAttemptLatency"),
                        count("AttemptsPerDelivered"),
                    ],
                }],
            },
            "FunctionName": "function",
            "Attempts": 5,
            "Delivered": 2,
            "Retried": 1,
            "Dead": 1,
            "Gone": 1,
            "Blocked": 1,
            "Faults": 1,
            "Poison": 1,
            "Latency": line["Latency"],
            "FirstAttemptLatency": line["FirstAttemptLatency"],
            "AttemptsPerDelivered": line["AttemptsPerDelivered"],
            "message": "metrics",
            "level": "WARN",
            "timestamp": line["timestamp"],
        })
    );
    let timestamp = parse_ms(line["timestamp"].as_str().unwrap());
    assert_eq!(timestamp, at);
}

#[tokio::test]
async fn figures_name_nobody() {
    let (stage, receiver, records) = mixed().await;
    let deliver = stage.start(DELIVER).await;

    stage.deliver(&deliver, &records).await;

    let figures = lines_of(&deliver.stop().await, "metrics");
    let text = figures[0].to_string();
    let job = Job::for_subscriber("delivered");
    for (name, _) in MIXED {
        // As a value; some of them are words of ours.
        assert!(!text.contains(&format!(r#""{name}""#)), "{name}: {text}");
    }
    for partner in [
        job.event_id.as_str(),
        "msg_",
        "OrderPaid",
        "127.0.0.1",
        "example.com",
        "\"m0\"",
    ] {
        assert!(!text.contains(partner), "{partner}: {text}");
    }
    let secret = secret_for("delivered").split_off("whsec_".len());
    assert_untold(
        &[text],
        &[TOKEN, &secret, &receiver.url(""), "K-1001\",\"total"],
    );
}

#[tokio::test]
async fn a_receive_that_came_to_nothing_has_no_figures() {
    let (stage, _receiver, records) = mixed().await;
    let deliver = stage.start(DELIVER).await;

    stage.deliver(&deliver, &records[7..9]).await;
    stage.deliver(&deliver, &[]).await;

    assert_eq!(lines_of(&deliver.stop().await, "metrics"), [] as [Value; 0]);
}

#[tokio::test]
async fn figures_pass_a_log_level_that_keeps_the_lines_of_attempts_back() {
    for (level, of_attempts) in [("WARN", 0), ("ERROR", 0), ("INFO", 1)] {
        let (stage, _receiver, records) = mixed().await;
        let stage = stage.with("AWS_LAMBDA_LOG_LEVEL", level);
        let deliver = stage.start(DELIVER).await;

        stage.deliver(&deliver, &records[..1]).await;

        let lines = deliver.stop().await;
        assert_eq!(lines_of(&lines, "metrics").len(), 1, "{level}");
        assert_eq!(
            lines_of(&lines, "delivery.attempted").len(),
            of_attempts,
            "{level}"
        );
    }
}

#[tokio::test]
async fn an_event_from_the_future_or_without_a_time_has_no_wait() {
    // Clocks differ; and nothing says that a job's time is one.
    let (stage, _receiver, _) = mixed().await;
    let deliver = stage.start(DELIVER).await;
    let with_time = |number: usize, time: &str| {
        let job = Job::for_subscriber("delivered").with_event_id(&format!("e{number}"));
        let text = job.text();
        let from = format!(r#""occurredAt":"{OCCURRED_AT}""#);
        let to = format!(r#""occurredAt":"{time}""#);
        assert!(text.contains(&from));
        Record::new(number, &text.replace(&from, &to))
    };
    let records = [
        with_time(0, "2100-01-01T00:00:00Z"),
        with_time(1, "yesterday"),
    ];

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&[] as &[&str]));
    let figures = lines_of(&deliver.stop().await, "metrics");
    assert_eq!(figures[0]["FirstAttemptLatency"], json!([0]));
    assert_eq!(figures[0]["Delivered"], 2);
}

#[tokio::test]
async fn a_first_post_after_faults_of_ours_has_waited_since_its_event() {
    let (stage, _receiver, records) = mixed().await;
    stage.aws.delete_parameter(&parameter_name("delivered"));
    let deliver = stage.start(DELIVER).await;
    stage.deliver(&deliver, &records[..1]).await;
    let job = Job::for_subscriber("delivered");
    stage.make_due(&job);
    stage.set_secret("delivered", &secret_for("delivered"));
    let deliver = stage.start(DELIVER).await;

    let again = records[0].clone().received(2);
    stage.deliver(&deliver, &[again]).await;

    let figures = lines_of(&deliver.stop().await, "metrics");
    let waits = figures[0]["FirstAttemptLatency"].as_array();
    assert_eq!(waits.map(Vec::len), Some(1), "{figures:#?}");
    assert_eq!(figures[0]["AttemptsPerDelivered"], json!([1]));
}

#[tokio::test]
async fn neither_a_redriven_delivery_nor_a_retry_has_waited_for_its_first_post() {
    let long_ago = time_value(now_ms() - 3_600_000);
    for (state, attempts, message) in [("dead", "8", "m7"), ("retrying", "1", "m0")] {
        let (stage, _receiver, records) = mixed().await;
        stage.put_record(
            &Job::for_subscriber("delivered"),
            &json!({
                "state": {"S": state}, "attempts": {"N": attempts}, "refusals": {"N": "0"},
                "messageId": {"S": message}, "startedAt": long_ago, "createdAt": long_ago,
                "updatedAt": long_ago,
            }),
        );
        let deliver = stage.start(DELIVER).await;

        stage.deliver(&deliver, &records[..1]).await;

        let figures = lines_of(&deliver.stop().await, "metrics");
        assert_eq!(figures[0]["Delivered"], 1, "{state}");
        assert_eq!(figures[0]["FirstAttemptLatency"], Value::Null, "{state}");
    }
}

#[tokio::test]
async fn what_was_sent_counts_as_an_attempt_though_it_was_cut_short() {
    let receiver = Receiver::always(Answer::hang()).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let deliver = stage.start(DELIVER).await;
    let record = Record::new(0, &Job::for_subscriber("kasse-nord").text());

    stage
        .deliver_within(&deliver, &[record], Duration::from_millis(3500))
        .await;

    let figures = lines_of(&deliver.stop().await, "metrics");
    assert_eq!(figures[0]["Attempts"], 1);
    assert_eq!(figures[0]["Faults"], 1);
    assert_eq!(figures[0]["Retried"], Value::Null);
    assert_eq!(figures[0]["Latency"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn what_another_copy_has_delivered_meanwhile_is_not_counted_as_dead() {
    let word = Arc::new(Notify::new());
    let receiver = Receiver::always(Answer::status(400).on(&word)).await;
    let stage = Stage::for_deliver()
        .await
        .with("RETRY_POLICY", "bounded")
        .with("EVENT_BUS_NAME", "default");
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let job = Job::for_subscriber("kasse-nord");
    let ago = time_value(now_ms() - 60_000);
    let row = |state: &str| {
        json!({
            "state": {"S": state}, "attempts": {"N": "1"}, "refusals": {"N": "0"},
            "messageId": {"S": "m0"}, "startedAt": ago, "createdAt": ago, "updatedAt": ago,
        })
    };
    stage.put_record(&job, &row("retrying"));
    let deliver = stage.start(DELIVER).await;
    let records = [Record::new(0, &job.text()).received(2)];

    let (batch, ()) = tokio::join!(stage.deliver(&deliver, &records), async {
        receiver.wait_for(1).await;
        stage.put_record(&job, &row("delivered"));
        word.notify_one();
    });

    assert_eq!(batch.response, failures(&[] as &[&str]));
    assert_eq!(stage.aws.calls("PutEvents").len(), 0);
    let figures = lines_of(&deliver.stop().await, "metrics");
    assert_eq!(figures[0]["Attempts"], 1);
    assert_eq!(figures[0]["Dead"], Value::Null);
}

/// What a line of an attempt says beyond whose it is; what is null is not there.
fn told(line: &Value) -> Value {
    let mut line = line.clone();
    let fields = line.as_object_mut().unwrap();
    for name in [
        "timestamp",
        "level",
        "message",
        "webhookId",
        "eventId",
        "eventType",
        "subscriberId",
        "messageId",
        "ms",
    ] {
        fields.remove(name);
    }
    line
}

#[tokio::test]
async fn a_line_of_an_attempt_says_what_came_of_it_and_what_comes_next() {
    let (stage, receiver, mut records) = mixed().await;
    let host = json!("127.0.0.1");
    records[1] = records[1].clone().received(12);
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    let next_at = |name: &str| stage.record_of(&Job::for_subscriber(name))["nextAt"]["S"].clone();
    let lines = deliver.stop().await;
    let all: Vec<Value> = lines_of(&lines, "delivery.attempted")
        .into_iter()
        .chain(lines_of(&lines, "delivery.unsent"))
        .collect();
    let error_of = |name: &str| {
        let of_it = all.iter().find(|line| line["subscriberId"] == name);
        of_it.unwrap()["error"].clone()
    };
    let expected = [
        (
            0,
            "INFO",
            "delivery.attempted",
            json!({"host": host, "attempt": 1, "outcome": "delivered", "status": 204}),
        ),
        (
            1,
            "INFO",
            "delivery.attempted",
            json!({"host": host, "attempt": 2, "outcome": "delivered", "status": 200}),
        ),
        (
            2,
            "INFO",
            "delivery.attempted",
            json!({
                "host": host, "attempt": 1, "outcome": "retry", "status": 503,
                "failure": "status", "delaySeconds": batch.delay(2), "nextAt": next_at("retried"),
            }),
        ),
        (
            3,
            "INFO",
            "delivery.attempted",
            json!({
                "host": host, "attempt": 1, "outcome": "dead", "status": 400,
                "failure": "status", "deadReason": "status",
            }),
        ),
        (
            4,
            "INFO",
            "delivery.attempted",
            json!({"host": host, "attempt": 1, "outcome": "gone", "status": 410}),
        ),
        (
            5,
            "WARN",
            "delivery.attempted",
            json!({
                "attempt": 1, "outcome": "blocked", "failure": "blocked",
                "error": "the url's scheme is `ftp`, only https is allowed",
                "security": "endpoint.blocked",
                "delaySeconds": batch.delay(5), "nextAt": next_at("blocked"),
            }),
        ),
        (
            6,
            "ERROR",
            "delivery.unsent",
            json!({
                "attempt": 1, "outcome": "fault", "failure": "signing secret unusable",
                "error": error_of("secretless"),
                "delaySeconds": batch.delay(6), "nextAt": next_at("secretless"),
            }),
        ),
    ];
    assert_eq!(all.len(), expected.len());
    for (n, level, message, fields) in expected {
        let (name, _) = MIXED[n];
        let of_it: Vec<&Value> = all
            .iter()
            .filter(|line| line["subscriberId"] == name)
            .collect();
        let [line] = of_it[..] else {
            panic!("{name}: {all:#?}");
        };
        let job = Job::for_subscriber(name);
        assert_eq!(told(line), fields, "{name}");
        for (field, value) in [
            ("level", json!(level)),
            ("message", json!(message)),
            ("webhookId", json!(job.webhook_id())),
            ("eventId", json!(job.event_id)),
            ("eventType", json!("OrderPaid")),
            ("messageId", json!(format!("m{n}"))),
        ] {
            assert_eq!(line[field], value, "{name}: {field}");
        }
        assert!(line["timestamp"].is_string(), "{line}");
        let was_posted = !receiver
            .requests_to(&format!("/{name}?token={TOKEN}"))
            .is_empty();
        assert_eq!(line["ms"].is_u64(), was_posted, "{line}");
        if let Some(next_at) = line["nextAt"].as_str() {
            let row = stage.record_of(&job);
            let delay = line["delaySeconds"].as_u64().unwrap();
            assert_eq!(parse_ms(next_at), moment(&row["updatedAt"]) + delay * 1000);
        }
    }
    assert_eq!(
        lines_of(&lines, "delivery.dropped").len(),
        2,
        "missing and already"
    );
}

#[tokio::test]
async fn the_reason_of_an_end_is_in_its_line() {
    let ago = |hours: u64| time_value(now_ms() - hours * 3_600_000);
    for (attempts, started, reason) in [("7", ago(1), "attempts"), ("3", ago(85), "horizon")] {
        let (stage, _receiver, records) = mixed().await;
        let job = Job::for_subscriber("retried");
        stage.put_record(
            &job,
            &json!({
                "state": {"S": "retrying"}, "attempts": {"N": attempts}, "refusals": {"N": "0"},
                "messageId": {"S": "m2"}, "startedAt": started, "createdAt": started,
                "updatedAt": ago(1),
            }),
        );
        let deliver = stage.start(DELIVER).await;

        stage.deliver(&deliver, &records[2..3]).await;

        let lines = attempts_of(&deliver).await;
        assert_eq!(lines[0]["outcome"], "dead");
        assert_eq!(lines[0]["deadReason"], reason);
        assert_eq!(lines[0]["nextAt"], Value::Null);
        assert_eq!(lines[0]["delaySeconds"], Value::Null);
    }
}

async fn attempts_of(deliver: &Environment) -> Vec<Value> {
    lines_of(&deliver.stop().await, "delivery.attempted")
}

#[tokio::test]
async fn all_lines_have_the_fields_that_queries_are_written_for() {
    let (stage, _receiver, records) = mixed().await;
    let deliver = stage.start(DELIVER).await;

    stage.deliver(&deliver, &records).await;

    let known: BTreeSet<&str> = [
        "timestamp",
        "level",
        "message",
        "webhookId",
        "eventId",
        "eventType",
        "subscriberId",
        "messageId",
        "host",
        "attempt",
        "outcome",
        "status",
        "failure",
        "error",
        "ms",
        "security",
        "deadReason",
        "delaySeconds",
        "nextAt",
    ]
    .into();
    let lines = attempts_of(&deliver).await;
    let names: BTreeSet<&str> = lines
        .iter()
        .flat_map(|line| line.as_object().unwrap().keys())
        .map(String::as_str)
        .collect();
    assert_eq!(names, known);
}
