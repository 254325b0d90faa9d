//! Dead deliveries get a new life: the message goes back to the jobs queue, as the SQS console
//! sends it.

use e2e::receiver::Answer;
use e2e::stack::{Function, Stack};
use serde_json::json;

use crate::{assert_attempts_of_one_delivery, assert_carries, detail};

#[tokio::test]
async fn a_redriven_delivery_keeps_its_identity_and_starts_a_fresh_round() {
    let stack = Stack::shared().await;
    let mut answers = vec![Answer::status(500); 8];
    answers.extend([Answer::status(503), Answer::status(204)]);
    let mut partner = stack.partner("OrderReturned", "kasse-nord", answers).await;
    let event_id = stack.publish("OrderReturned", &detail()).await;
    let webhook_id = partner.webhook_id(&event_id);
    let mut posts = Vec::new();
    for _ in 0..8 {
        posts.push(partner.next_post(&webhook_id).await);
    }
    stack.dead_letter(&webhook_id).await;

    stack.redrive(&webhook_id).await;

    for _ in 0..2 {
        posts.push(partner.next_post(&webhook_id).await);
    }
    // The new round may begin in the second in which the old one has ended.
    for round in [&posts[..8], &posts[8..]] {
        assert_attempts_of_one_delivery(round);
    }
    assert_eq!(posts[7].text(), posts[8].text());
    assert_carries(&posts[0], "OrderReturned", &detail());
    // The attempts are counted from one again.
    let delivered = json!({"webhookId": webhook_id, "outcome": "delivered"});
    let line = stack.line(Function::Deliver, &delivered).await;
    assert_eq!(line.json["attempt"], 2, "{line:?}");
    assert_eq!(stack.dead_letters(&webhook_id).await, []);
    assert_eq!(partner.requests(), 10);
}
