//! `log`, `stats` and `schedule` against tables and a stack.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where it stands"
)]

use std::time::{Duration, SystemTime};

use e2e::fake_aws::Reply;
use e2e::stage::Stage;
use serde_json::{Value, json};
use webhooks_core::timestamp;

const WEBHOOKS: &str = env!("CARGO_BIN_EXE_webhooks");

/// So many minutes before now, to the second.
fn ago(minutes: u64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = now.unwrap().as_secs() - minutes * 60;
    timestamp::format(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// A delivery of `OrderPaid` that was last changed at this time.
fn put(stage: &Stage, event: &str, subscriber: &str, updated_at: &str, changes: &Value) -> Value {
    let mut record = json!({
        "webhookId": {"S": format!("msg_{event}_{subscriber}")},
        "subscriberId": {"S": subscriber},
        "eventType": {"S": "OrderPaid"},
        "eventId": {"S": event},
        "occurredAt": {"S": updated_at},
        "reference": {"S": "12345"},
        "state": {"S": "delivered"},
        "attempts": {"N": "1"},
        "refusals": {"N": "0"},
        "startedAt": {"S": updated_at},
        "createdAt": {"S": updated_at},
        "updatedAt": {"S": updated_at},
        "expiresAt": {"N": "253402300799"},
        "history": {"L": [{"M": {
            "n": {"N": "1"}, "at": {"S": updated_at}, "outcome": {"S": "delivered"},
            "status": {"N": "204"}, "ms": {"N": "12"},
        }}]},
    });
    for (name, value) in changes.as_object().unwrap() {
        record[name] = value.clone();
    }
    record
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    stage.aws.put_record(record.clone());
    record
}

fn ids(list: &Value) -> Vec<&str> {
    let deliveries = list["deliveries"].as_array().unwrap().iter();
    deliveries
        .map(|delivery| delivery["webhookId"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn one_delivery_is_read_as_it_is_at_this_moment_and_without_its_payload() {
    let stage = Stage::for_command().await;
    let (first, last) = (ago(60), ago(30));
    let body = json!({
        "state": {"S": "dead"},
        "deadReason": {"S": "status"},
        "body": {"S": "{\"secret\":1}"},
        "history": {"L": [{"M": {
            "n": {"N": "1"}, "at": {"S": first}, "outcome": {"S": "dead"}, "status": {"N": "400"},
            "ms": {"N": "7"}, "error": {"S": "status: \u{1b}[2J"},
        }}]},
    });
    put(&stage, "e1", "kasse-nord", &last, &body);
    let ran = stage.run(WEBHOOKS, &["log", "msg_e1_kasse-nord"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(
        ran.stdout,
        format!(
            r"msg_e1_kasse-nord

event       OrderPaid e1, occurred {last}
subscriber  kasse-nord
reference   12345
state       dead
kept until  9999-12-31T23:59:59.000Z

time                      attempt  outcome  status  ms  next  error
{first}  1        dead     400     7   -     status: \u{{1b}}[2J

Dead since {last}: the policy does not try this answer again. Send it again with
  webhooks redrive --webhook-id msg_e1_kasse-nord
"
        )
    );
    let call = &stage.aws.calls("GetItem")[0];
    assert_eq!(call["ConsistentRead"], true);

    let ran = stage
        .run(WEBHOOKS, &["--json", "log", "msg_e1_kasse-nord"])
        .await;
    let data = ran.json();
    assert_eq!(data["state"], "dead");
    assert_eq!(data["history"][0]["error"], "status: \u{1b}[2J");
    assert!(data["outlook"].as_str().unwrap().starts_with("Dead since"));
    assert!(!ran.stdout.contains("secret"), "{}", ran.stdout);
}

#[tokio::test]
async fn a_delivery_without_a_record_is_not_found_and_one_past_its_time_neither() {
    let stage = Stage::for_command().await;
    put(
        &stage,
        "e1",
        "a",
        &ago(1),
        &json!({"expiresAt": {"N": "1"}}),
    );
    for id in ["msg_e1_a", "msg_e2_a"] {
        let ran = stage.run(WEBHOOKS, &["log", id, "--json"]).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""));
        assert!(
            ran.stderr.starts_with(&format!(
                "webhooks: there is no record of {id} in the stack `sqs-webhooks`. It may be \
                 that:\n- it was not dispatched"
            )),
            "{}",
            ran.stderr
        );
    }
}

#[tokio::test]
async fn a_subscribers_deliveries_come_latest_first_over_all_pages() {
    let stage = Stage::for_command().await;
    stage.aws.set_page_size(2);
    let fourth = ago(4);
    for minutes in [5, 1, 4, 2, 3] {
        put(
            &stage,
            &format!("e{minutes}"),
            "a",
            &if minutes == 4 {
                fourth.clone()
            } else {
                ago(minutes)
            },
            &json!({}),
        );
    }
    put(&stage, "e9", "b", &ago(1), &json!({}));
    let expected = ["msg_e1_a", "msg_e2_a", "msg_e3_a", "msg_e4_a", "msg_e5_a"];
    let list = async |options: &[&str]| {
        let arguments = [&["log", "--json", "--subscriber", "a"], options].concat();
        let ran = stage.run(WEBHOOKS, &arguments).await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran
    };
    let ran = list(&[]).await;
    assert_eq!(ids(&ran.json()), expected);
    assert_eq!(stage.aws.calls("Query").len(), 3);

    let ran = list(&["--limit", "2"]).await;
    assert_eq!(ids(&ran.json()), expected[..2]);
    assert_eq!(ran.json()["more"], true);
    assert_eq!(
        ran.stderr,
        "There are more than these 2: ask for a shorter time by --since, or for more by --limit.\n"
    );
    assert_eq!(list(&["--limit", "5"]).await.json()["more"], false);
    assert_eq!(ids(&list(&["--since", "210s"]).await.json()), expected[..3]);
    let between = ["--until", "150s", "--since", &fourth];
    assert_eq!(ids(&list(&between).await.json()), expected[2..4]);
}

#[tokio::test]
async fn an_order_is_found_among_all_who_are_subscribed() {
    let stage = Stage::for_command().await;
    stage.aws.set_page_size(1);
    for subscriber in ["a", "b"] {
        for event_type in ["OrderPaid", "OrderRefunded"] {
            stage
                .aws
                .put_subscription(event_type, subscriber, "https://partner.example/");
        }
    }
    put(
        &stage,
        "e1",
        "a",
        &ago(5),
        &json!({"reference": {"S": "12344"}}),
    );
    put(&stage, "e2", "a", &ago(4), &json!({}));
    put(&stage, "e3", "b", &ago(3), &json!({"state": {"S": "dead"}}));
    put(&stage, "e2", "b", &ago(2), &json!({"reference": null}));
    put(&stage, "e2", "c", &ago(1), &json!({}));
    let found = async |options: &[&str]| {
        let arguments = [&["log", "--json"], options].concat();
        let ran = stage.run(WEBHOOKS, &arguments).await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let list = ran.json();
        ids(&list).join(" ")
    };
    assert_eq!(found(&["--reference", "12345"]).await, "msg_e3_b msg_e2_a");
    assert_eq!(
        found(&["--reference", "12345", "--state", "dead"]).await,
        "msg_e3_b"
    );
    assert_eq!(found(&["--event", "e2"]).await, "msg_e2_b msg_e2_a");
    let gone = ["--event", "e2", "--subscriber", "c"];
    assert_eq!(found(&gone).await, "msg_e2_c");

    stage.aws.set_stack_parameter("ReferenceFields", "orderId");
    let ran = stage.run(WEBHOOKS, &["log", "--reference", "1"]).await;
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(3), "No deliveries.\n")
    );
    assert!(
        ran.stderr
            .contains("the event's detail: orderId (template parameter ReferenceFields)"),
        "{}",
        ran.stderr
    );
}

#[tokio::test]
async fn rows_that_are_broken_are_shown_as_far_as_they_go() {
    let stage = Stage::for_command().await;
    let broken = json!({
        "state": {"N": "1"}, "attempts": {"S": "two"}, "history": {"S": "none"},
        "eventType": {"S": "Order\u{9b}Paid\n"}, "reference": null, "createdAt": null,
    });
    let time = ago(1);
    put(&stage, "e1", "a", &time, &broken);
    let ran = stage.run(WEBHOOKS, &["log", "--subscriber", "a"]).await;
    assert_eq!(
        (ran.code, ran.stdout),
        (
            Some(0),
            format!(
                r"updated                   webhook id  event type         reference  state  attempts  last  next
{time}  msg_e1_a    Order\u{{9b}}Paid\n  -          ?      0         -     -
"
            )
        )
    );
    assert_eq!(
        ran.stderr,
        "\
msg_e1_a: `state` is not a text
msg_e1_a: `attempts` is not a number that fits
msg_e1_a: `createdAt` is missing
msg_e1_a: `history` is not a list
"
    );
    let ran = stage
        .run(WEBHOOKS, &["log", "--subscriber", "a", "--json"])
        .await;
    assert!(!ran.stdout.contains('\u{9b}'), "{}", ran.stdout);
    assert_eq!(
        ran.json()["deliveries"][0]["eventType"],
        "Order\u{9b}Paid\n"
    );
    let ran = stage.run(WEBHOOKS, &["stats", "--subscriber", "a"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[tokio::test]
async fn stats_count_each_partner_and_find_what_waits() {
    let stage = Stage::for_command().await;
    stage.aws.set_page_size(1);
    for subscriber in ["a", "b"] {
        stage
            .aws
            .put_subscription("OrderPaid", subscriber, "https://partner.example/");
    }
    put(&stage, "e1", "a", &ago(5), &json!({}));
    put(&stage, "e2", "a", &ago(180), &json!({}));
    let next = ago(1);
    let failures: Vec<Value> = (0..10)
        .map(|n| {
            json!({"M": {
                "n": {"N": (n + 1).to_string()}, "at": {"S": ago(300 - n)},
                "outcome": {"S": "retry"}, "status": {"N": "503"},
            }})
        })
        .collect();
    let waiting = json!({
        "state": {"S": "retrying"}, "attempts": {"N": "10"},
        "nextAt": {"S": next}, "history": {"L": failures},
    });
    put(&stage, "e3", "b", &ago(240), &waiting);
    // Changed six days ago, and eight: the queue keeps nothing for so long.
    for (event, days) in [("e5", 6), ("e6", 8)] {
        let long_ago = json!({"state": {"S": "retrying"}, "attempts": {"N": "2"}});
        put(&stage, event, "b", &ago(days * 24 * 60), &long_ago);
    }
    put(&stage, "e4", "c", &ago(5), &json!({}));
    let ran = stage
        .run(WEBHOOKS, &["stats", "--since", "2h", "--json"])
        .await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let stats = ran.json();
    assert_eq!(stats["allRecorded"], true);
    let names: Vec<&Value> = stats["partners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|partner| &partner["subscriberId"])
        .collect();
    assert_eq!(names, ["a", "b"]);
    let a = &stats["partners"][0];
    assert_eq!(a["deliveries"], 1);
    assert_eq!(a["delivered"], 1);
    assert_eq!(a["successRate"], 1.0);
    assert_eq!(a["failingSince"], Value::Null);
    let b = &stats["partners"][1];
    assert_eq!(b["deliveries"], 0, "nothing of it changed for two hours");
    assert_eq!(b["waiting"], 2);
    assert_eq!(b["oldestWaiting"]["webhookId"], "msg_e5_b");
    assert_eq!(
        b["furthest"],
        json!({"webhookId": "msg_e3_b", "attempt": 11, "nextAt": next})
    );
    assert!(b["failingSince"].is_string());

    stage.aws.set_stack_parameter("DeliveryLog", "failures");
    let ran = stage.run(WEBHOOKS, &["stats", "--subscriber", "c"]).await;
    assert_eq!(ran.code, Some(0));
    assert!(ran.stdout.contains("\nc           1 "), "{}", ran.stdout);
    assert!(
        ran.stderr.contains("DeliveryLog: failures"),
        "{}",
        ran.stderr
    );
}

#[tokio::test]
async fn a_busy_table_is_asked_again() {
    let stage = Stage::for_command().await;
    put(&stage, "e1", "a", &ago(1), &json!({}));
    let busy = Reply::error(400, "ProvisionedThroughputExceededException");
    stage.aws.next("Query", [busy]);
    let ran = stage
        .run(WEBHOOKS, &["log", "--subscriber", "a", "--json"])
        .await;
    assert_eq!(ids(&ran.json()), ["msg_e1_a"]);
    assert_eq!(stage.aws.calls("Query").len(), 2);
}

#[tokio::test]
async fn a_cost_is_told_without_aws() {
    let stage = Stage::for_command().await.without("AWS_REGION");
    let volume = ["cost", "--events", "2M", "--fanout", "3", "--json"];
    let ran = stage.run(WEBHOOKS, &volume).await;
    let cost = ran.json();
    assert_eq!(cost["deliveries"], 6_000_000.0);
    assert_eq!(cost["assumed"]["events"], 2_000_000);
    assert_eq!(cost["callsPerDelivery"]["Query"], 0.333_333);
    assert_eq!(cost["callsPerDelivery"]["BatchGetItem"], 0.1);
    assert_eq!(
        cost["lines"][0],
        json!({
            "service": "EventBridge",
            "what": "published events",
            "quantity": 2_000_000.0,
            "unit": "events, each 64 KB",
            "perMillionDeliveries": 0.333_333,
            "perMonth": 2.0,
        })
    );
    assert_eq!(stage.aws.all_calls().len(), 0);
}

#[tokio::test]
async fn a_schedule_is_printed_without_aws_unless_a_stack_is_named() {
    let stage = Stage::for_command().await;
    let standard = stage.run(WEBHOOKS, &["schedule"]).await;
    assert!(
        standard
            .stdout
            .starts_with("## Retry schedule `standard`\n")
    );
    let bounded = stage
        .run(WEBHOOKS, &["schedule", "--policy", "bounded", "--json"])
        .await;
    assert_eq!(bounded.json()["policy"], "bounded");
    assert_eq!(stage.aws.all_calls().len(), 0);

    stage.aws.set_stack_parameter("RetryPolicy", "payments-24h");
    stage.aws.set_stack_parameter("RetryAttempts", "5");
    let ran = stage
        .run(WEBHOOKS, &["schedule", "--stack", "sqs-webhooks", "--json"])
        .await;
    let contract = ran.json();
    assert_eq!(contract["policy"], "payments-24h");
    assert_eq!(contract["stack"], "sqs-webhooks");
    assert_eq!(contract["attemptsAtMost"], 5);
    let by_variable = stage.with("WEBHOOKS_STACK", "sqs-webhooks");
    let ran = by_variable.run(WEBHOOKS, &["schedule"]).await;
    assert!(ran.stdout.starts_with("## Retry schedule `payments-24h`\n"));
}
