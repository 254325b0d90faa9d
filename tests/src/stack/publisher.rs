//! A service that publishes many events, one after another on the same connection.

use aws_sdk_eventbridge::Config;
use aws_sdk_eventbridge::config::retry::RetryConfig;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;

use super::aws::client;
use super::{Function, Stack};

/// See the module.
#[derive(Debug)]
pub struct Publisher<'a> {
    bus: aws_sdk_eventbridge::Client,
    functions: aws_sdk_lambda::Client,
    stack: &'a Stack,
}

impl Stack {
    /// A publisher of events.
    #[must_use]
    pub fn publisher(&self) -> Publisher<'_> {
        Publisher {
            bus: client!(self, aws_sdk_eventbridge),
            functions: client!(self, aws_sdk_lambda),
            stack: self,
        }
    }
}

impl Publisher<'_> {
    /// Publishes an event with this `detail`, once, and gives its id.
    ///
    /// # Panics
    /// If EventBridge does not take it.
    pub async fn publish(&self, event_type: &str, detail: &str) -> String {
        let entry = PutEventsRequestEntry::builder()
            .event_bus_name(self.stack.output("EventBusName"))
            .source("shop.orders")
            .detail_type(event_type)
            .detail(detail)
            .build();
        // A second try after an answer that got lost would be another event.
        let once = Config::builder().retry_config(RetryConfig::disabled());
        let call = self.bus.put_events().entries(entry).customize();
        let answer = call.config_override(once).send().await.unwrap();
        let id = answer.entries().first().and_then(|entry| entry.event_id());
        id.expect("an id").to_owned()
    }

    /// Hands an event to `dispatch` as EventBridge does, byte for byte: the answer is not waited for,
    /// and Lambda tries again what fails.
    ///
    /// # Panics
    /// If Lambda does not take it.
    pub async fn dispatch(&self, event: &str) {
        self.functions
            .invoke()
            .function_name(self.stack.output(Function::Dispatch.name_output()))
            .invocation_type(InvocationType::Event)
            .payload(Blob::new(event))
            .send()
            .await
            .unwrap();
    }
}
