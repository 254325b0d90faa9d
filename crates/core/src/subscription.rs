//! What a row of the subscriptions table says.
//!
//! Rows are written by hand, by the console and by scripts, so every attribute may be missing or
//! have another type: that is a finding about this row, never a reason to stop.

use std::fmt;

use crate::header::{CustomHeaders, HeaderError};
use crate::identity::{SubscriberId, SubscriberIdError};

/// The longest url, in bytes. Much of it is logged when it is wrong, and it travels in every job.
const URL_MAX_BYTES: usize = 2048;

/// One attribute of a row, as far as a subscription needs it. The shells map DynamoDB's values
/// to this. `Debug` tells no text, which may be a credential.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Attribute<'a> {
    /// A string, `{"S":"…"}`.
    Text(&'a str),
    /// A boolean, `{"BOOL":…}`.
    Flag(bool),
    /// Any other type.
    Other,
}

impl fmt::Debug for Attribute<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(redacted)"),
            Self::Flag(flag) => write!(f, "Flag({flag})"),
            Self::Other => f.write_str("Other"),
        }
    }
}

/// The attributes of one row. `description`, which is for people, is not looked at.
#[derive(Clone, Debug, Default)]
pub struct Row<'a> {
    /// `subscriberId`, the sort key.
    pub subscriber_id: Option<Attribute<'a>>,
    /// `url`.
    pub url: Option<Attribute<'a>>,
    /// `enabled`.
    pub enabled: Option<Attribute<'a>>,
    /// `headers`: names and values of a map, or an attribute of another type.
    pub headers: Option<Result<Vec<(&'a str, Attribute<'a>)>, Attribute<'a>>>,
}

/// One subscription: where a subscriber wants the events of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Who is subscribed.
    pub subscriber_id: SubscriberId,
    /// Where to send, not yet judged by the endpoint rules.
    pub url: String,
    /// Whether to send at all.
    pub enabled: bool,
    /// What is sent beside our own headers.
    pub headers: CustomHeaders,
}

