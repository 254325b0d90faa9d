//! The rows of the subscriptions table, and how they are changed: who receives what, and where.
//!
//! Rows are written by hand too, so whatever is wrong with one is a finding about it, and it is
//! shown with all that can be read of it. Two operators at once do not overwrite each other: a
//! row is only changed if it still is what was read.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::types::AttributeValue;
use webhooks_core::identity::SubscriberId;
use webhooks_shell::records::Item;

use crate::aws;
use crate::error::Error;
use crate::stack::Stack;

mod entry;

pub use entry::{Entry, shown_url};

/// What a row must still say if it is to be changed.
const COMPARED: [&str; 6] = [
    "url",
    "enabled",
    "headers",
    "description",
    "disabledReason",
    "disabledAt",
];

/// A wish to change a row. `Debug` tells the names of attributes alone: values may be credentials.
#[derive(Clone, Default, PartialEq)]
pub struct Change {
    /// Attributes that get a value.
    pub set: BTreeMap<&'static str, AttributeValue>,
    /// Attributes that go.
    pub remove: Vec<&'static str>,
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("set", &self.set.keys())
            .field("remove", &self.remove)
            .finish()
    }
}

impl Change {
    /// The row as it is after the change; one that is made begins with its key.
    #[must_use]
    pub fn applied(&self, event_type: &str, subscriber_id: &str, read: Option<&Entry>) -> Item {
        let mut item = match read {
            Some(read) => read.item.clone(),
            None => key(event_type, subscriber_id),
        };
        let set = self.set.iter();
        item.extend(set.map(|(name, value)| ((*name).to_owned(), value.clone())));
        item.retain(|name, _| !self.remove.contains(&name.as_str()));
        item
    }

    /// Whether nothing is to be changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }
}

/// The subscriptions table.
#[derive(Debug, Clone)]
pub struct Subscriptions {
    client: Client,
    table: String,
}

impl Subscriptions {
    /// That of a stack.
    #[must_use]
    pub fn new(aws: &SdkConfig, stack: &Stack) -> Self {
        Self {
            client: Client::new(aws),
            table: stack.subscriptions_table.clone(),
        }
    }

    /// All rows, by subscriber and event type, as they are at this moment. These are few.
    ///
    /// # Errors
    /// If the table can not be read.
    pub async fn all(&self) -> Result<Vec<Entry>, Error> {
        self.scan(None).await
    }

    /// The rows of a subscriber, by event type.
    ///
    /// # Errors
    /// If the table can not be read.
    pub async fn of_subscriber(&self, subscriber: &SubscriberId) -> Result<Vec<Entry>, Error> {
        self.scan(Some(subscriber)).await
    }

    async fn scan(&self, subscriber: Option<&SubscriberId>) -> Result<Vec<Entry>, Error> {
        let mut call = self
            .client
            .scan()
            .table_name(&self.table)
            .consistent_read(true);
        if let Some(subscriber) = subscriber {
            call = call
                .filter_expression("subscriberId = :subscriber")
                .expression_attribute_values(
                    ":subscriber",
                    AttributeValue::S(subscriber.to_string()),
                );
        }
        let mut entries = Vec::new();
        let mut start = None;
        loop {
            let page = call
                .clone()
                .set_exclusive_start_key(start)
                .send()
                .await
                .map_err(|error| aws::failure("dynamodb:Scan", &error))?;
            entries.extend(page.items.into_iter().flatten().filter_map(Entry::read));
            start = page.last_evaluated_key;
            if start.is_none() {
                break;
            }
        }
        let key = |entry: &Entry| (entry.subscriber_id.clone(), entry.event_type.clone());
        entries.sort_by_key(key);
        Ok(entries)
    }

    /// Changes a row that still is as it was read, or makes one that was not there.
    ///
    /// # Errors
    /// If it has been changed meanwhile, or can not be written.
    pub async fn write(
        &self,
        event_type: &str,
        subscriber_id: &str,
        read: Option<&Entry>,
        change: &Change,
    ) -> Result<(), Error> {
        let Condition {
            expression,
            mut names,
            mut values,
        } = Condition::unchanged(read);
        let mut update = String::new();
        for (number, (name, value)) in change.set.iter().enumerate() {
            update += if number == 0 { "SET " } else { ", " };
            update += &format!("#{name} = :new_{name}");
            names.insert(format!("#{name}"), (*name).to_owned());
            values.insert(format!(":new_{name}"), value.clone());
        }
        for (number, name) in change.remove.iter().enumerate() {
            update += if number == 0 { " REMOVE " } else { ", " };
            update += &format!("#{name}");
            names.insert(format!("#{name}"), (*name).to_owned());
        }
        let result = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(key(event_type, subscriber_id)))
            .update_expression(update.trim())
            .condition_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values((!values.is_empty()).then_some(values))
            .send()
            .await;
        match result {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(CONDITION_FAILED) => {
                Err(changed_meanwhile(event_type, subscriber_id))
            }
            Err(error) => Err(aws::failure("dynamodb:UpdateItem", &error)),
        }
    }

    /// Deletes a row that still is as it was read.
    ///
    /// # Errors
    /// If it has been changed meanwhile, or can not be deleted.
    pub async fn delete(&self, read: &Entry) -> Result<(), Error> {
        let condition = Condition::unchanged(Some(read));
        let (names, values) = (condition.names, condition.values);
        let result = self
            .client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(key(&read.event_type, &read.subscriber_id)))
            .condition_expression(condition.expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values((!values.is_empty()).then_some(values))
            .send()
            .await;
        match result {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(CONDITION_FAILED) => {
                Err(changed_meanwhile(&read.event_type, &read.subscriber_id))
            }
            Err(error) => Err(aws::failure("dynamodb:DeleteItem", &error)),
        }
    }
}

