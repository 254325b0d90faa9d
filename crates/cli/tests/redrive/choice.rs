//! Which deliveries are redriven: by the options, from the queue or from records, and which are
//! left alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::delivery_record::now_ms;
use e2e::sqs_event::{Job, OCCURRED_AT};
use e2e::stage::Stage;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write as _;

use crate::{
    NONE, URL, changes, counts, die, job, put_dead_record, put_letter, redrive, redriven, sent,
    stage, visible,
};

fn compressed(text: &str) -> Value {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    json!({"B": STANDARD.encode(encoder.finish().unwrap())})
}

/// What a job becomes that is made anew.
fn rebuilt(job: &Job) -> String {
    let mut job = job.clone();
    job.url = URL.into();
    job.text()
}

#[tokio::test]
async fn after_a_purge_records_are_enough_and_payloads_are_the_same_bytes() {
    let stage = stage(&["kasse-nord", "kasse-sued"]).await;
    let mut plain = job(1, "kasse-nord");
    plain.body = r#"{"type":"OrderPaid","data":{"n":1e400,"z":-0, "z":"\u00e9é"}}"#.into();
    let mut large = job(2, "kasse-sued");
    large.body = format!(r#"{{"data":{{"a":"{}","n":1.00}}}}"#, "xé".repeat(100_000));
    die(&stage, &plain, "m1");
    die(&stage, &large, "m2");
    let body = json!({"body": compressed(&large.body)});
    put_dead_record(&stage, &large, "m2", &body);
    stage.aws.purge_dead_letters();

    assert_eq!(redriven(&stage, &[]).await, (0, 2));

    let mut sent = sent(&stage);
    sent.sort_by_key(String::len);
    assert_eq!(sent, [rebuilt(&plain), rebuilt(&large)]);
    let groups: Vec<Value> = stage
        .sent_since(0)
        .iter()
        .map(|e| e["MessageGroupId"].clone())
        .collect();
    assert_eq!(groups.len(), 2);
    assert!(groups.contains(&json!("kasse-sued")), "{groups:?}");
    assert_eq!(
        changes(&stage),
        ["SendMessageBatch", "UpdateItem", "UpdateItem"]
    );
}

#[tokio::test]
async fn all_subscribers_records_are_found_page_by_page() {
    let names = ["a", "b", "c", "d", "e"];
    let stage = stage(&names).await;
    stage.aws.set_page_size(2);
    for (number, name) in names.iter().enumerate() {
        for event in 0..5 {
            put_dead_record(&stage, &job(10 * number + event, name), "m", &json!({}));
        }
    }
    // Not dead, and not one of theirs.
    put_dead_record(
        &stage,
        &job(90, "a"),
        "m",
        &json!({"state": {"S": "delivered"}}),
    );
    put_dead_record(&stage, &job(91, "gone"), "m", &json!({}));
    // Past its 30 days, and not yet deleted.
    let expired = json!({"expiresAt": {"N": (now_ms() / 1000 - 1).to_string()}});
    put_dead_record(&stage, &job(92, "a"), "m", &expired);

    assert_eq!(redriven(&stage, &["--rate", "1000"]).await, (0, 25));

    assert_eq!(sent(&stage).len(), 25);
}

#[tokio::test]
async fn one_of_the_two_sources_can_be_left_alone() {
    for (from, counts, left) in [
        ("dlq", (1, 0), &NONE[..]),
        ("records", (0, 2), &["m1".to_owned()][..]),
        ("both", (1, 1), &NONE[..]),
    ] {
        let stage = stage(&["kasse-nord"]).await;
        die(&stage, &job(1, "kasse-nord"), "m1");
        put_dead_record(&stage, &job(2, "kasse-nord"), "m2", &json!({}));

        assert_eq!(redriven(&stage, &["--from", from]).await, counts, "{from}");

        assert_eq!(visible(&stage), left, "{from}");
    }
}

#[tokio::test]
async fn each_option_keeps_what_it_does_not_mean_where_it_is() {
    let other_type = |mut job: Job| {
        job.event_type = "OrderRefunded".into();
        job
    };
    let day_before = "2026-10-28T12:00:00Z";
    for (arguments, meant) in [
        (
            &["--subscriber", "kasse-nord"][..],
            [true, false, true, true],
        ),
        (&["--event-type", "OrderPaid"], [true, true, false, true]),
        (
            &["--webhook-id", "msg_e1_kasse-nord"],
            [true, false, false, false],
        ),
        (&["--reference", "K-1"], [true, false, false, false]),
        (&["--since", OCCURRED_AT], [true, true, true, false]),
        (&["--until", OCCURRED_AT], [false, false, false, true]),
        (
            &["--since", day_before, "--until", OCCURRED_AT],
            [false, false, false, true],
        ),
        (
            &[
                "--subscriber",
                "kasse-nord",
                "--event-type",
                "OrderRefunded",
            ],
            [false, false, true, false],
        ),
    ] {
        for from_records in [false, true] {
            let stage = stage(&["kasse-nord", "kasse-sued"]).await;
            stage
                .aws
                .put_subscription("OrderRefunded", "kasse-nord", URL);
            let jobs = [
                job(1, "kasse-nord"),
                job(2, "kasse-sued"),
                other_type(job(3, "kasse-nord")),
                job(4, "kasse-nord"),
            ];
            for (number, job) in jobs.iter().enumerate() {
                let id = format!("m{number}");
                let mut changes = json!({"reference": {"S": format!("K-{}", number + 1)}});
                let mut text = job.text();
                if number == 3 {
                    text = text.replace(OCCURRED_AT, day_before);
                    changes["occurredAt"] = json!({"S": day_before});
                }
                put_dead_record(&stage, job, &id, &changes);
                if !from_records {
                    stage.aws.put_dead_letter(&id, 1, &text);
                }
            }

            let (letters, records) = redriven(&stage, arguments).await;

            let count = meant.iter().filter(|meant| **meant).count();
            let case = format!("{arguments:?}, {from_records}");
            assert_eq!(letters + records, u64::try_from(count).unwrap(), "{case}");
            assert_eq!(records > 0, from_records, "{case}");
            let sent = sent(&stage).concat();
            for (job, meant) in jobs.iter().zip(meant) {
                assert_eq!(sent.contains(&job.webhook_id()), meant, "{case}");
            }
            if !from_records {
                assert_eq!(visible(&stage).len(), 4 - count, "{case}");
            }
        }
    }
}

#[tokio::test]
async fn one_that_is_not_there_is_not_found() {
    for from in ["dlq", "records", "both"] {
        let stage = stage(&["kasse-nord"]).await;
        die(&stage, &job(1, "kasse-nord"), "m1");

        let ran = redrive(&stage, &["--webhook-id", "msg_unknown", "--from", from]).await;

        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{ran:?}");
        assert_eq!(
            ran.stderr,
            "webhooks: there is no dead delivery msg_unknown that the options mean, `webhooks log \
             msg_unknown` tells how it stands\n"
        );
        assert_eq!(visible(&stage), ["m1"], "{from}");
    }
}

#[tokio::test]
async fn one_that_is_meant_by_its_id_and_not_dead_is_told() {
    for (state, reason) in [
        ("delivered", "delivered"),
        ("retrying", "underWay"),
        ("gone", "notDead"),
    ] {
        let stage = stage(&["kasse-nord"]).await;
        let job = job(1, "kasse-nord");
        put_dead_record(&stage, &job, "m1", &json!({"state": {"S": state}}));

        let ran = redrive(&stage, &["--webhook-id", &job.webhook_id()]).await;

        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(ran.json()["nothingToDo"][reason], 1, "{ran:?}");
        assert_eq!(changes(&stage), NONE);
    }
}

#[tokio::test]
async fn what_is_no_job_stays_in_the_queue_and_is_counted() {
    let stage = stage(&["kasse-nord"]).await;
    for (number, text) in ["hello", "{}", r#"{"Event":"s3:TestEvent"}"#]
        .iter()
        .enumerate()
    {
        stage.aws.put_dead_letter(&format!("odd{number}"), 1, text);
    }
    die(&stage, &job(1, "kasse-nord"), "m1");

    let ran = redrive(&stage, &[]).await;

    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.json()["deadLetterQueue"]["notJobs"], 3);
    assert_eq!(counts(&ran.json()["redriven"]), (1, 0));
    assert_eq!(visible(&stage), ["odd0", "odd1", "odd2"]);
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let stage = stage(&["kasse-nord"]).await;
    die(&stage, &job(1, "kasse-nord"), "m1");
    let delivered = job(2, "kasse-nord");
    put_dead_record(
        &stage,
        &delivered,
        "m2",
        &json!({"state": {"S": "delivered"}}),
    );
    put_letter(&stage, &delivered, "m2");
    put_dead_record(&stage, &job(3, "kasse-nord"), "m3", &json!({}));
    put_letter(&stage, &job(4, "nobody"), "m4");
    let records = stage.aws.records();

    let ran = redrive(&stage, &["--dry-run"]).await;

    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(changes(&stage), NONE);
    assert_eq!(visible(&stage), ["m1", "m2", "m4"]);
    assert_eq!(stage.aws.records(), records);
    let summary = ran.json();
    assert_eq!(summary["dryRun"], true);
    assert_eq!(counts(&summary["planned"]), (1, 1));
    assert_eq!(counts(&summary["redriven"]), (0, 0));
    assert_eq!(summary["nothingToDo"]["delivered"], 1);
    assert_eq!(summary["skipped"]["notSubscribed"], 1);

    let ran = stage.run(crate::WEBHOOKS, &["redrive", "--dry-run"]).await;
    assert_eq!(
        ran.stdout,
        "\
subscriber  event type  dead letters  records
kasse-nord  OrderPaid   1             1
to redrive  -           1             1
Delivered meanwhile, nothing to do: 1
Not redriven, nobody is subscribed any more: 1
This was a dry run: nothing was changed.
"
    );
}

/// Each case with a dead letter, and with nothing but a record.
async fn not_redriven(stage: &Stage, reason: &str) {
    let (record, letter) = (job(1, "kasse-nord"), job(2, "kasse-nord"));
    put_dead_record(stage, &record, "m1", &json!({}));
    die(stage, &letter, "m2");

    let ran = redrive(stage, &[]).await;

    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.json()["skipped"][reason], 2, "{ran:?}");
    assert_eq!(changes(stage), NONE);
    assert_eq!(visible(stage), ["m2"]);
}

