//! Delivery records that can not be written: what was delivered stays delivered, what failed
//! keeps its pace, and until a write succeeds again the receive count is believed and not what
//! is read.

use std::time::Duration;

use e2e::delivery_record::{now_ms, story, time_value};
use e2e::fake_aws::Reply;
use e2e::receiver::{Answer, Receiver};
use e2e::runtime::Environment;
use e2e::sqs_event::{Job, Record};
use e2e::stage::{DELIVERIES_TABLE, Stage, failures, side_by_side};
use serde_json::{Value, json};

use crate::helpers::{DELIVER, NONE, errors_of, lines_of, record, stage_of_four};

/// How long a dead delivery waits of which that could not be written down: what the schedule of
/// `bounded` ends with, 30 s doubled seven times.
const LAST_DELAY: Option<i64> = Some(3840);

/// A stage under `bounded`.
async fn stage() -> (Stage, Receiver) {
    let (stage, receiver) = stage_of_four().await;
    (stage.with("RETRY_POLICY", "bounded"), receiver)
}

fn all(count: u32) -> [Record; 3] {
    [
        record(0, "well", count),
        record(1, "failing", count),
        record(2, "rejecting", count),
    ]
}

/// A run of one attempt for each of [`all`].
fn put_all(stage: &Stage) {
    for (number, name) in ["well", "failing", "rejecting"].into_iter().enumerate() {
        stage.put_earlier_attempts(&Job::for_subscriber(name), &format!("m{number}"), 1);
    }
}

/// Of each line of figures, the number of record errors.
async fn record_errors(deliver: &Environment) -> Vec<Value> {
    let figures = lines_of(&deliver.stop().await, "metrics").into_iter();
    figures.map(|line| line["RecordErrors"].clone()).collect()
}

#[tokio::test]
async fn a_first_record_that_can_not_be_written_fails_no_delivery() {
    let replies = [
        (Reply::error(400, "AccessDeniedException"), 1),
        (Reply::error(400, "ResourceNotFoundException"), 1),
        (
            Reply::error(400, "ProvisionedThroughputExceededException"),
            3,
        ),
        (Reply::error(500, "InternalServerError"), 3),
        (Reply::Cut, 3),
        (Reply::Text("<html>".into()), 1),
        (Reply::Unprocessed(DELIVERIES_TABLE), 4),
    ];
    side_by_side(replies, |(reply, writes)| async move {
        let (stage, receiver) = stage().await;
        stage.aws.always("BatchWriteItem", reply.clone());
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &all(1)).await;

        assert_eq!(batch.response, failures(&["m1", "m2"]), "{reply:?}");
        batch.assert_delay(1, 15..=30);
        // Not at once: without its record it would be sent again.
        assert_eq!(batch.delay(2), LAST_DELAY, "{reply:?}");
        assert_eq!(receiver.requests().len(), 3);
        let mut calls = vec!["BatchGetItem"];
        calls.extend(vec!["BatchWriteItem"; writes]);
        calls.push("ChangeMessageVisibilityBatch");
        assert_eq!(batch.calls, calls, "{reply:?}");
        assert_eq!(stage.aws.records(), [] as [Value; 0]);
        let lines = deliver.stop().await;
        let [unwritten] = &lines_of(&lines, "records.unwritten")[..] else {
            panic!("{lines:#?}");
        };
        assert_eq!(unwritten["level"], "ERROR");
        assert_eq!(unwritten["records"], 3);
        assert!(unwritten["error"].is_string());
        let [metrics] = &lines_of(&lines, "metrics")[..] else {
            panic!("{lines:#?}");
        };
        assert_eq!(metrics["RecordErrors"], 3, "{reply:?}");
        assert_eq!(metrics["Delivered"], 1);
        assert_eq!(metrics["Retried"], 1);
        // It will be, once its record says so.
        assert_eq!(metrics["Dead"], Value::Null);
    })
    .await;
}

