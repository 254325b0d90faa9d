//! What has to be changed in a row, and how that is said.

use aws_sdk_dynamodb::types::AttributeValue;
use webhooks_core::header::CustomHeaders;
use webhooks_core::subscription::{RowError, Subscription};
use webhooks_shell::aws as shell;
use webhooks_shell::records::Item;

use super::summary::{Done, Row};
use crate::subscriptions::{Change, Entry, shown_url};

/// What the command line asks of every row.
pub(super) struct Wish<'a> {
    pub(super) subscriber: &'a str,
    pub(super) url: &'a str,
    /// Nothing if the headers are to stay as they are.
    pub(super) headers: Option<&'a CustomHeaders>,
    /// The same.
    pub(super) description: Option<&'a str>,
}

/// What is to be done with a row.
#[derive(Debug)]
pub(super) struct Plan {
    /// What has to be changed.
    pub(super) change: Change,
    /// What is told of it once it is done.
    pub(super) row: Row,
    /// What is wrong with the row even then.
    pub(super) broken: Option<RowError>,
}

/// The change that a row needs.
pub(super) fn planned(event_type: &str, read: Option<&Entry>, wish: &Wish<'_>) -> Plan {
    let mut change = Change::default();
    let mut says = Vec::new();
    let enabled = match read {
        Some(entry) => enabled(entry, &mut change, &mut says),
        None => {
            let on = AttributeValue::Bool(true);
            change.set.insert("enabled", on);
            true
        }
    };
    let attribute = |name: &str| read.and_then(|entry| entry.item.get(name));
    let url = AttributeValue::S(wish.url.to_owned());
    if attribute("url") != Some(&url) {
        says.push(match read.and_then(|entry| entry.url.as_deref()) {
            Some(before) => url_change(before, wish.url),
            None => format!("url {}", shown_url(wish.url)),
        });
        change.set.insert("url", url);
    }
    if let Some(headers) = wish.headers {
        let wanted = header_map(headers);
        set_or_remove("headers", wanted, attribute("headers"), &mut change, || {
            let names: Vec<&str> = headers.iter().map(|(name, _)| name).collect();
            says.push(match names.as_slice() {
                [] => "headers removed".to_owned(),
                names => format!("headers set: {}", names.join(", ")),
            });
        });
    }
    if let Some(text) = wish.description {
        let wanted = (!text.is_empty()).then(|| AttributeValue::S(text.to_owned()));
        let stored = attribute("description");
        set_or_remove("description", wanted, stored, &mut change, || {
            says.push(match text {
                "" => "description removed".to_owned(),
                _ => "description set".to_owned(),
            });
        });
    }
    let done = match (read, change.is_empty()) {
        (None, _) => Done::Created,
        (Some(_), false) => Done::Changed,
        (Some(_), true) => Done::Unchanged,
    };
    let row = Row {
        event_type: event_type.to_owned(),
        done,
        changes: match done {
            Done::Created => Vec::new(),
            Done::Changed | Done::Unchanged => says,
        },
        enabled,
        disabled_reason: read
            .filter(|_| !enabled)
            .and_then(|entry| entry.disabled_reason.clone()),
    };
    let afterwards = change.applied(event_type, wish.subscriber, read);
    Plan {
        broken: Subscription::from_row(shell::row(&afterwards)).err(),
        change,
        row,
    }
}

/// Whether the row is enabled afterwards. What is off stays off, and what is not a boolean was as
/// good as off.
fn enabled(entry: &Entry, change: &mut Change, says: &mut Vec<String>) -> bool {
    match (entry.enabled, entry.item.contains_key("enabled")) {
        (Some(enabled), _) => enabled,
        (None, there) => {
            let now = !there;
            change.set.insert("enabled", AttributeValue::Bool(now));
            says.push(match there {
                true => "`enabled` was not a boolean and is false now".to_owned(),
                false => "`enabled` was missing and is true now".to_owned(),
            });
            now
        }
    }
}

fn url_change(before: &str, after: &str) -> String {
    let (from, to) = (shown_url(before), shown_url(after));
    if from == to {
        format!("url {to} changed in its query")
    } else {
        format!("url changed from {from} to {to}")
    }
}

fn header_map(headers: &CustomHeaders) -> Option<AttributeValue> {
    let map: Item = headers
        .iter()
        .map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned())))
        .collect();
    (!map.is_empty()).then_some(AttributeValue::M(map))
}

