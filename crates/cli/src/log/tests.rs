//! What people read, word for word.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use webhooks_core::record::Entry;
use webhooks_core::timestamp;
use webhooks_shell::records::{self, Item};

use super::*;
use crate::moment::Time;

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn at(text: &str) -> SystemTime {
    timestamp::parse(text).unwrap()
}

/// 2026-11-30 at noon.
fn now() -> SystemTime {
    at("2026-11-30T12:00:00Z")
}

fn entry(n: u32, time: &str, outcome: &str, status: Option<u16>, error: Option<&str>) -> Entry {
    Entry {
        n,
        at: at(time),
        outcome: outcome.into(),
        status,
        ms: status.map(|_| 120),
        error: error.map(str::to_owned),
        next_at: (outcome == "retry").then(|| at(time) + Duration::from_mins(1)),
    }
}

/// A delivery that was last changed at a quarter to twelve.
fn delivery(state: &str, attributes: &[(&str, &str)], history: &[Entry]) -> Delivery {
    let mut item = Item::from(
        [
            ("webhookId", "msg_e1_kasse-nord"),
            ("subscriberId", "kasse-nord"),
            ("eventType", "OrderPaid"),
            ("eventId", "e1"),
            ("occurredAt", "2026-11-30T11:30:00Z"),
            ("reference", "12345"),
            ("state", state),
            ("startedAt", "2026-11-30T11:30:01.000Z"),
            ("createdAt", "2026-11-30T11:30:01.000Z"),
            ("updatedAt", "2026-11-30T11:45:00.000Z"),
        ]
        .map(|(name, value)| (name.to_owned(), s(value))),
    );
    item.insert("attempts".into(), AttributeValue::N("3".into()));
    for (name, value) in attributes {
        item.insert((*name).to_owned(), s(value));
    }
    let history = history.iter().map(records::entry).collect();
    item.insert("history".into(), AttributeValue::L(history));
    Delivery::read(&item, now(), &mut Vec::new()).unwrap()
}

fn story(delivery: Delivery) -> String {
    let outlook = outlook::of(&delivery, now());
    Story { delivery, outlook }.to_string()
}

