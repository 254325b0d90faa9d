//! What a batch reads from DynamoDB: the subscriptions and the delivery records, in one call.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::batch_get_item::BatchGetItemOutput;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use webhooks_core::subscription::{RowError, Subscription};
use webhooks_core::turn::Memory;
use webhooks_shell::records::{self, Item};
use webhooks_shell::{aws, time};

use crate::subscriptions::{SubscriptionKey, key_attributes, key_of};

/// `BatchGetItem` takes a hundred keys.
const KEYS_PER_CALL: usize = 100;

/// How often keys that DynamoDB left unprocessed are asked for again.
const ROUNDS: u32 = 4;

/// The longest pause before the second round; it doubles with every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// What the subscriptions table says about a key.
#[derive(Clone, Debug)]
pub(crate) enum Lookup {
    /// There is a row, and it is a subscription.
    Subscription(Subscription),
    /// There is a row, and it is not a subscription.
    Broken(RowError),
    /// There is no row.
    Missing,
}

/// What the tables say. A key that could not be read is in neither map.
#[derive(Debug, Default)]
pub(crate) struct Found {
    subscriptions: HashMap<SubscriptionKey, Lookup>,
    records: HashMap<String, Memory>,
}

impl Found {
    /// What is known of a subscription; `None` if it could not be read.
    pub(crate) fn subscription(&self, key: &SubscriptionKey) -> Option<Lookup> {
        self.subscriptions.get(key).cloned()
    }

    /// What is known of a delivery.
    pub(crate) fn memory(&self, webhook_id: &str) -> Memory {
        let known = self.records.get(webhook_id).cloned();
        known.unwrap_or(Memory::Unreliable)
    }
}

/// The two tables.
pub(crate) struct Tables {
    client: Client,
    subscriptions: String,
    deliveries: String,
}

/// A key of either table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Subscription(SubscriptionKey),
    Delivery(String),
}

/// A call that was answered by nothing that can be used. It is logged.
struct Unreadable;

impl Tables {
    pub(crate) fn new(aws: &SdkConfig, subscriptions: String, deliveries: String) -> Self {
        Self {
            client: Client::new(aws),
            subscriptions,
            deliveries,
        }
    }

    /// Reads subscriptions and the records of deliveries. A failure is logged; its keys are left
    /// out.
    pub(crate) async fn read(
        &self,
        subscriptions: &HashSet<SubscriptionKey>,
        deliveries: &HashSet<String>,
        found: &mut Found,
    ) {
        let mut keys: Vec<Key> = subscriptions
            .iter()
            .cloned()
            .map(Key::Subscription)
            .collect();
        keys.extend(deliveries.iter().cloned().map(Key::Delivery));
        for chunk in keys.chunks(KEYS_PER_CALL) {
            if self.read_chunk(chunk, found).await.is_ok() {
                continue;
            }
            // Records are a memory: without them, webhooks are still sent. But what failed for both
            // tables at once, as a call that was throttled, need not fail for each of them.
            let (subscriptions, deliveries): (Vec<Key>, Vec<Key>) = chunk
                .iter()
                .cloned()
                .partition(|key| matches!(key, Key::Subscription(_)));
            if !subscriptions.is_empty()
                && !deliveries.is_empty()
                && self.read_chunk(&subscriptions, found).await.is_ok()
            {
                // What it finds is in the map; why it finds nothing is logged.
                let _ = self.read_chunk(&deliveries, found).await;
            }
        }
    }

    async fn read_chunk(&self, keys: &[Key], found: &mut Found) -> Result<(), Unreadable> {
        let unreadable = |error: &str| {
            tracing::error!(error, "tables.unreadable");
            Unreadable
        };
        let mut waiting = keys.to_vec();
        for round in 0..ROUNDS {
            if round > 0 {
                time::pause(FIRST_PAUSE, round).await;
            }
            let answer = self
                .client
                .batch_get_item()
                .set_request_items(Some(self.request(&waiting)))
                .send()
                .await
                .map_err(|error| unreadable(&aws::describe(&error)))?;
            waiting = self
                .take(&waiting, &answer, found)
                .ok_or_else(|| unreadable("the answer is not one to what was asked"))?;
            if waiting.is_empty() {
                return Ok(());
            }
        }
        tracing::error!(keys = waiting.len(), rounds = ROUNDS, "tables.unprocessed");
        Ok(())
    }

