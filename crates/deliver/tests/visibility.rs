//! What is sent to SQS to bring a delivery back, and that nothing depends on SQS's answer.

use std::time::Duration;

use e2e::fake_aws::Reply;
use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Batch, QUEUE_URL, Stage, failures, side_by_side};
use serde_json::{Value, json};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

/// A stage whose receiver answers 503 and asks for 300 s, and `count` records for it.
async fn failing(count: usize) -> (Stage, Receiver, Vec<Record>) {
    let receiver = Receiver::always(Answer::retry_after(503, "300")).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let records = (0..count)
        .map(|n| Record::of_event(n, "kasse-nord"))
        .collect();
    (stage, receiver, records)
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("m{n}")).collect()
}

fn seconds_of(batch: &Batch, handle: &str) -> Vec<i64> {
    let of_handle = batch
        .visibilities
        .iter()
        .filter(|(other, _)| other == handle);
    of_handle.map(|(_, seconds)| *seconds).collect()
}

#[tokio::test]
async fn one_call_changes_the_visibility_of_all_that_failed() {
    let (stage, _receiver, mut records) = failing(10).await;
    let well = Receiver::always(Answer::status(204)).await;
    stage.subscribe("well", &well.url("/"));
    records[4] = Record::new(4, &Job::for_subscriber("well").text());
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    let failed: Vec<usize> = (0..10).filter(|n| *n != 4).collect();
    let reported: Vec<String> = failed.iter().map(|n| format!("m{n}")).collect();
    assert_eq!(batch.response, failures(&reported));
    let entries: Vec<Value> = failed
        .iter()
        .enumerate()
        .map(|(id, n)| {
            json!({"Id": id.to_string(), "ReceiptHandle": format!("rh{n}"), "VisibilityTimeout": 300})
        })
        .collect();
    assert_eq!(
        stage.aws.calls("ChangeMessageVisibilityBatch"),
        [json!({"QueueUrl": QUEUE_URL, "Entries": entries})]
    );
}

#[tokio::test]
async fn more_than_ten_failures_take_several_calls_of_at_most_ten() {
    let (stage, _receiver, records) = failing(23).await;
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&ids(23)));
    for n in 0..23 {
        assert_eq!(batch.delay(n), Some(300));
    }
    let calls = stage.aws.calls("ChangeMessageVisibilityBatch");
    let sizes = calls
        .iter()
        .map(|call| call["Entries"].as_array().unwrap().len());
    assert_eq!(sizes.collect::<Vec<_>>(), [10, 10, 3]);
}

#[tokio::test]
async fn a_refused_entry_is_tried_once_more_and_the_others_are_not() {
    for code in [
        "ReceiptHandleIsInvalid",
        "MessageNotInflight",
        "InternalError",
    ] {
        let (stage, _receiver, records) = failing(3).await;
        stage
            .aws
            .rule("ChangeMessageVisibilityBatch", move |input| {
                Reply::partly_refused(input, |entry| entry["ReceiptHandle"] == "rh1", code, true)
            });
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&ids(3)), "{code}");
        assert_eq!(seconds_of(&batch, "rh0"), [300]);
        assert_eq!(seconds_of(&batch, "rh1"), [300, 300]);
        assert_eq!(seconds_of(&batch, "rh2"), [300]);
        deliver.line_with(&["ERROR", r#""messageId":"m1""#]).await;
    }
}

/// A stage whose receiver asks for more than SQS can keep, and the batch of three in which SQS
/// refused the second message as long as `refused` says so, with the code that it has for several
/// things and these words.
async fn refused_with_words(refused: fn(i64) -> bool, words: &'static str) -> Batch {
    let receiver = Receiver::always(Answer::retry_after(503, "86400")).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    stage
        .aws
        .rule("ChangeMessageVisibilityBatch", move |input| {
            let refused = |entry: &Value| {
                entry["ReceiptHandle"] == "rh1"
                    && entry["VisibilityTimeout"].as_i64().is_some_and(refused)
            };
            Reply::partly_refused(input, refused, "InvalidParameterValue", true).saying(words)
        });
    let deliver = stage.start(DELIVER).await;
    let records: Vec<Record> = (0..3).map(|n| Record::of_event(n, "kasse-nord")).collect();

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&ids(3)));
    assert_eq!(seconds_of(&batch, "rh0"), [42_960]);
    assert_eq!(seconds_of(&batch, "rh2"), [42_960]);
    batch
}

