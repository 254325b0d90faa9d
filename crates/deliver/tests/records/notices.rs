//! What operators are told on the event bus: that a delivery is dead, that a subscription was
//! switched off. Nothing depends on whether they can be told.

use std::time::Duration;

use e2e::delivery_record::{history, now_ms, time_value};
use e2e::fake_aws::{Reply, entries};
use e2e::receiver::Receiver;
use e2e::signature::secret_for;
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, assert_untold, failures, side_by_side};
use serde_json::{Value, json};

use crate::helpers::{DELIVER, NONE, errors_of, record, stage_of_four};

/// A stage under `bounded` with a bus.
async fn stage() -> (Stage, Receiver) {
    let (stage, receiver) = stage_of_four().await;
    let stage = stage
        .with("RETRY_POLICY", "bounded")
        .with("EVENT_BUS_NAME", "default");
    (stage, receiver)
}

/// The notices of all calls: bus, source, detail type and detail, in order.
fn notices(stage: &Stage) -> Vec<(String, String, String, Value)> {
    let calls = stage.aws.calls("PutEvents");
    calls
        .iter()
        .flat_map(entries)
        .map(|entry| {
            let mut names: Vec<&String> = entry.as_object().unwrap().keys().collect();
            names.sort();
            assert_eq!(names, ["Detail", "DetailType", "EventBusName", "Source"]);
            let text = |name: &str| entry[name].as_str().unwrap().to_owned();
            let detail = serde_json::from_str(&text("Detail")).unwrap();
            (
                text("EventBusName"),
                text("Source"),
                text("DetailType"),
                detail,
            )
        })
        .collect()
}

fn notice(detail_type: &str, detail: Value) -> (String, String, String, Value) {
    (
        "default".to_owned(),
        "sqs-webhooks".to_owned(),
        detail_type.to_owned(),
        detail,
    )
}

fn dead(name: &str, attempts: u32, reason: &str, rest: Value) -> (String, String, String, Value) {
    let job = Job::for_subscriber(name);
    let mut detail = json!({
        "webhookId": job.webhook_id(),
        "eventId": job.event_id,
        "eventType": "OrderPaid",
        "subscriberId": name,
        "attempts": attempts,
        "reason": reason,
    });
    for (field, value) in rest.as_object().unwrap() {
        detail[field] = value.clone();
    }
    notice("webhooks.delivery.dead", detail)
}

fn disabled(name: &str) -> (String, String, String, Value) {
    notice(
        "webhooks.subscription.disabled",
        json!({
            "eventType": "OrderPaid",
            "subscriberId": name,
            "webhookId": Job::for_subscriber(name).webhook_id(),
            "reason": "the endpoint answered 410 Gone",
        }),
    )
}

#[tokio::test]
async fn operators_are_told_what_is_dead_and_who_was_switched_off() {
    let (stage, receiver) = stage().await;
    let (socket, nowhere) = Receiver::refusing();
    stage.subscribe("late", &receiver.url("/failing"));
    stage.subscribe("closed", &format!("http://{nowhere}/"));
    stage.subscribe("blocked", "ftp://127.0.0.1/");
    for (message_id, name, attempts) in [
        ("m2", "failing", 7),
        ("m4", "late", 3),
        ("m5", "closed", 7),
        ("m6", "blocked", 7),
    ] {
        stage.put_earlier_attempts(&Job::for_subscriber(name), message_id, attempts);
    }
    let started = time_value(now_ms() - 84 * 3_600_000);
    stage.edit_record(
        &Job::for_subscriber("late"),
        &json!({"startedAt": started, "createdAt": started}),
    );
    let deliver = stage.start(DELIVER).await;
    let names = [
        "rejecting",
        "gone",
        "failing",
        "well",
        "late",
        "closed",
        "blocked",
    ];
    let records: Vec<Record> = names
        .iter()
        .enumerate()
        .map(|(n, name)| record(n, name, 8))
        .collect();

    let batch = stage.deliver(&deliver, &records).await;

    drop(socket);
    assert_eq!(batch.response, failures(&["m0", "m2", "m4", "m5", "m6"]));
    let mut told = notices(&stage);
    told.sort_by_key(|(_, _, _, detail)| {
        names
            .iter()
            .position(|name| detail["subscriberId"] == *name)
    });
    let error = told[4].3["error"].clone();
    assert!(
        error
            .as_str()
            .is_some_and(|error| !error.contains(&nowhere.to_string())),
        "{error}"
    );
    let expected = [
        dead("rejecting", 1, "status", json!({"status": 400})),
        disabled("gone"),
        dead("failing", 8, "attempts", json!({"status": 500})),
        dead("late", 4, "horizon", json!({"status": 500})),
        dead("closed", 8, "attempts", json!({"error": error})),
        dead(
            "blocked",
            8,
            "attempts",
            json!({"error": "the url's scheme is `ftp`, only https is allowed"}),
        ),
    ];
    assert_eq!(told, expected);
    assert_eq!(stage.aws.calls("PutEvents").len(), 1);

    // What is passed on is no news.
    stage.deliver(&deliver, &[record(0, "rejecting", 9)]).await;
    assert_eq!(stage.aws.calls("PutEvents").len(), 1);
}

