//! One event, four partners, and every way in which a delivery can end.

use std::time::Duration;

use e2e::receiver::Answer;
use e2e::stack::{Function, Partner, Stack, read};
use serde_json::{Value, json};

use crate::policies::STANDARD;
use crate::{assert_attempts_of_one_delivery, assert_carries, body, millis, timestamp, told};

/// The attempts of the policy `standard`.
const ATTEMPTS: usize = 8;

/// The four partners of `make demo`, and what is to become of each.
#[tokio::test]
async fn one_event_ends_for_each_partner_as_its_answers_say() {
    let stack = STANDARD.stack().await;
    let mut kasse_nord = stack
        .partner("OrderPaid", "kasse-nord", [Answer::status(204)])
        .await;
    let overloaded = Answer::retry_after(503, "2");
    let answers = [overloaded.clone(), overloaded, Answer::status(204)];
    let mut lager_sued = stack.partner("OrderPaid", "lager-sued", answers).await;
    let mut kiosk_alt = stack
        .partner("OrderPaid", "kiosk-alt", [Answer::status(410)])
        .await;
    let mut archiv_west = stack
        .partner("OrderPaid", "archiv-west", [Answer::status(500)])
        .await;

    let event_id = stack.publish_file("order-paid.json").await;
    tokio::join!(
        is_delivered_at_once(&stack, &mut kasse_nord, &event_id),
        is_left_alone_as_long_as_it_asks(&stack, &mut lager_sued, &event_id),
        is_switched_off(&stack, &mut kiosk_alt, &event_id),
        is_tried_eight_times_and_kept(&stack, &mut archiv_west, &event_id),
    );
    let partners = [&kasse_nord, &lager_sued, &kiosk_alt, &archiv_west];
    assert_eq!(partners.map(Partner::requests), [1, 3, 1, ATTEMPTS]);

    // Whoever has gone gets no job any more.
    let event_id = stack.publish_file("order-paid.json").await;
    let fields = json!({"message": "event.dispatched", "eventId": event_id});
    let line = stack.line(Function::Dispatch, &fields).await;
    assert_eq!(line.json["jobs"], 3, "{line:?}");
    assert_eq!(line.json["disabled"], 1, "{line:?}");
    kasse_nord
        .next_post(&kasse_nord.webhook_id(&event_id))
        .await;
    assert_eq!(kiosk_alt.requests(), 1);
}

async fn is_delivered_at_once(stack: &Stack, partner: &mut Partner<'_>, event_id: &str) {
    let webhook_id = partner.webhook_id(event_id);
    let post = partner.next_post(&webhook_id).await;
    let published: Value = serde_json::from_str(&read("events", "order-paid.json")).unwrap();
    let detail: Value = serde_json::from_str(published[0]["Detail"].as_str().unwrap()).unwrap();
    assert_carries(&post, "OrderPaid", &detail);

    let line = partner.attempt(&webhook_id, 1).await.json;
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["outcome"], "delivered");
    assert_eq!(line["status"], 204);
    for unset in ["delaySeconds", "nextAt", "deadReason"] {
        assert_eq!(line.get(unset), None, "{line}");
    }
    let record = stack.record(&webhook_id).await.expect("a record");
    let at = &record["updatedAt"];
    assert_eq!(
        record,
        json!({
            "webhookId": webhook_id,
            "subscriberId": "kasse-nord",
            "eventType": "OrderPaid",
            "eventId": event_id,
            "occurredAt": body(&post)["timestamp"],
            "reference": "K-1001",
            "state": "delivered",
            "attempts": 1,
            "refusals": 0,
            "messageId": line["messageId"],
            "startedAt": record["startedAt"],
            "createdAt": at,
            "updatedAt": at,
            "expiresAt": (millis(at) / 1000) + 30 * 24 * 3600,
            "history": [
                {"n": 1, "at": at, "outcome": "delivered", "status": 204, "ms": line["ms"]},
            ],
        })
    );
}

