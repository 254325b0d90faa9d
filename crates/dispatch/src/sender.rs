//! Sending batches of jobs, and again what of a batch failed.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use webhooks_core::packing::Packed;
use webhooks_shell::{aws, time};

/// How often a batch is sent in all, until nothing of it is left.
const ROUNDS: u32 = 5;

/// The longest pause before the second round; it doubles with every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The queue of delivery jobs.
#[derive(Clone)]
pub(crate) struct Sender {
    client: Client,
    queue_url: String,
}

impl Sender {
    pub(crate) fn new(aws: &SdkConfig, queue_url: String) -> Self {
        Self {
            client: Client::new(aws),
            queue_url,
        }
    }

    /// Sends a batch and gives the number of messages that SQS did not take in the end.
    ///
    /// An answer of 200 may still list entries as failed; only those are sent again. An entry
    /// that is said to be our own fault would fail again, so it is given up at once.
    pub(crate) async fn send(&self, batch: Vec<Packed>) -> usize {
        let mut waiting = batch;
        let mut given_up = 0;
        for round in 0..ROUNDS {
            if round > 0 {
                time::pause(FIRST_PAUSE, round).await;
            }
            let refused = self.send_once(&mut waiting).await;
            given_up += refused;
            if waiting.is_empty() {
                return given_up;
            }
        }
        tracing::error!(jobs = waiting.len(), rounds = ROUNDS, "jobs.unsent");
        given_up + waiting.len()
    }

    /// One call. Leaves in `waiting` what may be sent again and gives the number of messages
    /// that were refused for good.
    async fn send_once(&self, waiting: &mut Vec<Packed>) -> usize {
        let entries = waiting
            .iter()
            .enumerate()
            .filter_map(|(index, message)| {
                SendMessageBatchRequestEntry::builder()
                    .id(index.to_string())
                    .message_group_id(&message.group)
                    .message_body(&message.body)
                    .build()
                    // The builder only refuses an entry without id or body.
                    .ok()
            })
            .collect();
        let answer = self
            .client
            .send_message_batch()
            .queue_url(&self.queue_url)
            .set_entries(Some(entries))
            .send()
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(
                    error = aws::describe(&error),
                    jobs = waiting.len(),
                    "jobs.batch_failed"
                );
                return 0;
            }
        };
        let accepted: Vec<&str> = answer.successful.iter().map(|entry| entry.id()).collect();
        let mut refused = 0;
        let mut index = 0;
        waiting.retain(|message| {
            let id = index.to_string();
            index += 1;
            if accepted.contains(&id.as_str()) {
                return false;
            }
            // An entry that is in neither list is sent again too.
            let Some(failure) = answer.failed.iter().find(|entry| entry.id() == id) else {
                return true;
            };
            tracing::warn!(
                subscriberId = message.group,
                code = failure.code(),
                error = failure.message(),
                senderFault = failure.sender_fault(),
                "job.refused"
            );
            refused += usize::from(failure.sender_fault());
            !failure.sender_fault()
        });
        refused
    }
}