#[tokio::test]
async fn a_call_tells_of_ten_at_most() {
    let (stage, receiver) = stage().await;
    let mut records = Vec::new();
    for n in 0..12 {
        let name = format!("s{n}");
        stage.subscribe(&name, &receiver.url("/rejecting"));
        records.push(record(n, &name, 1));
    }
    let deliver = stage.start(DELIVER).await;

    stage.deliver(&deliver, &records).await;

    let calls = stage.aws.calls("PutEvents");
    let sizes: Vec<usize> = calls.iter().map(|call| entries(call).len()).collect();
    assert_eq!(sizes, [10, 2]);
}

#[tokio::test]
async fn without_a_bus_nobody_is_told() {
    let (stage, _receiver) = stage().await;
    let stage = stage.without("EVENT_BUS_NAME");
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver(&deliver, &[record(0, "rejecting", 1), record(1, "gone", 1)])
        .await;

    assert_eq!(batch.response, failures(&["m0"]));
    assert_eq!(stage.aws.calls("PutEvents").len(), 0);
    let lines = deliver.stop().await;
    assert!(
        !lines.iter().any(|line| line.contains("ERROR")),
        "{lines:#?}"
    );
}

#[tokio::test]
async fn a_bus_can_be_named_by_its_arn() {
    let (stage, _receiver) = stage().await;
    let arn = "arn:aws:events:eu-central-1:111122223333:event-bus/operators";
    let stage = stage.with("EVENT_BUS_NAME", arn);
    let deliver = stage.start(DELIVER).await;

    stage.deliver(&deliver, &[record(0, "gone", 1)]).await;

    assert_eq!(
        stage.aws.calls("PutEvents")[0]["Entries"][0]["EventBusName"],
        arn
    );
}

#[tokio::test]
async fn who_is_neither_dead_nor_switched_off_is_not_told_of() {
    let (stage, _receiver) = stage().await;
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver(&deliver, &[record(0, "well", 1), record(1, "failing", 1)])
        .await;

    assert_eq!(batch.response, failures(&["m1"]));
    assert_eq!(stage.aws.calls("PutEvents").len(), 0);
}

#[tokio::test]
async fn a_subscription_that_was_changed_meanwhile_is_not_told_of() {
    let (stage, _receiver) = stage().await;
    stage.aws.rule("UpdateItem", |input| {
        if input["TableName"] == "subscriptions" {
            Reply::error(400, "ConditionalCheckFailedException")
        } else {
            Reply::Usual
        }
    });
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &[record(0, "gone", 1)]).await;

    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(stage.aws.calls("PutEvents").len(), 0);
}

