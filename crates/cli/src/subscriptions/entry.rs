//! One row as people see it: all that can be read of it, and what is wrong with it.

use std::collections::BTreeMap;

use serde_json::json;
use webhooks_core::identity::SubscriberId;
use webhooks_core::subscription::{RowError, Subscription};
use webhooks_shell::aws as shell;
use webhooks_shell::records::{self, Item, text};

use crate::moment::Time;
use crate::output::safe_json;

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
    /// Why it was disabled.
    pub disabled_reason: Option<String>,
    /// When it was disabled.
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

    /// Whether dispatch makes webhooks by it. Dispatch does not read the headers: if those are
    /// broken, the webhooks are made, and fail at deliver until the row is mended.
    #[must_use]
    pub fn makes_webhooks(&self) -> bool {
        match &self.subscription {
            Ok(subscription) => subscription.enabled,
            Err(RowError::Headers(_)) => self.enabled == Some(true),
            Err(
                RowError::Missing(_)
                | RowError::WrongType(..)
                | RowError::SubscriberId(_)
                | RowError::EmptyUrl
                | RowError::UrlTooLong,
            ) => false,
        }
    }

    /// What is wrong with the row, in words.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.subscription.as_ref().err().map(ToString::to_string)
    }

    /// What mends a broken row of this table: the command of ours that does, or, for a row that none
    /// of ours can name, the one that deletes it.
    #[must_use]
    pub fn mend(&self, table: &str) -> Option<String> {
        let error = self.subscription.as_ref().err()?;
        if SubscriberId::parse(&self.subscriber_id).is_err() {
            return Some(format!(
                "no verb can name it; delete it by `aws dynamodb delete-item --table-name {table} --key \
                 {}`",
                self.shell_key()
            ));
        }
        let (id, event_type) = (&self.subscriber_id, &self.event_type);
        Some(match error {
            RowError::Headers(_) => format!(
                "`webhooks subscribe {id} --event {event_type} --url URL` with --no-headers, or with \
                 all headers that it is to have by --header-file"
            ),
            RowError::Missing(_)
            | RowError::WrongType(..)
            | RowError::SubscriberId(_)
            | RowError::EmptyUrl
            | RowError::UrlTooLong => {
                format!("`webhooks subscribe {id} --event {event_type} --url URL`")
            }
        })
    }

    /// The key as an argument of the AWS CLI. A shell takes nothing of it for a command, whatever
    /// somebody has written there.
    fn shell_key(&self) -> String {
        let key = json!({
            "eventType": {"S": self.event_type},
            "subscriberId": {"S": self.subscriber_id},
        });
        format!("'{}'", safe_json(&key.to_string()).replace('\'', r"'\''"))
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

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

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
    fn dispatch_makes_webhooks_by_a_row_of_which_only_the_headers_are_broken() {
        let on = || ("enabled", AttributeValue::Bool(true));
        let off = || ("enabled", AttributeValue::Bool(false));
        let url = || ("url", s("https://a.example/"));
        let broken = || ("headers", s("x: y"));
        for (attributes, makes) in [
            (vec![url(), on()], true),
            (vec![url(), on(), broken()], true),
            (vec![url(), off()], false),
            (vec![url(), off(), broken()], false),
            (vec![url(), broken()], false),
            (vec![on(), broken()], false),
            (vec![("url", s("")), on()], false),
        ] {
            let key = [("eventType", s("OrderPaid")), ("subscriberId", s("a"))];
            let entry = Entry::read(item(&[&key[..], &attributes].concat())).unwrap();
            assert_eq!(entry.makes_webhooks(), makes, "{attributes:?}");
        }
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
    fn what_mends_a_row_is_a_command_of_ours_or_deletes_it() {
        let entry = |id: &str, attribute: (&str, AttributeValue)| {
            let key = [
                ("eventType", s("OrderPaid")),
                ("subscriberId", s(id)),
                ("url", s("https://a.example/")),
                ("enabled", AttributeValue::Bool(true)),
            ];
            Entry::read(item(&[&key[..], &[attribute]].concat())).unwrap()
        };
        let mend = |id, attribute| entry(id, attribute).mend("subs").unwrap();
        assert_eq!(
            mend("a", ("headers", s("x: y"))),
            "`webhooks subscribe a --event OrderPaid --url URL` with --no-headers, or with all \
             headers that it is to have by --header-file"
        );
        assert_eq!(
            mend("a", ("enabled", s("true"))),
            "`webhooks subscribe a --event OrderPaid --url URL`"
        );
        assert_eq!(
            mend("it's\n\u{202e}mine", ("headers", s("x: y"))),
            r#"no verb can name it; delete it by `aws dynamodb delete-item --table-name subs --key '{"eventType":{"S":"OrderPaid"},"subscriberId":{"S":"it'\''s\n\u202emine"}}'`"#
        );
        assert_eq!(entry("a", ("description", s("x"))).mend("subs"), None);
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
}
