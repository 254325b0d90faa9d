//! `webhooks ping`: a signed `webhooks.ping` to a subscriber, sent from here by the same code as
//! deliver, and what came back. It changes nothing, whatever the answer is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use clap::Args;
use serde_json::json;
use webhooks_core::endpoint::EndpointRules;
use webhooks_core::event::Event;
use webhooks_core::header::CustomHeaders;
use webhooks_core::identity::{SubscriberId, webhook_id};
use webhooks_core::policy::RetryPolicy;
use webhooks_core::secret::SigningSecrets;
use webhooks_core::signature::sign;
use webhooks_core::subscription::RowError;
use webhooks_core::{Outcome, timestamp};
use webhooks_post::{Poster, Trust, request};

use crate::error::Error;
use crate::parameters::Parameters;
use crate::stack::Stack;
use crate::subscriptions::{Entry, Subscriptions, shown_url};
use crate::{Context, args, aws, output};

mod report;

pub use report::{Answer, Pings};

/// The type of the event that is sent. It is no event of anybody's.
const EVENT_TYPE: &str = "webhooks.ping";

/// How much of the first line of an answer is shown, in characters.
const SHOWN_CHARS: usize = 200;

/// Arguments of `ping`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Who is to be sent one
    #[arg(value_name = "SUBSCRIBER", value_parser = args::subscriber_id)]
    pub subscriber: SubscriberId,

    /// Only to where events of this type go
    #[arg(long, value_name = "TYPE")]
    pub event: Option<String>,

    /// PEM file with certificate authorities that are trusted too, as by deliver's EXTRA_CA_FILE
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

/// Sends a ping to each url of a subscriber.
///
/// # Errors
/// If the subscriber has no subscription or no secret, or can not be found out about.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Pings, Error> {
    let subscriber = &arguments.subscriber;
    let trust = trust(arguments.ca_file.as_deref())?;
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let mut rows = Subscriptions::new(&aws, &stack)
        .of_subscriber(subscriber)
        .await?;
    if let Some(event_type) = &arguments.event {
        rows.retain(|row| row.event_type == *event_type);
    }
    if rows.is_empty() {
        let events = match &arguments.event {
            Some(event_type) => format!(" to {event_type}"),
            None => String::new(),
        };
        return Err(Error::NotFound(format!(
            "{subscriber} has no subscription{events}: `webhooks list` shows who has one"
        )));
    }
    let parameters = Parameters::new(&aws, &stack);
    let name = parameters.name(subscriber);
    let parameter = parameters.read(subscriber).await?.ok_or_else(|| {
        Error::Failed(format!(
            "there is no secret {name}, so nothing can be signed: `webhooks secret new \
             {subscriber}` makes one"
        ))
    })?;
    let secrets = parameter
        .value
        .secrets()
        .map_err(|error| Error::Failed(format!("{name} can not be signed with: {error}")))?;
    let policy = stack.policy()?;
    let rules = stack.endpoint_rules();
    let poster = Poster::new(rules, &trust)
        .map_err(|error| Error::Failed(format!("TLS can not be set up: {error}")))?;
    let sender = Sender {
        subscriber,
        secrets: &secrets,
        policy: &policy,
        rules,
        poster: &poster,
    };
    let mut answers = Vec::new();
    for destination in destinations(&rows) {
        answers.push(sender.send(destination).await?);
    }
    Ok(Pings {
        subscriber_id: subscriber.to_string(),
        answers,
    })
}

/// Who vouches for the partners' certificates.
fn trust(file: Option<&Path>) -> Result<Trust, Error> {
    let Some(path) = file else {
        return Ok(Trust::default());
    };
    Trust::from_pem_file(path)
        .map_err(|error| Error::Usage(format!("--ca-file {}: {error}", path.display())))
}

/// A url with the headers that go there, and the rows that have it.
#[derive(Debug, PartialEq)]
struct Destination {
    sent_to: Result<(String, CustomHeaders), RowError>,
    shown_url: String,
    event_types: Vec<String>,
    /// Those of them that are disabled.
    disabled: Vec<String>,
    /// Whether dispatch makes webhooks by the first row.
    makes_webhooks: bool,
}

