//! `webhooks log`: what happened to a delivery, and which deliveries there are.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::SystemTime;

use clap::builder::NonEmptyStringValueParser as NonEmpty;
use clap::{ArgGroup, Args};
use serde::Serialize;
use webhooks_core::identity::{self, SubscriberId};
use webhooks_core::record::State;

use crate::args::subscriber_id;
use crate::delivery::{Delivery, Step};
use crate::error::{Error, Exit, with_reasons};
use crate::grid::Grid;
use crate::moment::{Moment, Period};
use crate::output::{self, Report, safe};
use crate::stack::Stack;
use crate::tables::{Tables, about_each};
use crate::{Context, aws};

mod outlook;
#[cfg(test)]
mod tests;

/// The longest error in a list, in characters.
const SHORT_ERROR: usize = 40;

/// Arguments of `log`.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("what")
    .required(true)
    .multiple(true)
    .args(["webhook_id", "subscriber", "reference", "event"]))]
pub struct Arguments {
    /// One delivery: the webhook-id that the partner got, or would have got
    #[arg(
        value_name = "WEBHOOK_ID",
        value_parser = NonEmpty::new(),
        conflicts_with_all = [
            "subscriber", "reference", "event", "since", "until", "state", "event_type", "limit",
        ],
    )]
    pub webhook_id: Option<String>,

    /// Deliveries for this subscriber
    #[arg(long, value_name = "SUBSCRIBER", value_parser = subscriber_id)]
    pub subscriber: Option<SubscriberId>,

    /// Deliveries with this reference, such as the order's number (template: ReferenceFields).
    /// Without --subscriber, of all who are subscribed to anything
    #[arg(long, value_name = "TEXT", value_parser = NonEmpty::new())]
    pub reference: Option<String>,

    /// Deliveries of this event. Without --subscriber, of all who are subscribed to anything
    #[arg(long, value_name = "EVENT_ID", value_parser = NonEmpty::new())]
    pub event: Option<String>,

    /// Only what was changed since then: 30m, 2h, 7d (ago), or 2026-11-30T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    pub since: Option<Moment>,

    /// Only what was last changed before then
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    pub until: Option<Moment>,

    /// Only what is in this state
    #[arg(long, value_name = "STATE", value_parser = State::ALL.map(State::name))]
    pub state: Option<String>,

    /// Only events of this type
    #[arg(long, value_name = "TYPE", value_parser = NonEmpty::new())]
    pub event_type: Option<String>,

    /// At most this many, the latest; 0 for all
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub limit: usize,
}

/// What `log` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Log {
    /// Of one delivery.
    Story(Box<Story>),
    /// Of several.
    List(List),
}

/// One delivery from its first attempt on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Story {
    /// The record.
    #[serde(flatten)]
    pub delivery: Delivery,
    /// What comes next, in words.
    pub outlook: String,
}

/// Deliveries, the one that was changed last first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct List {
    /// The records.
    pub deliveries: Vec<Delivery>,
    /// Whether there are more than were asked for.
    pub more: bool,
    /// Whether one particular thing was looked for, so that an empty list means it is not there.
    #[serde(skip)]
    pub is_search: bool,
}

/// Finds what was asked for.
///
/// # Errors
/// If it can not be read, or if the one delivery that was asked for has no record.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Log, Error> {
    let now = context.now;
    let period = Period::new(arguments.since, arguments.until, now)?;
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let tables = Tables::new(&aws, &stack);
    if let Some(webhook_id) = &arguments.webhook_id {
        let mut odd = Vec::new();
        let item = tables.delivery(webhook_id).await?;
        let delivery = item
            .and_then(|item| Delivery::read(&item, now, &mut odd))
            .ok_or_else(|| unknown(webhook_id, &stack))?;
        output::notes(&odd);
        let outlook = outlook::of(&delivery, now);
        return Ok(Log::Story(Box::new(Story { delivery, outlook })));
    }
    let list = search(arguments, &tables, period, now).await?;
    if list.deliveries.is_empty() && list.is_search {
        output::note(&nothing_found(&stack));
    }
    if list.more {
        output::note(&format!(
            "There are more than these {}: ask for a shorter time by --since, or for more by --limit.",
            list.deliveries.len()
        ));
    }
    Ok(Log::List(list))
}

