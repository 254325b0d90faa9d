//! What is told after a subscription: what was changed, and what the partner needs.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::error::Exit;
use crate::output::{Report, safe};
use crate::secret::facts::{Facts, Handover, newest_active};

/// What `subscribe` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscribed {
    /// Who is subscribed.
    pub subscriber_id: String,
    /// Where the webhooks go.
    pub url: String,
    /// What they are signed with.
    pub secret: SecretState,
    /// The event types that are as they should be now.
    pub rows: Vec<Row>,
    /// Those that are not.
    pub not_reached: Vec<String>,
    /// Why not.
    pub error: Option<String>,
}

/// The secret of a subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum SecretState {
    /// Just made: what the partner is given.
    New(Handover),
    /// Made earlier, and left alone.
    There {
        /// What is known of it, and of those beside it.
        secrets: Vec<Facts>,
    },
    /// Made earlier, and not fit to sign with, or gone meanwhile.
    Unusable {
        /// Why not.
        problem: String,
        /// What to do about it.
        mend: String,
    },
}

/// What was done with one event type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The event type.
    pub event_type: String,
    /// What was done.
    pub done: Done,
    /// The changes, in words.
    pub changes: Vec<String>,
    /// Whether webhooks are sent.
    pub enabled: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
}

/// What was done with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Done {
    /// It was not there.
    Created,
    /// It was changed.
    Changed,
    /// It was so already.
    Unchanged,
}

impl SecretState {
    /// Whether it was made just now.
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }
}

impl Report for Subscribed {
    fn exit(&self) -> Exit {
        let unusable = matches!(self.secret, SecretState::Unusable { .. });
        if self.error.is_some() || unusable {
            Exit::Failed
        } else {
            Exit::Done
        }
    }
}

impl Display for Subscribed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let id = &self.subscriber_id;
        let is_unchanged = self.rows.iter().all(|row| row.done == Done::Unchanged);
        if self.error.is_none() && is_unchanged && !self.secret.is_new() {
            writeln!(f, "Nothing was changed: {id} is subscribed so already.")?;
        }
        for row in &self.rows {
            write!(f, "{id}  {}: {}", safe(&row.event_type), row.done.word())?;
            if !row.changes.is_empty() {
                write!(f, ", {}", safe(&row.changes.join(", ")))?;
            }
            if !row.enabled {
                let reason = row.disabled_reason.as_deref().map(safe);
                let reason = reason.map_or(String::new(), |reason| format!(" ({reason})"));
                write!(
                    f,
                    "; still disabled{reason}, enable it by `webhooks enable {id} --event {}`",
                    safe(&row.event_type)
                )?;
            }
            writeln!(f)?;
        }
        if let Some(error) = &self.error {
            writeln!(
                f,
                "{id}  not subscribed to {}: {}",
                safe(&self.not_reached.join(", ")),
                safe(error)
            )?;
        }
        self.for_the_partner(f)
    }
}

impl Subscribed {
    fn for_the_partner(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let id = &self.subscriber_id;
        let events: Vec<&str> = self
            .rows
            .iter()
            .map(|row| row.event_type.as_str())
            .collect();
        let (name, text) = match &self.secret {
            SecretState::New(handover) => {
                let (name, text) = handover.line();
                writeln!(f, "\n{}\n", handover.heading(id))?;
                (name, text.to_owned())
            }
            SecretState::There { secrets } => {
                writeln!(f, "\nFor the partner:\n")?;
                match newest_active(secrets).and_then(|secret| secret.public_key.clone()) {
                    Some(key) => ("public key", key),
                    None => (
                        "secret",
                        format!(
                            "the one that it has already (`webhooks secret show {id} --reveal`)"
                        ),
                    ),
                }
            }
            SecretState::Unusable { problem, mend } => {
                let (problem, mend) = (safe(problem), safe(mend));
                return write!(f, "\nNothing can be signed: {problem}. {mend}.");
            }
        };
        write!(
            f,
            "  url          {}\n  events       {}\n  {name:<11}  {text}\n  verify with  any library \
             of https://www.standardwebhooks.com, over the raw body",
            safe(&self.url),
            safe(&events.join(", ")),
        )
    }
}

impl Done {
    fn word(self) -> &'static str {
        match self {
            Self::Created => "subscribed",
            Self::Changed => "changed",
            Self::Unchanged => "as it was",
        }
    }
}
