//! A subscription by its key, and switching it off.

use std::collections::HashMap;
use std::time::SystemTime;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use webhooks_core::identity::SubscriberId;
use webhooks_shell::aws;
use webhooks_shell::records::{Item, text, time_value};

/// Key of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SubscriptionKey {
    pub event_type: String,
    pub subscriber_id: SubscriberId,
}

/// What became of a wish to switch a subscription off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disabled {
    /// It is off.
    Done,
    /// The row has another url by now, or is off or gone: the answer was not about what is there.
    Superseded,
}

/// The subscriptions table.
pub(crate) struct Subscriptions {
    client: Client,
    table_name: String,
}

impl Subscriptions {
    pub(crate) fn new(aws: &SdkConfig, table_name: String) -> Self {
        Self {
            client: Client::new(aws),
            table_name,
        }
    }

    /// Switches a subscription off because `url` answered 410, unless it has another url by now.
    pub(crate) async fn disable(
        &self,
        key: &SubscriptionKey,
        url: &str,
        now: SystemTime,
    ) -> Result<Disabled, String> {
        let result = self
            .client
            .update_item()
            .table_name(&self.table_name)
            .set_key(Some(key_attributes(key)))
            .update_expression("SET enabled = :off, disabledReason = :reason, disabledAt = :at")
            .condition_expression("#url = :url AND enabled = :on")
            .expression_attribute_names("#url", "url")
            .expression_attribute_values(":off", AttributeValue::Bool(false))
            .expression_attribute_values(":on", AttributeValue::Bool(true))
            .expression_attribute_values(":url", AttributeValue::S(url.to_owned()))
            .expression_attribute_values(
                ":reason",
                AttributeValue::S("the endpoint answered 410 Gone".into()),
            )
            .expression_attribute_values(":at", time_value(now))
            .send()
            .await;
        match result {
            Ok(_) => Ok(Disabled::Done),
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(UpdateItemError::is_conditional_check_failed_exception) =>
            {
                Ok(Disabled::Superseded)
            }
            Err(error) => Err(aws::describe(&error)),
        }
    }
}

/// The key as DynamoDB wants it.
pub(crate) fn key_attributes(key: &SubscriptionKey) -> HashMap<String, AttributeValue> {
    HashMap::from([
        (
            "eventType".to_owned(),
            AttributeValue::S(key.event_type.clone()),
        ),
        (
            "subscriberId".to_owned(),
            AttributeValue::S(key.subscriber_id.to_string()),
        ),
    ])
}

/// The key of a row, if it has one.
pub(crate) fn key_of(item: &Item) -> Option<SubscriptionKey> {
    Some(SubscriptionKey {
        event_type: text(item, "eventType")?.to_owned(),
        subscriber_id: SubscriberId::parse(text(item, "subscriberId")?).ok()?,
    })
}
