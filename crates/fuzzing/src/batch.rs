//! An invocation of deliver: whatever comes in, Lambda gets an answer that it understands, and no
//! message is deleted of which that was not decided.
//!
//! AWS is played within the process, without a network; attempts go to a port of this machine that
//! nobody listens on, or to one that takes everything.

use std::collections::{HashMap, HashSet};
use std::fmt;
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
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use webhooks_core::job::Job;
use webhooks_core::setting::Settings;

use crate::partner::partner;

/// The first byte says how AWS and the partner answer; from the second on it is the invocation's
/// JSON or, with the bit of 8, the bodies of messages, one on each line.
///
/// # Panics
/// If the answer is none that Lambda takes, leaves out a message that must stay, or has one in it
/// that must not come back; or if there is none, though each record has an id.
pub fn batch(data: &[u8]) {
    let Some((mode, data)) = data.split_first() else {
        return;
    };
    let are_bodies = mode & 8 != 0;
    let event = if are_bodies {
        event_of(&String::from_utf8_lossy(data)).into_bytes()
    } else {
        data.to_owned()
    };
    // As the runtime reads it. What is not JSON it refuses, and so what stands for a record and can
    // not be read, such as a number without end: the whole batch comes back.
    let Ok(invocation) = serde_json::from_slice::<SqsEvent>(&event) else {
        return;
    };
    let tables = Tables::of(*mode);
    TABLES.store(mode & 7, Ordering::SeqCst);
    let function = function();
    let mut context = Context::default();
    let end = SystemTime::now() + Duration::from_secs(60);
    context.deadline = u64::try_from(end.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let deliver = function.of(tables);
    let answer = function
        .runtime
        .block_on(Arc::clone(deliver).handle(invocation, context));

    // What is not UTF-8 is in texts that nobody reads.
    let event = String::from_utf8_lossy(&event);
    let records = records(&event);
    let answer = match answer {
        Ok(answer) => serde_json::to_value(&answer).expect("the answer is JSON"),
        // It brings the whole batch back, so that there must be no other way.
        Err(error) => {
            let all_have_ids =
                records.is_some_and(|records| records.iter().all(|record| record.id.is_some()));
            assert!(!all_have_ids, "{error}: {event}");
            return;
        }
    };
    let reported = reported(&answer);
    let records = records.expect("what has no records is refused");
    for id in &reported {
        let known = records
            .iter()
            .any(|record| record.id.as_deref() == Some(id));
        assert!(known, "{id} is not of the batch: {event}");
    }
    let mut staying = HashSet::new();
    for record in &records {
        if record.stays(tables) {
            let id = record
                .id
                .as_deref()
                .unwrap_or_else(|| panic!("a message without an id would be deleted: {event}"));
            assert!(reported.contains(id), "{id} would be deleted: {event}");
            staying.insert(id);
        }
    }
    // It has no subscription, or is delivered. An attempt is made of what has just been sent and was
    // never received before; of bodies alone all is like that.
    if tables == Tables::Empty || (tables == Tables::Accepting && are_bodies) {
        for id in &reported {
            assert!(
                staying.contains(id.as_str()),
                "{id} would come back: {event}"
            );
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
    is_job: bool,
}

impl Record {
    /// Whether the message must not be deleted.
    fn stays(&self, tables: Tables) -> bool {
        // What is no job goes to the dead-letter queue.
        !self.is_job
            || match tables {
                Tables::Failing | Tables::Odd | Tables::Subscribed => true,
                Tables::Empty | Tables::Accepting => false,
            }
    }
}

fn records(event: &str) -> Option<Vec<Record>> {
    let records = members(event, &["Records"])?.remove("Records")?;
    let records: Vec<Box<RawValue>> = serde_json::from_str(records.get()).ok()?;
    let read = |record: &RawValue| {
        let known = ["messageId", "receiptHandle", "body", "attributes"];
        let fields = members(record.get(), &known).unwrap_or_default();
        let text = |name: &str| serde_json::from_str::<String>(fields.get(name)?.get()).ok();
        Record {
            id: text("messageId").filter(|id| !id.is_empty()),
            is_job: text("body").is_some_and(|body| Job::parse(&body).is_ok()),
        }
    };
    Some(records.iter().map(|record| read(record)).collect())
}

/// The members of an object; nothing if one that is known is there twice, as nobody knows which of
/// the two is meant.
fn members(json: &str, known: &[&str]) -> Option<HashMap<String, Box<RawValue>>> {
    let Members(members) = serde_json::from_str(json).ok()?;
    let is_twice = known
        .iter()
        .any(|known| members.iter().filter(|(name, _)| name == known).count() > 1);
    (!is_twice).then(|| members.into_iter().collect())
}

/// In their order: a map would lose one of two with the same name.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = object.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
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

/// How the tables, SSM and the partner answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    /// With an error.
    Failing,
    /// With nothing.
    Empty,
    /// With a subscription for every key, and a secret for every name; the partner is away.
    Subscribed,
    /// The same, and the partner takes everything.
    Accepting,
    /// With something else than what was asked for.
    Odd,
}

impl Tables {
    fn of(mode: u8) -> Self {
        match mode & 7 {
            0 | 4 => Self::Failing,
            1 | 5 => Self::Empty,
            2 => Self::Subscribed,
            6 => Self::Accepting,
            _ => Self::Odd,
        }
    }
}

/// How they answer now: invocations come one after the other.
static TABLES: AtomicU8 = AtomicU8::new(0);

struct Function {
    runtime: Runtime,
    /// An environment that has seen AWS answer in many ways, some of which it remembers for a while.
    shaken: Arc<Deliver>,
    /// Two that always see it answer in the same way.
    empty: Arc<Deliver>,
    accepting: Arc<Deliver>,
}

impl Function {
    fn of(&self, tables: Tables) -> &Arc<Deliver> {
        match tables {
            Tables::Failing | Tables::Odd | Tables::Subscribed => &self.shaken,
            Tables::Empty => &self.empty,
            Tables::Accepting => &self.accepting,
        }
    }
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
        let deliver = || {
            let config = Config::from_settings(&Settings::new(&environment)).expect("settings");
            Arc::new(Deliver::new(config, "fuzzed".to_owned(), &aws()).expect("TLS"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        Function {
            runtime,
            shaken: deliver(),
            empty: deliver(),
            accepting: deliver(),
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
        (Tables::Subscribed | Tables::Accepting, "GetParameters") => {
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
        (Tables::Empty | Tables::Subscribed | Tables::Accepting, _) => (200, json!({})),
    }
}

/// What `BatchGetItem` finds.
fn found(input: &Value, tables: Tables) -> Value {
    let mut responses = serde_json::Map::new();
    let tables_asked = input.get("RequestItems").and_then(Value::as_object);
    for (table, asked) in tables_asked.into_iter().flatten() {
        let keys = asked.get("Keys").and_then(Value::as_array);
        let keys = keys.cloned().unwrap_or_default();
        let url = match tables {
            Tables::Subscribed => Some("http://127.0.0.1:1/".to_owned()),
            Tables::Accepting => Some(format!("http://{}/", partner())),
            Tables::Failing | Tables::Empty | Tables::Odd => None,
        };
        let rows = if let Some(url) = url.filter(|_| table == SUBSCRIPTIONS) {
            let row = |mut key: Value| {
                let row = key.as_object_mut().expect("a key");
                row.insert("url".into(), json!({"S": url}));
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
