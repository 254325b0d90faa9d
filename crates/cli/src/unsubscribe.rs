//! `webhooks unsubscribe`: a partner gets no webhooks any more, of some event types or of all.

use std::fmt::{self, Display, Formatter};

use clap::Args;
use clap::builder::NonEmptyStringValueParser as NonEmpty;
use serde::Serialize;
use webhooks_core::identity::SubscriberId;

use crate::args::subscriber_id;
use crate::error::{Error, Exit};
use crate::output::{Report, safe};
use crate::parameters::Parameters;
use crate::stack::Stack;
use crate::subscriptions::{Entry, Subscriptions, chosen};
use crate::{Context, aws, confirm};

/// Arguments of `unsubscribe`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Who is to get no more
    #[arg(value_name = "SUBSCRIBER", value_parser = subscriber_id)]
    pub subscriber: SubscriberId,

    /// Of what; may be repeated [default: of everything]
    #[arg(long, value_name = "TYPE", value_parser = NonEmpty::new())]
    pub event: Vec<String>,

    /// Delete the secret too
    #[arg(long)]
    pub delete_secret: bool,

    /// Do not ask first; without a terminal --delete-secret needs it
    #[arg(long, short)]
    pub yes: bool,
}

/// What `unsubscribe` gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unsubscribed {
    /// Who it is.
    pub subscriber_id: String,
    /// The event types that were unsubscribed.
    pub removed: Vec<String>,
    /// Those that were not.
    pub not_reached: Vec<String>,
    /// Whether the secret was deleted.
    pub secret_deleted: bool,
    /// Whether the question was answered by no.
    pub declined: bool,
    /// What went wrong.
    pub error: Option<String>,
}

/// Unsubscribes.
///
/// # Errors
/// If there is nothing to unsubscribe, or if nothing could be done.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Unsubscribed, Error> {
    let subscriber = &arguments.subscriber;
    if arguments.delete_secret && !arguments.yes && !confirm::can_ask() {
        return Err(Error::Usage(
            "--delete-secret deletes for good, and there is no terminal to ask on: confirm it by \
             --yes"
                .to_owned(),
        ));
    }
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let subscriptions = Subscriptions::new(&aws, &stack);
    let parameters = Parameters::new(&aws, &stack);
    let all = subscriptions.of_subscriber(subscriber).await?;
    let total = all.len();
    let secret_is_left = arguments.delete_secret && total == 0 && arguments.event.is_empty();
    let entries = if secret_is_left && parameters.read(subscriber).await?.is_some() {
        Vec::new()
    } else {
        chosen(all, subscriber, &arguments.event)?
    };
    if arguments.delete_secret && entries.len() < total {
        return Err(Error::Usage(format!(
            "--delete-secret: {subscriber} stays subscribed to other events, which need the secret"
        )));
    }
    let mut done = Unsubscribed {
        subscriber_id: subscriber.to_string(),
        not_reached: entries.iter().map(|it| it.event_type.clone()).collect(),
        ..Unsubscribed::default()
    };
    if !arguments.yes
        && confirm::can_ask()
        && !confirm::agreed(&question(arguments, &entries)).await
    {
        done.declined = true;
        return Ok(done);
    }
    for entry in &entries {
        match subscriptions.delete(entry).await {
            Ok(()) => {
                done.not_reached.retain(|name| *name != entry.event_type);
                done.removed.push(entry.event_type.clone());
            }
            Err(error) => return done.broken_off(error),
        }
    }
    if arguments.delete_secret {
        // Somebody may have subscribed it again, and an enabled row without a secret is a fault of
        // ours at every attempt.
        let again = match subscriptions.of_subscriber(subscriber).await {
            Ok(again) => again,
            Err(error) => return done.broken_off(error),
        };
        if !again.is_empty() {
            let events: Vec<&str> = again.iter().map(|it| it.event_type.as_str()).collect();
            return done.broken_off(Error::Failed(format!(
                "{subscriber} was subscribed to {} by somebody else at this moment, so its secret \
                 was kept",
                events.join(", ")
            )));
        }
        match parameters.delete(subscriber).await {
            Ok(deleted) => done.secret_deleted = deleted,
            Err(error) => return done.broken_off(error),
        }
    }
    Ok(done)
}

fn question(arguments: &Arguments, entries: &[Entry]) -> String {
    let events: Vec<&str> = entries.iter().map(|it| it.event_type.as_str()).collect();
    let subscriber = &arguments.subscriber;
    let secret = match (arguments.delete_secret, entries.is_empty()) {
        (false, _) => String::new(),
        (true, false) => " and delete its secret".to_owned(),
        (true, true) => return format!("Delete the secret of {subscriber}?"),
    };
    format!(
        "Unsubscribe {subscriber} from {}{secret}?",
        safe(&events.join(", "))
    )
}

impl Unsubscribed {
    /// What is told if something went wrong: the error alone if nothing was done before.
    fn broken_off(mut self, error: Error) -> Result<Self, Error> {
        if self.removed.is_empty() {
            return Err(error);
        }
        self.error = Some(error.to_string());
        Ok(self)
    }
}

impl Report for Unsubscribed {
    fn exit(&self) -> Exit {
        if self.error.is_some() || self.declined {
            Exit::Failed
        } else {
            Exit::Done
        }
    }
}

impl Display for Unsubscribed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let id = &self.subscriber_id;
        if self.declined {
            return f.write_str("Nothing was changed.");
        }
        let mut lines = Vec::new();
        if !self.removed.is_empty() {
            lines.push(format!(
                "{id} is not subscribed to {} any more. Deliveries that are under way are dropped \
                 at their next attempt.",
                safe(&self.removed.join(", "))
            ));
        }
        if self.secret_deleted {
            lines.push(format!("The secret of {id} is deleted."));
        }
        if let Some(error) = &self.error {
            lines.push(format!("Not all of it was done: {}", safe(error)));
        }
        f.write_str(&lines.join("\n"))
    }
}
