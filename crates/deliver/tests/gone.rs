//! Subscriptions that end: a 410 switches off the one that answered and no other, and nothing is
//! sent for one that is off or gone.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use e2e::delivery_record::{moment, now_ms};
use e2e::fake_aws::Reply;
use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, failures, side_by_side};
use serde_json::{Value, json};
use tokio::sync::Notify;

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

/// The delay after the first fault of ours: five seconds, half of it random.
const FAULT_DELAY: RangeInclusive<i64> = 3..=5;

#[tokio::test]
async fn a_410_disables_its_subscription_and_no_other() {
    let receiver = Receiver::by_target([
        ("/a".to_owned(), Answer::retry_after(410, "300")),
        ("/b".to_owned(), Answer::status(200)),
    ])
    .await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("a", &receiver.url("/a"));
    stage.subscribe("b", &receiver.url("/b"));
    stage
        .aws
        .put_subscription("OrderRefunded", "a", &receiver.url("/a"));
    let untouched = [
        ("OrderPaid", "b", stage.aws.row("OrderPaid", "b")),
        ("OrderRefunded", "a", stage.aws.row("OrderRefunded", "a")),
    ];
    let deliver = stage.start(DELIVER).await;
    let records = [
        Record::new(0, &Job::for_subscriber("a").text()),
        Record::new(1, &Job::for_subscriber("b").text()),
    ];

    let began = now_ms();
    let batch = stage.deliver(&deliver, &records).await;
    let ended = now_ms();

    assert_eq!(batch.response, failures(&[] as &[&str]));
    assert_eq!(batch.visibilities, []);
    let row = stage.aws.row("OrderPaid", "a").unwrap();
    assert_eq!(row["enabled"], json!({"BOOL": false}));
    assert_eq!(row["url"], json!({"S": receiver.url("/a")}));
    assert_eq!(
        row["disabledReason"],
        json!({"S": "the endpoint answered 410 Gone"})
    );
    assert!(
        (began..=ended).contains(&moment(&row["disabledAt"])),
        "{row}"
    );
    for (event_type, subscriber_id, row) in untouched {
        assert_eq!(stage.aws.row(event_type, subscriber_id), row);
    }
    let calls = stage.aws.calls("UpdateItem");
    assert_eq!(calls.len(), 1);
    assert_eq!(
        calls[0]["Key"],
        json!({"eventType": {"S": "OrderPaid"}, "subscriberId": {"S": "a"}})
    );
}

#[tokio::test]
async fn a_410_at_any_attempt_disables() {
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    // Those beyond the eighth are not in the schedule.
    let attempts = [1, 7, 8, 9, 1000];

    let verdicts = stage
        .try_answers(
            &deliver,
            attempts.map(|attempt| (attempt, Answer::status(410))),
        )
        .await;

    for (attempt, verdict) in attempts.iter().zip(&verdicts) {
        assert!(!verdict.reported, "{attempt}");
        assert!(!verdict.enabled, "{attempt}");
        assert_eq!(verdict.delay, None, "{attempt}");
        assert_eq!(verdict.requests.len(), 1, "{attempt}");
    }
}

#[tokio::test]
async fn a_410_disables_only_the_url_that_answered() {
    let word = Arc::new(Notify::new());
    let receiver = Receiver::always(Answer::status(410).on(&word)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/v1"));
    let deliver = stage.start(DELIVER).await;
    let records = [Record::new(0, &Job::for_subscriber("kasse-nord").text())];

    let (batch, ()) = tokio::join!(stage.deliver(&deliver, &records), async {
        receiver.wait_for(1).await;
        stage.subscribe("kasse-nord", &receiver.url("/v2"));
        word.notify_one();
    });

    assert_eq!(batch.response, failures(&[] as &[&str]));
    assert_eq!(batch.visibilities, []);
    assert!(stage.is_enabled("kasse-nord"));
    assert_eq!(stage.aws.calls("UpdateItem").len(), 1);
}

#[tokio::test]
async fn a_410_does_not_bring_back_a_subscription_that_was_deleted_meanwhile() {
    let word = Arc::new(Notify::new());
    let receiver = Receiver::always(Answer::status(410).on(&word)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let deliver = stage.start(DELIVER).await;
    let records = [Record::new(0, &Job::for_subscriber("kasse-nord").text())];

    let (batch, ()) = tokio::join!(stage.deliver(&deliver, &records), async {
        receiver.wait_for(1).await;
        stage.aws.delete_row("OrderPaid", "kasse-nord");
        word.notify_one();
    });

    assert_eq!(batch.response, failures(&[] as &[&str]));
    assert_eq!(stage.aws.row("OrderPaid", "kasse-nord"), None);
}

#[tokio::test]
async fn a_410_that_cannot_be_noted_keeps_the_delivery_and_spares_the_others() {
    let replies = [
        Reply::error(400, "ProvisionedThroughputExceededException"),
        Reply::error(400, "AccessDeniedException"),
        Reply::error(500, "InternalServerError"),
        Reply::Cut,
    ];
    side_by_side(replies, |reply| async move {
        let receiver = Receiver::by_target([
            ("/gone".to_owned(), Answer::status(410)),
            ("/well".to_owned(), Answer::status(200)),
        ])
        .await;
        let stage = Stage::for_deliver().await;
        stage.subscribe("gone", &receiver.url("/gone"));
        stage.subscribe("well", &receiver.url("/well"));
        stage.aws.always("UpdateItem", reply.clone());
        let deliver = stage.start(DELIVER).await;
        let records = [
            Record::new(0, &Job::for_subscriber("gone").text()),
            Record::new(1, &Job::for_subscriber("well").text()),
        ];

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&["m0"]), "{reply:?}");
        batch.assert_delay(0, FAULT_DELAY);
        assert!(stage.is_enabled("gone"));
    })
    .await;
}

