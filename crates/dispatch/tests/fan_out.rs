//! One event becomes one job for each subscriber: which rows, in which calls, in which form. The
//! real program runs between a played Lambda and a played AWS.

use std::collections::BTreeSet;

use e2e::bridge_event::{ID, event, payload};
use e2e::fake_aws::Reply;
use e2e::stage::{QUEUE_URL, Stage};
use serde_json::{Value, json};
use webhooks_core::calls::Calls;

const DISPATCH: &str = env!("CARGO_BIN_EXE_dispatch");

fn groups(entries: &[Value]) -> Vec<&str> {
    entries
        .iter()
        .filter_map(|entry| entry["MessageGroupId"].as_str())
        .collect()
}

#[tokio::test]
async fn a_job_carries_the_delivery_in_the_wire_format_and_nothing_else() {
    let stage = Stage::for_dispatch().await;
    stage
        .aws
        .put_subscription("OrderPaid", "kasse-nord", "https://example.com/hook?a=1");
    let dispatch = stage.start(DISPATCH).await;

    stage
        .dispatch(&dispatch, &event("OrderPaid", r#"{"orderId":"K-1001"}"#))
        .await;

    let body = format!(
        r#"{{"webhookId":"msg_{ID}_kasse-nord","eventId":"{ID}","eventType":"OrderPaid","subscriberId":"kasse-nord","occurredAt":"2026-10-29T12:00:00Z","url":"https://example.com/hook?a=1","body":{{"type":"OrderPaid","timestamp":"2026-10-29T12:00:00Z","data":{{"orderId":"K-1001"}}}}}}"#
    );
    assert_eq!(
        stage.aws.calls("SendMessageBatch"),
        [json!({
            "QueueUrl": QUEUE_URL,
            "Entries": [{"Id": "0", "MessageBody": body, "MessageGroupId": "kasse-nord"}],
        })]
    );
}

#[tokio::test]
async fn ten_jobs_go_into_one_call_however_many_subscribers_there_are() {
    for (subscribers, calls) in [(0, 0), (1, 1), (10, 1), (11, 2), (25, 3), (1000, 100)] {
        let stage = Stage::for_dispatch().await;
        let names: BTreeSet<String> = (0..subscribers).map(|n| format!("s{n:04}")).collect();
        for name in &names {
            stage
                .aws
                .put_subscription("OrderPaid", name, "https://example.com/");
        }
        let dispatch = stage.start(DISPATCH).await;

        let entries = stage.dispatch(&dispatch, &event("OrderPaid", "{}")).await;

        assert_eq!(stage.aws.calls("SendMessageBatch").len(), calls);
        assert_eq!(entries.len(), subscribers);
        let sent: BTreeSet<String> = groups(&entries).into_iter().map(String::from).collect();
        assert_eq!(sent, names);
    }
}

#[tokio::test]
async fn an_event_takes_the_calls_that_the_cost_model_counts() {
    for (subscribers, bytes) in [
        (0, 10),
        (1, 600),
        (3, 600),
        (10, 600),
        (25, 600),
        (10, 300_000),
    ] {
        let stage = Stage::for_dispatch().await;
        for n in 0..subscribers {
            let name = format!("s{n:04}");
            stage
                .aws
                .put_subscription("OrderPaid", &name, "https://example.com/");
        }
        let dispatch = stage.start(DISPATCH).await;
        let detail = format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes));

        let entries = stage
            .dispatch(&dispatch, &event("OrderPaid", &detail))
            .await;

        let job_bytes = entries
            .first()
            .and_then(|entry| entry["MessageBody"].as_str())
            .map_or(0, str::len);
        let made = stage.aws.all_calls();
        let expected = Calls::of_event(subscribers, 1, job_bytes).by_name();
        let counted = expected.map(|(name, _)| {
            let calls = made.iter().filter(|call| call.operation == name);
            (name, calls.count() as f64)
        });
        assert_eq!(counted, expected);
        let all: f64 = counted.iter().map(|(_, count)| count).sum();
        assert_eq!(made.len() as f64, all, "{made:?}");
    }
}

