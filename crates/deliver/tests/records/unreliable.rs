//! Delivery records that can not be read while everything else works: webhooks are still sent,
//! the receive count stands in for the record, and when it is used up nothing is sent.

use std::time::Duration;

use e2e::delivery_record::{history, now_ms, story, time_value};
use e2e::fake_aws::Reply;
use e2e::sqs_event::Job;
use e2e::stage::{DELIVERIES_TABLE, Stage, TABLE_NAME, failures, parameter_name, side_by_side};
use serde_json::{Value, json};

use crate::helpers::{DELIVER, NONE, last_figures, record, stage_of_four};

/// From now on, every read that asks for delivery records gets this reply.
fn no_records(stage: &Stage, reply: Reply) {
    stage.aws.rule("BatchGetItem", move |input| {
        if input["RequestItems"][DELIVERIES_TABLE].is_null() {
            Reply::Usual
        } else {
            reply.clone()
        }
    });
}

#[tokio::test]
async fn without_records_webhooks_are_sent_and_the_receive_count_stands_in() {
    let throttled = Reply::error(400, "ProvisionedThroughputExceededException");
    // How often each read is tried. There are three: of both tables, and of each alone.
    let replies = [
        (Reply::error(400, "AccessDeniedException"), 1),
        (Reply::error(400, "ResourceNotFoundException"), 1),
        (Reply::error(400, "ValidationException"), 1),
        (throttled, 3),
        (Reply::error(500, "InternalServerError"), 3),
        (Reply::Cut, 3),
        (Reply::Text("<html>".into()), 1),
        (Reply::Output(json!({})), 1),
        (
            Reply::Output(json!({"Responses": {}, "UnprocessedKeys": {}})),
            1,
        ),
    ];
    side_by_side(replies, |(reply, tries)| async move {
        let (stage, receiver) = stage_of_four().await;
        let job = Job::for_subscriber("failing");
        // What it says is of no use as long as it can not be read.
        let ago = time_value(now_ms() - 60_000);
        let next_at = time_value(now_ms() + 60_000);
        let other = Job::for_subscriber("well");
        stage.put_record(
            &other,
            &json!({
                "state": {"S": "retrying"}, "attempts": {"N": "1"}, "refusals": {"N": "0"},
                "messageId": {"S": "m0"}, "nextAt": next_at,
                "startedAt": ago, "createdAt": ago, "updatedAt": ago,
            }),
        );
        no_records(&stage, reply.clone());
        let deliver = stage.start(DELIVER).await;
        let records = [record(0, "well", 2), record(1, "failing", 3)];

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&["m1"]), "{reply:?}");
        batch.assert_delay(1, 270..=540);
        assert_eq!(receiver.requests_to("/well").len(), 1);
        assert_eq!(receiver.requests_to("/failing").len(), 1);
        let mut calls = vec!["BatchGetItem"; tries + 1 + tries];
        // One for the run that has a record, and two for the one of which there is none.
        calls.extend(["UpdateItem"; 3]);
        calls.push("ChangeMessageVisibilityBatch");
        assert_eq!(batch.calls, calls, "{reply:?}");
        let row = stage.record_of(&other);
        assert_eq!(story(&row), [(2, "delivered".to_owned())]);
        assert_eq!(row["state"], json!({"S": "delivered"}));
        assert_eq!(row["attempts"], json!({"N": "2"}));
        assert_eq!(row["createdAt"], ago);
        assert_eq!(row["startedAt"], ago);
        let row = stage.record_of(&job);
        assert_eq!(story(&row), [(3, "retry".to_owned())]);
        assert_eq!(row["attempts"], json!({"N": "3"}));
        let lines = deliver.stop().await;
        let metrics = last_figures(&lines);
        assert_eq!(metrics["RecordErrors"], 2, "{reply:?}");
        assert_eq!(metrics["Attempts"], 2, "{reply:?}");
        assert_eq!(metrics["Delivered"], 1, "{reply:?}");
        let errors = lines.iter().filter(|line| line.contains("ERROR"));
        assert_eq!(errors.count(), 2, "{lines:#?}");
    })
    .await;
}

