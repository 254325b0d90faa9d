//! The subscriptions table at delivery: it is asked once per batch, and a row that could not be
//! read is never taken for a row that is gone.

use std::ops::RangeInclusive;
use std::time::Duration;

use e2e::fake_aws::Reply;
use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{DELIVERIES_TABLE, Stage, TABLE_NAME, failures, side_by_side};
use serde_json::{Value, json};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

const NONE: [&str; 0] = [];

/// The delay after the first fault of ours: five seconds, half of it random.
const FAULT_DELAY: RangeInclusive<i64> = 3..=5;

async fn subscribers(receiver: &Receiver, names: &[&str]) -> (Stage, Vec<Record>) {
    let stage = Stage::for_deliver().await;
    let mut records = Vec::new();
    for (n, name) in names.iter().enumerate() {
        stage.subscribe(name, &receiver.url(&format!("/{name}")));
        records.push(Record::of_event(n, name));
    }
    (stage, records)
}

fn key(event_type: &str, subscriber_id: &str) -> Value {
    json!({"eventType": {"S": event_type}, "subscriberId": {"S": subscriber_id}})
}

/// The key of the delivery record of an event to a subscriber.
fn record_key(event: usize, subscriber_id: &str) -> Value {
    json!({"webhookId": {"S": format!("msg_e{event}_{subscriber_id}")}})
}

fn keys_of(call: &Value, table: &str) -> Vec<Value> {
    let keys = call.pointer(&format!("/RequestItems/{table}/Keys"));
    let mut keys = keys.and_then(Value::as_array).cloned().unwrap_or_default();
    keys.sort_by_key(Value::to_string);
    keys
}

#[tokio::test]
async fn each_row_and_record_of_a_batch_is_asked_for_once_in_one_call() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, mut records) = subscribers(&receiver, &["a", "b", "a", "a"]).await;
    stage
        .aws
        .put_subscription("OrderRefunded", "a", &receiver.url("/refunds"));
    let mut refund = Job::for_subscriber("a").with_event_id("e4");
    refund.event_type = "OrderRefunded".into();
    records.push(Record::new(4, &refund.text()));
    // Once more the first one.
    records.push(records[0].clone());
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&NONE));
    let calls = stage.aws.calls("BatchGetItem");
    assert_eq!(calls.len(), 1);
    assert_eq!(
        keys_of(&calls[0], TABLE_NAME),
        [
            key("OrderPaid", "a"),
            key("OrderPaid", "b"),
            key("OrderRefunded", "a")
        ]
    );
    assert_eq!(
        keys_of(&calls[0], DELIVERIES_TABLE),
        [(0, "a"), (1, "b"), (2, "a"), (3, "a"), (4, "a")].map(|(n, name)| record_key(n, name))
    );
    for table in [TABLE_NAME, DELIVERIES_TABLE] {
        let request = &calls[0]["RequestItems"][table];
        assert_eq!(
            request["ConsistentRead"], true,
            "a row that is younger than the event is there: {request}"
        );
    }
    assert_eq!(receiver.requests_to("/a").len(), 3);
    assert_eq!(receiver.requests_to("/b").len(), 1);
    assert_eq!(receiver.requests_to("/refunds").len(), 1);
}

#[tokio::test]
async fn a_row_is_asked_for_again_with_every_batch() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, records) = subscribers(&receiver, &["a"]).await;
    let deliver = stage.start(DELIVER).await;

    stage.deliver(&deliver, &records).await;
    stage.aws.delete_row("OrderPaid", "a");
    let batch = stage.deliver(&deliver, &[Record::of_event(1, "a")]).await;

    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(receiver.requests().len(), 1);
    deliver
        .line_with(&["delivery.dropped", r#""messageId":"m1""#])
        .await;
}

#[tokio::test]
async fn keys_left_unprocessed_are_asked_for_again() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, records) = subscribers(&receiver, &["a", "b", "c"]).await;
    let row_of_b = stage.aws.row("OrderPaid", "b").unwrap();
    stage.aws.next(
        "BatchGetItem",
        [Reply::Output(json!({
            "Responses": {TABLE_NAME: [row_of_b], DELIVERIES_TABLE: []},
            "UnprocessedKeys": {
                TABLE_NAME: {"Keys": [key("OrderPaid", "a"), key("OrderPaid", "c")]},
                DELIVERIES_TABLE: {"Keys": [record_key(1, "b")]},
            },
        }))],
    );
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(receiver.requests().len(), 3);
    let calls = stage.aws.calls("BatchGetItem");
    assert_eq!(calls.len(), 2);
    assert_eq!(
        keys_of(&calls[1], TABLE_NAME),
        [key("OrderPaid", "a"), key("OrderPaid", "c")]
    );
    assert_eq!(keys_of(&calls[1], DELIVERIES_TABLE), [record_key(1, "b")]);
}