#[tokio::test]
async fn a_call_stays_within_one_mebibyte() {
    let stage = Stage::for_dispatch().await;
    for n in 0..5 {
        stage
            .aws
            .put_subscription("OrderPaid", &format!("s{n}"), "https://example.com/");
    }
    let dispatch = stage.start(DISPATCH).await;
    // Two bytes in UTF-8 each: what counts is bytes.
    let detail = format!(r#"{{"text":"{}"}}"#, "é".repeat(150 * 1024));

    stage
        .dispatch(&dispatch, &event("OrderPaid", &detail))
        .await;

    let mut sizes = Vec::new();
    for call in stage.aws.calls("SendMessageBatch") {
        let entries = call["Entries"].as_array().unwrap();
        let bytes = entries
            .iter()
            .map(|entry| entry["MessageBody"].as_str().unwrap().len());
        assert!(bytes.sum::<usize>() <= 1_048_576);
        sizes.push(entries.len());
    }
    sizes.sort_unstable();
    assert_eq!(sizes, [2, 3]);
}

#[tokio::test]
async fn a_job_too_large_for_sqs_fails_the_event_and_the_others_are_sent() {
    let stage = Stage::for_dispatch().await;
    let long = format!("https://example.com/{}", "x".repeat(2000));
    stage
        .aws
        .put_subscription("OrderPaid", "a", "https://example.com/");
    stage.aws.put_subscription("OrderPaid", "b", &long);
    stage
        .aws
        .put_subscription("OrderPaid", "c", "https://example.com/");
    let dispatch = stage.start(DISPATCH).await;
    let detail = format!(r#"{{"text":"{}"}}"#, "x".repeat(1_048_576 - 1000));

    let ending = dispatch
        .invoke(&event("OrderPaid", &detail), e2e::stage::FUNCTION_TIMEOUT)
        .await;

    assert_eq!(ending.error_message(), "1 of 3 jobs were not sent");
    let entries = stage.sent_since(0);
    let sent: BTreeSet<&str> = groups(&entries).into_iter().collect();
    assert_eq!(sent, BTreeSet::from(["a", "c"]));
    dispatch
        .line_with(&["ERROR", r#""subscriberId":"b""#, "1048576"])
        .await;
}

#[tokio::test]
async fn every_page_is_read_and_an_empty_one_is_not_the_last() {
    let stage = Stage::for_dispatch().await;
    let row = |name: &str| {
        json!({
            "eventType": {"S": "OrderPaid"},
            "subscriberId": {"S": name},
            "url": {"S": "https://example.com/"},
            "enabled": {"BOOL": true},
        })
    };
    let key = |name: &str| json!({"eventType": {"S": "OrderPaid"}, "subscriberId": {"S": name}});
    stage.aws.next(
        "Query",
        [
            json!({"Items": [], "Count": 0, "LastEvaluatedKey": key("a")}),
            json!({"Items": [row("b"), row("c")], "Count": 2, "LastEvaluatedKey": key("c")}),
            json!({"Items": [], "Count": 0, "LastEvaluatedKey": key("d")}),
            json!({"Items": [row("e")], "Count": 1}),
        ]
        .map(Reply::Output),
    );
    let dispatch = stage.start(DISPATCH).await;

    let entries = stage.dispatch(&dispatch, &event("OrderPaid", "{}")).await;

    assert_eq!(groups(&entries), ["b", "c", "e"]);
    let queries = stage.aws.calls("Query");
    let starts: Vec<&Value> = queries
        .iter()
        .map(|query| &query["ExclusiveStartKey"])
        .collect();
    assert_eq!(starts, [&Value::Null, &key("a"), &key("c"), &key("d")]);
    for query in queries {
        assert_eq!(
            query["ConsistentRead"], true,
            "a row that is younger than the event is there: {query}"
        );
    }
}

#[tokio::test]
async fn three_thousand_rows_become_three_thousand_jobs() {
    let stage = Stage::for_dispatch().await;
    stage.aws.set_page_size(700);
    for n in 0..3000 {
        stage
            .aws
            .put_subscription("OrderPaid", &format!("s{n}"), "https://example.com/");
    }
    let dispatch = stage.start(DISPATCH).await;

    let entries = stage.dispatch(&dispatch, &event("OrderPaid", "{}")).await;

    assert_eq!(stage.aws.calls("Query").len(), 5);
    let distinct: BTreeSet<&str> = groups(&entries).into_iter().collect();
    assert_eq!((entries.len(), distinct.len()), (3000, 3000));
}

#[tokio::test]
async fn only_enabled_rows_of_exactly_that_type_get_a_job() {
    for event_type in [
        "OrderPaid",
        "Order Placed",
        "a/b",
        "заказ",
        " lead",
        "order\r\nx: y",
    ] {
        let stage = Stage::for_dispatch().await;
        let put = |event_type: &str, name: &str| {
            stage
                .aws
                .put_subscription(event_type, name, "https://example.com/");
        };
        put(event_type, "wanted");
        for other in [
            "orderpaid",
            "ORDERPAID",
            "OrderPaid ",
            "Order",
            "lead",
            "order",
        ] {
            put(other, "other");
        }
        stage.aws.put_row(json!({
            "eventType": {"S": event_type},
            "subscriberId": {"S": "disabled"},
            "url": {"S": "https://example.com/"},
            "enabled": {"BOOL": false},
        }));
        let dispatch = stage.start(DISPATCH).await;

        let entries = stage.dispatch(&dispatch, &event(event_type, "{}")).await;

        assert_eq!(groups(&entries), ["wanted"], "{event_type:?}");
        let job: Value = serde_json::from_str(entries[0]["MessageBody"].as_str().unwrap()).unwrap();
        assert_eq!(job["eventType"], event_type);
        assert_eq!(job["body"]["type"], event_type);
    }
}

#[tokio::test]
async fn a_row_that_is_no_subscription_is_named_in_the_log_and_the_others_are_sent() {
    let stage = Stage::for_dispatch().await;
    let good_url = json!({"S": "https://example.com/"});
    let on = json!({"BOOL": true});
    let long = "x".repeat(129);
    let rows = [
        ("no-url", json!({"enabled": on})),
        ("url-null", json!({"url": {"NULL": true}, "enabled": on})),
        ("url-number", json!({"url": {"N": "1"}, "enabled": on})),
        ("url-empty", json!({"url": {"S": ""}, "enabled": on})),
        ("no-enabled", json!({"url": good_url})),
        (
            "enabled-text",
            json!({"url": good_url, "enabled": {"S": "true"}}),
        ),
        ("客户 1", json!({"url": good_url, "enabled": on})),
        ("a b", json!({"url": good_url, "enabled": on})),
        ("😀", json!({"url": good_url, "enabled": on})),
        ("a.b", json!({"url": good_url, "enabled": on})),
        (long.as_str(), json!({"url": good_url, "enabled": on})),
    ];
    for (name, mut row) in rows.clone() {
        row["eventType"] = json!({"S": "OrderPaid"});
        row["subscriberId"] = json!({"S": name});
        stage.aws.put_row(row);
    }
    for name in ["0-first", "m-between", "z-last"] {
        stage
            .aws
            .put_subscription("OrderPaid", name, "https://example.com/");
    }
    let dispatch = stage.start(DISPATCH).await;

    let entries = stage.dispatch(&dispatch, &event("OrderPaid", "{}")).await;

    assert_eq!(groups(&entries), ["0-first", "m-between", "z-last"]);
    for (name, _) in &rows {
        dispatch.line_with(&["ERROR", name]).await;
    }
}

#[tokio::test]
async fn the_detail_reaches_the_job_byte_for_byte() {
    let stage = Stage::for_dispatch().await;
    stage
        .aws
        .put_subscription("OrderPaid", "s", "https://example.com/");
    let dispatch = stage.start(DISPATCH).await;
    for detail in [
        r#"{}"#,
        r#"{"a":1.0}"#,
        r#"{"a":12345678901234567890}"#,
        r#"{"a":123456789012345678901234567890}"#,
        r#"{"a":0.1234567890123456789}"#,
        r#"{"a":-0}"#,
        r#"{"a":1E5,"b":0.10}"#,
        r#"{"a":1e400}"#,
        r#"{"b":1,"a":2}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"b":1,"a":"é"}"#,
        r#"{"a":"é\/\ud800"}"#,
        r#"{"a":"😀"}"#,
        r#"{"$serde_json::private::Number":"1"}"#,
        r#"{"$serde_json::private::RawValue":"1"}"#,
        "{ \"a\" :\t[1 , 2] }",
    ] {
        let entries = stage.dispatch(&dispatch, &event("OrderPaid", detail)).await;
        let message = entries[0]["MessageBody"].as_str().unwrap();
        let expected = format!(r#","body":{}}}"#, payload("OrderPaid", detail));
        assert!(message.ends_with(&expected), "{detail}: {message}");
    }
}

#[tokio::test]
async fn what_sqs_refuses_travels_as_an_escape_and_means_the_same() {
    let stage = Stage::for_dispatch().await;
    stage
        .aws
        .put_subscription("OrderPaid", "s", "https://example.com/");
    let dispatch = stage.start(DISPATCH).await;
    let detail = "{\"a\":\"x\u{ffff}y\u{fffe}z\u{fffd}😀\u{7f}\"}";

    let entries = stage.dispatch(&dispatch, &event("OrderPaid", detail)).await;

    let message = entries[0]["MessageBody"].as_str().unwrap();
    let escaped = "{\"a\":\"x\\uffffy\\ufffez\u{fffd}😀\u{7f}\"}";
    assert!(message.contains(escaped), "{message}");
    let job: Value = serde_json::from_str(message).unwrap();
    assert_eq!(
        job["body"]["data"]["a"],
        "x\u{ffff}y\u{fffe}z\u{fffd}😀\u{7f}"
    );
}

#[tokio::test]
async fn a_repeated_or_replayed_event_makes_the_same_deliveries() {
    let stage = Stage::for_dispatch().await;
    for name in ["a", "b"] {
        stage
            .aws
            .put_subscription("OrderPaid", name, "https://example.com/");
    }
    let dispatch = stage.start(DISPATCH).await;
    let published = event("OrderPaid", "{}");
    let replayed = published.replacen('{', r#"{"replay-name":"r1","#, 1);

    let first = stage.dispatch(&dispatch, &published).await;
    let again = stage.dispatch(&dispatch, &published).await;
    let replay = stage.dispatch(&dispatch, &replayed).await;

    assert_eq!(first.len(), 2);
    assert_eq!(again, first);
    assert_eq!(replay, first);
}

#[tokio::test]
async fn a_dot_in_the_events_id_never_reaches_the_webhook_id() {
    let stage = Stage::for_dispatch().await;
    stage
        .aws
        .put_subscription("OrderPaid", "s", "https://example.com/");
    let dispatch = stage.start(DISPATCH).await;
    let mut ids = BTreeSet::new();
    for id in ["evt_1.1700000000", "evt_1-1700000000", "evt_1"] {
        let json = event("OrderPaid", "{}").replace(ID, id);
        let entries = stage.dispatch(&dispatch, &json).await;
        let job: Value = serde_json::from_str(entries[0]["MessageBody"].as_str().unwrap()).unwrap();
        assert_eq!(job["eventId"], id);
        let webhook_id = job["webhookId"].as_str().unwrap().to_owned();
        assert!(!webhook_id.contains('.'), "{webhook_id}");
        ids.insert(webhook_id);
    }
    assert_eq!(ids.len(), 3);
}
