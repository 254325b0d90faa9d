//! A run is everything between the first receive of an SQS message and its end: a delivery that
//! has ended is passed on or begins anew, by the message that brings it.

use e2e::delivery_record::{now_ms, story, time_value};
use e2e::receiver::Answer;
use e2e::sqs_event::Record;
use e2e::stage::failures;
use serde_json::json;

use crate::helpers::{DELIVER, NONE, minutes_ago, run, stage, then};

#[tokio::test]
async fn a_dead_delivery_is_passed_on_to_the_dead_letter_queue_without_a_post_or_a_write() {
    let (stage, receiver, job) = stage([Answer::status(204)]).await;
    let mut dead = run("dead");
    dead["deadReason"] = json!({"S": "attempts"});
    stage.put_record(&job, &dead);
    let row = stage.record_of(&job);
    let deliver = stage.start(DELIVER).await;
    let copies = [
        (0, Record::new(0, &job.text()).received(9)),
        (0, Record::new(0, &job.text()).received(37)),
        (
            0,
            Record::new(0, &job.text()).sent_at_ms(now_ms()).received(1),
        ),
        // A duplicate that was on the queue beside it.
        (1, Record::new(1, &job.text()).sent_at_ms(minutes_ago(59))),
        (2, Record::new(2, &job.text()).sent_at_ms(minutes_ago(70))),
    ];
    for (number, copy) in copies {
        let batch = stage.deliver(&deliver, &[copy]).await;

        assert_eq!(batch.reported(), [format!("m{number}")]);
        assert_eq!(batch.delay(number), Some(0));
        assert_eq!(
            batch.calls,
            ["BatchGetItem", "ChangeMessageVisibilityBatch"]
        );
    }
    assert_eq!(receiver.connections(), 0);
    assert_eq!(stage.record_of(&job), row);
}

#[tokio::test]
async fn a_redriven_delivery_has_a_run_of_its_own_and_one_history() {
    for state in ["dead", "gone", "dropped"] {
        let (stage, receiver, job) = stage([Answer::status(500), Answer::status(200)]).await;
        let before = run(state);
        stage.put_record(&job, &before);
        let deliver = stage.start(DELIVER).await;
        let begun = now_ms();
        let redriven = Record::new(7, &job.text())
            .sent_at_ms(begun - 2000)
            .first_received_at_ms(begun - 1000);

        let batch = stage
            .deliver(&deliver, std::slice::from_ref(&redriven))
            .await;

        assert_eq!(batch.response, failures(&["m7"]), "{state}");
        batch.assert_delay(7, 30..=60);
        let row = stage.record_of(&job);
        assert_eq!(story(&row), then(1, "retry"), "{state}");
        for (name, value) in [
            ("state", json!({"S": "retrying"})),
            ("attempts", json!({"N": "1"})),
            ("messageId", json!({"S": "m7"})),
            ("startedAt", time_value(begun - 1000)),
            ("createdAt", before["createdAt"].clone()),
        ] {
            assert_eq!(row[name], value, "{state}: {name}");
        }

        stage.make_due(&job);
        let batch = stage.deliver(&deliver, &[redriven.received(2)]).await;

        assert_eq!(batch.response, failures(&NONE), "{state}");
        let row = stage.record_of(&job);
        let mut expected = then(1, "retry");
        expected.push((2, "delivered".to_owned()));
        assert_eq!(story(&row), expected, "{state}");
        assert_eq!(row["attempts"], json!({"N": "2"}));
        assert_eq!(receiver.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_redriven_delivery_keeps_its_id_and_its_payload() {
    let (stage, receiver, job) = stage([Answer::status(200)]).await;
    stage.put_record(&job, &run("dead"));
    let deliver = stage.start(DELIVER).await;
    let redriven = Record::new(7, &job.text()).sent_at_ms(now_ms());

    stage.deliver(&deliver, &[redriven]).await;

    let requests = receiver.requests();
    assert_eq!(
        requests[0].header("webhook-id"),
        Some(job.webhook_id().as_str())
    );
    assert_eq!(requests[0].text(), job.body);
}

#[tokio::test]
async fn a_run_whose_message_went_missing_does_not_bind_a_message_sent_later() {
    // Planned an hour ago: its message was purged. The redrive from the record begins anew.
    let (stage, _receiver, job) = stage([Answer::status(500)]).await;
    let mut lost = run("retrying");
    lost["nextAt"] = time_value(minutes_ago(60));
    stage.put_record(&job, &lost);
    let deliver = stage.start(DELIVER).await;

    let redriven = Record::new(7, &job.text()).sent_at_ms(now_ms());
    stage.deliver(&deliver, &[redriven]).await;

    let row = stage.record_of(&job);
    assert_eq!(story(&row), then(1, "retry"));
    assert_eq!(row["attempts"], json!({"N": "1"}));
}

#[tokio::test]
async fn a_dead_delivery_that_the_queue_hands_out_too_often_does_not_spin() {
    let (stage, receiver, job) = stage([Answer::status(204)]).await;
    stage.put_record(&job, &run("dead"));
    let deliver = stage.start(DELIVER).await;
    for (count, delay) in [(38, 0), (39, 10_800), (1000, 10_800)] {
        let record = Record::new(0, &job.text()).received(count);

        let batch = stage.deliver(&deliver, &[record]).await;

        assert_eq!(batch.response, failures(&["m0"]));
        assert_eq!(batch.delay(0), Some(delay), "{count}");
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn a_row_that_should_be_gone_by_now_counts_as_none() {
    for (state, seconds, is_none) in [
        ("delivered", -1, true),
        ("dead", -1, true),
        ("delivered", 60, false),
    ] {
        let (stage, receiver, job) = stage([Answer::status(200)]).await;
        let now = i64::try_from(now_ms() / 1000).unwrap();
        let mut record = run(state);
        record["expiresAt"] = json!({"N": (now + seconds).to_string()});
        stage.put_record(&job, &record);
        let deliver = stage.start(DELIVER).await;

        let batch = stage
            .deliver(&deliver, &[Record::new(0, &job.text())])
            .await;

        assert_eq!(batch.response, failures(&NONE));
        assert_eq!(receiver.requests().len(), usize::from(is_none), "{state}");
        if is_none {
            let row = stage.record_of(&job);
            assert_eq!(story(&row), [(1, "delivered".to_owned())]);
            assert_eq!(row["createdAt"], row["updatedAt"]);
        }
    }
}
