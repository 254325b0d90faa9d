//! What `webhooks doctor` looks at: a stack as it is after a deployment. A test changes it by
//! putting another answer in its place, made of the usual one.

use serde_json::{Value, json};

use super::Reply;
use crate::stage::{
    ALARM_TOPIC_ARN, DEAD_LETTER_QUEUE_URL, DELIVERIES_TABLE, DISPATCH_FAILURE_QUEUE_URL,
    QUEUE_URL, STACK_NAME, TABLE_NAME,
};

/// The alarms of the template.
const ALARMS: [&str; 11] = [
    "BlockedEndpointsAlarm",
    "DeadDeliveriesAlarm",
    "DeadLettersAgeAlarm",
    "DeadLettersAlarm",
    "DeadLettersInflowAlarm",
    "DeliverErrorsAlarm",
    "DispatchFailuresAlarm",
    "FirstAttemptLatencyAlarm",
    "InFlightAlarm",
    "OwnFaultsAlarm",
    "RecordErrorsAlarm",
];

/// The answer to one of these operations.
pub(super) fn usual(operation: &str, input: &Value) -> Option<Reply> {
    Some(match operation {
        "ListStackResources" => stack_resources(),
        "DescribeAlarms" => alarms(input),
        "GetTopicAttributes" => topic(1, 0),
        "GetFunctionConfiguration" => function(input),
        "ListEventSourceMappings" => mappings(),
        "DescribeRule" => rule(input),
        "ListTargetsByRule" => targets(),
        "DescribeTimeToLive" => expiry(),
        _ => return None,
    })
}

/// `ListStackResources`.
fn stack_resources() -> Reply {
    let members = ALARMS.map(|alarm| {
        format!(
            "<member><LogicalResourceId>{alarm}</LogicalResourceId>\
             <PhysicalResourceId>{STACK_NAME}-{alarm}-1</PhysicalResourceId>\
             <ResourceType>AWS::CloudWatch::Alarm</ResourceType>\
             <LastUpdatedTimestamp>2026-10-01T00:00:00.000Z</LastUpdatedTimestamp>\
             <ResourceStatus>CREATE_COMPLETE</ResourceStatus></member>"
        )
    });
    Reply::Text(format!(
        "<ListStackResourcesResponse xmlns=\"http://cloudformation.amazonaws.com/doc/2010-05-15/\">\
         <ListStackResourcesResult><StackResourceSummaries>{}</StackResourceSummaries>\
         </ListStackResourcesResult></ListStackResourcesResponse>",
        members.concat()
    ))
}

/// `DescribeAlarms`: each that is asked for is there.
///
/// # Panics
/// If none is asked for by its name.
#[must_use]
pub fn alarms(input: &Value) -> Reply {
    let names = input["AlarmNames"].as_array().expect("names");
    let alarms: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({
                "AlarmName": name,
                "ActionsEnabled": true,
                "AlarmActions": [ALARM_TOPIC_ARN],
                "StateValue": "OK",
            })
        })
        .collect();
    Reply::Output(json!({"MetricAlarms": alarms, "CompositeAlarms": []}))
}

/// `GetTopicAttributes`, of a topic that this many people hear.
#[must_use]
pub fn topic(confirmed: u32, pending: u32) -> Reply {
    let entry =
        |key: &str, value: u32| format!("<entry><key>{key}</key><value>{value}</value></entry>");
    Reply::Text(format!(
        "<GetTopicAttributesResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\">\
         <GetTopicAttributesResult><Attributes>{}{}</Attributes></GetTopicAttributesResult>\
         </GetTopicAttributesResponse>",
        entry("SubscriptionsConfirmed", confirmed),
        entry("SubscriptionsPending", pending)
    ))
}

/// `GetFunctionConfiguration`.
#[must_use]
pub fn function(input: &Value) -> Reply {
    let name = input["FunctionName"].as_str().unwrap_or_default();
    let mut variables = json!({
        "QUEUE_URL": QUEUE_URL,
        "TABLE_NAME": TABLE_NAME,
        "WEBHOOKS_VERSION": env!("CARGO_PKG_VERSION"),
    });
    let is_deliver = name.ends_with("-deliver");
    if is_deliver {
        variables["DELIVERIES_TABLE"] = DELIVERIES_TABLE.into();
        variables["SECRET_PREFIX"] = "webhooks".into();
        variables["VISIBILITY_TIMEOUT_SECONDS"] = "180".into();
        variables["MAX_RECEIVE_COUNT"] = "38".into();
        variables["RETRY_TIME_SCALE"] = "1".into();
        variables["ALLOW_PRIVATE_ENDPOINTS"] = "false".into();
    }
    Reply::Output(json!({
        "FunctionName": name,
        "State": "Active",
        "LastUpdateStatus": "Successful",
        "Timeout": if is_deliver { 30 } else { 60 },
        "Environment": {"Variables": variables},
    }))
}

/// `ListEventSourceMappings`.
fn mappings() -> Reply {
    Reply::Output(json!({"EventSourceMappings": [{
        "UUID": "11111111-2222-3333-4444-555555555555",
        "State": "Enabled",
        "EventSourceArn": arn(QUEUE_URL),
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
    }]}))
}

/// `DescribeRule`.
fn rule(input: &Value) -> Reply {
    Reply::Output(json!({
        "Name": input["Name"],
        "EventBusName": input["EventBusName"],
        "State": "ENABLED",
    }))
}

/// `ListTargetsByRule`.
fn targets() -> Reply {
    let arn = format!("arn:aws:lambda:eu-central-1:111122223333:function:{STACK_NAME}-dispatch");
    Reply::Output(json!({"Targets": [{"Id": "dispatch", "Arn": arn}]}))
}

/// `DescribeTimeToLive`.
fn expiry() -> Reply {
    Reply::Output(json!({"TimeToLiveDescription": {
        "TimeToLiveStatus": "ENABLED",
        "AttributeName": "expiresAt",
    }}))
}

/// `GetQueueAttributes` of a queue that is empty.
pub(super) fn queue(queue_url: &str) -> Reply {
    Reply::Output(json!({"Attributes": {
        "QueueArn": arn(queue_url),
        "ApproximateNumberOfMessages": "0",
        "ApproximateNumberOfMessagesNotVisible": "0",
    }}))
}

/// What the deployment has set of a queue, beside what `GetQueueAttributes` says of its messages.
pub(super) fn with_settings(mut reply: Reply, queue_url: &str) -> Reply {
    if let Reply::Output(output) = &mut reply {
        let attributes = &mut output["Attributes"];
        let is_jobs = queue_url == QUEUE_URL;
        attributes["VisibilityTimeout"] = if is_jobs { "180" } else { "30" }.into();
        let days = if is_jobs { 7 } else { 14 };
        attributes["MessageRetentionPeriod"] = (days * 86_400).to_string().into();
        if is_jobs {
            let target = arn(DEAD_LETTER_QUEUE_URL);
            let policy = json!({"deadLetterTargetArn": target, "maxReceiveCount": 38});
            attributes["RedrivePolicy"] = policy.to_string().into();
        }
    }
    reply
}

/// Whether a stack has such a queue.
pub(super) fn is_queue(queue_url: &str) -> bool {
    [QUEUE_URL, DEAD_LETTER_QUEUE_URL, DISPATCH_FAILURE_QUEUE_URL].contains(&queue_url)
}

fn arn(queue_url: &str) -> String {
    let name = queue_url.rsplit('/').next().unwrap_or_default();
    format!("arn:aws:sqs:eu-central-1:111122223333:{name}")
}
