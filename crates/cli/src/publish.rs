//! `webhooks publish`: puts events onto the stack's bus, and says which webhooks become of them.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use aws_config::SdkConfig;
use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::primitives::DateTime;
use aws_sdk_eventbridge::types::{PutEventsRequestEntry, PutEventsResultEntry};
use clap::Args;
use serde::Serialize;
use webhooks_core::identity::{SubscriberId, webhook_id};

use crate::error::Error;
use crate::output::{Report, safe};
use crate::stack::Stack;
use crate::subscriptions::{self, Subscriptions};
use crate::{Context, aws, input, output};

pub mod entry;

use entry::{Entry, Target};

/// Arguments of `publish`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// File with one entry of `PutEvents` or a list of them; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: String,
}

/// What was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Published {
    /// The bus that took the events.
    pub bus: String,
    /// The events, in the order of the file.
    pub events: Vec<Event>,
}

/// An event that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The id that EventBridge gave it.
    pub event_id: String,
    /// Its type.
    pub event_type: String,
    /// The webhooks that become of it, one for each enabled subscription; one whose row has broken
    /// headers fails until it is mended.
    pub webhook_ids: Vec<String>,
}

/// Publishes the events of a file.
///
/// # Errors
/// If the file has something that would become no webhook, or an event is not taken.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Published, Error> {
    let text = input::read_text(&arguments.file, "the events")?;
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let bus = stack.output("EventBusName")?;
    let target = Target {
        bus,
        sources: stack.parameter("EventSources"),
        types: stack.parameter("EventTypes"),
    };
    let entries = entry::read(&text, target)?;
    // Before anything is sent: whoever may not read the table publishes nothing by surprise.
    let subscriptions = Subscriptions::new(&aws, &stack).all().await?;
    let types: BTreeSet<&str> = entries
        .iter()
        .map(|entry| entry.event_type.as_str())
        .collect();
    let ids = put(&aws, bus, &entries).await?;
    output::notes(&broken(&subscriptions, &types));
    Ok(Published {
        bus: bus.to_owned(),
        events: entries
            .iter()
            .zip(ids)
            .map(|(entry, event_id)| Event {
                webhook_ids: subscribers(&subscriptions, &entry.event_type)
                    .map(|subscriber| webhook_id(&event_id, &subscriber))
                    .collect(),
                event_type: entry.event_type.clone(),
                event_id,
            })
            .collect(),
    })
}

/// Of whom dispatch makes a webhook of such an event.
fn subscribers(
    subscriptions: &[subscriptions::Entry],
    event_type: &str,
) -> impl Iterator<Item = SubscriberId> {
    subscriptions
        .iter()
        .filter(move |row| row.event_type == event_type && row.makes_webhooks())
        .filter_map(|row| SubscriberId::parse(&row.subscriber_id).ok())
}

/// The rows by which webhooks of these types are made that fail.
fn broken(subscriptions: &[subscriptions::Entry], event_types: &BTreeSet<&str>) -> Vec<String> {
    subscriptions
        .iter()
        .filter(|row| event_types.contains(row.event_type.as_str()) && row.makes_webhooks())
        .filter_map(|row| {
            Some(format!(
                "the webhook to {} fails until the row of {} is mended: {}",
                row.subscriber_id,
                row.event_type,
                row.problem()?
            ))
        })
        .collect()
}

/// Puts the entries onto the bus, and gives their event ids.
async fn put(aws: &SdkConfig, bus: &str, entries: &[Entry]) -> Result<Vec<String>, Error> {
    let requests = entries.iter().map(|entry| {
        PutEventsRequestEntry::builder()
            .event_bus_name(bus)
            .source(&entry.source)
            .detail_type(&entry.event_type)
            .detail(&entry.detail)
            .set_time(entry.time.map(DateTime::from))
            .set_resources((!entry.resources.is_empty()).then(|| entry.resources.clone()))
            .set_trace_header(entry.trace_header.clone())
            .build()
    });
    let answer = Client::new(aws)
        .put_events()
        .set_entries(Some(requests.collect()))
        .send()
        .await
        .map_err(|error| aws::failure("events:PutEvents", &error))?;
    if answer.entries().len() != entries.len() {
        let message = "EventBridge did not say what became of every entry";
        return Err(Error::Failed(message.into()));
    }
    taken(answer.entries())
}

