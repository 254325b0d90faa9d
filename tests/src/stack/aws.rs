//! What an operator looks at and does: rows, secrets and queues.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::{Message, QueueAttributeName, SendMessageBatchRequestEntry};
use aws_sdk_ssm::types::ParameterType;
use serde_json::{Value, json};

use super::{Function, Stack};

/// How long one call may take.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(20);

/// One of the template's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Deliveries under way.
    Jobs,
    /// Deliveries that have used up their attempts.
    DeadLetters,
    /// Events that did not become jobs.
    DispatchFailures,
}

impl Queue {
    fn url_output(self) -> &'static str {
        match self {
            Self::Jobs => "JobsQueueUrl",
            Self::DeadLetters => "DeadLetterQueueUrl",
            Self::DispatchFailures => "DispatchFailureQueueUrl",
        }
    }
}

// Each call has a client of its own: the tests that share a stack have a runtime each, and a
// connection belongs to one.
macro_rules! client {
    ($stack:expr, $sdk:ident) => {{
        let description = &$stack.description;
        let config = $sdk::Config::builder()
            .behavior_version($sdk::config::BehaviorVersion::latest())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .endpoint_url(&description.endpoint_url)
            .region($sdk::config::Region::new(description.region.clone()))
            .credentials_provider($sdk::config::Credentials::new(
                &description.access_key_id,
                &description.secret_access_key,
                None,
                None,
                "local stack",
            ))
            .timeout_config(
                $sdk::config::timeout::TimeoutConfig::builder()
                    .operation_timeout($crate::stack::aws::CALL_LIMIT)
                    .build(),
            )
            .build();
        $sdk::Client::from_conf(config)
    }};
}
pub(super) use client;

impl Stack {
    /// Adds or replaces a subscription, with just what an operator writes by hand.
    pub async fn put_row(&self, event_type: &str, subscriber_id: &str, url: &str) {
        client!(self, aws_sdk_dynamodb)
            .put_item()
            .table_name(self.output("SubscriptionsTableName"))
            .item("eventType", AttributeValue::S(event_type.into()))
            .item("subscriberId", AttributeValue::S(subscriber_id.into()))
            .item("url", AttributeValue::S(url.into()))
            .item("enabled", AttributeValue::Bool(true))
            .send()
            .await
            .unwrap();
    }

    /// A subscription as it is now.
    ///
    /// # Panics
    /// If there is none.
    pub async fn row(
        &self,
        event_type: &str,
        subscriber_id: &str,
    ) -> HashMap<String, AttributeValue> {
        let answer = client!(self, aws_sdk_dynamodb)
            .get_item()
            .table_name(self.output("SubscriptionsTableName"))
            .key("eventType", AttributeValue::S(event_type.into()))
            .key("subscriberId", AttributeValue::S(subscriber_id.into()))
            .consistent_read(true)
            .send()
            .await
            .unwrap();
        answer.item.expect("the row is there")
    }

    /// Sets a subscriber's signing-secret parameter.
    pub async fn put_secret(&self, subscriber_id: &str, value: &str) {
        let prefix = self.output("SecretPrefix");
        client!(self, aws_sdk_ssm)
            .put_parameter()
            .name(format!("/{prefix}/{subscriber_id}/signing-secret"))
            .r#type(ParameterType::SecureString)
            .value(value)
            .overwrite(true)
            .send()
            .await
            .unwrap();
    }

    /// How many messages a queue has, also those that nobody can see at the moment.
    pub async fn count(&self, queue: Queue) -> u32 {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        let answer = client!(self, aws_sdk_sqs)
            .get_queue_attributes()
            .queue_url(self.output(queue.url_output()))
            .set_attribute_names(Some(names.to_vec()))
            .send()
            .await
            .unwrap();
        let attributes = answer.attributes.expect("the attributes");
        let number = |name| attributes[&name].parse::<u32>().unwrap();
        names.map(number).iter().sum()
    }

    /// Waits until a queue has exactly this many messages.
    ///
    /// # Panics
    /// If that does not happen.
    pub async fn until_count(&self, queue: Queue, count: u32) {
        self.until(&format!("{count} messages in {queue:?}"), async || {
            (self.count(queue).await == count).then_some(())
        })
        .await;
    }

    /// Sends a message and gives its id.
    pub async fn send(&self, queue: Queue, body: &str) -> String {
        let entry = SendMessageBatchRequestEntry::builder()
            .id("0")
            .message_body(body)
            .build()
            .unwrap();
        let answer = client!(self, aws_sdk_sqs)
            .send_message_batch()
            .queue_url(self.output(queue.url_output()))
            .entries(entry)
            .send()
            .await
            .unwrap();
        let [sent] = &answer.successful[..] else {
            panic!("{answer:?}");
        };
        sent.message_id.clone()
    }

    /// A look at the messages of a queue that nobody works on, after which they are all still
    /// there.
    ///
    /// # Panics
    /// If there may be more than one look shows.
    pub async fn messages(&self, queue: Queue) -> Vec<Message> {
        let _alone = self.looks.lock().await;
        self.look(queue).await
    }

