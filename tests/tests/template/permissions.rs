//! Every grant of the template, one by one.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cloudformation::Template;

/// The account's part of an ARN.
pub const ACCOUNT: &str = "${AWS::Region}:${AWS::AccountId}";

/// An action and the one resource it is granted on, with the condition if there is one.
pub type Grant = (String, String);

pub fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        other => vec![other.clone()],
    }
}

/// What a role may do.
pub fn grants(template: &Template, role: &str) -> BTreeSet<Grant> {
    let mut grants = BTreeSet::new();
    let policies = template.properties(role)["Policies"].take();
    for policy in list(&policies) {
        for statement in list(&policy["PolicyDocument"]["Statement"]) {
            assert_eq!(statement["Effect"], "Allow", "{statement}");
            assert!(statement["Sid"].is_string(), "{statement}");
            for action in list(&statement["Action"]) {
                let mut resource = statement["Resource"].to_string();
                if let Some(condition) = statement.get("Condition") {
                    resource += &format!(" if {condition}");
                }
                let grant = (action.as_str().unwrap().to_owned(), resource);
                assert!(grants.insert(grant), "granted twice: {statement}");
            }
        }
    }
    grants
}

pub fn expected<const N: usize>(grants: [(&str, Value); N]) -> BTreeSet<Grant> {
    let text = |(action, resource): (&str, Value)| (action.to_owned(), resource.to_string());
    grants.into_iter().map(text).collect()
}

pub fn arn_of(resource: &str) -> Value {
    json!({"Fn::GetAtt": [resource, "Arn"]})
}

#[test]
fn dispatch_may_read_subscriptions_and_send() {
    let grants = grants(&Template::read(), "DispatchRole");
    assert_eq!(
        grants,
        expected([
            ("dynamodb:Query", arn_of("SubscriptionsTable")),
            ("sqs:SendMessage", arn_of("JobsQueue")),
            ("sqs:SendMessage", arn_of("DispatchFailureQueue")),
            ("logs:CreateLogStream", arn_of("DispatchLogGroup")),
            ("logs:PutLogEvents", arn_of("DispatchLogGroup")),
        ])
    );
}

/// The grants of deliver besides the key that its secrets are encrypted with.
fn deliver_grants(prefix: &str) -> BTreeSet<Grant> {
    let secrets =
        format!("arn:${{AWS::Partition}}:ssm:{ACCOUNT}:parameter/{prefix}/*/signing-secret");
    expected([
        ("sqs:ReceiveMessage", arn_of("JobsQueue")),
        ("sqs:DeleteMessage", arn_of("JobsQueue")),
        ("sqs:GetQueueAttributes", arn_of("JobsQueue")),
        ("sqs:ChangeMessageVisibility", arn_of("JobsQueue")),
        ("dynamodb:BatchGetItem", arn_of("SubscriptionsTable")),
        ("dynamodb:UpdateItem", arn_of("SubscriptionsTable")),
        // The table and not its index, which people read with their own credentials.
        ("dynamodb:BatchGetItem", arn_of("DeliveriesTable")),
        ("dynamodb:BatchWriteItem", arn_of("DeliveriesTable")),
        ("dynamodb:UpdateItem", arn_of("DeliveriesTable")),
        ("events:PutEvents", arn_of("EventBus")),
        ("ssm:GetParameters", json!({"Fn::Sub": secrets})),
        ("logs:CreateLogStream", arn_of("DeliverLogGroup")),
        ("logs:PutLogEvents", arn_of("DeliverLogGroup")),
    ])
}

#[test]
fn deliver_may_work_on_jobs_and_read_secrets_under_the_prefix() {
    let template = Template::read().with("SecretPrefix", "partners/eu");
    let via_ssm = json!({"kms:ViaService": {"Fn::Sub": "ssm.${AWS::Region}.amazonaws.com"}});
    let with = |resource: Value, condition: Value| {
        let mut grants = deliver_grants("partners/eu");
        let decrypt = (
            String::from("kms:Decrypt"),
            format!("{resource} if {condition}"),
        );
        grants.insert(decrypt);
        grants
    };

    let any_key = json!({"Fn::Sub": format!("arn:${{AWS::Partition}}:kms:{ACCOUNT}:key/*")});
    let condition = json!({
        "StringEquals": via_ssm,
        "ForAnyValue:StringEquals": {"kms:ResourceAliases": "alias/aws/ssm"},
    });
    assert_eq!(grants(&template, "DeliverRole"), with(any_key, condition));

    let key = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
    let template = template.with("SecretsKmsKeyArn", key);
    let condition = json!({"StringEquals": via_ssm});
    assert_eq!(
        grants(&template, "DeliverRole"),
        with(key.into(), condition)
    );
}

#[test]
fn deliver_may_publish_on_the_one_bus_that_the_rule_listens_on() {
    let template = Template::read().with("EventBusName", "partners");
    let bus = "arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:event-bus/partners";
    let grants = grants(&template, "DeliverRole");
    let publish = grants
        .iter()
        .filter(|(action, _)| action.starts_with("events:"));
    assert_eq!(
        publish.cloned().collect::<BTreeSet<_>>(),
        expected([("events:PutEvents", json!({"Fn::Sub": bus}))])
    );
}

/// One statement for each resource, so that a reader sees at a glance what a function does to it.
#[test]
fn no_statement_names_two_resources() {
    let template = Template::read();
    for role in ["DeliverRole", "DispatchRole"] {
        for policy in list(&template.properties(role)["Policies"]) {
            for statement in list(&policy["PolicyDocument"]["Statement"]) {
                assert!(!statement["Resource"].is_array(), "{statement}");
            }
        }
    }
}

#[test]
fn both_functions_have_their_own_role_and_nothing_else() {
    let template = Template::read();
    assert_eq!(
        template.names_of("AWS::IAM::Role"),
        ["DeliverRole", "DispatchRole"]
    );
    for (function, role) in [
        ("DeliverFunction", "DeliverRole"),
        ("DispatchFunction", "DispatchRole"),
    ] {
        assert_eq!(template.properties(function)["Role"], arn_of(role));
        let trust = template.properties(role)["AssumeRolePolicyDocument"]["Statement"].take();
        assert_eq!(
            trust,
            json!([{
                "Effect": "Allow",
                "Principal": {"Service": "lambda.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }])
        );
    }
}

/// Neither managed policies nor SAM's templates, which grant more than their names say, and no
/// `*` for a resource, an action or a principal.
#[test]
fn nothing_is_granted_by_the_way() {
    let template = Template::read();
    for function in template.names_of("AWS::Serverless::Function") {
        assert_eq!(
            template.properties(function).get("Policies"),
            None,
            "{function}"
        );
    }
    let mut fields = Vec::new();
    for section in ["Globals", "Resources"] {
        all_fields(template.section(section), &mut fields);
    }
    for (name, value) in fields {
        match name {
            "Resource" | "Principal" | "Service" | "AWS" | "Federated" => {
                assert!(
                    list(value).iter().all(|item| item != "*"),
                    "{name}: {value}"
                );
            }
            "Action" => assert!(!value.to_string().contains('*'), "{value}"),
            "ManagedPolicyArns" | "Connectors" | "NotAction" | "NotResource" | "NotPrincipal" => {
                panic!("{name}: {value}")
            }
            _ => {}
        }
    }
}

pub fn all_fields<'a>(value: &'a Value, found: &mut Vec<(&'a str, &'a Value)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                found.push((name, value));
                all_fields(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| all_fields(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
