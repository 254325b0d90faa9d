//! What is written down of a delivery, attribute by attribute, and how many calls it takes.

use e2e::delivery_record::{history, moment, now_ms, story, time_value};
use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, OCCURRED_AT, Record};
use e2e::stage::{Stage, failures, parameter_name};
use serde_json::{Value, json};

use crate::helpers::{DELIVER, NONE};

const THIRTY_DAYS_SECONDS: u64 = 30 * 24 * 60 * 60;

/// The record of a first receive that ended at `at`, with what is the same in all of them.
fn first_row(job: &Job, message_id: &str, at: u64, entry: Value, rest: Value) -> Value {
    let mut row = json!({
        "webhookId": {"S": job.webhook_id()},
        "subscriberId": {"S": job.subscriber_id},
        "eventType": {"S": "OrderPaid"},
        "eventId": {"S": job.event_id},
        "occurredAt": {"S": OCCURRED_AT},
        "refusals": {"N": "0"},
        "messageId": {"S": message_id},
        "createdAt": time_value(at),
        "updatedAt": time_value(at),
        "expiresAt": {"N": (at / 1000 + THIRTY_DAYS_SECONDS).to_string()},
        "history": {"L": [{"M": entry}]},
    });
    for (name, value) in rest.as_object().unwrap() {
        row[name] = value.clone();
    }
    row
}

/// The `ms` of a history entry, which is at most this.
fn ms_of(entry: &Value, at_most: u128) -> Value {
    let ms = entry["ms"]["N"]
        .as_str()
        .unwrap_or_else(|| panic!("{entry}"));
    assert!(ms.parse::<u128>().unwrap() <= at_most, "{entry}");
    json!({"N": ms})
}