#[tokio::test]
async fn a_further_record_that_can_not_be_written_fails_no_delivery() {
    let replies = [
        (Reply::error(400, "AccessDeniedException"), 1),
        (
            Reply::error(400, "ProvisionedThroughputExceededException"),
            3,
        ),
        (Reply::error(500, "InternalServerError"), 3),
        (Reply::Cut, 3),
    ];
    side_by_side(replies, |(reply, writes)| async move {
        let (stage, receiver) = stage().await;
        put_all(&stage);
        let before = stage.aws.records();
        stage.aws.always("UpdateItem", reply.clone());
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &all(2)).await;

        assert_eq!(batch.response, failures(&["m1", "m2"]), "{reply:?}");
        batch.assert_delay(1, 30..=60);
        assert_eq!(batch.delay(2), LAST_DELAY, "{reply:?}");
        assert_eq!(receiver.requests().len(), 3);
        assert_eq!(stage.aws.calls("UpdateItem").len(), 3 * writes, "{reply:?}");
        assert_eq!(stage.aws.records(), before);
        let lines = deliver.stop().await;
        let errors = errors_of(&lines);
        let mut unwritten: Vec<&str> = errors
            .iter()
            .filter(|line| line["message"] == "records.unwritten")
            .map(|line| line["webhookId"].as_str().unwrap())
            .collect();
        unwritten.sort_unstable();
        let ids =
            ["failing", "rejecting", "well"].map(|name| Job::for_subscriber(name).webhook_id());
        assert_eq!(unwritten, ids);
        assert_eq!(lines_of(&lines, "metrics")[0]["RecordErrors"], 3);
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_dynamodb_does_not_take_is_written_one_by_one() {
    let (stage, _receiver) = stage().await;
    stage
        .aws
        .always("BatchWriteItem", Reply::error(400, "ValidationException"));
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &all(1)).await;

    assert_eq!(batch.response, failures(&["m1", "m2"]));
    assert_eq!(batch.delay(2), Some(0), "its record says that it is dead");
    let mut calls = vec!["BatchGetItem", "BatchWriteItem"];
    calls.extend(["UpdateItem"; 3]);
    calls.push("ChangeMessageVisibilityBatch");
    assert_eq!(batch.calls, calls);
    let states: Vec<Value> = stage
        .aws
        .records()
        .iter()
        .map(|row| row["state"]["S"].clone())
        .collect();
    assert_eq!(states, ["retrying", "dead", "delivered"]);
    let lines = deliver.stop().await;
    assert!(
        !lines.iter().any(|line| line.contains("ERROR")),
        "{lines:#?}"
    );
}

#[tokio::test]
async fn a_record_that_dynamodb_does_not_take_casts_no_doubt_on_the_others() {
    let (stage, receiver) = stage().await;
    put_all(&stage);
    let before = stage.aws.records();
    stage
        .aws
        .always("UpdateItem", Reply::error(400, "ValidationException"));
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &all(2)).await;

    assert_eq!(batch.response, failures(&["m1", "m2"]));
    assert_eq!(batch.delay(2), LAST_DELAY);
    // Each once more, with a history that begins anew.
    assert_eq!(stage.aws.calls("UpdateItem").len(), 6);
    assert_eq!(stage.aws.records(), before);

    // What is read is believed: the second attempt, though it is the twelfth receive.
    stage.aws.always("UpdateItem", Reply::Usual);
    let batch = stage.deliver(&deliver, &[record(1, "failing", 12)]).await;

    batch.assert_delay(1, 30..=60);
    assert_eq!(receiver.requests_to("/failing").len(), 2);
    assert_eq!(record_errors(&deliver).await, [json!(3), Value::Null]);
}

#[tokio::test]
async fn a_dead_delivery_that_could_not_be_written_down_waits_as_long_as_its_receiver_asked() {
    let receiver = Receiver::always(Answer::retry_after(400, "10000")).await;
    let stage = Stage::for_deliver().await.with("RETRY_POLICY", "bounded");
    stage.subscribe("rejecting", &receiver.url("/"));
    stage
        .aws
        .always("BatchWriteItem", Reply::error(400, "AccessDeniedException"));
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &[record(2, "rejecting", 1)]).await;

    assert_eq!(batch.delay(2), Some(10_000));
}

#[tokio::test]
async fn one_record_that_can_not_be_written_harms_no_other() {
    let (stage, _receiver) = stage().await;
    stage.put_earlier_attempts(&Job::for_subscriber("failing"), "m1", 1);
    stage
        .aws
        .always("UpdateItem", Reply::error(400, "AccessDeniedException"));
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver(
            &deliver,
            &[
                record(0, "well", 1),
                record(1, "failing", 2),
                record(2, "rejecting", 1),
            ],
        )
        .await;

    assert_eq!(batch.response, failures(&["m1", "m2"]));
    assert_eq!(
        batch.delay(2),
        Some(0),
        "its own record says that it is dead"
    );
    let state = |name: &str| stage.record_of(&Job::for_subscriber(name))["state"].clone();
    assert_eq!(state("well"), json!({"S": "delivered"}));
    assert_eq!(state("rejecting"), json!({"S": "dead"}));
    assert_eq!(record_errors(&deliver).await, [json!(1)]);
}