#[tokio::test]
async fn a_read_of_both_tables_that_fails_does_not_make_a_record_unknown() {
    let (stage, receiver) = stage_of_four().await;
    let job = Job::for_subscriber("failing");
    stage.put_earlier_attempts(&job, "m0", 1);
    stage
        .aws
        .next("BatchGetItem", [Reply::error(400, "AccessDeniedException")]);
    let deliver = stage.start(DELIVER).await;

    // Its receives would make this the fifth attempt.
    let batch = stage.deliver(&deliver, &[record(0, "failing", 5)]).await;

    assert_eq!(batch.response, failures(&["m0"]));
    batch.assert_delay(0, 90..=180);
    assert_eq!(receiver.requests_to("/failing").len(), 1);
    let tables_read: Vec<[bool; 2]> = stage
        .aws
        .calls("BatchGetItem")
        .iter()
        .map(|call| {
            [TABLE_NAME, DELIVERIES_TABLE].map(|name| call["RequestItems"][name].is_object())
        })
        .collect();
    assert_eq!(tables_read, [[true, true], [true, false], [false, true]]);
    let row = stage.record_of(&job);
    assert_eq!(row["attempts"], json!({"N": "2"}));
    // A figure of nothing is left out.
    assert!(last_figures(&deliver.stop().await)["RecordErrors"].is_null());
}

#[tokio::test]
async fn records_that_stay_unprocessed_do_not_keep_webhooks_back() {
    let (stage, receiver) = stage_of_four().await;
    stage
        .aws
        .always("BatchGetItem", Reply::Unprocessed(DELIVERIES_TABLE));
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver(&deliver, &[record(0, "well", 1), record(1, "failing", 2)])
        .await;

    assert_eq!(batch.response, failures(&["m1"]));
    batch.assert_delay(1, 90..=180);
    assert_eq!(receiver.requests().len(), 2);
    let reads = stage.aws.calls("BatchGetItem");
    assert_eq!(reads.len(), 4);
    for again in &reads[1..] {
        assert!(again["RequestItems"][TABLE_NAME].is_null(), "{again}");
    }
    assert_eq!(last_figures(&deliver.stop().await)["RecordErrors"], 2);
}

#[tokio::test]
async fn records_that_are_processed_late_are_known() {
    let (stage, _receiver) = stage_of_four().await;
    let job = Job::for_subscriber("well");
    let ago = time_value(now_ms() - 60_000);
    stage.put_record(
        &job,
        &json!({
            "state": {"S": "delivered"}, "attempts": {"N": "1"},
            "startedAt": ago, "createdAt": ago, "updatedAt": ago,
        }),
    );
    stage.aws.next(
        "BatchGetItem",
        [
            Reply::Unprocessed(DELIVERIES_TABLE),
            Reply::Unprocessed(DELIVERIES_TABLE),
        ],
    );
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &[record(0, "well", 2)]).await;

    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(batch.calls, ["BatchGetItem"; 3]);
    assert_eq!(stage.record_of(&job)["updatedAt"], ago);
}

#[tokio::test]
async fn subscriptions_that_stay_unprocessed_are_a_fault_and_records_are_no_help() {
    let (stage, receiver) = stage_of_four().await;
    stage
        .aws
        .always("BatchGetItem", Reply::Unprocessed(TABLE_NAME));
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &[record(0, "well", 1)]).await;

    assert_eq!(batch.response, failures(&["m0"]));
    batch.assert_delay(0, 3..=5);
    assert_eq!(receiver.connections(), 0);
    assert_eq!(stage.aws.records(), [] as [Value; 0]);
}

