//! What a redrive found, did and left, as text and as data.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::{Serialize, Serializer};

use super::counts::{Counts, Kind};
use super::filter::Identity;
use super::held::HIDDEN_SECONDS;
use super::verdict::{Obstacle, Settled};
use crate::error::Exit;
use crate::grid::Grid;
use crate::output::{Report, safe};

/// Where a dead delivery is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub(crate) enum Source {
    #[serde(rename = "deadLetters")]
    Letter,
    #[serde(rename = "records")]
    Record,
}

impl Kind for Source {
    const ALL: &'static [Self] = &[Self::Letter, Self::Record];
}

/// What is, or was, to be sent, by subscription.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Planned(BTreeMap<(String, String), Counts<Source>>);

impl Planned {
    pub(crate) fn add(&mut self, delivery: &Identity, source: Source) {
        let key = (
            delivery.subscriber_id.to_string(),
            delivery.event_type.clone(),
        );
        self.0.entry(key).or_default().add(source);
    }

    pub(crate) fn sum(&self) -> Counts<Source> {
        let mut sum = Counts::default();
        for sources in self.0.values() {
            sum.add_all(sources);
        }
        sum
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
            sources: &'a Counts<Source>,
        }
        serializer.collect_seq(
            self.0
                .iter()
                .map(|((subscriber_id, event_type), sources)| Line {
                    subscriber_id,
                    event_type,
                    sources,
                }),
        )
    }
}

/// How many deliveries were left with what reason. Of a dry run, how many would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Left {
    /// They need nothing more; their dead letters are only deleted.
    pub nothing_to_do: Counts<Settled>,
    /// They can not be redriven.
    pub skipped: Counts<Obstacle>,
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
    pub(crate) planned: Counts<Source>,
    pub(crate) planned_by_subscription: Planned,
    pub(crate) redriven: Counts<Source>,
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
            + self.unmarked
            + usize::from(self.dead_letter_queue.more);
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
            write!(f, " ({})", from(&self.redriven))?;
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
        let mut grid = Grid::new(&["subscriber", "event type", "dead letters", "records"]);
        let counts = |sources: &Counts<Source>| {
            let counts: Vec<_> = sources.each().map(|(_, count)| count.to_string()).collect();
            counts
        };
        for ((subscriber_id, event_type), sources) in lines {
            let names = [subscriber_id.clone(), event_type.clone()];
            grid.push(names.into_iter().chain(counts(sources)));
        }
        let names = ["to redrive".to_owned(), String::new()];
        grid.push(names.into_iter().chain(counts(&self.planned)));
        grid.to_string()
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
            (self.not_reached, "Not reached and still dead"),
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
                "Messages of the dead-letter queue in other hands (another redrive, or one that was killed, or the SQS console), about",
            ),
        ];
        let lines = lines.map(|(count, what)| (safe(what), count));
        let settled = self.left.nothing_to_do.lines();
        settled
            .chain(self.left.skipped.lines())
            .chain(lines)
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{what}: {count}"))
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

fn from(sources: &Counts<Source>) -> String {
    format!(
        "{} from the dead-letter queue, {} from records",
        sources.of(Source::Letter),
        sources.of(Source::Record)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_done_and_what_was_not_is_told_in_lines() {
        let mut summary = Summary {
            refused: 1,
            refusal: Some("InvalidMessageContents: \u{1b}[2J".into()),
            undeleted: 2,
            ..Summary::default()
        };
        for _ in 0..11 {
            summary.redriven.add(Source::Letter);
        }
        summary.redriven.add(Source::Record);
        summary.left.nothing_to_do.add(Settled::Delivered);
        summary.left.skipped.add(Obstacle::Disabled);
        summary.dead_letter_queue.not_jobs = 3;
        assert_eq!(
            summary.to_string(),
            "\
Redriven: 12 deliveries (11 from the dead-letter queue, 1 from records).
Delivered meanwhile, nothing to do: 1
Not redriven, the subscription is disabled: 1
Refused by the jobs queue and still dead (InvalidMessageContents: \\u{1b}[2J): 1
Dead letters that could not be deleted; the next run does it: 2
Messages in the dead-letter queue that are not delivery jobs, left there: 3
Run it again to go on: what was redriven is not sent twice."
        );
        assert_eq!(summary.exit(), Exit::Failed);
        assert_eq!(Summary::default().to_string(), "Redriven: no delivery.");
    }

    #[test]
    fn as_data_every_kind_has_its_field() {
        let mut summary = Summary::default();
        summary.left.skipped.add(Obstacle::TooLarge);
        let data = serde_json::to_value(&summary).unwrap();
        assert_eq!(
            (&data["redriven"], &data["nothingToDo"], &data["skipped"]),
            (
                &json!({"deadLetters": 0, "records": 0}),
                &json!({"delivered": 0, "underWay": 0, "onItsWay": 0, "notDead": 0}),
                &json!({
                    "notSubscribed": 0, "disabled": 0, "brokenSubscription": 0,
                    "bodyOmitted": 0, "bodyUnreadable": 0, "tooLarge": 1,
                })
            )
        );
    }

    #[test]
    fn only_what_was_wanted_and_not_done_fails() {
        let exit = |change: fn(&mut Summary)| {
            let mut summary = Summary::default();
            change(&mut summary);
            summary.exit()
        };
        assert_eq!(exit(|_| {}), Exit::Done);
        assert_eq!(exit(|s| s.dead_letter_queue.not_jobs = 1), Exit::Done);
        let delivered = |s: &mut Summary| s.left.nothing_to_do.add(Settled::Delivered);
        assert_eq!(exit(delivered), Exit::Done);
        let not_subscribed = |s: &mut Summary| s.left.skipped.add(Obstacle::NotSubscribed);
        assert_eq!(exit(not_subscribed), Exit::Failed);
        assert_eq!(exit(|s| s.dead_letter_queue.more = true), Exit::Failed);
        assert_eq!(exit(|s| s.not_reached = 1), Exit::Failed);
        assert_eq!(exit(|s| s.unmarked = 1), Exit::Failed);
        assert_eq!(exit(|s| s.declined = true), Exit::Failed);
        assert_eq!(exit(|s| s.error = Some(String::new())), Exit::Failed);
        assert_eq!(exit(|s| s.interrupted = true), Exit::Interrupted);
        let dry_run = |s: &mut Summary| {
            s.dry_run = true;
            s.left.skipped.add(Obstacle::NotSubscribed);
            s.dead_letter_queue.more = true;
        };
        assert_eq!(exit(dry_run), Exit::Done);
    }
}
