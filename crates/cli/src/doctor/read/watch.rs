//! Alarms, their topic, queues, and the table of records.

use std::collections::{BTreeMap, HashMap};

use aws_config::SdkConfig;
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;

use crate::aws;
use crate::doctor::findings::{Alarm, Expiry, Queue, Read, Redrive, Topic, Unread};
use crate::error::Error;
use crate::stack::Stack;

/// The names of a stack's alarms, by their names in the template.
pub(super) async fn alarm_names(aws: &SdkConfig, stack: &str) -> Read<BTreeMap<String, String>> {
    let client = aws_sdk_cloudformation::Client::new(aws);
    let mut names = BTreeMap::new();
    let mut next = None;
    loop {
        let page = client
            .list_stack_resources()
            .stack_name(stack)
            .set_next_token(next)
            .send()
            .await
            .map_err(|error| aws::failure("cloudformation:ListStackResources", &error))?;
        for resource in page.stack_resource_summaries() {
            if resource.resource_type() == Some("AWS::CloudWatch::Alarm") {
                let name = resource.physical_resource_id().unwrap_or_default();
                let in_template = resource.logical_resource_id().unwrap_or_default();
                names.insert(in_template.to_owned(), name.to_owned());
            }
        }
        next = page.next_token;
        if next.is_none() {
            return Ok(names);
        }
    }
}

/// These alarms, as far as CloudWatch has them. It takes a hundred names.
pub(super) async fn alarms(aws: &SdkConfig, names: Vec<String>) -> Read<Vec<Alarm>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let answer = aws_sdk_cloudwatch::Client::new(aws)
        .describe_alarms()
        .set_alarm_names(Some(names))
        .send()
        .await
        .map_err(|error| aws::failure("cloudwatch:DescribeAlarms", &error))?;
    let alarms = answer.metric_alarms().iter();
    Ok(alarms
        .map(|alarm| Alarm {
            name: alarm.alarm_name().unwrap_or_default().to_owned(),
            actions_enabled: alarm.actions_enabled() == Some(true),
            actions: alarm.alarm_actions().to_vec(),
            rings: alarm
                .state_value()
                .is_some_and(|state| state.as_str() == "ALARM"),
        })
        .collect())
}

/// Who hears the alarms of a stack.
pub(super) async fn topic(aws: &SdkConfig, stack: &Stack) -> Read<Topic> {
    let arn = stack.output("AlarmTopicArn")?;
    let answer = aws_sdk_sns::Client::new(aws)
        .get_topic_attributes()
        .topic_arn(arn)
        .send()
        .await
        .map_err(|error| aws::failure("sns:GetTopicAttributes", &error))?;
    let attributes = answer.attributes.unwrap_or_default();
    let count = |name: &str| number(attributes.get(name).map(String::as_str), name);
    Ok(Topic {
        confirmed: count("SubscriptionsConfirmed")?,
        pending: count("SubscriptionsPending")?,
    })
}

/// A queue, by its URL.
pub(super) async fn queue(aws: &SdkConfig, url: Result<&str, Error>) -> Read<Queue> {
    let url = url?;
    let answer = aws_sdk_sqs::Client::new(aws)
        .get_queue_attributes()
        .queue_url(url)
        .attribute_names(QueueAttributeName::All)
        .send()
        .await
        .map_err(|error| aws::failure("sqs:GetQueueAttributes", &error))?;
    let attributes = answer.attributes.unwrap_or_default();
    let attributes = attributes.into_iter();
    let attributes = attributes.map(|(name, value)| (name.as_str().to_owned(), value));
    of_attributes(url, &attributes.collect())
}

fn of_attributes(url: &str, attributes: &HashMap<String, String>) -> Read<Queue> {
    let text = |name: &str| attributes.get(name).map(String::as_str);
    let count = |name: &str| number(text(name), name);
    Ok(Queue {
        url: url.to_owned(),
        arn: text("QueueArn").unwrap_or_default().to_owned(),
        visibility_seconds: count("VisibilityTimeout")?,
        retention_seconds: count("MessageRetentionPeriod")?,
        redrive: text("RedrivePolicy").and_then(redrive),
        messages: count("ApproximateNumberOfMessages")?
            + count("ApproximateNumberOfMessagesNotVisible")?,
    })
}

/// The number of receives comes as a number or as a text.
fn redrive(json: &str) -> Option<Redrive> {
    let policy: Value = serde_json::from_str(json).ok()?;
    let most = policy.get("maxReceiveCount")?;
    Some(Redrive {
        target_arn: policy.get("deadLetterTargetArn")?.as_str()?.to_owned(),
        most_receives: most.as_u64().or_else(|| most.as_str()?.parse().ok())?,
    })
}

fn number(text: Option<&str>, name: &str) -> Read<u64> {
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| Unread::Failed(format!("the answer has no {name}")))
}

/// The time to live of a table.
pub(super) async fn expiry(aws: &SdkConfig, table: &str) -> Read<Expiry> {
    let answer = aws_sdk_dynamodb::Client::new(aws)
        .describe_time_to_live()
        .table_name(table)
        .send()
        .await
        .map_err(|error| aws::failure("dynamodb:DescribeTimeToLive", &error))?;
    let description = answer.time_to_live_description;
    let description = description.as_ref();
    let status = description.and_then(|found| found.time_to_live_status());
    let attribute = description.and_then(|found| found.attribute_name());
    Ok(Expiry {
        enabled: status.is_some_and(|status| matches!(status.as_str(), "ENABLED" | "ENABLING")),
        attribute: attribute.unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redrive_policy_has_its_number_in_either_form() {
        for count in ["38", "\"38\""] {
            let json = format!(r#"{{"deadLetterTargetArn":"arn:dlq","maxReceiveCount":{count}}}"#);
            assert_eq!(
                redrive(&json),
                Some(Redrive {
                    target_arn: "arn:dlq".into(),
                    most_receives: 38
                })
            );
        }
        assert_eq!(redrive("{}"), None);
    }

    #[test]
    fn a_queue_that_does_not_tell_is_not_judged() {
        assert_eq!(
            of_attributes("u", &HashMap::new()),
            Err(Unread::Failed("the answer has no VisibilityTimeout".into()))
        );
    }
}
