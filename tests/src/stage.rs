//! A function with everything around it: one line to set up, and what came of a batch in one
//! value.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::delivery_record::{now_ms, time_value};
use crate::fake_aws::{FakeAws, entries};
use crate::receiver::{Answer, Received, Receiver};
use crate::runtime::{Ending, Environment};
use crate::signature::secret_for;
use crate::sqs_event::{Job, OCCURRED_AT, Record, event};

/// The queue that a function on a stage is told of.
pub const QUEUE_URL: &str = "https://sqs.eu-central-1.amazonaws.com/111122223333/jobs";
/// The stack that the command asks about.
pub const STACK_NAME: &str = "sqs-webhooks";
/// The queue of dead deliveries, of which the command is told.
pub const DEAD_LETTER_QUEUE_URL: &str =
    "https://sqs.eu-central-1.amazonaws.com/111122223333/jobs-dlq";
/// The queue of events that did not become jobs, of which the command is told.
pub const DISPATCH_FAILURE_QUEUE_URL: &str =
    "https://sqs.eu-central-1.amazonaws.com/111122223333/dispatch-failures";
/// Where alarms are published, of which the command is told.
pub const ALARM_TOPIC_ARN: &str = "arn:aws:sns:eu-central-1:111122223333:sqs-webhooks-alarms";
/// The subscriptions table that a function on a stage is told of.
pub const TABLE_NAME: &str = "subscriptions";
/// The table of delivery records that `deliver` on a stage is told of.
pub const DELIVERIES_TABLE: &str = "deliveries";
/// The table of what came that a receiver on a stage is told of.
pub const RECEIVED_TABLE: &str = "received";
/// The parameter with the secrets that a receiver on a stage is told of.
pub const RECEIVER_PARAMETER: &str = "/webhooks-receiver/secret";
/// What a function of the template's default timeout has for one invocation.
pub const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);

/// AWS, and the environment variables of a function.
#[derive(Debug)]
pub struct Stage {
    /// The services.
    pub aws: FakeAws,
    variables: BTreeMap<String, String>,
}

/// What came of a batch.
#[derive(Debug)]
pub struct Batch {
    /// The function's response, byte for byte.
    pub response: String,
    /// The visibilities that were set, in seconds: receipt handle and value, in order.
    pub visibilities: Vec<(String, i64)>,
    /// The calls of DynamoDB and SQS, by their operations' names, in order.
    pub calls: Vec<String>,
    /// How long the invocation took.
    pub took: Duration,
}

/// What came of one record of [`Stage::try_answers`].
#[derive(Debug)]
pub struct Verdict {
    /// Whether it was in `batchItemFailures`, so that it stays in the queue.
    pub reported: bool,
    /// The visibility that was set for it, in seconds.
    pub delay: Option<i64>,
    /// The requests that the receiver got for it.
    pub requests: Vec<Received>,
    /// Whether its subscription is enabled afterwards.
    pub enabled: bool,
}

impl Stage {
    /// A stage for `deliver`, on which private endpoints are allowed.
    pub async fn for_deliver() -> Self {
        Self::for_dispatch()
            .await
            .with("DELIVERIES_TABLE", DELIVERIES_TABLE)
            .with("SECRET_PREFIX", "webhooks")
            .with("ALLOW_PRIVATE_ENDPOINTS", "true")
    }

    /// A stage for `dispatch`.
    pub async fn for_dispatch() -> Self {
        let aws = FakeAws::start().await;
        let endpoint = aws.url();
        Self::with_aws(aws)
            .with("AWS_ENDPOINT_URL", &endpoint)
            .with("QUEUE_URL", QUEUE_URL)
            .with("TABLE_NAME", TABLE_NAME)
    }

    /// A stage for the `receiver` of a partner, which has no secret yet.
    pub async fn for_receiver() -> Self {
        let aws = FakeAws::start().await;
        let endpoint = aws.url();
        Self::with_aws(aws)
            .with("AWS_ENDPOINT_URL", &endpoint)
            .with("SECRET_PARAMETER", RECEIVER_PARAMETER)
            .with("TABLE_NAME", RECEIVED_TABLE)
    }

