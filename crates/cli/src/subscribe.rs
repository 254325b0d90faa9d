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
use webhooks_core::header::{CustomHeaders, is_reserved};
use webhooks_core::identity::SubscriberId;
use webhooks_core::secret::Scheme;

use crate::args::{said, subscriber_id};
use crate::endpoint::{UrlError, is_same_host, judge, judge_characters, judge_name};
use crate::error::Error;
use crate::parameters::{Created, Parameter, Parameters};
use crate::secret::facts::{Facts, Handover, facts, newest_active, random};
use crate::stack::Stack;
use crate::subscriptions::{Entry, Subscriptions};
use crate::{Context, aws, input, output};

mod header;
mod plan;
mod summary;

pub use header::HeaderText;
use plan::{Plan, Wish, planned};
pub use summary::{Done, Row, SecretState, Subscribed};

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

    /// A header that is sent along: 'Name: value'; may be repeated. Replaces all that a
    /// subscription has. Others on this machine can see it, and the shell keeps it: what is secret
    /// belongs in --header-file
    #[arg(long, value_name = "HEADER", conflicts_with = "no_headers")]
    pub header: Vec<HeaderText>,

    /// A file of such headers, one `Name: value` on each line, such as an API key; `-` is standard
    /// input
    #[arg(long, value_name = "FILE", conflicts_with = "no_headers")]
    pub header_file: Option<String>,

    /// Send no such headers any more
    #[arg(long)]
    pub no_headers: bool,

    /// What people should know of it, one line of at most 256 characters; empty to remove it
    #[arg(long, value_name = "TEXT", value_parser = said)]
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
    let headers = wanted_headers(arguments)?;
    let subscriber = &arguments.subscriber;
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let event_types: BTreeSet<&str> = arguments.event.iter().map(String::as_str).collect();
    refuse_unknown(&event_types, &stack)?;
    check_url(arguments, &stack).await?;
    let subscriptions = Subscriptions::new(&aws, &stack);
    let read = subscriptions.of_subscriber(subscriber).await?;
    let wish = Wish {
        subscriber: subscriber.as_str(),
        url: &arguments.url,
        headers: headers.as_ref(),
        description: arguments.description.as_deref(),
    };
    let of_type = |name: &str| read.iter().find(|entry| entry.event_type == name);
    let plans: Vec<Plan> = event_types
        .iter()
        .map(|event_type| planned(event_type, of_type(event_type), &wish))
        .collect();
    // All of them before the first change: whoever is told so has changed nothing.
    refuse_broken(subscriber, &plans)?;
    if headers.is_none() {
        refuse_to_move_headers(&arguments.url, &event_types, &read)?;
    }
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
    let mut error = None;
    for Plan { change, row, .. } in plans {
        let event_type = &row.event_type;
        if error.is_some() {
            subscribed.not_reached.push(event_type.clone());
            continue;
        }
        let entry = of_type(event_type);
        let written = if change.is_empty() {
            Ok(())
        } else {
            let id = subscriber.as_str();
            subscriptions.write(event_type, id, entry, &change).await
        };
        match written {
            Ok(()) => subscribed.rows.push(row),
            Err(failed) => {
                subscribed.not_reached.push(row.event_type);
                error = Some(failed);
            }
        }
    }
    let is_written = subscribed
        .rows
        .iter()
        .any(|row| row.done != Done::Unchanged);
    if is_written
        && matches!(subscribed.secret, SecretState::There { .. })
        && let Ok(None) = parameters.read(subscriber).await
    {
        // `unsubscribe --delete-secret` found no row a moment ago.
        subscribed.secret = SecretState::Unusable {
            problem: format!(
                "parameter {} was deleted by somebody else at this moment",
                parameters.name(subscriber)
            ),
            mend: format!("Make another one by `webhooks secret new {subscriber}`"),
        };
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

/// The headers of the command line; nothing if it says nothing of them.
fn wanted_headers(arguments: &Arguments) -> Result<Option<CustomHeaders>, Error> {
    let file = arguments.header_file.as_deref().map(|path| {
        let text = input::read_text(path, "--header-file")?;
        Ok::<_, Error>((path, text))
    });
    let file = file.transpose()?;
    if arguments.header.is_empty() && file.is_none() && !arguments.no_headers {
        return Ok(None);
    }
    let file = file.as_ref().map(|(path, text)| (*path, text.as_str()));
    header::headers(&arguments.header, file).map(Some)
}

/// A row that is broken afterwards too is not reported as subscribed. The url and `enabled` are
/// right by then, so these are the headers that stay.
fn refuse_broken(subscriber: &SubscriberId, plans: &[Plan]) -> Result<(), Error> {
    let broken = plans
        .iter()
        .find_map(|plan| Some((&plan.row.event_type, plan.broken.as_ref()?)));
    match broken {
        Some((event_type, error)) => Err(Error::Failed(format!(
            "the subscription of {subscriber} to {event_type} would still be broken: {error}. Give \
             all headers that it is to have by --header-file, or remove them by --no-headers; \
             nothing was changed"
        ))),
        None => Ok(()),
    }
}

/// Headers often are credentials for the host that they were given for, and must not reach another
/// one unsaid.
fn refuse_to_move_headers(
    url: &str,
    event_types: &BTreeSet<&str>,
    read: &[Entry],
) -> Result<(), Error> {
    let moved: Vec<&Entry> = read
        .iter()
        .filter(|entry| event_types.contains(entry.event_type.as_str()))
        .filter(|entry| !entry.url.as_deref().is_some_and(|it| is_same_host(it, url)))
        .collect();
    let names: BTreeSet<String> = moved
        .iter()
        .flat_map(|entry| entry.headers.keys())
        .filter(|name| !is_reserved(name))
        .map(|name| name.to_ascii_lowercase())
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Err(Error::Usage(format!(
        "--url leads to another host, and the headers that were given for the one before would go \
         there too: {}. Say what the new host is to get: all its headers by --header-file (or \
         --header), or none by --no-headers; nothing was changed",
        names.join(", ")
    )))
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
    let name = judge_characters(&arguments.url)
        .and_then(|()| judge(rules, &arguments.url))
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
            | UrlError::Unseen
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
    SecretState::Unusable {
        problem,
        mend: format!(
            "Mend it, or replace it by `webhooks secret rotate {subscriber} --overlap 0`"
        ),
    }
}

/// A secret that is there keeps its scheme, which is not what was asked for.
fn note_another_scheme(arguments: &Arguments, secrets: &[Facts]) {
    let newest = newest_active(secrets).map(|secret| secret.scheme);
    if let (Some(wanted), Some(newest)) = (arguments.scheme.map(Scheme::name), newest)
        && wanted != newest
    {
        let subscriber = &arguments.subscriber;
        output::note_line(&format!(
            "{subscriber} has a {newest} secret already, and --scheme is for a new one: change it \
             by `webhooks secret rotate {subscriber} --scheme {wanted}`"
        ));
    }
}
