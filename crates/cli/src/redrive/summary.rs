//! What a redrive found, did and left, as text and as data.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::{Serialize, Serializer};

use super::filter::Identity;
use super::letters::HIDDEN_SECONDS;
use super::verdict::{Obstacle, Settled};
use crate::error::Exit;
use crate::output::{Report, safe};

/// Where a dead delivery is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Letter,
    Record,
}

/// Deliveries by where they are taken from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sources {
    pub dead_letters: usize,
    pub records: usize,
}

impl Sources {
    pub(crate) fn add(&mut self, source: Source) {
        match source {
            Source::Letter => self.dead_letters += 1,
            Source::Record => self.records += 1,
        }
    }

    pub(crate) fn total(self) -> usize {
        self.dead_letters + self.records
    }
}

/// What is, or was, to be sent, by subscription.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Planned(BTreeMap<(String, String), Sources>);

impl Planned {
    pub(crate) fn add(&mut self, delivery: &Identity, source: Source) {
        let key = (
            delivery.subscriber_id.to_string(),
            delivery.event_type.clone(),
        );
        self.0.entry(key).or_default().add(source);
    }

    pub(crate) fn sum(&self) -> Sources {
        self.0
            .values()
            .fold(Sources::default(), |sum, line| Sources {
                dead_letters: sum.dead_letters + line.dead_letters,
                records: sum.records + line.records,
            })
    }
}

impl Serialize for Planned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Line<'a> {
            subscriber_id: &'a str,
            event_type: &'a str,
            #[serde(flatten)]
            sources: Sources,
        }
        serializer.collect_seq(
            self.0
                .iter()
                .map(|((subscriber_id, event_type), sources)| Line {
                    subscriber_id,
                    event_type,
                    sources: *sources,
                }),
        )
    }
}

/// Deliveries that need nothing more; their dead letters are only deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NothingToDo {
    pub delivered: usize,
    pub under_way: usize,
    pub on_its_way: usize,
    pub not_dead: usize,
}

impl NothingToDo {
    pub(crate) fn add(&mut self, settled: Settled) {
        *match settled {
            Settled::Delivered => &mut self.delivered,
            Settled::UnderWay => &mut self.under_way,
            Settled::OnItsWay => &mut self.on_its_way,
            Settled::NotDead => &mut self.not_dead,
        } += 1;
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            delivered: self.delivered + other.delivered,
            under_way: self.under_way + other.under_way,
            on_its_way: self.on_its_way + other.on_its_way,
            not_dead: self.not_dead + other.not_dead,
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.lines().iter().map(|(count, _)| count).sum()
    }

    fn lines(&self) -> [(usize, &'static str); 4] {
        [
            (self.delivered, "Delivered meanwhile, nothing to do"),
            (self.under_way, "Being retried already, nothing to do"),
            (self.on_its_way, "Just redriven, nothing to do"),
            (self.not_dead, "Not dead any more, nothing to do"),
        ]
    }
}

/// Deliveries that can not be redriven.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Skipped {
    pub not_subscribed: usize,
    pub switched_off: usize,
    pub broken_subscription: usize,
    pub body_omitted: usize,
    pub body_unreadable: usize,
    pub too_large: usize,
}

impl Skipped {
    pub(crate) fn add(&mut self, obstacle: Obstacle) {
        *match obstacle {
            Obstacle::NotSubscribed => &mut self.not_subscribed,
            Obstacle::SwitchedOff => &mut self.switched_off,
            Obstacle::BrokenSubscription => &mut self.broken_subscription,
            Obstacle::BodyOmitted => &mut self.body_omitted,
            Obstacle::BodyUnreadable => &mut self.body_unreadable,
            Obstacle::TooLarge => &mut self.too_large,
        } += 1;
    }

    fn lines(&self) -> [(usize, &'static str); 6] {
        [
            (
                self.not_subscribed,
                "Not redriven, nobody is subscribed any more",
            ),
            (
                self.switched_off,
                "Not redriven, the subscription is switched off",
            ),
            (
                self.broken_subscription,
                "Not redriven, the row in the subscriptions table is broken",
            ),
            (
                self.body_omitted,
                "Not redriven, only the dead-letter queue had the payload: it was too large for the record",
            ),
            (
                self.body_unreadable,
                "Not redriven, the record has no payload that can be read",
            ),
            (
                self.too_large,
                "Not redriven, the job would be larger than SQS takes",
            ),
        ]
    }

    fn total(&self) -> usize {
        self.lines().iter().map(|(count, _)| count).sum()
    }
}

/// How many deliveries were left with what reason. Of a dry run, how many would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Left {
    pub nothing_to_do: NothingToDo,
    pub skipped: Skipped,
}

/// What there was in the dead-letter queue beside what is meant, in messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Others {
    /// Delivery jobs that the options do not mean.
    pub not_meant: usize,
    /// What is not a delivery job.
    pub not_jobs: usize,
    /// About how many somebody else has in hand.
    pub elsewhere: usize,
    /// Whether there were more than one run takes.
    pub more: bool,
}

