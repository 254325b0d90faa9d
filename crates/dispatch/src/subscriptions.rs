//! Reading the subscriptions of one event type, page by page.

use std::collections::HashMap;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use webhooks_core::event::Event;
use webhooks_core::subscription::{Attribute, Subscription};
use webhooks_shell::aws;

use crate::Tally;

/// One row as DynamoDB gives it.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// A page could not be read, in DynamoDB's words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(String);

/// The subscriptions table.
pub(crate) struct Subscriptions {
    client: Client,
    table_name: String,
}

/// The pages of one event type.
pub(crate) struct Pages<'a> {
    table: &'a Subscriptions,
    event_type: &'a str,
    next: Next,
}

enum Next {
    First,
    After(Item),
    End,
}

impl Subscriptions {
    pub(crate) fn new(aws: &SdkConfig, table_name: String) -> Self {
        Self {
            client: Client::new(aws),
            table_name,
        }
    }

    pub(crate) fn of_type<'a>(&'a self, event_type: &'a str) -> Pages<'a> {
        Pages {
            table: self,
            event_type,
            next: Next::First,
        }
    }
}

impl Pages<'_> {
    /// The next page, `None` after the last. A page may be empty and still not be the last.
    ///
    /// Rows that are switched off are read too: a filter would also hide the rows that someone
    /// has to mend, and DynamoDB bills what it reads, not what it returns.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Item>>, ReadError> {
        let start = match std::mem::replace(&mut self.next, Next::End) {
            Next::First => None,
            Next::After(key) => Some(key),
            Next::End => return Ok(None),
        };
        let page = self
            .table
            .client
            .query()
            .table_name(&self.table.table_name)
            .key_condition_expression("eventType = :eventType")
            .expression_attribute_values(
                ":eventType",
                AttributeValue::S(self.event_type.to_owned()),
            )
            // `url` is a reserved word.
            .projection_expression("subscriberId, #url, enabled")
            .expression_attribute_names("#url", "url")
            // A row that was written just before the event must not be missed.
            .consistent_read(true)
            .set_exclusive_start_key(start)
            .send()
            .await
            .map_err(|error| ReadError(aws::describe(&error)))?;
        if let Some(key) = page.last_evaluated_key
            && !key.is_empty()
        {
            self.next = Next::After(key);
        }
        match page.items {
            Some(items) => Ok(Some(items)),
            None => Err(ReadError("the answer has no items".into())),
        }
    }
}

/// The subscription in a row if something is to be sent to it. A row that is not a subscription
/// is skipped with a log line; it must not stop the others.
pub(crate) fn read_row(item: &Item, event: &Event<'_>, tally: &mut Tally) -> Option<Subscription> {
    let row = aws::row(item);
    let subscriber_id = row.subscriber_id;
    match Subscription::from_row(row) {
        Ok(subscription) if subscription.enabled => Some(subscription),
        Ok(_) => {
            tally.disabled += 1;
            None
        }
        Err(error) => {
            tally.skipped += 1;
            let subscriber_id = match subscriber_id {
                // A url that was put into the wrong attribute may hold a token.
                Some(Attribute::Text(text)) if !text.contains("://") => Some(text),
                Some(_) | None => None,
            };
            tracing::error!(
                %error,
                eventId = %event.id,
                eventType = %event.event_type,
                subscriberId = subscriber_id,
                "subscription.broken"
            );
            None
        }
    }
}
