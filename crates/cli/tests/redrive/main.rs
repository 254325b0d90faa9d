//! `webhooks redrive`, the real program against AWS as the tests play it: what it sends, marks and
//! deletes, and what it leaves.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it stands"
)]

mod choice;
mod steps;
mod trouble;

use e2e::command::Ran;
use e2e::delivery_record::{now_ms, time_value};
use e2e::sqs_event::Job;
use e2e::stage::Stage;
use serde_json::{Value, json};

const WEBHOOKS: &str = env!("CARGO_BIN_EXE_webhooks");

/// Where a subscription points in these tests.
const URL: &str = "https://partner.example/of-today";

const HOUR_MS: u64 = 3_600_000;

/// A stage with these subscribers to `OrderPaid`.
async fn stage(subscribers: &[&str]) -> Stage {
    let stage = Stage::for_command().await;
    for subscriber in subscribers {
        stage.subscribe(subscriber, URL);
    }
    stage
}

/// A delivery of an event of its own.
fn job(number: usize, subscriber: &str) -> Job {
    Job::for_subscriber(subscriber).with_event_id(&format!("e{number}"))
}

/// The delivery has died as this message: there is a record and a dead letter.
fn die(stage: &Stage, job: &Job, message_id: &str) {
    put_dead_record(stage, job, message_id, &json!({}));
    put_letter(stage, job, message_id);
}

fn put_letter(stage: &Stage, job: &Job, message_id: &str) {
    let sent_ms = now_ms() - 12 * HOUR_MS;
    stage.aws.put_dead_letter(message_id, sent_ms, &job.text());
}

/// Its record alone, with changes.
fn put_dead_record(stage: &Stage, job: &Job, message_id: &str, changes: &Value) {
    let began = time_value(now_ms() - 12 * HOUR_MS);
    let mut record = json!({
        "state": {"S": "dead"},
        "deadReason": {"S": "attempts"},
        "messageId": {"S": message_id},
        "attempts": {"N": "8"},
        "refusals": {"N": "0"},
        "startedAt": began,
        "createdAt": began,
        "updatedAt": time_value(now_ms() - HOUR_MS),
        "history": {"L": []},
        "body": {"S": job.body},
    });
    for (name, value) in changes.as_object().expect("an object") {
        record[name] = value.clone();
    }
    record
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    stage.put_record(job, &record);
}

async fn redrive(stage: &Stage, arguments: &[&str]) -> Ran {
    let arguments = [&["redrive", "--json"], arguments].concat();
    stage.run(WEBHOOKS, &arguments).await
}

/// The same, which does everything and has nothing to complain of; gives how many were redriven
/// from dead letters and from records.
async fn redriven(stage: &Stage, arguments: &[&str]) -> (u64, u64) {
    let ran = redrive(stage, arguments).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    counts(&ran.json()["redriven"])
}

fn counts(sources: &Value) -> (u64, u64) {
    let count = |name: &str| {
        sources[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{sources}"))
    };
    (count("deadLetters"), count("records"))
}

/// The bodies of all messages that were sent to the jobs queue, in order.
fn sent(stage: &Stage) -> Vec<String> {
    let body = |entry: Value| entry["MessageBody"].as_str().unwrap().to_owned();
    stage.sent_since(0).into_iter().map(body).collect()
}

/// The ids of the dead letters that can be received.
fn visible(stage: &Stage) -> Vec<String> {
    let letters = stage.aws.dead_letters().into_iter();
    letters
        .filter_map(|(id, visible)| visible.then_some(id))
        .collect()
}

/// The names of the calls that change something, in order.
fn changes(stage: &Stage) -> Vec<String> {
    let calls = stage.aws.all_calls().into_iter();
    calls
        .map(|call| call.operation)
        .filter(|name| {
            ["SendMessageBatch", "UpdateItem", "DeleteMessageBatch"].contains(&name.as_str())
        })
        .collect()
}

const NONE: [String; 0] = [];