/// What a delivery in the list must be, beside whose it is.
#[derive(Debug, Clone)]
struct Filter {
    arguments: Arguments,
    period: Period,
    now: SystemTime,
    /// One more than are shown, to know whether there are more.
    at_most: usize,
}

impl Filter {
    fn takes(&self, delivery: &Delivery) -> bool {
        fn is(wanted: Option<&String>, value: Option<&String>) -> bool {
            wanted.is_none() || wanted == value
        }
        let arguments = &self.arguments;
        let in_period = match delivery.updated_at {
            Some(time) => self.period.holds(time.get()),
            None => self.period == Period::default(),
        };
        in_period
            && is(arguments.reference.as_ref(), delivery.reference.as_ref())
            && is(arguments.event.as_ref(), delivery.event_id.as_ref())
            && is(arguments.event_type.as_ref(), delivery.event_type.as_ref())
            && is(arguments.state.as_ref(), Some(&delivery.state))
    }
}

async fn search(
    arguments: &Arguments,
    tables: &Tables,
    period: Period,
    now: SystemTime,
) -> Result<List, Error> {
    let limit = match arguments.limit {
        0 => usize::MAX,
        limit => limit,
    };
    let filter = Arc::new(Filter {
        arguments: arguments.clone(),
        period,
        now,
        at_most: limit.saturating_add(1),
    });
    let subscribers = match &arguments.subscriber {
        Some(subscriber) => BTreeSet::from([subscriber.clone()]),
        None => tables.subscribers().await?,
    };
    let found = about_each(subscribers, |subscriber| {
        let (tables, filter) = (tables.clone(), Arc::clone(&filter));
        async move {
            match &filter.arguments.event {
                Some(event) => of_event(&tables, event, &subscriber, &filter).await,
                None => of_subscriber(&tables, &subscriber, &filter).await,
            }
        }
    })
    .await?;
    let mut deliveries = Vec::new();
    let mut odd = Vec::new();
    for (found, said) in found {
        deliveries.extend(found);
        odd.extend(said);
    }
    output::notes(&odd);
    deliveries.sort_by(|a: &Delivery, b| {
        (b.updated_at, &b.webhook_id).cmp(&(a.updated_at, &a.webhook_id))
    });
    let more = deliveries.len() > limit;
    deliveries.truncate(limit);
    Ok(List {
        deliveries,
        more,
        is_search: arguments.reference.is_some() || arguments.event.is_some(),
    })
}

/// Deliveries, and what is odd about them.
type Found = (Vec<Delivery>, Vec<String>);

