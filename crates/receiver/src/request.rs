//! What of a request counts, and every reason to refuse one before or after its signature was
//! looked at.

use bytes::Bytes;
use webhooks_core::json::JsonError;
use webhooks_core::signature::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use webhooks_core::verify::{Rejection, Signed};

/// The largest body that is taken, in bytes: what EventBridge and SQS carry at most.
pub const BODY_MAX_BYTES: usize = 1024 * 1024;

/// The longest `webhook-id`, in bytes: the longest partition key of DynamoDB.
pub const ID_MAX_BYTES: usize = 2048;

/// A request, however it came.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    content_type: Option<String>,
    id: Option<String>,
    timestamp: Option<String>,
    signature: Option<String>,
    pub(crate) body: Bytes,
}

/// Why a request is not taken, now or later. None of the texts quotes what came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It wants something else than to deliver.
    #[error("only POST is taken")]
    Method,
    /// Its body is larger than [`BODY_MAX_BYTES`].
    #[error("the body has more than {BODY_MAX_BYTES} bytes")]
    TooLarge,
    /// Its event does not fit into an item of the table, not even compressed.
    #[error("the event is too large to be stored")]
    TooLargeToStore,
    /// Its body is of another type than JSON.
    #[error("the content type is not application/json")]
    ContentType,
    /// One of the three headers is missing or empty.
    #[error("the header {0} is missing")]
    MissingHeader(&'static str),
    /// Its id can not be remembered.
    #[error("{ID_HEADER} has more than {ID_MAX_BYTES} bytes")]
    LongId,
    /// Its headers and body are not what the sender signed, or not now.
    #[error("{0}")]
    Rejected(Rejection),
    /// What was signed is not text.
    #[error("the body is not UTF-8")]
    NotText,
    /// What was signed is not an event.
    #[error("the body is not an event with type, timestamp and data: {0}")]
    NotAnEvent(JsonError),
    /// Its type is empty or longer than those of EventBridge.
    #[error("`type` is empty or has more than 256 bytes")]
    Type,
    /// Its timestamp is not one.
    #[error("`timestamp` is not a date of RFC 3339")]
    Timestamp,
    /// The function URL has encoded it in another way than it says.
    #[error("the body can not be decoded")]
    Encoding,
    /// It took too long to come.
    #[error("the body did not come in time")]
    Slow,
    /// It ended before its end.
    #[error("the body was cut off")]
    Cut,
}

impl Request {
    /// A request; `header` looks up a header by its name in lower case. Of a header that came
    /// more than once it gives all values, joined by commas.
    pub fn new(method: &str, header: impl Fn(&str) -> Option<String>, body: Bytes) -> Self {
        Self {
            method: method.to_owned(),
            content_type: header("content-type"),
            id: header(ID_HEADER),
            timestamp: header(TIMESTAMP_HEADER),
            signature: header(SIGNATURE_HEADER),
            body,
        }
    }

    /// Checks what can be seen without a secret, and gives the headers to verify.
    pub(crate) fn check(&self) -> Result<Signed<'_>, Refusal> {
        if self.method != "POST" {
            return Err(Refusal::Method);
        }
        if self.body.len() > BODY_MAX_BYTES {
            return Err(Refusal::TooLarge);
        }
        if !self.content_type.as_deref().is_some_and(is_json) {
            return Err(Refusal::ContentType);
        }
        let signed = Signed {
            id: present(&self.id, ID_HEADER)?,
            timestamp: present(&self.timestamp, TIMESTAMP_HEADER)?,
            signature: present(&self.signature, SIGNATURE_HEADER)?,
        };
        if signed.id.len() > ID_MAX_BYTES {
            return Err(Refusal::LongId);
        }
        Ok(signed)
    }
}

/// `application/json`, whatever parameters follow it (RFC 9110 §8.3.1).
fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

fn present<'a>(value: &'a Option<String>, name: &'static str) -> Result<&'a str, Refusal> {
    value
        .as_deref()
        .filter(|value| !value.is_empty())
        .ok_or(Refusal::MissingHeader(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_known_by_its_type_alone() {
        for (content_type, expected) in [
            ("application/json", true),
            ("Application/JSON ; charset=utf-8", true),
            ("application/json, application/json", false),
            ("application/jsonl", false),
            ("text/json", false),
            ("", false),
        ] {
            assert_eq!(is_json(content_type), expected, "{content_type}");
        }
    }
}
