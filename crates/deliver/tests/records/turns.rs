//! What a received message is owed, by its record: whatever SQS's receive count says, an attempt
//! is counted where it is made, and what needs none is not sent.

use std::sync::Arc;

use e2e::delivery_record::{moment, now_ms, story, time_value};
use e2e::fake_aws::Reply;
use e2e::receiver::{Answer, Receiver};
use e2e::runtime::Ending;
use e2e::sqs_event::{Job, Record, event};
use e2e::stage::{FUNCTION_TIMEOUT, Stage, failures};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::helpers::{DELIVER, NONE, lines_of, minutes_ago, run, stage, then};

#[tokio::test]
async fn the_number_of_an_attempt_is_that_of_the_record_and_not_the_receive_count() {
    for count in [1, 4, 9, 37] {
        let (stage, receiver, job) = stage([Answer::status(500)]).await;
        stage.put_record(&job, &run("retrying"));
        let deliver = stage.start(DELIVER).await;

        let record = Record::new(0, &job.text()).received(count);
        let batch = stage.deliver(&deliver, &[record]).await;

        assert_eq!(batch.response, failures(&["m0"]), "{count}");
        batch.assert_delay(0, 810..=1620);
        assert_eq!(receiver.requests().len(), 1);
        let row = stage.record_of(&job);
        assert_eq!(row["attempts"], json!({"N": "4"}), "{count}");
        assert_eq!(story(&row), then(4, "retry"), "{count}");
        let line = deliver.line_with(&["delivery.attempted"]).await;
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["attempt"], 4, "{count}");
    }
}

#[tokio::test]
async fn a_message_that_others_have_looked_at_still_gets_all_of_its_attempts() {
    let (stage, receiver, job) = stage([Answer::status(500)]).await;
    let deliver = stage.start(DELIVER).await;
    let mut count = 0;
    for attempt in 1..=8 {
        // Three receives went elsewhere.
        count += 4;
        let record = Record::new(0, &job.text()).received(count);

        let batch = stage.deliver(&deliver, &[record]).await;

        assert_eq!(batch.response, failures(&["m0"]));
        let row = stage.record_of(&job);
        assert_eq!(row["attempts"], json!({"N": attempt.to_string()}));
        if attempt < 8 {
            assert_eq!(row["state"], json!({"S": "retrying"}));
            stage.make_due(&job);
        } else {
            assert_eq!(row["state"], json!({"S": "dead"}));
            assert_eq!(batch.delay(0), Some(0));
        }
    }
    assert_eq!(receiver.requests().len(), 8);
}

#[tokio::test]
async fn a_receive_that_crashed_before_anything_was_written_down_spends_no_attempt() {
    let (stage, receiver, job) = stage([Answer::hang(), Answer::status(500)]).await;
    let record = Record::new(0, &job.text());
    let deliver = stage.start(DELIVER).await;
    let batch = event(std::slice::from_ref(&record));
    let (ending, _) = tokio::join!(deliver.invoke(&batch, FUNCTION_TIMEOUT), async {
        receiver.wait_for(1).await;
        deliver.kill();
    });
    assert!(matches!(ending, Ending::Crashed(_)), "{ending:?}");
    assert_eq!(stage.aws.records(), [] as [Value; 0]);
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &[record.received(2)]).await;

    assert_eq!(batch.response, failures(&["m0"]));
    batch.assert_delay(0, 30..=60);
    assert_eq!(story(&stage.record_of(&job)), [(1, "retry".to_owned())]);
}

#[tokio::test]
async fn a_receive_that_crashed_after_it_was_written_down_is_not_made_again_before_its_time() {
    let (stage, receiver, job) = stage([Answer::status(500)]).await;
    let record = Record::new(0, &job.text());
    stage
        .aws
        .next("ChangeMessageVisibilityBatch", [Reply::Hang]);
    let deliver = stage.start(DELIVER).await;
    let batch = event(std::slice::from_ref(&record));
    let (ending, _) = tokio::join!(deliver.invoke(&batch, FUNCTION_TIMEOUT), async {
        stage.aws.wait_for("ChangeMessageVisibilityBatch", 1).await;
        deliver.kill();
    });
    assert!(matches!(ending, Ending::Crashed(_)), "{ending:?}");
    let deliver = stage.start(DELIVER).await;

    let early = stage.deliver(&deliver, &[record.clone().received(2)]).await;
    assert_eq!(early.response, failures(&["m0"]));
    early.assert_delay(0, 20..=60);
    assert_eq!(receiver.requests().len(), 1);

    stage.make_due(&job);
    stage.deliver(&deliver, &[record.received(3)]).await;
    let row = stage.record_of(&job);
    assert_eq!(
        story(&row),
        [(1, "retry".to_owned()), (2, "retry".to_owned())]
    );
    assert_eq!(receiver.requests().len(), 2);
}