async fn of_subscriber(
    tables: &Tables,
    subscriber: &SubscriberId,
    filter: &Filter,
) -> Result<Found, Error> {
    let (mut found, mut odd) = (Vec::new(), Vec::new());
    tables
        .of_subscriber(subscriber, filter.period, |item| {
            let mut said = Vec::new();
            if let Some(delivery) = Delivery::read(item, filter.now, &mut said)
                && filter.takes(&delivery)
            {
                found.push(delivery);
                odd.append(&mut said);
            }
            if found.len() < filter.at_most {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
        .await?;
    Ok((found, odd))
}

/// The one delivery of an event for a subscriber, whose id is made of both.
async fn of_event(
    tables: &Tables,
    event: &str,
    subscriber: &SubscriberId,
    filter: &Filter,
) -> Result<Found, Error> {
    let mut odd = Vec::new();
    let item = tables
        .delivery(&identity::webhook_id(event, subscriber))
        .await?;
    let delivery = item
        .and_then(|item| Delivery::read(&item, filter.now, &mut odd))
        .filter(|delivery| filter.takes(delivery));
    Ok((delivery.into_iter().collect(), odd))
}

/// What it can mean that a delivery has no record.
fn unknown(webhook_id: &str, stack: &Stack) -> Error {
    Error::NoRecord {
        said: format!(
            "there is no record of {webhook_id} in the stack `{}`. It may be that",
            stack.name
        ),
        reasons: reasons(stack, None),
    }
}

fn nothing_found(stack: &Stack) -> String {
    let fields = stack.parameter("ReferenceFields").unwrap_or("none");
    let reference = format!(
        "the reference is another: it is the value of the first of these fields of the event's \
         detail: {fields} (template parameter ReferenceFields)"
    );
    let said = format!(
        "Nothing found in the stack `{}`. It may be that",
        stack.name
    );
    with_reasons(&said, &reasons(stack, Some(reference)))
}

fn reasons(stack: &Stack, first: Option<String>) -> Vec<String> {
    let mut reasons = vec![
        "it was not dispatched: the rule does not let the event's source or type through, or \
         there was no enabled subscription then",
        "it still waits for its first attempt; a record is written after that",
    ];
    if stack.parameter("DeliveryLog") == Some("failures") {
        reasons.push(
            "it was delivered at once: this stack keeps no record of such (DeliveryLog: failures)",
        );
    }
    reasons.push("it is older than 30 days");
    first
        .into_iter()
        .chain(reasons.into_iter().map(str::to_owned))
        .collect()
}

impl Report for Log {
    fn exit(&self) -> Exit {
        match self {
            Self::List(list) if list.is_search && list.deliveries.is_empty() => Exit::NotFound,
            Self::List(_) | Self::Story(_) => Exit::Done,
        }
    }
}

impl Display for Log {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Story(story) => story.fmt(f),
            Self::List(list) => list.fmt(f),
        }
    }
}

impl Display for Story {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let delivery = &self.delivery;
        let shown = |text: &Option<String>| safe(text.as_deref().unwrap_or("?"));
        writeln!(f, "{}\n", safe(&delivery.webhook_id))?;
        writeln!(
            f,
            "event       {} {}, occurred {}",
            shown(&delivery.event_type),
            shown(&delivery.event_id),
            shown(&delivery.occurred_at)
        )?;
        writeln!(f, "subscriber  {}", shown(&delivery.subscriber_id))?;
        if delivery.reference.is_some() {
            writeln!(f, "reference   {}", shown(&delivery.reference))?;
        }
        writeln!(f, "state       {}", safe(&delivery.state))?;
        if delivery.body_omitted {
            writeln!(f, "payload     not kept in the record, it was too large")?;
        }
        if let Some(time) = delivery.expires_at {
            writeln!(f, "kept until  {time}")?;
        }
        writeln!(f)?;
        if delivery.history_cut {
            writeln!(f, "(what was before this did not fit into the record)")?;
        }
        if !delivery.history.is_empty() {
            writeln!(f, "{}\n", history(&delivery.history))?;
        }
        f.write_str(&self.outlook)
    }
}

/// The entries in columns; the number of the run only where there are several.
fn history(steps: &[Step]) -> Grid {
    let runs = steps.last().map_or(1, |step| step.run);
    let mut headings = vec![
        "time", "attempt", "outcome", "status", "ms", "next", "error",
    ];
    if runs > 1 {
        headings.insert(1, "run");
    }
    let mut grid = Grid::new(&headings);
    for step in steps {
        let mut cells = vec![
            step.at.to_string(),
            step.n.to_string(),
            step.outcome.clone(),
            shown(step.status.as_ref()),
            shown(step.ms.as_ref()),
            shown(step.next_at.as_ref()),
            shown(step.error.as_ref()),
        ];
        if runs > 1 {
            cells.insert(1, step.run.to_string());
        }
        grid.push(cells);
    }
    grid
}

impl Display for List {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.deliveries.is_empty() {
            return f.write_str("No deliveries.");
        }
        let mut grid = Grid::new(&[
            "updated",
            "webhook id",
            "event type",
            "reference",
            "state",
            "attempts",
            "last",
            "next",
        ]);
        for delivery in &self.deliveries {
            grid.push([
                shown(delivery.updated_at.as_ref()),
                delivery.webhook_id.clone(),
                shown(delivery.event_type.as_ref()),
                shown(delivery.reference.as_ref()),
                delivery.state.clone(),
                delivery.attempts.to_string(),
                delivery.history.last().map_or_else(String::new, last),
                shown(delivery.next_at.as_ref()),
            ]);
        }
        grid.fmt(f)
    }
}

/// What the last thing that happened came to: the status of the answer, or what went wrong.
fn last(step: &Step) -> String {
    match (step.status, &step.error) {
        (Some(status), _) => status.to_string(),
        (None, Some(error)) if error.chars().count() > SHORT_ERROR => {
            let start: String = error.chars().take(SHORT_ERROR).collect();
            format!("{start}…")
        }
        (None, Some(error)) => error.clone(),
        (None, None) => step.outcome.clone(),
    }
}

fn shown<T: Display>(value: Option<&T>) -> String {
    value.map_or_else(String::new, T::to_string)
}
