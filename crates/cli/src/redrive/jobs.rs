//! Sending jobs to the jobs queue, as dispatch does.

use std::collections::HashMap;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use webhooks_core::packing::{Packed, Packer};
use webhooks_shell::time;

use crate::aws;
use crate::error::Error;

/// How often a message is sent in all, until SQS takes it.
const ROUNDS: u32 = 5;

/// The longest pause before the second round; it doubles with every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The jobs queue.
pub(crate) struct Jobs {
    client: Client,
    queue_url: String,
}

/// What became of messages.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// For each message its id in the queue; `None` for one that SQS did not take.
    pub message_ids: Vec<Option<String>>,
    /// Why SQS did not take the last of those.
    pub refusal: Option<String>,
    /// A call failed as a whole. Further ones would as well.
    pub failure: Option<Error>,
}

impl Jobs {
    pub(crate) fn new(aws: &SdkConfig, queue_url: &str) -> Self {
        Self {
            client: Client::new(aws),
            queue_url: queue_url.to_owned(),
        }
    }

    /// Sends messages of which none is too large, in as few calls as SQS allows.
    pub(crate) async fn send(&self, messages: Vec<Packed>) -> Sent {
        let mut packer = Packer::default();
        let mut batches = Vec::new();
        for message in messages {
            batches.extend(packer.push(message).ok().flatten());
        }
        batches.extend(packer.finish());
        let mut sent = Sent::default();
        for batch in batches {
            if sent.failure.is_none() {
                self.send_batch(&batch, &mut sent).await;
            } else {
                sent.message_ids.extend(batch.iter().map(|_| None));
            }
        }
        sent
    }

    /// Sends a batch, and again what SQS could not take of it.
    async fn send_batch(&self, batch: &[Packed], sent: &mut Sent) {
        let mut taken: HashMap<usize, String> = HashMap::new();
        let mut waiting: Vec<usize> = (0..batch.len()).collect();
        for round in 0..ROUNDS {
            if round > 0 {
                time::pause(FIRST_PAUSE, round).await;
            }
            let entries = waiting.iter().filter_map(|index| {
                let message = batch.get(*index)?;
                SendMessageBatchRequestEntry::builder()
                    .id(index.to_string())
                    .message_group_id(&message.group)
                    .message_body(&message.body)
                    .build()
                    // The builder only refuses an entry without id or body.
                    .ok()
            });
            let answer = self
                .client
                .send_message_batch()
                .queue_url(&self.queue_url)
                .set_entries(Some(entries.collect()))
                .send()
                .await;
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    sent.failure = Some(aws::failure("sqs:SendMessage", &error));
                    break;
                }
            };
            for entry in &answer.successful {
                if let Ok(index) = entry.id().parse() {
                    taken.insert(index, entry.message_id().to_owned());
                }
            }
            waiting.retain(|index| !taken.contains_key(index));
            for failure in &answer.failed {
                let said = failure.message().unwrap_or("no reason given");
                sent.refusal = Some(format!("{}: {said}", failure.code()));
                if failure.sender_fault() {
                    // It would be refused again.
                    waiting.retain(|index| index.to_string() != failure.id());
                }
            }
            if waiting.is_empty() {
                break;
            }
        }
        let ids = (0..batch.len()).map(|index| taken.remove(&index));
        sent.message_ids.extend(ids);
    }
}