#[tokio::test]
async fn what_was_delivered_is_deleted_without_another_post() {
    let (stage, receiver, job) = stage([Answer::status(204)]).await;
    let deliver = stage.start(DELIVER).await;
    let record = Record::new(0, &job.text());
    stage.deliver(&deliver, std::slice::from_ref(&record)).await;
    let row = stage.record_of(&job);
    let copies = [
        ("the message once more", record.clone().received(2)),
        ("a duplicate", Record::new(1, &job.text())),
        (
            "a duplicate that was sent with it",
            Record::new(2, &job.text()).sent_at_ms(minutes_ago(1)),
        ),
        (
            "a redriven copy",
            Record::new(3, &job.text()).sent_at_ms(now_ms() + 60_000),
        ),
        (
            "one without a time",
            Record::new(4, &job.text()).without("attributes"),
        ),
    ];

    for (what, copy) in copies {
        let batch = stage.deliver(&deliver, &[copy]).await;

        assert_eq!(batch.response, failures(&NONE), "{what}");
        assert_eq!(batch.calls, ["BatchGetItem"], "{what}");
    }

    assert_eq!(receiver.requests().len(), 1);
    assert_eq!(stage.record_of(&job), row, "nothing is written");
    let lines = deliver.stop().await;
    let dropped = lines_of(&lines, "delivery.dropped");
    let ids: Vec<&Value> = dropped.iter().map(|line| &line["messageId"]).collect();
    assert_eq!(ids, ["m0", "m1", "m2", "m3", "m4"]);
    for line in &dropped {
        assert_eq!(line["reason"], "it has been delivered already");
        assert_eq!(line["webhookId"], json!(job.webhook_id()));
        assert_eq!(line["level"], "INFO");
    }
}

#[tokio::test]
async fn nothing_is_read_but_the_record_of_what_was_delivered() {
    // Neither a subscription that has ended nor a secret that is gone matters any more.
    let (stage, receiver, job) = stage([Answer::status(204)]).await;
    stage.put_record(&job, &run("delivered"));
    stage.aws.delete_row("OrderPaid", "kasse-nord");
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver(&deliver, &[Record::new(0, &job.text()).received(7)])
        .await;

    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(receiver.connections(), 0);
    assert_eq!(stage.record_of(&job)["state"], json!({"S": "delivered"}));
    let mut operations: Vec<String> = stage
        .aws
        .all_calls()
        .into_iter()
        .map(|call| call.operation)
        .collect();
    // The secret is asked for while the tables are read.
    operations.sort();
    assert_eq!(operations, ["BatchGetItem", "GetParameters"]);
}

#[tokio::test]
async fn a_message_that_comes_early_is_put_back_until_its_time_to_the_second() {
    let (stage, receiver, job) = stage([Answer::status(204)]).await;
    let deliver = stage.start(DELIVER).await;
    for seconds in [20, 500, 42_900] {
        // The run's own message makes the attempt; a copy that came at the same time would be
        // another one, so it waits a minute longer.
        for (copy, longer) in [
            (Record::new(0, &job.text()).received(5), 0),
            (Record::new(1, &job.text()).sent_at_ms(now_ms()), 60),
        ] {
            let next_at = now_ms() + seconds * 1000;
            let mut record = run("retrying");
            record["nextAt"] = time_value(next_at);
            stage.put_record(&job, &record);
            let row = stage.record_of(&job);

            let batch = stage.deliver(&deliver, &[copy]).await;

            let left = next_at.saturating_sub(now_ms()).div_ceil(1000) + longer;
            let range = i64::try_from(left).unwrap()..=i64::try_from(seconds + longer).unwrap();
            let [(_, delay)] = batch.visibilities[..] else {
                panic!("{batch:?}");
            };
            assert!(range.contains(&delay), "{seconds}: {batch:?}");
            assert_eq!(
                batch.calls,
                ["BatchGetItem", "ChangeMessageVisibilityBatch"],
                "{seconds}"
            );
            assert_eq!(batch.reported().len(), 1);
            assert_eq!(stage.record_of(&job), row);
        }
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn what_a_receiver_asked_for_is_kept_whoever_brings_the_message() {
    let (stage, receiver, job) = stage([Answer::retry_after(429, "300")]).await;
    let deliver = stage.start(DELIVER).await;
    let record = Record::new(0, &job.text());

    let first = stage.deliver(&deliver, std::slice::from_ref(&record)).await;

    assert_eq!(first.delay(0), Some(300));
    let row = stage.record_of(&job);
    let next_at = moment(&row["nextAt"]);
    assert_eq!(next_at, moment(&row["updatedAt"]) + 300_000);
    let copies = [
        (record.clone().received(2), 0),
        (Record::new(1, &job.text()), 60),
        (Record::new(2, &job.text()).sent_at_ms(now_ms()), 60),
    ];
    for (copy, longer) in copies {
        let batch = stage.deliver(&deliver, &[copy]).await;

        let [(_, delay)] = batch.visibilities[..] else {
            panic!("{batch:?}");
        };
        let left = next_at.saturating_sub(now_ms()).div_ceil(1000) + longer;
        let range = i64::try_from(left).unwrap()..=i64::try_from(300 + longer).unwrap();
        assert!(range.contains(&delay), "{batch:?}");
    }
    assert_eq!(receiver.requests().len(), 1);
    assert_eq!(stage.record_of(&job), row);
}

#[tokio::test]
async fn two_copies_in_one_batch_are_one_attempt() {
    for (answer, reported, delay, state) in [
        (Answer::status(204), vec![], None, "delivered"),
        (Answer::status(410), vec![], None, "gone"),
        (
            Answer::retry_after(503, "300"),
            vec!["m0", "m2"],
            Some(300),
            "retrying",
        ),
        (Answer::status(400), vec!["m0", "m2"], Some(0), "dead"),
    ] {
        let receiver = Receiver::by_target([
            ("/kasse-nord".to_owned(), answer),
            ("/other".to_owned(), Answer::status(200)),
        ])
        .await;
        let stage = Stage::for_deliver().await.with("RETRY_POLICY", "bounded");
        for name in ["kasse-nord", "other"] {
            stage.subscribe(name, &receiver.url(&format!("/{name}")));
        }
        let job = Job::for_subscriber("kasse-nord");
        let deliver = stage.start(DELIVER).await;
        let records = [
            Record::new(0, &job.text()),
            Record::new(1, &Job::for_subscriber("other").text()),
            Record::new(2, &job.text()),
        ];

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&reported), "{state}");
        assert_eq!(receiver.requests_to("/kasse-nord").len(), 1, "{state}");
        assert_eq!(batch.delay(0), delay, "{state}");
        assert_eq!(batch.delay(2), delay, "{state}");
        let row = stage.record_of(&job);
        assert_eq!(row["state"], json!({"S": state}));
        assert_eq!(row["messageId"], json!({"S": "m0"}));
        assert_eq!(story(&row).len(), 1);
    }
}

