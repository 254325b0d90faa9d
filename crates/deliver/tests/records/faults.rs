//! Faults of our own: they spend no attempt and end no run, and each that follows another waits
//! three times as long.

use std::ops::RangeInclusive;
use std::time::Duration;

use e2e::delivery_record::{history, story};
use e2e::fake_aws::Reply;
use e2e::receiver::Answer;
use e2e::signature::secret_for;
use e2e::sqs_event::Record;
use e2e::stage::{TABLE_NAME, failures, parameter_name};
use serde_json::{Value, json};

use crate::helpers::{DELIVER, NONE, stage};

/// 5 s tripled, half of it random.
const PACE: [RangeInclusive<i64>; 5] = [3..=5, 8..=15, 23..=45, 68..=135, 203..=405];

fn faults_then(n: u32, faults: usize, outcome: &str) -> Vec<(u32, String)> {
    let mut story = vec![(n, "fault".to_owned()); faults];
    story.push((n, outcome.to_owned()));
    story
}

#[tokio::test]
async fn while_secrets_can_not_be_read_no_attempt_is_spent() {
    let (stage, receiver, job) = stage([Answer::status(503)]).await;
    stage
        .aws
        .always("GetParameters", Reply::error(400, "AccessDeniedException"));
    let deliver = stage.start(DELIVER).await;
    for (before, pace) in PACE.into_iter().enumerate() {
        let record = Record::new(0, &job.text()).received(before + 1);

        let batch = stage.deliver(&deliver, &[record]).await;

        assert_eq!(batch.response, failures(&["m0"]));
        batch.assert_delay(0, pace);
        let row = stage.record_of(&job);
        assert_eq!(row["state"], json!({"S": "retrying"}));
        assert_eq!(row["attempts"], json!({"N": "0"}));
        stage.make_due(&job);
    }
    assert_eq!(receiver.connections(), 0);

    stage.aws.always("GetParameters", Reply::Usual);
    let deliver = stage.start(DELIVER).await;
    let batch = stage
        .deliver(&deliver, &[Record::new(0, &job.text()).received(6)])
        .await;

    batch.assert_delay(0, 30..=60);
    let row = stage.record_of(&job);
    assert_eq!(story(&row), faults_then(1, 5, "retry"));
    assert_eq!(row["attempts"], json!({"N": "1"}));
}

#[tokio::test]
async fn a_broken_row_spends_no_attempt_until_it_is_mended() {
    let (stage, receiver, job) = stage([Answer::status(204)]).await;
    let mended = stage.aws.row("OrderPaid", "kasse-nord").unwrap();
    let mut broken = mended.clone();
    broken["enabled"] = json!({"S": "true"});
    stage.aws.put_row(broken);
    let deliver = stage.start(DELIVER).await;
    for (before, pace) in PACE.into_iter().enumerate() {
        let record = Record::new(0, &job.text()).received(before + 1);

        let batch = stage.deliver(&deliver, &[record]).await;

        assert_eq!(batch.response, failures(&["m0"]));
        batch.assert_delay(0, pace);
        stage.make_due(&job);
    }
    assert_eq!(receiver.connections(), 0);
    stage.aws.put_row(mended);

    let record = Record::new(0, &job.text()).received(6);
    let batch = stage.deliver(&deliver, &[record]).await;

    assert_eq!(batch.response, failures(&NONE));
    let row = stage.record_of(&job);
    assert_eq!(story(&row), faults_then(1, 5, "delivered"));
    assert_eq!(row["attempts"], json!({"N": "1"}));
}

#[tokio::test]
async fn faults_between_attempts_go_on_where_the_run_was() {
    // Two attempts, then a fault at the fifth receive: two receives went elsewhere.
    let (stage, receiver, job) = stage([Answer::status(500)]).await;
    let deliver = stage.start(DELIVER).await;
    for count in 1..=2 {
        let record = Record::new(0, &job.text()).received(count);
        stage.deliver(&deliver, &[record]).await;
        stage.make_due(&job);
    }
    stage.aws.delete_parameter(&parameter_name("kasse-nord"));
    let deliver = stage.start(DELIVER).await;

    let record = Record::new(0, &job.text()).received(5);
    let batch = stage.deliver(&deliver, &[record]).await;

    let [_, _, third, ..] = PACE;
    batch.assert_delay(0, third);
    let row = stage.record_of(&job);
    assert_eq!(row["attempts"], json!({"N": "2"}));
    let entry = &history(&row)[2];
    assert_eq!(entry["n"], json!({"N": "3"}));
    assert_eq!(entry["outcome"], json!({"S": "fault"}));

    stage.make_due(&job);
    stage.set_secret("kasse-nord", &secret_for("kasse-nord"));
    let deliver = stage.start(DELIVER).await;
    let record = Record::new(0, &job.text()).received(6);
    let batch = stage.deliver(&deliver, &[record]).await;

    batch.assert_delay(0, 270..=540);
    let row = stage.record_of(&job);
    assert_eq!(
        story(&row),
        [
            (1, "retry".to_owned()),
            (2, "retry".to_owned()),
            (3, "fault".to_owned()),
            (3, "retry".to_owned()),
        ]
    );
    assert_eq!(receiver.requests().len(), 3);
}

