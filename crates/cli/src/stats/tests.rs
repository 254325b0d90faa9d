//! What is counted, and what people read.

use std::time::Duration;

use webhooks_core::timestamp;

use super::*;
use crate::delivery::Step;

/// This many minutes after midnight.
fn at(minutes: u64) -> Time {
    let midnight = timestamp::parse("2026-11-30T00:00:00Z").unwrap();
    Time::new(midnight + Duration::from_mins(minutes))
}

fn step(minutes: u64, outcome: &str) -> Step {
    Step {
        run: 1,
        n: 1,
        at: at(minutes),
        outcome: outcome.into(),
        status: None,
        ms: None,
        error: None,
        next_at: None,
    }
}

/// A delivery that was last changed when the last of these happened.
fn delivery(id: &str, state: &str, history: Vec<Step>) -> Delivery {
    let attempts = history.iter().filter(|step| step.is_attempt()).count();
    Delivery {
        webhook_id: id.into(),
        subscriber_id: Some("kasse-nord".into()),
        event_type: None,
        event_id: None,
        occurred_at: None,
        reference: None,
        state: state.into(),
        attempts: u32::try_from(attempts).unwrap(),
        started_at: history.first().map(|step| step.at),
        created_at: history.first().map(|step| step.at),
        updated_at: history.last().map(|step| step.at),
        next_at: (state == "retrying").then(|| at(720)),
        dead_reason: None,
        redriven_at: None,
        message_id: None,
        expires_at: None,
        body_omitted: false,
        history_cut: false,
        history,
    }
}

fn counted(since: u64, deliveries: &[Delivery]) -> Partner {
    let mut tally = Tally::since(at(since).get());
    for delivery in deliveries {
        tally.add(delivery);
    }
    tally.partner("kasse-nord".into())
}

#[test]
fn deliveries_are_counted_by_how_they_stand() {
    let partner = counted(
        60,
        &[
            delivery("m1", "delivered", vec![step(70, "delivered")]),
            delivery(
                "m2",
                "delivered",
                vec![step(50, "retry"), step(70, "delivered")],
            ),
            delivery("m3", "dead", vec![step(80, "dead")]),
            delivery("m4", "gone", vec![step(81, "gone")]),
            delivery("m5", "dropped", vec![step(82, "dropped")]),
            delivery(
                "m6",
                "retrying",
                vec![step(60, "retry"), step(90, "blocked")],
            ),
            delivery("m7", "asleep", vec![step(91, "retry")]),
            // Not within the time: but what waits is counted all the same.
            delivery("m8", "delivered", vec![step(59, "delivered")]),
            delivery("m9", "retrying", vec![step(20, "retry"), step(30, "fault")]),
        ],
    );
    assert_eq!(
        partner,
        Partner {
            subscriber_id: "kasse-nord".into(),
            deliveries: 7,
            delivered: 2,
            dead: 1,
            gone: 1,
            dropped: 1,
            success_rate: Some(0.5),
            attempts_per_delivered: Some(1.5),
            waiting: 2,
            oldest_waiting: Some(Waiting {
                webhook_id: "m9".into(),
                since: at(20),
            }),
            furthest: Some(Stage {
                webhook_id: "m6".into(),
                attempt: 3,
                next_at: Some(at(720)),
            }),
            last_delivered_at: Some(at(70)),
            failing_since: None,
        }
    );
}

#[test]
fn ten_failed_attempts_in_a_row_are_a_warning_in_whatever_order_they_are_read() {
    let failed = |from: u64| {
        (from..from + 5)
            .map(|minute| step(minute, "retry"))
            .collect()
    };
    let delivered = delivery("m1", "delivered", vec![step(9, "delivered")]);
    let first = delivery("m2", "retrying", failed(10));
    let second = delivery("m3", "retrying", failed(15));
    let all = [&second, &delivered, &first].map(Clone::clone);
    let partner = counted(0, &all);
    assert_eq!(partner.failing_since, Some(at(10)));
    assert_eq!(partner.last_delivered_at, Some(at(9)));

    // Nine and a success between them, nine and our own fault.
    let between = delivery("m4", "delivered", vec![step(12, "delivered")]);
    let more = [&second, &between, &first].map(Clone::clone);
    assert_eq!(counted(0, &more).failing_since, None);
    let mut nine: Vec<Step> = (10..19).map(|minute| step(minute, "retry")).collect();
    nine.push(step(19, "fault"));
    assert_eq!(
        counted(0, &[delivery("m5", "retrying", nine)]).failing_since,
        None
    );
}

#[test]
fn the_table_has_a_line_for_each_partner_and_warnings_below() {
    let quiet = Tally::since(at(0).get()).partner("kasse-süd".into());
    let mut busy = counted(
        0,
        &[
            delivery("m1", "delivered", vec![step(10, "delivered")]),
            delivery("m2", "retrying", vec![step(12, "retry"), step(13, "retry")]),
        ],
    );
    busy.dead = 2;
    busy.failing_since = Some(at(11));
    let stats = |partners| Stats {
        since: at(0),
        all_recorded: true,
        partners,
    };
    let some = Stats {
        all_recorded: false,
        ..stats(vec![busy.clone()])
    };
    assert!(
        some.to_string().contains(
            "\n\nWarning: kasse-nord: the last ten attempts of those recorded all failed, "
        ),
        "{some}"
    );
    assert_eq!(
        stats(vec![busy, quiet]).to_string(),
        "\
Since 2026-11-30T00:00:00.000Z

subscriber  deliveries  delivered  success  attempts each  dead  gone  dropped  waiting  oldest since              furthest attempt
kasse-nord  2           1          33.3 %   1.00           2     0     0        1        2026-11-30T00:12:00.000Z  3 at 2026-11-30T12:00:00.000Z
kasse-süd   0           0          -        -              0     0     0        0        -                         -

Warning: kasse-nord: the last ten attempts all failed, the first of them at 2026-11-30T00:11:00.000Z; last delivered at 2026-11-30T00:10:00.000Z."
    );
    assert_eq!(
        stats(Vec::new()).to_string(),
        "Nobody is subscribed to anything."
    );
}

#[test]
fn success_is_never_rounded_up() {
    let success = |delivered, dead| {
        let mut partner = Tally::since(at(0).get()).partner("a".into());
        (partner.delivered, partner.dead) = (delivered, dead);
        partner.success()
    };
    for (delivered, dead, expected) in [
        (1999, 1, "99.9 %"),
        (57, 43, "57.0 %"),
        (5, 0, "100.0 %"),
        (0, 5, "0.0 %"),
        (0, 0, ""),
    ] {
        assert_eq!(success(delivered, dead), expected);
    }
}
