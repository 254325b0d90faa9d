//! The notices that this service publishes itself are no events for subscribers: a webhook that
//! fails would otherwise be told of by another webhook, and so on.

use e2e::bridge_event::{ID, event};
use e2e::runtime::Ending;
use e2e::stage::{FUNCTION_TIMEOUT, Stage};
use serde_json::Value;

const DISPATCH: &str = env!("CARGO_BIN_EXE_dispatch");

const NOTICES: [(&str, &str); 2] = [
    (
        "webhooks.delivery.dead",
        r#"{"webhookId":"msg_e1_kasse-nord","eventId":"e1","eventType":"OrderPaid","subscriberId":"kasse-nord","attempts":8,"reason":"attempts","status":500}"#,
    ),
    (
        "webhooks.subscription.disabled",
        r#"{"eventType":"OrderPaid","subscriberId":"kasse-nord","webhookId":"msg_e1_kasse-nord","reason":"the endpoint answered 410 Gone"}"#,
    ),
];

/// An event of another source than usual, which is given as JSON.
fn event_of(source: &str, event_type: &str, detail: &str) -> String {
    let event = event(event_type, detail);
    let from = r#""source":"shop.orders""#;
    assert!(event.contains(from));
    event.replace(from, &format!(r#""source":{source}"#))
}

/// A stage on which the notices, and an event of the shop, have a subscriber.
async fn stage() -> Stage {
    let stage = Stage::for_dispatch().await;
    for event_type in [NOTICES[0].0, NOTICES[1].0, "OrderPaid"] {
        stage
            .aws
            .put_subscription(event_type, "kasse-nord", "https://example.com/");
    }
    stage
}

#[tokio::test]
async fn a_notice_of_our_own_is_ignored_and_nothing_is_asked_of_aws() {
    let stage = stage().await;
    let dispatch = stage.start(DISPATCH).await;
    // The same text with an escape in it, as JSON may write it.
    let sources = [r#""sqs-webhooks""#, r#""sqs\u002dwebhooks""#];
    let mut expected = Vec::new();
    for source in sources {
        for (event_type, detail) in NOTICES {
            let event = event_of(source, event_type, detail);

            let ending = dispatch.invoke(&event, FUNCTION_TIMEOUT).await;

            assert!(matches!(ending, Ending::Response(_)), "{ending:?}");
            expected.push(event_type);
        }
    }
    assert_eq!(stage.aws.all_calls().len(), 0);
    let lines = dispatch.stop().await;
    let lines: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ignored: Vec<&Value> = lines.iter().map(|line| &line["eventType"]).collect();
    assert_eq!(ignored, expected);
    for line in &lines {
        assert_eq!(line["message"], "event.ignored");
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["eventId"], ID);
    }
}

#[tokio::test]
async fn it_is_the_source_that_decides_and_the_whole_of_it() {
    let stage = stage().await;
    let dispatch = stage.start(DISPATCH).await;
    let sources = [
        r#""shop.orders""#,
        r#""sqs-webhooks.shop""#,
        r#""my-sqs-webhooks""#,
        r#""SQS-Webhooks""#,
        r#"" sqs-webhooks""#,
        r#""""#,
        "null",
        "7",
    ];
    for source in sources {
        let sent = stage
            .dispatch(&dispatch, &event_of(source, NOTICES[0].0, "{}"))
            .await;

        assert_eq!(sent.len(), 1, "{source}");
    }
    // An event of ours is one whatever its type.
    let sent = stage
        .dispatch(&dispatch, &event_of(r#""sqs-webhooks""#, "OrderPaid", "{}"))
        .await;
    assert_eq!(sent, [] as [Value; 0]);
}
