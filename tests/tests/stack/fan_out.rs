//! From an event to its jobs.

use std::collections::BTreeSet;

use e2e::receiver::Answer;
use e2e::stack::{Function, Queue, read};
use serde_json::{Value, json};

use crate::policies::STANDARD;
use crate::{assert_carries, body, detail, told};

/// Lambda hands an event over at least once.
#[tokio::test]
async fn an_event_that_comes_twice_is_delivered_once() {
    let stack = STANDARD.stack().await;
    let accept = || [Answer::status(204)];
    let mut nord = stack.partner("OrderPlaced", "kasse-nord", accept()).await;
    let mut sued = stack.partner("OrderPlaced", "kasse-sued", accept()).await;
    let event = read("events", "order-paid-eventbridge.json").replace("OrderPaid", "OrderPlaced");

    assert_eq!(stack.invoke(Function::Dispatch, &event).await, "null");
    let partners = [&mut nord, &mut sued];
    let webhook_ids =
        partners.map(|partner| partner.webhook_id("7bf73129-1428-4cd3-a780-95db273d1602"));
    for (partner, webhook_id) in [&mut nord, &mut sued].into_iter().zip(&webhook_ids) {
        let post = partner.next_post(webhook_id).await;
        let event: Value = serde_json::from_str(&event).unwrap();
        let expected = json!({
            "type": "OrderPlaced",
            "timestamp": "2026-10-29T12:00:00Z",
            "data": event["detail"],
        });
        assert_eq!(body(&post), expected);
        stack.record_when(webhook_id, "delivered").await;
    }

    assert_eq!(stack.invoke(Function::Dispatch, &event).await, "null");

    for webhook_id in &webhook_ids {
        let dropped = json!({
            "message": "delivery.dropped",
            "webhookId": webhook_id,
            "reason": "it has been delivered already",
        });
        stack.line(Function::Deliver, &dropped).await;
        let record = stack.record(webhook_id).await.expect("a record");
        assert_eq!(told(&record), ["1 delivered 204"]);
    }
    assert_eq!([nord.requests(), sued.requests()], [1, 1]);
}

/// More subscribers than one `SendMessageBatch` takes.
#[tokio::test]
async fn every_subscriber_gets_an_event_once() {
    let stack = STANDARD.stack().await;
    let mut partners = Vec::new();
    for number in 0..23 {
        let id = format!("kasse-{number}");
        partners.push(
            stack
                .partner("OrderSplit", &id, [Answer::status(204)])
                .await,
        );
    }
    // Rows that nothing is sent to harm no other.
    stack
        .put_row("OrderSplit", "no subscriber", "http://127.0.0.1:9/")
        .await;

    let event_id = stack.publish("OrderSplit", &detail()).await;

    let fields = json!({"message": "event.dispatched", "eventId": event_id});
    let line = stack.line(Function::Dispatch, &fields).await.json;
    assert_eq!(line["jobs"], 23, "{line}");
    assert_eq!(line["skipped"], 1, "{line}");
    let mut delivered = BTreeSet::new();
    for partner in &mut partners {
        let webhook_id = partner.webhook_id(&event_id);
        let post = partner.next_post(&webhook_id).await;
        assert_carries(&post, "OrderSplit", &detail());
        let line = partner.attempt(&webhook_id, 1).await.json;
        assert_eq!(line["outcome"], "delivered", "{line}");
        delivered.insert(webhook_id);
    }
    assert_eq!(delivered.len(), 23);
    assert!(partners.iter().all(|partner| partner.requests() == 1));
}

#[tokio::test]
async fn an_event_that_cannot_become_jobs_ends_in_the_dispatch_failure_queue() {
    let stack = STANDARD.stack().await;
    let event = json!({
        "version": "0",
        "id": "0f5c2a9e-6f7c-4f0e-9d55-2b7a3c1e8d04",
        "detail-type": "OrderReviewed",
        "source": "shop.orders",
        "time": "2026-10-29T12:00:00Z",
        "detail": "not an object",
    });

    stack.publisher().dispatch(&event.to_string()).await;

    let message = stack
        .until("a message in the dispatch failure queue", async || {
            stack.messages(Queue::DispatchFailures).await.pop()
        })
        .await;
    let failure: Value = serde_json::from_str(message.body().unwrap()).unwrap();
    assert_eq!(failure["requestPayload"], event);
    assert_eq!(failure["requestContext"]["condition"], "RetriesExhausted");
    let error = "the event's `detail` is not a JSON object";
    assert_eq!(failure["responsePayload"]["errorType"], "DispatchError");
    assert_eq!(failure["responsePayload"]["errorMessage"], error);
    assert_eq!(stack.count(Queue::DispatchFailures).await, 1);
    // Lambda has tried it three times in all.
    let fields = json!({"message": "event.failed", "level": "ERROR", "error": error});
    let lines = stack.lines_until(Function::Dispatch, &fields, 3).await;
    assert_eq!(lines.len(), 3);
}
