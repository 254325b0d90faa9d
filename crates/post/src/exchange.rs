//! One POST: how long it may take, and what its end means.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, RETRY_AFTER};
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;
use webhooks_core::endpoint::EndpointRules;
use webhooks_core::outcome::{Failure, Outcome};
use webhooks_core::retry_after::RetryAfter;

use crate::connection::{Connector, Trust};
use crate::counted::{ANSWER_MAX_BYTES, ConnectionRecord};
use crate::failure::failed;

/// How long an answer's body is waited for once its status line has decided. Reading it to the
/// end is only of use for the connection.
const BODY_PATIENCE: Duration = Duration::from_millis(100);

/// How long a connection is kept without use. Servers close theirs after 5 s (Node.js) to 75 s
/// (nginx), and one that was closed unnoticed is replaced at once, so this only bounds how many
/// are kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// How many connections are open before further ones are not kept after use. Each costs memory
/// and one of the 1024 file descriptors that Lambda gives.
const KEPT_CONNECTIONS: usize = 200;

/// How long connecting may take, of the attempt's own time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A reused connection that was dead already fails at once. One that fails later was alive: its
/// peer may have taken the request, and whether it is sent again is for the retry policy.
const DEAD_WITHIN: Duration = Duration::from_secs(1);

type HttpClient = Client<Connector, Full<Bytes>>;

/// The connection of an exchange, and the number of the answer on it.
type Exchange = (ConnectionRecord, usize);

/// The HTTP client. It speaks HTTP/1.1, follows no redirect, uses no proxy, keeps
/// no cookie and decompresses nothing.
pub struct Poster {
    /// Uses connections again, within and across invocations.
    pooled: HttpClient,
    /// Always connects anew.
    fresh: HttpClient,
    /// What both connect with.
    connector: Connector,
}

/// How a POST ended.
#[derive(Debug)]
pub struct Posted {
    /// What it came to.
    pub outcome: Outcome,
    /// What went wrong, for a person, if nothing was answered. Holds no part of the url.
    pub error: Option<String>,
    /// How long it took from the beginning to the status line, or to the failure.
    pub elapsed: Duration,
    /// The answer's body. `None` if there was no answer, or its end did not come within 100 ms of
    /// the status line and the 16 KiB that an answer may have: then nothing of it is known.
    pub answer: Option<Bytes>,
}

impl Posted {
    /// Whether no answer came in time.
    pub fn is_timeout(&self) -> bool {
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
    /// A client that goes where the rules allow, to servers that are vouched for.
    ///
    /// # Errors
    /// If TLS can not be set up.
    pub fn new(rules: EndpointRules, trust: &Trust) -> Result<Self, rustls::Error> {
        let connector = Connector::new(rules, trust, CONNECT_TIMEOUT)?;
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .http1_max_buf_size(ANSWER_MAX_BYTES);
        let pooled = builder.build(connector.clone());
        let fresh = builder.pool_max_idle_per_host(0).build(connector.clone());
        Ok(Self {
            pooled,
            fresh,
            connector,
        })
    }

    /// POSTs `body` to `uri`. Connecting, sending and the status line together may take `limit`.
    pub async fn post(&self, uri: Uri, headers: HeaderMap, body: Bytes, limit: Duration) -> Posted {
        let began = Instant::now();
        let deadline = began + limit;
        let body_bytes = body.len();
        let exchange = self.exchange(uri, headers, body);
        let result = tokio::time::timeout_at(deadline, exchange).await;
        let elapsed = began.elapsed();
        let (outcome, error, answer) = match result {
            Ok(Ok((response, exchange))) => {
                let status = response.status().as_u16();
                let outcome = Outcome::of_response(status, retry_after(response.headers()));
                let answer = finish(response, deadline).await;
                if let Some((connection, number)) = exchange {
                    connection.exchange_ended(number, answer.is_some(), body_bytes);
                }
                (outcome, None, answer)
            }
            Ok(Err(error)) => {
                let (outcome, text) = failed(&error);
                (outcome, Some(text), None)
            }
            Err(_) => (
                Outcome::without_answer(Failure::Timeout),
                Some(format!("no answer within {} ms", limit.as_millis())),
                None,
            ),
        };
        Posted {
            outcome,
            error,
            elapsed,
            answer,
        }
    }

    /// Sends the request, and once more on a new connection if the first one was a reused
    /// connection that had died unnoticed.
    async fn exchange(
        &self,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(Response<Incoming>, Option<Exchange>), ClientError> {
        let request = || {
            let mut request = Request::new(Full::new(body.clone()));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = uri.clone();
            *request.headers_mut() = headers.clone();
            request
        };
        let client = if self.connector.open_connections() < KEPT_CONNECTIONS {
            &self.pooled
        } else {
            &self.fresh
        };
        let began = Instant::now();
        let response = match client.request(request()).await {
            Err(error)
                if began.elapsed() < DEAD_WITHIN
                    && connection_of(&error)
                        .is_some_and(|connection| connection.was_idle_from(began)) =>
            {
                self.fresh.request(request()).await?
            }
            result => result?,
        };
        let exchange = response
            .extensions()
            .get::<ConnectionRecord>()
            .cloned()
            .map(|connection| {
                let answer = connection.answer_began();
                (connection, answer)
            });
        Ok((response, exchange))
    }
}

/// The record of the connection on which an error occurred.
fn connection_of(error: &ClientError) -> Option<ConnectionRecord> {
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

/// Reads what is left of an answer, so that the connection can be used again; `None` if its end was
/// not reached. Whatever comes of it, the status line has decided.
async fn finish(response: Response<Incoming>, deadline: Instant) -> Option<Bytes> {
    let patience = deadline.min(Instant::now() + BODY_PATIENCE);
    let body = tokio::time::timeout_at(patience, response.into_body().collect()).await;
    Some(body.ok()?.ok()?.to_bytes())
}
