//! A queue that is received from: each message is hidden when it is handed out, and only its last
//! receipt handle is good for anything.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Reply;
use super::sqs::{beyond_the_limit, entries, failure, refusal, text};

/// The longest visibility timeout that a receive may ask for, in seconds.
const LONGEST: u64 = 43_200;

/// The messages, in the order in which they came.
#[derive(Default)]
pub(super) struct Queue {
    messages: Vec<Message>,
    receives: usize,
}

struct Message {
    id: String,
    sent_ms: u64,
    body: String,
    receives: usize,
    handle: Option<String>,
    hidden_until: Option<Instant>,
}

impl Message {
    fn is_hidden(&self) -> bool {
        self.hidden_until
            .is_some_and(|until| until > Instant::now())
    }

    fn hide_for(&mut self, seconds: u64) {
        self.hidden_until = Some(Instant::now() + Duration::from_secs(seconds));
    }
}

impl Queue {
    pub(super) fn put(&mut self, id: &str, sent_ms: u64, body: &str) {
        self.messages.push(Message {
            id: id.to_owned(),
            sent_ms,
            body: body.to_owned(),
            receives: 0,
            handle: None,
            hidden_until: None,
        });
    }

    /// The ids of the messages, and whether each can be received.
    pub(super) fn all(&self) -> Vec<(String, bool)> {
        let messages = self.messages.iter();
        messages
            .map(|message| (message.id.clone(), !message.is_hidden()))
            .collect()
    }

    /// As if all visibility timeouts were over.
    pub(super) fn show(&mut self) {
        for message in &mut self.messages {
            message.hidden_until = None;
        }
    }

    pub(super) fn clear(&mut self) {
        self.messages.clear();
    }

    /// `ReceiveMessage`, which never waits here.
    pub(super) fn receive(&mut self, input: &Value) -> Reply {
        let most = input["MaxNumberOfMessages"].as_u64().unwrap_or(1);
        let seconds = input["VisibilityTimeout"].as_u64().unwrap_or(30);
        let wait = input["WaitTimeSeconds"].as_u64().unwrap_or(0);
        if !(1..=10).contains(&most) || seconds > LONGEST || wait > 20 {
            return refusal("InvalidParameterValue");
        }
        let mut messages = Vec::new();
        let visible = self.messages.iter_mut().filter(|m| !m.is_hidden());
        for message in visible.take(usize::try_from(most).unwrap()) {
            self.receives += 1;
            message.receives += 1;
            message.hide_for(seconds);
            let handle = format!("handle-{}", self.receives);
            let mut attributes = json!({
                "SentTimestamp": message.sent_ms.to_string(),
                "ApproximateReceiveCount": message.receives.to_string(),
            });
            let asked = input["MessageSystemAttributeNames"].as_array();
            let asked = asked.map_or(&[][..], Vec::as_slice);
            if let Some(attributes) = attributes.as_object_mut() {
                attributes.retain(|name, _| asked.iter().any(|one| one == name || one == "All"));
            }
            messages.push(json!({
                "MessageId": message.id,
                "ReceiptHandle": handle,
                "MD5OfBody": "-",
                "Body": message.body,
                "Attributes": attributes,
            }));
            message.handle = Some(handle);
        }
        // SQS leaves the list out if it is empty.
        Reply::Output(if messages.is_empty() {
            json!({})
        } else {
            json!({ "Messages": messages })
        })
    }

    /// `DeleteMessageBatch`. An older receipt handle is accepted, and deletes nothing.
    pub(super) fn delete_batch(&mut self, input: &Value) -> Reply {
        self.each(input, |queue, entry| {
            let handle = text(entry, "ReceiptHandle");
            queue
                .messages
                .retain(|message| message.handle.as_deref() != Some(handle));
            Ok(())
        })
    }

    /// `ChangeMessageVisibilityBatch`.
    pub(super) fn change_visibility_batch(&mut self, input: &Value) -> Reply {
        self.each(input, |queue, entry| {
            let seconds = entry["VisibilityTimeout"].as_u64().unwrap_or(u64::MAX);
            if seconds >= LONGEST {
                return Err(("InvalidParameterValue", beyond_the_limit(i64::MAX)));
            }
            let handle = text(entry, "ReceiptHandle");
            let mut messages = queue.messages.iter_mut();
            let message = messages.find(|message| message.handle.as_deref() == Some(handle));
            match message {
                Some(message) if message.is_hidden() => {
                    message.hide_for(seconds);
                    Ok(())
                }
                Some(_) | None => Err(("MessageNotInflight", "it is not in flight".into())),
            }
        })
    }

    fn each(
        &mut self,
        input: &Value,
        change: impl Fn(&mut Self, &Value) -> Result<(), (&'static str, String)>,
    ) -> Reply {
        let entries = match entries(input) {
            Ok(entries) => entries,
            Err(refusal) => return refusal,
        };
        let mut successful = Vec::new();
        let mut failed = Vec::new();
        for entry in entries {
            let is_ours = text(entry, "ReceiptHandle").starts_with("handle-");
            let changed = if is_ours {
                change(self, entry)
            } else {
                Err(("ReceiptHandleIsInvalid", "no handle of this queue".into()))
            };
            match changed {
                Ok(()) => successful.push(json!({"Id": entry["Id"]})),
                Err((code, message)) => failed.push(failure(entry, code, &message)),
            }
        }
        Reply::Output(json!({"Successful": successful, "Failed": failed}))
    }

    /// `GetQueueAttributes`.
    pub(super) fn attributes(&self, queue_url: &str) -> Reply {
        let hidden = self.messages.iter().filter(|m| m.is_hidden()).count();
        let visible = self.messages.len() - hidden;
        let name = queue_url.rsplit('/').next().unwrap_or_default();
        Reply::Output(json!({"Attributes": {
            "QueueArn": format!("arn:aws:sqs:eu-central-1:111122223333:{name}"),
            "ApproximateNumberOfMessages": visible.to_string(),
            "ApproximateNumberOfMessagesNotVisible": hidden.to_string(),
        }}))
    }
}
