//! One delivery, step by step, and what becomes of it if the steps end early.

use std::process::Stdio;

use e2e::command::Ran;
use e2e::delivery_record::{moment, now_ms, time_value};
use e2e::fake_aws::Reply;
use e2e::sqs_event::Job;
use e2e::stage::Stage;
use serde_json::json;
use tokio::process::Child;

use crate::{
    HOUR_MS, NONE, URL, WEBHOOKS, changes, counts, die, job, put_dead_record, put_letter, redrive,
    redriven, sent, stage, visible,
};

#[tokio::test]
async fn a_dead_letter_is_sent_as_it_is_then_marked_then_deleted() {
    let stage = stage(&["kasse-nord"]).await;
    let mut job = job(1, "kasse-nord");
    job.body = "{ \"data\" : {\"n\":1e400,\"z\":-0,\"z\":\"\\u00e9é\"}\t}".into();
    die(&stage, &job, "m1");
    let before = now_ms();

    let ran = redrive(&stage, &[]).await;

    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        changes(&stage),
        ["SendMessageBatch", "UpdateItem", "DeleteMessageBatch"]
    );
    let entries = stage.sent_since(0);
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["MessageBody"], job.text());
    assert_eq!(entries[0]["MessageGroupId"], "kasse-nord");
    assert_eq!(stage.aws.dead_letters(), []);
    let record = stage.record_of(&job);
    assert!(
        (before..=now_ms()).contains(&moment(&record["redrivenAt"])),
        "{record}"
    );
    assert_eq!(record["redrivenMessageId"], json!({"S": "sent-1"}));
    assert_eq!(record["state"], json!({"S": "dead"}), "until it is tried");
    let summary = ran.json();
    assert_eq!(counts(&summary["redriven"]), (1, 0));
    assert_eq!(
        summary["plannedBySubscription"],
        json!([{"subscriberId": "kasse-nord", "eventType": "OrderPaid", "deadLetters": 1, "records": 0}])
    );
}

#[tokio::test]
async fn a_second_run_sends_nothing() {
    let stage = stage(&["kasse-nord"]).await;
    die(&stage, &job(1, "kasse-nord"), "m1");
    put_dead_record(&stage, &job(2, "kasse-nord"), "m2", &json!({}));
    assert_eq!(redriven(&stage, &[]).await, (1, 1));

    for _ in 0..2 {
        let again = redrive(&stage, &[]).await;

        assert_eq!(again.code, Some(0), "{again:?}");
        assert_eq!(counts(&again.json()["redriven"]), (0, 0));
        assert_eq!(again.json()["nothingToDo"]["onItsWay"], 2);
    }
    assert_eq!(sent(&stage).len(), 2);
}

#[tokio::test]
async fn a_delivery_with_letter_and_record_is_sent_once() {
    let stage = stage(&["kasse-nord"]).await;
    let jobs: Vec<Job> = (0..25).map(|number| job(number, "kasse-nord")).collect();
    for (number, job) in jobs.iter().enumerate() {
        die(&stage, job, &format!("m{number}"));
    }

    assert_eq!(redriven(&stage, &["--rate", "1000"]).await, (25, 0));

    let mut texts: Vec<String> = jobs.iter().map(Job::text).collect();
    let mut sent = sent(&stage);
    sent.sort();
    texts.sort();
    assert_eq!(sent, texts);
    assert_eq!(stage.aws.dead_letters(), []);
    // Ten to a call.
    assert_eq!(stage.aws.calls("SendMessageBatch").len(), 3);
}

#[tokio::test]
async fn two_letters_of_one_delivery_are_one_message() {
    let stage = stage(&["kasse-nord"]).await;
    let job = job(1, "kasse-nord");
    die(&stage, &job, "m1");
    let mut newer = job.clone();
    newer.url = "https://partner.example/newer".into();
    stage
        .aws
        .put_dead_letter("m2", now_ms() - HOUR_MS, &newer.text());

    assert_eq!(redriven(&stage, &[]).await, (1, 0));

    assert_eq!(sent(&stage), [newer.text()]);
    assert_eq!(stage.aws.dead_letters(), []);
}

