//! Batches in which something goes wrong. Each test has a stack of its own, and switches the
//! trigger of `deliver` off until all messages are there, so that they come in one batch.

use std::time::Duration;

use e2e::receiver::Answer;
use e2e::stack::{Function, Line, Queue, Stack};
use serde_json::{Value, json};

use crate::{assert_attempts_of_one_delivery, detail, told};

/// How often SQS hands a message out under the policy `standard`.
const RECEIVES: usize = 38;

/// The visibility timeout of the jobs queue of a local stack, less what may pass between the
/// receive and the first POST.
const ALMOST_THE_VISIBILITY_TIMEOUT: Duration = Duration::from_secs(27);

#[tokio::test]
async fn a_message_that_is_no_job_and_a_partner_that_hangs_harm_no_other() {
    let stack = Stack::start().await;
    let accept = || [Answer::status(204)];
    let mut partners = [
        stack.partner("OrderPaid", "kasse-nord", accept()).await,
        stack.partner("OrderPaid", "kasse-sued", accept()).await,
        stack.partner("OrderPaid", "lager-sued", accept()).await,
    ];
    let answers = [Answer::hang(), Answer::status(204)];
    let mut hanging = stack.partner("OrderPaid", "archiv-west", answers).await;
    stack.switch_trigger(false).await;
    let message_id = stack.send(Queue::Jobs, "this is not JSON").await;
    let event_id = stack.publish("OrderPaid", &detail()).await;
    stack.until_count(Queue::Jobs, 5).await;

    stack.switch_trigger(true).await;

    let hung = hanging.next_post(&hanging.webhook_id(&event_id)).await;
    let poison = json!({"message": "message.poison", "level": "ERROR", "messageId": message_id});
    let first = stack.line(Function::Deliver, &poison).await;
    for partner in &mut partners {
        let webhook_id = partner.webhook_id(&event_id);
        partner.next_post(&webhook_id).await;
        let line = partner.attempt(&webhook_id, 1).await;
        assert_eq!(line.json["outcome"], "delivered", "{line:?}");
        assert_eq!(line.request_id, first.request_id, "one batch");
    }
    let webhook_id = hanging.webhook_id(&event_id);
    let line = hanging.attempt(&webhook_id, 1).await;
    assert_eq!(line.request_id, first.request_id, "one batch");
    assert_eq!(line.json["outcome"], "retry");
    assert_eq!(line.json["failure"], "timeout");
    let again = hanging.next_post(&webhook_id).await;
    assert_attempts_of_one_delivery(&[hung, again]);
    let record = stack.record_when(&webhook_id, "delivered").await;
    assert_eq!(record["attempts"], 2, "{record}");
    assert_eq!(told(&record), ["1 retry", "2 delivered 204"]);
    let error = record["history"][0]["error"].as_str().unwrap();
    assert!(error.starts_with("timeout"), "{error}");

    let metrics = json!({"message": "metrics"});
    // It comes after the lines of the attempts, and nothing was before this batch.
    let metrics = stack.lines_until(Function::Deliver, &metrics, 1).await;
    let of_the_batch = |line: &&Line| line.request_id == first.request_id;
    let [metrics] = metrics.iter().filter(of_the_batch).collect::<Vec<_>>()[..] else {
        panic!("one line for a batch: {metrics:?}");
    };
    let metrics = &metrics.json;
    assert_eq!(metrics["FunctionName"], stack.output("DeliverFunctionName"));
    for (name, count) in [
        ("Attempts", 4),
        ("Delivered", 3),
        ("Retried", 1),
        ("Poison", 1),
    ] {
        assert_eq!(metrics[name], count, "{name}: {metrics}");
    }
    for name in ["Dead", "Gone", "Blocked", "Faults", "RecordErrors"] {
        assert_eq!(metrics.get(name), None, "{metrics}");
    }
    assert_eq!(metrics["AttemptsPerDelivered"], json!([1, 1, 1]));
    for name in ["Latency", "FirstAttemptLatency"] {
        let values = metrics[name].as_array().unwrap();
        assert_eq!(values.len(), 4, "{name}: {metrics}");
        assert!(values.iter().all(Value::is_u64), "{name}: {metrics}");
    }

    // What is no job comes again at the queue's own pace. After the first time the test makes
    // that faster, or 38 times would take a quarter of an hour; then it is dead like any other
    // message.
    stack.set_visibility_timeout(Queue::Jobs, 1).await;
    for count in [13, 26, RECEIVES] {
        stack.lines_until(Function::Deliver, &poison, count).await;
    }
    stack.until_count(Queue::DeadLetters, 1).await;
    assert_eq!(stack.lines(Function::Deliver, &poison).len(), RECEIVES);
    let letters = stack.messages(Queue::DeadLetters).await;
    assert_eq!(letters[0].message_id(), Some(message_id.as_str()));
    assert_eq!(letters[0].body(), Some("this is not JSON"));
    assert_eq!(stack.count(Queue::Jobs).await, 0);
    assert!(partners.iter().all(|partner| partner.requests() == 1));
    assert_eq!(hanging.requests(), 2);
}

#[tokio::test]
async fn neither_a_crash_nor_a_look_into_the_queue_loses_anything_or_spends_an_attempt() {
    let stack = Stack::start().await;
    let answers = [Answer::hang(), Answer::status(500), Answer::status(204)];
    let mut holding = stack.partner("OrderPaid", "archiv-west", answers).await;
    let mut accepting = stack
        .partner("OrderPaid", "kasse-nord", [Answer::status(204)])
        .await;
    stack.switch_trigger(false).await;
    let event_id = stack.publish("OrderPaid", &detail()).await;
    stack.until_count(Queue::Jobs, 2).await;
    // Somebody receives both, more often than there are attempts, and puts them back.
    for _ in 0..9 {
        assert_eq!(stack.messages(Queue::Jobs).await.len(), 2);
    }
    stack.switch_trigger(true).await;
    let webhook_ids = [&holding, &accepting].map(|partner| partner.webhook_id(&event_id));
    let held = holding.next_post(&webhook_ids[0]).await;
    let accepted = accepting.next_post(&webhook_ids[1]).await;

    assert!(stack.crash() >= 1);

    // Nobody has told SQS that one of the two is done, so both come again.
    assert_eq!(stack.count(Queue::Jobs).await, 2);
    let held_again = holding.next_post(&webhook_ids[0]).await;
    let accepted_again = accepting.next_post(&webhook_ids[1]).await;
    for (before, after) in [(&held, &held_again), (&accepted, &accepted_again)] {
        let wait = after.at - before.at;
        assert!(wait >= ALMOST_THE_VISIBILITY_TIMEOUT, "{wait:?}");
    }
    let retried = holding.next_post(&webhook_ids[0]).await;
    assert_attempts_of_one_delivery(&[held, held_again, retried]);
    assert_attempts_of_one_delivery(&[accepted, accepted_again]);
    stack.until_count(Queue::Jobs, 0).await;
    assert_eq!(stack.count(Queue::DeadLetters).await, 0);
    let record = stack.record_when(&webhook_ids[0], "delivered").await;
    assert_eq!(record["attempts"], 2, "{record}");
    assert_eq!(told(&record), ["1 retry 500", "2 delivered 204"]);
    let record = stack.record_when(&webhook_ids[1], "delivered").await;
    assert_eq!(record["attempts"], 1, "{record}");
    assert_eq!(told(&record), ["1 delivered 204"]);
    assert_eq!([holding.requests(), accepting.requests()], [3, 2]);
}
