//! What partners verify, with the official libraries of Rust and Python and with a second reading
//! of the specification.

use std::time::Duration;

use e2e::receiver::{Answer, Received};
use e2e::signature::{assert_signed, secret_for};
use e2e::stack::{python, repository, run};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::policies::STANDARD;
use crate::{assert_carries, detail};

/// How long the Python library may take.
const PYTHON_LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn partners_verify_with_their_own_secrets_and_with_both_during_a_rotation() {
    let stack = STANDARD.stack().await;
    let accept = || [Answer::status(204)];
    let mut nord = stack.partner("OrderPacked", "kasse-nord", accept()).await;
    let mut sued = stack.partner("OrderPacked", "kasse-sued", accept()).await;
    let mut rotating = stack.partner("OrderPacked", "rotating", accept()).await;
    let mut rotated = stack.partner("OrderPacked", "rotated", accept()).await;
    let (new, old) = (secret_for("the new one"), secret_for("the old one"));
    let value = format!("{new} {old};until=2099-12-31T00:00:00Z");
    stack.put_secret("rotating", &value).await;
    let value = format!("{new}\n{old};until=2026-01-01T00:00:00Z\n");
    stack.put_secret("rotated", &value).await;

    let event_id = stack.publish("OrderPacked", &detail()).await;

    let at_nord = nord.next_post(&nord.webhook_id(&event_id)).await;
    let at_sued = sued.next_post(&sued.webhook_id(&event_id)).await;
    let at_rotating = rotating.next_request().await;
    let at_rotated = rotated.next_request().await;
    assert_signed(&at_rotating, &[&new, &old]);
    assert_signed(&at_rotated, &[&new]);
    for post in [&at_nord, &at_sued, &at_rotating, &at_rotated] {
        assert_carries(post, "OrderPacked", &detail());
    }

    let refused = Some("No matching signature found");
    assert_python_says(&[
        (&at_nord, &nord.secret, None),
        (&at_sued, &sued.secret, None),
        (&at_rotating, &new, None),
        (&at_rotating, &old, None),
        (&at_rotated, &new, None),
        (&at_rotated, &old, refused),
        (&at_nord, &sued.secret, refused),
        (&at_rotating, &nord.secret, refused),
    ])
    .await;
}

/// Text beyond ASCII, and the escapes that JSON has for it, pass both signer and verifiers.
#[tokio::test]
async fn any_text_of_an_event_is_delivered_and_verified() {
    let stack = STANDARD.stack().await;
    let mut partner = stack
        .partner("OrderMerged", "kasse-nord", [Answer::status(204)])
        .await;
    let detail = json!({"name": "Käse & Söhne \u{1f9c0}", "note": "\"\\/\u{2028}\u{0}\r\n<>"});

    let event_id = stack.publish("OrderMerged", &detail).await;

    let post = partner.next_post(&partner.webhook_id(&event_id)).await;
    assert_carries(&post, "OrderMerged", &detail);
    assert_python_says(&[(&post, &partner.secret, None)]).await;
}

/// Compares what the Python library says to webhooks with a secret each: nothing, or a complaint.
async fn assert_python_says(webhooks: &[(&Received, &String, Option<&str>)]) {
    let mut questions = Vec::new();
    for (post, secret, _) in webhooks {
        let headers = post.headers.iter().cloned();
        questions.push(json!({
            "secret": secret,
            "headers": headers.map(|(name, value)| (name, value.into())).collect::<serde_json::Map<_, _>>(),
            "body": post.text(),
        }));
    }
    let mut verify = Command::new(python().unwrap());
    verify.arg(repository().join("tests").join("verify.py"));
    let questions = Value::from(questions).to_string();
    let answers = run(verify, &questions, PYTHON_LIMIT).await.unwrap();
    let answers: Vec<Option<String>> = serde_json::from_str(&answers).unwrap();
    let expected: Vec<Option<String>> = webhooks
        .iter()
        .map(|(_, _, complaint)| complaint.map(str::to_owned))
        .collect();
    assert_eq!(answers, expected);
}
