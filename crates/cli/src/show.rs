//! `webhooks show`: all that is known of one partner, and never its secret.

use std::fmt::{self, Display, Formatter};

use clap::Args;
use serde::Serialize;
use webhooks_core::header::is_reserved;
use webhooks_core::identity::SubscriberId;

use crate::args::subscriber_id;
use crate::error::Error;
use crate::moment::Time;
use crate::output::{Report, safe};
use crate::parameters::Parameters;
use crate::secret::facts::{Facts, facts};
use crate::stack::Stack;
use crate::subscriptions::{Entry, Subscriptions};
use crate::{Context, aws};

/// Arguments of `show`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Who
    #[arg(value_name = "SUBSCRIBER", value_parser = subscriber_id)]
    pub subscriber: SubscriberId,

    /// Show the values of headers and the query of the url too, which may be credentials
    #[arg(long)]
    pub reveal: bool,
}

/// What `show` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Show {
    /// Who it is.
    pub subscriber_id: String,
    /// The subscriptions, by event type.
    pub subscriptions: Vec<Subscription>,
    /// The secrets, newest first.
    pub secrets: Vec<Facts>,
    /// Why there is none to sign with.
    pub secret_problem: Option<String>,
}

/// One subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    /// What is subscribed to.
    pub event_type: String,
    /// Where it goes.
    pub url: String,
    /// Whether webhooks are sent.
    pub enabled: bool,
    /// Why it was disabled.
    pub disabled_reason: Option<String>,
    /// When it was disabled.
    pub disabled_at: Option<Time>,
    /// What is sent along.
    pub headers: Vec<Header>,
    /// What people say of it.
    pub description: Option<String>,
    /// What is wrong with the row.
    pub problem: Option<String>,
}

/// One header. `Debug` tells its name alone.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Whether it is sent: those that sign, frame or route a request are not a subscription's.
    pub sent: bool,
    /// Its value, if that is to be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Header").field(&self.name).finish()
    }
}

/// Reads it.
///
/// # Errors
/// If the subscriptions can not be read, or if nothing is known of the partner.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Show, Error> {
    let subscriber = &arguments.subscriber;
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let entries = Subscriptions::new(&aws, &stack)
        .of_subscriber(subscriber)
        .await?;
    let parameters = Parameters::new(&aws, &stack);
    let name = parameters.name(subscriber);
    let (secrets, secret_problem) = match parameters.read(subscriber).await {
        Ok(Some(found)) => match facts(&found.value, context.now, false) {
            Ok(secrets) if secrets.iter().any(|secret| secret.active) => (secrets, None),
            Ok(secrets) => (secrets, Some("all secrets have ended".to_owned())),
            Err(error) => (Vec::new(), Some(format!("parameter {name}: {error}"))),
        },
        Ok(None) if entries.is_empty() => {
            return Err(Error::NotFound(format!(
                "{subscriber} has neither a subscription nor a secret: `webhooks list` shows who has"
            )));
        }
        Ok(None) => (Vec::new(), Some(format!("there is no parameter {name}"))),
        // Who may not read secrets may still see the rest.
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    Ok(Show {
        subscriber_id: subscriber.to_string(),
        subscriptions: entries
            .into_iter()
            .map(|entry| Subscription::of(entry, arguments.reveal))
            .collect(),
        secrets,
        secret_problem,
    })
}

impl Subscription {
    fn of(entry: Entry, reveal: bool) -> Self {
        let shown = entry.shown_url();
        Self {
            url: match entry.url.clone() {
                Some(url) if reveal => url,
                Some(_) | None => shown,
            },
            enabled: entry.is_enabled(),
            problem: entry.problem(),
            headers: entry
                .headers
                .into_iter()
                .map(|(name, value)| Header {
                    sent: !is_reserved(&name),
                    name,
                    value: reveal.then_some(value),
                })
                .collect(),
            event_type: entry.event_type,
            disabled_reason: entry.disabled_reason,
            disabled_at: entry.disabled_at,
            description: entry.description,
        }
    }

    fn state(&self) -> String {
        if self.enabled {
            return "enabled".to_owned();
        }
        let mut state = "disabled".to_owned();
        if let Some(time) = self.disabled_at {
            state += &format!(" since {time}");
        }
        if let Some(reason) = &self.disabled_reason {
            state += &format!(": {reason}");
        }
        state
    }
}

impl Report for Show {}

impl Display for Show {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.subscriber_id)?;
        let mut line = |name: &str, text: &str| write!(f, "\n  {name:<11}  {}", safe(text));
        if self.subscriptions.is_empty() {
            line("events", "subscribed to nothing")?;
        }
        for subscription in &self.subscriptions {
            line("event", &subscription.event_type)?;
            line("  url", &subscription.url)?;
            line("  state", &subscription.state())?;
            for header in &subscription.headers {
                let value = match (header.sent, header.value.as_deref()) {
                    (false, _) => "(reserved, not sent)",
                    (true, Some(value)) => value,
                    (true, None) => "(a value that --reveal shows)",
                };
                line("  header", &format!("{}: {value}", header.name))?;
            }
            if let Some(description) = &subscription.description {
                line("  about", description)?;
            }
            if let Some(problem) = &subscription.problem {
                line("  broken", problem)?;
            }
        }
        for secret in &self.secrets {
            let scheme = secret.scheme;
            line("secret", &format!("{scheme}, {}", secret.standing()))?;
            if let Some(key) = &secret.public_key {
                line("  public", key)?;
            }
        }
        if let Some(problem) = &self.secret_problem {
            line("no secret", problem)?;
        }
        Ok(())
    }
}
