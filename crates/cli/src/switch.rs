//! Subscriptions are switched on and off: what `enable` and `disable` have in common.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;
use webhooks_core::identity::SubscriberId;

use crate::error::{Error, Exit};
use crate::output::{Report, safe};
use crate::subscriptions::{Change, Entry, Subscriptions};

/// What `enable` and `disable` give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Switched {
    /// Who it is.
    pub subscriber_id: String,
    /// Whether they were to be enabled.
    pub enabled: bool,
    /// The event types that were switched.
    pub switched: Vec<String>,
    /// Those that were so already.
    pub unchanged: Vec<String>,
    /// Those that are not as they should be.
    pub not_reached: Vec<String>,
    /// Why not.
    pub error: Option<String>,
}

/// Switches the rows that are not so already.
///
/// # Errors
/// If nothing could be done.
pub(crate) async fn switch(
    subscriptions: &Subscriptions,
    subscriber: &SubscriberId,
    entries: &[Entry],
    enabled: bool,
    change: &Change,
) -> Result<Switched, Error> {
    let mut done = Switched {
        subscriber_id: subscriber.to_string(),
        enabled,
        switched: Vec::new(),
        unchanged: Vec::new(),
        not_reached: Vec::new(),
        error: None,
    };
    let mut failed = None;
    for entry in entries {
        let event_type = entry.event_type.clone();
        if failed.is_some() {
            done.not_reached.push(event_type);
        } else if entry.enabled == Some(enabled) {
            done.unchanged.push(event_type);
        } else {
            let id = subscriber.as_str();
            let written = subscriptions.write(&event_type, id, Some(entry), change);
            match written.await {
                Ok(()) => done.switched.push(event_type),
                Err(error) => {
                    done.not_reached.push(event_type);
                    failed = Some(error);
                }
            }
        }
    }
    match failed {
        Some(error) if done.switched.is_empty() => Err(error),
        Some(error) => {
            done.error = Some(error.to_string());
            Ok(done)
        }
        None => Ok(done),
    }
}

impl Report for Switched {
    fn exit(&self) -> Exit {
        match self.error {
            Some(_) => Exit::Failed,
            None => Exit::Done,
        }
    }
}

impl Display for Switched {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let word = if self.enabled { "enabled" } else { "disabled" };
        let mut lines = Vec::new();
        let mut line = |events: &[String], said: &str| {
            let events = safe(&events.join(", "));
            lines.push(format!("{}  {events}: {said}", self.subscriber_id));
        };
        if !self.switched.is_empty() {
            line(&self.switched, word);
        }
        if !self.unchanged.is_empty() {
            line(&self.unchanged, &format!("{word} already, left as it was"));
        }
        if let Some(error) = &self.error {
            line(&self.not_reached, &format!("not {word}: {}", safe(error)));
        }
        f.write_str(&lines.join("\n"))
    }
}