#[tokio::test]
async fn whom_deliver_would_send_nothing_is_sent_nothing() {
    let missing = stage(&["kasse-sued"]).await;
    put_dead_record(&missing, &job(3, "kasse-nord"), "m3", &json!({}));
    // Who has no row at all is only asked about by name.
    let ran = redrive(&missing, &["--subscriber", "kasse-nord"]).await;
    assert_eq!(
        (ran.code, &ran.json()["skipped"]["notSubscribed"]),
        (Some(1), &json!(1))
    );
    missing
        .aws
        .put_subscription("OrderRefunded", "kasse-nord", URL);
    missing
        .aws
        .delete_record(&job(3, "kasse-nord").webhook_id());
    not_redriven(&missing, "notSubscribed").await;

    for (enabled, reason) in [
        (json!({"BOOL": false}), "disabled"),
        (json!({"S": "true"}), "brokenSubscription"),
    ] {
        let stage = stage(&[]).await;
        stage.aws.put_row(json!({
            "eventType": {"S": "OrderPaid"},
            "subscriberId": {"S": "kasse-nord"},
            "url": {"S": URL},
            "enabled": enabled,
        }));
        not_redriven(&stage, reason).await;
    }
}

#[tokio::test]
async fn a_record_without_its_payload_is_told() {
    for (body, reason) in [
        (
            json!({"body": null, "bodyOmitted": {"BOOL": true}}),
            "bodyOmitted",
        ),
        (
            json!({"body": {"B": STANDARD.encode("no gzip")}}),
            "bodyUnreadable",
        ),
        (json!({"body": null}), "bodyUnreadable"),
    ] {
        let stage = stage(&["kasse-nord"]).await;
        put_dead_record(&stage, &job(1, "kasse-nord"), "m1", &body);

        let ran = redrive(&stage, &[]).await;

        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert_eq!(ran.json()["skipped"][reason], 1, "{ran:?}");
        assert_eq!(changes(&stage), NONE);

        // The dead-letter queue has it.
        put_letter(&stage, &job(1, "kasse-nord"), "m1");
        assert_eq!(redriven(&stage, &[]).await, (1, 0));
    }
}
