//! AWS itself fails for a while: a permission is taken away and given back. Nothing is lost, and
//! what was our own fault spends no attempt. So the functions may also do what the template grants,
//! and no more. The stack is the test's own, since it changes a role.

use e2e::receiver::Answer;
use e2e::stack::{Function, Queue, Stack};
use serde_json::{Value, json};

use crate::{detail, told};

/// The most attempts of a delivery here, so few that the story is short.
const ATTEMPTS: usize = 4;

#[tokio::test]
async fn while_aws_fails_nothing_is_lost_and_no_attempt_is_spent() {
    let attempts = ATTEMPTS.to_string();
    let stack = Stack::start_with(&[("RetryAttempts", &attempts)]).await;
    let role = Role::of_deliver(&stack).await;
    without_records_the_receive_count_stands_in(&stack, &role).await;
    without_secrets_or_subscriptions_no_attempt_is_spent(&stack, &role).await;
}

async fn without_records_the_receive_count_stands_in(stack: &Stack, role: &Role<'_>) {
    let answers = [
        Answer::status(500),
        Answer::retry_after(503, "30"),
        Answer::status(204),
    ];
    let mut retried = stack.partner("OrderPlaced", "lager-sued", answers).await;
    let mut accepting = stack
        .partner("OrderPlaced", "kasse-sued", [Answer::status(204)])
        .await;
    let mut broken = stack
        .partner("OrderPacked", "archiv-west", [Answer::status(500)])
        .await;

    role.lose(&["ReadAndWriteDeliveries"]).await;
    let event_id = stack.publish("OrderPlaced", &detail()).await;
    let broken_id = broken.webhook_id(&stack.publish("OrderPacked", &detail()).await);

    accepting.next_post(&accepting.webhook_id(&event_id)).await;
    let retried_id = retried.webhook_id(&event_id);
    for attempt in [1, 2] {
        retried.next_post(&retried_id).await;
        retried.attempt(&retried_id, attempt).await;
    }
    for message in ["tables.unreadable", "records.unwritten"] {
        let line = stack
            .line(Function::Deliver, &json!({"message": message}))
            .await;
        assert_eq!(line.json["level"], "ERROR", "{line:?}");
    }
    // Nobody knows whether all attempts have been made, so no more is made.
    for _ in 0..ATTEMPTS {
        broken.next_post(&broken_id).await;
    }
    let fields = json!({
        "message": "delivery.unsent",
        "webhookId": broken_id,
        "failure": "delivery record unreliable",
    });
    stack.lines_until(Function::Deliver, &fields, 2).await;
    assert_eq!(broken.requests(), ATTEMPTS);

    role.regain().await;

    // The record goes on where the receive count has stood in.
    retried.next_post(&retried_id).await;
    let record = stack.record_when(&retried_id, "delivered").await;
    assert_eq!(record["attempts"], 3, "{record}");
    assert_eq!(told(&record), ["3 delivered 204"]);
    // A run that nobody remembers begins anew, and ends as it should, or with the last receive.
    stack.record_when(&broken_id, "dead").await;
    stack.dead_letter(&broken_id).await;
    assert_eq!(stack.count(Queue::Jobs).await, 0);
    assert_eq!([retried.requests(), accepting.requests()], [3, 1]);
}

async fn without_secrets_or_subscriptions_no_attempt_is_spent(stack: &Stack, role: &Role<'_>) {
    let answers = [Answer::status(500), Answer::status(204)];
    let mut partner = stack.partner("OrderPaid", "kasse-nord", answers).await;
    let mut other = stack
        .partner("OrderRefunded", "kasse-nord", [Answer::status(204)])
        .await;

    role.lose(&["ReadSigningSecrets"]).await;
    let event_id = stack.publish("OrderPaid", &detail()).await;

    let webhook_id = partner.webhook_id(&event_id);
    let fields = json!({"message": "delivery.unsent", "webhookId": webhook_id, "attempt": 1});
    // More often than there are attempts.
    let lines = stack
        .lines_until(Function::Deliver, &fields, ATTEMPTS + 1)
        .await;
    let line = &lines[0].json;
    assert_eq!(line["level"], "ERROR");
    assert_eq!(line["outcome"], "fault");
    assert_eq!(line["failure"], "signing secret unusable");
    let error = line["error"].as_str().unwrap();
    for word in ["/webhooks/kasse-nord/signing-secret", "AccessDenied"] {
        assert!(error.contains(word), "{error}");
    }
    assert_eq!(stack.count(Queue::Jobs).await, 1);
    assert_eq!(partner.requests(), 0);

    role.regain().await;

    partner.next_post(&webhook_id).await;
    partner.next_post(&webhook_id).await;
    let record = stack.record_when(&webhook_id, "delivered").await;
    assert_eq!(record["attempts"], 2, "{record}");
    let mut told = told(&record);
    let faults = told.iter().filter(|entry| *entry == "1 fault").count();
    assert!(faults > ATTEMPTS, "{told:?}");
    assert_eq!(told.split_off(faults), ["1 retry 500", "2 delivered 204"]);

    role.lose(&["ReadAndDisableSubscriptions", "ReadAndWriteDeliveries"])
        .await;
    let event_id = stack.publish("OrderRefunded", &detail()).await;

    let webhook_id = other.webhook_id(&event_id);
    let fields = json!({
        "message": "delivery.unsent",
        "webhookId": webhook_id,
        "failure": "subscription unreadable",
    });
    stack.lines_until(Function::Deliver, &fields, 3).await;
    assert_eq!(other.requests(), 0);

    role.regain().await;

    other.next_post(&webhook_id).await;
    let record = stack.record_when(&webhook_id, "delivered").await;
    assert_eq!(crate::told(&record), ["1 delivered 204"]);
    stack.until_count(Queue::Jobs, 0).await;
    assert_eq!(stack.dead_letters(&webhook_id).await, []);
    assert_eq!([partner.requests(), other.requests()], [2, 1]);
}

/// The role of `deliver`, whose one policy has a statement for each thing it may do.
struct Role<'a> {
    stack: &'a Stack,
    policy: Value,
    granted: Value,
}

impl<'a> Role<'a> {
    async fn of_deliver(stack: &'a Stack) -> Self {
        let function = json!({"FunctionName": stack.output("DeliverFunctionName")});
        let function = stack
            .call("lambda", "GetFunctionConfiguration", &function)
            .await;
        let (_, role) = function["Role"].as_str().unwrap().rsplit_once('/').unwrap();
        let policy = json!({"RoleName": role, "PolicyName": "deliver"});
        let granted = stack.call("iam", "GetRolePolicy", &policy).await["PolicyDocument"].take();
        Self {
            stack,
            policy,
            granted,
        }
    }

    /// Takes the permissions of these statements away.
    async fn lose(&self, sids: &[&str]) {
        let mut reduced = self.granted.clone();
        let statements = reduced["Statement"].as_array_mut().unwrap();
        let before = statements.len();
        statements.retain(|statement| !sids.contains(&statement["Sid"].as_str().unwrap()));
        assert_eq!(statements.len(), before - sids.len(), "{}", self.granted);
        self.put(&reduced).await;
    }

    /// Gives everything back that the template grants.
    async fn regain(&self) {
        self.put(&self.granted).await;
    }

    async fn put(&self, document: &Value) {
        let mut policy = self.policy.clone();
        policy["PolicyDocument"] = document.to_string().into();
        self.stack.call("iam", "PutRolePolicy", &policy).await;
    }
}
