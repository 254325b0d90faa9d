//! `webhooks secret show`: which secrets a partner has, and until when.

use std::fmt::{self, Display, Formatter};

use clap::Args;
use serde::Serialize;
use webhooks_core::identity::SubscriberId;

use super::facts::{Facts, facts};
use super::missing;
use crate::args::subscriber_id;
use crate::error::Error;
use crate::grid::Grid;
use crate::output::safe;
use crate::parameters::{Parameters, Value};
use crate::stack::Stack;
use crate::{Context, aws};

/// Arguments of `secret show`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Whose secrets
    #[arg(value_name = "SUBSCRIBER", value_parser = subscriber_id)]
    pub subscriber: SubscriberId,

    /// Show the secrets themselves too
    #[arg(long)]
    pub reveal: bool,
}

/// What `secret show` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Show {
    /// Whose secrets they are.
    pub subscriber_id: String,
    /// The SSM parameter that holds them.
    pub parameter: String,
    /// How often it has been written.
    pub version: i64,
    /// The secrets, newest first.
    pub secrets: Vec<Facts>,
}

/// Reads them.
///
/// # Errors
/// If there are none, or none that can be signed with, or if they can not be read.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Show, Error> {
    let subscriber = &arguments.subscriber;
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let parameters = Parameters::new(&aws, &stack);
    let found = parameters.read(subscriber).await?;
    let found = found.ok_or_else(|| missing(&parameters, subscriber))?;
    let name = parameters.name(subscriber);
    match facts(&found.value, context.now, arguments.reveal) {
        Ok(secrets) => Ok(Show {
            subscriber_id: subscriber.to_string(),
            parameter: name,
            version: found.version,
            secrets,
        }),
        Err(error) => Err(Error::Failed(format!(
            "parameter {name}: {error}. Nothing can be signed with it; mend it, or replace it by \
             `webhooks secret rotate {subscriber} --overlap 0`"
        ))),
    }
}

impl Display for Show {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, version {}\n", safe(&self.parameter), self.version)?;
        let reveals = self.secrets.iter().any(|facts| facts.secret.is_some());
        let mut headings = vec!["scheme", "state", "public key"];
        headings.extend(reveals.then_some("secret"));
        let mut grid = Grid::new(&headings);
        for facts in &self.secrets {
            let mut cells = vec![
                facts.scheme.to_owned(),
                facts.standing(),
                facts.public_key.clone().unwrap_or_default(),
            ];
            cells.extend(facts.secret.as_ref().map(Value::reveal).map(str::to_owned));
            grid.push(cells);
        }
        grid.fmt(f)
    }
}
