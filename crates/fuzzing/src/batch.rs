//! An invocation of deliver: whatever comes in, Lambda gets an answer that it understands, and no
//! message is deleted of which that was not decided.
//!
//! AWS is played within the process, without a network; attempts go to a port that nobody listens
//! on.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use deliver::{Config, Deliver, SqsEvent};
use lambda_runtime::Context;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use webhooks_core::job::Job;
use webhooks_core::setting::Settings;

/// The first byte says how AWS answers; from the second on it is the invocation's JSON or, if the
/// first byte is 8 or more, the bodies of messages, one on each line.
///
/// # Panics
/// If the answer is none that Lambda takes, or leaves out a message that must stay.
pub fn batch(data: &[u8]) {
    let Some((mode, data)) = data.split_first() else {
        return;
    };
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let event = if mode & 8 == 0 {
        text.to_owned()
    } else {
        event_of(text)
    };
    // What is not JSON the runtime refuses, and so what stands for a record and can not be read, such
    // as a number without end: the whole batch comes back.
    let Ok(invocation) = serde_json::from_str::<SqsEvent>(&event) else {
        return;
    };
    let tables = Tables::of(*mode);
    TABLES.store(mode & 3, Ordering::SeqCst);
    let function = function();
    let mut context = Context::default();
    let end = SystemTime::now() + Duration::from_secs(60);
    context.deadline = u64::try_from(end.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let answer = function
        .runtime
        .block_on(Arc::clone(&function.deliver).handle(invocation, context));

    // An error brings the whole batch back.
    let Ok(answer) = answer else {
        return;
    };
    let answer = serde_json::to_value(&answer).expect("the answer is JSON");
    let reported = reported(&answer);
    let records = records(&event).expect("what has no records is refused");
    for id in &reported {
        let known = records
            .iter()
            .any(|record| record.id.as_deref() == Some(id));
        assert!(known, "{id} is not of the batch: {event}");
    }
    for record in &records {
        let stays = match &record.job {
            // It goes to the dead-letter queue.
            None => true,
            Some(()) => match tables {
                Tables::Failing | Tables::Odd | Tables::Subscribed => true,
                Tables::Empty => false,
            },
        };
        if stays {
            let id = record
                .id
                .as_deref()
                .unwrap_or_else(|| panic!("a message without an id would be deleted: {event}"));
            assert!(reported.contains(id), "{id} would be deleted: {event}");
        }
    }
}

/// The ids in the answer.
fn reported(answer: &Value) -> HashSet<String> {
    let answer = answer.as_object().expect("the answer is an object");
    let keys: Vec<&String> = answer.keys().collect();
    assert_eq!(keys, ["batchItemFailures"]);
    let failures = answer.values().next().and_then(Value::as_array);
    let mut ids = HashSet::new();
    for failure in failures.expect("a list") {
        let id = failure.get("itemIdentifier").and_then(Value::as_str);
        let id = id.expect("an id").to_owned();
        assert!(!id.is_empty());
        assert!(ids.insert(id), "twice: {answer:?}");
    }
    ids
}

/// A message, by a second reading of the event.
struct Record {
    id: Option<String>,
    /// Whether it is a delivery job.
    job: Option<()>,
}

fn records(event: &str) -> Option<Vec<Record>> {
    // Not as values: one of a pair with the same name would be lost.
    let members: HashMap<String, Box<RawValue>> = serde_json::from_str(event).ok()?;
    let records: Vec<Box<RawValue>> = serde_json::from_str(members.get("Records")?.get()).ok()?;
    let read = |record: &RawValue| {
        let text = |name: &str| {
            let fields: HashMap<String, Box<RawValue>> = serde_json::from_str(record.get()).ok()?;
            let text: String = serde_json::from_str(fields.get(name)?.get()).ok()?;
            Some(text)
        };
        Record {
            id: text("messageId").filter(|id| !id.is_empty()),
            job: text("body")
                .filter(|body| Job::parse(body).is_ok())
                .map(drop),
        }
    };
    Some(records.iter().map(|record| read(record)).collect())
}

fn event_of(bodies: &str) -> String {
    let records: Vec<Value> = bodies
        .lines()
        .enumerate()
        .map(|(number, body)| {
            json!({
                "messageId": format!("m{number}"),
                "receiptHandle": format!("r{number}"),
                "body": body,
                "attributes": {"ApproximateReceiveCount": "1"},
            })
        })
        .collect();
    json!({"Records": records}).to_string()
}

/// How the tables and SSM answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    /// With an error.
    Failing,
    /// With nothing.
    Empty,
    /// With a subscription for every key, and a secret for every name.
    Subscribed,
    /// With something else than what was asked for.
    Odd,
}