#[tokio::test]
async fn no_fault_waits_longer_than_three_hours() {
    let (stage, receiver, job) = stage([Answer::status(204)]).await;
    stage.aws.delete_parameter(&parameter_name("kasse-nord"));
    let deliver = stage.start(DELIVER).await;
    for count in [9, 20, 30] {
        let record = Record::new(0, &job.text()).received(count);

        let batch = stage.deliver(&deliver, &[record]).await;

        assert_eq!(batch.response, failures(&["m0"]), "{count}");
        batch.assert_delay(0, 5400..=10_800);
        let row = stage.record_of(&job);
        assert_eq!(row["state"], json!({"S": "retrying"}), "{count}");
        assert_eq!(row["attempts"], json!({"N": "0"}), "{count}");
        stage.make_due(&job);
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn an_attempt_that_the_end_of_the_invocation_cuts_short_is_not_spent() {
    let (stage, receiver, job) = stage([Answer::hang()]).await;
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver_within(
            &deliver,
            &[Record::new(0, &job.text())],
            Duration::from_millis(3500),
        )
        .await;

    assert_eq!(batch.response, failures(&["m0"]));
    let [first, second, ..] = PACE;
    batch.assert_delay(0, first);
    assert_eq!(receiver.requests().len(), 1);
    let row = stage.record_of(&job);
    assert_eq!(row["attempts"], json!({"N": "0"}));
    let entry = &history(&row)[0];
    assert_eq!(entry["n"], json!({"N": "1"}));
    assert_eq!(entry["outcome"], json!({"S": "fault"}));
    let error = entry["error"]["S"].as_str().unwrap();
    let start = "cut short by the end of the invocation: no answer within ";
    assert!(error.starts_with(start), "{error}");
    let ms: u64 = entry["ms"]["N"].as_str().unwrap().parse().unwrap();
    assert!((1500..=2600).contains(&ms), "{entry}");

    // The second time as well: what was sent was no attempt to the end.
    stage.make_due(&job);
    let record = Record::new(0, &job.text()).received(2);
    let batch = stage
        .deliver_within(&deliver, &[record], Duration::from_millis(3500))
        .await;

    batch.assert_delay(0, second);
    assert_eq!(stage.record_of(&job)["attempts"], json!({"N": "0"}));
}

#[tokio::test]
async fn without_time_for_an_attempt_nothing_is_read_or_sent_and_it_comes_back_at_once() {
    let (stage, receiver, job) = stage([Answer::status(204)]).await;
    let deliver = stage.start(DELIVER).await;
    for count in [1, 9, 30] {
        let record = Record::new(0, &job.text()).received(count);

        let batch = stage
            .deliver_within(&deliver, &[record], Duration::from_millis(1500))
            .await;

        assert_eq!(batch.response, failures(&["m0"]));
        assert_eq!(batch.delay(0), Some(1));
        assert_eq!(batch.calls, ["ChangeMessageVisibilityBatch"]);
    }
    assert_eq!(receiver.connections(), 0);
    assert_eq!(stage.aws.records(), [] as [Value; 0]);
}

#[tokio::test]
async fn while_dynamodb_is_down_nothing_is_sent_and_no_attempt_is_spent() {
    let (stage, receiver, job) = stage([Answer::status(204)]).await;
    stage
        .aws
        .always("BatchGetItem", Reply::error(400, "AccessDeniedException"));
    let deliver = stage.start(DELIVER).await;
    for (before, pace) in PACE.into_iter().enumerate() {
        let record = Record::new(0, &job.text()).received(before + 1);

        let batch = stage.deliver(&deliver, &[record]).await;

        assert_eq!(batch.response, failures(&["m0"]));
        batch.assert_delay(0, pace);
        // Once for both tables, once for the subscriptions alone; and nothing is written.
        assert_eq!(
            batch.calls,
            [
                "BatchGetItem",
                "BatchGetItem",
                "ChangeMessageVisibilityBatch"
            ]
        );
    }
    assert_eq!(receiver.connections(), 0);
    assert_eq!(stage.aws.records(), [] as [Value; 0]);

    stage.aws.always("BatchGetItem", Reply::Usual);
    let record = Record::new(0, &job.text()).received(6);
    let batch = stage.deliver(&deliver, &[record]).await;

    assert_eq!(batch.response, failures(&NONE));
    let row = stage.record_of(&job);
    assert_eq!(story(&row), [(1, "delivered".to_owned())]);
    assert_eq!(row["attempts"], json!({"N": "1"}));
}

#[tokio::test]
async fn a_410_that_can_not_be_noted_spends_no_attempt() {
    let (stage, receiver, job) = stage([Answer::status(410)]).await;
    stage.aws.rule("UpdateItem", |input| {
        if input["TableName"] == TABLE_NAME {
            Reply::error(400, "AccessDeniedException")
        } else {
            Reply::Usual
        }
    });
    let deliver = stage.start(DELIVER).await;
    for (before, pace) in PACE.into_iter().take(2).enumerate() {
        let record = Record::new(0, &job.text()).received(before + 1);

        let batch = stage.deliver(&deliver, &[record]).await;

        assert_eq!(batch.response, failures(&["m0"]));
        batch.assert_delay(0, pace);
        stage.make_due(&job);
    }
    assert_eq!(receiver.requests().len(), 2);
    let row = stage.record_of(&job);
    assert_eq!(row["attempts"], json!({"N": "0"}));
    for entry in history(&row) {
        assert_eq!(entry["outcome"], json!({"S": "fault"}));
        assert_eq!(entry["status"], json!({"N": "410"}));
        let error = entry["error"]["S"].as_str().unwrap();
        let start = "subscription could not be disabled: AccessDeniedException";
        assert!(error.starts_with(start), "{error}");
    }

    stage.aws.always("UpdateItem", Reply::Usual);
    let record = Record::new(0, &job.text()).received(3);
    let batch = stage.deliver(&deliver, &[record]).await;

    assert_eq!(batch.response, failures(&NONE));
    assert!(!stage.is_enabled("kasse-nord"));
    assert_eq!(story(&stage.record_of(&job)), faults_then(1, 2, "gone"));
}
