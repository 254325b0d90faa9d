//! SQS, DynamoDB, SSM, EventBridge, CloudFormation, CloudWatch, SNS and Lambda behind one address,
//! told apart by `x-amz-target`, or as each that is not given one is called.
//!
//! It keeps items and parameters in memory and answers like AWS, and it refuses what AWS refuses
//! where the local emulator does not: a visibility of 43 200 s, characters outside SQS's set,
//! a reserved word in an expression, a key that is asked for twice, an item of more than 400 KB. Every call is recorded, and a
//! test can put another answer in the place of the usual one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::http1::{Request, read_request, response};
use crate::stage::DEAD_LETTER_QUEUE_URL;

mod cbor;
mod cloudformation;
mod dynamodb;
mod events;
pub mod operations;
mod protocol;
mod queue;
mod reply;
mod sqs;
mod ssm;

pub use dynamodb::item_bytes;
use protocol::Protocol;
pub use reply::Reply;

const PATIENCE: Duration = Duration::from_secs(15);

/// One call that a function made.
#[derive(Clone, Debug)]
pub struct Call {
    /// For example `DynamoDB_20120810` or `AmazonSQS`.
    pub service: String,
    /// For example `SendMessageBatch`.
    pub operation: String,
    /// The input, as JSON.
    pub input: Value,
    /// When it came.
    pub at: Instant,
}

/// The entries of a batch call of SQS, or of `PutEvents`.
///
/// # Panics
/// If there are none.
#[must_use]
pub fn entries(input: &Value) -> &[Value] {
    input["Entries"].as_array().expect("entries")
}

type Rule = Box<dyn Fn(&Value) -> Reply + Send>;

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    queued: HashMap<&'static str, VecDeque<Reply>>,
    rules: HashMap<&'static str, Rule>,
    tables: dynamodb::Tables,
    page_size: Option<usize>,
    parameters: ssm::Parameters,
    dead_letters: queue::Queue,
    /// How many messages were sent to any queue.
    sent: usize,
    stack_parameters: BTreeMap<String, String>,
}

/// The services, on a free port of 127.0.0.1. They end when this is dropped.
pub struct FakeAws {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    changes: watch::Sender<()>,
    hang_up: watch::Sender<()>,
    server: JoinHandle<()>,
}