#[tokio::test]
async fn a_row_that_is_never_processed_keeps_its_delivery_and_spares_the_others() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, records) = subscribers(&receiver, &["a", "stuck", "c"]).await;
    let rows = ["a", "c"].map(|name| stage.aws.row("OrderPaid", name).unwrap());
    stage.aws.rule("BatchGetItem", move |input| {
        let keys = keys_of(input, TABLE_NAME);
        let rows = if keys.len() > 1 {
            json!(rows)
        } else {
            json!([])
        };
        Reply::Output(json!({
            "Responses": {TABLE_NAME: rows, DELIVERIES_TABLE: []},
            "UnprocessedKeys": {TABLE_NAME: {"Keys": [key("OrderPaid", "stuck")]}},
        }))
    });
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&["m1"]));
    batch.assert_delay(1, FAULT_DELAY);
    assert_eq!(receiver.requests().len(), 2);
    assert_eq!(receiver.requests_to("/stuck").len(), 0);
}

#[tokio::test]
async fn while_the_table_cannot_be_read_everything_is_kept_and_nothing_sent() {
    let replies = [
        Reply::error(400, "ProvisionedThroughputExceededException"),
        Reply::error(400, "ThrottlingException"),
        Reply::error(400, "AccessDeniedException"),
        Reply::error(400, "ResourceNotFoundException"),
        Reply::error(500, "InternalServerError"),
        Reply::Cut,
    ];
    side_by_side(replies, |reply| async move {
        let receiver = Receiver::always(Answer::status(204)).await;
        let (stage, records) = subscribers(&receiver, &["a", "b", "c"]).await;
        stage.aws.always("BatchGetItem", reply.clone());
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&["m0", "m1", "m2"]), "{reply:?}");
        for n in 0..3 {
            batch.assert_delay(n, FAULT_DELAY);
        }
        assert_eq!(receiver.connections(), 0);
        deliver.line_with(&["ERROR", "tables.unreadable"]).await;
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_does_not_speak_of_the_table_proves_no_row_gone() {
    let outputs = [
        json!({}),
        json!({"Responses": {}}),
        json!({"Responses": {}, "UnprocessedKeys": {}}),
        json!({"Responses": null}),
    ];
    side_by_side(outputs, |output| async move {
        let receiver = Receiver::always(Answer::status(204)).await;
        let names: Vec<String> = (0..10).map(|n| format!("s{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (stage, records) = subscribers(&receiver, &names).await;
        stage
            .aws
            .always("BatchGetItem", Reply::Output(output.clone()));
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &records).await;

        let ids: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
        assert_eq!(batch.response, failures(&ids), "{output}");
        for n in 0..10 {
            batch.assert_delay(n, FAULT_DELAY);
        }
        assert_eq!(receiver.connections(), 0, "{output}");
        deliver.line_with(&["ERROR", "tables.unreadable"]).await;
        let lines = deliver.stop().await;
        let dropped = lines.iter().filter(|line| line.contains("dropped"));
        assert_eq!(dropped.count(), 0, "{output}: {lines:#?}");
    })
    .await;
}

#[tokio::test]
async fn nothing_is_taken_from_half_an_answer() {
    for (answered, silent) in [
        (TABLE_NAME, DELIVERIES_TABLE),
        (DELIVERIES_TABLE, TABLE_NAME),
    ] {
        let receiver = Receiver::always(Answer::status(204)).await;
        let (stage, records) = subscribers(&receiver, &["a"]).await;
        let half = json!({"Responses": {answered: []}, "UnprocessedKeys": {}});
        stage.aws.next("BatchGetItem", [Reply::Output(half)]);
        stage
            .aws
            .always("BatchGetItem", Reply::error(400, "AccessDeniedException"));
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&["m0"]), "{silent}");
        batch.assert_delay(0, FAULT_DELAY);
        assert_eq!(receiver.connections(), 0, "{silent}");
        let lines = deliver.stop().await;
        let dropped = lines.iter().filter(|line| line.contains("dropped"));
        assert_eq!(dropped.count(), 0, "{silent}: {lines:#?}");
    }
}