    /// Takes from an answer what it says about the keys that were asked for, and gives those that
    /// it left unprocessed. `None` if it holds anything else, or nothing about a table that was
    /// asked: such an answer proves nothing about the keys that it leaves out.
    fn take(
        &self,
        asked: &[Key],
        answer: &BatchGetItemOutput,
        found: &mut Found,
    ) -> Option<Vec<Key>> {
        let mut items: HashMap<Key, &Item> = HashMap::with_capacity(asked.len());
        let mut unprocessed: HashSet<Key> = HashSet::new();
        for (table, keys) in answer.unprocessed_keys().into_iter().flatten() {
            for key in keys.keys() {
                unprocessed.insert(self.key_of(table, key)?);
            }
            if keys.keys().is_empty() {
                return None;
            }
        }
        let tables = answer.responses()?;
        for (table, rows) in tables {
            for row in rows {
                let twice = items.insert(self.key_of(table, row)?, row);
                if twice.is_some() {
                    return None;
                }
            }
        }
        // Nothing is taken from an answer before all of it has been looked at.
        let is_answered = |key: &Key| {
            unprocessed.contains(key)
                || tables.contains_key(match key {
                    Key::Subscription(_) => &self.subscriptions,
                    Key::Delivery(_) => &self.deliveries,
                })
        };
        if !asked.iter().all(is_answered) {
            return None;
        }
        let known: HashSet<&Key> = asked.iter().collect();
        if !items
            .keys()
            .chain(&unprocessed)
            .all(|key| known.contains(key))
        {
            return None;
        }
        let now = SystemTime::now();
        let mut waiting = Vec::new();
        for key in asked {
            if unprocessed.contains(key) {
                waiting.push(key.clone());
                continue;
            }
            let item = items.get(key).copied();
            match key {
                Key::Subscription(key) => {
                    let lookup = match item.map(|item| Subscription::from_row(aws::row(item))) {
                        Some(Ok(subscription)) => Lookup::Subscription(subscription),
                        Some(Err(error)) => Lookup::Broken(error),
                        None => Lookup::Missing,
                    };
                    found.subscriptions.insert(key.clone(), lookup);
                }
                Key::Delivery(webhook_id) => {
                    let item = item.filter(|item| !records::has_expired(item, now));
                    let memory = match item.map(records::record) {
                        Some(Ok(record)) => Memory::Known(Some(record)),
                        Some(Err(attribute)) => {
                            tracing::error!(webhookId = webhook_id, attribute, "record.broken");
                            Memory::Broken
                        }
                        None => Memory::Known(None),
                    };
                    found.records.insert(webhook_id.clone(), memory);
                }
            }
        }
        Some(waiting)
    }

    fn key_of(&self, table: &str, item: &Item) -> Option<Key> {
        if table == self.subscriptions {
            key_of(item).map(Key::Subscription)
        } else if table == self.deliveries {
            let webhook_id = records::text(item, "webhookId")?;
            Some(Key::Delivery(webhook_id.to_owned()))
        } else {
            None
        }
    }

    fn request(&self, keys: &[Key]) -> HashMap<String, KeysAndAttributes> {
        let mut subscriptions = Vec::new();
        let mut deliveries = Vec::new();
        for key in keys {
            match key {
                Key::Subscription(key) => subscriptions.push(key_attributes(key)),
                Key::Delivery(webhook_id) => deliveries.push(Item::from([(
                    "webhookId".to_owned(),
                    AttributeValue::S(webhook_id.clone()),
                )])),
            }
        }
        // `url` and `state` are reserved words.
        let tables = [
            (
                &self.subscriptions,
                subscriptions,
                "eventType, subscriberId, #word, enabled, headers",
                "url",
            ),
            (
                &self.deliveries,
                deliveries,
                "webhookId, #word, messageId, attempts, refusals, startedAt, createdAt, \
                 updatedAt, nextAt, expiresAt",
                "state",
            ),
        ];
        tables
            .into_iter()
            .filter_map(|(table, keys, projection, word)| {
                let request = KeysAndAttributes::builder()
                    .set_keys((!keys.is_empty()).then_some(keys))
                    // What was written just before the receive must be seen.
                    .consistent_read(true)
                    .projection_expression(projection)
                    .expression_attribute_names("#word", word)
                    .build();
                // The builder only refuses a request without keys.
                Some((table.clone(), request.ok()?))
            })
            .collect()
    }
}
