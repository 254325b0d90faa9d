//! CloudFormation, as far as it is asked what a stack is made of. It speaks the older protocol of
//! AWS: a form is sent, XML comes back.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Reply;
use crate::stage::{
    ALARM_TOPIC_ARN, DEAD_LETTER_QUEUE_URL, DELIVERIES_TABLE, DISPATCH_FAILURE_QUEUE_URL,
    QUEUE_URL, STACK_NAME, TABLE_NAME,
};

/// The outputs that the template has and that anybody asks for.
const OUTPUTS: [(&str, &str); 11] = [
    ("SubscriptionsTableName", TABLE_NAME),
    ("DeliveriesTableName", DELIVERIES_TABLE),
    ("JobsQueueUrl", QUEUE_URL),
    ("DeadLetterQueueUrl", DEAD_LETTER_QUEUE_URL),
    ("EventBusName", STACK_NAME),
    ("SecretPrefix", "webhooks"),
    ("DeliverFunctionName", "sqs-webhooks-deliver"),
    ("DispatchFunctionName", "sqs-webhooks-dispatch"),
    ("DispatchFailureQueueUrl", DISPATCH_FAILURE_QUEUE_URL),
    ("AlarmTopicArn", ALARM_TOPIC_ARN),
    (
        "EventRuleArn",
        "arn:aws:events:eu-central-1:111122223333:rule/sqs-webhooks/sqs-webhooks-EventRule-1",
    ),
];

/// The fields of a form: `Action`, and the input.
pub(super) fn form(body: &[u8]) -> Value {
    let text = str::from_utf8(body).unwrap_or_default();
    let fields = text.split('&').filter_map(|field| field.split_once('='));
    let fields: Map<String, Value> = fields
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    fields.into()
}

pub(super) fn describe_stacks(input: &Value, parameters: &BTreeMap<String, String>) -> Reply {
    let name = input["StackName"].as_str().unwrap_or_default();
    if name != STACK_NAME {
        let message = format!("Stack with id {name} does not exist");
        return Reply::refusal(400, "ValidationError", message);
    }
    let outputs = OUTPUTS.map(|(key, value)| member("Output", key, value));
    let parameters = parameters
        .iter()
        .map(|(key, value)| member("Parameter", key, value));
    Reply::Text(format!(
        "<DescribeStacksResponse xmlns=\"http://cloudformation.amazonaws.com/doc/2010-05-15/\">\
         <DescribeStacksResult><Stacks><member><StackName>{name}</StackName>\
         <CreationTime>2026-10-01T00:00:00.000Z</CreationTime>\
         <StackStatus>UPDATE_COMPLETE</StackStatus>\
         <Outputs>{}</Outputs><Parameters>{}</Parameters></member></Stacks>\
         </DescribeStacksResult></DescribeStacksResponse>",
        outputs.concat(),
        parameters.collect::<String>(),
    ))
}

fn member(kind: &str, key: &str, value: &str) -> String {
    format!("<member><{kind}Key>{key}</{kind}Key><{kind}Value>{value}</{kind}Value></member>")
}

/// An error in XML.
pub(super) fn error(code: &str, message: &str) -> String {
    format!(
        "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code>\
         <Message>{message}</Message></Error></ErrorResponse>"
    )
}
