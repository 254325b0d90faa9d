//! `webhooks secret`: the signing secrets of partners.
//!
//! | module | |
//! |---|---|
//! | [`new`] | a first secret |
//! | [`show`] | which secrets a partner has, and until when |
//! | [`rotate`] | a new secret, beside which the old ones go on for a while |
//! | [`refusal`] | what becomes of webhooks that a partner refuses meanwhile |
//! | [`list`] | what ends soon, and what is missing or broken |
//! | [`facts`] | what is told of a secret, and to whom |

use std::fmt::{self, Display, Formatter};

use clap::{Args, Subcommand};
use serde::Serialize;
use webhooks_core::identity::SubscriberId;
use webhooks_core::secret::Scheme;

use crate::Context;
use crate::error::{Error, Exit};
use crate::output::Report;
use crate::parameters::Parameters;

pub mod facts;
pub mod list;
pub mod new;
pub mod refusal;
pub mod rotate;
pub mod show;

/// Arguments of `secret`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What can be done with secrets.
#[derive(Debug, Clone, Subcommand)]
pub enum Action {
    /// Make a secret for a subscriber who has none
    New(new::Arguments),
    /// Show which secrets a subscriber has, but not the secrets themselves
    Show(show::Arguments),
    /// Put a new secret in front; the old ones go on signing for a while
    Rotate(rotate::Arguments),
    /// List everybody's secrets, and warn of those that end soon, are missing or broken
    List(list::Arguments),
}

/// What `secret` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Secret {
    /// Of `secret new`.
    New(new::New),
    /// Of `secret show`.
    Show(show::Show),
    /// Of `secret rotate`.
    Rotated(rotate::Rotated),
    /// Of `secret list`.
    List(list::List),
}

/// Does it.
///
/// # Errors
/// If it can not be done.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Secret, Error> {
    Ok(match &arguments.action {
        Action::New(arguments) => Secret::New(new::run(arguments, context).await?),
        Action::Show(arguments) => Secret::Show(show::run(arguments, context).await?),
        Action::Rotate(arguments) => Secret::Rotated(rotate::run(arguments, context).await?),
        Action::List(arguments) => Secret::List(list::run(arguments, context).await?),
    })
}

impl Report for Secret {
    fn exit(&self) -> Exit {
        match self {
            Self::Rotated(rotated) => rotated.exit(),
            Self::New(_) | Self::Show(_) | Self::List(_) => Exit::Done,
        }
    }
}

impl Display for Secret {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::New(new) => new.fmt(f),
            Self::Show(show) => show.fmt(f),
            Self::Rotated(rotated) => rotated.fmt(f),
            Self::List(list) => list.fmt(f),
        }
    }
}

/// A scheme on the command line.
pub(crate) fn scheme(text: &str) -> Result<Scheme, String> {
    let mut schemes = Scheme::ALL.into_iter();
    let found = schemes.find(|scheme| scheme.name() == text);
    found.ok_or_else(|| {
        "expected v1 (a secret shared with the partner) or v1a (ed25519, the partner has only the \
         public key)"
            .to_owned()
    })
}

/// That there is no secret.
pub(crate) fn missing(parameters: &Parameters, subscriber: &SubscriberId) -> Error {
    Error::NotFound(format!(
        "there is no parameter {}: make a secret by `webhooks secret new {subscriber}`",
        parameters.name(subscriber)
    ))
}