#[tokio::test]
async fn what_the_record_says_decides_about_a_letter() {
    let ago = |minutes: u64| time_value(now_ms() - minutes * 60_000);
    let retrying = |message_id: &str, next_at| json!({"state": {"S": "retrying"}, "messageId": {"S": message_id}, "nextAt": next_at});
    let on_its_way = json!({"redrivenAt": ago(10), "redrivenMessageId": {"S": "m9"}});
    let died_again = json!({"redrivenAt": ago(61), "redrivenMessageId": {"S": "m1"}});
    let long_ago = json!({"redrivenAt": ago(16), "redrivenMessageId": {"S": "m9"}});
    for (record, is_sent) in [
        (json!({"state": {"S": "delivered"}}), false),
        (retrying("m9", time_value(now_ms() + HOUR_MS)), false),
        (retrying("m9", ago(1)), false),
        (on_its_way, false),
        (json!({}), true),
        (died_again, true),
        (long_ago, true),
        (retrying("m9", ago(16)), true),
        (retrying("m1", ago(1)), true),
        (json!({"state": {"S": "dropped"}}), true),
        // A row that is no record says nothing.
        (json!({"state": {"S": "asleep"}}), true),
    ] {
        let stage = stage(&["kasse-nord"]).await;
        let job = job(1, "kasse-nord");
        put_dead_record(&stage, &job, "m1", &record);
        put_letter(&stage, &job, "m1");

        let redriven = redriven(&stage, &["--from", "dlq"]).await;

        assert_eq!(redriven, (u64::from(is_sent), 0), "{record}");
        assert_eq!(sent(&stage).len(), usize::from(is_sent), "{record}");
        assert_eq!(stage.aws.dead_letters(), [], "{record}");
    }
}

#[tokio::test]
async fn a_letter_without_a_record_is_sent_and_no_record_made() {
    let stage = stage(&["kasse-nord"]).await;
    let job = job(1, "kasse-nord");
    put_letter(&stage, &job, "m1");

    assert_eq!(redriven(&stage, &[]).await, (1, 0));

    assert_eq!(sent(&stage), [job.text()]);
    assert_eq!(stage.record(&job.webhook_id()), None);
}

#[tokio::test]
async fn a_record_that_has_gone_on_meanwhile_is_not_marked() {
    let stage = stage(&["kasse-nord"]).await;
    let job = job(1, "kasse-nord");
    die(&stage, &job, "m1");
    // As deliver may: dead again before the mark is written.
    let (asked, refused) = (job.webhook_id(), "ConditionalCheckFailedException");
    stage.aws.rule("UpdateItem", move |input| {
        assert_eq!(input["Key"]["webhookId"]["S"], asked);
        Reply::error(400, refused)
    });

    assert_eq!(redriven(&stage, &[]).await, (1, 0));

    assert_eq!(stage.aws.dead_letters(), []);
}

#[tokio::test]
async fn what_died_again_at_once_is_redriven_again() {
    let stage = stage(&["kasse-nord"]).await;
    let job = job(1, "kasse-nord");
    die(&stage, &job, "m1");
    assert_eq!(redriven(&stage, &[]).await, (1, 0));
    let soon = time_value(now_ms() + 1000);
    stage.edit_record(
        &job,
        &json!({"messageId": {"S": "sent-1"}, "updatedAt": soon}),
    );
    put_letter(&stage, &job, "sent-1");

    assert_eq!(redriven(&stage, &[]).await, (1, 0));

    assert_eq!(sent(&stage).len(), 2);
    assert_eq!(stage.aws.dead_letters(), []);
}

/// Starts a redrive that waits for its end at the next call of this operation, and kills it there.
async fn killed_at(stage: &Stage, operation: &'static str) {
    stage.aws.next(operation, [Reply::Hang]);
    let mut child = start(stage, &[]);
    stage.aws.wait_for(operation, 1).await;
    child.kill().await.unwrap();
    stage.aws.show_dead_letters();
}

fn start(stage: &Stage, arguments: &[&str]) -> Child {
    let arguments = [&["redrive", "--json"], arguments].concat();
    let mut command = stage.command(WEBHOOKS, &arguments);
    command.stdin(Stdio::null()).spawn().unwrap()
}

#[tokio::test]
async fn killed_before_it_was_sent_nothing_is_lost() {
    for operation in ["BatchGetItem", "SendMessageBatch"] {
        let stage = stage(&["kasse-nord"]).await;
        die(&stage, &job(1, "kasse-nord"), "m1");

        killed_at(&stage, operation).await;

        assert_eq!(visible(&stage), ["m1"]);
        assert_eq!(redriven(&stage, &[]).await, (1, 0));
        assert_eq!(stage.aws.dead_letters(), []);
    }
}