#[tokio::test]
async fn a_table_that_is_silent_after_a_410_costs_no_more_than_the_invocation_has() {
    let receiver = Receiver::by_target([
        ("/a".to_owned(), Answer::status(410)),
        ("/b".to_owned(), Answer::status(204)),
    ])
    .await;
    let stage = Stage::for_deliver().await;
    let mut records = Vec::new();
    for (n, name) in ["a", "b"].into_iter().enumerate() {
        stage.subscribe(name, &receiver.url(&format!("/{name}")));
        records.push(Record::new(n, &Job::for_subscriber(name).text()));
    }
    stage.aws.always("UpdateItem", Reply::Hang);
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver_within(&deliver, &records, Duration::from_secs(5))
        .await;

    assert_eq!(batch.response, failures(&["m0"]));
    batch.assert_delay(0, FAULT_DELAY);
    assert!(
        (Duration::from_millis(3500)..Duration::from_millis(4900)).contains(&batch.took),
        "{:?}",
        batch.took
    );
    assert_eq!(receiver.requests_to("/a").len(), 1);
    assert_eq!(receiver.requests_to("/b").len(), 1);
    assert!(stage.is_enabled("a"));
    let line = deliver
        .line_with(&["delivery.attempted", r#""subscriberId":"a""#])
        .await;
    let line: Value = serde_json::from_str(&line).unwrap();
    for (field, value) in [
        ("level", json!("ERROR")),
        ("outcome", json!("fault")),
        ("status", json!(410)),
        ("failure", json!("subscription could not be disabled")),
        ("delaySeconds", json!(batch.delay(0))),
    ] {
        assert_eq!(line[field], value, "{field}: {line}");
    }
}

#[tokio::test]
async fn nothing_is_sent_for_a_subscription_that_is_disabled_or_gone() {
    let receiver = Receiver::always(Answer::status(200)).await;
    let stage = Stage::for_deliver().await;
    for name in ["disabled", "missing", "well"] {
        stage.subscribe(name, &receiver.url(&format!("/{name}")));
    }
    stage.aws.delete_row("OrderPaid", "missing");
    let mut row = stage.aws.row("OrderPaid", "disabled").unwrap();
    row["enabled"] = json!({"BOOL": false});
    stage.aws.put_row(row.clone());
    let deliver = stage.start(DELIVER).await;
    // The second time as after a redrive: another message, and a receive count that may go on.
    for (offset, count) in [(0, 1), (10, 9)] {
        let mut records: Vec<Record> = ["disabled", "missing"]
            .iter()
            .enumerate()
            .map(|(n, name)| {
                Record::new(offset + n, &Job::for_subscriber(name).text()).received(count)
            })
            .collect();
        records.push(Record::of_event(offset + 2, "well"));

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&[] as &[&str]));
        assert_eq!(batch.visibilities, []);
    }
    let targets: Vec<String> = receiver
        .requests()
        .iter()
        .map(|r| r.target.clone())
        .collect();
    assert_eq!(targets, ["/well", "/well"]);
    assert_eq!(stage.aws.row("OrderPaid", "disabled"), Some(row));
    for name in ["disabled", "missing"] {
        deliver
            .line_with(&["delivery.dropped", &format!(r#""subscriberId":"{name}""#)])
            .await;
    }
}

#[tokio::test]
async fn a_row_that_is_no_subscription_keeps_the_delivery_until_it_is_mended() {
    let receiver = Receiver::always(Answer::status(200)).await;
    let url = receiver.url("/");
    let rows = [
        json!({"enabled": {"BOOL": true}}),
        json!({"url": {"NULL": true}, "enabled": {"BOOL": true}}),
        json!({"url": {"N": "1"}, "enabled": {"BOOL": true}}),
        json!({"url": {"S": ""}, "enabled": {"BOOL": true}}),
        json!({"url": {"S": url}}),
        json!({"url": {"S": url}, "enabled": {"S": "true"}}),
    ];
    let stage = Stage::for_deliver().await;
    let mut records = Vec::new();
    for (n, mut row) in rows.into_iter().enumerate() {
        let name = format!("s{n}");
        stage.subscribe(&name, &url);
        row["eventType"] = json!({"S": "OrderPaid"});
        row["subscriberId"] = json!({"S": name});
        stage.aws.put_row(row);
        records.push(Record::new(n, &Job::for_subscriber(&name).text()));
    }
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(
        batch.response,
        failures(&["m0", "m1", "m2", "m3", "m4", "m5"])
    );
    for n in 0..6 {
        batch.assert_delay(n, FAULT_DELAY);
        deliver
            .line_with(&["ERROR", &format!(r#""subscriberId":"s{n}""#)])
            .await;
    }
    assert_eq!(receiver.connections(), 0);
}
