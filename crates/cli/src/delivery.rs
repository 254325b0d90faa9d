//! A delivery record as people ask about it. Rows can be broken or written by hand: whatever is
//! not as it should be is left out and said, and never ends a command.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use webhooks_core::record::{Entry, State};
use webhooks_shell::records::{self, Item, text};

use crate::moment::Time;

/// What is known of a delivery, but for its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// Its identity.
    pub webhook_id: String,
    /// Whom it is for.
    pub subscriber_id: Option<String>,
    /// The type of its event.
    pub event_type: Option<String>,
    /// The event's id.
    pub event_id: Option<String>,
    /// When the event occurred, as its publisher says.
    pub occurred_at: Option<String>,
    /// What people look for it by, such as the order's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// How it stands: the word in the table.
    pub state: String,
    /// Attempts made in its current run, or its last.
    pub attempts: u32,
    /// When the run began.
    pub started_at: Option<Time>,
    /// When it was first tried.
    pub created_at: Option<Time>,
    /// When the record was last changed.
    pub updated_at: Option<Time>,
    /// Not before this the next attempt is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
    /// Why it is dead: the word of a [`DeadReason`](webhooks_core::DeadReason).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_reason: Option<String>,
    /// When it was last redriven by `webhooks redrive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redriven_at: Option<Time>,
    /// The SQS message of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// When the record is forgotten.
    pub expires_at: Option<Time>,
    /// Whether the payload of a dead delivery was too large to be kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub body_omitted: bool,
    /// Whether earlier entries of the history were dropped, as the record had become too large.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub history_cut: bool,
    /// What happened, oldest first.
    pub history: Vec<Step>,
}

/// One entry of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Which run it belongs to, from 1; each redrive starts one.
    pub run: u32,
    /// The number of the attempt in its run; for a fault of ours, of the one it prevented.
    pub n: u32,
    /// When it ended.
    pub at: Time,
    /// What came of it.
    pub outcome: String,
    /// The status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the answer took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the next attempt was planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
}

impl Delivery {
    /// Reads a row. What is odd about it is added to `odd`, in words. One whose time to live has
    /// passed is none, as DynamoDB may take days to delete it.
    #[must_use]
    pub fn read(item: &Item, now: SystemTime, odd: &mut Vec<String>) -> Option<Self> {
        if records::has_expired(item, now) {
            return None;
        }
        let webhook_id = text(item, "webhookId")?.to_owned();
        let mut oddities = Oddities {
            webhook_id: &webhook_id,
            item,
            odd,
        };
        let state = oddities.text("state", true).unwrap_or_else(|| "?".into());
        if state != "?" && State::by_name(&state).is_none() {
            oddities.say(&format!("state `{state}` is not known here"));
        }
        Some(Self {
            subscriber_id: oddities.text("subscriberId", true),
            event_type: oddities.text("eventType", true),
            event_id: oddities.text("eventId", true),
            occurred_at: oddities.text("occurredAt", true),
            reference: oddities.text("reference", false),
            state,
            attempts: oddities.number("attempts").unwrap_or(0),
            started_at: oddities.time("startedAt", true),
            created_at: oddities.time("createdAt", true),
            updated_at: oddities.time("updatedAt", true),
            next_at: oddities.time("nextAt", false),
            dead_reason: oddities.text("deadReason", false),
            redriven_at: oddities.time("redrivenAt", false),
            message_id: oddities.text("messageId", false),
            expires_at: oddities.expiry(),
            body_omitted: oddities.flag("bodyOmitted"),
            history_cut: oddities.flag("historyCut"),
            history: oddities.history(),
            webhook_id,
        })
    }

    /// How it stands, if the word for it is known.
    #[must_use]
    pub fn known_state(&self) -> Option<State> {
        State::by_name(&self.state)
    }
}

impl Step {
    /// Whether there was an attempt, and not only the wish for one.
    #[must_use]
    pub fn is_attempt(&self) -> bool {
        !matches!(self.outcome.as_str(), "fault" | "dropped")
    }

    /// Whether the receiver has taken the delivery.
    #[must_use]
    pub fn is_delivered(&self) -> bool {
        self.outcome == "delivered"
    }

    /// Whether nothing of the same run can come after it.
    fn ends_run(&self) -> bool {
        matches!(
            self.outcome.as_str(),
            "delivered" | "gone" | "dead" | "dropped"
        )
    }

    fn of(entry: Entry) -> Self {
        Self {
            run: 1,
            n: entry.n,
            at: Time::new(entry.at),
            outcome: entry.outcome,
            status: entry.status,
            ms: entry.ms,
            error: entry.error,
            next_at: entry.next_at.map(Time::new),
        }
    }
}

/// Numbers the runs: one begins where the last has ended, or where attempts count from 1 again.
fn number_runs(history: &mut [Step]) {
    let mut run = 1;
    let mut last: Option<(u32, bool)> = None;
    for step in history {
        if last.is_some_and(|(n, has_ended)| has_ended || step.n < n) {
            run += 1;
        }
        step.run = run;
        last = Some((step.n, step.ends_run()));
    }
}

/// A row, and the list of what is odd about it.
struct Oddities<'a> {
    webhook_id: &'a str,
    item: &'a Item,
    odd: &'a mut Vec<String>,
}