/// Gives an attribute its value, or takes it away, if it is not so already.
fn set_or_remove(
    name: &'static str,
    wanted: Option<AttributeValue>,
    stored: Option<&AttributeValue>,
    change: &mut Change,
    say: impl FnOnce(),
) {
    if wanted.as_ref() == stored {
        return;
    }
    match wanted {
        Some(value) => {
            change.set.insert(name, value);
        }
        None => change.remove.push(name),
    }
    say();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(text: &str) -> AttributeValue {
        AttributeValue::S(text.into())
    }

    fn entry(attributes: &[(&str, AttributeValue)]) -> Entry {
        let key = [("eventType", s("OrderPaid")), ("subscriberId", s("a"))];
        let attributes = key.iter().chain(attributes).cloned();
        let item = attributes.map(|(name, value)| (name.to_owned(), value));
        Entry::read(item.collect()).unwrap()
    }

    const WISH: Wish<'static> = Wish {
        subscriber: "a",
        url: "https://a.example/new?t=2",
        headers: None,
        description: None,
    };

    #[test]
    fn a_row_that_is_as_wished_is_left_alone() {
        let entry = entry(&[
            ("url", s("https://a.example/new?t=2")),
            ("enabled", AttributeValue::Bool(true)),
            ("description", s("the till")),
        ]);
        let plan = planned("OrderPaid", Some(&entry), &WISH);
        assert_eq!(plan.change, Change::default());
        assert_eq!(plan.row.done, Done::Unchanged);
        assert_eq!(plan.broken, None);
        assert_eq!(planned("OrderPaid", None, &WISH).broken, None);
    }

    #[test]
    fn what_stays_broken_is_told_and_headers_that_are_replaced_are_not() {
        let entry = entry(&[("headers", s("x-a: 1"))]);
        let plan = planned("OrderPaid", Some(&entry), &WISH);
        assert_eq!(plan.broken.unwrap().to_string(), "`headers`: not a map (M)");
        let headers = CustomHeaders::new([("x-a", "1")]).unwrap();
        for headers in [headers, CustomHeaders::default()] {
            let wish = Wish {
                headers: Some(&headers),
                ..WISH
            };
            assert_eq!(planned("OrderPaid", Some(&entry), &wish).broken, None);
        }
    }

    #[test]
    fn a_url_that_changes_is_said_without_its_query() {
        for (before, said) in [
            (
                "https://a.example/old?t=1",
                "url changed from https://a.example/old to https://a.example/new",
            ),
            (
                "https://a.example/new?t=1",
                "url https://a.example/new changed in its query",
            ),
        ] {
            let entry = entry(&[
                ("url", s(before)),
                ("enabled", AttributeValue::Bool(false)),
                ("disabledReason", s("maintenance")),
            ]);
            let Plan { change, row, .. } = planned("OrderPaid", Some(&entry), &WISH);
            assert_eq!(change.set.keys().collect::<Vec<_>>(), [&"url"]);
            assert_eq!(row.changes, [said]);
            assert_eq!(row.done, Done::Changed);
            assert!(!row.enabled);
            assert_eq!(row.disabled_reason.as_deref(), Some("maintenance"));
        }
    }

    #[test]
    fn headers_and_description_change_only_if_they_are_named() {
        let entry = entry(&[
            ("url", s(WISH.url)),
            ("enabled", AttributeValue::Bool(true)),
            (
                "headers",
                AttributeValue::M(Item::from([("x-a".into(), s("1"))])),
            ),
            ("description", s("the till")),
        ]);
        let none = CustomHeaders::default();
        let wish = Wish {
            headers: Some(&none),
            description: Some(""),
            ..WISH
        };
        let Plan { change, row, .. } = planned("OrderPaid", Some(&entry), &wish);
        assert_eq!(change.remove, ["headers", "description"]);
        assert_eq!(row.changes, ["headers removed", "description removed"]);
        let headers = CustomHeaders::new([("X-A", "1")]).unwrap();
        let wish = Wish {
            headers: Some(&headers),
            description: Some("the till"),
            ..WISH
        };
        assert!(planned("OrderPaid", Some(&entry), &wish).change.is_empty());
    }

    #[test]
    fn what_is_broken_is_mended_and_never_switched_on_by_it() {
        let broken = entry(&[("url", AttributeValue::Bool(true)), ("enabled", s("false"))]);
        let Plan { change, row, .. } = planned("OrderPaid", Some(&broken), &WISH);
        assert_eq!(change.set["enabled"], AttributeValue::Bool(false));
        assert!(!row.enabled);
        assert_eq!(
            row.changes,
            [
                "`enabled` was not a boolean and is false now",
                "url https://a.example/new",
            ]
        );
        let bare = entry(&[("url", s(WISH.url))]);
        let Plan { change, row, .. } = planned("OrderPaid", Some(&bare), &WISH);
        assert_eq!(change.set["enabled"], AttributeValue::Bool(true));
        assert!(row.enabled);
    }
}
