//! What operators are told: notices on the bus, which never become webhooks themselves.

use e2e::receiver::Answer;
use e2e::stack::{Function, Stack};
use serde_json::{Value, json};

use crate::detail;
use crate::policies::BOUNDED;

#[tokio::test]
async fn operators_hear_of_the_dead_and_of_the_disabled_and_nobody_else_does() {
    let stack = BOUNDED.stack().await;
    let notices =
        Listener::start(&stack, "sqs-webhooks", &["notified-dead", "notified-gone"]).await;
    let dead = stack
        .partner("OrderArchived", "notified-dead", [Answer::status(400)])
        .await;
    let gone = stack
        .partner("OrderArchived", "notified-gone", [Answer::status(410)])
        .await;
    let subscribed = stack
        .partner(
            "webhooks.delivery.dead",
            "too-curious",
            [Answer::status(204)],
        )
        .await;

    let event_id = stack.publish("OrderArchived", &detail()).await;

    let (is_dead, is_disabled) = (
        notices.next("webhooks.delivery.dead").await,
        notices.next("webhooks.subscription.disabled").await,
    );
    assert_eq!(is_dead["source"], "sqs-webhooks");
    assert_eq!(
        is_dead["detail"],
        json!({
            "webhookId": dead.webhook_id(&event_id),
            "eventId": event_id,
            "eventType": "OrderArchived",
            "subscriberId": "notified-dead",
            "attempts": 1,
            "reason": "status",
            "status": 400,
        })
    );
    assert_eq!(is_disabled["source"], "sqs-webhooks");
    assert_eq!(
        is_disabled["detail"],
        json!({
            "webhookId": gone.webhook_id(&event_id),
            "eventType": "OrderArchived",
            "subscriberId": "notified-gone",
            "reason": "the endpoint answered 410 Gone",
        })
    );

    // The rule has not let them through, and not even by hand do they become jobs.
    let answer = stack.invoke(Function::Dispatch, &is_dead.to_string()).await;
    assert_eq!(answer, "null");
    let ignored = json!({"message": "event.ignored"});
    let line = stack.line(Function::Dispatch, &ignored).await.json;
    assert_eq!(line["eventId"], is_dead["id"], "{line}");
    assert_eq!(stack.lines(Function::Dispatch, &ignored).len(), 1);
    assert_eq!(subscribed.requests(), 0);
}

/// A queue of the test's own to which a rule of its own sends what it wants to see of the bus.
struct Listener<'a> {
    stack: &'a Stack,
    queue_url: String,
}

impl<'a> Listener<'a> {
    async fn start(stack: &'a Stack, source: &str, subscribers: &[&str]) -> Self {
        let bus = stack.output("EventBusName");
        let pattern = json!({"source": [source], "detail": {"subscriberId": subscribers}});
        let rule = json!({
            "Name": "listener",
            "EventBusName": bus,
            "EventPattern": pattern.to_string(),
        });
        let rule = stack.call("events", "PutRule", &rule).await;
        let queue = json!({"QueueName": "listener"});
        let queue = stack.call("sqs", "CreateQueue", &queue).await;
        let queue_url = queue["QueueUrl"].as_str().unwrap().to_owned();
        let arn = json!({"QueueUrl": queue_url, "AttributeNames": ["QueueArn"]});
        let arn =
            stack.call("sqs", "GetQueueAttributes", &arn).await["Attributes"]["QueueArn"].take();
        let policy = json!({
            "Version": "2012-10-17",
            "Statement": [{
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": arn,
                "Condition": {"ArnEquals": {"aws:SourceArn": rule["RuleArn"]}},
            }],
        });
        let policy = json!({
            "QueueUrl": queue_url,
            "Attributes": {"Policy": policy.to_string()},
        });
        stack.call("sqs", "SetQueueAttributes", &policy).await;
        let target = json!({
            "Rule": "listener",
            "EventBusName": bus,
            "Targets": [{"Id": "queue", "Arn": arn}],
        });
        let answer = stack.call("events", "PutTargets", &target).await;
        assert_eq!(answer["FailedEntryCount"], 0, "{answer}");
        Self { stack, queue_url }
    }

    /// Waits for the one event of a type.
    async fn next(&self, detail_type: &str) -> Value {
        let look = json!({
            "QueueUrl": self.queue_url,
            "MaxNumberOfMessages": 10,
            "VisibilityTimeout": 0,
        });
        let mut events = self
            .stack
            .until(detail_type, async || {
                let messages = self.stack.call("sqs", "ReceiveMessage", &look).await;
                let messages = messages["Messages"].as_array().cloned().unwrap_or_default();
                let event = |message: &Value| {
                    serde_json::from_str::<Value>(message["Body"].as_str().unwrap()).unwrap()
                };
                let mut events: Vec<Value> = messages.iter().map(event).collect();
                events.retain(|event| event["detail-type"] == detail_type);
                (!events.is_empty()).then_some(events)
            })
            .await;
        assert_eq!(events.len(), 1, "{events:?}");
        events.swap_remove(0)
    }
}
