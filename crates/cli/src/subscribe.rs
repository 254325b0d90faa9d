//! `webhooks subscribe`: registers a partner, or changes where its webhooks go.
//!
//! The secret comes first, since an enabled row without one is a fault of ours at every attempt.
//! Running it twice changes nothing, and a run that was broken off is just run again.
//!
//! | module | |
//! |---|---|
//! | `plan` | what has to be changed in a row |
//! | `header` | the headers of the command line |
//! | `summary` | what is told of it |

use std::collections::BTreeSet;

use clap::Args;
use clap::builder::NonEmptyStringValueParser as NonEmpty;
use webhooks_core::identity::SubscriberId;
use webhooks_core::secret::Scheme;

use crate::args::subscriber_id;
use crate::endpoint::{UrlError, judge, judge_name};
use crate::error::Error;
use crate::parameters::{Created, Parameter, Parameters};
use crate::secret::facts::{Facts, Handover, facts, random};
use crate::stack::Stack;
use crate::subscriptions::Subscriptions;
use crate::{Context, aws, output};

mod header;
mod plan;
mod summary;

use plan::{Wish, planned};
pub use summary::{Row, SecretState, Subscribed};

/// Arguments of `subscribe`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Who subscribes: 1 to 64 letters, digits, `_` and `-`
    #[arg(value_name = "SUBSCRIBER", value_parser = subscriber_id)]
    pub subscriber: SubscriberId,

    /// What to, one of the stack's EventTypes; may be repeated
    #[arg(long, value_name = "TYPE", value_parser = NonEmpty::new(), required = true)]
    pub event: Vec<String>,

    /// Where its webhooks go
    #[arg(long, value_name = "URL", value_parser = NonEmpty::new())]
    pub url: String,

    /// A header that is sent along, such as an API key: 'Name: value'; may be repeated. Replaces
    /// all that a subscription has
    #[arg(long, value_name = "HEADER", conflicts_with = "no_headers")]
    pub header: Vec<String>,

    /// Send no such headers any more
    #[arg(long)]
    pub no_headers: bool,

    /// What people should know of it; empty to remove it
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,

    /// For a new secret: v1, shared with the partner, or v1a, ed25519, of which the partner has
    /// only the public key [default: v1]
    #[arg(long, value_name = "SCHEME", value_parser = crate::secret::scheme)]
    pub scheme: Option<Scheme>,

    /// Do not ask whether the url's name leads anywhere from here
    #[arg(long)]
    pub no_resolve: bool,
}

/// Subscribes.
///
/// # Errors
/// If nothing could be done.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Subscribed, Error> {
    let headers = match (arguments.header.is_empty(), arguments.no_headers) {
        (true, false) => None,
        (true, true) | (false, _) => Some(header::headers(&arguments.header)?),
    };
    let subscriber = &arguments.subscriber;
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let event_types: BTreeSet<&str> = arguments.event.iter().map(String::as_str).collect();
    refuse_unknown(&event_types, &stack)?;
    check_url(arguments, &stack).await?;
    let subscriptions = Subscriptions::new(&aws, &stack);
    let read = subscriptions.of_subscriber(subscriber).await?;
    let parameters = Parameters::new(&aws, &stack);
    let secret = secret(arguments, context, &parameters).await?;

    let mut subscribed = Subscribed {
        subscriber_id: subscriber.to_string(),
        url: arguments.url.clone(),
        secret,
        rows: Vec::new(),
        not_reached: Vec::new(),
        error: None,
    };
    let wish = Wish {
        url: &arguments.url,
        headers: headers.as_ref(),
        description: arguments.description.as_deref(),
    };
    let mut error = None;
    for event_type in event_types {
        if error.is_some() {
            subscribed.not_reached.push(event_type.to_owned());
            continue;
        }
        let entry = read.iter().find(|entry| entry.event_type == event_type);
        let (change, row) = planned(event_type, entry, &wish);
        let written = if change.is_empty() {
            Ok(())
        } else {
            let id = subscriber.as_str();
            subscriptions.write(event_type, id, entry, &change).await
        };
        match written {
            Ok(()) => subscribed.rows.push(row),
            Err(failed) => {
                subscribed.not_reached.push(event_type.to_owned());
                error = Some(failed);
            }
        }
    }
    match error {
        // Nothing was changed, so there is nothing to tell but this.
        Some(error) if !subscribed.secret.is_new() && subscribed.rows.is_empty() => Err(error),
        Some(error) => {
            subscribed.error = Some(error.to_string());
            Ok(subscribed)
        }
        None => Ok(subscribed),
    }
}