#[test]
fn a_delivery_under_way_is_told_from_its_first_attempt_to_its_next() {
    let history = [
        entry(
            1,
            "2026-11-30T11:30:02.345Z",
            "retry",
            Some(503),
            Some("status: 503"),
        ),
        entry(
            2,
            "2026-11-30T11:31:00Z",
            "fault",
            None,
            Some("signing secret unusable: no"),
        ),
        entry(
            2,
            "2026-11-30T11:32:00Z",
            "retry",
            None,
            Some("timeout: no\u{1b}[31m answer"),
        ),
    ];
    let next = [("nextAt", "2026-11-30T12:09:00.000Z")];
    assert_eq!(
        story(delivery("retrying", &next, &history)),
        r"msg_e1_kasse-nord

event       OrderPaid e1, occurred 2026-11-30T11:30:00Z
subscriber  kasse-nord
reference   12345
state       retrying

time                      attempt  outcome  status  ms   next                      error
2026-11-30T11:30:02.345Z  1        retry    503     120  2026-11-30T11:31:02.345Z  status: 503
2026-11-30T11:31:00.000Z  2        fault    -       -    -                         signing secret unusable: no
2026-11-30T11:32:00.000Z  2        retry    -       -    2026-11-30T11:33:00.000Z  timeout: no\u{1b}[31m answer

Next attempt, number 4, at 2026-11-30T12:09:00.000Z (in 9 min)."
    );
}

/// The example of the docs, which the text there is compared with.
fn the_one_that_died() -> Delivery {
    // The end of each attempt of `standard`, and the delay after it.
    let attempts = [
        ("2026-11-29T22:30:01.042Z", Some(503), 41, 51),
        ("2026-11-29T22:31:02.312Z", None, 10_001, 137),
        ("2026-11-29T22:33:19.655Z", Some(502), 38, 402),
        ("2026-11-29T22:40:01.911Z", Some(503), 44, 1187),
        ("2026-11-29T22:59:49.263Z", Some(503), 40, 3604),
        ("2026-11-29T23:59:53.590Z", Some(503), 39, 10_933),
        ("2026-11-30T03:02:06.934Z", Some(503), 42, 16_213),
        ("2026-11-30T07:32:20.201Z", Some(503), 39, 0),
    ];
    let history: Vec<Entry> = (1..)
        .zip(attempts)
        .map(|(n, (time, status, ms, delay))| Entry {
            n,
            at: at(time),
            outcome: if delay > 0 { "retry" } else { "dead" }.into(),
            status,
            ms: Some(ms),
            error: status
                .is_none()
                .then(|| "timeout: no answer within 10000 ms".into()),
            next_at: (delay > 0).then(|| at(time) + Duration::from_secs(delay)),
        })
        .collect();
    let died = "2026-11-30T07:32:20.201Z";
    let dead = delivery(
        "dead",
        &[
            ("occurredAt", "2026-11-29T22:30:00Z"),
            ("updatedAt", died),
            ("deadReason", "attempts"),
        ],
        &history,
    );
    Delivery {
        attempts: 8,
        expires_at: Some(Time::new(at("2026-12-30T07:32:20Z"))),
        ..dead
    }
}

#[test]
fn the_example_of_the_docs_is_what_is_printed() {
    let list = List {
        deliveries: vec![the_one_that_died()],
        more: false,
        is_search: true,
    };
    let example = format!(
        "```\n$ webhooks log --reference 12345\n{list}\n\n$ webhooks log msg_e1_kasse-nord\n{}\n```\n",
        story(the_one_that_died())
    );
    let docs = include_str!("../../../../docs/webhooks-command.md");
    assert!(docs.contains(&example), "{example}");
}

#[test]
fn a_redriven_delivery_shows_its_runs() {
    let history = [
        entry(1, "2026-11-30T11:30:00Z", "dead", Some(400), None),
        entry(1, "2026-11-30T11:45:00Z", "delivered", Some(204), None),
    ];
    let text = story(delivery("delivered", &[], &history));
    let (_, text) = text.split_once("\n\n").unwrap();
    assert_eq!(
        text.split_once("\n\n").unwrap().1,
        "\
time                      run  attempt  outcome    status  ms   next  error
2026-11-30T11:30:00.000Z  1    1        dead       400     120  -     -
2026-11-30T11:45:00.000Z  2    1        delivered  204     120  -     -

Delivered at 2026-11-30T11:45:00.000Z, attempt 1."
    );
}

#[test]
fn what_comes_next_is_said_for_every_state() {
    let outlook =
        |state, attributes: &[(&str, &str)]| outlook::of(&delivery(state, attributes, &[]), now());
    for (state, attributes, expected) in [
        (
            "retrying",
            &[("nextAt", "2026-11-30T11:59:00Z")][..],
            "Attempt 4 is due since 2026-11-30T11:59:00.000Z.",
        ),
        (
            "retrying",
            &[("nextAt", "2026-11-30T09:59:59Z")],
            "Attempt 4 was due at 2026-11-30T09:59:59.000Z, 2 h ago, and has not been made. Is \
             deliver switched off, throttled or failing, or was the queue purged?",
        ),
        (
            "retrying",
            &[],
            "Attempt 4 comes next; the record does not say when.",
        ),
        ("delivered", &[], "Delivered at 2026-11-30T11:45:00.000Z."),
        (
            "dead",
            &[("deadReason", "attempts")],
            "Dead since 2026-11-30T11:45:00.000Z: all attempts were used up. Send it again with\n  \
             webhooks redrive --webhook-id msg_e1_kasse-nord",
        ),
        (
            "dead",
            &[
                ("deadReason", "status"),
                ("redrivenAt", "2026-11-30T11:44:00Z"),
            ],
            "Dead since 2026-11-30T11:45:00.000Z: the policy does not try this answer again. Send \
             it again with\n  webhooks redrive --webhook-id msg_e1_kasse-nord",
        ),
        (
            "dead",
            &[
                ("deadReason", "horizon"),
                ("redrivenAt", "2026-11-30T11:50:00Z"),
            ],
            "Redriven at 2026-11-30T11:50:00.000Z; its new first attempt has not been made yet.",
        ),
        (
            "dead",
            &[
                ("deadReason", "horizon"),
                ("redrivenAt", "2026-11-30T11:45:00.001Z"),
            ],
            "Redriven at 2026-11-30T11:45:00.001Z; its new first attempt has not been made yet.",
        ),
        (
            "dead",
            &[
                ("deadReason", "horizon"),
                ("redrivenAt", "2026-11-30T11:45:00Z"),
            ],
            "Redriven at 2026-11-30T11:45:00.000Z, 15 min ago, and its new first attempt has not \
             been made. Is deliver switched off, throttled or failing, or was the queue purged? \
             Send it again with\n  webhooks redrive --webhook-id msg_e1_kasse-nord",
        ),
        (
            "gone",
            &[],
            "Not sent again: at 2026-11-30T11:45:00.000Z the receiver answered 410, which \
             switched the subscription off.",
        ),
        (
            "dropped",
            &[],
            "Not sent again: at 2026-11-30T11:45:00.000Z the subscription was switched off or did \
             not exist.",
        ),
        (
            "as\tleep",
            &[],
            r"What comes next is not known: state `as\tleep`.",
        ),
    ] {
        assert_eq!(outlook(state, attributes), expected, "{state}");
    }
}

#[test]
fn every_reason_of_a_death_has_its_words() {
    for (reason, words) in [
        ("attempts", ": all attempts were used up"),
        ("horizon", ": the time for attempts was over"),
        ("status", ": the policy does not try this answer again"),
        (
            "faults",
            ": through faults of ours it could not be tried, again and again",
        ),
        ("age", ": it would soon have expired in the jobs queue"),
        ("receives", ": SQS would not have handed it out once more"),
        ("another", ""),
    ] {
        let dead = delivery("dead", &[("deadReason", reason)], &[]);
        assert_eq!(
            outlook::of(&dead, now()),
            format!(
                "Dead since 2026-11-30T11:45:00.000Z{words}. Send it again with\n  webhooks redrive \
                 --webhook-id msg_e1_kasse-nord"
            )
        );
    }
}

#[test]
fn a_payload_that_was_not_kept_is_told() {
    let large = Delivery {
        body_omitted: true,
        ..delivery("dead", &[("deadReason", "attempts")], &[])
    };
    assert_eq!(
        story(large),
        "\
msg_e1_kasse-nord

event       OrderPaid e1, occurred 2026-11-30T11:30:00Z
subscriber  kasse-nord
reference   12345
state       dead
payload     not kept in the record, it was too large

Dead since 2026-11-30T11:45:00.000Z: all attempts were used up. Send it again, as long as the \
         dead-letter queue has it (the record does not keep so large a payload), with
  webhooks redrive --webhook-id msg_e1_kasse-nord"
    );
}

#[test]
fn a_list_has_a_line_for_each_delivery() {
    let long = "connect: the connection was refused by the other side of it";
    let deliveries = vec![
        delivery(
            "retrying",
            &[("nextAt", "2026-11-30T12:09:00Z")],
            &[entry(1, "2026-11-30T11:30:00Z", "retry", None, Some(long))],
        ),
        delivery("asleep", &[("webhookId", "m\n"), ("reference", "")], &[]),
    ];
    let list = List {
        deliveries,
        more: false,
        is_search: true,
    };
    assert_eq!(
        list.to_string(),
        r"updated                   webhook id         event type  reference  state     attempts  last                                       next
2026-11-30T11:45:00.000Z  msg_e1_kasse-nord  OrderPaid   12345      retrying  3         connect: the connection was refused by t…  2026-11-30T12:09:00.000Z
2026-11-30T11:45:00.000Z  m\n                OrderPaid   -          asleep    3         -                                          -"
    );
    assert_eq!(Log::List(list).exit(), Exit::Done);
    let none = List {
        deliveries: Vec::new(),
        more: false,
        is_search: true,
    };
    assert_eq!(none.to_string(), "No deliveries.");
    assert_eq!(Log::List(none).exit(), Exit::NotFound);
}

#[test]
fn only_what_was_asked_for_is_listed() {
    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }
    let takes = |options: &str, delivery: &Delivery| {
        let words = format!("log --subscriber kasse-nord {options}");
        let arguments = <Line as clap::Parser>::try_parse_from(words.split_whitespace())
            .unwrap()
            .arguments;
        Filter {
            period: Period::new(arguments.since, arguments.until, now()).unwrap(),
            arguments,
            now: now(),
            at_most: 1,
        }
        .takes(delivery)
    };
    let it = delivery("dead", &[], &[]);
    for options in [
        "",
        "--since 15m",
        "--until 14m",
        "--state dead",
        "--event-type OrderPaid --reference 12345 --event e1",
    ] {
        assert!(takes(options, &it), "{options}");
    }
    for options in [
        "--since 14m",
        "--until 15m",
        "--state retrying",
        "--event-type OrderRefunded",
        "--reference 1234",
        "--event e2",
    ] {
        assert!(!takes(options, &it), "{options}");
    }
    let timeless = Delivery {
        updated_at: None,
        ..it
    };
    assert!(takes("", &timeless));
    assert!(!takes("--since 30d", &timeless));
}

