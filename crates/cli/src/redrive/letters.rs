//! The messages of the dead-letter queue that this redrive has in its hands.
//!
//! Each is received once and then hidden, so that it is neither received again nor redriven by
//! somebody else meanwhile. They are hidden for minutes only, and again and again: if this process
//! is killed, they come back by themselves. Whatever was not deleted is shown again at the end.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::ProvideErrorMetadata as _;
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName, QueueAttributeName,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use webhooks_core::job::Job;
use webhooks_core::timestamp;
use webhooks_shell::time;

use super::filter::{Filter, Identity};
use super::held::{ENTRIES, HIDDEN, HIDDEN_SECONDS, Handle, Held, change, keep_hidden, named};
use super::stop::Stop;
use crate::aws;
use crate::error::Error;

/// A poll that waits asks all of SQS's servers, one that does not asks some.
const POLL_SECONDS: i32 = 2;

/// After this many polls in a row without a message the queue counts as empty, even if SQS, which
/// counts approximately, says that there are more.
const EMPTY_POLLS: u32 = 5;

/// SQS lets about 120 000 messages of a queue be in hand. What is meant is kept in memory.
const MOST_MESSAGES: usize = 100_000;
const MOST_BYTES: usize = 256 * 1024 * 1024;

/// Tries of what SQS could not do in a batch.
const ROUNDS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// What is answered to a call that is not known.
const UNKNOWN_CALL: [&str; 4] = [
    "UnknownOperationException",
    "InvalidAction",
    "UnsupportedOperation",
    "AWS.SimpleQueueService.UnsupportedOperation",
];

/// A dead letter that is meant.
#[derive(Debug)]
pub(crate) struct Received {
    pub message_id: String,
    /// When it was sent to the jobs queue.
    pub sent_at: Option<SystemTime>,
    pub identity: Identity,
    /// Exactly as it lies in the queue.
    pub body: String,
}

/// What was in the queue.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// What is meant.
    pub meant: Vec<Received>,
    /// The webhook ids of all other jobs.
    pub not_meant: Vec<String>,
    /// How many messages are not jobs.
    pub not_jobs: usize,
    /// About how many messages are in somebody else's hands.
    pub elsewhere: usize,
    /// Whether there are more than one run takes.
    pub more: bool,
}

/// The dead-letter queue.
pub(crate) struct Letters {
    client: Client,
    queue_url: String,
    held: Arc<Held>,
    ending: watch::Sender<bool>,
    keeper: JoinHandle<()>,
}

impl Letters {
    /// Keeps hidden what is received from now on.
    pub(crate) fn open(aws: &SdkConfig, queue_url: &str) -> Self {
        let client = Client::new(aws);
        let held = Arc::new(Held::default());
        let (ending, ended) = watch::channel(false);
        let hiding = (client.clone(), queue_url.to_owned());
        let hide = move |due: Vec<Handle>| {
            let (client, queue_url) = hiding.clone();
            async move { change(&client, &queue_url, &due, HIDDEN_SECONDS).await }
        };
        let keeper = tokio::spawn(keep_hidden(Arc::clone(&held), ended, hide));
        Self {
            client,
            queue_url: queue_url.to_owned(),
            held,
            ending,
            keeper,
        }
    }

    /// Receives all that is in the queue and sorts it. `progress` is told how many messages there
    /// are so far.
    pub(crate) async fn receive(
        &self,
        filter: &Filter,
        stop: &Stop,
        progress: impl Fn(usize),
    ) -> Result<Found, Error> {
        let mut found = Found::default();
        let mut bytes = 0;
        let mut empty_polls = 0;
        while !stop.is_asked_for() {
            if self.held.count() >= MOST_MESSAGES || bytes >= MOST_BYTES {
                found.more = true;
                break;
            }
            let Some(messages) = self.poll().await? else {
                found.more = true;
                break;
            };
            if messages.is_empty() {
                empty_polls += 1;
                let (waiting, in_hand) = self.counts().await?;
                found.elsewhere = in_hand.saturating_sub(self.held.count());
                if waiting == 0 || empty_polls == EMPTY_POLLS {
                    break;
                }
                continue;
            }
            empty_polls = 0;
            for message in messages {
                bytes += sort(message, filter, &mut found);
            }
            progress(self.held.count());
        }
        Ok(found)
    }

    /// One poll: what has come and was not in hand before; `None` if SQS hands out no more.
    async fn poll(&self) -> Result<Option<Vec<Message>>, Error> {
        let until = Instant::now() + HIDDEN;
        let answer = self
            .client
            .receive_message()
            .queue_url(&self.queue_url)
            .max_number_of_messages(10)
            .wait_time_seconds(POLL_SECONDS)
            .visibility_timeout(HIDDEN_SECONDS)
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .send()
            .await;
        match answer {
            Ok(answer) => {
                let mut messages = answer.messages.unwrap_or_default();
                messages.retain(|message| self.held.take(message, until));
                Ok(Some(messages))
            }
            Err(error) if error.code().is_some_and(|code| code.contains("OverLimit")) => Ok(None),
            Err(error) => Err(aws::failure("sqs:ReceiveMessage", &error)),
        }
    }