/// An event type that the stack does not let through never becomes a webhook.
fn refuse_unknown(event_types: &BTreeSet<&str>, stack: &Stack) -> Result<(), Error> {
    let known = stack.event_types();
    let unknown = event_types.iter().find(|name| !known.contains(name));
    match unknown {
        Some(unknown) if !known.is_empty() => Err(Error::Usage(format!(
            "`{unknown}` is no event type of the stack `{}`, whose parameter EventTypes has {}: \
             add it there first",
            stack.name,
            known.join(", ")
        ))),
        Some(_) | None => Ok(()),
    }
}

async fn check_url(arguments: &Arguments, stack: &Stack) -> Result<(), Error> {
    let rules = stack.endpoint_rules();
    let name = judge(rules, &arguments.url)
        .map_err(|error| Error::Usage(format!("--url can not be subscribed: {error}")))?;
    let Some(name) = name.filter(|_| !arguments.no_resolve) else {
        return Ok(());
    };
    judge_name(rules, &name).await.map_err(|error| {
        use webhooks_post::ResolveError;
        let otherwise = match &error {
            UrlError::Name(_, ResolveError::Failed(_) | ResolveError::Empty) => {
                " (--no-resolve subscribes it all the same)"
            }
            UrlError::Name(_, ResolveError::Forbidden(_))
            | UrlError::Forbidden(_)
            | UrlError::Row(_) => "",
        };
        Error::Failed(format!("--url can not be subscribed: {error}{otherwise}"))
    })
}

/// The subscriber's secret: the one that is there, which is left alone, or a new one.
async fn secret(
    arguments: &Arguments,
    context: &Context,
    parameters: &Parameters,
) -> Result<SecretState, Error> {
    let subscriber = &arguments.subscriber;
    if let Some(found) = parameters.read(subscriber).await? {
        return Ok(existing(&found, parameters, arguments, context));
    }
    let scheme = arguments.scheme.unwrap_or(Scheme::V1);
    let secret = random(scheme)?;
    match parameters.create(subscriber, &secret).await? {
        Created::Done => Ok(SecretState::New(Handover::of(&secret, scheme))),
        // Somebody else was faster.
        Created::Existed => match parameters.read(subscriber).await? {
            Some(found) => Ok(existing(&found, parameters, arguments, context)),
            None => Err(Error::Failed(format!(
                "parameter {} was made and deleted by somebody else at this moment: try again",
                parameters.name(subscriber)
            ))),
        },
    }
}

fn existing(
    found: &Parameter,
    parameters: &Parameters,
    arguments: &Arguments,
    context: &Context,
) -> SecretState {
    let subscriber = &arguments.subscriber;
    let name = parameters.name(subscriber);
    let problem = match facts(&found.value, context.now, false) {
        Ok(secrets) if secrets.iter().any(|secret| secret.active) => {
            note_another_scheme(arguments, &secrets);
            return SecretState::There { secrets };
        }
        Ok(_) => format!("all secrets in parameter {name} have ended"),
        Err(error) => format!("parameter {name}: {error}"),
    };
    SecretState::Unusable { problem }
}

/// A secret that is there keeps its scheme, which is not what was asked for.
fn note_another_scheme(arguments: &Arguments, secrets: &[Facts]) {
    let newest = secrets.first().map(|secret| secret.scheme);
    if let (Some(wanted), Some(newest)) = (arguments.scheme.map(Scheme::name), newest)
        && wanted != newest
    {
        let subscriber = &arguments.subscriber;
        output::note(&format!(
            "{subscriber} has a {newest} secret already, and --scheme is for a new one: change it \
             by `webhooks secret rotate {subscriber} --scheme {wanted}`"
        ));
    }
}
