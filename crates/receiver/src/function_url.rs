//! The way in through a Lambda function URL (payload format version 2.0): header names come in lower
//! case, the values of a header that was sent twice are joined by commas, and a body may be in
//! base64, whatever its type.

use std::collections::BTreeMap;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::request::{Refusal, Request};
use crate::{Receiver, request};

/// A request as Lambda hands it over.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    request_context: RequestContext,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Debug, Deserialize)]
struct RequestContext {
    http: Http,
}

#[derive(Debug, Deserialize)]
struct Http {
    method: String,
}

/// An answer as Lambda wants it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    status_code: u16,
    headers: BTreeMap<&'static str, String>,
    body: String,
    is_base64_encoded: bool,
}

impl Receiver {
    /// Answers a request that came through a function URL.
    pub async fn handle_event(&self, event: Event, now: SystemTime) -> Response {
        let answer = match event.into_request() {
            Ok(request) => self.handle(&request, now).await,
            Err(refusal) => {
                let answer = Answer::Refused(refusal);
                answer.log();
                answer
            }
        };
        Response {
            status_code: answer.status(),
            headers: answer.headers().into_iter().collect(),
            body: answer.body(),
            is_base64_encoded: false,
        }
    }
}

impl Event {
    fn into_request(self) -> Result<Request, Refusal> {
        let body = self.body.unwrap_or_default();
        let body = match self.is_base64_encoded {
            false => body.into_bytes(),
            // It would be refused all the same.
            true if body.len() / 4 * 3 > request::BODY_MAX_BYTES + 3 => {
                return Err(Refusal::TooLarge);
            }
            true => STANDARD.decode(body).map_err(|_| Refusal::Encoding)?,
        };
        Ok(Request::new(
            &self.request_context.http.method,
            |name| self.headers.get(name).cloned(),
            Bytes::from(body),
        ))
    }
}
