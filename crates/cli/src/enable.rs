//! `webhooks enable`: a subscription that was switched off gets webhooks again.

use aws_sdk_dynamodb::types::AttributeValue;
use clap::Args;
use clap::builder::NonEmptyStringValueParser as NonEmpty;
use webhooks_core::endpoint::EndpointRules;
use webhooks_core::identity::SubscriberId;

use crate::args::subscriber_id;
use crate::endpoint::judge;
use crate::error::Error;
use crate::stack::Stack;
use crate::subscriptions::{Change, Entry, Subscriptions, chosen};
use crate::switch::{Switched, switch};
use crate::{Context, aws};

/// Arguments of `enable`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Whose subscriptions
    #[arg(value_name = "SUBSCRIBER", value_parser = subscriber_id)]
    pub subscriber: SubscriberId,

    /// Only those to this event type; may be repeated [default: all]
    #[arg(long, value_name = "TYPE", value_parser = NonEmpty::new())]
    pub event: Vec<String>,
}

/// Enables.
///
/// # Errors
/// If there is no such subscription, if a url may not be called, or if nothing could be done.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Switched, Error> {
    let subscriber = &arguments.subscriber;
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let subscriptions = Subscriptions::new(&aws, &stack);
    let all = subscriptions.of_subscriber(subscriber).await?;
    let entries = chosen(all, subscriber, &arguments.event)?;
    for entry in entries.iter().filter(|it| it.enabled != Some(true)) {
        refuse_url(entry, stack.endpoint_rules())?;
    }
    let mut change = Change::default();
    change.set.insert("enabled", AttributeValue::Bool(true));
    change.remove = vec!["disabledReason", "disabledAt"];
    for entry in &entries {
        refuse_broken(entry, &change)?;
    }
    switch(&subscriptions, subscriber, &entries, true, &change).await
}

/// A row by which nothing is sent even then, such as one with broken headers, is not enabled, and
/// not said to be.
fn refuse_broken(entry: &Entry, change: &Change) -> Result<(), Error> {
    let (id, event_type) = (&entry.subscriber_id, &entry.event_type);
    let Some(afterwards) = Entry::read(change.applied(event_type, id, Some(entry))) else {
        return Ok(());
    };
    let (Some(problem), Some(mend)) = (afterwards.problem(), afterwards.mend("")) else {
        return Ok(());
    };
    Err(Error::Failed(format!(
        "the subscription of {id} to {event_type} can not be enabled: {problem}. Mend it by {mend}; \
         nothing was changed"
    )))
}

/// What can only be blocked is not switched on.
fn refuse_url(entry: &Entry, rules: EndpointRules) -> Result<(), Error> {
    let judged = match &entry.url {
        Some(url) => judge(rules, url)
            .map(drop)
            .map_err(|error| error.to_string()),
        None => Err("the row has no url".to_owned()),
    };
    judged.map_err(|reason| {
        let (id, event_type) = (&entry.subscriber_id, &entry.event_type);
        Error::Failed(format!(
            "the subscription of {id} to {event_type} can not be enabled: {reason}. Give it another \
             url by `webhooks subscribe {id} --event {event_type} --url URL`; nothing was changed"
        ))
    })
}
