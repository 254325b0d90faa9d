//! The rows of the subscriptions table, and how they are changed: who receives what, and where.
//!
//! Rows are written by hand too, so whatever is wrong with one is a finding about it, and it is
//! shown with all that can be read of it. Two operators at once do not overwrite each other: a
//! row is only changed if it still is what was read.

use std::collections::{BTreeMap, HashMap};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::AttributeValue;
use webhooks_core::identity::SubscriberId;
use webhooks_core::subscription::{RowError, Subscription};
use webhooks_shell::aws as shell;
use webhooks_shell::records::{self, Item, text};

use crate::aws;
use crate::error::Error;
use crate::moment::Time;
use crate::stack::Stack;

/// What a row must still say if it is to be changed.
const COMPARED: [&str; 6] = [
    "url",
    "enabled",
    "headers",
    "description",
    "disabledReason",
    "disabledAt",
];

/// One row, as it was read.
#[derive(Clone, PartialEq)]
pub struct Entry {
    /// The type of event, half of the key.
    pub event_type: String,
    /// Whose it is, the other half. What is written by hand need not be a subscriber id.
    pub subscriber_id: String,
    /// Where to send. May hold a token in its query; see [`shown_url`](Self::shown_url).
    pub url: Option<String>,
    /// Whether to send at all, if that is said by a boolean.
    pub enabled: Option<bool>,
    /// Names as they were written, and values, which may be credentials.
    pub headers: BTreeMap<String, String>,
    /// What people say of it.
    pub description: Option<String>,
    /// Why it was switched off.
    pub disabled_reason: Option<String>,
    /// When it was switched off.
    pub disabled_at: Option<Time>,
    /// The row as `dispatch` and `deliver` read it, or why they can not.
    pub subscription: Result<Subscription, RowError>,
    /// The row itself.
    pub item: Item,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The url and the headers may hold credentials.
        f.debug_struct("Entry")
            .field("event_type", &self.event_type)
            .field("subscriber_id", &self.subscriber_id)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

impl Entry {
    /// Reads a row; nothing if it has no key, which DynamoDB does not store.
    #[must_use]
    pub fn read(item: Item) -> Option<Self> {
        let owned = |name| text(&item, name).map(str::to_owned);
        let headers = item.get("headers").and_then(|value| value.as_m().ok());
        let headers = headers.into_iter().flatten();
        Some(Self {
            event_type: owned("eventType")?,
            subscriber_id: owned("subscriberId")?,
            url: owned("url"),
            enabled: item
                .get("enabled")
                .and_then(|value| value.as_bool().ok())
                .copied(),
            headers: headers
                .filter_map(|(name, value)| Some((name.clone(), value.as_s().ok()?.clone())))
                .collect(),
            description: owned("description"),
            disabled_reason: owned("disabledReason"),
            disabled_at: records::time(&item, "disabledAt").map(Time::new),
            subscription: Subscription::from_row(shell::row(&item)),
            item,
        })
    }

    /// Whether webhooks are sent by it.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        matches!(&self.subscription, Ok(subscription) if subscription.enabled)
    }

    /// What is wrong with the row, in words.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.subscription.as_ref().err().map(ToString::to_string)
    }

    /// The url as it can be shown to anybody.
    #[must_use]
    pub fn shown_url(&self) -> String {
        self.url.as_deref().map(shown_url).unwrap_or_default()
    }
}

/// A url without what may be secret: query, fragment, user name and password.
#[must_use]
pub fn shown_url(text: &str) -> String {
    let Ok(mut url) = url::Url::parse(text) else {
        let before = text.split(['?', '#']).next().unwrap_or_default();
        return match before.rsplit_once('@') {
            Some((_, rest)) => rest.to_owned(),
            None => before.to_owned(),
        };
    };
    url.set_query(None);
    url.set_fragment(None);
    // Fails for a url that can have none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let shown = url.to_string();
    // What a person has written without a path is shown so.
    match shown.strip_suffix('/') {
        Some(bare) if text == bare => bare.to_owned(),
        Some(_) | None => shown,
    }
}

/// A wish to change a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// Attributes that get a value.
    pub set: BTreeMap<&'static str, AttributeValue>,
    /// Attributes that go.
    pub remove: Vec<&'static str>,
}

impl Change {
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
    fn a_url_is_shown_without_what_may_be_secret() {
        for (url, shown) in [
            ("https://a.example/hook?token=1#x", "https://a.example/hook"),
            ("https://a.example", "https://a.example"),
            ("https://a.example?token=1", "https://a.example/"),
            ("https://u:p@a.example:8443/h", "https://a.example:8443/h"),
            ("//u:p@a.example/h?token=1", "a.example/h"),
            ("not a url?token=1", "not a url"),
            ("mailto:a@b.example", "mailto:a@b.example"),
            ("", ""),
        ] {
            assert_eq!(shown_url(url), shown, "{url}");
        }
    }

    #[test]
    fn a_row_that_is_broken_is_read_as_far_as_it_goes() {
        let entry = Entry::read(item(&[
            ("eventType", s("OrderPaid")),
            ("subscriberId", s("kasse nord")),
            ("url", AttributeValue::Bool(true)),
            ("enabled", s("true")),
            ("headers", s("x: y")),
            ("disabledAt", s("yesterday")),
            ("description", s("the till")),
        ]))
        .unwrap();
        assert_eq!(entry.subscriber_id, "kasse nord");
        assert_eq!((entry.url.as_ref(), entry.enabled), (None, None));
        assert_eq!(entry.description.as_deref(), Some("the till"));
        assert_eq!(entry.disabled_at, None);
        assert!(!entry.is_enabled());
        assert_eq!(
            entry.problem().unwrap(),
            "`subscriberId`: a subscriberId is 1 to 64 characters of A-Z, a-z, 0-9, `_` and `-`"
        );
        assert_eq!(Entry::read(item(&[("eventType", s("OrderPaid"))])), None);
    }

    #[test]
    fn debug_output_shows_neither_url_nor_headers() {
        let entry = Entry::read(item(&[
            ("eventType", s("OrderPaid")),
            ("subscriberId", s("a")),
            ("url", s("https://a.example/?token=hidden")),
            (
                "headers",
                AttributeValue::M(item(&[("x-api-key", s("hidden"))])),
            ),
            ("enabled", AttributeValue::Bool(true)),
        ]))
        .unwrap();
        assert_eq!(
            format!("{entry:?}"),
            "Entry { event_type: \"OrderPaid\", subscriber_id: \"a\", enabled: Some(true), .. }"
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