impl Tables {
    fn of(mode: u8) -> Self {
        match mode & 3 {
            0 => Self::Failing,
            1 => Self::Empty,
            2 => Self::Subscribed,
            _ => Self::Odd,
        }
    }
}

/// How they answer now: invocations come one after the other.
static TABLES: AtomicU8 = AtomicU8::new(0);

struct Function {
    runtime: Runtime,
    deliver: Arc<Deliver>,
}

fn function() -> &'static Function {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    FUNCTION.get_or_init(|| {
        let environment = |name: &str| {
            let value = match name {
                "QUEUE_URL" => "https://sqs.eu-central-1.amazonaws.com/111122223333/jobs",
                "TABLE_NAME" => SUBSCRIPTIONS,
                "DELIVERIES_TABLE" => "deliveries",
                "SECRET_PREFIX" => "webhooks",
                "ALLOW_PRIVATE_ENDPOINTS" => "true",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let config = Config::from_settings(&Settings::new(&environment)).expect("settings");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let deliver = Deliver::new(config, "fuzzed".to_owned(), &aws()).expect("TLS");
        Function {
            runtime,
            deliver: Arc::new(deliver),
        }
    })
}

const SUBSCRIPTIONS: &str = "subscriptions";

fn aws() -> SdkConfig {
    let credentials = Credentials::new("AKIAEXAMPLE", "example", None, None, "fuzzing");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .retry_config(RetryConfig::disabled())
        .http_client(http_client_fn(|_, _| SharedHttpConnector::new(Aws)))
        .build()
}

/// All services.
#[derive(Debug)]
struct Aws;

impl HttpConnector for Aws {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (status, body) = answer(&request);
        let status = StatusCode::try_from(status).expect("a status");
        let mut response = HttpResponse::new(status, SdkBody::from(body.to_string()));
        let headers = response.headers_mut();
        headers.insert("content-type", "application/x-amz-json-1.0");
        HttpConnectorFuture::ready(Ok(response))
    }
}

fn answer(request: &HttpRequest) -> (u16, Value) {
    let target = request.headers().get("x-amz-target").unwrap_or_default();
    let operation = target.rsplit('.').next().unwrap_or_default();
    let input: Value = request
        .body()
        .bytes()
        .and_then(|body| serde_json::from_slice(body).ok())
        .unwrap_or_default();
    match (Tables::of(TABLES.load(Ordering::SeqCst)), operation) {
        (Tables::Failing, _) => (500, json!({"__type": "InternalServerError"})),
        (Tables::Odd, _) => (200, json!({"Responses": {"other": []}, "Failed": null})),
        (tables, "BatchGetItem") => (200, found(&input, tables)),
        (Tables::Subscribed, "GetParameters") => {
            let names = input.get("Names").and_then(Value::as_array);
            let names = names.cloned().unwrap_or_default();
            let value = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
            let parameters: Vec<Value> = names
                .iter()
                .map(|name| json!({"Name": name, "Value": value}))
                .collect();
            (
                200,
                json!({"Parameters": parameters, "InvalidParameters": []}),
            )
        }
        (Tables::Empty | Tables::Subscribed, _) => (200, json!({})),
    }
}

/// What `BatchGetItem` finds.
fn found(input: &Value, tables: Tables) -> Value {
    let mut responses = serde_json::Map::new();
    let tables_asked = input.get("RequestItems").and_then(Value::as_object);
    for (table, asked) in tables_asked.into_iter().flatten() {
        let keys = asked.get("Keys").and_then(Value::as_array);
        let keys = keys.cloned().unwrap_or_default();
        let rows = if table == SUBSCRIPTIONS && tables == Tables::Subscribed {
            let row = |mut key: Value| {
                let row = key.as_object_mut().expect("a key");
                row.insert("url".into(), json!({"S": "http://127.0.0.1:1/"}));
                row.insert("enabled".into(), json!({"BOOL": true}));
                key
            };
            keys.into_iter().map(row).collect()
        } else {
            Vec::new()
        };
        responses.insert(table.clone(), Value::Array(rows));
    }
    json!({"Responses": responses, "UnprocessedKeys": {}})
}
