//! A new operator with the README alone: registers a partner, pings it, sees an event arrive, gives
//! it a new secret, and asks `webhooks doctor`, which is content. Then things are broken, and it
//! names each.

use e2e::command::Ran;
use e2e::receiver::{Answer, Received, Receiver};
use e2e::signature::assert_signed;
use e2e::stack::{Queue, Stack};
use serde_json::{Value, json};

use crate::body;

/// Runs a verb that must succeed, and gives what it says as JSON.
async fn webhooks(stack: &Stack, arguments: &[&str]) -> Value {
    let ran = stack.webhooks(&[arguments, &["--json"]].concat()).await;
    assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
    ran.json()
}

/// What `doctor` calls a problem: subject and what it has found.
async fn problems(stack: &Stack) -> (Ran, Vec<(String, String)>) {
    let ran = stack.webhooks(&["doctor", "--json"]).await;
    let report = ran.json();
    let text = |check: &Value, name: &str| check[name].as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap().iter();
    let problems = checks
        .filter(|check| check["level"] == "problem")
        .inspect(|check| assert!(check["mend"].is_string(), "{check}"))
        .map(|check| (text(check, "subject"), text(check, "found")))
        .collect();
    (ran, problems)
}

async fn nth_request(receiver: &Receiver, number: usize) -> Received {
    receiver.wait_for(number).await[number - 1].clone()
}

#[tokio::test]
async fn a_partner_is_registered_and_what_is_broken_afterwards_is_named() {
    let stack = Stack::start_with(&[("SecretCacheSeconds", "1")]).await;
    let receiver = Receiver::always(Answer::status(204)).await;
    let url = receiver.url("/webhooks?token=t-1");

    // The secret is shown.
    let subscribe = [
        "subscribe",
        "kasse-neu",
        "--event",
        "OrderPaid",
        "--url",
        &url,
    ];
    let first = webhooks(&stack, &subscribe).await;
    let secret = first["secret"]["secret"].as_str().unwrap().to_owned();
    let second = webhooks(&stack, &subscribe).await;
    assert_eq!(second["secret"]["state"], "there", "{second}");
    assert_eq!(second["secret"]["secret"], Value::Null, "{second}");

    webhooks(&stack, &["ping", "kasse-neu"]).await;
    let ping = nth_request(&receiver, 1).await;
    assert_eq!(body(&ping)["type"], "webhooks.ping");
    assert_eq!(ping.target, "/webhooks?token=t-1");
    assert_signed(&ping, &[&secret]);

    let file = e2e::stack::repository().join("events/order-paid.json");
    let published = webhooks(&stack, &["publish", file.to_str().unwrap()]).await;
    let webhook = nth_request(&receiver, 2).await;
    assert_eq!(body(&webhook)["type"], "OrderPaid");
    assert_signed(&webhook, &[&secret]);
    let webhook_id = webhook.header("webhook-id").unwrap();
    assert!(published.to_string().contains(webhook_id), "{published}");

    let rotated = webhooks(&stack, &["secret", "rotate", "kasse-neu"]).await;
    let new = rotated["secret"].as_str().unwrap();
    webhooks(&stack, &["ping", "kasse-neu"]).await;
    let ping = nth_request(&receiver, 3).await;
    assert_signed(&ping, &[new, &secret]);

    let listed = stack.webhooks(&["list"]).await;
    assert!(listed.stdout.contains("kasse-neu"), "{listed:?}");
    assert!(!listed.stdout.contains("t-1"), "{listed:?}");
    let (well, found) = problems(&stack).await;
    assert_eq!((well.code, found), (Some(0), vec![]), "{well:?}");

    every_other_verb(&stack).await;
    break_things(&stack, &receiver).await;
}

