//! What is asked of the two tables: one delivery, the deliveries of a subscriber, and who the
//! subscribers are.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use tokio::task::JoinSet;
use webhooks_core::identity::SubscriberId;
use webhooks_shell::records::{BY_SUBSCRIBER, Item, text, time_value};

use crate::aws;
use crate::error::Error;
use crate::moment::Period;
use crate::stack::Stack;

/// How many subscribers are asked about at a time.
const AT_A_TIME: usize = 8;

/// What is shown of a record: all but its payload, which can be 400 KB.
const SHOWN: [&str; 21] = [
    "webhookId",
    "subscriberId",
    "eventType",
    "eventId",
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
    "expiresAt",
    "deadReason",
    "history",
    "historyCut",
    "bodyOmitted",
    "redrivenAt",
    "redrivenMessageId",
];

/// The subscriptions and the deliveries.
#[derive(Debug, Clone)]
pub struct Tables {
    pub(crate) client: Client,
    pub(crate) subscriptions: String,
    pub(crate) deliveries: String,
}

impl Tables {
    /// Those of a stack.
    #[must_use]
    pub fn new(aws: &SdkConfig, stack: &Stack) -> Self {
        Self {
            client: Client::new(aws),
            subscriptions: stack.subscriptions_table.clone(),
            deliveries: stack.deliveries_table.clone(),
        }
    }

    /// The record of a delivery, as it is at this moment.
    ///
    /// # Errors
    /// If the table can not be read.
    pub async fn delivery(&self, webhook_id: &str) -> Result<Option<Item>, Error> {
        // Each name through a `#name`: some of them are reserved words.
        let names = SHOWN.map(|name| (format!("#{name}"), name.to_owned()));
        let projection = names.each_ref().map(|(word, _)| word.as_str()).join(", ");
        let answer = self
            .client
            .get_item()
            .table_name(&self.deliveries)
            .key("webhookId", AttributeValue::S(webhook_id.to_owned()))
            .consistent_read(true)
            .projection_expression(projection)
            .set_expression_attribute_names(Some(HashMap::from(names)))
            .send()
            .await
            .map_err(|error| aws::failure("dynamodb:GetItem", &error))?;
        Ok(answer.item)
    }

    /// Hands over the records of a subscriber that were last changed in a period, or at its very
    /// end, the one that was changed last first, until `each` breaks it off.
    ///
    /// # Errors
    /// If the index can not be read.
    pub async fn of_subscriber(
        &self,
        subscriber_id: &SubscriberId,
        period: Period,
        mut each: impl FnMut(&Item) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut condition = "subscriberId = :subscriber".to_owned();
        let subscriber = AttributeValue::S(subscriber_id.to_string());
        let mut values = HashMap::from([(":subscriber".to_owned(), subscriber)]);
        condition += match (period.since, period.until) {
            (Some(_), Some(_)) => " AND updatedAt BETWEEN :since AND :until",
            (Some(_), None) => " AND updatedAt >= :since",
            (None, Some(_)) => " AND updatedAt <= :until",
            (None, None) => "",
        };
        for (word, time) in [(":since", period.since), (":until", period.until)] {
            if let Some(time) = time {
                values.insert(word.to_owned(), time_value(time));
            }
        }
        let mut start = None;
        loop {
            let page = self
                .client
                .query()
                .table_name(&self.deliveries)
                .index_name(BY_SUBSCRIBER)
                .key_condition_expression(&condition)
                .set_expression_attribute_values(Some(values.clone()))
                .scan_index_forward(false)
                .set_exclusive_start_key(start)
                .send()
                .await
                .map_err(|error| aws::failure("dynamodb:Query", &error))?;
            for item in page.items() {
                if each(item).is_break() {
                    return Ok(());
                }
            }
            start = page.last_evaluated_key;
            if start.is_none() {
                return Ok(());
            }
        }
    }

    /// Who is subscribed to anything. These rows are few, so all of them are read.
    ///
    /// # Errors
    /// If the table can not be read.
    pub async fn subscribers(&self) -> Result<BTreeSet<SubscriberId>, Error> {
        let mut subscribers = BTreeSet::new();
        let mut start = None;
        loop {
            let page = self
                .client
                .scan()
                .table_name(&self.subscriptions)
                .projection_expression("subscriberId")
                .set_exclusive_start_key(start)
                .send()
                .await
                .map_err(|error| aws::failure("dynamodb:Scan", &error))?;
            let ids = page.items().iter();
            subscribers
                .extend(ids.filter_map(|row| SubscriberId::parse(text(row, "subscriberId")?).ok()));
            start = page.last_evaluated_key;
            if start.is_none() {
                return Ok(subscribers);
            }
        }
    }
}

/// Asks about each of these, some at a time, and gives the answers in any order.
///
/// # Errors
/// The first one that comes.
pub async fn about_each<T, F>(
    of: impl IntoIterator<Item = SubscriberId>,
    ask: impl Fn(SubscriberId) -> F,
) -> Result<Vec<T>, Error>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let mut asked = JoinSet::new();
    let mut answers = Vec::new();
    let mut next = of.into_iter();
    loop {
        while asked.len() < AT_A_TIME
            && let Some(subscriber) = next.next()
        {
            asked.spawn(ask(subscriber));
        }
        match asked.join_next().await {
            Some(Ok(answer)) => answers.push(answer?),
            Some(Err(error)) => return Err(Error::Failed(error.to_string())),
            None => return Ok(answers),
        }
    }
}