#[tokio::test]
async fn a_record_that_is_none_is_passed_over_and_mended() {
    let broken = [
        ("state", Value::Null),
        ("state", json!({"S": "asleep"})),
        ("state", json!({"N": "1"})),
        ("attempts", json!({"S": "2"})),
        ("attempts", json!({"N": "-1"})),
        ("attempts", json!({"N": "1.5"})),
        ("refusals", json!({"S": "many"})),
        ("startedAt", Value::Null),
        ("createdAt", json!({"S": "yesterday"})),
        ("updatedAt", json!({"N": "1796040000"})),
    ];
    side_by_side(broken, |(attribute, value)| async move {
        let (stage, receiver) = stage_of_four().await;
        let ago = time_value(now_ms() - 60_000);
        let mut row = json!({
            "state": {"S": "retrying"},
            "attempts": {"N": "2"},
            "refusals": {"N": "0"},
            "messageId": {"S": "m0"},
            "startedAt": ago,
            "createdAt": ago,
            "updatedAt": ago,
        });
        row[attribute] = value.clone();
        if value.is_null() {
            row.as_object_mut().unwrap().remove(attribute);
        }
        let job = Job::for_subscriber("failing");
        stage.put_record(&job, &row);
        let deliver = stage.start(DELIVER).await;
        let records = [record(0, "failing", 3), record(1, "well", 1)];

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&["m0"]), "{attribute} {value}");
        batch.assert_delay(0, 270..=540);
        assert_eq!(receiver.requests().len(), 2);
        let line = deliver.line_with(&["record.broken"]).await;
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["attribute"], attribute);
        assert_eq!(line["webhookId"], json!(job.webhook_id()));
        assert_eq!(line["level"], "ERROR");

        assert_eq!(
            stage.aws.calls("UpdateItem").len(),
            1,
            "{attribute} {value}"
        );
        let row = stage.record_of(&job);
        assert_eq!(row["attempts"], json!({"N": "3"}), "{attribute} {value}");
        assert_eq!(row["historyCut"], json!({"BOOL": true}));
        assert_eq!(row["createdAt"], row["updatedAt"]);
        assert_eq!(story(&row), [(3, "retry".to_owned())]);
        // What was written last can be read again.
        stage.make_due(&job);
        stage.deliver(&deliver, &[record(0, "failing", 9)]).await;
        let attempts = stage.record_of(&job)["attempts"].clone();
        assert_eq!(attempts, json!({"N": "4"}), "{attribute} {value}");
        let lines = deliver.stop().await;
        let first = lines.iter().find(|line| line.contains("RecordErrors"));
        let first: Value = serde_json::from_str(first.unwrap()).unwrap();
        assert_eq!(first["RecordErrors"], 1, "{attribute} {value}");
    })
    .await;
}

#[tokio::test]
async fn beyond_the_last_attempt_by_its_receive_count_nothing_is_sent() {
    // Receives, and the visibility that follows. How many made no attempt is not known, so none is
    // one too many.
    for (count, delay) in [
        (7, 10_800..=21_600),
        (8, 21_600..=21_600),
        (9, 5400..=10_800),
        (30, 5400..=10_800),
        (31, 5400..=10_800),
    ] {
        let (stage, receiver) = stage_of_four().await;
        no_records(&stage, Reply::error(400, "AccessDeniedException"));
        let deliver = stage.start(DELIVER).await;

        let batch = stage
            .deliver(&deliver, &[record(0, "failing", count)])
            .await;

        assert_eq!(batch.response, failures(&["m0"]), "{count}");
        batch.assert_delay(0, delay);
        let sent = usize::from(count <= 8);
        assert_eq!(receiver.requests().len(), sent, "{count}");
        let lines = deliver.stop().await;
        let metrics = last_figures(&lines);
        assert_eq!(metrics["RecordErrors"], 1, "{count}");
        if sent == 0 {
            assert_eq!(metrics["Faults"], 1);
            assert_eq!(metrics["Attempts"], Value::Null);
            let line = lines.iter().find(|line| line.contains("delivery.unsent"));
            let line: Value = serde_json::from_str(line.unwrap()).unwrap();
            assert_eq!(line["failure"], "delivery record unreliable");
            assert_eq!(line["error"], "the receive count is used up");
            assert_eq!(line["level"], "ERROR");
            assert_eq!(line["deadReason"], Value::Null);
        }
        assert_eq!(stage.aws.records().len(), sent);
    }
}

