//! What AWS does not do, and how that is told.

use e2e::fake_aws::Reply;
use e2e::sqs_event::Job;
use serde_json::json;

use crate::{
    NONE, changes, counts, die, job, put_dead_record, redrive, redriven, sent, stage, visible,
};

#[tokio::test]
async fn what_the_queue_refuses_for_good_stays_dead_and_the_others_go() {
    let stage = stage(&["kasse-nord"]).await;
    for number in 0..3 {
        die(&stage, &job(number, "kasse-nord"), &format!("m{number}"));
    }
    let refused = job(1, "kasse-nord").webhook_id();
    stage.aws.rule("SendMessageBatch", move |input| {
        let is_refused =
            |entry: &serde_json::Value| entry["MessageBody"].as_str().unwrap().contains(&refused);
        Reply::partly_refused(input, is_refused, "InvalidMessageContents", true)
    });

    let ran = redrive(&stage, &[]).await;

    assert_eq!(ran.code, Some(1), "{ran:?}");
    let summary = ran.json();
    assert_eq!(counts(&summary["redriven"]), (2, 0));
    assert_eq!(summary["refused"], 1);
    assert_eq!(
        summary["refusal"],
        "InvalidMessageContents: refused by the test"
    );
    assert_eq!(visible(&stage), ["m1"]);
    assert_eq!(stage.aws.calls("SendMessageBatch").len(), 1);
    let record = stage.record_of(&job(1, "kasse-nord"));
    assert!(record["redrivenAt"].is_null(), "{record}");
}