    /// About how many messages wait, and how many are in somebody's hands.
    async fn counts(&self) -> Result<(usize, usize), Error> {
        let answer = self
            .client
            .get_queue_attributes()
            .queue_url(&self.queue_url)
            .attribute_names(QueueAttributeName::ApproximateNumberOfMessages)
            .attribute_names(QueueAttributeName::ApproximateNumberOfMessagesNotVisible)
            .send()
            .await
            .map_err(|error| aws::failure("sqs:GetQueueAttributes", &error))?;
        let count = |name| {
            let text = answer.attributes.as_ref().and_then(|all| all.get(&name));
            text.and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        Ok((
            count(QueueAttributeName::ApproximateNumberOfMessages),
            count(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
        ))
    }

    /// Deletes messages and gives the number of those that are still there.
    pub(crate) async fn delete(&self, message_ids: &[&str]) -> Result<usize, Error> {
        let mut remaining = 0;
        for chunk in message_ids.chunks(ENTRIES) {
            let mut waiting = self.held.handles(chunk);
            remaining += chunk.len() - waiting.len();
            for round in 0..ROUNDS {
                if round > 0 {
                    time::pause(FIRST_PAUSE, round).await;
                }
                let failed = self.delete_once(&waiting).await?;
                let done = waiting.iter().filter(|(id, _)| !failed.contains(id));
                self.held.forget(done.map(|(id, _)| id.as_str()));
                waiting.retain(|(id, _)| failed.contains(id));
                if waiting.is_empty() {
                    break;
                }
            }
            remaining += waiting.len();
        }
        Ok(remaining)
    }

    /// The ids of those that were not deleted.
    async fn delete_once(&self, messages: &[Handle]) -> Result<Vec<String>, Error> {
        let entries = messages.iter().enumerate();
        let entries = entries.filter_map(|(index, (_, receipt_handle))| {
            DeleteMessageBatchRequestEntry::builder()
                .id(index.to_string())
                .receipt_handle(receipt_handle)
                .build()
                // The builder only refuses an entry without id or handle.
                .ok()
        });
        let answer = self
            .client
            .delete_message_batch()
            .queue_url(&self.queue_url)
            .set_entries(Some(entries.collect()))
            .send()
            .await
            .map_err(|error| aws::failure("sqs:DeleteMessage", &error))?;
        Ok(named(messages, &answer.failed))
    }

    /// Shows again what is left, and gives the number of messages that stay hidden for some
    /// minutes because that failed.
    pub(crate) async fn release(self) -> usize {
        self.ending.send_replace(true);
        // It ends after the calls that it has begun, or it would hide again what is shown.
        let _ = self.keeper.await;
        let all = self.held.all();
        change(&self.client, &self.queue_url, &all, 0).await.len()
    }
}

/// Puts a message where it belongs and gives the bytes that are kept of it.
fn sort(message: Message, filter: &Filter, found: &mut Found) -> usize {
    let body = message.body.unwrap_or_default();
    let identity = Job::parse(&body)
        .ok()
        .and_then(|job| Identity::of_job(&job));
    let Some(identity) = identity else {
        found.not_jobs += 1;
        return 0;
    };
    if !filter.takes(&identity) {
        found.not_meant.push(identity.webhook_id);
        return 0;
    }
    let sent_at = message
        .attributes
        .as_ref()
        .and_then(|all| all.get(&MessageSystemAttributeName::SentTimestamp));
    let bytes = body.len();
    found.meant.push(Received {
        message_id: message.message_id.unwrap_or_default(),
        sent_at: sent_at.and_then(|text| timestamp::parse_epoch_millis(text)),
        identity,
        body,
    });
    bytes
}

/// The console's "Start DLQ redrive" moves everything, and would race with this.
pub(crate) async fn refuse_a_running_move(aws: &SdkConfig, queue_url: &str) -> Result<(), Error> {
    let client = Client::new(aws);
    let attributes = client
        .get_queue_attributes()
        .queue_url(queue_url)
        .attribute_names(QueueAttributeName::QueueArn)
        .send()
        .await
        .map_err(|error| aws::failure("sqs:GetQueueAttributes", &error))?;
    let arn = attributes
        .attributes
        .as_ref()
        .and_then(|all| all.get(&QueueAttributeName::QueueArn));
    let answer = client
        .list_message_move_tasks()
        .set_source_arn(arn.cloned())
        .max_results(1)
        .send()
        .await;
    let answer = match answer {
        Ok(answer) => answer,
        // There is no such call in a local AWS, nor such a task.
        Err(error)
            if error
                .code()
                .is_some_and(|code| UNKNOWN_CALL.contains(&code)) =>
        {
            return Ok(());
        }
        Err(error) => return Err(aws::failure("sqs:ListMessageMoveTasks", &error)),
    };
    for task in answer.results() {
        if matches!(task.status(), Some("RUNNING" | "CANCELLING")) {
            return Err(Error::Failed(format!(
                "a redrive of the SQS console (StartMessageMoveTask) is {}, with {} messages \
                 moved: wait for its end, or cancel it in the console under Dead-letter queue \
                 redrive tasks",
                task.status().unwrap_or_default().to_lowercase(),
                task.approximate_number_of_messages_moved(),
            )));
        }
    }
    Ok(())
}