async fn is_left_alone_as_long_as_it_asks(
    stack: &Stack,
    partner: &mut Partner<'_>,
    event_id: &str,
) {
    let webhook_id = partner.webhook_id(event_id);
    let mut posts = Vec::new();
    for _ in 0..3 {
        posts.push(partner.next_post(&webhook_id).await);
    }
    assert_attempts_of_one_delivery(&posts);
    for pair in posts.windows(2) {
        let wait = pair[1].at - pair[0].at;
        assert!(wait >= Duration::from_secs(2), "{wait:?}");
        assert!(timestamp(&pair[1]) - timestamp(&pair[0]) >= 2, "{pair:?}");
    }
    for attempt in [1, 2] {
        let line = partner.attempt(&webhook_id, attempt).await.json;
        assert_eq!(line["outcome"], "retry");
        assert_eq!(line["status"], 503);
        assert_eq!(line["delaySeconds"], 2);
    }
    let line = partner.attempt(&webhook_id, 3).await.json;
    assert_eq!(line["outcome"], "delivered");
    let record = stack.record_when(&webhook_id, "delivered").await;
    assert_eq!(record["attempts"], 3);
    let history = ["1 retry 503", "2 retry 503", "3 delivered 204"];
    assert_eq!(told(&record), history);
}

async fn is_switched_off(stack: &Stack, partner: &mut Partner<'_>, event_id: &str) {
    let webhook_id = partner.webhook_id(event_id);
    let post = partner.next_post(&webhook_id).await;
    let line = partner.attempt(&webhook_id, 1).await.json;
    assert_eq!(line["outcome"], "gone");
    assert_eq!(line["status"], 410);

    let row = stack.row(&partner.event_type, &partner.subscriber_id).await;
    assert_eq!(row["enabled"].as_bool(), Ok(&false));
    let reason = row["disabledReason"].as_s().unwrap();
    assert_eq!(reason, "the endpoint answered 410 Gone");
    let at = millis(&row["disabledAt"].as_s().unwrap().as_str().into());
    let answered_at = i64::try_from(post.at_unix_seconds).unwrap() * 1000;
    assert!((answered_at..answered_at + 10_000).contains(&at), "{at}");
    assert_eq!(row["url"].as_s(), Ok(&partner.receiver.url("/webhooks")));
    assert_eq!(stack.dead_letters(&webhook_id).await, []);
    let record = stack.record(&webhook_id).await.expect("a record");
    assert_eq!(record["state"], "gone");
    assert_eq!(told(&record), ["1 gone 410"]);
}

async fn is_tried_eight_times_and_kept(stack: &Stack, partner: &mut Partner<'_>, event_id: &str) {
    let webhook_id = partner.webhook_id(event_id);
    let mut posts = Vec::new();
    for _ in 0..ATTEMPTS {
        posts.push(partner.next_post(&webhook_id).await);
    }
    assert_attempts_of_one_delivery(&posts);
    let letter = stack.dead_letter(&webhook_id).await;
    let job: Value = serde_json::from_str(letter.body().unwrap()).unwrap();
    let body = body(&posts[0]);
    assert_eq!(
        job,
        json!({
            "webhookId": webhook_id,
            "eventId": event_id,
            "eventType": "OrderPaid",
            "subscriberId": "archiv-west",
            "occurredAt": body["timestamp"],
            "url": partner.receiver.url("/webhooks"),
            "body": body,
        })
    );
    let sent = format!(r#""body":{}}}"#, posts[0].text());
    assert!(letter.body().unwrap().ends_with(&sent), "byte for byte");

    for attempt in 1..ATTEMPTS {
        let line = partner.attempt(&webhook_id, attempt).await.json;
        assert_eq!(line["outcome"], "retry");
        assert_eq!(line["status"], 500);
        assert_eq!(line.get("deadReason"), None);
        assert!(line["delaySeconds"].as_u64() >= Some(1), "{line}");
        assert!(line["nextAt"].is_string(), "{line}");
    }
    let line = partner.attempt(&webhook_id, ATTEMPTS).await.json;
    assert_eq!(line["outcome"], "dead");
    assert_eq!(line["status"], 500);
    assert_eq!(line["deadReason"], "attempts");
    for unset in ["delaySeconds", "nextAt"] {
        assert_eq!(line.get(unset), None, "{line}");
    }
    assert_eq!(stack.dead_letters(&webhook_id).await.len(), 1);
}