#[tokio::test]
async fn beyond_the_horizon_by_its_first_receive_nothing_is_sent() {
    for (hours, sent) in [(83, 1), (85, 0)] {
        let (stage, receiver) = stage_of_four().await;
        no_records(&stage, Reply::error(400, "AccessDeniedException"));
        let deliver = stage.start(DELIVER).await;
        let first_received = now_ms() - hours * 3_600_000;

        let batch = stage
            .deliver(
                &deliver,
                &[record(0, "failing", 2).first_received_at_ms(first_received)],
            )
            .await;

        assert_eq!(batch.response, failures(&["m0"]), "{hours}");
        batch.assert_delay(0, if sent == 1 { 90..=180 } else { 8..=15 });
        assert_eq!(receiver.requests().len(), sent, "{hours}");
    }
}

#[tokio::test]
async fn a_dead_delivery_is_not_passed_on_while_its_record_can_not_be_read() {
    // Or each receive would be another attempt, without a pause between them.
    let (stage, receiver) = stage_of_four().await;
    let stage = stage.with("RETRY_POLICY", "bounded");
    no_records(&stage, Reply::error(400, "AccessDeniedException"));
    let deliver = stage.start(DELIVER).await;
    let job = Job::for_subscriber("rejecting");

    for count in 1..=3 {
        let batch = stage
            .deliver(&deliver, &[record(0, "rejecting", count)])
            .await;

        assert_eq!(batch.response, failures(&["m0"]));
        // 30 s doubled seven times, with which the schedule ends.
        assert_eq!(batch.delay(0), Some(3840), "{count}");
        assert_eq!(stage.record_of(&job)["state"], json!({"S": "dead"}));
    }

    stage.aws.always("BatchGetItem", Reply::Usual);
    let batch = stage.deliver(&deliver, &[record(0, "rejecting", 4)]).await;
    assert_eq!(batch.delay(0), Some(0));
    assert_eq!(receiver.requests().len(), 3);
}

#[tokio::test]
async fn a_silent_deliveries_table_costs_no_more_than_the_invocation_has() {
    let (stage, _receiver) = stage_of_four().await;
    no_records(&stage, Reply::Hang);
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver_within(&deliver, &[record(0, "well", 1)], Duration::from_secs(4))
        .await;

    assert_eq!(batch.response, failures(&["m0"]));
    batch.assert_delay(0, 1..=5);
    assert!(batch.took < Duration::from_secs(4), "{:?}", batch.took);
}

#[tokio::test]
async fn an_own_fault_spends_no_attempt_though_the_record_can_not_be_read() {
    let (stage, receiver) = stage_of_four().await;
    let job = Job::for_subscriber("failing");
    let deliver = stage.start(DELIVER).await;
    for count in 1..=2 {
        stage
            .deliver(&deliver, &[record(0, "failing", count)])
            .await;
        stage.make_due(&job);
    }
    let before = stage.record_of(&job);
    stage.aws.delete_parameter(&parameter_name("failing"));
    no_records(&stage, Reply::error(400, "AccessDeniedException"));
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &[record(0, "failing", 6)]).await;

    assert_eq!(batch.response, failures(&["m0"]));
    assert_eq!(receiver.requests().len(), 2);
    let after = stage.record_of(&job);
    for name in ["attempts", "refusals", "startedAt", "createdAt", "state"] {
        assert_eq!(after[name], before[name], "{name}");
    }
}