impl Oddities<'_> {
    fn say(&mut self, what: &str) {
        self.odd.push(format!("{}: {what}", self.webhook_id));
    }

    fn text(&mut self, name: &str, expected: bool) -> Option<String> {
        let found = text(self.item, name).map(str::to_owned);
        if found.is_none() {
            self.say_unless_absent(name, expected, "a text");
        }
        found
    }

    fn number(&mut self, name: &str) -> Option<u32> {
        let found = records::number(self.item, name);
        if found.is_none() {
            self.say_unless_absent(name, true, "a number that fits");
        }
        found
    }

    fn time(&mut self, name: &str, expected: bool) -> Option<Time> {
        let found = records::time(self.item, name).map(Time::new);
        if found.is_none() {
            self.say_unless_absent(name, expected, "a time");
        }
        found
    }

    fn expiry(&mut self) -> Option<Time> {
        let seconds = records::number(self.item, "expiresAt");
        let time = seconds
            .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        if time.is_none() {
            self.say_unless_absent("expiresAt", false, "a time in seconds since 1970");
        }
        time.map(Time::new)
    }

    fn flag(&self, name: &str) -> bool {
        self.item
            .get(name)
            .and_then(|value| value.as_bool().ok())
            .copied()
            .unwrap_or(false)
    }

    fn history(&mut self) -> Vec<Step> {
        let expected = match self.item.get("history") {
            Some(value) => value.as_l().map_or(usize::MAX, Vec::len),
            None => 0,
        };
        let history = records::history(self.item);
        let mut history: Vec<Step> = history.into_iter().map(Step::of).collect();
        number_runs(&mut history);
        if expected == usize::MAX {
            self.say("`history` is not a list");
        } else if history.len() < expected {
            let unread = expected - history.len();
            self.say(&format!(
                "{unread} of {expected} entries of `history` can not be read"
            ));
        }
        history
    }

    fn say_unless_absent(&mut self, name: &str, expected: bool, what: &str) {
        if self.item.contains_key(name) {
            self.say(&format!("`{name}` is not {what}"));
        } else if expected {
            self.say(&format!("`{name}` is missing"));
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;

    fn s(text: &str) -> AttributeValue {
        AttributeValue::S(text.into())
    }

    fn n(number: &str) -> AttributeValue {
        AttributeValue::N(number.into())
    }

    fn item(attributes: &[(&str, AttributeValue)]) -> Item {
        let attributes = attributes.iter().cloned();
        attributes
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    #[test]
    fn a_row_is_read_with_what_is_odd_about_it() {
        let entry = |at| {
            AttributeValue::M(item(&[
                ("n", n("1")),
                ("at", s(at)),
                ("outcome", s("retry")),
            ]))
        };
        let row = item(&[
            ("webhookId", s("msg_1_a")),
            ("subscriberId", s("a")),
            ("eventType", s("OrderPaid")),
            ("eventId", n("1")),
            ("occurredAt", s("2026-11-30T12:00:00Z")),
            ("state", s("asleep")),
            ("attempts", n("-1")),
            ("startedAt", s("2026-11-30T12:00:00.000Z")),
            ("createdAt", s("yesterday")),
            ("expiresAt", n("99999999999999999999")),
            (
                "history",
                AttributeValue::L(vec![
                    entry("2026-11-30T12:00:00.000Z"),
                    entry("yesterday"),
                    s("delivered"),
                ]),
            ),
        ]);
        let mut odd = Vec::new();
        let delivery = Delivery::read(&row, SystemTime::UNIX_EPOCH, &mut odd).unwrap();
        assert_eq!(
            odd,
            [
                "msg_1_a: state `asleep` is not known here",
                "msg_1_a: `eventId` is not a text",
                "msg_1_a: `attempts` is not a number that fits",
                "msg_1_a: `createdAt` is not a time",
                "msg_1_a: `updatedAt` is missing",
                "msg_1_a: `expiresAt` is not a time in seconds since 1970",
                "msg_1_a: 2 of 3 entries of `history` can not be read",
            ]
        );
        assert_eq!(delivery.state, "asleep");
        assert_eq!(delivery.attempts, 0);
        assert_eq!(delivery.history.len(), 1);
    }

    #[test]
    fn a_run_begins_where_the_last_has_ended_or_numbers_start_again() {
        let steps = [
            (1, "retry"),
            (2, "fault"),
            (2, "retry"),
            (2, "retry"),
            (3, "dead"),
            (1, "dropped"),
            (1, "retry"),
            (2, "retry"),
            (1, "delivered"),
        ];
        let mut history = steps.map(|(n, outcome)| Step {
            run: 0,
            n,
            at: Time::new(SystemTime::UNIX_EPOCH),
            outcome: outcome.into(),
            status: None,
            ms: None,
            error: None,
            next_at: None,
        });
        number_runs(&mut history);
        assert_eq!(history.map(|step| step.run), [1, 1, 1, 1, 1, 2, 3, 3, 4]);
    }

    #[test]
    fn what_is_past_its_time_to_live_is_none() {
        let row = item(&[("webhookId", s("m")), ("expiresAt", n("100"))]);
        let at = |seconds| {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            Delivery::read(&row, now, &mut Vec::new())
        };
        assert!(at(99).is_some());
        assert_eq!(at(100), None);
    }
}
