//! What operators do with the `webhooks` command: they find out what happened to a delivery, and
//! send dead ones again. The stack is the test's own, since the dead-letter queue is for all. It keeps
//! records of failures only.

use e2e::command::Ran;
use e2e::receiver::Answer;
use e2e::stack::{Partner, Queue, Stack};
use serde_json::{Value, json};

use crate::{assert_attempts_of_one_delivery, body, detail, told};

/// Deliveries that are dead when a redrive is interrupted.
const MANY: usize = 5;

#[tokio::test]
async fn the_command_answers_a_partner_and_redrives_each_dead_delivery_once() {
    let stack = Stack::start_with(&[
        ("RetryPolicy", "bounded"),
        ("RetryTimeScale", "0.001"),
        ("DeliveryLog", "failures"),
    ])
    .await;

    // Dead, asked for, redriven; a second run has nothing to do.
    let mut partner = dying(&stack, "OrderPaid", "kasse-nord", 1).await;
    let webhook_id = die(&stack, &mut partner).await;
    finds_the_delivery_for_an_order(&stack, &webhook_id).await;
    let dry = redrive(&stack, "kasse-nord", &["--dry-run"]).await;
    assert_eq!(dry["planned"], json!({"deadLetters": 1, "records": 0}));
    assert_eq!(partner.requests(), 1);
    let first = redrive(&stack, "kasse-nord", &[]).await;
    assert_eq!(first["redriven"], json!({"deadLetters": 1, "records": 0}));
    is_delivered_by_one_more_post(&stack, &mut partner, &webhook_id).await;
    let second = redrive(&stack, "kasse-nord", &[]).await;
    assert_eq!(second["redriven"], json!({"deadLetters": 0, "records": 0}));

    // The second run does not wait for what comes of the first.
    let mut partner = dying(&stack, "OrderPlaced", "kasse-sued", 1).await;
    let webhook_id = die(&stack, &mut partner).await;
    let first = redrive(&stack, "kasse-sued", &[]).await;
    let second = redrive(&stack, "kasse-sued", &[]).await;
    assert_eq!(
        [count(&first["redriven"]), count(&second["redriven"])],
        [1, 0]
    );
    is_delivered_by_one_more_post(&stack, &mut partner, &webhook_id).await;

    // Interrupted, and then to the end.
    let mut partner = dying(&stack, "OrderPacked", "lager-sued", MANY).await;
    let mut webhook_ids = Vec::new();
    for _ in 0..MANY {
        webhook_ids.push(die(&stack, &mut partner).await);
    }
    let before = interrupted_redrive(&stack, &mut partner).await;
    let rest = redrive(&stack, "lager-sued", &[]).await;
    assert_eq!(before + count(&rest["redriven"]), MANY, "{rest}");
    for webhook_id in &webhook_ids {
        let record = stack.record_when(webhook_id, "delivered").await;
        assert_eq!(told(&record), ["1 dead 400", "1 delivered 204"]);
    }

    // The dead-letter queue is empty, but the record has the payload.
    let mut purged = dying(&stack, "OrderArchived", "archiv-west", 1).await;
    let webhook_id = die(&stack, &mut purged).await;
    let queue = json!({"QueueUrl": stack.output("DeadLetterQueueUrl")});
    stack.call("sqs", "PurgeQueue", &queue).await;
    assert_eq!(stack.count(Queue::DeadLetters).await, 0);
    let from_record = redrive(&stack, "archiv-west", &[]).await;
    let redriven = json!({"deadLetters": 0, "records": 1});
    assert_eq!(from_record["redriven"], redriven);
    is_delivered_by_one_more_post(&stack, &mut purged, &webhook_id).await;

    // On this stack nothing is left of what was delivered at once.
    let mut well = dying(&stack, "OrderRefunded", "kiosk-neu", 0).await;
    let event_id = stack.publish("OrderRefunded", &detail()).await;
    let webhook_id = well.webhook_id(&event_id);
    well.next_post(&webhook_id).await;
    well.attempt(&webhook_id, 1).await;
    assert_eq!(stack.record(&webhook_id).await, None);
    stack.until_count(Queue::Jobs, 0).await;
    for queue in [Queue::DeadLetters, Queue::DispatchFailures] {
        assert_eq!(stack.count(queue).await, 0, "{queue:?}");
    }
    assert_eq!(partner.requests(), 2 * MANY);
}