/// What the command gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub(crate) dry_run: bool,
    pub(crate) interrupted: bool,
    /// The answer to the question was no.
    pub(crate) declined: bool,
    /// Why it ended early.
    pub(crate) error: Option<String>,
    pub(crate) planned: Sources,
    pub(crate) planned_by_subscription: Planned,
    pub(crate) redriven: Sources,
    #[serde(flatten)]
    pub(crate) left: Left,
    /// What SQS did not take, in deliveries.
    pub(crate) refused: usize,
    /// Its reason, the last one.
    pub(crate) refusal: Option<String>,
    /// What was planned and not come to.
    pub(crate) not_reached: usize,
    /// Dead letters that were to be deleted and are still there.
    pub(crate) undeleted: usize,
    /// Messages that stay hidden until their time is over.
    pub(crate) still_hidden: usize,
    /// Deliveries that were redriven and could not be marked as such.
    pub(crate) unmarked: usize,
    pub(crate) dead_letter_queue: Others,
}

impl Report for Summary {
    fn exit(&self) -> Exit {
        let incomplete = self.left.skipped.total()
            + self.refused
            + self.not_reached
            + self.undeleted
            + self.unmarked;
        if self.interrupted {
            Exit::Interrupted
        } else if self.error.is_some() || self.declined || (!self.dry_run && incomplete > 0) {
            Exit::Failed
        } else {
            Exit::Done
        }
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.dry_run {
            f.write_str(&self.preview())?;
            return f.write_str("\nThis was a dry run: nothing was changed.");
        }
        let redriven = self.redriven.total();
        write!(f, "Redriven: {}", deliveries(redriven))?;
        if redriven > 0 {
            write!(f, " ({})", from(self.redriven))?;
        }
        f.write_str(".")?;
        for line in self.remainder() {
            write!(f, "\n{line}")?;
        }
        if self.declined {
            f.write_str("\nNothing was changed.")?;
        }
        if let Some(error) = &self.error {
            write!(f, "\nEnded early: {}", safe(error))?;
        }
        let resumable = self.interrupted || self.error.is_some() || self.refused > 0;
        if self.dead_letter_queue.more {
            f.write_str("\nThere are more in the dead-letter queue than one run takes.")?;
        }
        if resumable || self.undeleted > 0 || self.dead_letter_queue.more {
            f.write_str("\nRun it again to go on: what was redriven is not sent twice.")?;
        }
        Ok(())
    }
}

impl Summary {
    /// What is going to happen.
    pub(crate) fn preview(&self) -> String {
        let mut text = self.table();
        for line in self.remainder() {
            text.push('\n');
            text.push_str(&line);
        }
        text
    }

    fn table(&self) -> String {
        let lines = &self.planned_by_subscription.0;
        if lines.is_empty() {
            return "Nothing to redrive.".into();
        }
        let mut rows = vec![[
            "subscriber".to_owned(),
            "event type".to_owned(),
            "dead letters".to_owned(),
            "records".to_owned(),
        ]];
        rows.extend(lines.iter().map(|((subscriber_id, event_type), sources)| {
            [
                safe(subscriber_id),
                safe(event_type),
                sources.dead_letters.to_string(),
                sources.records.to_string(),
            ]
        }));
        rows.push([
            "to redrive".to_owned(),
            String::new(),
            self.planned.dead_letters.to_string(),
            self.planned.records.to_string(),
        ]);
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let (first, second, third, fourth) = (width(0), width(1), width(2), width(3));
        let rows = rows.iter().map(|[subscriber, event_type, letters, records]| {
            format!(
                "{subscriber:first$}  {event_type:second$}  {letters:>third$}  {records:>fourth$}"
            )
        });
        rows.collect::<Vec<_>>().join("\n")
    }

    /// A line for everything that is not, or was not, sent.
    fn remainder(&self) -> Vec<String> {
        let queue = &self.dead_letter_queue;
        let refusal = self.refusal.as_deref().unwrap_or("no reason given");
        let refused = format!("Refused by the jobs queue and still dead ({refusal})");
        let still_hidden = format!(
            "Messages of the dead-letter queue that come back only in {} minutes",
            HIDDEN_SECONDS / 60
        );
        let lines = [
            (self.not_reached, "Not come to and still dead"),
            (self.refused, &refused),
            (self.unmarked, "Redriven, but not marked so in the record"),
            (
                self.undeleted,
                "Dead letters that could not be deleted; the next run does it",
            ),
            (self.still_hidden, &still_hidden),
            (
                queue.not_meant,
                "Other deliveries in the dead-letter queue, left there",
            ),
            (
                queue.not_jobs,
                "Messages in the dead-letter queue that are not delivery jobs, left there",
            ),
            (
                queue.elsewhere,
                "Messages of the dead-letter queue in other hands (another redrive, the SQS console), about",
            ),
        ];
        let settled = self.left.nothing_to_do.lines();
        let skipped = self.left.skipped.lines();
        settled
            .into_iter()
            .chain(skipped)
            .chain(lines)
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{}: {count}", safe(what)))
            .collect()
    }
}

/// `12 deliveries`.
pub(crate) fn deliveries(count: usize) -> String {
    match count {
        0 => "no delivery".into(),
        1 => "1 delivery".into(),
        count => format!("{count} deliveries"),
    }
}

fn from(sources: Sources) -> String {
    format!(
        "{} from the dead-letter queue, {} from records",
        sources.dead_letters, sources.records
    )
}
