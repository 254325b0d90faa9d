//! One event, four partners, and every way in which a delivery can end.

use std::time::Duration;

use e2e::receiver::Answer;
use e2e::stack::{Function, Partner, Stack, read};
use serde_json::{Value, json};

use crate::{assert_attempts_of_one_delivery, assert_carries, seconds, timestamp};

/// The attempts of the policy `standard`.
const ATTEMPTS: usize = 8;

/// The four partners of `make demo`, and what is to become of each.
#[tokio::test]
async fn one_event_ends_for_each_partner_as_its_answers_say() {
    let stack = Stack::shared().await;
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
        is_delivered_at_once(&mut kasse_nord, &event_id),
        is_left_alone_as_long_as_it_asks(&mut lager_sued, &event_id),
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

async fn is_delivered_at_once(partner: &mut Partner<'_>, event_id: &str) {
    let webhook_id = partner.webhook_id(event_id);
    let post = partner.next_post(&webhook_id).await;
    let published: Value = serde_json::from_str(&read("events", "order-paid.json")).unwrap();
    let detail: Value = serde_json::from_str(published[0]["Detail"].as_str().unwrap()).unwrap();
    assert_carries(&post, "OrderPaid", &detail);

    let line = partner.attempt(&webhook_id, 1).await.json;
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["outcome"], "delivered");
    assert_eq!(line["status"], 204);
    assert_eq!(line["exhausted"], false);
    assert_eq!(line.get("delaySeconds"), None);
}

async fn is_left_alone_as_long_as_it_asks(partner: &mut Partner<'_>, event_id: &str) {
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
    let at = seconds(row["disabledAt"].as_s().unwrap());
    let answered_at = post.at_unix_seconds;
    assert!((answered_at..answered_at + 10).contains(&at), "{at}");
    assert_eq!(row["url"].as_s(), Ok(&partner.receiver.url("/webhooks")));
    assert_eq!(stack.dead_letters(&webhook_id).await, []);
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
    let body: Value = serde_json::from_str(posts[0].text()).unwrap();
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
        assert_eq!(line["exhausted"], false);
        assert!(line["delaySeconds"].as_u64() >= Some(1), "{line}");
    }
    let line = partner.attempt(&webhook_id, ATTEMPTS).await.json;
    assert_eq!(line["outcome"], "retry");
    assert_eq!(line["exhausted"], true);
    assert_eq!(line.get("delaySeconds"), None);
    assert_eq!(stack.dead_letters(&webhook_id).await.len(), 1);
}