#[tokio::test]
async fn an_own_fault_of_which_no_record_is_known_leaves_none_that_counts_attempts() {
    let (stage, _receiver) = stage_of_four().await;
    let job = Job::for_subscriber("failing");
    stage.aws.delete_parameter(&parameter_name("failing"));
    no_records(&stage, Reply::error(400, "AccessDeniedException"));
    let deliver = stage.start(DELIVER).await;

    stage.deliver(&deliver, &[record(0, "failing", 6)]).await;

    if let Some(row) = stage.record(&job.webhook_id()) {
        assert_eq!(row["attempts"], json!({"N": "0"}));
        assert_eq!(history(&row).len(), 1);
    }
}

#[tokio::test]
async fn an_attempt_whose_record_can_not_be_read_is_one_more_of_its_run() {
    // By its receive count it is the sixth; the record, which nobody can read, knows of two.
    for (count, story_of_it) in [(3, (3, "retry")), (6, (6, "retry"))] {
        let (stage, _receiver) = stage_of_four().await;
        let job = Job::for_subscriber("failing");
        let deliver = stage.start(DELIVER).await;
        for count in 1..=2 {
            stage
                .deliver(&deliver, &[record(0, "failing", count)])
                .await;
            stage.make_due(&job);
        }
        let before = stage.record_of(&job);
        no_records(&stage, Reply::error(400, "AccessDeniedException"));

        stage
            .deliver(&deliver, &[record(0, "failing", count)])
            .await;

        let row = stage.record_of(&job);
        assert_eq!(row["attempts"], json!({"N": "3"}), "{count}");
        assert_eq!(row["startedAt"], before["startedAt"]);
        assert_eq!(row["createdAt"], before["createdAt"]);
        let (n, outcome) = story_of_it;
        assert_eq!(story(&row)[2], (n, outcome.to_owned()));
    }
}

#[tokio::test]
async fn an_unread_record_of_another_run_begins_anew() {
    let (stage, _receiver) = stage_of_four().await;
    let job = Job::for_subscriber("failing");
    let ago = time_value(now_ms() - 60_000);
    stage.put_record(
        &job,
        &json!({
            "state": {"S": "dead"}, "attempts": {"N": "8"}, "refusals": {"N": "0"},
            "messageId": {"S": "m0"}, "deadReason": {"S": "attempts"}, "body": {"S": "{}"},
            "startedAt": ago, "createdAt": ago, "updatedAt": ago,
        }),
    );
    no_records(&stage, Reply::error(400, "AccessDeniedException"));
    let deliver = stage.start(DELIVER).await;
    let redriven = record(7, "failing", 1).sent_at_ms(now_ms());

    let batch = stage.deliver(&deliver, &[redriven]).await;

    batch.assert_delay(7, 30..=60);
    let row = stage.record_of(&job);
    for (name, value) in [
        ("state", json!({"S": "retrying"})),
        ("attempts", json!({"N": "1"})),
        ("messageId", json!({"S": "m7"})),
        ("createdAt", ago),
        ("deadReason", Value::Null),
        ("body", Value::Null),
    ] {
        assert_eq!(row[name], value, "{name}");
    }
    assert_eq!(story(&row), [(1, "retry".to_owned())]);
}

#[tokio::test]
async fn an_unread_record_of_what_was_delivered_stays_and_its_message_goes() {
    let (stage, _receiver) = stage_of_four().await;
    let job = Job::for_subscriber("failing");
    let ago = time_value(now_ms() - 60_000);
    stage.put_record(
        &job,
        &json!({
            "state": {"S": "delivered"}, "attempts": {"N": "1"}, "refusals": {"N": "0"},
            "messageId": {"S": "m0"}, "startedAt": ago, "createdAt": ago, "updatedAt": ago,
        }),
    );
    let before = stage.record_of(&job);
    no_records(&stage, Reply::error(400, "AccessDeniedException"));
    let deliver = stage.start(DELIVER).await;

    // Whether it was delivered can not be read, but the write finds out.
    let batch = stage.deliver(&deliver, &[record(0, "failing", 2)]).await;

    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(batch.visibilities, []);
    assert_eq!(stage.record_of(&job), before);
}
