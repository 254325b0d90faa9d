//! What more than one module sets up or reads.

use e2e::delivery_record::{now_ms, time_value};
use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, Record};
use e2e::stage::Stage;
use serde_json::{Value, json};

pub const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

pub const NONE: [&str; 0] = [];

/// A stage with a subscriber whose receiver answers this, one after the other.
pub async fn stage(answers: impl Into<Vec<Answer>>) -> (Stage, Receiver, Job) {
    let receiver = Receiver::sequence(answers.into()).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    (stage, receiver, Job::for_subscriber("kasse-nord"))
}

/// A stage on which `well` accepts, `failing` answers 500, `rejecting` 400 and `gone` 410.
pub async fn stage_of_four() -> (Stage, Receiver) {
    let subscribers = [
        ("well", 204),
        ("failing", 500),
        ("rejecting", 400),
        ("gone", 410),
    ];
    let answers = subscribers.map(|(name, status)| (format!("/{name}"), Answer::status(status)));
    let receiver = Receiver::by_target(answers).await;
    let stage = Stage::for_deliver().await;
    for (name, _) in subscribers {
        stage.subscribe(name, &receiver.url(&format!("/{name}")));
    }
    (stage, receiver)
}

/// Receive number `count` of message `m<number>`, a delivery to this subscriber.
pub fn record(number: usize, name: &str, count: u32) -> Record {
    Record::new(number, &Job::for_subscriber(name).text()).received(count)
}

/// The record of a run of message `m0` that began an hour ago, last changed ten minutes ago, with
/// three attempts made.
pub fn run(state: &str) -> Value {
    let ago = |minutes| time_value(minutes_ago(minutes));
    let mut record = json!({
        "state": {"S": state},
        "attempts": {"N": "3"},
        "refusals": {"N": "0"},
        "messageId": {"S": "m0"},
        "startedAt": ago(60),
        "createdAt": ago(60),
        "updatedAt": ago(10),
        "history": {"L": [{"M": {"n": {"N": "3"}, "at": ago(10), "outcome": {"S": "retry"}}}]},
    });
    if state == "retrying" {
        record["nextAt"] = ago(2);
    }
    record
}

pub fn minutes_ago(minutes: u64) -> u64 {
    now_ms() - minutes * 60_000
}

/// What is written after the three attempts of [`run`].
pub fn then(n: u32, outcome: &str) -> Vec<(u32, String)> {
    vec![(3, "retry".to_owned()), (n, outcome.to_owned())]
}

/// The log's lines with this message, in order.
pub fn lines_of(lines: &[String], message: &str) -> Vec<Value> {
    lines_with(lines, "message", message)
}

/// The log's errors, in order.
pub fn errors_of(lines: &[String]) -> Vec<Value> {
    lines_with(lines, "level", "ERROR")
}

/// The last line of figures.
pub fn last_figures(lines: &[String]) -> Value {
    lines_of(lines, "metrics").pop().expect("figures")
}

fn lines_with(lines: &[String], field: &str, value: &str) -> Vec<Value> {
    lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .filter(|line: &Value| line[field] == value)
        .collect()
}