    /// A stage with these services and no variables.
    pub(crate) fn with_aws(aws: FakeAws) -> Self {
        Self {
            aws,
            variables: BTreeMap::new(),
        }
    }

    /// The environment variables.
    pub(crate) fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// The same with an environment variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The same without an environment variable.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        assert!(self.variables.remove(name).is_some(), "no variable {name}");
        self
    }

    /// Enables a subscription to `OrderPaid`, and gives the subscriber a secret of its own.
    pub fn subscribe(&self, subscriber_id: &str, url: &str) {
        self.aws.put_subscription("OrderPaid", subscriber_id, url);
        self.set_secret(subscriber_id, &secret_for(subscriber_id));
    }

    /// Sets the value of a subscriber's signing-secret parameter.
    pub fn set_secret(&self, subscriber_id: &str, value: &str) {
        self.aws
            .put_parameter(&parameter_name(subscriber_id), value);
    }

    /// Adds or replaces the record of a job's delivery: its identity and these attributes, in
    /// DynamoDB's JSON.
    ///
    /// # Panics
    /// If they are not an object.
    pub fn put_record(&self, job: &Job, attributes: &Value) {
        let mut record = json!({
            "webhookId": {"S": job.webhook_id()},
            "eventId": {"S": job.event_id},
            "eventType": {"S": job.event_type},
            "subscriberId": {"S": job.subscriber_id},
            "occurredAt": {"S": OCCURRED_AT},
        });
        for (name, value) in attributes.as_object().expect("an object") {
            record[name] = value.clone();
        }
        self.aws.put_record(record);
    }

    /// Puts the record of a delivery whose message this is, which has been tried this many times
    /// in vain and is due again. Of one that has not been tried there is none.
    pub fn put_earlier_attempts(&self, job: &Job, message_id: &str, attempts: u32) {
        if attempts == 0 {
            return;
        }
        let minute_ago = time_value(now_ms() - 60_000);
        let record = json!({
            "state": {"S": "retrying"},
            "messageId": {"S": message_id},
            "attempts": {"N": attempts.to_string()},
            "startedAt": minute_ago,
            "createdAt": minute_ago,
            "updatedAt": minute_ago,
            "nextAt": time_value(now_ms() - 1000),
        });
        self.put_record(job, &record);
    }

    /// A delivery record as it is now, in DynamoDB's JSON.
    #[must_use]
    pub fn record(&self, webhook_id: &str) -> Option<Value> {
        self.aws.record(webhook_id)
    }

    /// Starts a bootstrap and waits for its first poll.
    ///
    /// # Panics
    /// If it ends before.
    pub async fn start(&self, bootstrap: &str) -> Environment {
        let environment = self.launch(bootstrap).await;
        if let Err(status) = environment.ready().await {
            panic!("{status}:\n{}", environment.output().await.join("\n"));
        }
        environment
    }

    /// Starts a bootstrap and waits for nothing.
    pub async fn launch(&self, bootstrap: &str) -> Environment {
        let variables = self.variables.iter();
        let variables = variables.map(|(name, value)| (name.as_str(), value.as_str()));
        Environment::start(Path::new(bootstrap), variables).await
    }

    /// Hands `dispatch` an event with the usual time, and gives the jobs that it sent for it: the
    /// entries of all calls, in order.
    ///
    /// # Panics
    /// If the invocation ends in any other way than with a response.
    pub async fn dispatch(&self, environment: &Environment, event: &str) -> Vec<Value> {
        let before = self.aws.calls("SendMessageBatch").len();
        let ending = environment.invoke(event, FUNCTION_TIMEOUT).await;
        let Ending::Response(_) = ending else {
            panic!("{ending:?}:\n{}", environment.stop().await.join("\n"));
        };
        self.sent_since(before)
    }

    /// The entries of all `SendMessageBatch` calls after the first `calls` ones, in order.
    ///
    /// # Panics
    /// If one of them went to another queue.
    #[must_use]
    pub fn sent_since(&self, calls: usize) -> Vec<Value> {
        self.aws.calls("SendMessageBatch")[calls..]
            .iter()
            .inspect(|call| assert_eq!(call["QueueUrl"], QUEUE_URL))
            .flat_map(entries)
            .cloned()
            .collect()
    }

    /// Hands `deliver` a batch with the usual time.
    ///
    /// # Panics
    /// If the invocation ends in any other way than with a response.
    pub async fn deliver(&self, environment: &Environment, records: &[Record]) -> Batch {
        self.deliver_within(environment, records, FUNCTION_TIMEOUT)
            .await
    }

    /// Hands `deliver` a batch with this much time left.
    ///
    /// # Panics
    /// If the invocation ends in any other way than with a response.
    pub async fn deliver_within(
        &self,
        environment: &Environment,
        records: &[Record],
        time: Duration,
    ) -> Batch {
        let before = self.aws.all_calls().len();
        let start = Instant::now();
        let ending = environment.invoke(&event(records), time).await;
        let took = start.elapsed();
        let Ending::Response(response) = ending else {
            panic!("{ending:?}:\n{}", environment.stop().await.join("\n"));
        };
        let mut calls = self.aws.all_calls().split_off(before);
        calls.retain(|call| call.service.starts_with("DynamoDB_") || call.service == "AmazonSQS");
        let visibilities = calls
            .iter()
            .filter(|call| call.operation == "ChangeMessageVisibilityBatch")
            .inspect(|call| assert_eq!(call.input["QueueUrl"], QUEUE_URL))
            .flat_map(|call| entries(&call.input))
            .map(|entry| {
                let handle = entry["ReceiptHandle"].as_str().unwrap_or_default();
                let seconds = &entry["VisibilityTimeout"];
                (
                    handle.to_owned(),
                    seconds.as_i64().unwrap_or_else(|| panic!("{seconds}")),
                )
            })
            .collect();
        Batch {
            response: String::from_utf8(response).unwrap(),
            visibilities,
            calls: calls.into_iter().map(|call| call.operation).collect(),
            took,
        }
    }

    /// Delivers one job to each of these answers, at the attempt whose number is beside it, in
    /// batches of ten.
    pub async fn try_answers(
        &self,
        environment: &Environment,
        trials: impl IntoIterator<Item = (u32, Answer)>,
    ) -> Vec<Verdict> {
        let (attempts, answers): (Vec<u32>, Vec<Answer>) = trials.into_iter().unzip();
        let answers = answers.into_iter().enumerate();
        let receiver =
            Receiver::by_target(answers.map(|(number, answer)| (format!("/{number}"), answer)))
                .await;
        let numbers: Vec<usize> = (0..attempts.len()).collect();
        let mut verdicts = Vec::new();
        for numbers in numbers.chunks(10) {
            let mut records = Vec::new();
            for &number in numbers {
                let subscriber_id = format!("s{number}");
                self.subscribe(&subscriber_id, &receiver.url(&format!("/{number}")));
                let job = Job::for_subscriber(&subscriber_id);
                let message = Record::new(number, &job.text());
                self.put_earlier_attempts(&job, &format!("m{number}"), attempts[number] - 1);
                records.push(message.received(attempts[number]));
            }
            let batch = self.deliver(environment, &records).await;
            let reported = batch.reported();
            assert!(batch.response == failures(&reported), "{batch:?}");
            verdicts.extend(numbers.iter().map(|&number| Verdict {
                reported: reported.contains(&format!("m{number}")),
                delay: batch.delay(number),
                requests: receiver.requests_to(&format!("/{number}")),
                enabled: self.is_enabled(&format!("s{number}")),
            }));
        }
        verdicts
    }

    /// Whether the subscription of `OrderPaid` is enabled.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn is_enabled(&self, subscriber_id: &str) -> bool {
        let row = self
            .aws
            .row("OrderPaid", subscriber_id)
            .expect("the row is there");
        row["enabled"]["BOOL"]
            .as_bool()
            .expect("`enabled` is a boolean")
    }
}