/// The event ids of all entries.
fn taken(results: &[PutEventsResultEntry]) -> Result<Vec<String>, Error> {
    let ids: Vec<String> = results
        .iter()
        .filter_map(|result| result.event_id().map(str::to_owned))
        .collect();
    if ids.len() == results.len() {
        return Ok(ids);
    }
    let refused: Vec<String> = results
        .iter()
        .zip(1..)
        .filter(|(result, _)| result.event_id().is_none())
        .map(|(result, number)| {
            format!(
                "entry {number} was not taken: {}: {}",
                result.error_code().unwrap_or("no code"),
                result.error_message().unwrap_or("no message")
            )
        })
        .collect();
    let others = if ids.is_empty() {
        String::new()
    } else {
        format!(
            "; taken were {}: leave those out when you try again",
            ids.join(", ")
        )
    };
    Err(Error::Failed(format!("{}{others}", refused.join("; "))))
}

impl Report for Published {}

impl Display for Published {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, event) in self.events.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            writeln!(f, "{} {}", safe(&event.event_type), safe(&event.event_id))?;
            if event.webhook_ids.is_empty() {
                writeln!(f, "  nobody has an enabled subscription to it: no webhook")?;
            }
            for id in &event.webhook_ids {
                writeln!(f, "  {}", safe(id))?;
            }
        }
        write!(
            f,
            "\nOn the bus {}. Follow what becomes of it with",
            safe(&self.bus)
        )?;
        for event in &self.events {
            write!(f, "\n  webhooks log --event {}", safe(&event.event_id))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(id: Option<&str>) -> PutEventsResultEntry {
        let result = PutEventsResultEntry::builder().set_event_id(id.map(str::to_owned));
        let (code, message) = match id {
            Some(_) => (None, None),
            None => (Some("ThrottlingException"), Some("slow down")),
        };
        result
            .set_error_code(code.map(str::to_owned))
            .set_error_message(message.map(str::to_owned))
            .build()
    }

    #[test]
    fn an_entry_that_was_not_taken_is_an_error_that_says_which_were() {
        let ids = taken(&[result(Some("a")), result(Some("b"))]);
        assert_eq!(ids, Ok(vec!["a".to_owned(), "b".to_owned()]));
        let message = |results: &[_]| taken(results).unwrap_err().to_string();
        assert_eq!(
            message(&[result(Some("a")), result(None)]),
            "entry 2 was not taken: ThrottlingException: slow down; taken were a: leave those out \
             when you try again"
        );
        assert_eq!(
            message(&[result(None)]),
            "entry 1 was not taken: ThrottlingException: slow down"
        );
    }

    #[test]
    fn the_text_has_the_webhooks_and_the_commands_to_follow_them() {
        let event = |event_id: &str, webhook_ids: &[&str]| Event {
            event_id: event_id.into(),
            event_type: "OrderPaid".into(),
            webhook_ids: webhook_ids.iter().map(|id| (*id).to_owned()).collect(),
        };
        let published = Published {
            bus: "shop".into(),
            events: vec![event("e1", &["msg_e1_a", "msg_e1_b"]), event("e2", &[])],
        };
        assert_eq!(
            published.to_string(),
            "OrderPaid e1\n  msg_e1_a\n  msg_e1_b\n\nOrderPaid e2\n  nobody has an enabled \
             subscription to it: no webhook\n\nOn the bus shop. Follow what becomes of it with\n  \
             webhooks log --event e1\n  webhooks log --event e2"
        );
    }
}
