//! A webhook as a sender sends it, signed by a second reading of the specification, in all the
//! forms in which a receiver gets it.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::signature::v1;

/// A POST that carries an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// `webhook-id`.
    pub id: String,
    /// `webhook-timestamp`.
    pub timestamp: String,
    /// `webhook-signature`.
    pub signature: String,
    /// The body.
    pub body: String,
}

impl Webhook {
    /// The body of an event that happened some time ago.
    #[must_use]
    pub fn body_of(event_type: &str, data: &str) -> String {
        format!(r#"{{"type":"{event_type}","timestamp":"2026-11-30T12:00:00Z","data":{data}}}"#)
    }

    /// A webhook with this body, sent now.
    #[must_use]
    pub fn now(secret: &str, id: &str, body: &str) -> Self {
        Self::at(now_seconds(), secret, id, body)
    }

    /// A webhook with this body, sent at this time in seconds since 1970.
    #[must_use]
    pub fn at(seconds: u64, secret: &str, id: &str, body: &str) -> Self {
        let timestamp = seconds.to_string();
        Self {
            signature: v1(secret, id, &timestamp, body.as_bytes()),
            id: id.to_owned(),
            timestamp,
            body: body.to_owned(),
        }
    }

    /// Its headers.
    #[must_use]
    pub fn headers(&self) -> [(&str, &str); 4] {
        [
            ("content-type", "application/json"),
            ("webhook-id", &self.id),
            ("webhook-timestamp", &self.timestamp),
            ("webhook-signature", &self.signature),
        ]
    }

    /// The event with which a function URL hands it over.
    #[must_use]
    pub fn event(&self) -> Value {
        function_url_event("POST", &self.headers(), &self.body)
    }

    /// The same with the body in base64, which the receiver must undo.
    #[must_use]
    pub fn event_in_base64(&self) -> Value {
        let mut event = self.event();
        event["body"] = STANDARD.encode(&self.body).into();
        event["isBase64Encoded"] = true.into();
        event
    }
}

/// What a function URL hands over (payload format version 2.0) for a request with these headers,
/// whose names are in lower case.
#[must_use]
pub fn function_url_event(method: &str, headers: &[(&str, &str)], body: &str) -> Value {
    let mut all = Map::new();
    for (name, value) in headers {
        // The values of one that comes twice are joined.
        let value = match all.get(*name).and_then(Value::as_str) {
            Some(before) => format!("{before},{value}"),
            None => (*value).to_owned(),
        };
        all.insert((*name).to_owned(), value.into());
    }
    all.insert("x-forwarded-proto".into(), "https".into());
    let mut event = json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/",
        "rawQueryString": "",
        "headers": all,
        "requestContext": {
            "accountId": "anonymous",
            "apiId": "url",
            "domainName": "url.lambda-url.eu-central-1.on.aws",
            "http": {
                "method": method,
                "path": "/",
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1",
                "userAgent": "sqs-webhooks/0.1.0",
            },
            "requestId": "8476a536-e9f4-11e8-9739-000000000001",
            "routeKey": "$default",
            "stage": "$default",
            "time": "30/Nov/2026:12:00:00 +0000",
            "timeEpoch": 1_796_040_000_000_u64,
        },
        "isBase64Encoded": false,
    });
    // A request without a body has none.
    if !body.is_empty() {
        event["body"] = body.into();
    }
    event
}

/// Seconds since 1970.
#[must_use]
pub fn now_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}
