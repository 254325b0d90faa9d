//! The headers that a subscription adds to its requests, such as a partner's API key.
//!
//! They come last and mean least: what signs, frames or routes a request can not be set by them.

use std::fmt;

/// The most headers of a subscription.
pub const MOST_HEADERS: usize = 16;
/// The longest name, in bytes.
const NAME_MAX_BYTES: usize = 64;
/// The longest value, in bytes.
const VALUE_MAX_BYTES: usize = 1024;
/// The most that all names and values have together, in bytes.
const ALL_MAX_BYTES: usize = 4096;

/// Names that are not a subscription's to set: those that sign the request, say whom it is for and
/// from, and how it is framed (RFC 9110 §7.6.1, RFC 9112 §6).
const RESERVED: [&str; 13] = [
    "accept-encoding",
    "connection",
    "date",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];
/// And all that begin like this.
const RESERVED_BEGINNINGS: [&str; 3] = ["webhook-", "content-", "proxy-"];

/// Headers that may be sent as they are. `Debug` tells the names alone: a value may be a credential.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CustomHeaders(Vec<(String, String)>);

impl fmt::Debug for CustomHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_set().entries(names).finish()
    }
}

/// Why headers can not be sent. Never carries a value, which may be a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// There are more than anybody needs.
    #[error("there are {0} headers, at most {MOST_HEADERS} are allowed")]
    TooMany(usize),
    /// They are longer than many servers would take.
    #[error("the headers have {0} bytes, at most {ALL_MAX_BYTES} are allowed")]
    TooLong(usize),
    /// A name that no header has (RFC 9110 §5.1), cut after its first characters.
    #[error(
        "`{0}` is not a header name: letters, digits and !#$%&'*+-.^_`|~, at most {NAME_MAX_BYTES}"
    )]
    Name(String),
    /// Two names that differ in upper and lower case only.
    #[error("the header `{0}` is there twice")]
    Twice(String),
    /// A value that no header has (RFC 9110 §5.5), or that would come in two lines.
    #[error(
        "the value of the header `{0}` must be visible ASCII with spaces only inside, at most \
         {VALUE_MAX_BYTES} characters"
    )]
    Value(String),
    /// A value of another type.
    #[error("the value of the header `{0}` is not a string (S)")]
    WrongType(String),
    /// The attribute itself has another type.
    #[error("not a map (M)")]
    NotAMap,
}

/// Whether a name can not be set by a subscription.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED.contains(&name.as_str())
        || RESERVED_BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning))
}

impl CustomHeaders {
    /// Reads names and values. Reserved names are left out, so that a row which has one is still
    /// delivered to; names become lower case.
    ///
    /// # Errors
    /// If what is left can not be sent as it is.
    pub fn new<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, HeaderError> {
        let mut checked: Vec<(String, String)> = headers
            .into_iter()
            .filter(|(name, _)| !is_reserved(name))
            .map(|(name, value)| check(name, value))
            .collect::<Result<_, _>>()?;
        if checked.len() > MOST_HEADERS {
            return Err(HeaderError::TooMany(checked.len()));
        }
        checked.sort();
        let bytes = checked
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if bytes > ALL_MAX_BYTES {
            return Err(HeaderError::TooLong(bytes));
        }
        let twice = checked
            .iter()
            .zip(checked.iter().skip(1))
            .find(|((name, _), (next, _))| name == next);
        match twice {
            Some(((name, _), _)) => Err(HeaderError::Twice(name.clone())),
            None => Ok(Self(checked)),
        }
    }

    /// Names, in lower case and in their order, and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

fn check(name: &str, value: &str) -> Result<(String, String), HeaderError> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > NAME_MAX_BYTES || !name.bytes().all(is_token) {
        return Err(HeaderError::Name(
            name.chars().take(NAME_MAX_BYTES).collect(),
        ));
    }
    let visible = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !visible || value.trim() != value || value.len() > VALUE_MAX_BYTES {
        return Err(HeaderError::Value(name.to_owned()));
    }
    Ok((name.to_ascii_lowercase(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_headers_are_sent_by_their_lower_case_names() {
        let headers = CustomHeaders::new([("X-Tenant", "a b"), ("Authorization", "Bearer x=")]);
        assert_eq!(
            headers.unwrap().iter().collect::<Vec<_>>(),
            [("authorization", "Bearer x="), ("x-tenant", "a b")]
        );
        assert_eq!(CustomHeaders::new([("x-empty", "")]).unwrap().0.len(), 1);
        assert_eq!(CustomHeaders::new([]).unwrap(), CustomHeaders::default());
    }

    #[test]
    fn debug_output_tells_names_and_no_values() {
        let headers = CustomHeaders::new([("X-Api-Key", "hidden"), ("x-b", "hidden")]).unwrap();
        assert_eq!(format!("{headers:?}"), r#"{"x-api-key", "x-b"}"#);
    }

    #[test]
    fn what_signs_frames_or_routes_a_request_is_left_out() {
        for name in [
            "Webhook-Signature",
            "webhook-id",
            "webhook-whatever",
            "Host",
            "content-type",
            "Content-Length",
            "Transfer-Encoding",
            "connection",
            "Proxy-Authorization",
            "User-Agent",
            "accept-encoding",
            "Expect",
            "upgrade",
        ] {
            assert!(is_reserved(name), "{name}");
            let headers = CustomHeaders::new([(name, "x\r\ny"), ("x-a", "1")]).unwrap();
            assert_eq!(headers.iter().collect::<Vec<_>>(), [("x-a", "1")], "{name}");
        }
        assert!(!is_reserved("x-webhook-id"));
    }

    #[test]
    fn what_no_header_can_be_is_refused_without_its_value() {
        for name in ["", "a b", "a:b", "a\r\nb", "größe", "a\0", &"x".repeat(65)] {
            let error = CustomHeaders::new([(name, "1")]).unwrap_err();
            let shown: String = name.chars().take(64).collect();
            assert_eq!(error, HeaderError::Name(shown), "{name:?}");
        }
        for value in [
            "a\r\nX-Injected: 1",
            "a\n",
            "\0",
            "\u{7f}",
            "é",
            "a\tb",
            " a",
            "a ",
            &"x".repeat(1025),
        ] {
            let error = CustomHeaders::new([("x-a", value)]).unwrap_err();
            assert_eq!(error, HeaderError::Value("x-a".into()), "{value:?}");
        }
    }

    #[test]
    fn they_are_bounded_and_each_is_there_once() {
        let names: Vec<String> = (0..17).map(|number| format!("x-{number}")).collect();
        let all = || names.iter().map(|name| (name.as_str(), "1"));
        assert!(CustomHeaders::new(all().take(16)).is_ok());
        assert_eq!(CustomHeaders::new(all()), Err(HeaderError::TooMany(17)));
        let long = "x".repeat(1021);
        let four = ["x-a", "x-b", "x-c", "x-d"].map(|name| (name, long.as_str()));
        assert!(CustomHeaders::new(four).is_ok());
        let more = four.into_iter().chain([("y", "")]);
        assert_eq!(CustomHeaders::new(more), Err(HeaderError::TooLong(4097)));
        assert_eq!(
            CustomHeaders::new([("X-A", "1"), ("x-a", "2")]),
            Err(HeaderError::Twice("x-a".into()))
        );
    }
}