#[tokio::test]
async fn an_answer_with_anything_that_was_not_asked_for_proves_nothing() {
    let row = |subscriber_id: &str, url: &str| {
        let mut row = key("OrderPaid", subscriber_id);
        row["url"] = json!({"S": url});
        row["enabled"] = json!({"BOOL": true});
        row
    };
    let none = || json!({TABLE_NAME: [], DELIVERIES_TABLE: []});
    let receiver = Receiver::always(Answer::status(204)).await;
    let row_of_a = row("a", &receiver.url("/a"));
    // Each has a right row of `a` beside what is wrong, and none of `b`.
    let wrong_rows = [
        (TABLE_NAME, row("other", &receiver.url("/other"))),
        (TABLE_NAME, row("A", &receiver.url("/other"))),
        (TABLE_NAME, key("OrderRefunded", "a")),
        (TABLE_NAME, json!({"eventType": {"S": "OrderPaid"}})),
        (TABLE_NAME, json!({})),
        (TABLE_NAME, row_of_a.clone()),
        (TABLE_NAME, record_key(0, "a")),
        (DELIVERIES_TABLE, record_key(7, "a")),
        (DELIVERIES_TABLE, key("OrderPaid", "a")),
        ("elsewhere", row_of_a.clone()),
        ("elsewhere", record_key(0, "a")),
    ];
    let wrong_rows = wrong_rows.map(|(table, wrong)| {
        let mut responses = none();
        responses[TABLE_NAME] = json!([row_of_a]);
        let rows = responses[table].as_array().cloned().unwrap_or_default();
        responses[table] = rows.into_iter().chain([wrong]).collect();
        json!({"Responses": responses, "UnprocessedKeys": {}})
    });
    let wrong_keys = [
        (TABLE_NAME, json!([key("OrderPaid", "other")])),
        (TABLE_NAME, json!([record_key(0, "a")])),
        (TABLE_NAME, json!([])),
        (DELIVERIES_TABLE, json!([record_key(7, "a")])),
        ("elsewhere", json!([key("OrderPaid", "a")])),
    ];
    let wrong_keys = wrong_keys.map(|(table, keys)| {
        let mut responses = none();
        responses[TABLE_NAME] = json!([row_of_a]);
        json!({"Responses": responses, "UnprocessedKeys": {table: {"Keys": keys}}})
    });
    let outputs = wrong_rows.into_iter().chain(wrong_keys);
    side_by_side(outputs, |output| {
        let url = receiver.url("/a");
        async move {
            let stage = Stage::for_deliver().await;
            for name in ["a", "b"] {
                stage.subscribe(name, &url);
            }
            stage
                .aws
                .always("BatchGetItem", Reply::Output(output.clone()));
            let deliver = stage.start(DELIVER).await;
            let records = [Record::of_event(0, "a"), Record::of_event(1, "b")];

            let batch = stage.deliver(&deliver, &records).await;

            assert_eq!(batch.response, failures(&["m0", "m1"]), "{output}");
            for n in [0, 1] {
                batch.assert_delay(n, FAULT_DELAY);
            }
            deliver.line_with(&["ERROR", "tables.unreadable"]).await;
        }
    })
    .await;
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn a_url_longer_than_2048_bytes_is_a_broken_row() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let stage = Stage::for_deliver().await;
    let url_of = |bytes: usize| {
        let start = receiver.url("/");
        format!("{start}{}", "x".repeat(bytes - start.len()))
    };
    let mut records = Vec::new();
    for (n, bytes) in [2048, 2049, 300_000].into_iter().enumerate() {
        let name = format!("s{n}");
        stage.subscribe(&name, &url_of(bytes));
        records.push(Record::new(n, &Job::for_subscriber(&name).text()));
    }
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&["m1", "m2"]));
    assert_eq!(receiver.requests().len(), 1);
    let lines = deliver.stop().await;
    for n in [1, 2] {
        batch.assert_delay(n, FAULT_DELAY);
        let name = format!("s{n}");
        assert!(stage.is_enabled(&name));
        let of_it: Vec<&String> = lines.iter().filter(|line| line.contains(&name)).collect();
        let [line] = of_it[..] else {
            panic!("{name}: {lines:#?}");
        };
        assert!(line.len() < 600, "{} bytes: {line}", line.len());
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["message"], "delivery.unsent");
        assert_eq!(line["level"], "ERROR");
        assert_eq!(line["failure"], "subscription row broken");
        assert_eq!(line["error"], "`url` is longer than 2048 bytes");
    }
}

#[tokio::test]
async fn a_silent_table_costs_no_more_than_the_invocation_has() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, records) = subscribers(&receiver, &["a", "b"]).await;
    stage.aws.always("BatchGetItem", Reply::Hang);
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver_within(&deliver, &records, Duration::from_secs(3))
        .await;

    assert_eq!(batch.response, failures(&["m0", "m1"]));
    assert!(
        batch.delay(0).is_some() && batch.delay(1).is_some(),
        "{batch:?}"
    );
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn a_call_that_fails_once_is_made_again() {
    let replies = [
        Reply::error(400, "ProvisionedThroughputExceededException"),
        Reply::error(500, "InternalServerError"),
        Reply::Cut,
    ];
    side_by_side(replies, |reply| async move {
        let receiver = Receiver::always(Answer::status(204)).await;
        let (stage, records) = subscribers(&receiver, &["a"]).await;
        stage.aws.next("BatchGetItem", [reply.clone()]);
        stage.aws.next("GetParameters", [reply]);
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&NONE));
        assert_eq!(receiver.requests().len(), 1);
    })
    .await;
}
