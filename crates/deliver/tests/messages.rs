//! A batch as Lambda hands it over, with whatever can be in its messages. One never harms another,
//! and nothing is deleted that was not delivered.

use std::collections::BTreeSet;

use e2e::receiver::{Answer, Receiver};
use e2e::runtime::Ending;
use e2e::sqs_event::{Job, Record, event};
use e2e::stage::{FUNCTION_TIMEOUT, Stage, failures};
use serde_json::{Value, json};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

const NONE: [&str; 0] = [];

/// A stage on which `well` accepts and `failing` answers 500.
async fn stage() -> (Stage, Receiver) {
    let receiver = Receiver::by_target([
        ("/well".to_owned(), Answer::status(204)),
        ("/failing".to_owned(), Answer::status(500)),
    ])
    .await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("well", &receiver.url("/well"));
    stage.subscribe("failing", &receiver.url("/failing"));
    (stage, receiver)
}

fn well(number: usize) -> Record {
    Record::of_event(number, "well")
}

fn failing(number: usize) -> Record {
    Record::of_event(number, "failing")
}

#[tokio::test]
async fn a_response_is_these_bytes() {
    let (stage, _receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver(&deliver, &[failing(1), well(2), failing(3)])
        .await;
    assert_eq!(
        batch.response,
        r#"{"batchItemFailures":[{"itemIdentifier":"m1"},{"itemIdentifier":"m3"}]}"#
    );

    let batch = stage.deliver(&deliver, &[well(4)]).await;
    assert_eq!(batch.response, r#"{"batchItemFailures":[]}"#);
}

#[tokio::test]
async fn ten_failures_are_ten_ids_and_no_error() {
    let (stage, _receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;
    let records: Vec<Record> = (0..10).map(failing).collect();

    let batch = stage.deliver(&deliver, &records).await;

    let ids: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
    assert_eq!(batch.response, failures(&ids));
    for n in 0..10 {
        batch.assert_delay(n, 30..=60);
    }
}

#[tokio::test]
async fn an_empty_batch_is_an_empty_success_without_any_call() {
    let (stage, _receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &[]).await;

    assert_eq!(batch.response, r#"{"batchItemFailures":[]}"#);
    assert_eq!(stage.aws.all_calls().len(), 0);
}

#[tokio::test]
async fn what_is_no_batch_is_an_error_and_never_a_success() {
    let (stage, _receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;
    let bridge_event = e2e::bridge_event::event("OrderPaid", "{}");
    let events = [
        "{}",
        "null",
        "[]",
        "\"text\"",
        "7",
        r#"{"Records":null}"#,
        r#"{"Records":{}}"#,
        r#"{"Records":"x"}"#,
        r#"{"records":[]}"#,
        r#"{"key1":"value1"}"#,
        &bridge_event,
    ];
    for event in events {
        let ending = deliver.invoke(event, FUNCTION_TIMEOUT).await;

        assert!(matches!(ending, Ending::Error(_)), "{event}: {ending:?}");
    }
    assert_eq!(stage.aws.all_calls().len(), 0);

    let batch = stage.deliver(&deliver, &[well(0)]).await;
    assert_eq!(batch.response, failures(&NONE), "the next batch is handled");
    let lines = deliver.stop().await;
    let errors: Vec<&String> = lines.iter().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(errors.len(), events.len(), "one line each: {errors:#?}");
    assert!(errors.iter().all(|line| line.contains("not an SQS event")));
}

#[tokio::test]
async fn a_list_of_values_does_not_stand_for_an_object() {
    let (stage, receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;
    let job = r#"[null,"msg_e1_well","e1","OrderPaid","well","2026-10-29T12:00:00Z","u",{"a":1}]"#;

    let ending = deliver.invoke("[[]]", FUNCTION_TIMEOUT).await;
    let batch = stage.deliver(&deliver, &[Record::new(0, job)]).await;

    assert!(matches!(ending, Ending::Error(_)), "{ending:?}");
    assert_eq!(batch.response, failures(&["m0"]));
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn a_message_that_is_no_job_is_neither_sent_nor_deleted_and_harms_no_other() {
    let (stage, receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;
    let job = Job::for_subscriber("well").text();
    let fields = [
        "webhookId",
        "eventId",
        "eventType",
        "subscriberId",
        "occurredAt",
        "url",
        "body",
    ];
    let mut poison: Vec<Value> = [
        "hello",
        "",
        " ",
        "null",
        "[]",
        "\"str\"",
        "7",
        "{",
        "{}",
        r#"{"Type":"Notification","MessageId":"1","TopicArn":"arn:aws:sns:eu-central-1:1:t","Message":"{\"a\":1}"}"#,
        r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"b"}"#,
        &e2e::bridge_event::event("OrderPaid", "{}"),
        &format!("\u{feff}{job}"),
        &format!("{job}{job}"),
        &job[..job.len() - 1],
        // Of another version.
        &job.replacen('{', r#"{"version":2,"#, 1),
        &job.replacen('{', r#"{"version":"1","#, 1),
        // Of another type, or not usable.
        &job.replace(r#""subscriberId":"well""#, r#""subscriberId":"../well""#),
        &job.replace(r#""subscriberId":"well""#, r#""subscriberId":"""#),
        &job.replace(r#""eventType":"OrderPaid""#, r#""eventType":"""#),
        &job.replace(r#""eventType":"OrderPaid""#, r#""eventType":null"#),
        &job.replace(r#""body":{"type""#, r#""body":{"#),
    ]
    .into_iter()
    .map(Value::from)
    .collect();
    for field in fields {
        poison.push(job.replace(&format!("\"{field}\":"), "\"other\":").into());
        poison.push(job.replacen('{', &format!("{{\"{field}\":1,"), 1).into());
    }
    let start = job.find(r#""body":"#).unwrap() + r#""body":"#.len();
    for body in ["null", "[]", "\"{}\"", "1"] {
        poison.push(format!("{}{body}}}", &job[..start]).into());
    }
    poison.extend([Value::Null, json!(7), json!({"webhookId": "x"}), json!([])]);

    for (n, chunk) in poison.chunks(9).enumerate() {
        let mut records: Vec<Record> = chunk
            .iter()
            .enumerate()
            .map(|(n, body)| Record::new(n, "").with("body", body.clone()))
            .collect();
        records.insert(chunk.len() / 2, well(100 + n));

        let batch = stage.deliver(&deliver, &records).await;

        let ids: Vec<String> = (0..chunk.len()).map(|n| format!("m{n}")).collect();
        assert_eq!(batch.response, failures(&ids), "{chunk:#?}");
        assert_eq!(receiver.requests().len(), n + 1);
    }
    assert_eq!(
        receiver.requests_to("/well").len(),
        receiver.requests().len()
    );
    let missing = [Record::new(0, "").without("body"), well(1)];
    let batch = stage.deliver(&deliver, &missing).await;
    assert_eq!(batch.response, failures(&["m0"]));
    let lines = deliver.stop().await;
    let errors = lines.iter().filter(|line| line.contains("ERROR")).count();
    assert_eq!(errors, poison.len() + 1, "one line each");
}

#[tokio::test]
async fn what_is_new_or_null_in_a_message_or_job_is_passed_over() {
    let (stage, receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;
    let job = |n: usize| Job::for_subscriber("well").with_event_id(&format!("e{n}"));
    let text = |n: usize| job(n).text();
    let records = [
        well(0).with("newField", json!({"z": 1})),
        well(1).with(
            "messageAttributes",
            json!({"k": {"stringValue": "v", "binaryValue": null, "dataType": "String"}}),
        ),
        well(2).with("messageAttributes", Value::Null),
        well(3)
            .with("md5OfBody", Value::Null)
            .with("eventSource", json!(7)),
        Record::new(
            4,
            &text(4).replacen('{', r#"{"addedLater":{"a":[1]},"version":1,"#, 1),
        ),
        Record::new(5, &format!("  {}\n", text(5))),
        Record::new(6, &text(6).replace(r#""msg_"#, r#""\u006dsg_"#)),
    ];

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&NONE));
    let requests = receiver.requests();
    let ids: BTreeSet<Option<&str>> = requests.iter().map(|r| r.header("webhook-id")).collect();
    let expected: Vec<String> = (0..7).map(|n| job(n).webhook_id()).collect();
    assert_eq!(ids, expected.iter().map(|id| Some(id.as_str())).collect());
    assert_eq!(requests.len(), records.len());
    for request in &requests {
        assert_eq!(request.text(), Job::for_subscriber("well").body);
    }
}

#[tokio::test]
async fn a_message_without_a_usable_receive_count_is_at_its_first_receive() {
    // How often a message was received only counts for our own faults.
    let (stage, _receiver) = stage().await;
    stage.subscribe("broken", "");
    let deliver = stage.start(DELIVER).await;
    for (subscriber_id, delay) in [("failing", 30..=60), ("broken", 3..=5)] {
        let message = |n| Record::of_event(n, subscriber_id);
        let count = |n, count: Value| {
            message(n).with("attributes", json!({"ApproximateReceiveCount": count}))
        };
        let records = [
            message(0).without("attributes"),
            message(1).with("attributes", Value::Null),
            message(2).with("attributes", json!({})),
            count(3, Value::Null),
            count(4, json!("")),
            count(5, json!("-1")),
            count(6, json!("many")),
            message(7).with("attributes", json!([])),
        ];

        let batch = stage.deliver(&deliver, &records).await;

        let ids: Vec<String> = (0..8).map(|n| format!("m{n}")).collect();
        assert_eq!(batch.response, failures(&ids));
        for n in 0..8 {
            batch.assert_delay(n, delay.clone());
        }
    }
}

#[tokio::test]
async fn a_failed_message_that_cannot_be_reported_fails_the_invocation() {
    for record in [
        failing(0).without("messageId"),
        failing(0).with("messageId", json!("")),
        failing(0).with("messageId", Value::Null),
        failing(0).with("messageId", json!(7)),
        Record::new(0, "hello").without("messageId"),
    ] {
        let (stage, _receiver) = stage().await;
        let deliver = stage.start(DELIVER).await;

        let records = event(&[well(1), record, failing(2)]);
        let ending = deliver.invoke(&records, FUNCTION_TIMEOUT).await;

        assert_eq!(ending.error_message(), "a record without messageId failed");
    }
}

#[tokio::test]
async fn a_delivered_message_needs_no_message_id() {
    let (stage, receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;
    let records = [
        well(0).without("messageId"),
        well(1).with("messageId", json!("")),
        failing(2),
    ];

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&["m2"]));
    assert_eq!(receiver.requests().len(), 3);
}

#[tokio::test]
async fn an_id_is_reported_once() {
    let (stage, _receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver(&deliver, &[failing(0), failing(0), failing(1)])
        .await;

    assert_eq!(batch.response, failures(&["m0", "m1"]));
}

#[tokio::test]
async fn copies_in_one_batch_are_sent_once_and_share_what_comes_of_it() {
    let (stage, receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;
    // Two of the same message each, and one of another.
    let copies = |of: fn(usize) -> Record| {
        let copy = of(0);
        [
            copy.clone(),
            copy.clone(),
            copy.with_message_id("m1")
                .with("receiptHandle", json!("rh1")),
        ]
    };

    let delivered = stage.deliver(&deliver, &copies(well)).await;
    let failed = stage.deliver(&deliver, &copies(failing)).await;

    assert_eq!(delivered.response, failures(&NONE));
    assert_eq!(receiver.requests_to("/well").len(), 1);
    assert_eq!(failed.response, failures(&["m0", "m1"]));
    assert_eq!(receiver.requests_to("/failing").len(), 1);
    let delays: Vec<i64> = failed
        .visibilities
        .iter()
        .map(|(_, seconds)| *seconds)
        .collect();
    assert!((30..=60).contains(&delays[0]), "{delays:?}");
    assert_eq!(delays, [delays[0]; 3]);
}

#[tokio::test]
async fn an_id_with_any_characters_is_reported_as_it_came() {
    let (stage, _receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver(
            &deliver,
            &[failing(0).with("messageId", json!("a\"b\\é\n😀"))],
        )
        .await;

    assert_eq!(batch.reported(), ["a\"b\\é\n😀"]);
}

#[tokio::test]
async fn ten_large_messages_are_sent_whole_and_cost_little_more_than_themselves() {
    let (stage, receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;
    stage.deliver(&deliver, &[well(0)]).await;
    let mut job = Job::for_subscriber("well");
    job.body = format!(
        r#"{{"type":"OrderPaid","timestamp":"t","data":{{"text":"{}"}}}}"#,
        "é".repeat(300 * 1024)
    );
    let before = deliver.peak_memory_kib();
    let records: Vec<Record> = (1..11)
        .map(|n| Record::new(n, &job.clone().with_event_id(&format!("e{n}")).text()))
        .collect();

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&NONE));
    let requests = receiver.requests();
    assert_eq!(requests.len(), 11);
    for request in &requests[1..] {
        assert_eq!(request.text(), job.body);
        let length = job.body.len().to_string();
        assert_eq!(request.header("content-length"), Some(length.as_str()));
    }
    // The event itself has 6 MB: once as it came, once as messages.
    let grown = deliver.peak_memory_kib() - before;
    assert!(grown < 32 * 1024, "{grown} KiB");
}
