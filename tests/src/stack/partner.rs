//! A partner of the deployed service.

use serde_json::json;
use tokio::sync::mpsc;

use super::{Function, Line, PATIENCE, Stack};
use crate::receiver::{Answer, Received, Receiver};
use crate::signature::{assert_signed, secret_for};

/// A subscriber with a row, a secret and a server.
#[derive(Debug)]
pub struct Partner<'a> {
    /// Its id.
    pub subscriber_id: String,
    /// What it has subscribed to.
    pub event_type: String,
    /// Its signing secret.
    pub secret: String,
    /// Its server.
    pub receiver: Receiver,
    stack: &'a Stack,
    posts: mpsc::UnboundedReceiver<Received>,
}

impl Stack {
    /// Subscribes a partner whose server gives the first request the first answer and so on; the
    /// last one stays.
    pub async fn partner(
        &self,
        event_type: &str,
        subscriber_id: &str,
        answers: impl IntoIterator<Item = Answer>,
    ) -> Partner<'_> {
        let answers: Vec<Answer> = answers.into_iter().collect();
        let (sender, posts) = mpsc::unbounded_channel();
        let receiver = Receiver::start(move |received| {
            // A partner that is gone still has a server for a moment.
            let _ = sender.send(received.clone());
            answers[received.number.min(answers.len() - 1)].clone()
        })
        .await;
        let secret = secret_for(subscriber_id);
        self.put_secret(subscriber_id, &secret).await;
        self.put_row(event_type, subscriber_id, &receiver.url("/webhooks"))
            .await;
        Partner {
            subscriber_id: subscriber_id.to_owned(),
            event_type: event_type.to_owned(),
            secret,
            receiver,
            stack: self,
            posts,
        }
    }
}

impl Partner<'_> {
    /// The identity of the delivery of an event to this partner.
    #[must_use]
    pub fn webhook_id(&self, event_id: &str) -> String {
        format!("msg_{event_id}_{}", self.subscriber_id)
    }

    /// Waits for the next POST, which must be properly signed and be for this delivery.
    ///
    /// # Panics
    /// If it is not, or does not come.
    pub async fn next_post(&mut self, webhook_id: &str) -> Received {
        let post = self.next_request().await;
        assert_eq!(post.method, "POST");
        assert_eq!(post.target, "/webhooks");
        assert_eq!(post.header("content-type"), Some("application/json"));
        assert_eq!(post.header("webhook-id"), Some(webhook_id));
        assert_signed(&post, &[&self.secret]);
        post
    }

    /// Waits for the next request, whatever it is.
    ///
    /// # Panics
    /// If it does not come.
    pub async fn next_request(&mut self) -> Received {
        match tokio::time::timeout(PATIENCE, self.posts.recv()).await {
            Ok(post) => post.expect("the receiver holds the other end"),
            Err(_) => self
                .stack
                .in_vain(&format!("a POST to {}", self.subscriber_id)),
        }
    }

    /// Waits until the attempt with this number is in the log of `deliver`, and gives its line.
    pub async fn attempt(&self, webhook_id: &str, attempt: usize) -> Line {
        let fields = json!({
            "message": "delivery.attempted",
            "webhookId": webhook_id,
            "attempt": attempt,
        });
        self.stack.line(Function::Deliver, &fields).await
    }

    /// How many requests have come.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.receiver.requests().len()
    }
}