#[tokio::test]
async fn some_items_that_stay_unprocessed_are_the_only_ones_that_failed() {
    let (stage, _receiver) = stage().await;
    let unprocessed = |input: &Value| {
        let requests = input["RequestItems"][DELIVERIES_TABLE].as_array().unwrap();
        let of_rejecting = requests
            .iter()
            .filter(|request| request["PutRequest"]["Item"]["subscriberId"]["S"] == "rejecting");
        let left: Vec<&Value> = of_rejecting.collect();
        Reply::Output(json!({"UnprocessedItems": {DELIVERIES_TABLE: left}}))
    };
    stage.aws.rule("BatchWriteItem", unprocessed);
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &all(1)).await;

    assert_eq!(batch.response, failures(&["m1", "m2"]));
    assert_eq!(batch.delay(2), LAST_DELAY);
    let sizes: Vec<usize> = stage
        .aws
        .calls("BatchWriteItem")
        .iter()
        .map(|call| {
            call["RequestItems"][DELIVERIES_TABLE]
                .as_array()
                .unwrap()
                .len()
        })
        .collect();
    assert_eq!(sizes, [3, 1, 1, 1]);
    let unwritten = lines_of(&deliver.stop().await, "records.unwritten");
    assert_eq!(unwritten.len(), 1);
    assert_eq!(unwritten[0]["records"], 1);
    assert_eq!(unwritten[0]["error"], "still unprocessed");
}

#[tokio::test]
async fn after_a_write_that_failed_the_receive_count_is_believed_until_one_succeeds() {
    let (stage, receiver) = stage().await;
    stage.aws.next(
        "BatchWriteItem",
        [Reply::error(400, "AccessDeniedException")],
    );
    let deliver = stage.start(DELIVER).await;
    // The first attempt is not known; its message comes back.
    stage.deliver(&deliver, &[record(1, "failing", 1)]).await;

    let second = stage.deliver(&deliver, &[record(1, "failing", 2)]).await;

    second.assert_delay(1, 30..=60);
    assert_eq!(
        second.calls[1], "UpdateItem",
        "what was read is not believed"
    );
    let job = Job::for_subscriber("failing");
    let row = stage.record_of(&job);
    assert_eq!(row["attempts"], json!({"N": "2"}));
    assert_eq!(story(&row), [(2, "retry".to_owned())]);

    // That was written, so from now on the record counts again.
    stage.make_due(&job);
    let third = stage.deliver(&deliver, &[record(1, "failing", 8)]).await;

    third.assert_delay(1, 60..=120);
    assert_eq!(stage.record_of(&job)["attempts"], json!({"N": "3"}));
    assert_eq!(receiver.requests().len(), 3);
    assert_eq!(
        record_errors(&deliver).await,
        [json!(1), Value::Null, Value::Null]
    );
}