#[test]
fn what_is_not_there_is_explained() {
    let stack = |log: &str| {
        let parameters = [("DeliveryLog", log), ("ReferenceFields", "orderId")];
        Stack {
            name: "shop".into(),
            subscriptions_table: String::new(),
            deliveries_table: String::new(),
            jobs_queue_url: String::new(),
            dead_letter_queue_url: String::new(),
            secret_prefix: String::new(),
            outputs: HashMap::new(),
            status: String::new(),
            parameters: HashMap::from(
                parameters.map(|(name, value)| (name.to_owned(), value.to_owned())),
            ),
        }
    };
    assert_eq!(
        unknown("msg_1_a", &stack("all")).told(),
        "\
there is no record of msg_1_a in the stack `shop`. It may be that:
- it was not dispatched: the rule does not let the event's source or type through, or there was no enabled subscription then
- it still waits for its first attempt; a record is written after that
- it is older than 30 days"
    );
    assert_eq!(
        nothing_found(&stack("failures")),
        "\
Nothing found in the stack `shop`. It may be that:
- the reference is another: it is the value of the first of these fields of the event's detail: orderId (template parameter ReferenceFields)
- it was not dispatched: the rule does not let the event's source or type through, or there was no enabled subscription then
- it still waits for its first attempt; a record is written after that
- it was delivered at once: this stack keeps no record of such (DeliveryLog: failures)
- it is older than 30 days"
    );
}