/// The verbs that a new operator has not needed yet, as text and as JSON.
async fn every_other_verb(stack: &Stack) {
    let shown = webhooks(stack, &["show", "kasse-neu"]).await;
    assert_eq!(
        shown["subscriptions"][0]["eventType"], "OrderPaid",
        "{shown}"
    );
    assert!(!shown.to_string().contains("t-1"), "{shown}");
    let disable = ["disable", "kasse-neu", "--reason", "moves house"];
    webhooks(stack, &disable).await;
    let listed = webhooks(stack, &["list", "--subscriber", "kasse-neu"]).await;
    assert!(listed.to_string().contains("moves house"), "{listed}");
    webhooks(stack, &["enable", "kasse-neu"]).await;
    let file = e2e::stack::repository().join("events/order-paid.json");
    for arguments in [
        &["list"][..],
        &["show", "kasse-neu"],
        &["disable", "kasse-neu", "--reason", "moves house"],
        &["enable", "kasse-neu"],
        &["secret", "show", "kasse-neu"],
        &["secret", "list"],
        &["secret", "new", "kasse-bald"],
        &["log", "--subscriber", "kasse-neu"],
        &["stats"],
        &["schedule", "--stack", "sqs-webhooks"],
        &["publish", file.to_str().unwrap()],
        &["redrive", "--dry-run"],
        &[
            "unsubscribe",
            "kasse-neu",
            "--event",
            "OrderRefunded",
            "--yes",
        ],
    ] {
        let ran = stack.webhooks(arguments).await;
        // Nobody is subscribed to that.
        let expected = if arguments.contains(&"unsubscribe") {
            3
        } else {
            0
        };
        assert_eq!(ran.code, Some(expected), "{arguments:?}: {ran:?}");
    }
    for arguments in [
        &["secret", "show", "kasse-neu"][..],
        &["secret", "list"],
        &["secret", "new", "kasse-dann"],
        &["log", "--subscriber", "kasse-neu"],
        &["stats"],
        &["schedule", "--stack", "sqs-webhooks"],
        &["redrive", "--dry-run"],
    ] {
        webhooks(stack, arguments).await;
    }
    // One that is gone again, with its secret.
    let subscribe = [
        "subscribe",
        "kurz",
        "--event",
        "OrderPacked",
        "--url",
        "http://127.0.0.1:9/",
    ];
    webhooks(stack, &subscribe).await;
    webhooks(stack, &["unsubscribe", "kurz", "--delete-secret", "--yes"]).await;
    let gone = stack.webhooks(&["show", "kurz"]).await;
    assert_eq!(gone.code, Some(3), "{gone:?}");
}

async fn break_things(stack: &Stack, receiver: &Receiver) {
    let expected = [
        // A partner without a secret, one whose secret is none, and one with a url that nobody may
        // call.
        ("secrets", "ohne-secret"),
        ("secrets", "kaputt"),
        ("subscriptions", "verirrt"),
        // Nobody works on the jobs queue, and no event reaches dispatch.
        ("jobs to deliver", "Disabled"),
        ("event rule", "DISABLED"),
        // A message that no redrive policy has moved there.
        ("dead letters", "1"),
        // The queue moves a message before its attempts are used up.
        ("jobs queue", "maxReceiveCount"),
    ];
    let url = receiver.url("/");
    for name in ["ohne-secret", "kaputt"] {
        stack.put_row("OrderPaid", name, &url).await;
    }
    stack.put_secret("kaputt", "hunter2").await;
    stack
        .put_row("OrderPaid", "verirrt", "ftp://127.0.0.1/")
        .await;
    stack
        .put_secret("verirrt", &e2e::signature::secret_for("verirrt"))
        .await;
    stack.switch_trigger(false).await;
    let rule = stack.output("EventRuleArn").rsplit(':').next().unwrap();
    let rule: Vec<&str> = rule.split('/').collect();
    let rule = json!({"Name": rule.last(), "EventBusName": stack.output("EventBusName")});
    stack.call("events", "DisableRule", &rule).await;
    stack.send(Queue::DeadLetters, "{}").await;
    let queue =
        json!({"QueueUrl": stack.output("JobsQueueUrl"), "AttributeNames": ["RedrivePolicy"]});
    let read = stack.call("sqs", "GetQueueAttributes", &queue).await;
    let policy = read["Attributes"]["RedrivePolicy"].as_str().unwrap();
    let mut policy: Value = serde_json::from_str(policy).unwrap();
    policy["maxReceiveCount"] = json!(3);
    let changed = json!({
        "QueueUrl": stack.output("JobsQueueUrl"),
        "Attributes": {"RedrivePolicy": policy.to_string()},
    });
    stack.call("sqs", "SetQueueAttributes", &changed).await;

    let (ill, found) = problems(stack).await;

    assert_eq!(ill.code, Some(1), "{ill:?}");
    for (subject, word) in expected {
        let is_named = |(of, told): &(String, String)| of == subject && told.contains(word);
        assert!(found.iter().any(is_named), "{subject} {word}: {found:#?}");
    }
    let as_text = stack.webhooks(&["doctor"]).await;
    assert_eq!(as_text.code, Some(1));
    for (_, told) in &found {
        assert!(as_text.stdout.contains(told), "{told}: {as_text:?}");
    }
}
