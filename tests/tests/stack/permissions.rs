//! The functions may do what their roles grant, and no more. The stack is the test's own, since
//! it changes a role.

use e2e::receiver::Answer;
use e2e::stack::{Function, Queue, Stack};
use serde_json::{Value, json};

use crate::detail;

#[tokio::test]
async fn without_its_permission_a_secret_cannot_be_read_and_the_job_is_kept() {
    let stack = Stack::start().await;
    let mut partner = stack
        .partner("OrderPaid", "kasse-nord", [Answer::status(204)])
        .await;
    let function = json!({"FunctionName": stack.output("DeliverFunctionName")});
    let function = stack
        .call("lambda", "GetFunctionConfiguration", &function)
        .await;
    let (_, role) = function["Role"].as_str().unwrap().rsplit_once('/').unwrap();
    let policy = json!({"RoleName": role, "PolicyName": "deliver"});
    let granted = stack.call("iam", "GetRolePolicy", &policy).await["PolicyDocument"].take();
    let mut reduced = granted.clone();
    let statements = reduced["Statement"].as_array_mut().unwrap();
    let before = statements.len();
    statements.retain(|statement| statement["Sid"] != "ReadSigningSecrets");
    assert_eq!(statements.len(), before - 1, "{granted}");
    let put = async |document: &Value| {
        let mut policy = policy.clone();
        policy["PolicyDocument"] = document.to_string().into();
        stack.call("iam", "PutRolePolicy", &policy).await;
    };

    put(&reduced).await;
    let event_id = stack.publish("OrderPaid", &detail()).await;

    let webhook_id = partner.webhook_id(&event_id);
    let fields = json!({"message": "delivery.unsent", "webhookId": webhook_id, "attempt": 1});
    let line = stack.line(Function::Deliver, &fields).await.json;
    assert_eq!(line["level"], "ERROR");
    assert_eq!(line["outcome"], "fault");
    assert_eq!(line["failure"], "signing secret unusable");
    let error = line["error"].as_str().unwrap();
    for word in ["/webhooks/kasse-nord/signing-secret", "AccessDenied"] {
        assert!(error.contains(word), "{error}");
    }
    assert_eq!(stack.count(Queue::Jobs).await, 1);
    assert_eq!(partner.requests(), 0);

    put(&granted).await;

    partner.next_post(&webhook_id).await;
    stack.until_count(Queue::Jobs, 0).await;
    assert_eq!(stack.count(Queue::DeadLetters).await, 0);
    assert_eq!(partner.requests(), 1);
}
