//! The partners: one server for each address, with an answer that is always the same. Their
//! threads are their own, so that what they cost is in no figure.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use sha2::Sha256;

use crate::Error;
use crate::aws::SECRET;
use crate::http::{Connection, Server, header};
use crate::workload::Script;

/// How many requests are kept, to be looked at.
const KEPT: usize = 10;

/// How partners answer.
#[derive(Debug, Clone)]
pub struct Manner {
    /// With which status.
    pub script: Script,
    /// After what time.
    pub delay: Duration,
    /// Whether they end the connection after each answer.
    pub closes: bool,
    /// Whom they are, if they speak TLS.
    pub tls: Option<Arc<ServerConfig>>,
}

#[derive(Debug, Default)]
struct Seen {
    posts: AtomicUsize,
    connections: AtomicUsize,
    kept: Mutex<Vec<Vec<u8>>>,
}

/// The partners.
#[derive(Debug)]
pub struct Partners {
    seen: Arc<Seen>,
    servers: Vec<Server>,
    scheme: &'static str,
}

impl Partners {
    /// Partners at this many addresses.
    ///
    /// # Errors
    /// If there are not as many.
    pub fn start(addresses: usize, manner: &Manner) -> Result<Self, Error> {
        let seen = Arc::new(Seen::default());
        let scheme = if manner.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let servers: io::Result<Vec<Server>> = (0..addresses)
            .map(|address| {
                let (manner, seen) = (manner.clone(), Arc::clone(&seen));
                let answer = answer(manner.script.fails(address), manner.closes);
                Server::start(move |stream| {
                    seen.connections.fetch_add(1, Ordering::Relaxed);
                    match &manner.tls {
                        None => serve(&mut Connection::new(stream), &manner, &answer, &seen),
                        Some(config) => {
                            let tls = ServerConnection::new(Arc::clone(config));
                            let tls = tls.map_err(io::Error::other)?;
                            let mut tls = Connection::new(StreamOwned::new(tls, stream));
                            serve_tls(&mut tls, &manner, &answer, &seen)
                        }
                    }
                })
            })
            .collect();
        Ok(Self {
            seen,
            servers: servers?,
            scheme,
        })
    }

    /// Their urls.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        let url = |server: &Server| format!("{}://{}/hook", self.scheme, server.address());
        self.servers.iter().map(url).collect()
    }

    /// How many POSTs have come so far.
    #[must_use]
    pub fn posts(&self) -> usize {
        self.seen.posts.load(Ordering::Relaxed)
    }

    /// How many connections have come so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::Relaxed)
    }

    /// Whether the first requests since the last look, at least one, are signed webhooks with
    /// this payload.
    ///
    /// # Errors
    /// What is wrong with one.
    pub fn check_requests(&self, payload: &str) -> Result<(), Error> {
        let kept = std::mem::take(&mut *self.kept());
        if kept.is_empty() {
            return Err(Error::new("no request was kept"));
        }
        for request in kept {
            check(&request, payload).map_err(|problem| {
                let text = String::from_utf8_lossy(&request);
                Error::new(format!("{problem} in {text:.600}"))
            })?;
        }
        Ok(())
    }

    /// Forgets the requests that were kept, so that the next ones are.
    pub fn forget_requests(&self) {
        self.kept().clear();
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.seen
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(fails: bool, closes: bool) -> Vec<u8> {
    let status = if fails {
        "500 Internal Server Error\r\ncontent-length: 0\r\n"
    } else {
        "204 No Content\r\n"
    };
    let closes = if closes { "connection: close\r\n" } else { "" };
    format!("HTTP/1.1 {status}{closes}\r\n").into_bytes()
}

fn serve_tls<S: Read + Write>(
    connection: &mut Connection<StreamOwned<ServerConnection, S>>,
    manner: &Manner,
    answer: &[u8],
    seen: &Seen,
) -> io::Result<()> {
    serve(connection, manner, answer, seen)?;
    let tls = connection.stream();
    tls.conn.send_close_notify();
    tls.flush()
}

fn serve<S: Read + Write>(
    connection: &mut Connection<S>,
    manner: &Manner,
    answer: &[u8],
    seen: &Seen,
) -> io::Result<()> {
    while let Some(request) = connection.read()? {
        let due = Instant::now() + manner.delay;
        if !request.head.starts_with(b"POST ") {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut kept = seen.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push([request.head, request.body].concat());
        }
        drop(kept);
        seen.posts.fetch_add(1, Ordering::Relaxed);
        if !manner.delay.is_zero() {
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        connection.send(answer)?;
        if manner.closes {
            break;
        }
    }
    Ok(())
}

/// Whether a request is a webhook of Standard Webhooks 1.0 with this payload.
fn check(request: &[u8], payload: &str) -> Result<(), &'static str> {
    let end = memchr::memmem::find(request, b"\r\n\r\n").ok_or("no end")? + 4;
    let (head, body) = request.split_at(end);
    if body != payload.as_bytes() {
        return Err("another payload");
    }
    let value = |name| {
        let value = header(head, name).and_then(|value| str::from_utf8(value).ok());
        value.ok_or("a header is missing")
    };
    let (id, timestamp) = (value("webhook-id")?, value("webhook-timestamp")?);
    let key = SECRET.strip_prefix("whsec_").unwrap_or(SECRET);
    let key = BASE64_STANDARD.decode(key).map_err(|_| "no base64")?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|_| "no key")?;
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    let expected = format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()));
    if value("webhook-signature")? != expected {
        return Err("another signature");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    const PLAIN: Manner = Manner {
        script: Script::Half,
        delay: Duration::ZERO,
        closes: true,
        tls: None,
    };

    /// What a partner answers to a request.
    fn ask(url: &str, request: &str) -> String {
        let address = url
            .strip_prefix("http://")
            .unwrap()
            .strip_suffix("/hook")
            .unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn partners_answer_as_the_script_says_and_count() {
        let partners = Partners::start(2, &PLAIN).unwrap();
        let urls = partners.urls();
        let request = "POST /hook HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(
            ask(&urls[0], request),
            "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"
        );
        assert_eq!(
            ask(&urls[1], request),
            "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        assert_eq!((partners.posts(), partners.connections()), (2, 2));
        partners.forget_requests();
        let error = partners.check_requests("{}").unwrap_err().to_string();
        assert_eq!(error, "no request was kept");
        ask(&urls[0], request);
        let error = partners.check_requests("{}").unwrap_err().to_string();
        assert!(
            error.starts_with("a header is missing in POST /hook"),
            "{error}"
        );
    }

    #[test]
    fn a_webhook_is_known_by_its_signature() {
        // Made with Python's own hmac.
        let request = |signature: &str, body: &str| {
            format!(
                "POST / HTTP/1.1\r\nwebhook-id: msg_1\r\nwebhook-timestamp: 1700000000\r\n\
                 webhook-signature: {signature}\r\n\r\n{body}"
            )
        };
        let right = request(KNOWN, "{}");
        assert_eq!(check(right.as_bytes(), "{}"), Ok(()));
        let other_body = request(KNOWN, "{ }");
        assert_eq!(
            check(other_body.as_bytes(), "{ }"),
            Err("another signature")
        );
        assert_eq!(check(right.as_bytes(), "[]"), Err("another payload"));
    }

    const KNOWN: &str = "v1,3sOcjp9LSFloZNG4djSBtbk6gHDplP0wungD5l+W7DU=";
}
