//! One POST: what is sent, how long it may take, and what its end means.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;
use webhooks_core::endpoint::{EndpointError, EndpointRules};
use webhooks_core::outcome::{Failure, Outcome};
use webhooks_core::retry_after::RetryAfter;

use crate::connection::{ConnectionRecord, Connector, ResolveError};

/// How much of an answer is ever read, head and body each, in bytes.
const ANSWER_MAX_BYTES: usize = 16 * 1024;

/// How long an answer's body is waited for once its status line has decided. Reading it to the
/// end is only of use for the connection.
const BODY_PATIENCE: Duration = Duration::from_millis(100);

/// How long a connection is kept without use. Common servers close theirs after 60 s or more.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// How long connecting may take, of the attempt's own time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest error text that is kept, in characters.
const ERROR_MAX_CHARS: usize = 300;

/// Names the sender to receivers.
const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!("sqs-webhooks/", env!("CARGO_PKG_VERSION")));

type HttpClient = Client<Connector, Full<Bytes>>;

/// The HTTP client of the function. It speaks HTTP/1.1, follows no redirect, uses no proxy, keeps
/// no cookie and decompresses nothing.
pub(crate) struct Poster {
    /// Uses connections again, within and across invocations.
    pooled: HttpClient,
    /// Always connects anew.
    fresh: HttpClient,
}

/// How a POST ended.
#[derive(Debug)]
pub(crate) struct Posted {
    /// What it came to.
    pub outcome: Outcome,
    /// What went wrong, for a person, if nothing was answered. Holds no part of the url.
    pub error: Option<String>,
}

impl Posted {
    /// Whether no answer came in time.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(
            self.outcome,
            Outcome::Retry {
                failure: Failure::Timeout,
                ..
            }
        )
    }
}

impl Poster {
    /// A client that goes where the rules allow.
    ///
    /// # Errors
    /// If TLS can not be set up.
    pub(crate) fn new(rules: EndpointRules) -> Result<Self, rustls::Error> {
        let connector = Connector::new(rules, CONNECT_TIMEOUT)?;
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .http1_max_buf_size(ANSWER_MAX_BYTES);
        let pooled = builder.build(connector.clone());
        let fresh = builder.pool_max_idle_per_host(0).build(connector);
        Ok(Self { pooled, fresh })
    }

    /// POSTs `body` to `uri`. Connecting, sending and the status line together may take `limit`.
    pub(crate) async fn post(
        &self,
        uri: Uri,
        signed_headers: HeaderMap,
        body: Bytes,
        limit: Duration,
    ) -> Posted {
        let deadline = Instant::now() + limit;
        let exchange = self.exchange(uri, signed_headers, body);
        let response = match tokio::time::timeout_at(deadline, exchange).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return failed(&error),
            Err(_) => {
                return Posted {
                    outcome: Outcome::without_answer(Failure::Timeout),
                    error: Some(format!("no answer within {} ms", limit.as_millis())),
                };
            }
        };
        let outcome =
            Outcome::of_response(response.status().as_u16(), retry_after(response.headers()));
        let patience = deadline.min(Instant::now() + BODY_PATIENCE);
        // Whatever comes of the body, the status line has decided.
        let _ = tokio::time::timeout_at(patience, finish(response)).await;
        Posted {
            outcome,
            error: None,
        }
    }

    /// Sends the request, and once more on a new connection if the first one was a reused
    /// connection that had died unnoticed.
    async fn exchange(
        &self,
        uri: Uri,
        signed_headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let request = || {
            let mut request = Request::new(Full::new(body.clone()));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = uri.clone();
            let headers = request.headers_mut();
            *headers = signed_headers.clone();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(USER_AGENT, USER_AGENT_VALUE);
            request
        };
        match self.pooled.request(request()).await {
            Err(error) if record_of(&error).is_some_and(|record| record.was_idle_until_now()) => {
                self.fresh.request(request()).await
            }
            result => result,
        }
    }
}

/// The record of the connection on which an error occurred.
fn record_of(error: &ClientError) -> Option<ConnectionRecord> {
    let mut extensions = hyper::http::Extensions::new();
    error.connect_info()?.get_extras(&mut extensions);
    extensions.remove()
}

/// The latest of the times that the answer asks for; a header may be repeated.
fn retry_after(headers: &HeaderMap) -> Option<RetryAfter> {
    let now = std::time::SystemTime::now();
    headers
        .get_all(RETRY_AFTER)
        .iter()
        .filter_map(|value| RetryAfter::parse(value.as_bytes()))
        .max_by_key(|retry_after| retry_after.seconds_from(now))
}

/// Reads an answer's body to its end, so that the connection can be used again, but never more
/// than [`ANSWER_MAX_BYTES`]: a longer one costs the connection.
async fn finish(response: Response<Incoming>) {
    let (parts, mut body) = response.into_parts();
    let mut bytes = 0;
    while !body.is_end_stream() {
        match body.frame().await {
            Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) => return,
            None => break,
        }
        if bytes > ANSWER_MAX_BYTES {
            return;
        }
    }
    if let Some(record) = parts.extensions.get::<ConnectionRecord>() {
        record.answer_ended();
    }
}

/// What an exchange without an answer means.
fn failed(error: &ClientError) -> Posted {
    let mut failure = if error.is_connect() {
        Failure::Connect
    } else {
        Failure::Connection
    };
    let mut text = String::new();
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(blocked) = error.downcast_ref::<EndpointError>() {
            return Posted {
                outcome: Outcome::Blocked(blocked.clone()),
                error: Some(blocked.to_string()),
            };
        }
        if error.is::<ResolveError>() {
            failure = Failure::Dns;
        } else if error.is::<rustls::Error>() {
            failure = Failure::Tls;
        } else if error
            .downcast_ref::<hyper::Error>()
            .is_some_and(|error| error.is_parse())
        {
            failure = Failure::Protocol;
        }
        let words = error.to_string();
        if !text.contains(&words) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&words);
        }
        cause = inner(error).or_else(|| error.source());
    }
    Posted {
        outcome: Outcome::without_answer(failure),
        error: Some(text.chars().take(ERROR_MAX_CHARS).collect()),
    }
}

/// The error inside an `io::Error`, which its `source()` passes over.
fn inner<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    let inner = error.downcast_ref::<std::io::Error>()?.get_ref()?;
    Some(inner)
}
