//! The function as it is deployed, with the events of a function URL, and AWS played.
//!
//! | module | tells |
//! |---|---|
//! | [`taken`] | what is stored, once |
//! | [`refused`] | what is not, and with which words |
//! | [`unavailable`] | AWS that fails: the sender is to try again |
//! | [`start`] | the environment variables |

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it stands"
)]

mod refused;
mod start;
mod taken;
mod unavailable;

use e2e::runtime::{Ending, Environment};
use e2e::stage::{FUNCTION_TIMEOUT, RECEIVER_PARAMETER, Stage};
use serde_json::{Value, json};

const RECEIVER: &str = env!("CARGO_BIN_EXE_receiver");

/// A stage on which the receiver has these secrets.
async fn stage(secrets: &str) -> Stage {
    let stage = Stage::for_receiver().await;
    stage.aws.put_parameter(RECEIVER_PARAMETER, secrets);
    stage
}

/// What the function returns for an event.
async fn answer(receiver: &Environment, event: &Value) -> Value {
    let ending = receiver.invoke(&event.to_string(), FUNCTION_TIMEOUT).await;
    let Ending::Response(response) = ending else {
        panic!("{ending:?}:\n{}", receiver.stop().await.join("\n"));
    };
    serde_json::from_slice(&response).unwrap()
}

/// An answer with this body and no headers but the usual one.
fn response(status: u16, body: &str) -> Value {
    json!({
        "statusCode": status,
        "headers": {"content-type": "application/json"},
        "body": body,
        "isBase64Encoded": false,
    })
}

fn stored() -> Value {
    response(202, r#"{"result":"stored"}"#)
}

fn repeat() -> Value {
    response(200, r#"{"result":"repeat"}"#)
}

fn refused(status: u16, reason: &str) -> Value {
    response(
        status,
        &json!({"reason": reason, "result": "refused"}).to_string(),
    )
}
