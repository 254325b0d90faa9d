//! The AWS endpoints of one environment. What is asked is counted, and answered as if every
//! subscription were enabled and every secret there.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Error;
use crate::fan_out::Subscribers;
use crate::http::{Connection, Request, Server, header, json_answer};
use crate::workload::{DELIVERIES, SUBSCRIPTIONS, Workload};

/// The signing secret of every partner.
pub const SECRET: &str = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=";

/// How often an operation was called, and what went over the wire for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// Requests.
    pub requests: usize,
    /// Bytes that were sent to AWS, with all headers.
    pub bytes_sent: usize,
    /// Bytes that AWS answered with, with all headers.
    pub bytes_received: usize,
}

/// Calls by the operation's name.
pub type CallsByName = BTreeMap<String, Calls>;

/// What was seen so far.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// By operation.
    pub calls: CallsByName,
    /// Delivery records that were put or updated.
    pub records: usize,
    /// Messages whose visibility was changed.
    pub visibilities: usize,
    /// What was not expected.
    pub problem: Option<String>,
}

/// What there is to read.
#[derive(Debug)]
pub enum Content {
    /// For deliver: the batches.
    Batches(Arc<Workload>),
    /// For dispatch: who subscribed.
    Subscribers(Arc<Subscribers>),
}

#[derive(Debug)]
struct State {
    content: Content,
    /// The batch that is in hand.
    batch: AtomicUsize,
    seen: Mutex<Seen>,
}

impl State {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The endpoints.
#[derive(Debug)]
pub struct Aws {
    state: Arc<State>,
    server: Server,
}

impl Aws {
    /// Endpoints with this behind them.
    ///
    /// # Errors
    /// If they can not be opened.
    pub fn start(content: Content) -> Result<Self, Error> {
        let state = Arc::new(State {
            content,
            batch: AtomicUsize::new(0),
            seen: Mutex::default(),
        });
        let served = Arc::clone(&state);
        let server = Server::start(move |stream| serve(stream, &served))?;
        Ok(Self { state, server })
    }

    /// Where they are.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Says which batch is in hand: one environment has one at a time.
    pub fn set_batch(&self, batch: usize) {
        self.state.batch.store(batch, Ordering::Relaxed);
    }

    /// What was seen so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.state.seen().clone()
    }
}

fn serve(stream: TcpStream, state: &State) -> io::Result<()> {
    let mut connection = Connection::new(stream);
    while let Some(request) = connection.read()? {
        let bytes_sent = request.bytes;
        let operation = operation(&request);
        let (name, answer) = match &operation {
            Some(name) => (name.as_str(), answer(name, request.body, state)),
            None => ("?", Err("a request without x-amz-target".to_owned())),
        };
        let answer = json_answer_or_error(answer, state);
        let mut seen = state.seen();
        let calls = seen.calls.entry(name.to_owned()).or_default();
        calls.requests += 1;
        calls.bytes_sent += bytes_sent;
        calls.bytes_received += answer.len();
        drop(seen);
        connection.send(&answer)?;
    }
    Ok(())
}

fn json_answer_or_error(answer: Result<Vec<u8>, String>, state: &State) -> Vec<u8> {
    match answer {
        Ok(body) => json_answer(&body),
        Err(problem) => {
            state.seen().problem.get_or_insert(problem);
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}".to_vec()
        }
    }
}

fn operation(request: &Request<'_>) -> Option<String> {
    let target = str::from_utf8(header(request.head, "x-amz-target")?).ok()?;
    let (_, operation) = target.rsplit_once('.')?;
    Some(operation.to_owned())
}

