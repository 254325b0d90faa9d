//! How many calls delivery records take, and how to have fewer of them.

use std::collections::BTreeMap;

use e2e::delivery_record::story;
use e2e::fake_aws::Reply;
use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{DELIVERIES_TABLE, Stage, TABLE_NAME, failures, parameter_name};
use serde_json::{Value, json};

use crate::helpers::{DELIVER, NONE};

#[tokio::test]
async fn a_full_first_batch_takes_two_calls_of_dynamodb_and_at_most_one_of_sqs() {
    let receiver = Receiver::by_target([
        ("/well".to_owned(), Answer::status(204)),
        ("/failing".to_owned(), Answer::status(500)),
        ("/rejecting".to_owned(), Answer::status(400)),
    ])
    .await;
    let all_well: BTreeMap<usize, &str> = (0..10).map(|n| (n, "/well")).collect();
    let all_failing = (0..10).map(|n| (n, "/failing")).collect();
    let all_dead = (0..10).map(|n| (n, "/rejecting")).collect();
    let targets = ["/well", "/failing", "/rejecting", "/off", "/secretless"];
    let mixed = (0..10).map(|n| (n, targets[n % targets.len()])).collect();
    let quiet = vec!["BatchGetItem", "BatchWriteItem"];
    let with_visibilities = vec![
        "BatchGetItem",
        "BatchWriteItem",
        "ChangeMessageVisibilityBatch",
    ];
    for (targets, calls) in [
        (all_well, quiet),
        (all_failing, with_visibilities.clone()),
        (all_dead, with_visibilities.clone()),
        (mixed, with_visibilities),
    ] {
        let stage = Stage::for_deliver().await.with("RETRY_POLICY", "bounded");
        let mut records = Vec::new();
        for (n, target) in &targets {
            let name = format!("s{n}");
            stage.subscribe(&name, &receiver.url(target));
            if *target == "/off" {
                stage.aws.delete_row("OrderPaid", &name);
            }
            if *target == "/secretless" {
                stage.aws.delete_parameter(&parameter_name(&name));
            }
            records.push(Record::new(*n, &Job::for_subscriber(&name).text()));
        }
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.calls, calls, "{targets:?}");
        assert_eq!(stage.aws.records().len(), 10, "{targets:?}");
    }
}

#[tokio::test]
async fn one_call_reads_both_tables_consistently_and_no_more_than_is_needed() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let deliver = stage.start(DELIVER).await;
    let job = Job::for_subscriber("kasse-nord");

    stage
        .deliver(&deliver, &[Record::new(0, &job.text())])
        .await;

    assert_eq!(
        stage.aws.calls("BatchGetItem"),
        [json!({"RequestItems": {
            TABLE_NAME: {
                "Keys": [{"eventType": {"S": "OrderPaid"}, "subscriberId": {"S": "kasse-nord"}}],
                "ConsistentRead": true,
                "ProjectionExpression": "eventType, subscriberId, #word, enabled, headers",
                "ExpressionAttributeNames": {"#word": "url"},
            },
            DELIVERIES_TABLE: {
                "Keys": [{"webhookId": {"S": job.webhook_id()}}],
                "ConsistentRead": true,
                "ProjectionExpression": "webhookId, #word, messageId, attempts, refusals, \
                    startedAt, createdAt, updatedAt, nextAt, expiresAt",
                "ExpressionAttributeNames": {"#word": "state"},
            },
        }})]
    );
}

#[tokio::test]
async fn a_batch_that_no_single_call_takes_is_read_and_written_in_parts() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let stage = Stage::for_deliver().await;
    let mut records = Vec::new();
    for n in 0..60 {
        let name = format!("s{n}");
        stage.subscribe(&name, &receiver.url("/"));
        records.push(Record::new(n, &Job::for_subscriber(&name).text()));
    }
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&NONE));
    let mut calls = ["BatchGetItem"; 2].to_vec();
    calls.extend(["BatchWriteItem"; 3]);
    assert_eq!(batch.calls, calls);
    assert_eq!(stage.aws.records().len(), 60);
    assert_eq!(receiver.requests().len(), 60);
}

#[tokio::test]
async fn with_failures_only_nothing_is_written_of_what_is_delivered_at_once() {
    let receiver = Receiver::by_target([
        ("/well".to_owned(), Answer::status(204)),
        ("/gone".to_owned(), Answer::status(410)),
        ("/failing".to_owned(), Answer::status(500)),
    ])
    .await;
    let stage = Stage::for_deliver().await.with("DELIVERY_LOG", "failures");
    let names = ["well", "gone", "missing", "failing", "secretless"];
    let mut records = Vec::new();
    for (n, name) in names.into_iter().enumerate() {
        stage.subscribe(name, &receiver.url(&format!("/{name}")));
        records.push(Record::new(n, &Job::for_subscriber(name).text()));
    }
    stage.aws.delete_row("OrderPaid", "missing");
    stage.aws.delete_parameter(&parameter_name("secretless"));
    let deliver = stage.start(DELIVER).await;

    let quiet = stage.deliver(&deliver, &records[..3]).await;
    let loud = stage.deliver(&deliver, &records[3..]).await;

    assert_eq!(quiet.response, failures(&NONE));
    // The update is the one that switches the subscription off.
    assert_eq!(
        quiet.calls,
        ["BatchGetItem", "UpdateItem", "BatchWriteItem"]
    );
    assert_eq!(loud.response, failures(&["m3", "m4"]));
    let states = |stage: &Stage| -> Vec<(Value, Value)> {
        let rows = stage.aws.records().into_iter();
        rows.map(|row| (row["subscriberId"]["S"].clone(), row["state"]["S"].clone()))
            .collect()
    };
    let is = |name: &str, state: &str| (json!(name), json!(state));
    assert_eq!(
        states(&stage),
        [
            is("failing", "retrying"),
            is("gone", "gone"),
            is("missing", "dropped"),
            is("secretless", "retrying"),
        ]
    );

    // What has failed before is written down to its end.
    let job = Job::for_subscriber("failing");
    stage.make_due(&job);
    stage.subscribe("failing", &receiver.url("/well"));
    let batch = stage
        .deliver(&deliver, &[records[3].clone().received(2)])
        .await;

    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(
        states(&stage),
        [
            is("failing", "delivered"),
            is("gone", "gone"),
            is("missing", "dropped"),
            is("secretless", "retrying")
        ]
    );
    assert_eq!(
        story(&stage.record_of(&job)),
        [(1, "retry".to_owned()), (2, "delivered".to_owned())]
    );
}

#[tokio::test]
async fn what_is_left_unprocessed_is_written_again() {
    let receiver = Receiver::always(Answer::status(500)).await;
    let stage = Stage::for_deliver().await;
    let mut records = Vec::new();
    for n in 0..3 {
        let name = format!("s{n}");
        stage.subscribe(&name, &receiver.url("/"));
        records.push(Record::new(n, &Job::for_subscriber(&name).text()));
    }
    stage.aws.next(
        "BatchWriteItem",
        [
            Reply::Unprocessed(DELIVERIES_TABLE),
            Reply::Unprocessed(DELIVERIES_TABLE),
            Reply::Unprocessed(DELIVERIES_TABLE),
        ],
    );
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&["m0", "m1", "m2"]));
    assert_eq!(stage.aws.calls("BatchWriteItem").len(), 4);
    assert_eq!(stage.aws.records().len(), 3);
    let lines = deliver.stop().await;
    assert!(
        !lines.iter().any(|line| line.contains("ERROR")),
        "{lines:#?}"
    );
}