/// Why a row is not a subscription.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// An attribute is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// An attribute has another type.
    #[error("`{0}` is not {1}")]
    WrongType(&'static str, &'static str),
    /// The subscriber id has other characters.
    #[error("`subscriberId`: {0}")]
    SubscriberId(#[from] SubscriberIdError),
    /// The url is empty.
    #[error("`url` is empty")]
    EmptyUrl,
    /// The url is longer than any that is meant.
    #[error("`url` is longer than {URL_MAX_BYTES} bytes")]
    UrlTooLong,
    /// The headers can not be sent.
    #[error("`headers`: {0}")]
    Headers(#[from] HeaderError),
}

impl Subscription {
    /// Reads a row.
    ///
    /// # Errors
    /// Names the attribute that is wrong. The url is only asked to be there: whether it may be
    /// called is judged at each attempt, so that a delivery to a url that is mended later is not
    /// lost.
    pub fn from_row(row: Row<'_>) -> Result<Self, RowError> {
        let text = |name, attribute| match attribute {
            Some(Attribute::Text(text)) => Ok(text),
            Some(Attribute::Flag(_) | Attribute::Other) => {
                Err(RowError::WrongType(name, "a string (S)"))
            }
            None => Err(RowError::Missing(name)),
        };
        let subscriber_id = SubscriberId::parse(text("subscriberId", row.subscriber_id)?)?;
        let url = text("url", row.url)?;
        if url.is_empty() {
            return Err(RowError::EmptyUrl);
        }
        if url.len() > URL_MAX_BYTES {
            return Err(RowError::UrlTooLong);
        }
        let enabled = match row.enabled {
            Some(Attribute::Flag(enabled)) => enabled,
            Some(Attribute::Text(_) | Attribute::Other) => {
                return Err(RowError::WrongType("enabled", "a boolean (BOOL)"));
            }
            None => return Err(RowError::Missing("enabled")),
        };
        Ok(Self {
            subscriber_id,
            url: url.to_owned(),
            enabled,
            headers: headers(row.headers)?,
        })
    }
}

fn headers(
    attribute: Option<Result<Vec<(&str, Attribute<'_>)>, Attribute<'_>>>,
) -> Result<CustomHeaders, HeaderError> {
    let headers = match attribute {
        None => return Ok(CustomHeaders::default()),
        Some(Ok(headers)) => headers,
        Some(Err(_)) => return Err(HeaderError::NotAMap),
    };
    let headers = headers
        .into_iter()
        .map(|(name, value)| match value {
            Attribute::Text(value) => Ok((name, value)),
            Attribute::Flag(_) | Attribute::Other => Err(HeaderError::WrongType(name.to_owned())),
        })
        .collect::<Result<Vec<_>, _>>()?;
    CustomHeaders::new(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Row<'static> = Row {
        subscriber_id: Some(Attribute::Text("kasse-nord")),
        url: Some(Attribute::Text("https://example.com/hook")),
        enabled: Some(Attribute::Flag(true)),
        headers: None,
    };

    #[test]
    fn a_row_with_the_three_attributes_is_a_subscription() {
        assert_eq!(
            Subscription::from_row(GOOD).unwrap(),
            Subscription {
                subscriber_id: SubscriberId::parse("kasse-nord").unwrap(),
                url: "https://example.com/hook".into(),
                enabled: true,
                headers: CustomHeaders::default(),
            }
        );
        let off = Row {
            enabled: Some(Attribute::Flag(false)),
            ..GOOD
        };
        assert!(!Subscription::from_row(off).unwrap().enabled);
        let with_headers = Row {
            headers: Some(Ok(vec![
                ("X-Api-Key", Attribute::Text("k")),
                ("Webhook-Id", Attribute::Text("forged")),
            ])),
            ..GOOD
        };
        let headers = Subscription::from_row(with_headers).unwrap().headers;
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("x-api-key", "k")]);
    }

    #[test]
    fn debug_output_tells_names_of_headers_and_no_values() {
        let row = Row {
            headers: Some(Ok(vec![("x-api-key", Attribute::Text("hidden"))])),
            ..GOOD
        };
        assert_eq!(
            format!("{:?}", row.headers),
            r#"Some(Ok([("x-api-key", Text(redacted))]))"#
        );
        let subscription = format!("{:?}", Subscription::from_row(row).unwrap());
        assert!(
            subscription.ends_with(r#"headers: {"x-api-key"} }"#),
            "{subscription}"
        );
    }

    #[test]
    fn a_bad_row_names_its_attribute() {
        for (row, message) in [
            (
                Row {
                    subscriber_id: None,
                    ..GOOD
                },
                "`subscriberId` is missing",
            ),
            (Row { url: None, ..GOOD }, "`url` is missing"),
            (
                Row {
                    url: Some(Attribute::Other),
                    ..GOOD
                },
                "`url` is not a string (S)",
            ),
            (
                Row {
                    url: Some(Attribute::Flag(true)),
                    ..GOOD
                },
                "`url` is not a string (S)",
            ),
            (
                Row {
                    url: Some(Attribute::Text("")),
                    ..GOOD
                },
                "`url` is empty",
            ),
            (
                Row {
                    enabled: None,
                    ..GOOD
                },
                "`enabled` is missing",
            ),
            (
                Row {
                    enabled: Some(Attribute::Text("true")),
                    ..GOOD
                },
                "`enabled` is not a boolean (BOOL)",
            ),
            (
                Row {
                    subscriber_id: Some(Attribute::Text("客户 1")),
                    ..GOOD
                },
                "`subscriberId`: a subscriberId is 1 to 64 characters of A-Z, a-z, 0-9, `_` and `-`",
            ),
            (
                Row {
                    headers: Some(Err(Attribute::Text("{}"))),
                    ..GOOD
                },
                "`headers`: not a map (M)",
            ),
            (
                Row {
                    headers: Some(Ok(vec![("x-a", Attribute::Flag(true))])),
                    ..GOOD
                },
                "`headers`: the value of the header `x-a` is not a string (S)",
            ),
            (
                Row {
                    headers: Some(Ok(vec![("x-a", Attribute::Text("1\r\nx-b: 2"))])),
                    ..GOOD
                },
                "`headers`: the value of the header `x-a` must be visible ASCII with spaces only \
                 inside, at most 1024 characters",
            ),
        ] {
            assert_eq!(
                Subscription::from_row(row).unwrap_err().to_string(),
                message
            );
        }
    }
}