fn answer(operation: &str, body: &[u8], state: &State) -> Result<Vec<u8>, String> {
    match (&state.content, operation) {
        (Content::Batches(workload), "BatchGetItem") => {
            let batch = state.batch.load(Ordering::Relaxed);
            let (rows, records) = (workload.rows(batch), workload.records(batch));
            Ok(rows_answer(rows, &records, body))
        }
        (Content::Batches(_), "GetParameters") => parameters(body),
        (Content::Batches(_), "BatchWriteItem") => {
            state.seen().records += memmem::find_iter(body, b"\"PutRequest\"").count();
            Ok(br#"{"UnprocessedItems":{}}"#.to_vec())
        }
        (Content::Batches(_), "UpdateItem") => {
            state.seen().records += 1;
            Ok(b"{}".to_vec())
        }
        (Content::Batches(_), "ChangeMessageVisibilityBatch") => {
            let (answer, entries) = entries_answer(body, |_| true)?;
            state.seen().visibilities += entries;
            Ok(answer)
        }
        (Content::Subscribers(subscribers), "Query") => subscribers.page(body),
        (Content::Subscribers(subscribers), "SendMessageBatch") => {
            let (answer, _) = entries_answer(body, |entry| {
                entry
                    .message_group_id
                    .is_some_and(|id| subscribers.mark(id))
            })?;
            Ok(answer)
        }
        (Content::Batches(_) | Content::Subscribers(_), other) => Err(format!(
            "{other} was called: {:.200}",
            String::from_utf8_lossy(body)
        )),
    }
}

/// The answer to `BatchGetItem`: what of the tables was asked for.
fn rows_answer(rows: &[u8], records: &[u8], body: &[u8]) -> Vec<u8> {
    let asks = |table: &str| memmem::find(body, format!("\"{table}\":").as_bytes()).is_some();
    let mut answer = br#"{"Responses":{"#.to_vec();
    if asks(SUBSCRIPTIONS) {
        answer.extend_from_slice(format!("\"{SUBSCRIPTIONS}\":").as_bytes());
        answer.extend_from_slice(rows);
    }
    if asks(DELIVERIES) {
        if answer.ends_with(b"]") {
            answer.push(b',');
        }
        answer.extend_from_slice(format!("\"{DELIVERIES}\":").as_bytes());
        answer.extend_from_slice(records);
    }
    answer.extend_from_slice(br#"},"UnprocessedKeys":{}}"#);
    answer
}

fn parameters(body: &[u8]) -> Result<Vec<u8>, String> {
    let request: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let names = request["Names"].as_array().ok_or("no names")?;
    let parameters: Vec<Value> = names
        .iter()
        .map(|name| json!({"Name": name, "Type": "SecureString", "Value": SECRET, "Version": 1}))
        .collect();
    Ok(json!({"Parameters": parameters, "InvalidParameters": []})
        .to_string()
        .into_bytes())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry<'a> {
    #[serde(borrow)]
    id: &'a str,
    #[serde(borrow)]
    message_group_id: Option<&'a str>,
}

#[derive(Deserialize)]
struct Entries<'a> {
    #[serde(borrow, rename = "Entries")]
    entries: Vec<Entry<'a>>,
}

/// The answer to a batch call of SQS that takes every entry, and the number of entries.
fn entries_answer(
    body: &[u8],
    is_right: impl Fn(&Entry<'_>) -> bool,
) -> Result<(Vec<u8>, usize), String> {
    let request: Entries<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if request.entries.is_empty() || request.entries.len() > 10 {
        return Err(format!(
            "a batch call with {} entries",
            request.entries.len()
        ));
    }
    if !request.entries.iter().all(is_right) {
        return Err("a message was sent twice, or to nobody".into());
    }
    // The digest is none of the body: the functions do not look at it.
    let entries: Vec<String> = request
        .entries
        .iter()
        .map(|entry| {
            format!(
                r#"{{"Id":"{}","MessageId":"5fea7756-0ea4-451a-a703-a558b933e274","MD5OfMessageBody":"{}"}}"#,
                entry.id,
                "0".repeat(32)
            )
        })
        .collect();
    let answer = format!(r#"{{"Successful":[{}],"Failed":[]}}"#, entries.join(","));
    Ok((answer.into_bytes(), request.entries.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &[u8]) -> Value {
        serde_json::from_slice(answer).unwrap()
    }

    #[test]
    fn only_the_tables_that_are_asked_for_are_answered() {
        let rows = br#"[{"url":{"S":"u"}}]"#;
        let both = br#"{"RequestItems":{"deliveries":{},"subscriptions":{}}}"#;
        assert_eq!(
            read(&rows_answer(rows, b"[]", both)),
            json!({
                "Responses": {"subscriptions": [{"url": {"S": "u"}}], "deliveries": []},
                "UnprocessedKeys": {},
            })
        );
        let one = br#"{"RequestItems":{"deliveries":{}}}"#;
        assert_eq!(
            read(&rows_answer(rows, b"[{}]", one)),
            json!({"Responses": {"deliveries": [{}]}, "UnprocessedKeys": {}})
        );
    }

    #[test]
    fn every_entry_is_taken_and_counted() {
        let body = br#"{"QueueUrl":"q","Entries":[{"Id":"0","ReceiptHandle":"r"},{"Id":"7","ReceiptHandle":"s"}]}"#;
        let (answer, entries) = entries_answer(body, |_| true).unwrap();
        assert_eq!(entries, 2);
        let answer = read(&answer);
        assert_eq!(answer["Failed"], json!([]));
        assert_eq!(answer["Successful"][1]["Id"], "7");
        assert!(entries_answer(body, |_| false).is_err());
        assert!(entries_answer(br#"{"Entries":[]}"#, |_| true).is_err());
    }

    #[test]
    fn every_parameter_has_the_secret() {
        let answer = parameters(br#"{"Names":["/webhooks/a/signing-secret"]}"#).unwrap();
        let answer = read(&answer);
        assert_eq!(
            answer["Parameters"][0]["Name"],
            "/webhooks/a/signing-secret"
        );
        assert_eq!(answer["Parameters"][0]["Value"], SECRET);
    }
}