impl FakeAws {
    /// Starts them, empty.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let changes = watch::Sender::new(());
        let hang_up = watch::Sender::new(());
        let server = tokio::spawn(accept(
            listener,
            Arc::clone(&state),
            changes.clone(),
            hang_up.clone(),
        ));
        Self {
            address,
            state,
            changes,
            hang_up,
            server,
        }
    }

    /// `http://127.0.0.1:…`, for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds or replaces a row of the subscriptions table, in DynamoDB's JSON.
    pub fn put_row(&self, row: Value) {
        let tables = &mut self.state.lock().unwrap().tables;
        tables.subscriptions.put(&row);
    }

    /// Adds or replaces an enabled subscription, just as an operator writes it by hand.
    pub fn put_subscription(&self, event_type: &str, subscriber_id: &str, url: &str) {
        self.put_row(json!({
            "eventType": {"S": event_type},
            "subscriberId": {"S": subscriber_id},
            "url": {"S": url},
            "enabled": {"BOOL": true},
        }));
    }

    /// Takes a row away.
    pub fn delete_row(&self, event_type: &str, subscriber_id: &str) {
        let tables = &mut self.state.lock().unwrap().tables;
        tables.subscriptions.delete(&[event_type, subscriber_id]);
    }

    /// A row of the subscriptions table as it is now, in DynamoDB's JSON.
    #[must_use]
    pub fn row(&self, event_type: &str, subscriber_id: &str) -> Option<Value> {
        let tables = &self.state.lock().unwrap().tables;
        tables.subscriptions.get(&[event_type, subscriber_id])
    }

    /// Adds or replaces an item of the deliveries table, in DynamoDB's JSON.
    pub fn put_record(&self, record: Value) {
        let tables = &mut self.state.lock().unwrap().tables;
        tables.deliveries.put(&record);
    }

    /// Takes a delivery record away, as the table's time to live does.
    pub fn delete_record(&self, webhook_id: &str) {
        let tables = &mut self.state.lock().unwrap().tables;
        tables.deliveries.delete(&[webhook_id]);
    }

    /// A delivery record as it is now, in DynamoDB's JSON.
    #[must_use]
    pub fn record(&self, webhook_id: &str) -> Option<Value> {
        let tables = &self.state.lock().unwrap().tables;
        tables.deliveries.get(&[webhook_id])
    }

    /// All delivery records as they are now, in the order of their webhook ids.
    #[must_use]
    pub fn records(&self) -> Vec<Value> {
        self.state.lock().unwrap().tables.deliveries.all()
    }

    /// Adds or replaces an item of a receiver's table, in DynamoDB's JSON.
    pub fn put_received(&self, item: Value) {
        let tables = &mut self.state.lock().unwrap().tables;
        tables.received.put(&item);
    }

    /// An item of a receiver's table as it is now, in DynamoDB's JSON.
    #[must_use]
    pub fn received(&self, webhook_id: &str) -> Option<Value> {
        let tables = &self.state.lock().unwrap().tables;
        tables.received.get(&[webhook_id])
    }

    /// `Query` and `Scan` give at most this many rows a page from now on.
    pub fn set_page_size(&self, rows: usize) {
        self.state.lock().unwrap().page_size = Some(rows);
    }

    /// Adds or replaces an SSM SecureString.
    pub fn put_parameter(&self, name: &str, value: &str) {
        let mut state = self.state.lock().unwrap();
        state.parameters.put(name, value);
    }

    /// Takes an SSM parameter away.
    pub fn delete_parameter(&self, name: &str) {
        self.state.lock().unwrap().parameters.delete(name);
    }

    /// The value of an SSM parameter as it is now.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.state.lock().unwrap().parameters.value(name)
    }

    /// Sets a parameter of the stack, which has none at first.
    pub fn set_stack_parameter(&self, name: &str, value: &str) {
        let parameters = &mut self.state.lock().unwrap().stack_parameters;
        parameters.insert(name.to_owned(), value.to_owned());
    }

    /// Puts a message into the dead-letter queue that was sent to the jobs queue at this time, in
    /// milliseconds since 1970.
    pub fn put_dead_letter(&self, message_id: &str, sent_ms: u64, body: &str) {
        let queue = &mut self.state.lock().unwrap().dead_letters;
        queue.put(message_id, sent_ms, body);
    }

    /// The ids of the messages in the dead-letter queue, in the order in which they came, and
    /// whether each can be received.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<(String, bool)> {
        self.state.lock().unwrap().dead_letters.all()
    }

    /// Lets all messages of the dead-letter queue be received again, as with time they can be.
    pub fn show_dead_letters(&self) {
        self.state.lock().unwrap().dead_letters.show();
    }

    /// Empties the dead-letter queue.
    pub fn purge_dead_letters(&self) {
        self.state.lock().unwrap().dead_letters.clear();
    }

    /// The next calls of an operation get these replies, one each.
    pub fn next(&self, operation: &'static str, replies: impl IntoIterator<Item = Reply>) {
        let mut state = self.state.lock().unwrap();
        state.queued.entry(operation).or_default().extend(replies);
    }

    /// From now on, each call of an operation gets the reply that `rule` has for its input.
    pub fn rule(&self, operation: &'static str, rule: impl Fn(&Value) -> Reply + Send + 'static) {
        self.state
            .lock()
            .unwrap()
            .rules
            .insert(operation, Box::new(rule));
    }

    /// From now on, each call of an operation gets this reply.
    pub fn always(&self, operation: &'static str, reply: Reply) {
        self.rule(operation, move |_| reply.clone());
    }

    /// Closes all connections that are open.
    pub fn close_connections(&self) {
        self.hang_up.send_replace(());
    }

    /// All calls so far.
    #[must_use]
    pub fn all_calls(&self) -> Vec<Call> {
        self.state.lock().unwrap().calls.clone()
    }

    /// The inputs of all calls of one operation so far.
    #[must_use]
    pub fn calls(&self, operation: &str) -> Vec<Value> {
        self.all_calls()
            .into_iter()
            .filter(|call| call.operation == operation)
            .map(|call| call.input)
            .collect()
    }

    /// Waits until an operation has been called this many times, and gives the inputs.
    ///
    /// # Panics
    /// If it is not.
    pub async fn wait_for(&self, operation: &str, count: usize) -> Vec<Value> {
        let mut changes = self.changes.subscribe();
        let wait = async {
            while self.calls(operation).len() < count {
                changes.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            panic!(
                "waited in vain for {count} {operation}: {:?}",
                self.all_calls()
            );
        }
        self.calls(operation)
    }
}

impl Drop for FakeAws {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl fmt::Debug for FakeAws {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "FakeAws({})", self.address)
    }
}

