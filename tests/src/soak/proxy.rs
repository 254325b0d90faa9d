//! A way from the functions to AWS on which calls fail as planned. What is not planned to fail goes
//! through as it is.

use std::collections::BTreeMap;
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

use calls::{states, webhook_ids};

/// The fault of a call that was not made to fail, but took too long on a machine with much to do.
pub const SLOW: &str = "slow";

/// What a function has at least for a call.
const PATIENCE: Duration = Duration::from_secs(2);

/// The proxy. It ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
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
    /// How many calls there were.
    pub calls: u64,
}

struct Shared {
    upstream: SocketAddr,
    windows: Vec<Window>,
    /// How often each window was met.
    met: Vec<Mutex<u64>>,
    /// When the plan begins; nothing fails before.
    start: Mutex<Option<Instant>>,
    seen: Arc<Mutex<Seen>>,
}

/// How a planned run is started.
#[derive(Clone)]
pub struct Starter(Arc<Shared>);

impl std::fmt::Debug for Starter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Starter")
    }
}

impl Starter {
    /// From this moment on the times of the plan count.
    ///
    /// # Panics
    /// If a task of the proxy has panicked.
    pub fn start(&self, at: Instant) {
        *self.0.start.lock().unwrap() = Some(at);
    }
}

impl Proxy {
    /// A proxy to this address, at a free port.
    ///
    /// # Panics
    /// If there is none.
    pub async fn to(upstream: SocketAddr, windows: Vec<Window>) -> (Self, Starter) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::new(Shared {
            upstream,
            met: windows.iter().map(|_| Mutex::default()).collect(),
            windows,
            start: Mutex::default(),
            seen: Arc::clone(&seen),
        });
        let starter = Starter(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    // Either side may hang up, at any time.
                    let _ = serve(stream, &shared).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        let proxy = Self {
            address,
            seen,
            server,
        };
        (proxy, starter)
    }

    /// Where it is reached.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has seen so far.
    ///
    /// # Panics
    /// If a task of the proxy has panicked.
    #[must_use]
    pub fn seen(&self) -> Seen {
        std::mem::take(&mut self.seen.lock().unwrap())
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
    let at = now_ms();
    shared.seen.lock().unwrap().calls += 1;
    let Some((fault, over)) = shared.fault(&operation, &request) else {
        let (answer, is_too_slow) =
            forward_patiently(&mut stream, shared.upstream, &request).await?;
        if is_too_slow {
            shared.note(at, operation, SLOW, &request);
        }
        shared.remember(&request, &answer);
        return stream.get_mut().write_all(&answer).await;
    };
    let name = format!("{fault:?}").to_lowercase();
    shared.note(at, operation.clone(), &name, &request);
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
        Fault::Partial => partial(shared.upstream, &operation, &mut request).await?,
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

    fn note(&self, at: u64, operation: String, fault: &str, request: &Request) {
        let failed = FailedCall {
            at,
            operation,
            fault: fault.to_owned(),
            webhook_ids: webhook_ids(&request.body),
        };
        self.seen.lock().unwrap().failed_calls.push(failed);
    }

    /// Notes what is now known of deliveries.
    fn remember(&self, request: &Request, answer: &[u8]) {
        let is_write = request
            .header("x-amz-target")
            .is_some_and(|target| target.ends_with("WriteItem") || target.ends_with("UpdateItem"));
        if !is_write || !answer.starts_with(b"HTTP/1.1 200") {
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
    let input: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    match operation {
        "BatchGetItem" => Ok(success(
            &json!({"Responses": {}, "UnprocessedKeys": input["RequestItems"]}),
        )),
        "BatchWriteItem" => Ok(success(&json!({"UnprocessedItems": input["RequestItems"]}))),
        "PutEvents" => {
            let count = input["Entries"].as_array().map_or(0, Vec::len);
            let refused =
                json!({"ErrorCode": "InternalFailure", "ErrorMessage": "a planned fault"});
            Ok(success(
                &json!({"FailedEntryCount": count, "Entries": vec![refused; count]}),
            ))
        }
        _ => {
            let mut left_out = Vec::new();
            change(request, |input| {
                let mut number = 0;
                if let Some(entries) = input["Entries"].as_array_mut() {
                    entries.retain(|entry| {
                        number += 1;
                        let stays = number % 2 == 0;
                        if !stays {
                            left_out.push(json!({
                                "Id": entry["Id"],
                                "SenderFault": false,
                                "Code": "InternalError",
                                "Message": "a planned fault",
                            }));
                        }
                        stays
                    });
                }
            });
            let all: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            if all["Entries"].as_array().is_none_or(Vec::is_empty) {
                return Ok(success(&json!({"Successful": [], "Failed": left_out})));
            }
            let answer = forward(upstream, request).await?;
            let start = answer.windows(4).position(|end| end == b"\r\n\r\n");
            let body = &answer[start.map_or(answer.len(), |start| start + 4)..];
            let Ok(mut body) = serde_json::from_slice::<Value>(body) else {
                return Ok(answer);
            };
            let mut failed = body["Failed"].as_array().cloned().unwrap_or_default();
            failed.extend(left_out);
            body["Failed"] = failed.into();
            Ok(success(&body))
        }
    }
}

fn change(request: &mut Request, change: impl FnOnce(&mut Value)) {
    let mut input: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    change(&mut input);
    request.body = input.to_string().into_bytes();
}

/// Makes the call, and gives the whole answer and whether the function had lost its patience by then:
/// the call is done, but it will be made again.
async fn forward_patiently(
    client: &mut BufReader<TcpStream>,
    upstream: SocketAddr,
    request: &Request,
) -> std::io::Result<(Vec<u8>, bool)> {
    let start = Instant::now();
    let answer = forward(upstream, request);
    tokio::pin!(answer);
    let mut scratch = [0; 64];
    tokio::select! {
        answer = &mut answer => Ok((answer?, false)),
        // Nothing more comes before the answer, but the end of the connection.
        _ = client.read(&mut scratch) => {
            let answer = answer.await?;
            // It may as well have been killed.
            Ok((answer, start.elapsed() > PATIENCE))
        }
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
