//! `webhooks publish`, as a program that is run.

#![expect(clippy::unwrap_used, reason = "a test stops where it stands")]

use std::path::PathBuf;

use e2e::fake_aws::Reply;
use e2e::stage::Stage;
use serde_json::{Value, json};

const WEBHOOKS: &str = env!("CARGO_BIN_EXE_webhooks");
const EVENT_ID: &str = "17793124-05d4-b198-2fde-000000000000";

async fn stage() -> Stage {
    let stage = Stage::for_command().await;
    stage.aws.set_stack_parameter("EventSources", "shop.orders");
    stage
        .aws
        .set_stack_parameter("EventTypes", "OrderPaid,OrderRefunded");
    stage
}

fn sample(name: &str) -> String {
    format!("{}/../../events/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn file(name: &str, entries: &Value) -> PathBuf {
    let path = std::env::temp_dir().join(format!("webhooks-publish-{}-{name}", std::process::id()));
    std::fs::write(&path, entries.to_string()).unwrap();
    path
}

#[tokio::test]
async fn an_event_is_published_and_its_webhooks_are_told() {
    let stage = stage().await;
    stage
        .aws
        .put_subscription("OrderPaid", "kasse-sued", "https://s.example/");
    stage
        .aws
        .put_subscription("OrderPaid", "kasse-nord", "https://n.example/");
    stage
        .aws
        .put_subscription("OrderRefunded", "kasse-west", "https://w.example/");
    stage.aws.put_row(json!({
        "eventType": {"S": "OrderPaid"},
        "subscriberId": {"S": "kasse-ost"},
        "url": {"S": "https://o.example/"},
        "enabled": {"BOOL": false},
    }));
    let ran = stage
        .run(WEBHOOKS, &["publish", &sample("order-paid.json")])
        .await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        ran.stdout,
        format!(
            "OrderPaid {EVENT_ID}\n  msg_{EVENT_ID}_kasse-nord\n  msg_{EVENT_ID}_kasse-sued\n\n\
             On the bus sqs-webhooks. Follow what becomes of it with\n  \
             webhooks log --event {EVENT_ID}\n"
        )
    );
    let sample: Value =
        serde_json::from_str(include_str!("../../../events/order-paid.json")).unwrap();
    let calls = stage.aws.calls("PutEvents");
    assert_eq!(
        calls,
        [json!({"Entries": [{
            "Source": "shop.orders",
            "DetailType": "OrderPaid",
            "Detail": sample[0]["Detail"],
            "EventBusName": "sqs-webhooks",
        }]})]
    );
}

#[tokio::test]
async fn a_webhook_that_fails_by_broken_headers_is_told_all_the_same() {
    let stage = stage().await;
    let row = |subscriber: &str, url: &str, enabled: bool| {
        json!({
            "eventType": {"S": "OrderPaid"},
            "subscriberId": {"S": subscriber},
            "url": {"S": url},
            "enabled": {"BOOL": enabled},
            "headers": {"S": "X-Api-Key: k"},
        })
    };
    let url = "https://n.example/";
    stage.aws.put_row(row("kasse-nord", url, true));
    stage.aws.put_row(row("kasse-ost", url, false));
    stage.aws.put_row(row("kasse-west", "", true));
    let ran = stage
        .run(WEBHOOKS, &["publish", &sample("order-paid.json"), "--json"])
        .await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        ran.json()["events"][0]["webhookIds"],
        json!([format!("msg_{EVENT_ID}_kasse-nord")])
    );
    assert_eq!(
        ran.stderr,
        "the webhook to kasse-nord fails until the row of OrderPaid is mended: `headers`: not a \
         map (M)\n"
    );
}

#[tokio::test]
async fn a_detail_that_is_an_object_is_sent_byte_for_byte() {
    let stage = stage().await;
    let path = std::env::temp_dir().join(format!("webhooks-publish-{}-raw", std::process::id()));
    let detail = r#"{ "total": 129.90, "big":12345678901234567890}"#;
    let text = format!(r#"{{"Source":"shop.orders","DetailType":"OrderPaid","Detail":{detail}}}"#);
    std::fs::write(&path, text).unwrap();
    let ran = stage
        .run(WEBHOOKS, &["publish", path.to_str().unwrap(), "--json"])
        .await;
    assert_eq!(
        ran.json(),
        json!({
            "bus": "sqs-webhooks",
            "events": [{"eventId": EVENT_ID, "eventType": "OrderPaid", "webhookIds": []}],
        })
    );
    assert_eq!(
        stage.aws.calls("PutEvents")[0]["Entries"][0]["Detail"],
        detail
    );
}

#[tokio::test]
async fn what_the_rule_would_not_let_through_is_not_sent() {
    let stage = stage().await;
    let entry = json!({"Source": "shop.orders", "DetailType": "OrderLost", "Detail": {}});
    let path = file("lost", &json!([entry]));
    let ran = stage
        .run(WEBHOOKS, &["publish", path.to_str().unwrap()])
        .await;
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            Some(2),
            "webhooks: entry 1: the rule would not let it through: its DetailType is `OrderLost`, \
             and the stack's parameter EventTypes is `OrderPaid,OrderRefunded`\n"
        )
    );
    assert_eq!(stage.aws.calls("PutEvents"), [] as [Value; 0]);
}

#[tokio::test]
async fn an_entry_that_eventbridge_does_not_take_is_an_error() {
    let stage = stage().await;
    let answer = json!({"FailedEntryCount": 1, "Entries": [
        {"ErrorCode": "InternalFailure", "ErrorMessage": "try again"},
    ]});
    stage.aws.always("PutEvents", Reply::Output(answer));
    let ran = stage
        .run(WEBHOOKS, &["publish", &sample("order-paid.json")])
        .await;
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            Some(1),
            "webhooks: entry 1 was not taken: InternalFailure: try again\n"
        )
    );
    assert_eq!(ran.stdout, "");
}

#[tokio::test]
async fn a_permission_that_is_missing_is_named_before_anything_is_sent() {
    for (operation, action) in [("Scan", "dynamodb:Scan"), ("PutEvents", "events:PutEvents")] {
        let stage = stage().await;
        stage
            .aws
            .always(operation, Reply::error(400, "AccessDeniedException"));
        let ran = stage
            .run(WEBHOOKS, &["publish", &sample("order-paid.json")])
            .await;
        assert_eq!(ran.code, Some(1));
        let said =
            format!("webhooks: access denied, the credentials need the permission {action}: ");
        assert!(ran.stderr.starts_with(&said), "{ran:?}");
        let sent = stage.aws.calls("PutEvents").len();
        assert_eq!(sent, usize::from(operation == "PutEvents"));
    }
    let stage = stage().await;
    let sample = sample("order-paid.json");
    let ran = stage
        .run(WEBHOOKS, &["publish", &sample, "--stack", "shop"])
        .await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let ran = stage.run(WEBHOOKS, &["publish", "/nonexistent/file"]).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
}