async fn accept(
    listener: TcpListener,
    state: Arc<Mutex<State>>,
    changes: watch::Sender<()>,
    hang_up: watch::Sender<()>,
) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (state, changes) = (Arc::clone(&state), changes.clone());
        let mut hang_up = hang_up.subscribe();
        connections.spawn(async move {
            tokio::select! {
                // A function may hang up whenever it likes.
                _ = serve(stream, &state, &changes) => {}
                _ = hang_up.changed() => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(
    stream: TcpStream,
    state: &Mutex<State>,
    changes: &watch::Sender<()>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await? {
        let reply = answer(&request, &mut state.lock().unwrap());
        changes.send_replace(());
        let protocol = Protocol::of(&request);
        let Some((status, body)) = reply.into_body(protocol).await else {
            return Ok(());
        };
        stream
            .write_all(&response(status, protocol.headers(), &body))
            .await?;
    }
    Ok(())
}

/// Records the call and finds its reply, which is none of those that stand for another.
fn answer(request: &Request, state: &mut State) -> Reply {
    let protocol::Asked {
        service,
        operation,
        input,
    } = protocol::read(request);
    let operation = operation.as_str();
    state.calls.push(Call {
        service,
        operation: operation.to_owned(),
        input: input.clone(),
        at: Instant::now(),
    });
    let signed = request
        .header("authorization")
        .is_some_and(|value| value.starts_with("AWS4-HMAC-SHA256 "));
    if !signed {
        return Reply::error(403, "MissingAuthenticationTokenException");
    }
    let queued = state
        .queued
        .get_mut(operation)
        .and_then(VecDeque::pop_front);
    let scripted = queued.or_else(|| state.rules.get(operation).map(|rule| rule(&input)));
    match scripted {
        Some(Reply::Usual) | None => usual(operation, &input, state),
        Some(Reply::CutShort(bytes)) => usual(operation, &input, state).cut_short(bytes),
        Some(Reply::Unprocessed(table)) => unprocessed(operation, table, input, state),
        Some(reply) => reply,
    }
}

fn unprocessed(operation: &str, table: &str, mut input: Value, state: &mut State) -> Reply {
    let requests = input["RequestItems"].as_object_mut();
    let requests = requests.expect("a batch call of DynamoDB");
    let Some(left) = requests.remove(table) else {
        return usual(operation, &input, state);
    };
    let done = match (requests.is_empty(), operation) {
        (false, _) => usual(operation, &input, state),
        (true, "BatchGetItem") => Reply::Output(json!({"Responses": {}, "UnprocessedKeys": {}})),
        (true, _) => Reply::Output(json!({"UnprocessedItems": {}})),
    };
    done.with_unprocessed(table, &left)
}

fn usual(operation: &str, input: &Value, state: &mut State) -> Reply {
    match operation {
        "BatchGetItem" => state.tables.batch_get(input).into(),
        "BatchWriteItem" => state.tables.batch_write(input).into(),
        "GetItem" => state.tables.get_item(input).into(),
        "PutItem" => state.tables.put_item(input).into(),
        "Query" => state.tables.query(input, state.page_size).into(),
        "Scan" => state.tables.scan(input, state.page_size).into(),
        "UpdateItem" => state.tables.update(input).into(),
        "DeleteItem" => state.tables.delete_item(input).into(),
        "DescribeStacks" => cloudformation::describe_stacks(input, &state.stack_parameters),
        "PutEvents" => events::put_events(input),
        "GetParameters" => state.parameters.get_parameters(input),
        "GetParameter" => state.parameters.get_parameter(input),
        "PutParameter" => state.parameters.put_parameter(input),
        "DeleteParameter" => state.parameters.delete_parameter(input),
        "SendMessageBatch" => sqs::send_batch(input, &mut state.sent),
        "GetQueueAttributes" => queue_attributes(input, state),
        "ReceiveMessage" | "DeleteMessageBatch" if input["QueueUrl"] != DEAD_LETTER_QUEUE_URL => {
            Reply::error(400, "AWS.SimpleQueueService.NonExistentQueue")
        }
        "ReceiveMessage" => state.dead_letters.receive(input),
        "DeleteMessageBatch" => state.dead_letters.delete_batch(input),
        "ListMessageMoveTasks" => Reply::Output(json!({"Results": []})),
        "ChangeMessageVisibilityBatch" if input["QueueUrl"] == DEAD_LETTER_QUEUE_URL => {
            state.dead_letters.change_visibility_batch(input)
        }
        "ChangeMessageVisibilityBatch" => sqs::change_visibility_batch(input),
        _ => operations::usual(operation, input)
            .unwrap_or_else(|| Reply::refusal(400, "UnknownOperationException", operation)),
    }
}

fn queue_attributes(input: &Value, state: &State) -> Reply {
    let queue_url = input["QueueUrl"].as_str().unwrap_or_default();
    if queue_url == DEAD_LETTER_QUEUE_URL {
        operations::with_settings(state.dead_letters.attributes(queue_url), queue_url)
    } else if operations::is_queue(queue_url) {
        operations::with_settings(operations::queue(queue_url), queue_url)
    } else {
        Reply::error(400, "AWS.SimpleQueueService.NonExistentQueue")
    }
}