#[tokio::test]
async fn the_first_receive_is_written_down_with_all_that_came_of_it() {
    let receiver = Receiver::by_target([
        ("/delivered".to_owned(), Answer::status(204)),
        ("/failed".to_owned(), Answer::status(503)),
        ("/broken".to_owned(), Answer::nothing().then_reset()),
        ("/gone".to_owned(), Answer::status(410)),
    ])
    .await;
    let stage = Stage::for_deliver().await;
    let names = [
        "delivered",
        "failed",
        "broken",
        "gone",
        "off",
        "missing",
        "blocked",
        "secretless",
        "row",
    ];
    for name in names {
        stage.subscribe(name, &receiver.url(&format!("/{name}")));
    }
    let mut off = stage.aws.row("OrderPaid", "off").unwrap();
    off["enabled"] = json!({"BOOL": false});
    stage.aws.put_row(off);
    stage.aws.delete_row("OrderPaid", "missing");
    stage.subscribe("blocked", "ftp://127.0.0.1/");
    stage.aws.delete_parameter(&parameter_name("secretless"));
    let mut row = stage.aws.row("OrderPaid", "row").unwrap();
    row["url"] = json!({"N": "1"});
    stage.aws.put_row(row);
    let deliver = stage.start(DELIVER).await;
    let begun = now_ms();
    let records: Vec<Record> = names
        .iter()
        .enumerate()
        .map(|(n, name)| {
            Record::new(n, &Job::for_subscriber(name).text()).first_received_at_ms(begun - 5000)
        })
        .collect();

    let batch = stage.deliver(&deliver, &records).await;

    let ended = now_ms();
    assert_eq!(batch.response, failures(&["m1", "m2", "m6", "m7", "m8"]));
    let posted = |entry: &Value| ms_of(entry, batch.took.as_millis());
    for (n, name) in names.iter().enumerate() {
        let job = Job::for_subscriber(name);
        let row = stage.record_of(&job);
        let at = moment(&row["updatedAt"]);
        assert!((begun..=ended).contains(&at), "{row}");
        let entry = &history(&row)[0];
        let delay = batch
            .delay(n)
            .map(|seconds| u64::try_from(seconds).unwrap());
        let next_at = time_value(at + delay.unwrap_or_default() * 1000);
        let (attempts, state, entry) = match *name {
            "delivered" => (
                "1",
                "delivered",
                json!({"outcome": {"S": "delivered"}, "status": {"N": "204"}, "ms": posted(entry)}),
            ),
            "failed" => (
                "1",
                "retrying",
                json!({"outcome": {"S": "retry"}, "status": {"N": "503"}, "ms": posted(entry)}),
            ),
            "broken" => {
                let error = entry["error"]["S"].as_str().unwrap();
                assert!(error.starts_with("connection: "), "{error}");
                (
                    "1",
                    "retrying",
                    json!({"outcome": {"S": "retry"}, "ms": posted(entry), "error": {"S": error}}),
                )
            }
            "gone" => (
                "1",
                "gone",
                json!({"outcome": {"S": "gone"}, "status": {"N": "410"}, "ms": posted(entry)}),
            ),
            "off" => (
                "0",
                "dropped",
                json!({"outcome": {"S": "dropped"}, "error": {"S": "the subscription is disabled"}}),
            ),
            "missing" => (
                "0",
                "dropped",
                json!({
                    "outcome": {"S": "dropped"},
                    "error": {"S": "the subscription does not exist"},
                }),
            ),
            "blocked" => (
                "1",
                "retrying",
                json!({
                    "outcome": {"S": "blocked"},
                    "error": {"S": "blocked: the url's scheme is `ftp`, only https is allowed"},
                }),
            ),
            "secretless" => {
                let error = entry["error"]["S"].as_str().unwrap();
                assert!(error.starts_with("signing secret unusable: "), "{error}");
                (
                    "0",
                    "retrying",
                    json!({"outcome": {"S": "fault"}, "error": {"S": error}}),
                )
            }
            _ => (
                "0",
                "retrying",
                json!({
                    "outcome": {"S": "fault"},
                    "error": {"S": "subscription row broken: `url` is not a string (S)"},
                }),
            ),
        };
        let mut entry = entry;
        entry["n"] = json!({"N": "1"});
        entry["at"] = time_value(at);
        let mut rest = json!({
            "state": {"S": state},
            "attempts": {"N": attempts},
            "startedAt": time_value(begun - 5000),
        });
        if state == "retrying" {
            assert!(delay.is_some(), "{name}");
            entry["nextAt"] = next_at.clone();
            rest["nextAt"] = next_at;
        } else {
            assert_eq!(delay, None, "{name}");
        }
        assert_eq!(row, first_row(&job, &format!("m{n}"), at, entry, rest));
    }
    batch.assert_delay(1, 30..=60);
    batch.assert_delay(2, 30..=60);
    batch.assert_delay(6, 30..=60);
    batch.assert_delay(7, 3..=5);
    batch.assert_delay(8, 3..=5);
    assert_eq!(stage.aws.records().len(), names.len());
}

#[tokio::test]
async fn a_history_grows_by_an_entry_and_the_rest_is_as_it_is_now() {
    let receiver =
        Receiver::sequence(vec![Answer::retry_after(503, "300"), Answer::status(200)]).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let deliver = stage.start(DELIVER).await;
    let job = Job::for_subscriber("kasse-nord");
    let started = now_ms() - 1000;
    let record = Record::new(0, &job.text()).first_received_at_ms(started);
    stage.deliver(&deliver, std::slice::from_ref(&record)).await;
    let first = stage.record_of(&job);
    let first_at = moment(&first["updatedAt"]);
    let next_at = time_value(first_at + 300_000);
    assert_eq!(first["nextAt"], next_at);
    stage.make_due(&job);

    let batch = stage.deliver(&deliver, &[record.received(2)]).await;

    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(batch.calls, ["BatchGetItem", "UpdateItem"]);
    let second = stage.record_of(&job);
    let at = moment(&second["updatedAt"]);
    assert!(at >= first_at && at <= now_ms(), "{second}");
    let entries = history(&second);
    let [earlier, entry] = &entries[..] else {
        panic!("{second}");
    };
    assert_eq!(earlier, &history(&first)[0]);
    assert_eq!(
        entry,
        &json!({
            "n": {"N": "2"},
            "at": time_value(at),
            "outcome": {"S": "delivered"},
            "status": {"N": "200"},
            "ms": ms_of(entry, batch.took.as_millis()),
        })
    );
    let mut expected = first_row(
        &job,
        "m0",
        at,
        entry.clone(),
        json!({
            "state": {"S": "delivered"},
            "attempts": {"N": "2"},
            "startedAt": time_value(started),
            "createdAt": time_value(first_at),
        }),
    );
    expected["history"]["L"] = json!([{"M": earlier}, {"M": entry}]);
    assert_eq!(second, expected);
}