#[tokio::test]
async fn what_the_queue_can_not_take_is_sent_again_alone() {
    let stage = stage(&["kasse-nord"]).await;
    for number in 0..3 {
        die(&stage, &job(number, "kasse-nord"), &format!("m{number}"));
    }
    let first = "0";
    stage.aws.next(
        "SendMessageBatch",
        [Reply::Output(json!({
            "Successful": [{"Id": "1", "MessageId": "x1", "MD5OfMessageBody": "-"}],
            "Failed": [
                {"Id": first, "SenderFault": false, "Code": "InternalError", "Message": "busy"},
                {"Id": "2", "SenderFault": false, "Code": "InternalError", "Message": "busy"},
            ],
        }))],
    );

    assert_eq!(redriven(&stage, &[]).await, (3, 0));

    let calls = stage.aws.calls("SendMessageBatch");
    let sizes: Vec<usize> = calls
        .iter()
        .map(|call| call["Entries"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [3, 2]);
    assert_eq!(stage.aws.dead_letters(), []);
}

#[tokio::test]
async fn one_call_takes_one_mebibyte() {
    let stage = stage(&["kasse-nord"]).await;
    let large = |number| {
        let mut job: Job = job(number, "kasse-nord");
        job.body = format!(r#"{{"a":"{}"}}"#, "x".repeat(600_000));
        job
    };
    for number in 0..3 {
        let record = json!({"body": null, "bodyOmitted": {"BOOL": true}});
        let id = format!("m{number}");
        put_dead_record(&stage, &large(number), &id, &record);
        stage.aws.put_dead_letter(&id, 1, &large(number).text());
    }

    assert_eq!(redriven(&stage, &[]).await, (3, 0));

    assert_eq!(stage.aws.calls("SendMessageBatch").len(), 3);
    let mut sent = sent(&stage);
    sent.sort();
    assert_eq!(sent, [0, 1, 2].map(|number| large(number).text()));
}

#[tokio::test]
async fn a_letter_that_can_not_be_deleted_is_told_and_found_by_the_next_run() {
    let stage = stage(&["kasse-nord"]).await;
    die(&stage, &job(1, "kasse-nord"), "m1");
    stage.aws.rule("DeleteMessageBatch", |input| {
        Reply::partly_refused(input, |_| true, "InternalError", false)
    });

    let ran = redrive(&stage, &[]).await;

    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.json()["undeleted"], 1);
    assert_eq!(visible(&stage), ["m1"]);
    stage.aws.always("DeleteMessageBatch", Reply::Usual);
    assert_eq!(redriven(&stage, &[]).await, (0, 0));
    assert_eq!(sent(&stage).len(), 1);
    assert_eq!(stage.aws.dead_letters(), []);
}

#[tokio::test]
async fn a_move_of_the_console_that_runs_is_waited_for_by_the_operator() {
    let stage = stage(&["kasse-nord"]).await;
    die(&stage, &job(1, "kasse-nord"), "m1");
    let task = |status: &str| {
        Reply::Output(json!({"Results": [
            {"Status": status, "ApproximateNumberOfMessagesMoved": 7, "StartedTimestamp": 1},
        ]}))
    };
    stage.aws.always("ListMessageMoveTasks", task("RUNNING"));

    for arguments in [&[][..], &["--from", "records"]] {
        let ran = redrive(&stage, arguments).await;

        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert_eq!(ran.stdout, "");
        assert!(
            ran.stderr
                .contains("StartMessageMoveTask) is running, with 7 messages moved"),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(stage.aws.calls("ReceiveMessage").len(), 0);
    assert_eq!(changes(&stage), NONE);

    // Nor is anything done if it is not known whether there is one.
    let refused = Reply::error(400, "InvalidAddress");
    stage.aws.always("ListMessageMoveTasks", refused);
    let ran = redrive(&stage, &[]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(
        ran.stderr
            .starts_with("webhooks: sqs:ListMessageMoveTasks failed: InvalidAddress"),
        "{}",
        ran.stderr
    );

    // One that has ended is none, nor is there one where AWS does not know the call.
    for reply in [
        task("COMPLETED"),
        Reply::error(400, "UnknownOperationException"),
        Reply::error(400, "InvalidAction"),
    ] {
        stage.aws.always("ListMessageMoveTasks", reply);
        let ran = redrive(&stage, &["--dry-run"]).await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}

#[tokio::test]
async fn a_permission_that_is_missing_is_named_and_nothing_is_lost() {
    for (operation, action, code) in [
        (
            "DescribeStacks",
            "cloudformation:DescribeStacks",
            "AccessDenied",
        ),
        (
            "GetQueueAttributes",
            "sqs:GetQueueAttributes",
            "AccessDenied",
        ),
        (
            "ListMessageMoveTasks",
            "sqs:ListMessageMoveTasks",
            "AccessDenied",
        ),
        ("ReceiveMessage", "sqs:ReceiveMessage", "AccessDenied"),
        (
            "BatchGetItem",
            "dynamodb:BatchGetItem",
            "AccessDeniedException",
        ),
        ("Scan", "dynamodb:Scan", "AccessDeniedException"),
        ("Query", "dynamodb:Query", "AccessDeniedException"),
        ("SendMessageBatch", "sqs:SendMessage", "AccessDenied"),
    ] {
        let stage = stage(&["kasse-nord"]).await;
        die(&stage, &job(1, "kasse-nord"), "m1");
        stage.aws.always(operation, Reply::error(403, code));

        let ran = redrive(&stage, &[]).await;

        assert_eq!(ran.code, Some(1), "{operation}: {ran:?}");
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            told.contains(&format!("the credentials need the permission {action}")),
            "{operation}: {told}"
        );
        assert_eq!(visible(&stage), ["m1"], "{operation}");
        let expected = if operation == "SendMessageBatch" {
            1
        } else {
            0
        };
        assert_eq!(changes(&stage).len(), expected, "{operation}");
    }
}

#[tokio::test]
async fn without_permission_to_mark_or_delete_the_run_ends_with_the_batch_in_hand() {
    for (operation, code, unmarked, undeleted) in [
        ("UpdateItem", "AccessDeniedException", 10, 0),
        ("DeleteMessageBatch", "AccessDenied", 0, 10),
    ] {
        let stage = stage(&["kasse-nord"]).await;
        for number in 0..15 {
            die(&stage, &job(number, "kasse-nord"), &format!("m{number}"));
        }
        stage.aws.always(operation, Reply::error(403, code));

        let ran = redrive(&stage, &[]).await;

        assert_eq!(ran.code, Some(1), "{ran:?}");
        let summary = ran.json();
        assert_eq!(counts(&summary["redriven"]), (10, 0));
        assert_eq!(summary["notReached"], 5);
        assert_eq!(summary["unmarked"], unmarked);
        assert_eq!(summary["undeleted"], undeleted);
        assert_eq!(visible(&stage).len(), if undeleted == 0 { 5 } else { 15 });
        assert!(
            summary["error"].as_str().unwrap().contains("access denied"),
            "{summary}"
        );
    }
}

#[tokio::test]
async fn tables_that_can_not_be_read_stop_it_before_anything_is_sent() {
    let stage = stage(&["kasse-nord"]).await;
    die(&stage, &job(1, "kasse-nord"), "m1");
    stage.aws.next("BatchGetItem", [Reply::Usual]);
    stage.aws.always(
        "BatchGetItem",
        Reply::error(400, "ResourceNotFoundException"),
    );

    let ran = redrive(&stage, &[]).await;

    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.json()["notReached"], 1);
    assert_eq!(changes(&stage), NONE);
    assert_eq!(visible(&stage), ["m1"]);
}

#[tokio::test]
async fn options_that_can_not_be_meant_are_refused_before_any_call() {
    let stage = stage(&["kasse-nord"]).await;
    for arguments in [
        &["--since", "1h", "--until", "2h"][..],
        &["--since", "yesterday"],
        &["--rate", "0"],
        &["--since", "1h", "--until", "1h"],
        &["--subscriber", "kasse nord"],
        &["--event-type", ""],
        &["--reference", ""],
        &["--webhook-id", "msg.1"],
        &["--from", "queue"],
    ] {
        let ran = redrive(&stage, arguments).await;

        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert_eq!(ran.stdout, "", "{arguments:?}");
    }
    assert_eq!(stage.aws.all_calls().len(), 0);
}
