//! Dead deliveries get a new life: the message goes back to the jobs queue, as the SQS console
//! sends it.

use e2e::receiver::Answer;
use e2e::stack::{Function, Queue};
use serde_json::json;

use crate::policies::BOUNDED;
use crate::{assert_attempts_of_one_delivery, assert_carries, detail, millis, told};

#[tokio::test]
async fn a_redriven_delivery_keeps_its_identity_and_starts_a_fresh_run_each_time() {
    let stack = BOUNDED.stack().await;
    let answers = [400, 400, 503, 204].map(Answer::status);
    let mut partner = stack.partner("OrderReturned", "redriven", answers).await;
    let event_id = stack.publish("OrderReturned", &detail()).await;
    let webhook_id = partner.webhook_id(&event_id);
    let mut posts = vec![partner.next_post(&webhook_id).await];
    let first = stack.dead_letter(&webhook_id).await;

    stack.redrive(&webhook_id).await;

    posts.push(partner.next_post(&webhook_id).await);
    let second = stack.dead_letter(&webhook_id).await;
    assert_ne!(first.message_id(), second.message_id());
    assert_eq!(first.body(), second.body());
    let dead = stack.record_when(&webhook_id, "dead").await;
    assert_eq!(dead["attempts"], 1, "{dead}");
    assert_eq!(told(&dead), ["1 dead 400", "1 dead 400"]);
    assert_eq!(dead["messageId"].as_str(), second.message_id());

    stack.redrive(&webhook_id).await;

    for _ in 0..2 {
        posts.push(partner.next_post(&webhook_id).await);
    }
    assert_carries(&posts[0], "OrderReturned", &detail());
    let record = stack.record_when(&webhook_id, "delivered").await;
    let history = ["1 dead 400", "1 dead 400", "1 retry 503", "2 delivered 204"];
    assert_eq!(told(&record), history);
    assert_eq!(record["attempts"], 2, "{record}");
    assert_eq!(record["createdAt"], dead["createdAt"]);
    assert!(
        millis(&record["startedAt"]) > millis(&dead["startedAt"]),
        "{record}"
    );
    for unset in ["body", "deadReason", "nextAt"] {
        assert_eq!(record.get(unset), None, "{record}");
    }
    assert_eq!(stack.dead_letters(&webhook_id).await, []);

    // A copy that somebody has kept is not sent again.
    let copy = stack.send(Queue::Jobs, second.body().unwrap()).await;
    let dropped = json!({"message": "delivery.dropped", "messageId": copy});
    let line = stack.line(Function::Deliver, &dropped).await;
    assert_eq!(line.json["reason"], "it has been delivered already");
    assert_eq!(partner.requests(), posts.len());
    for run in [&posts[..1], &posts[1..2], &posts[2..]] {
        assert_attempts_of_one_delivery(run);
    }
    assert!(posts.iter().all(|post| post.text() == posts[0].text()));
}