#[tokio::test]
async fn a_delay_that_is_over_the_limit_is_tried_again_with_ten_minutes_less() {
    let batch = refused_with_words(
        |seconds| seconds > 42_900,
        "Value 42960 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds].",
    )
    .await;

    assert_eq!(seconds_of(&batch, "rh1"), [42_960, 42_360]);
}

#[tokio::test]
async fn a_message_that_is_not_in_flight_is_tried_again_with_the_same_delay() {
    let batch = refused_with_words(
        |_| true,
        "Value rh1 for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change.",
    )
    .await;

    assert_eq!(seconds_of(&batch, "rh1"), [42_960, 42_960]);
}

#[tokio::test]
async fn a_short_delay_that_is_refused_as_too_long_is_halved_at_most() {
    let (stage, _receiver, records) = failing(1).await;
    stage.aws.rule("ChangeMessageVisibilityBatch", |input| {
        Reply::partly_refused(input, |_| true, "InvalidParameterValue", true)
    });
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(seconds_of(&batch, "rh0"), [300, 150]);
}

#[tokio::test]
async fn a_call_that_fails_changes_nothing_of_the_answer() {
    let replies = [
        Reply::error(403, "AccessDeniedException"),
        Reply::error(400, "InvalidParameterValue"),
        Reply::error(400, "ReceiptHandleIsInvalid"),
        Reply::error(400, "QueueDoesNotExist"),
        Reply::error(400, "ThrottlingException"),
        Reply::error(500, "InternalFailure"),
        Reply::Cut,
        Reply::Output(json!({})),
        Reply::Output(json!({"Successful": [], "Failed": []})),
        Reply::Output(
            json!({"Successful": [], "Failed": [{"Id": "7", "SenderFault": true, "Code": "x"}]}),
        ),
    ];
    side_by_side(replies, |reply| async move {
        let (stage, _receiver, records) = failing(3).await;
        let well = Receiver::always(Answer::status(204)).await;
        stage.subscribe("well", &well.url("/"));
        stage
            .aws
            .always("ChangeMessageVisibilityBatch", reply.clone());
        let deliver = stage.start(DELIVER).await;
        let mut records = records;
        records.push(Record::new(3, &Job::for_subscriber("well").text()));

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&ids(3)), "{reply:?}");
    })
    .await;
}

#[tokio::test]
async fn a_silent_queue_costs_no_more_than_the_invocation_has() {
    let (stage, _receiver, records) = failing(3).await;
    stage
        .aws
        .always("ChangeMessageVisibilityBatch", Reply::Hang);
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver_within(&deliver, &records, Duration::from_secs(3))
        .await;

    assert_eq!(batch.response, failures(&ids(3)));
}

#[tokio::test]
async fn a_batch_that_was_delivered_makes_no_call() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let deliver = stage.start(DELIVER).await;
    let records = [Record::new(0, &Job::for_subscriber("kasse-nord").text())];

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, r#"{"batchItemFailures":[]}"#);
    assert_eq!(stage.aws.calls("ChangeMessageVisibilityBatch").len(), 0);
}

#[tokio::test]
async fn without_a_receipt_handle_no_visibility_is_changed_and_the_message_is_reported() {
    let (stage, _receiver, mut records) = failing(5).await;
    records[0] = records[0].clone().without("receiptHandle");
    records[1] = records[1].clone().with("receiptHandle", json!(""));
    records[2] = records[2].clone().with("receiptHandle", Value::Null);
    records[3] = records[3].clone().with("receiptHandle", json!(7));
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&ids(5)));
    assert_eq!(batch.visibilities, [("rh4".to_owned(), 300)]);
}