/// Each url once, in the order of the rows. A row that is broken stands for itself.
fn destinations(rows: &[Entry]) -> Vec<Destination> {
    let mut destinations: Vec<Destination> = Vec::new();
    for row in rows {
        let sent_to = match &row.subscription {
            Ok(subscription) => Ok((subscription.url.clone(), subscription.headers.clone())),
            Err(error) => Err(error.clone()),
        };
        let is_disabled = row.enabled == Some(false);
        let known = destinations
            .iter_mut()
            .find(|known| sent_to.is_ok() && known.sent_to == sent_to);
        let disabled = is_disabled.then(|| row.event_type.clone());
        match known {
            Some(known) => {
                known.event_types.push(row.event_type.clone());
                known.disabled.extend(disabled);
            }
            None => destinations.push(Destination {
                shown_url: row.url.as_deref().map(shown_url).unwrap_or_default(),
                sent_to,
                makes_webhooks: row.makes_webhooks(),
                event_types: vec![row.event_type.clone()],
                disabled: disabled.into_iter().collect(),
            }),
        }
    }
    destinations
}

struct Sender<'a> {
    subscriber: &'a SubscriberId,
    secrets: &'a SigningSecrets,
    policy: &'a RetryPolicy,
    rules: EndpointRules,
    poster: &'a Poster,
}

impl Sender<'_> {
    async fn send(&self, destination: Destination) -> Result<Answer, Error> {
        let mut answer = Answer {
            url: destination.shown_url,
            webhook_id: None,
            event_types: destination.event_types,
            disabled: destination.disabled,
            outcome: "unsent",
            status: None,
            ms: None,
            meaning: String::new(),
            error: None,
            answer: None,
            answer_read: false,
        };
        let (url, custom) = match destination.sent_to {
            Ok(sent_to) => sent_to,
            Err(error) => {
                answer.error = Some(format!("the row is broken: {error}"));
                answer.meaning = report::meaning_of_broken(destination.makes_webhooks).to_owned();
                return Ok(answer);
            }
        };
        let uri = match request::endpoint(self.rules, &url) {
            Ok(uri) => uri,
            Err(rule) => {
                answer.outcome = "blocked";
                answer.error = Some(rule.to_string());
                answer.meaning = report::meaning(&Outcome::Blocked(rule), self.policy);
                return Ok(answer);
            }
        };
        let now = SystemTime::now();
        let id = webhook_id(
            &format!("ping-{:016x}", rand::random::<u64>()),
            self.subscriber,
        );
        let seconds = now
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let body = body(self.subscriber, &answer.event_types, now)?;
        let signature =
            sign(self.secrets, &id, seconds, body.as_bytes(), now).ok_or_else(|| {
                Error::Failed(format!(
                    "all secrets of {0} have ended: `webhooks secret rotate {0}` makes a new one",
                    self.subscriber
                ))
            })?;
        let headers = request::headers(&id, seconds, &signature, &custom)
            .ok_or_else(|| Error::Failed("the request has a header that none may be".into()))?;
        let limit: Duration = self.policy.timeout;
        let posted = self
            .poster
            .post(uri, headers, Bytes::from(body), limit)
            .await;
        answer.webhook_id = Some(id);
        answer.outcome = posted.outcome.name();
        answer.status = posted.outcome.status();
        answer.ms = u64::try_from(posted.elapsed.as_millis()).ok();
        answer.meaning = report::meaning(&posted.outcome, self.policy);
        answer.error = posted.error;
        answer.answer_read = posted.answer.is_some();
        answer.answer = posted.answer.as_deref().and_then(first_line);
        Ok(answer)
    }
}

/// The payload, frozen as that of an event.
fn body(
    subscriber: &SubscriberId,
    event_types: &[String],
    now: SystemTime,
) -> Result<String, Error> {
    let event = BTreeMap::from([
        ("id", json!("ping")),
        ("detail-type", json!(EVENT_TYPE)),
        ("time", json!(timestamp::format(now))),
        (
            "detail",
            json!({"subscriberId": subscriber.as_str(), "eventTypes": event_types}),
        ),
    ]);
    let failed = |error: &dyn std::fmt::Display| Error::Failed(error.to_string());
    let event = serde_json::to_string(&event).map_err(|error| failed(&error))?;
    let event = Event::parse(&event).map_err(|error| failed(&error))?;
    let body = event.freeze_body().map_err(|error| failed(&error))?;
    Ok(body.get().to_owned())
}

/// The first line of an answer that is not empty, safe to show.
fn first_line(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let mut shown = output::safe(&line.chars().take(SHOWN_CHARS).collect::<String>());
    if line.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    Some(shown)
}

#[cfg(test)]
mod tests;
