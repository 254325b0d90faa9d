//! Deliveries of which less is known than usual: what is known still holds, and what is not known
//! ends nothing.

use std::time::Duration;

use e2e::delivery_record::{now_ms, time_value};
use e2e::fake_aws::Reply;
use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, failures};
use serde_json::json;

use crate::helpers::{DELIVER, NONE, record, stage, stage_of_four};

/// A stage under the policy of most attempts, 40 of which were made, and the message's 41st
/// receive: none of them was idle.
async fn late_in_a_long_run() -> (Stage, Receiver, Job, Record) {
    let (stage, receiver, job) = stage([Answer::status(204)]).await;
    let stage = stage
        .with("RETRY_POLICY", "payments-24h")
        .with("EVENT_BUS_NAME", "default");
    stage.put_earlier_attempts(&job, "m0", 40);
    let record = Record::new(0, &job.text()).received(41);
    (stage, receiver, job, record)
}

#[tokio::test]
async fn late_in_a_long_run_a_first_fault_gives_nothing_up() {
    for operation in ["BatchGetItem", "GetParameters"] {
        let (stage, _receiver, job, record) = late_in_a_long_run().await;
        stage
            .aws
            .always(operation, Reply::error(400, "AccessDeniedException"));
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &[record]).await;

        assert_eq!(batch.response, failures(&["m0"]), "{operation}");
        assert_eq!(stage.aws.calls("PutEvents").len(), 0, "{operation}");
        let row = stage.record_of(&job);
        assert_eq!(row["state"], json!({"S": "retrying"}), "{operation}");
        assert_eq!(row["attempts"], json!({"N": "40"}), "{operation}");
        let lines = deliver.stop().await;
        let deaths = lines.iter().filter(|line| line.contains("deadReason"));
        assert_eq!(deaths.count(), 0, "{operation}: {lines:#?}");
    }
}

#[tokio::test]
async fn late_in_a_long_run_a_lack_of_time_gives_nothing_up() {
    let (stage, _receiver, _job, record) = late_in_a_long_run().await;
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver_within(&deliver, &[record], Duration::from_millis(1500))
        .await;

    assert_eq!(batch.response, failures(&["m0"]));
    assert_eq!(batch.delay(0), Some(1));
    assert_eq!(stage.aws.calls("PutEvents").len(), 0);
}

#[tokio::test]
async fn what_is_known_to_be_delivered_is_not_sent_whatever_else_its_record_says() {
    let ago = time_value(now_ms() - 60_000);
    let rows = [
        json!({"state": {"S": "delivered"}}),
        json!({"state": {"S": "delivered"}, "updatedAt": {"S": "yesterday"}}),
        json!({"state": {"S": "delivered"}, "attempts": {"S": "1"}, "updatedAt": ago}),
        json!({"state": {"S": "delivered"}, "refusals": {"N": "-1"}, "createdAt": {"N": "1"}}),
    ];
    for row in rows {
        let (stage, receiver) = stage_of_four().await;
        let job = Job::for_subscriber("failing");
        stage.put_record(&job, &row);
        let before = stage.record_of(&job);
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &[record(0, "failing", 2)]).await;

        assert_eq!(batch.response, failures(&NONE), "{row}");
        assert_eq!(receiver.connections(), 0, "{row}");
        assert_eq!(stage.record_of(&job), before);
    }
}
