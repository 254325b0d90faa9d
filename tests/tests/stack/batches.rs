//! Batches in which something goes wrong. Each test has a stack of its own, and switches the
//! trigger of `deliver` off until all messages are there, so that they come in one batch.

use std::time::Duration;

use e2e::receiver::Answer;
use e2e::stack::{Function, Queue, Stack};
use serde_json::json;

use crate::{assert_attempts_of_one_delivery, detail};

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
    // The function's time is shorter here than a partner's, so this is no fault of the partner.
    let webhook_id = hanging.webhook_id(&event_id);
    let line = hanging.attempt(&webhook_id, 1).await;
    assert_eq!(line.request_id, first.request_id, "one batch");
    assert_eq!(line.json["outcome"], "fault");
    let failure = "cut short by the end of the invocation";
    assert_eq!(line.json["failure"], failure);
    let again = hanging.next_post(&webhook_id).await;
    assert_attempts_of_one_delivery(&[hung, again]);

    // What is no job comes again at the queue's own pace. After the first time the test makes
    // that faster, or eight times would take minutes; then it is dead like any other message.
    let faster = json!({
        "QueueUrl": stack.output("JobsQueueUrl"),
        "Attributes": {"VisibilityTimeout": "1"},
    });
    stack.call("sqs", "SetQueueAttributes", &faster).await;
    stack.until_count(Queue::DeadLetters, 1).await;
    let lines = stack.lines_until(Function::Deliver, &poison, 8).await;
    assert_eq!(lines.len(), 8);
    let letters = stack.messages(Queue::DeadLetters).await;
    assert_eq!(letters[0].message_id(), Some(message_id.as_str()));
    assert_eq!(letters[0].body(), Some("this is not JSON"));
    assert_eq!(stack.count(Queue::Jobs).await, 0);
    assert!(partners.iter().all(|partner| partner.requests() == 1));
    assert_eq!(hanging.requests(), 2);
}

#[tokio::test]
async fn a_crash_in_the_middle_of_a_batch_loses_nothing() {
    let stack = Stack::start().await;
    let answers = [Answer::hang(), Answer::status(204)];
    let mut holding = stack.partner("OrderPaid", "archiv-west", answers).await;
    let mut accepting = stack
        .partner("OrderPaid", "kasse-nord", [Answer::status(204)])
        .await;
    stack.switch_trigger(false).await;
    let event_id = stack.publish("OrderPaid", &detail()).await;
    stack.until_count(Queue::Jobs, 2).await;
    stack.switch_trigger(true).await;
    let webhook_ids = [&holding, &accepting].map(|partner| partner.webhook_id(&event_id));
    let held = holding.next_post(&webhook_ids[0]).await;
    let accepted = accepting.next_post(&webhook_ids[1]).await;

    assert!(stack.crash() >= 1);

    // Nobody has told SQS that one of the two is done, so both come again.
    assert_eq!(stack.count(Queue::Jobs).await, 2);
    let held_again = holding.next_post(&webhook_ids[0]).await;
    let accepted_again = accepting.next_post(&webhook_ids[1]).await;
    for (before, after) in [(held, held_again), (accepted, accepted_again)] {
        let wait = after.at - before.at;
        assert!(wait >= ALMOST_THE_VISIBILITY_TIMEOUT, "{wait:?}");
        assert_attempts_of_one_delivery(&[before, after]);
    }
    stack.until_count(Queue::Jobs, 0).await;
    assert_eq!(stack.count(Queue::DeadLetters).await, 0);
    assert_eq!([holding.requests(), accepting.requests()], [2, 2]);
}