    /// The dead letters of one delivery.
    pub async fn dead_letters(&self, webhook_id: &str) -> Vec<Message> {
        let messages = self.messages(Queue::DeadLetters).await;
        messages.into_iter().filter(is_of(webhook_id)).collect()
    }

    /// Waits until a delivery is dead, and gives the message in the dead-letter queue.
    ///
    /// # Panics
    /// If that does not happen, or if it is there more than once.
    pub async fn dead_letter(&self, webhook_id: &str) -> Message {
        self.until(&format!("the dead letter {webhook_id}"), async || {
            let mut letters = self.dead_letters(webhook_id).await;
            assert!(letters.len() < 2, "{letters:?}");
            letters.pop()
        })
        .await
    }

    /// Does what "Start DLQ redrive" in the SQS console does, for one delivery: its message goes
    /// to the jobs queue as a new one and leaves the dead-letter queue.
    ///
    /// # Panics
    /// If it is not there.
    pub async fn redrive(&self, webhook_id: &str) {
        let _alone = self.looks.lock().await;
        let letters = self.look(Queue::DeadLetters).await;
        let letter = letters
            .into_iter()
            .find(is_of(webhook_id))
            .expect("it is dead");
        self.send(Queue::Jobs, letter.body().expect("a body")).await;
        client!(self, aws_sdk_sqs)
            .delete_message()
            .queue_url(self.output(Queue::DeadLetters.url_output()))
            .receipt_handle(letter.receipt_handle().expect("a receipt handle"))
            .send()
            .await
            .unwrap();
    }

    /// Receives some messages of a queue and puts them back at once, as somebody does who looks
    /// into it in the console while it is worked on.
    pub async fn peek(&self, queue: Queue) {
        client!(self, aws_sdk_sqs)
            .receive_message()
            .queue_url(self.output(queue.url_output()))
            .max_number_of_messages(10)
            .visibility_timeout(0)
            .send()
            .await
            .unwrap();
    }

    /// Waits for a message that can be received, and deletes it.
    pub async fn steal(&self, queue: Queue) {
        let client = client!(self, aws_sdk_sqs);
        let queue_url = self.output(queue.url_output());
        self.until("a message to steal", async || {
            let answer = client.receive_message().queue_url(queue_url).send();
            let message = answer.await.unwrap().messages?.pop()?;
            let deletion = client.delete_message().queue_url(queue_url);
            let deletion = deletion.receipt_handle(message.receipt_handle?);
            deletion.send().await.ok()
        })
        .await;
    }

    /// The bodies of all messages of a queue, which then are hidden for a while.
    pub async fn take_all(&self, queue: Queue) -> Vec<String> {
        let mut bodies = Vec::new();
        loop {
            let messages = self.receive(queue, 600).await;
            if messages.is_empty() {
                return bodies;
            }
            bodies.extend(messages.into_iter().filter_map(|message| message.body));
        }
    }

    /// Sets for how long a queue hides a message that was received, in seconds.
    pub async fn set_visibility_timeout(&self, queue: Queue, seconds: u64) {
        client!(self, aws_sdk_sqs)
            .set_queue_attributes()
            .queue_url(self.output(queue.url_output()))
            .attributes(QueueAttributeName::VisibilityTimeout, seconds.to_string())
            .send()
            .await
            .unwrap();
    }

    /// Up to ten messages, which then are hidden for so many seconds.
    async fn receive(&self, queue: Queue, hidden_seconds: i32) -> Vec<Message> {
        let answer = client!(self, aws_sdk_sqs)
            .receive_message()
            .queue_url(self.output(queue.url_output()))
            .max_number_of_messages(10)
            .visibility_timeout(hidden_seconds)
            .send()
            .await
            .unwrap();
        answer.messages.unwrap_or_default()
    }

    async fn look(&self, queue: Queue) -> Vec<Message> {
        let messages = self.receive(queue, 0).await;
        assert!(messages.len() < 10, "too many to see all of them");
        messages
    }

    /// Switches the trigger of `deliver` off or on, as an operator would to stop all sending.
    /// Jobs that come meanwhile are all there when it is switched on.
    pub async fn switch_trigger(&self, on: bool) {
        let function = json!({"FunctionName": self.output(Function::Deliver.name_output())});
        let answer = self
            .call("lambda", "ListEventSourceMappings", &function)
            .await;
        let trigger = &answer["EventSourceMappings"][0]["UUID"];
        let change = json!({"UUID": trigger, "Enabled": on});
        self.call("lambda", "UpdateEventSourceMapping", &change)
            .await;
    }
}

/// Whether a message carries the job of this delivery.
fn is_of(webhook_id: &str) -> impl Fn(&Message) -> bool {
    move |message| {
        let job: Value =
            serde_json::from_str(message.body().unwrap_or_default()).unwrap_or_default();
        job["webhookId"] == webhook_id
    }
}
