//! `webhooks disable`: a subscription gets no webhooks until it is enabled again.

use aws_sdk_dynamodb::types::AttributeValue;
use clap::Args;
use clap::builder::NonEmptyStringValueParser as NonEmpty;
use webhooks_core::identity::SubscriberId;
use webhooks_shell::records::time_value;

use crate::args::{said_at_all, subscriber_id};
use crate::error::Error;
use crate::stack::Stack;
use crate::subscriptions::{Change, Subscriptions, chosen};
use crate::switch::{Switched, switch};
use crate::{Context, aws};

/// Arguments of `disable`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Whose subscriptions
    #[arg(value_name = "SUBSCRIBER", value_parser = subscriber_id)]
    pub subscriber: SubscriberId,

    /// Only those to this event type; may be repeated [default: all]
    #[arg(long, value_name = "TYPE", value_parser = NonEmpty::new())]
    pub event: Vec<String>,

    /// Why, for whoever finds it disabled: one line of at most 256 characters
    #[arg(long, value_name = "TEXT", value_parser = said_at_all)]
    pub reason: String,
}

/// Disables.
///
/// # Errors
/// If there is no such subscription, or if nothing could be done.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Switched, Error> {
    let subscriber = &arguments.subscriber;
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let subscriptions = Subscriptions::new(&aws, &stack);
    let all = subscriptions.of_subscriber(subscriber).await?;
    let entries = chosen(all, subscriber, &arguments.event)?;
    let mut change = Change::default();
    // As deliver does it when an endpoint answers 410.
    change.set.insert("enabled", AttributeValue::Bool(false));
    let reason = AttributeValue::S(arguments.reason.clone());
    change.set.insert("disabledReason", reason);
    change.set.insert("disabledAt", time_value(context.now));
    switch(&subscriptions, subscriber, &entries, false, &change).await
}