/// Those of a subscriber's rows that are to these events, or all of them if none is named.
///
/// # Errors
/// If there are none, or none to one of the events.
pub fn chosen(
    mut entries: Vec<Entry>,
    subscriber: &SubscriberId,
    events: &[String],
) -> Result<Vec<Entry>, Error> {
    let missing = events
        .iter()
        .find(|event| !entries.iter().any(|entry| entry.event_type == **event));
    let missing = match missing {
        Some(event) => event.as_str(),
        None if entries.is_empty() => "anything",
        None => {
            entries.retain(|entry| events.is_empty() || events.contains(&entry.event_type));
            return Ok(entries);
        }
    };
    Err(Error::NotFound(format!(
        "{subscriber} is not subscribed to {missing}: `webhooks list` shows who is subscribed to what"
    )))
}

const CONDITION_FAILED: &str = "ConditionalCheckFailedException";

fn changed_meanwhile(event_type: &str, subscriber_id: &str) -> Error {
    Error::Failed(format!(
        "the subscription of {subscriber_id} to {event_type} was changed by somebody else at this \
         moment, and is left as it is now: look at it by `webhooks show {subscriber_id}`, and try \
         again"
    ))
}

fn key(event_type: &str, subscriber_id: &str) -> Item {
    let s = |value: &str| AttributeValue::S(value.to_owned());
    Item::from([
        ("eventType".to_owned(), s(event_type)),
        ("subscriberId".to_owned(), s(subscriber_id)),
    ])
}

/// That a row is still what was read.
struct Condition {
    expression: String,
    names: HashMap<String, String>,
    values: Item,
}

impl Condition {
    fn unchanged(read: Option<&Entry>) -> Self {
        let (mut names, mut values) = (HashMap::new(), Item::new());
        names.insert("#eventType".to_owned(), "eventType".to_owned());
        let Some(read) = read else {
            return Self {
                expression: "attribute_not_exists(#eventType)".to_owned(),
                names,
                values,
            };
        };
        let mut parts = vec!["attribute_exists(#eventType)".to_owned()];
        for name in COMPARED {
            names.insert(format!("#{name}"), name.to_owned());
            parts.push(match read.item.get(name) {
                Some(value) => {
                    values.insert(format!(":read_{name}"), value.clone());
                    format!("#{name} = :read_{name}")
                }
                None => format!("attribute_not_exists(#{name})"),
            });
        }
        Self {
            expression: parts.join(" AND "),
            names,
            values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(text: &str) -> AttributeValue {
        AttributeValue::S(text.into())
    }

    fn item(attributes: &[(&str, AttributeValue)]) -> Item {
        let attributes = attributes.iter().cloned();
        attributes
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    #[test]
    fn debug_output_of_a_change_tells_names_alone() {
        let mut change = Change::default();
        change.set.insert("headers", s("hidden"));
        change.remove.push("description");
        assert_eq!(
            format!("{change:?}"),
            r#"Change { set: ["headers"], remove: ["description"] }"#
        );
    }

    #[test]
    fn a_row_must_be_what_was_read_in_everything_that_people_set() {
        let made = Condition::unchanged(None);
        assert_eq!(made.expression, "attribute_not_exists(#eventType)");
        let read = Entry::read(item(&[
            ("eventType", s("OrderPaid")),
            ("subscriberId", s("a")),
            ("url", s("https://a.example/")),
            ("enabled", AttributeValue::Bool(false)),
        ]))
        .unwrap();
        let changed = Condition::unchanged(Some(&read));
        assert_eq!(
            changed.expression,
            "attribute_exists(#eventType) AND #url = :read_url AND #enabled = :read_enabled AND \
             attribute_not_exists(#headers) AND attribute_not_exists(#description) AND \
             attribute_not_exists(#disabledReason) AND attribute_not_exists(#disabledAt)"
        );
        assert_eq!(changed.values[":read_url"], s("https://a.example/"));
    }
}