#[tokio::test]
async fn an_older_row_keeps_what_is_not_ours_and_loses_what_belonged_to_its_state() {
    let receiver = Receiver::always(Answer::status(200)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let deliver = stage.start(DELIVER).await;
    let job = Job::for_subscriber("kasse-nord");
    let long_ago = time_value(now_ms() - 3_600_000);
    stage.put_record(
        &job,
        &json!({
            "state": {"S": "dead"},
            "attempts": {"N": "8"},
            "messageId": {"S": "m0"},
            "startedAt": long_ago,
            "createdAt": long_ago,
            "updatedAt": long_ago,
            "deadReason": {"S": "attempts"},
            "body": {"S": "{}"},
            "bodyOmitted": {"BOOL": true},
            "redrivenAt": long_ago,
            "note": {"S": "somebody's own"},
        }),
    );
    let record = Record::new(1, &job.text()).sent_at_ms(now_ms());

    let batch = stage.deliver(&deliver, &[record]).await;

    assert_eq!(batch.response, failures(&NONE));
    let row = stage.record_of(&job);
    let at = moment(&row["updatedAt"]);
    let entry = history(&row).remove(0);
    let mut expected = first_row(
        &job,
        "m1",
        at,
        entry,
        json!({
            "state": {"S": "delivered"},
            "attempts": {"N": "1"},
            "startedAt": row["startedAt"],
            "createdAt": long_ago,
            "redrivenAt": long_ago,
            "note": {"S": "somebody's own"},
        }),
    );
    assert!(moment(&row["startedAt"]) <= at);
    expected["history"] = row["history"].clone();
    assert_eq!(row, expected);
    assert_eq!(story(&row), [(1, "delivered".to_owned())]);
}

#[tokio::test]
async fn one_field_of_the_event_is_the_reference() {
    let receiver = Receiver::always(Answer::status(200)).await;
    let cases = [
        (Some("orderId"), json!({"S": "K-1001"})),
        (Some("invoice, total, orderId"), json!({"S": "1.0"})),
        (Some("OrderId"), Value::Null),
        (Some("type"), Value::Null),
        (None, Value::Null),
    ];
    for (fields, expected) in cases {
        let mut stage = Stage::for_deliver().await;
        if let Some(fields) = fields {
            stage = stage.with("REFERENCE_FIELDS", fields);
        }
        stage.subscribe("kasse-nord", &receiver.url("/"));
        let deliver = stage.start(DELIVER).await;
        let job = Job::for_subscriber("kasse-nord");

        stage
            .deliver(&deliver, &[Record::new(0, &job.text())])
            .await;

        assert_eq!(stage.record_of(&job)["reference"], expected, "{fields:?}");
    }
}

#[tokio::test]
async fn the_longest_time_of_an_event_is_kept_as_it_was_published_and_no_longer_one_is_taken() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let deliver = stage.start(DELIVER).await;
    for (n, (length, taken)) in [(64, true), (65, false)].into_iter().enumerate() {
        let job = Job::for_subscriber("kasse-nord").with_event_id(&format!("e{n}"));
        let time = "x".repeat(length);
        let text = job.text().replace(OCCURRED_AT, &time);
        // The payload has a time of its own.
        let text = text.replacen(&format!(r#""timestamp":"{time}""#), r#""timestamp":"t""#, 1);

        let batch = stage.deliver(&deliver, &[Record::new(n, &text)]).await;

        assert_eq!(batch.reported().is_empty(), taken, "{length}");
        let row = stage.record(&job.webhook_id());
        let kept = row.map(|row| row["occurredAt"].clone());
        assert_eq!(kept, taken.then(|| json!({"S": time})));
    }
}