/// A partner whose server refuses its first webhooks, and then is well. Each has an event type of
/// its own, so that an event is for one of them alone.
async fn dying<'a>(
    stack: &'a Stack,
    event_type: &str,
    subscriber_id: &str,
    refusals: usize,
) -> Partner<'a> {
    let mut answers = vec![Answer::status(400); refusals];
    answers.push(Answer::status(204));
    stack.partner(event_type, subscriber_id, answers).await
}

/// A new event for a partner, refused and in the dead-letter queue.
async fn die(stack: &Stack, partner: &mut Partner<'_>) -> String {
    let event_id = stack.publish(&partner.event_type, &detail()).await;
    let webhook_id = partner.webhook_id(&event_id);
    let refused = partner.next_post(&webhook_id).await;
    assert_eq!(body(&refused)["data"], detail());
    stack.dead_letter(&webhook_id).await;
    webhook_id
}

async fn is_delivered_by_one_more_post(stack: &Stack, partner: &mut Partner<'_>, webhook_id: &str) {
    let first = partner.receiver.requests()[0].clone();
    let again = partner.next_post(webhook_id).await;
    assert_attempts_of_one_delivery(&[first, again]);
    let record = stack.record_when(webhook_id, "delivered").await;
    assert_eq!(told(&record), ["1 dead 400", "1 delivered 204"]);
    assert_eq!(stack.dead_letters(webhook_id).await, []);
    stack.until_count(Queue::Jobs, 0).await;
    assert_eq!(partner.requests(), 2);
}

/// "I never got the webhook for order K-1001."
async fn finds_the_delivery_for_an_order(stack: &Stack, webhook_id: &str) {
    let by_order = ["log", "--subscriber", "kasse-nord", "--reference", "K-1001"];
    let list = succeeded(stack.webhooks(&by_order).await);
    assert!(list.stdout.contains(webhook_id), "{list:?}");
    let story = succeeded(stack.webhooks(&["log", webhook_id]).await);
    for word in ["dead", "400", "OrderPaid", "K-1001"] {
        assert!(story.stdout.contains(word), "{story:?}");
    }
    let story = succeeded(stack.webhooks(&["log", webhook_id, "--json"]).await).json();
    let record = stack.record(webhook_id).await.expect("a record");
    for name in ["webhookId", "state", "attempts", "deadReason", "reference"] {
        assert_eq!(story[name], record[name], "{name}: {story}");
    }
    assert_eq!(story["history"][0]["outcome"], "dead", "{story}");
    let other = ["log", "--subscriber", "kasse-nord", "--reference", "K-1002"];
    let nothing = stack.webhooks(&other).await;
    assert!(!nothing.stdout.contains(webhook_id), "{nothing:?}");
}

/// Redrives what is dead of one subscriber, and gives what the command says of it.
async fn redrive(stack: &Stack, subscriber_id: &str, options: &[&str]) -> Value {
    let arguments = ["redrive", "--json", "--yes", "--subscriber", subscriber_id];
    let arguments = [&arguments, options].concat();
    succeeded(stack.webhooks(&arguments).await).json()
}

/// Interrupts a redrive as soon as a first delivery has come, and gives how many it has sent.
async fn interrupted_redrive(stack: &Stack, partner: &mut Partner<'_>) -> usize {
    let slowly = ["redrive", "--json", "--yes", "--rate", "1"];
    let redrive = stack.start_webhooks(&[&slowly[..], &["--subscriber", "lager-sued"]].concat());
    partner.next_request().await;
    let id = redrive.id().expect("it runs");
    let kill = tokio::process::Command::new("sh")
        .args(["-c", &format!("kill -INT {id}")])
        .status()
        .await;
    assert!(kill.unwrap().success());
    let ran = Ran::new(redrive.wait_with_output().await.unwrap());
    assert_eq!(ran.code, Some(130), "{ran:?}");
    let summary = ran.json();
    assert_eq!(summary["interrupted"], true, "{summary}");
    let sent = count(&summary["redriven"]);
    assert!((1..MANY).contains(&sent), "{summary}");
    sent
}

fn count(sources: &Value) -> usize {
    let number = |name: &str| usize::try_from(sources[name].as_u64().unwrap()).unwrap();
    number("deadLetters") + number("records")
}

fn succeeded(ran: Ran) -> Ran {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}