#[tokio::test]
async fn a_notice_that_can_not_be_sent_harms_nothing() {
    let failed = |code: &str| json!({"ErrorCode": code, "ErrorMessage": "says the test"});
    let replies = [
        (Reply::error(400, "AccessDeniedException"), 2),
        (Reply::error(400, "ResourceNotFoundException"), 2),
        (Reply::error(500, "InternalException"), 2),
        (Reply::error(400, "ThrottlingException"), 2),
        (Reply::Cut, 2),
        (Reply::Text("<html>".into()), 2),
        (
            Reply::Output(json!({"FailedEntryCount": 1, "Entries": [
                {"EventId": "17793124"}, failed("InternalFailure"),
            ]})),
            1,
        ),
        (
            Reply::Output(json!({"FailedEntryCount": 2, "Entries": [
                failed("ThrottlingException"), failed("ThrottlingException"),
            ]})),
            2,
        ),
    ];
    side_by_side(replies, |(reply, unsent)| async move {
        let (stage, _receiver) = stage().await;
        stage.aws.always("PutEvents", reply.clone());
        let deliver = stage.start(DELIVER).await;
        let records = [
            record(0, "rejecting", 1),
            record(1, "gone", 1),
            record(2, "well", 1),
            record(3, "failing", 1),
        ];

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&["m0", "m3"]), "{reply:?}");
        assert_eq!(batch.delay(0), Some(0), "{reply:?}");
        batch.assert_delay(3, 15..=30);
        assert!(!stage.is_enabled("gone"));
        assert_eq!(stage.aws.records().len(), 4);
        let errors = errors_of(&deliver.stop().await);
        let [line] = &errors[..] else {
            panic!("{reply:?}: {errors:#?}");
        };
        assert_eq!(line["message"], "notices.unsent", "{reply:?}");
        assert_eq!(line["notices"], unsent, "{reply:?}");
        assert!(
            line["error"]
                .as_str()
                .is_some_and(|error| !error.is_empty())
        );
    })
    .await;
}

#[tokio::test]
async fn a_silent_bus_costs_no_more_than_the_invocation_has() {
    let (stage, _receiver) = stage().await;
    stage.aws.always("PutEvents", Reply::Hang);
    let deliver = stage.start(DELIVER).await;
    let records = [
        record(0, "rejecting", 1),
        record(1, "gone", 1),
        record(2, "failing", 1),
    ];

    let batch = stage
        .deliver_within(&deliver, &records, Duration::from_secs(3))
        .await;

    assert_eq!(batch.response, failures(&["m0", "m2"]));
    assert_eq!(batch.delay(0), Some(0));
    batch.assert_delay(2, 15..=30);
    assert!(batch.took < Duration::from_millis(2950), "{:?}", batch.took);
}

#[tokio::test]
async fn neither_a_record_nor_a_notice_tells_of_a_url_a_secret_or_a_payload() {
    const TOKEN: &str = "URLTOKEN";
    let (stage, receiver) = stage().await;
    let (_socket, nowhere) = Receiver::refusing();
    let urls = [
        (
            "closed",
            format!("http://{nowhere}/hook/{TOKEN}?key={TOKEN}"),
        ),
        ("unknown", format!("http://no-such-host.invalid/{TOKEN}")),
        ("named", format!("http://{TOKEN}:{TOKEN}@example.com/")),
        ("scheme", format!("ftp://example.com/{TOKEN}")),
        ("port", format!("http://example.com:22/{TOKEN}")),
        ("none", format!("not a url {TOKEN}")),
        ("tls", format!("https://{}/{TOKEN}", receiver.address())),
    ];
    let mut records = Vec::new();
    for (n, (name, url)) in urls.iter().enumerate() {
        stage.subscribe(name, url);
        stage.put_earlier_attempts(&Job::for_subscriber(name), &format!("m{n}"), 7);
        records.push(record(n, name, 8));
    }
    // A secret that is none, and a row that is none.
    let not_a_secret = "whsec_c2VjcmV0LXRvby1zaG9ydA";
    for name in ["secret", "row"] {
        stage.subscribe(name, &receiver.url(&format!("/{TOKEN}")));
        records.push(record(records.len(), name, 1));
    }
    stage.set_secret("secret", not_a_secret);
    let mut row = stage.aws.row("OrderPaid", "row").unwrap();
    row["enabled"] = json!({"S": TOKEN});
    stage.aws.put_row(row);
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.reported().len(), records.len());
    let mut texts: Vec<String> = Vec::new();
    for row in stage.aws.records() {
        let entries = history(&row);
        let entry = entries.last().unwrap();
        let error = entry["error"]["S"]
            .as_str()
            .unwrap_or_else(|| panic!("{row}"));
        assert!(error.len() <= 400, "{error}");
        texts.push(entry.to_string());
    }
    assert_eq!(texts.len(), records.len());
    let told = stage.aws.calls("PutEvents");
    assert_eq!(told.iter().flat_map(entries).count(), urls.len());
    texts.extend(told.iter().map(Value::to_string));
    let secret = secret_for("closed").split_off("whsec_".len());
    let confidential = [TOKEN, &secret, &not_a_secret[6..], "K-1001\",\"total"];
    assert_untold(&texts, &confidential);
}
