//! Deliveries that are given up before SQS would lose them: after too many receives without an
//! attempt, at a message's last receive, and before it expires in the queue.

use e2e::delivery_record::{history, now_ms, story};
use e2e::receiver::Answer;
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Batch, Stage, failures, parameter_name};
use serde_json::{Value, json};

use crate::helpers::{DELIVER, NONE, stage};

/// Checks that a delivery has just been given up, for this reason and after so many attempts.
fn assert_given_up(stage: &Stage, job: &Job, batch: &Batch, attempts: u32, reason: &str) {
    assert_eq!(batch.response, failures(&["m0"]), "{reason}");
    assert_eq!(batch.delay(0), Some(0), "{reason}");
    let row = stage.record_of(job);
    assert_eq!(row["state"], json!({"S": "dead"}), "{reason}");
    assert_eq!(row["deadReason"], json!({"S": reason}));
    assert_eq!(row["attempts"], json!({"N": attempts.to_string()}));
    assert_eq!(row["body"], json!({"S": job.body}));
    assert_eq!(row["nextAt"], Value::Null);
    let outcomes = story(&row).pop().map(|(_, outcome)| outcome);
    assert_eq!(outcomes.as_deref(), Some("dead"));
}

#[tokio::test]
async fn after_thirty_receives_without_an_attempt_a_fault_gives_the_delivery_up() {
    // Attempts that were made, and the receive whose fault is one too many.
    for (attempts, count) in [(0, 31), (2, 33), (7, 38)] {
        let (stage, receiver, job) = stage([Answer::status(204)]).await;
        stage.aws.delete_parameter(&parameter_name("kasse-nord"));
        stage.put_earlier_attempts(&job, "m0", attempts);
        let deliver = stage.start(DELIVER).await;
        let before = Record::new(0, &job.text()).received(count - 1);
        let batch = stage.deliver(&deliver, &[before]).await;
        batch.assert_delay(0, 5400..=10_800);
        stage.make_due(&job);

        let record = Record::new(0, &job.text()).received(count);
        let batch = stage.deliver(&deliver, &[record]).await;

        assert_given_up(&stage, &job, &batch, attempts, "faults");
        assert_eq!(receiver.connections(), 0);
    }
}

#[tokio::test]
async fn after_thirty_receives_without_an_attempt_one_can_still_be_made() {
    for (status, response, state) in [(204, vec![], "delivered"), (500, vec!["m0"], "retrying")] {
        let (stage, receiver, job) = stage([Answer::status(status)]).await;
        let deliver = stage.start(DELIVER).await;

        let record = Record::new(0, &job.text()).received(35);
        let batch = stage.deliver(&deliver, &[record]).await;

        assert_eq!(batch.response, failures(&response));
        let row = stage.record_of(&job);
        assert_eq!(row["state"], json!({"S": state}));
        assert_eq!(row["attempts"], json!({"N": "1"}));
        assert_eq!(receiver.requests().len(), 1);
    }
}

#[tokio::test]
async fn what_fails_at_the_last_receive_is_dead_as_there_is_no_other() {
    let cases = [
        (None, 37, false),
        (None, 38, true),
        (None, 39, true),
        (Some("60"), 59, false),
        (Some("60"), 60, true),
    ];
    for (most, count, is_last) in cases {
        let (mut stage, receiver, job) = stage([Answer::status(500)]).await;
        if let Some(most) = most {
            stage = stage.with("MAX_RECEIVE_COUNT", most);
        }
        stage.put_earlier_attempts(&job, "m0", 2);
        let deliver = stage.start(DELIVER).await;

        let record = Record::new(0, &job.text()).received(count);
        let batch = stage.deliver(&deliver, &[record]).await;

        assert_eq!(receiver.requests().len(), 1);
        if is_last {
            assert_given_up(&stage, &job, &batch, 3, "receives");
        } else {
            batch.assert_delay(0, 270..=540);
        }
    }
}

#[tokio::test]
async fn what_is_delivered_at_the_last_receive_is_delivered() {
    let (stage, _receiver, job) = stage([Answer::status(200)]).await;
    stage.put_earlier_attempts(&job, "m0", 2);
    let deliver = stage.start(DELIVER).await;

    let record = Record::new(0, &job.text()).received(38);
    let batch = stage.deliver(&deliver, &[record]).await;

    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(stage.record_of(&job)["state"], json!({"S": "delivered"}));
}

/// The queue keeps a message for 7 days; 12 hours before the end it is given up.
const GIVEN_UP_AFTER_MS: u64 = (7 * 24 - 12) * 3_600_000;

#[tokio::test]
async fn a_retry_that_would_come_too_late_is_none() {
    // Milliseconds until the message is given up, and whether the fourth attempt is planned.
    for (left, is_planned) in [(600_000, true), (269_000, false)] {
        let (stage, receiver, job) = stage([Answer::status(500)]).await;
        stage.put_earlier_attempts(&job, "m0", 2);
        let deliver = stage.start(DELIVER).await;
        let record = Record::new(0, &job.text())
            .received(3)
            .sent_at_ms(now_ms() + left - GIVEN_UP_AFTER_MS);

        let batch = stage.deliver(&deliver, &[record]).await;

        assert_eq!(receiver.requests().len(), 1);
        if is_planned {
            batch.assert_delay(0, 270..=540);
        } else {
            assert_given_up(&stage, &job, &batch, 3, "age");
        }
    }
}

#[tokio::test]
async fn a_message_that_is_about_to_expire_is_passed_on_unsent() {
    for attempts in [0, 2] {
        let (stage, receiver, job) = stage([Answer::status(204)]).await;
        stage.put_earlier_attempts(&job, "m0", attempts);
        let deliver = stage.start(DELIVER).await;
        let old = |count: u32| {
            Record::new(0, &job.text())
                .received(count)
                .sent_at_ms(now_ms() - GIVEN_UP_AFTER_MS - 1000)
        };

        let batch = stage.deliver(&deliver, &[old(3)]).await;

        assert_given_up(&stage, &job, &batch, attempts, "age");
        let row = stage.record_of(&job);
        let entry = history(&row).pop().unwrap();
        let error = "message about to expire: it has waited for almost a week";
        assert_eq!(entry["error"], json!({"S": error}));
        let line = deliver.line_with(&["delivery.unsent"]).await;
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["level"], "ERROR");
        assert_eq!(line["failure"], "message about to expire");
        assert_eq!(line["deadReason"], "age");

        let batch = stage.deliver(&deliver, &[old(4)]).await;
        assert_eq!(batch.delay(0), Some(0));
        assert_eq!(stage.record_of(&job), row);
        assert_eq!(receiver.connections(), 0);
    }
}

#[tokio::test]
async fn an_age_that_no_message_has_is_not_believed() {
    let day = 86_400_000;
    for sent_at in [now_ms() - 15 * day, now_ms() + day, 0] {
        let (stage, _receiver, job) = stage([Answer::status(204)]).await;
        let deliver = stage.start(DELIVER).await;

        let record = Record::new(0, &job.text()).sent_at_ms(sent_at);
        let batch = stage.deliver(&deliver, &[record]).await;

        assert_eq!(batch.response, failures(&NONE), "{sent_at}");
    }
}