impl Batch {
    /// The ids in `batchItemFailures`, in order.
    ///
    /// # Panics
    /// If the response is anything else than such a list of texts.
    #[must_use]
    pub fn reported(&self) -> Vec<String> {
        let response: Value = serde_json::from_str(&self.response).unwrap();
        let failures = response["batchItemFailures"].as_array().expect("a list");
        let id = |failure: &Value| failure["itemIdentifier"].as_str().map(str::to_owned);
        failures
            .iter()
            .map(|failure| id(failure).expect("an id"))
            .collect()
    }

    /// Checks that a message's visibility was set once, to a number of seconds in this range.
    ///
    /// # Panics
    /// If it was not.
    pub fn assert_delay(&self, number: usize, range: RangeInclusive<i64>) {
        let in_range = self
            .delay(number)
            .is_some_and(|delay| range.contains(&delay));
        assert!(in_range, "m{number} in {range:?}: {self:?}");
    }

    /// The visibility that was set for a message, in seconds.
    ///
    /// # Panics
    /// If it was set more than once.
    #[must_use]
    pub fn delay(&self, number: usize) -> Option<i64> {
        let handle = format!("rh{number}");
        let mut delays = self
            .visibilities
            .iter()
            .filter(|(other, _)| *other == handle);
        let delay = delays.next().map(|(_, seconds)| *seconds);
        assert_eq!(delays.next(), None, "{handle} twice: {self:?}");
        delay
    }
}