#[tokio::test]
async fn an_ended_delivery_is_known_though_the_last_write_failed() {
    let (stage, receiver) = stage().await;
    let ago = time_value(now_ms() - 60_000);
    for (name, state) in [("well", "delivered"), ("rejecting", "dead")] {
        stage.put_record(
            &Job::for_subscriber(name),
            &json!({
                "state": {"S": state}, "attempts": {"N": "1"}, "messageId": {"S": "m7"},
                "startedAt": ago, "createdAt": ago, "updatedAt": ago,
            }),
        );
    }
    stage
        .aws
        .always("BatchWriteItem", Reply::error(400, "AccessDeniedException"));
    let deliver = stage.start(DELIVER).await;
    stage.deliver(&deliver, &[record(1, "failing", 1)]).await;

    let records = [record(6, "well", 9), record(7, "rejecting", 9)];
    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&["m7"]));
    assert_eq!(batch.delay(7), Some(0));
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn what_is_planned_is_kept_though_the_last_write_failed() {
    let (stage, receiver) = stage().await;
    stage.put_earlier_attempts(&Job::for_subscriber("well"), "m0", 1);
    stage.edit_record(
        &Job::for_subscriber("well"),
        &json!({"nextAt": time_value(now_ms() + 300_000)}),
    );
    stage
        .aws
        .always("BatchWriteItem", Reply::error(400, "AccessDeniedException"));
    let deliver = stage.start(DELIVER).await;
    stage.deliver(&deliver, &[record(1, "failing", 1)]).await;

    let batch = stage.deliver(&deliver, &[record(0, "well", 2)]).await;

    batch.assert_delay(0, 285..=300);
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn while_nothing_can_be_written_no_attempt_is_made_beyond_the_last() {
    let (stage, receiver) = stage().await;
    stage
        .aws
        .always("BatchWriteItem", Reply::error(400, "AccessDeniedException"));
    stage
        .aws
        .always("UpdateItem", Reply::error(400, "AccessDeniedException"));
    let deliver = stage.start(DELIVER).await;
    let mut delays = Vec::new();
    for count in 1..=12 {
        let batch = stage
            .deliver(&deliver, &[record(2, "rejecting", count)])
            .await;

        assert_eq!(batch.response, failures(&["m2"]));
        delays.push(batch.delay(2).unwrap());
    }

    // A 400 is dead under this policy; nothing says so, and so it keeps the pace of the
    // schedule's end.
    assert_eq!(delays[..8], [3840; 8]);
    for delay in &delays[8..] {
        assert!((5400..=10_800).contains(delay), "{delays:?}");
    }
    assert_eq!(receiver.requests().len(), 8);
}

/// None of them knows that the ones before could not write.
#[tokio::test]
async fn environments_that_follow_each_other_make_no_more_attempts_either() {
    let (stage, receiver) = stage().await;
    let denied = || Reply::error(400, "AccessDeniedException");
    stage.aws.always("BatchWriteItem", denied());
    stage.aws.always("UpdateItem", denied());
    for count in 1..=12 {
        let deliver = stage.start(DELIVER).await;

        let batch = stage
            .deliver(&deliver, &[record(2, "rejecting", count)])
            .await;

        assert_eq!(batch.response, failures(&["m2"]));
        deliver.stop().await;
    }
    assert_eq!(receiver.requests().len(), 8);
}

#[tokio::test]
async fn a_delivery_that_could_not_be_tried_for_long_is_sent_when_all_is_well() {
    let (stage, receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &[record(0, "well", 20)]).await;

    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(receiver.requests().len(), 1);
    // It is asked once whether attempts can be written down; nothing is changed by that.
    let calls = ["BatchGetItem", "UpdateItem", "BatchWriteItem"];
    assert_eq!(batch.calls, calls);
    let [row] = &stage.aws.records()[..] else {
        panic!("one record");
    };
    assert_eq!(row["attempts"], json!({"N": "1"}));
}

#[tokio::test]
async fn writing_that_takes_too_long_leaves_time_for_visibilities_and_the_answer() {
    let cases = [("BatchWriteItem", false), ("UpdateItem", true)];
    side_by_side(cases, |(operation, before)| async move {
        let (stage, receiver) = stage().await;
        let mut count = 1;
        if before {
            put_all(&stage);
            count = 2;
        }
        stage.aws.always(operation, Reply::Hang);
        let deliver = stage.start(DELIVER).await;

        let batch = stage
            .deliver_within(&deliver, &all(count), Duration::from_secs(4))
            .await;

        assert_eq!(batch.response, failures(&["m1", "m2"]), "{operation}");
        assert_eq!(batch.visibilities.len(), 2, "{operation}");
        assert_eq!(batch.delay(2), LAST_DELAY);
        assert_eq!(receiver.requests().len(), 3);
        let took = Duration::from_millis(3300)..Duration::from_millis(3900);
        assert!(took.contains(&batch.took), "{:?}", batch.took);
        let lines = deliver.stop().await;
        let has = |text: &str| lines.iter().any(|line| line.contains(text));
        assert!(has("records.out_of_time"), "{lines:#?}");
        assert!(has(r#""RecordErrors":3"#), "{lines:#?}");
    })
    .await;
}

#[tokio::test]
async fn writing_and_visibilities_that_both_hang_leave_time_for_the_answer() {
    let (stage, _receiver) = stage().await;
    stage.aws.always("BatchWriteItem", Reply::Hang);
    stage
        .aws
        .always("ChangeMessageVisibilityBatch", Reply::Hang);
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver_within(&deliver, &all(1), Duration::from_secs(4))
        .await;

    assert_eq!(batch.response, failures(&["m1", "m2"]));
    let took = Duration::from_millis(3600)..Duration::from_millis(3980);
    assert!(took.contains(&batch.took), "{:?}", batch.took);
}
