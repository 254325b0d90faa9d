//! The subscriptions of a batch, and switching one off.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use webhooks_core::identity::SubscriberId;
use webhooks_core::subscription::{Row, RowError, Subscription};
use webhooks_shell::{aws, time};

/// `BatchGetItem` takes a hundred keys.
const KEYS_PER_CALL: usize = 100;

/// How often keys that DynamoDB left unprocessed are asked for again.
const ROUNDS: u32 = 4;

/// The longest pause before the second round; it doubles with every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Key of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SubscriptionKey {
    pub event_type: String,
    pub subscriber_id: SubscriberId,
}

/// What the table says about a key.
#[derive(Clone, Debug)]
pub(crate) enum Lookup {
    /// There is a row, and it is a subscription.
    Subscription(Subscription),
    /// There is a row, and it is not a subscription.
    Broken(RowError),
    /// There is no row.
    Missing,
}

/// What the table says. A key that could not be read is not in the map at all.
pub(crate) type Found = HashMap<SubscriptionKey, Lookup>;

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

    /// Reads rows. A failure is logged; its keys are left out.
    pub(crate) async fn read(&self, keys: &HashSet<SubscriptionKey>) -> Found {
        let mut found = Found::with_capacity(keys.len());
        let keys: Vec<&SubscriptionKey> = keys.iter().collect();
        for chunk in keys.chunks(KEYS_PER_CALL) {
            self.read_chunk(chunk, &mut found).await;
        }
        found
    }

    async fn read_chunk(&self, keys: &[&SubscriptionKey], found: &mut Found) {
        let mut waiting = keys.to_vec();
        for round in 0..ROUNDS {
            if round > 0 {
                time::pause(FIRST_PAUSE, round).await;
            }
            let Some(request) = request(&waiting) else {
                return;
            };
            let answer = self
                .client
                .batch_get_item()
                .request_items(&self.table_name, request)
                .send()
                .await;
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    let error = aws::describe(&error);
                    tracing::error!(error, "subscriptions.unreadable");
                    return;
                }
            };
            // Only an answer that speaks of the table can say that a row is not there.
            let Some(items) = answer
                .responses()
                .and_then(|tables| tables.get(&self.table_name))
            else {
                let error = "the answer has no such table";
                tracing::error!(error, "subscriptions.unreadable");
                return;
            };
            let rows: HashMap<SubscriptionKey, Row<'_>> = items
                .iter()
                .filter_map(|item| Some((key_of(item)?, aws::row(item))))
                .collect();
            let unprocessed: HashSet<SubscriptionKey> = answer
                .unprocessed_keys()
                .into_iter()
                .flat_map(HashMap::values)
                .flat_map(KeysAndAttributes::keys)
                .filter_map(key_of)
                .collect();
            // One row for a key that was asked for, or the key as unprocessed: an answer that holds
            // anything else proves nothing about the keys it leaves out.
            let unprocessed_keys: usize = answer
                .unprocessed_keys()
                .into_iter()
                .flat_map(HashMap::values)
                .map(|keys| keys.keys().len().max(1))
                .sum();
            if rows.len() != items.len()
                || unprocessed.len() != unprocessed_keys
                || !rows.keys().all(|key| waiting.contains(&key))
            {
                let error = "the answer is not one to what was asked";
                tracing::error!(error, "subscriptions.unreadable");
                return;
            }
            waiting.retain(|key| {
                let wait = unprocessed.contains(key);
                if !wait {
                    let lookup = match rows.get(key).map(|row| Subscription::from_row(*row)) {
                        Some(Ok(subscription)) => Lookup::Subscription(subscription),
                        Some(Err(error)) => Lookup::Broken(error),
                        None => Lookup::Missing,
                    };
                    found.insert((*key).clone(), lookup);
                }
                wait
            });
            if waiting.is_empty() {
                return;
            }
        }
        tracing::error!(
            keys = waiting.len(),
            rounds = ROUNDS,
            "subscriptions.unprocessed"
        );
    }

    /// Switches a subscription off because `url` answered 410, unless it has another url by now.
    pub(crate) async fn disable(
        &self,
        key: &SubscriptionKey,
        url: &str,
        now: SystemTime,
    ) -> Result<Disabled, String> {
        let at = DateTime::from_secs(
            now.duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| {
                    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
                }),
        );
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
            .expression_attribute_values(
                ":at",
                AttributeValue::S(at.fmt(DateTimeFormat::DateTime).unwrap_or_default()),
            )
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

fn request(keys: &[&SubscriptionKey]) -> Option<KeysAndAttributes> {
    KeysAndAttributes::builder()
        .set_keys(Some(keys.iter().map(|key| key_attributes(key)).collect()))
        // A row that was written just before the event must not be taken for one that is not there.
        .consistent_read(true)
        // `url` is a reserved word.
        .projection_expression("eventType, subscriberId, #url, enabled")
        .expression_attribute_names("#url", "url")
        .build()
        // The builder only refuses a request without keys.
        .ok()
}

fn key_attributes(key: &SubscriptionKey) -> HashMap<String, AttributeValue> {
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

fn key_of(item: &HashMap<String, AttributeValue>) -> Option<SubscriptionKey> {
    let text = |name: &str| item.get(name)?.as_s().ok();
    Some(SubscriptionKey {
        event_type: text("eventType")?.clone(),
        subscriber_id: SubscriberId::parse(text("subscriberId")?).ok()?,
    })
}