/// Checks that nobody can read any of these confidential texts in these lines: no eight characters
/// in a row, neither as they are nor as the numbers of the bytes that they are.
///
/// # Panics
/// If somebody can.
pub fn assert_untold(lines: &[impl AsRef<str>], confidential: &[&str]) {
    const TELLING: usize = 8;
    for text in confidential {
        assert!(text.is_ascii() && text.len() >= TELLING, "{text:?}");
    }
    for line in lines {
        // A text within a text within a line has its quotes escaped, once or twice.
        let line = line.as_ref().replace('\\', "");
        for part in confidential
            .iter()
            .flat_map(|text| text.as_bytes().windows(TELLING))
        {
            let numbers: Vec<String> = part.iter().map(u8::to_string).collect();
            for form in [str::from_utf8(part).unwrap(), &numbers.join(", ")] {
                assert!(!line.contains(form), "{form}: {line}");
            }
        }
    }
}

/// Runs a test for each of these cases, all at the same time: most of their time is waiting.
///
/// # Panics
/// If one of them does.
pub async fn side_by_side<C, F>(cases: impl IntoIterator<Item = C>, test: impl Fn(C) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut running: JoinSet<()> = cases.into_iter().map(test).collect();
    while let Some(result) = running.join_next().await {
        if let Err(error) = result {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

/// The name of a subscriber's signing-secret parameter.
#[must_use]
pub fn parameter_name(subscriber_id: &str) -> String {
    format!("/webhooks/{subscriber_id}/signing-secret")
}

/// The response that reports these messages, byte for byte.
#[must_use]
pub fn failures(message_ids: &[impl AsRef<str>]) -> String {
    let failures: Vec<String> = message_ids
        .iter()
        .map(|id| format!(r#"{{"itemIdentifier":"{}"}}"#, id.as_ref()))
        .collect();
    format!(r#"{{"batchItemFailures":[{}]}}"#, failures.join(","))
}

/// A stage with these subscribers at one receiver, and a record for each.
pub async fn subscribers(receiver: &Receiver, names: &[&str]) -> (Stage, Vec<Record>) {
    let stage = Stage::for_deliver().await;
    let mut records = Vec::new();
    for (n, name) in names.iter().enumerate() {
        stage.subscribe(name, &receiver.url(&format!("/{name}")));
        records.push(Record::new(n, &Job::for_subscriber(name).text()));
    }
    (stage, records)
}
