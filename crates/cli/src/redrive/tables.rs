//! What the two tables say about dead deliveries, and the mark of a redrive.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use webhooks_core::identity::SubscriberId;
use webhooks_core::subscription::{RowError, Subscription};
use webhooks_shell::records::{self, BY_SUBSCRIBER, Item, text, time_value};
use webhooks_shell::{aws as shell, time};

use super::filter::Identity;
use super::stop::Stop;
use super::verdict::{Known, Mark};
use crate::aws;
use crate::error::Error;

/// `BatchGetItem` takes a hundred keys, and each delivery may ask for two.
pub(crate) const DELIVERIES_PER_READ: usize = 50;

/// How often keys that DynamoDB left unprocessed are asked for in a row without any answer.
const ROUNDS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// How far the time of an event may lie ahead of its publication: as the publisher's clock.
const CLOCKS_DIFFER_BY: Duration = Duration::from_hours(24);

/// What is read of a record.
const OF_A_RECORD: [&str; 16] = [
    "webhookId",
    "eventId",
    "eventType",
    "subscriberId",
    "occurredAt",
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
    "bodyOmitted",
];

/// What is read of it beside that from the table; the index does not have it.
const OF_THE_TABLE: [&str; 2] = ["redrivenMessageId", "body"];

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

/// The subscriptions and the deliveries.
#[derive(Clone)]
pub(crate) struct Tables {
    client: Client,
    subscriptions: String,
    deliveries: String,
}

impl Tables {
    pub(crate) fn new(aws: &SdkConfig, subscriptions: &str, deliveries: &str) -> Self {
        Self {
            client: Client::new(aws),
            subscriptions: subscriptions.to_owned(),
            deliveries: deliveries.to_owned(),
        }
    }

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
                if let Some(id) = text(&item, "webhookId") {
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
            Parts::Records => [&OF_A_RECORD[..], &["redrivenMessageId"]].concat(),
            Parts::Payloads => [&OF_A_RECORD[..], &OF_THE_TABLE].concat(),
        };
        let keys = of
            .iter()
            .filter(|delivery| records.insert(&delivery.webhook_id))
            .map(|delivery| Item::from([("webhookId".to_owned(), s(&delivery.webhook_id))]));
        ask(&mut asked, &self.deliveries, keys.collect(), &names);
        asked
    }

    /// A delivery's record, without its payload.
    pub(crate) async fn record(&self, webhook_id: &str) -> Result<Option<Item>, Error> {
        let names = OF_A_RECORD.map(placeholder);
        let mut get = self
            .client
            .get_item()
            .table_name(&self.deliveries)
            .key("webhookId", AttributeValue::S(webhook_id.to_owned()))
            .consistent_read(true)
            .projection_expression(names.join(", "));
        for (placeholder, name) in names.iter().zip(OF_A_RECORD) {
            get = get.expression_attribute_names(placeholder, name);
        }
        let answer = get
            .send()
            .await
            .map_err(|error| aws::failure("dynamodb:GetItem", &error))?;
        Ok(answer.item)
    }

    /// Who is subscribed to anything.
    pub(crate) async fn subscribers(&self, stop: &Stop) -> Result<BTreeSet<SubscriberId>, Error> {
        let mut all = BTreeSet::new();
        let mut start = None;
        while !stop.is_asked_for() {
            let page = self
                .client
                .scan()
                .table_name(&self.subscriptions)
                .projection_expression("subscriberId")
                .set_exclusive_start_key(start)
                .send()
                .await
                .map_err(|error| aws::failure("dynamodb:Scan", &error))?;
            let ids = page.items().iter().filter_map(|row| {
                let id = text(row, "subscriberId")?;
                SubscriberId::parse(id).ok()
            });
            all.extend(ids);
            start = page.last_evaluated_key.filter(|key| !key.is_empty());
            if start.is_none() {
                break;
            }
        }
        Ok(all)
    }

    /// The records of a subscriber's dead deliveries as the index has them, the earliest to die
    /// first. With `since`, those of events before it may be left out.
    pub(crate) async fn dead(
        &self,
        subscriber_id: &SubscriberId,
        since: Option<SystemTime>,
        stop: &Stop,
    ) -> Result<Vec<Item>, Error> {
        let names = OF_A_RECORD.map(placeholder);
        let mut all = Vec::new();
        let mut start = None;
        while !stop.is_asked_for() {
            let mut query = self
                .client
                .query()
                .table_name(&self.deliveries)
                .index_name(BY_SUBSCRIBER)
                .expression_attribute_values(":id", AttributeValue::S(subscriber_id.to_string()))
                .expression_attribute_values(":dead", AttributeValue::S("dead".into()))
                .filter_expression("#state = :dead")
                .projection_expression(names.join(", "))
                .set_exclusive_start_key(start);
            for (placeholder, name) in names.iter().zip(OF_A_RECORD) {
                query = query.expression_attribute_names(placeholder, name);
            }
            // Nothing dies before it happens.
            let since = since.and_then(|since| since.checked_sub(CLOCKS_DIFFER_BY));
            query = match since {
                Some(since) => query
                    .key_condition_expression("#subscriberId = :id AND #updatedAt >= :since")
                    .expression_attribute_values(":since", time_value(since)),
                None => query.key_condition_expression("#subscriberId = :id"),
            };
            let page = query
                .send()
                .await
                .map_err(|error| aws::failure("dynamodb:Query", &error))?;
            all.extend(page.items.unwrap_or_default());
            start = page.last_evaluated_key.filter(|key| !key.is_empty());
            if start.is_none() {
                break;
            }
        }
        Ok(all)
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
