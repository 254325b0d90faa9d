//! What came of pings, in words.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;
use webhooks_core::Outcome;
use webhooks_core::policy::{RetryPolicy, Treatment};

use crate::error::Exit;
use crate::output::{Report, safe};
use crate::schedule::ordinal;

/// What came of the pings to a subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pings {
    /// Who was sent them.
    pub subscriber_id: String,
    /// One for each url.
    pub answers: Vec<Answer>,
}

/// What came of one ping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Where it went, without what may be secret.
    pub url: String,
    /// The id that it had; none if nothing was sent.
    pub webhook_id: Option<String>,
    /// The types of events that go there.
    pub event_types: Vec<String>,
    /// Those of them that are disabled at the moment.
    pub disabled: Vec<String>,
    /// `delivered`, `gone`, `retry`, `blocked`, or `unsent` if the row is broken.
    pub outcome: &'static str,
    /// The status of the answer.
    pub status: Option<u16>,
    /// How long it took until the status line, or until it failed.
    pub ms: Option<u64>,
    /// What it would mean for a webhook.
    pub meaning: String,
    /// What went wrong, if there was no answer.
    pub error: Option<String>,
    /// The first line of the answer's body, if there is one.
    pub answer: Option<String>,
    /// Whether the answer was read to its end, so that it is known what it says.
    pub answer_read: bool,
}

/// What an outcome means for a webhook under this policy.
pub(super) fn meaning(outcome: &Outcome, policy: &RetryPolicy) -> String {
    match outcome {
        Outcome::Delivered { .. } => "a webhook would be delivered".to_owned(),
        Outcome::Gone => {
            "a webhook with this answer would disable the subscription; a ping changes \
                          nothing"
                .to_owned()
        }
        Outcome::Blocked(_) => {
            "nothing was sent: webhooks would be retried until the url is mended \
                                or their attempts are used up"
                .to_owned()
        }
        Outcome::Fault(_) => "a webhook would be retried".to_owned(),
        Outcome::Retry {
            failure,
            retry_after,
        } => {
            let name = policy.name;
            let mut words = match policy.treatment(*failure) {
                Treatment::Retry => format!(
                    "a webhook would be retried, {} attempts in all at most ({name})",
                    policy.attempts
                ),
                Treatment::AtMost(times) => {
                    format!(
                        "a webhook would be given up at the {} such answer ({name})",
                        ordinal(times)
                    )
                }
                Treatment::Dead => format!("a webhook would be given up at once ({name})"),
            };
            if retry_after.is_some() && !matches!(policy.treatment(*failure), Treatment::Dead) {
                words += ", not before Retry-After";
            }
            words
        }
    }
}

/// What a broken row means for the events of its type: dispatch makes webhooks all the same if it is
/// only the headers that are broken, which deliver reads.
pub(super) fn meaning_of_broken(makes_webhooks: bool) -> &'static str {
    if makes_webhooks {
        "webhooks are made of events of this type, and fail until the row is mended"
    } else {
        "no webhook is made of events of this type"
    }
}

impl Report for Pings {
    fn exit(&self) -> Exit {
        if self
            .answers
            .iter()
            .all(|answer| answer.outcome == "delivered")
        {
            Exit::Done
        } else {
            Exit::Failed
        }
    }
}

impl Display for Pings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, answer) in self.answers.iter().enumerate() {
            if number > 0 {
                f.write_str("\n\n")?;
            }
            answer.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for Answer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let url = if self.url.is_empty() {
            "no url"
        } else {
            &safe(&self.url)
        };
        writeln!(f, "{url}  ({})", safe(&self.event_types.join(", ")))?;
        if !self.disabled.is_empty() {
            writeln!(f, "  disabled for {}", safe(&self.disabled.join(", ")))?;
        }
        let ms = self
            .ms
            .map_or(String::new(), |ms| format!(" after {ms} ms"));
        match (self.status, self.error.as_deref().map(safe)) {
            (Some(status), _) => writeln!(f, "  {status}{ms}: {}", self.meaning)?,
            (None, Some(error)) => {
                writeln!(f, "  no answer{ms}: {error}")?;
                writeln!(f, "  {}", self.meaning)?;
            }
            (None, None) => writeln!(f, "  no answer{ms}: {}", self.meaning)?,
        }
        match &self.answer {
            Some(line) => write!(f, "  it said: {}", safe(line)),
            None if self.answer_read => write!(f, "  it said nothing"),
            None if self.status.is_some() => write!(f, "  its answer was not read"),
            None => write!(f, "  nothing came back"),
        }
    }
}
