//! When a failed delivery is seen again: the queue itself is the retry timer.
//!
//! Nothing may depend on these calls having worked. A message whose visibility could not be
//! changed comes back when the queue's visibility timeout ends, which is too early or too late
//! but never lost.

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry};
use webhooks_shell::aws;

/// `ChangeMessageVisibilityBatch` takes ten entries.
const ENTRIES_PER_CALL: usize = 10;

/// By how much a delay is shortened that SQS finds too long, in seconds, but never by more than
/// half. How long the message has been in hand is only known to SQS.
const SHORTER_BY: u32 = 600;

/// A wish to see a message again.
#[derive(Clone, Debug)]
pub(crate) struct Visibility {
    /// Of the message, for the log.
    pub message_id: String,
    /// What SQS knows the receive by.
    pub receipt_handle: String,
    /// From now, in seconds.
    pub seconds: u32,
}

/// The queue of delivery jobs.
pub(crate) struct Queue {
    client: Client,
    url: String,
}

impl Queue {
    pub(crate) fn new(aws: &SdkConfig, url: String) -> Self {
        Self {
            client: Client::new(aws),
            url,
        }
    }

    /// Changes the visibility of messages; entries that fail are tried once more.
    pub(crate) async fn change_visibility(&self, wishes: Vec<Visibility>) {
        for chunk in wishes.chunks(ENTRIES_PER_CALL) {
            let failed = self.change_once(chunk).await;
            if failed.is_empty() {
                continue;
            }
            for lost in self.change_once(&failed).await {
                tracing::error!(
                    messageId = lost.message_id,
                    delaySeconds = lost.seconds,
                    "visibility.unchanged"
                );
            }
        }
    }

    /// One call. Gives what may be tried once more, with a shorter delay where SQS found it too
    /// long.
    async fn change_once(&self, wishes: &[Visibility]) -> Vec<Visibility> {
        let entries = wishes
            .iter()
            .enumerate()
            .filter_map(|(index, wish)| {
                ChangeMessageVisibilityBatchRequestEntry::builder()
                    .id(index.to_string())
                    .receipt_handle(&wish.receipt_handle)
                    .visibility_timeout(i32::try_from(wish.seconds).unwrap_or(i32::MAX))
                    .build()
                    // The builder only refuses an entry without id or handle.
                    .ok()
            })
            .collect();
        let answer = self
            .client
            .change_message_visibility_batch()
            .queue_url(&self.url)
            .set_entries(Some(entries))
            .send()
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                tracing::error!(
                    error = aws::describe(&error),
                    messages = wishes.len(),
                    "visibility.call_failed"
                );
                return Vec::new();
            }
        };
        answer
            .failed
            .iter()
            .filter_map(|failure| {
                let index: usize = failure.id().parse().ok()?;
                let wish = wishes.get(index)?;
                tracing::warn!(
                    messageId = wish.message_id,
                    delaySeconds = wish.seconds,
                    code = failure.code(),
                    error = failure.message(),
                    "visibility.refused"
                );
                Some(Visibility {
                    seconds: if is_too_long(failure) {
                        wish.seconds
                            .saturating_sub(SHORTER_BY)
                            .max(wish.seconds / 2)
                    } else {
                        wish.seconds
                    },
                    ..wish.clone()
                })
            })
            .collect()
    }
}

/// Whether a message would be hidden for more than 12 h in all. A message that is not in flight
/// any more is refused with the same code and other words.
fn is_too_long(failure: &BatchResultErrorEntry) -> bool {
    failure.code().contains("InvalidParameterValue")
        && !failure
            .message()
            .is_some_and(|message| message.contains("does not exist or is not available"))
}
