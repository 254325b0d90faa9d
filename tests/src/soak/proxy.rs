//! A way from the functions to AWS on which calls fail as planned. What is not planned to fail goes
//! through as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::evidence::FailedCall;
use super::now_ms;
use super::plan::{Fault, Window};
use crate::http1::{Request, read_request, response};

mod calls;
mod half;

use calls::{jobs, states, webhook_ids};
use half::Half;

/// The fault of a call that was not made to fail, but to which the function got no answer: it took
/// too long on a machine with much to do, or the function was killed.
const UNANSWERED: &str = "unanswered";

/// The proxy. It ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

/// What the proxy has seen and done.
#[derive(Debug, Default)]
pub struct Seen {
    /// The calls that failed.
    pub failed_calls: Vec<FailedCall>,
    /// When AWS had taken the record that a delivery was delivered.
    pub known_delivered: BTreeMap<String, u64>,
    /// When, after that, AWS took a record that said something else.
    pub overwritten: BTreeMap<String, u64>,
    /// The deliveries of which `dispatch` wanted to send a job.
    pub jobs: BTreeSet<String>,
    /// How many calls there were.
    pub calls: u64,
    /// When an event was, by its id, as its jobs tell.
    occurred_at: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    windows: Vec<Window>,
    /// How often each window was met.
    met: Vec<Mutex<u64>>,
    /// When the plan begins; nothing fails before.
    start: Mutex<Option<Instant>>,
    seen: Mutex<Seen>,
}

impl Proxy {
    /// A proxy to this address, at a free port.
    ///
    /// # Panics
    /// If there is none.
    pub async fn to(upstream: SocketAddr, windows: Vec<Window>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            upstream,
            met: windows.iter().map(|_| Mutex::default()).collect(),
            windows,
            start: Mutex::default(),
            seen: Mutex::default(),
        });
        let served = Arc::clone(&shared);
        let server = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&served);
                connections.spawn(async move {
                    // Either side may hang up, at any time.
                    let _ = serve(stream, &shared).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            address,
            shared,
            server,
        }
    }

    /// From this moment on the times of the plan count.
    ///
    /// # Panics
    /// If a task of the proxy has panicked.
    pub fn start(&self, at: Instant) {
        *self.shared.start.lock().unwrap() = Some(at);
    }

    /// Where it is reached.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// When an event was, in the words of its jobs, as soon as `dispatch` wants to send one.
    ///
    /// # Panics
    /// If a task of the proxy has panicked.
    #[must_use]
    pub fn occurred_at(&self, event_id: &str) -> Option<String> {
        let seen = self.shared.seen.lock().unwrap();
        seen.occurred_at.get(event_id).cloned()
    }

    /// How many calls met each of the windows.
    ///
    /// # Panics
    /// If a task of the proxy has panicked.
    #[must_use]
    pub fn met(&self) -> Vec<u64> {
        let met = self.shared.met.iter();
        met.map(|met| *met.lock().unwrap()).collect()
    }

    /// What it has seen since this was last asked.
    ///
    /// # Panics
    /// If a task of the proxy has panicked.
    #[must_use]
    pub fn take_seen(&self) -> Seen {
        std::mem::take(&mut self.shared.seen.lock().unwrap())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// One call for each connection: a function that has to connect anew loses nothing that counts here.
async fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let Some(mut request) = read_request(&mut stream).await? else {
        return Ok(());
    };
    let target = request.header("x-amz-target").unwrap_or_default();
    let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
    let call = FailedCall {
        at: now_ms(),
        operation: operation.clone(),
        webhook_ids: webhook_ids(&request.body),
        invocation: request
            .header("amz-sdk-invocation-id")
            .unwrap_or_default()
            .to_owned(),
        ..FailedCall::default()
    };
    shared.count(&operation, &request);
    let Some((fault, over)) = shared.fault(&operation, &request) else {
        let (answer, mut hung_up) = forward_patiently(&mut stream, shared.upstream, &request).await;
        if let Ok(answer) = &answer {
            shared.remember(&request, answer);
            let written = stream.get_mut().write_all(answer).await;
            hung_up = hung_up.or_else(|| written.is_err().then(now_ms));
        } else {
            hung_up = hung_up.or_else(|| Some(now_ms()));
        }
        if hung_up.is_some() {
            let fault = UNANSWERED.to_owned();
            shared.note(FailedCall {
                fault,
                hung_up,
                ..call
            });
        } else if answer.is_ok_and(|answer| is_success(&answer)) {
            shared.made_up_for(&call);
        }
        return Ok(());
    };
    shared.note(FailedCall {
        fault: format!("{fault:?}").to_lowercase(),
        ..call
    });
    let answer = match fault {
        Fault::Error => error(500, "InternalServerError"),
        Fault::Throttle if operation == "SendMessageBatch" => error(403, "RequestThrottled"),
        Fault::Throttle => error(400, "ThrottlingException"),
        Fault::Hang => {
            let mut scratch = [0; 64];
            // The function may lose its patience first, or die.
            let _ = tokio::time::timeout(over, stream.read(&mut scratch)).await;
            return Ok(());
        }
        Fault::Cut => {
            let answer = forward(shared.upstream, &request).await?;
            shared.remember(&request, &answer);
            return Ok(());
        }
        Fault::Early => {
            change(&mut request, |input| {
                for entry in input["Entries"].as_array_mut().into_iter().flatten() {
                    entry["VisibilityTimeout"] = 0.into();
                }
            });
            forward(shared.upstream, &request).await?
        }
        Fault::Partial => {
            let answer = partial(shared.upstream, &operation, &mut request).await?;
            // What is left of the request was done.
            shared.remember(&request, &answer);
            answer
        }
    };
    stream.get_mut().write_all(&answer).await
}