#[tokio::test]
async fn killed_after_it_was_sent_the_copy_is_told_by_the_record() {
    let stage = stage(&["kasse-nord"]).await;
    let job = job(1, "kasse-nord");
    die(&stage, &job, "m1");

    killed_at(&stage, "UpdateItem").await;

    assert_eq!(sent(&stage).len(), 1);
    stage.edit_record(
        &job,
        &json!({"state": {"S": "delivered"}, "messageId": {"S": "sent-1"}}),
    );
    assert_eq!(redriven(&stage, &[]).await, (0, 0));
    assert_eq!(sent(&stage).len(), 1);
    assert_eq!(stage.aws.dead_letters(), []);
}

#[tokio::test]
async fn killed_after_it_was_marked_the_copy_is_told_by_the_mark() {
    let stage = stage(&["kasse-nord"]).await;
    die(&stage, &job(1, "kasse-nord"), "m1");

    killed_at(&stage, "DeleteMessageBatch").await;

    assert_eq!(visible(&stage), ["m1"]);
    assert_eq!(redriven(&stage, &[]).await, (0, 0));
    assert_eq!(sent(&stage).len(), 1);
    assert_eq!(stage.aws.dead_letters(), []);
}

#[tokio::test]
async fn a_letter_that_is_hidden_by_a_run_that_was_killed_does_not_hold_its_delivery_up() {
    let stage = stage(&["kasse-nord"]).await;
    let job = job(1, "kasse-nord");
    die(&stage, &job, "m1");
    stage.aws.next("SendMessageBatch", [Reply::Hang]);
    let mut child = start(&stage, &[]);
    stage.aws.wait_for("SendMessageBatch", 1).await;
    child.kill().await.unwrap();
    assert_eq!(visible(&stage), NONE);
    let unknown = redrive(&stage, &["--webhook-id", "msg_unknown"]).await;
    assert_eq!(unknown.code, Some(3), "{unknown:?}");
    assert!(
        unknown
            .stderr
            .ends_with("; messages of the dead-letter queue in other hands: about 1\n"),
        "{unknown:?}"
    );

    let ran = redrive(&stage, &[]).await;

    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(counts(&ran.json()["redriven"]), (0, 1));
    assert_eq!(ran.json()["deadLetterQueue"]["elsewhere"], 1);
    let mut rebuilt = job.clone();
    rebuilt.url = URL.into();
    assert_eq!(stage.sent_since(1)[0]["MessageBody"], rebuilt.text());
    stage.aws.show_dead_letters();
    assert_eq!(redriven(&stage, &[]).await, (0, 0));
    assert_eq!(stage.aws.dead_letters(), []);
}

#[tokio::test]
async fn ctrl_c_stops_after_the_batch_in_hand_and_shows_the_rest_again() {
    for signal in ["INT", "TERM"] {
        let stage = stage(&["kasse-nord"]).await;
        for number in 0..3 {
            die(&stage, &job(number, "kasse-nord"), &format!("m{number}"));
        }
        // One second between two.
        let child = start(&stage, &["--rate", "1"]);
        stage.aws.wait_for("DeleteMessageBatch", 1).await;
        let pid = child.id().unwrap();
        let kill = ["-c", &format!("kill -{signal} {pid}")];
        let status = tokio::process::Command::new("sh").args(kill).status().await;
        assert!(status.unwrap().success());

        let ran = Ran::new(child.wait_with_output().await.unwrap());

        assert_eq!(ran.code, Some(130), "{ran:?}");
        let summary = ran.json();
        assert_eq!(summary["interrupted"], true);
        assert_eq!(counts(&summary["redriven"]), (1, 0));
        assert_eq!(summary["notReached"], 2);
        assert_eq!(visible(&stage).len(), 2);
        assert_eq!(redriven(&stage, &[]).await, (2, 0));
        assert_eq!(sent(&stage).len(), 3);
    }
}

#[tokio::test]
async fn the_rate_is_kept() {
    let stage = stage(&["kasse-nord"]).await;
    for number in 0..25 {
        die(&stage, &job(number, "kasse-nord"), &format!("m{number}"));
    }

    assert_eq!(redriven(&stage, &["--rate", "20"]).await, (25, 0));

    let times: Vec<_> = stage
        .aws
        .all_calls()
        .into_iter()
        .filter(|call| call.operation == "SendMessageBatch")
        .map(|call| call.at)
        .collect();
    let [first, second, third] = times[..] else {
        panic!("{times:?}");
    };
    for (one, other) in [(first, second), (second, third)] {
        let ms = (other - one).as_millis();
        // Half a second for ten, less what reading took in the first batch.
        assert!(ms >= 350, "{ms}");
    }
}
