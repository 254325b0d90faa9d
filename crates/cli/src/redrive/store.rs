//! What the two tables say about some deliveries at this moment, and the mark of a redrive.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use webhooks_core::identity::SubscriberId;
use webhooks_core::subscription::{RowError, Subscription};
use webhooks_shell::records::{self, Item, text, time_value};
use webhooks_shell::{aws as shell, time};

use super::filter::Identity;
use super::verdict::{Known, Mark};
use crate::aws;
use crate::error::Error;
use crate::tables::Tables;

/// `BatchGetItem` takes a hundred keys, and each delivery may ask for two.
pub(crate) const DELIVERIES_PER_READ: usize = 50;

/// How often keys that DynamoDB left unprocessed are asked for in a row without any answer.
const ROUNDS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// What is read of a record, its payload aside.
const OF_A_RECORD: [&str; 14] = [
    "webhookId",
    "reference",
    "state",
    "attempts",
    "refusals",
    "messageId",
    "startedAt",
    "createdAt",
    "updatedAt",
    "nextAt",
    "redrivenAt",
    "redrivenMessageId",
    "bodyOmitted",
    "expiresAt",
];

/// A row of the subscriptions table, by event type and subscriber.
type SubscriptionKey = (String, SubscriberId);

/// What the tables say about some deliveries.
#[derive(Debug, Default)]
pub(crate) struct Said {
    records: HashMap<String, Item>,
    subscriptions: HashMap<SubscriptionKey, Result<Subscription, RowError>>,
}

impl Said {
    pub(crate) fn record(&self, webhook_id: &str) -> Option<&Item> {
        self.records.get(webhook_id)
    }

    pub(crate) fn subscription(
        &self,
        delivery: &Identity,
    ) -> Option<&Result<Subscription, RowError>> {
        self.subscriptions.get(&subscription_key(delivery))
    }
}

/// What is to be read of deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    /// The subscriptions alone.
    Subscriptions,
    /// The records too, without their payloads.
    Records,
    /// All of it.
    Payloads,
}

impl Tables {
    /// Reads what is known of at most [`DELIVERIES_PER_READ`] deliveries, as it is now.
    pub(crate) async fn read(&self, of: &[&Identity], parts: Parts) -> Result<Said, Error> {
        let mut said = Said::default();
        let mut waiting = self.keys(of, parts);
        let mut rounds = 0;
        while !waiting.is_empty() {
            if rounds > 0 {
                time::pause(FIRST_PAUSE, rounds).await;
            }
            let answer = self
                .client
                .batch_get_item()
                .set_request_items(Some(waiting))
                .send()
                .await
                .map_err(|error| aws::failure("dynamodb:BatchGetItem", &error))?;
            let mut responses = answer.responses.unwrap_or_default();
            let records = responses.remove(&self.deliveries).unwrap_or_default();
            let rows = responses.remove(&self.subscriptions).unwrap_or_default();
            rounds = if records.is_empty() && rows.is_empty() {
                rounds + 1
            } else {
                1
            };
            for item in records {
                if let Some(id) = text(&item, "webhookId")
                    && !records::has_expired(&item, SystemTime::now())
                {
                    said.records.insert(id.to_owned(), item);
                }
            }
            for row in rows {
                let key = text(&row, "eventType")
                    .zip(text(&row, "subscriberId").and_then(|id| SubscriberId::parse(id).ok()));
                if let Some((event_type, subscriber_id)) = key {
                    said.subscriptions.insert(
                        (event_type.to_owned(), subscriber_id),
                        Subscription::from_row(shell::row(&row)),
                    );
                }
            }
            waiting = answer.unprocessed_keys.unwrap_or_default();
            if rounds == ROUNDS && !waiting.is_empty() {
                return Err(Error::Failed(
                    "DynamoDB is too busy to answer, try again later".into(),
                ));
            }
        }
        Ok(said)
    }

