//! The deployed service, end to end: events go in by `PutEvents`, and what is looked at is what
//! partners receive and what an operator sees in AWS.
//!
//! | module | tells |
//! |---|---|
//! | [`endings`] | every way in which a delivery can end |
//! | [`fan_out`] | from an event to its jobs, and what cannot become jobs |
//! | [`signatures`] | what partners verify, with the official libraries |
//! | [`registration`] | what a new operator does with the `webhooks` command, and `doctor` |
//! | [`rotation`] | a new secret while webhooks go out |
//! | [`partner`] | the other end: our receiver, deployed and on this machine |
//! | [`policies`] | what each retry policy promises, and when |
//! | [`redrive`] | how a dead delivery gets a new life |
//! | [`operators`] | what the `webhooks` command tells, and sends again |
//! | [`notices`] | what operators are told by the service itself |
//! | [`batches`] | one record that harms no other, and a crash that loses nothing |
//! | [`outages`] | AWS that fails for a while |
//! | [`side_by_side`] | that stacks do not meet |
//!
//! They need what `make build` makes; `make e2e` makes it and runs them. Most of the time is
//! waiting, so it sets `RUST_TEST_THREADS` to run all of them at once. The tests that disturb
//! others have a stack of their own, the others share one.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops where it stands"
)]

mod batches;
mod endings;
mod fan_out;
mod notices;
mod operators;
mod outages;
mod partner;
mod policies;
mod redrive;
mod registration;
mod rotation;
mod side_by_side;
mod signatures;

use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use e2e::receiver::Received;
use serde_json::{Value, json};

/// What an event is about, if a test does not mind.
fn detail() -> Value {
    json!({"orderId": "K-1001", "total": 129.9})
}

/// Checks that a webhook carries an event that has just been published. Byte for byte it cannot
/// be compared here, since the local EventBridge writes `detail` in its own way.
fn assert_carries(post: &Received, event_type: &str, detail: &Value) {
    let body = body(post);
    let timestamp = &body["timestamp"];
    assert_eq!(
        body,
        json!({"type": event_type, "timestamp": timestamp, "data": detail})
    );
    let happened = millis(timestamp) / 1000;
    let came = i64::try_from(post.at_unix_seconds).unwrap();
    assert!((happened..happened + 60).contains(&came), "{body}");
}

/// The payload of a webhook.
fn body(post: &Received) -> Value {
    serde_json::from_str(post.text()).unwrap()
}

/// A date of RFC 3339 in milliseconds since 1970.
fn millis(date: &Value) -> i64 {
    let date = date.as_str().expect("a date is a text");
    let date = DateTime::from_str(date, DateTimeFormat::DateTime).expect("a date");
    date.to_millis().expect("in the range of milliseconds")
}

/// The history of a delivery record in a few words: number, outcome and status of each attempt.
fn told(record: &Value) -> Vec<String> {
    let told = |entry: &Value| {
        let outcome = entry["outcome"].as_str().expect("an outcome");
        let status = entry.get("status").map(|status| format!(" {status}"));
        format!("{} {outcome}{}", entry["n"], status.unwrap_or_default())
    };
    record["history"]
        .as_array()
        .expect("a list")
        .iter()
        .map(told)
        .collect()
}

/// The timestamp of a webhook, in seconds since 1970.
fn timestamp(post: &Received) -> u64 {
    let timestamp = post.header("webhook-timestamp").expect("a timestamp");
    timestamp.parse().expect("seconds")
}

/// Checks that these are attempts of one delivery: the same bytes, each signed at its own time.
fn assert_attempts_of_one_delivery(posts: &[Received]) {
    for pair in posts.windows(2) {
        let [before, after] = pair else { continue };
        assert_eq!(before.header("webhook-id"), after.header("webhook-id"));
        assert_eq!(before.text(), after.text());
        assert!(timestamp(before) < timestamp(after), "{pair:?}");
    }
}
