//! `webhooks list`: all subscriptions.

use std::fmt::{self, Display, Formatter};

use clap::Args;
use clap::builder::NonEmptyStringValueParser as NonEmpty;
use serde::Serialize;
use webhooks_core::identity::SubscriberId;

use crate::args::subscriber_id;
use crate::error::Error;
use crate::grid::Grid;
use crate::moment::Time;
use crate::output::{Report, safe};
use crate::stack::Stack;
use crate::subscriptions::{Entry, Subscriptions, chosen};
use crate::{Context, aws};

/// Arguments of `list`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Only subscriptions to this event type
    #[arg(long, value_name = "TYPE", value_parser = NonEmpty::new())]
    pub event: Option<String>,

    /// Only subscriptions of this subscriber
    #[arg(long, value_name = "SUBSCRIBER", value_parser = subscriber_id)]
    pub subscriber: Option<SubscriberId>,
}

/// What `list` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct List {
    /// The subscriptions, by subscriber and event type.
    pub subscriptions: Vec<Line>,
}

/// One subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// What is subscribed to.
    pub event_type: String,
    /// By whom.
    pub subscriber_id: String,
    /// Where it goes, without the query, which may hold a token.
    pub url: String,
    /// Whether webhooks are sent.
    pub enabled: bool,
    /// Why not, and since when.
    pub disabled_reason: Option<String>,
    /// Since when.
    pub disabled_at: Option<Time>,
    /// What people say of it.
    pub description: Option<String>,
    /// What is wrong with the row.
    pub problem: Option<String>,
    /// What mends it.
    pub mend: Option<String>,
}

/// Reads them.
///
/// # Errors
/// If the table can not be read, or if there is no such subscription of the subscriber.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<List, Error> {
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let subscriptions = Subscriptions::new(&aws, &stack);
    let events = arguments.event.as_slice();
    let entries = match &arguments.subscriber {
        // Who is asked for by name and is not there is not found, as in the other verbs.
        Some(subscriber) => {
            let all = subscriptions.of_subscriber(subscriber).await?;
            chosen(all, subscriber, events)?
        }
        None => {
            let mut all = subscriptions.all().await?;
            all.retain(|entry| events.is_empty() || events.contains(&entry.event_type));
            all
        }
    };
    let table = &stack.subscriptions_table;
    Ok(List {
        subscriptions: entries.iter().map(|entry| Line::of(entry, table)).collect(),
    })
}

impl Line {
    fn of(entry: &Entry, table: &str) -> Self {
        let is_off = !entry.is_enabled();
        Self {
            event_type: entry.event_type.clone(),
            subscriber_id: entry.subscriber_id.clone(),
            url: entry.shown_url(),
            enabled: entry.is_enabled(),
            disabled_reason: entry.disabled_reason.clone().filter(|_| is_off),
            disabled_at: entry.disabled_at.filter(|_| is_off),
            description: entry.description.clone(),
            problem: entry.problem(),
            mend: entry.mend(table),
        }
    }

    fn state(&self) -> &'static str {
        match (&self.problem, self.enabled) {
            (Some(_), _) => "broken",
            (None, true) => "yes",
            (None, false) => "no",
        }
    }
}

impl Report for List {}

impl Display for List {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.subscriptions.is_empty() {
            return f.write_str("There are no such subscriptions.");
        }
        let mut grid = Grid::new(&[
            "subscriber",
            "event type",
            "url",
            "enabled",
            "reason",
            "description",
        ]);
        for line in &self.subscriptions {
            let reason = line.problem.as_ref().or(line.disabled_reason.as_ref());
            grid.push([
                line.subscriber_id.clone(),
                line.event_type.clone(),
                line.url.clone(),
                line.state().to_owned(),
                reason.cloned().unwrap_or_default(),
                line.description.clone().unwrap_or_default(),
            ]);
        }
        grid.fmt(f)?;
        for line in &self.subscriptions {
            if let Some(mend) = &line.mend {
                let (id, event_type) = (safe(&line.subscriber_id), safe(&line.event_type));
                write!(f, "\n\nBroken: {id}, {event_type}: {}", safe(mend))?;
            }
        }
        Ok(())
    }
}