    fn keys(&self, of: &[&Identity], parts: Parts) -> HashMap<String, KeysAndAttributes> {
        // A key that stands there twice is refused.
        let mut records = HashSet::new();
        let mut subscriptions = HashSet::new();
        let mut asked = HashMap::new();
        let s = |value: &str| AttributeValue::S(value.to_owned());
        let rows = of
            .iter()
            .filter(|delivery| subscriptions.insert(subscription_key(delivery)))
            .map(|delivery| {
                Item::from([
                    ("eventType".to_owned(), s(&delivery.event_type)),
                    (
                        "subscriberId".to_owned(),
                        s(delivery.subscriber_id.as_str()),
                    ),
                ])
            });
        let names = &["eventType", "subscriberId", "url", "enabled"];
        ask(&mut asked, &self.subscriptions, rows.collect(), names);
        let names = match parts {
            Parts::Subscriptions => return asked,
            Parts::Records => OF_A_RECORD.to_vec(),
            Parts::Payloads => [&OF_A_RECORD[..], &["body"]].concat(),
        };
        let keys = of
            .iter()
            .filter(|delivery| records.insert(&delivery.webhook_id))
            .map(|delivery| Item::from([("webhookId".to_owned(), s(&delivery.webhook_id))]));
        ask(&mut asked, &self.deliveries, keys.collect(), &names);
        asked
    }

    /// Writes into the record of a dead delivery that it was redriven, if it is as it was read.
    pub(crate) async fn mark(
        &self,
        webhook_id: &str,
        read: &Item,
        mark: &Mark,
    ) -> Result<(), Error> {
        let Some(updated_at) = read.get("updatedAt") else {
            return Ok(());
        };
        let message_id = mark.message_id.clone().unwrap_or_default();
        let result = self
            .client
            .update_item()
            .table_name(&self.deliveries)
            .key("webhookId", AttributeValue::S(webhook_id.to_owned()))
            .update_expression("SET redrivenAt = :at, redrivenMessageId = :message")
            // The new run may have begun already, and even ended.
            .condition_expression("#state = :dead AND updatedAt = :read")
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":dead", AttributeValue::S("dead".into()))
            .expression_attribute_values(":read", updated_at.clone())
            .expression_attribute_values(":at", time_value(mark.at))
            .expression_attribute_values(":message", AttributeValue::S(message_id))
            .send()
            .await;
        match result {
            Ok(_) => Ok(()),
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(UpdateItemError::is_conditional_check_failed_exception) =>
            {
                Ok(())
            }
            Err(error) => Err(aws::failure("dynamodb:UpdateItem", &error)),
        }
    }
}

/// A record as a decision needs it; `None` if it is none that can be read.
pub(crate) fn known(item: &Item) -> Option<Known> {
    Some(Known {
        record: records::record(item).ok()?,
        mark: records::time(item, "redrivenAt").map(|at| Mark {
            at,
            message_id: text(item, "redrivenMessageId").map(str::to_owned),
        }),
    })
}

fn subscription_key(delivery: &Identity) -> SubscriptionKey {
    (delivery.event_type.clone(), delivery.subscriber_id.clone())
}

/// Adds keys of a table to a call, consistently read.
fn ask(
    asked: &mut HashMap<String, KeysAndAttributes>,
    table: &str,
    keys: Vec<Item>,
    names: &[&'static str],
) {
    let placeholders: Vec<String> = names.iter().copied().map(placeholder).collect();
    let mut request = KeysAndAttributes::builder()
        .set_keys(Some(keys))
        .consistent_read(true)
        .projection_expression(placeholders.join(", "));
    for (placeholder, name) in placeholders.iter().zip(names) {
        request = request.expression_attribute_names(placeholder, *name);
    }
    // The builder only refuses a request without keys.
    if let Ok(request) = request.build() {
        asked.insert(table.to_owned(), request);
    }
}

/// Some names are reserved words, so none stands in an expression as it is.
fn placeholder(name: &'static str) -> String {
    format!("#{name}")
}
