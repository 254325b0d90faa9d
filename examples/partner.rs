//! A partner's endpoint for webhooks in Rust, with the official library.
//!
//! ```toml
//! base64 = "0.23"
//! http-body-util = "0.1"
//! hyper = { version = "1", features = ["http1", "server"] }
//! hyper-util = { version = "0.1", features = ["tokio"] }
//! ring = "0.17"
//! serde_json = "1"
//! standardwebhooks = "1.0.1"
//! tokio = { version = "1", features = ["macros", "net", "rt", "time"] }
//! ```
//!
//! base64 and ring are only for keys that begin with `whpk_`, which the library does not know.

use std::collections::HashSet;
use std::convert::Infallible;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderMap;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use ring::signature::{ED25519, UnparsedPublicKey};
use standardwebhooks::Webhook;

const LARGEST_BODY: usize = 1024 * 1024;
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// `secrets` has two during a rotation, with white space between them.
fn is_genuine(secrets: &str, headers: &HeaderMap, body: &[u8]) -> bool {
    secrets.split_whitespace().any(|secret| {
        if secret.starts_with("whpk_") {
            verify_ed25519(secret, headers, body).is_some()
        } else {
            Webhook::new(secret).is_ok_and(|webhook| webhook.verify(body, headers).is_ok())
        }
    })
}

/// `None` if the signature is not right.
fn verify_ed25519(key: &str, headers: &HeaderMap, body: &[u8]) -> Option<()> {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let (id, timestamp) = (header("webhook-id")?, header("webhook-timestamp")?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    if now.abs_diff(timestamp.parse().ok()?) > 300 {
        return None;
    }
    let key = STANDARD.decode(key.strip_prefix("whpk_")?).ok()?;
    let signed = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
    let entries = header("webhook-signature")?.split(' ');
    entries
        .filter_map(|entry| STANDARD.decode(entry.strip_prefix("v1a,")?).ok())
        .find_map(|signature| {
            let key = UnparsedPublicKey::new(&ED25519, &key);
            key.verify(&signed, &signature).ok()
        })
}

/// What lasts from one request to the next.
struct Endpoint {
    secrets: String,
    /// In production a table, written in the same transaction as what the event changes.
    seen: Mutex<HashSet<String>>,
}

impl Endpoint {
    async fn status(&self, request: Request<Incoming>) -> StatusCode {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, LARGEST_BODY).collect();
        let Ok(body) = tokio::time::timeout(TIME_LIMIT, body).await else {
            return StatusCode::REQUEST_TIMEOUT;
        };
        let Ok(body) = body else {
            return StatusCode::PAYLOAD_TOO_LARGE;
        };
        let body = body.to_bytes(); // the bytes as they came, before any parser
        if !is_genuine(&self.secrets, &head.headers, &body) {
            return StatusCode::UNAUTHORIZED;
        }
        let id = head.headers.get("webhook-id");
        let id = id.and_then(|id| id.to_str().ok()).unwrap_or_default();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.insert(id.to_owned()) {
            let event: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let event_type = event.get("type").and_then(|name| name.as_str());
            println!("received {} {id}", event_type.unwrap_or_default());
        }
        StatusCode::ACCEPTED
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = Arc::new(Endpoint {
        secrets: std::env::var("WEBHOOKS_SECRET")?,
        seen: Mutex::default(),
    });
    let port = std::env::var("PORT").map_or(Ok(8000), |port| port.parse())?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let endpoint = Arc::clone(&endpoint);
        tokio::spawn(async move {
            let answer = service_fn(|request| async {
                let mut response = Response::new(Empty::<Bytes>::new());
                *response.status_mut() = endpoint.status(request).await;
                Ok::<_, Infallible>(response)
            });
            // A client may hang up whenever it likes.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(TIME_LIMIT)
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}