#[tokio::test]
async fn a_duplicate_shares_the_run_and_takes_it_over() {
    let (stage, _receiver, job) = stage([Answer::status(500)]).await;
    // Its own message is late by two minutes.
    stage.put_record(&job, &run("retrying"));
    let deliver = stage.start(DELIVER).await;
    let duplicate = Record::new(1, &job.text()).sent_at_ms(minutes_ago(61));

    let batch = stage.deliver(&deliver, &[duplicate]).await;

    batch.assert_delay(1, 810..=1620);
    let row = stage.record_of(&job);
    assert_eq!(story(&row), then(4, "retry"));
    assert_eq!(row["messageId"], json!({"S": "m1"}));
}

#[tokio::test]
async fn what_was_delivered_by_another_copy_meanwhile_is_deleted() {
    for (answer, policy) in [(500, "standard"), (400, "bounded")] {
        let word = Arc::new(Notify::new());
        let receiver = Receiver::always(Answer::status(answer).on(&word)).await;
        let stage = Stage::for_deliver().await.with("RETRY_POLICY", policy);
        stage.subscribe("kasse-nord", &receiver.url("/"));
        let job = Job::for_subscriber("kasse-nord");
        stage.put_record(&job, &run("retrying"));
        let deliver = stage.start(DELIVER).await;
        let records = [Record::new(0, &job.text()).received(4)];

        let (batch, ()) = tokio::join!(stage.deliver(&deliver, &records), async {
            receiver.wait_for(1).await;
            stage.put_record(&job, &run("delivered"));
            word.notify_one();
        });

        assert_eq!(batch.response, failures(&NONE), "{policy}");
        assert_eq!(batch.visibilities, []);
        assert_eq!(batch.calls, ["BatchGetItem", "UpdateItem"]);
        let row = stage.record_of(&job);
        assert_eq!(row["state"], json!({"S": "delivered"}));
        assert_eq!(row["attempts"], json!({"N": "3"}));
        let lines = deliver.stop().await;
        assert!(
            !lines.iter().any(|line| line.contains("ERROR")),
            "{lines:#?}"
        );
    }
}

#[tokio::test]
async fn an_attempt_that_nobody_has_planned_is_not_waited_for() {
    let (stage, receiver, job) = stage([Answer::status(500)]).await;
    let mut record = run("retrying");
    record["nextAt"] = time_value(now_ms() + 80_000_000);
    stage.put_record(&job, &record);
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver(&deliver, &[Record::new(0, &job.text()).received(4)])
        .await;

    batch.assert_delay(0, 810..=1620);
    assert_eq!(receiver.requests().len(), 1);
    assert_eq!(story(&stage.record_of(&job)), then(4, "retry"));
}

#[tokio::test]
async fn a_copy_only_makes_the_attempt_that_the_own_message_of_the_run_has_missed() {
    for (seconds, is_made) in [(30, false), (70, true)] {
        let (stage, receiver, job) = stage([Answer::status(500)]).await;
        let mut record = run("retrying");
        record["nextAt"] = time_value(now_ms() - seconds * 1000);
        stage.put_record(&job, &record);
        let deliver = stage.start(DELIVER).await;
        let copy = Record::new(1, &job.text()).sent_at_ms(minutes_ago(61));

        let batch = stage.deliver(&deliver, &[copy]).await;

        batch.assert_delay(1, if is_made { 810..=1620 } else { 15..=30 });
        assert_eq!(receiver.requests().len(), usize::from(is_made));
    }
}
