//! The verbs for partners, the real program against AWS as the tests play it: who is subscribed to
//! what, and with which secret.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where it stands"
)]

mod endpoint;
mod look;
mod rotate;
mod secret;
mod subscribe;
mod switch;
mod trouble;
mod unsubscribe;

use e2e::command::Ran;
use e2e::stage::Stage;
use serde_json::{Value, json};

const WEBHOOKS: &str = env!("CARGO_BIN_EXE_webhooks");

const PARAMETER: &str = "/webhooks/kasse-nord/signing-secret";

/// A stage with a stack of two event types.
async fn stage() -> Stage {
    let stage = Stage::for_command().await;
    let types = "OrderPaid,OrderRefunded";
    stage.aws.set_stack_parameter("EventTypes", types);
    stage
}

async fn run(stage: &Stage, arguments: &[&str]) -> Ran {
    stage.run(WEBHOOKS, arguments).await
}

/// Runs a command that succeeds without a word beside its report, which is given as JSON.
async fn done(stage: &Stage, arguments: &[&str]) -> Value {
    let ran = run(stage, &[arguments, &["--json"]].concat()).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    ran.json()
}

/// Runs a command that fails, and gives its exit code and what it said.
async fn failed(stage: &Stage, arguments: &[&str]) -> (Option<i32>, String) {
    let ran = run(stage, arguments).await;
    assert_eq!(ran.stdout, "", "{ran:?}");
    (ran.code, ran.stderr)
}

/// A row of kasse-nord, with what differs from an enabled one.
fn put_row(stage: &Stage, event_type: &str, changes: &Value) -> Value {
    let mut row = json!({
        "eventType": {"S": event_type},
        "subscriberId": {"S": "kasse-nord"},
        "url": {"S": "https://8.8.8.8/hook"},
        "enabled": {"BOOL": true},
    });
    for (name, value) in changes.as_object().unwrap() {
        row[name] = value.clone();
    }
    row.as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    stage.aws.put_row(row.clone());
    row
}

/// The names of the calls that change something, in order.
fn changes(stage: &Stage) -> Vec<String> {
    let calls = stage.aws.all_calls().into_iter();
    calls
        .map(|call| call.operation)
        .filter(|name| {
            [
                "UpdateItem",
                "DeleteItem",
                "PutParameter",
                "DeleteParameter",
            ]
            .contains(&name.as_str())
        })
        .collect()
}

const NONE: [String; 0] = [];
