//! The way in through a server on this machine: HTTP/1.1, and a limit on everything that a client
//! could draw out. TLS is the business of whatever stands in front of it.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::HeaderMap;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::Receiver;
use crate::answer::Answer;
use crate::request::{BODY_MAX_BYTES, Refusal, Request};

/// How long to wait after the system had no connection to give, such as for want of files.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What a client may take of the server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once; others wait.
    pub connections: usize,
    /// How long the head of a request may take, also the wait for it on a connection that is kept.
    pub head: Duration,
    /// How long its body may take.
    pub body: Duration,
    /// How long a connection may last, so that nobody keeps one by not reading what is answered. A
    /// request that is under way then may take as long as any other.
    pub life: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            head: Duration::from_secs(10),
            body: Duration::from_secs(10),
            life: Duration::from_secs(60),
        }
    }
}

/// Serves until the task is dropped.
pub async fn serve(listener: TcpListener, receiver: Arc<Receiver>, limits: Limits) {
    let places = Arc::new(Semaphore::new(limits.connections));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "connection.failed");
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        let receiver = Arc::clone(&receiver);
        tokio::spawn(async move {
            speak(stream, &receiver, limits).await;
            drop(place);
        });
    }
}

async fn speak(stream: TcpStream, receiver: &Receiver, limits: Limits) {
    let answer = service_fn(|request| async move {
        Ok::<_, Infallible>(response(&answer(request, receiver, limits).await))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = pin!(connection);
    // A client may hang up whenever it likes.
    if tokio::time::timeout(limits.life, connection.as_mut())
        .await
        .is_err()
    {
        connection.as_mut().graceful_shutdown();
        let rest = limits.head + limits.body;
        let _ = tokio::time::timeout(rest, connection).await;
    }
}

async fn answer(request: hyper::Request<Incoming>, receiver: &Receiver, limits: Limits) -> Answer {
    let (head, body) = request.into_parts();
    match read(body, limits).await {
        Ok(body) => {
            let header = |name: &str| joined(&head.headers, name);
            let request = Request::new(head.method.as_str(), header, body);
            receiver.handle(&request, SystemTime::now()).await
        }
        Err(refusal) => {
            let answer = Answer::Refused(refusal);
            answer.log();
            answer
        }
    }
}

/// Reads a body, unless it says itself that it is too large.
async fn read(body: Incoming, limits: Limits) -> Result<Bytes, Refusal> {
    let most = u64::try_from(BODY_MAX_BYTES).unwrap_or(u64::MAX);
    if body.size_hint().lower() > most {
        return Err(Refusal::TooLarge);
    }
    let whole = Limited::new(body, BODY_MAX_BYTES).collect();
    let whole = tokio::time::timeout(limits.body, whole).await;
    match whole.map_err(|_| Refusal::Slow)? {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal::TooLarge),
        Err(_) => Err(Refusal::Cut),
    }
}

/// All values of a header joined by commas, as a function URL gives them.
fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    let values = headers.get_all(name).iter();
    let values: Vec<&str> = values
        .map(|value| value.to_str().ok())
        .collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.join(","))
}

fn response(answer: &Answer) -> hyper::Response<Full<Bytes>> {
    let mut response = hyper::Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        response = response.header(name, value);
    }
    // The builder only refuses what no answer has.
    response.body(Full::from(answer.body())).unwrap_or_default()
}
