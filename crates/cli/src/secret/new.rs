//! `webhooks secret new`: a first secret.

use std::fmt::{self, Display, Formatter};

use clap::Args;
use serde::Serialize;
use webhooks_core::identity::SubscriberId;
use webhooks_core::secret::Scheme;

use super::facts::{Handover, random};
use crate::args::subscriber_id;
use crate::error::Error;
use crate::parameters::{Created, Parameters};
use crate::stack::Stack;
use crate::{Context, aws};

/// Arguments of `secret new`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Whose secret
    #[arg(value_name = "SUBSCRIBER", value_parser = subscriber_id)]
    pub subscriber: SubscriberId,

    /// v1: a secret shared with the partner; v1a: ed25519, the partner has only the public key
    #[arg(long, value_name = "SCHEME", value_parser = super::scheme, default_value = "v1")]
    pub scheme: Scheme,
}

/// What `secret new` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct New {
    /// Whose secret it is.
    pub subscriber_id: String,
    /// What the partner is given.
    #[serde(flatten)]
    pub handover: Handover,
}

/// Makes a secret.
///
/// # Errors
/// If there is one, or if it can not be stored.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<New, Error> {
    let subscriber = &arguments.subscriber;
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let parameters = Parameters::new(&aws, &stack);
    let secret = random(arguments.scheme)?;
    match parameters.create(subscriber, &secret).await? {
        Created::Done => Ok(New {
            subscriber_id: subscriber.to_string(),
            handover: Handover::of(&secret, arguments.scheme),
        }),
        Created::Existed => Err(Error::Failed(format!(
            "{subscriber} has a secret already (parameter {}), which was left alone: change it by \
             `webhooks secret rotate {subscriber}`",
            parameters.name(subscriber)
        ))),
    }
}

impl Display for New {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let id = &self.subscriber_id;
        let (name, text) = self.handover.line();
        write!(
            f,
            "{id} has a secret now. {}\n\n  {name}  {text}",
            self.handover.heading(id)
        )
    }
}