impl Shared {
    /// What is to become of a call, and how long the window is still open.
    fn fault(&self, operation: &str, request: &Request) -> Option<(Fault, Duration)> {
        let start = (*self.start.lock().unwrap())?;
        let now = u64::try_from(start.elapsed().as_millis()).unwrap();
        for (window, met) in self.windows.iter().zip(&self.met) {
            let is_open = (window.from..window.to).contains(&now);
            if !is_open || window.operation != operation {
                continue;
            }
            if let Some(only) = &window.only
                && !String::from_utf8_lossy(&request.body).contains(only)
            {
                continue;
            }
            let mut met = met.lock().unwrap();
            *met += 1;
            if (*met - 1).is_multiple_of(window.every) {
                return Some((window.fault, Duration::from_millis(window.to - now)));
            }
        }
        None
    }

    /// Counts a call, and notes the jobs that it sends.
    fn count(&self, operation: &str, request: &Request) {
        let mut seen = self.seen.lock().unwrap();
        seen.calls += 1;
        if operation == "SendMessageBatch" {
            for job in jobs(&request.body) {
                seen.jobs.insert(job.webhook_id);
                seen.occurred_at.insert(job.event_id, job.occurred_at);
            }
        }
    }

    fn note(&self, failed: FailedCall) {
        self.seen.lock().unwrap().failed_calls.push(failed);
    }

    /// The function has made a call again, and got its answer.
    fn made_up_for(&self, call: &FailedCall) {
        if call.invocation.is_empty() {
            return;
        }
        let mut seen = self.seen.lock().unwrap();
        for failed in &mut seen.failed_calls {
            if failed.invocation == call.invocation {
                failed.answered_later = true;
            }
        }
    }

    /// Notes what is now known of deliveries.
    fn remember(&self, request: &Request, answer: &[u8]) {
        let is_write = request
            .header("x-amz-target")
            .is_some_and(|target| target.ends_with("WriteItem") || target.ends_with("UpdateItem"));
        if !is_write || !is_success(answer) {
            return;
        }
        let at = now_ms();
        let mut seen = self.seen.lock().unwrap();
        for (webhook_id, state) in states(&request.body) {
            if state == "delivered" {
                seen.known_delivered.entry(webhook_id).or_insert(at);
            } else if seen.known_delivered.contains_key(&webhook_id) {
                seen.overwritten.entry(webhook_id).or_insert(at);
            }
        }
    }
}

fn is_success(answer: &[u8]) -> bool {
    answer.starts_with(b"HTTP/1.1 200")
}

fn error(status: u16, code: &str) -> Vec<u8> {
    let body = json!({"__type": code, "message": "a planned fault"}).to_string();
    let headers = [
        ("content-type", "application/x-amz-json-1.0"),
        ("connection", "close"),
    ];
    response(status, &headers, body.as_bytes())
}

fn success(body: &Value) -> Vec<u8> {
    let headers = [
        ("content-type", "application/x-amz-json-1.0"),
        ("connection", "close"),
    ];
    response(200, &headers, body.to_string().as_bytes())
}

/// Does every second part of a call, and says so.
async fn partial(
    upstream: SocketAddr,
    operation: &str,
    request: &mut Request,
) -> std::io::Result<Vec<u8>> {
    let mut half = Half::default();
    change(request, |input| half = Half::of(operation, input));
    if !half.has_work {
        return Ok(success(&half.answer(&json!({}))));
    }
    let answer = forward(upstream, request).await?;
    let start = answer.windows(4).position(|end| end == b"\r\n\r\n");
    let body = &answer[start.map_or(answer.len(), |start| start + 4)..];
    let body: Option<Value> = serde_json::from_slice(body).ok();
    Ok(match body.filter(|_| is_success(&answer)) {
        Some(body) => success(&half.answer(&body)),
        None => error(500, "InternalServerError"),
    })
}

fn change(request: &mut Request, change: impl FnOnce(&mut Value)) {
    let mut input: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    change(&mut input);
    request.body = input.to_string().into_bytes();
}

/// Makes the call, and gives the whole answer, and when the function hung up if it did before: the call
/// is done, but it will be made again.
async fn forward_patiently(
    client: &mut BufReader<TcpStream>,
    upstream: SocketAddr,
    request: &Request,
) -> (std::io::Result<Vec<u8>>, Option<u64>) {
    let answer = forward(upstream, request);
    tokio::pin!(answer);
    let mut scratch = [0; 64];
    tokio::select! {
        // If this process was held up itself, both may be there at once.
        biased;
        // Nothing more comes before the answer, but the end of the connection.
        _ = client.read(&mut scratch) => {
            let hung_up = now_ms();
            (answer.await, Some(hung_up))
        }
        answer = &mut answer => (answer, None),
    }
}

/// Makes the call and gives the whole answer.
async fn forward(upstream: SocketAddr, request: &Request) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(upstream).await?;
    let mut text = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
    for (name, value) in &request.headers {
        let is_ours = ["connection", "content-length", "transfer-encoding"]
            .iter()
            .any(|ours| name.eq_ignore_ascii_case(ours));
        if !is_ours {
            text += &format!("{name}: {value}\r\n");
        }
    }
    text += &format!(
        "content-length: {}\r\nconnection: close\r\n\r\n",
        request.body.len()
    );
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(&request.body);
    stream.write_all(&bytes).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer)
}

#[cfg(test)]
mod tests;
