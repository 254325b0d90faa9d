//! `webhooks stats`: how each partner fares, and who is in trouble.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::ops::ControlFlow;
use std::time::SystemTime;

use clap::Args;
use serde::Serialize;
use webhooks_core::identity::SubscriberId;
use webhooks_core::policy::JOB_RETENTION;

use crate::args::subscriber_id;
use crate::delivery::Delivery;
use crate::error::Error;
use crate::grid::Grid;
use crate::moment::{Moment, Period, Time};
use crate::output::{self, Report, safe};
use crate::stack::Stack;
use crate::tables::{Tables, about_each};
use crate::{Context, aws};

mod tally;
#[cfg(test)]
mod tests;

use tally::Tally;

/// Arguments of `stats`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Only this subscriber, also if it is not subscribed to anything any more; may be repeated
    /// [default: all who are subscribed to anything]
    #[arg(long, value_name = "SUBSCRIBER", value_parser = subscriber_id)]
    pub subscriber: Vec<SubscriberId>,

    /// Count what has changed since then: 30m, 2h, 7d (ago), or 2026-11-30T12:00:00Z. What waits
    /// is counted whenever it began
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse, default_value = "24h")]
    pub since: Moment,
}

/// What `stats` gives.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Deliveries are counted that have changed since then.
    pub since: Time,
    /// Whether the stack keeps a record of every delivery. If not, those that were delivered at
    /// once are missing from the counts.
    pub all_recorded: bool,
    /// Each partner, by name.
    pub partners: Vec<Partner>,
}

/// How a partner fares.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Partner {
    /// Its name.
    pub subscriber_id: String,
    /// Deliveries that have changed in the time asked for.
    pub deliveries: u64,
    /// Those that were delivered.
    pub delivered: u64,
    /// Those that died.
    pub dead: u64,
    /// Those that the receiver answered with 410.
    pub gone: u64,
    /// Those that were not sent, as the subscription was off or missing.
    pub dropped: u64,
    /// Delivered ones among those that were delivered, died or were answered with 410, from 0
    /// to 1; nothing if there are none.
    pub success_rate: Option<f64>,
    /// Attempts of the delivered ones, in the mean.
    pub attempts_per_delivered: Option<f64>,
    /// Deliveries that wait for another attempt now.
    pub waiting: u64,
    /// The one that has been under way longest.
    pub oldest_waiting: Option<Waiting>,
    /// The one with the most attempts: how far the backoff has got.
    pub furthest: Option<Stage>,
    /// When something was last delivered, as far as was looked back.
    pub last_delivered_at: Option<Time>,
    /// Since when every attempt has failed, if the last ten have.
    pub failing_since: Option<Time>,
}

/// A delivery that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// Its identity.
    pub webhook_id: String,
    /// When its run began.
    pub since: Time,
}

/// How far a delivery has got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// Its identity.
    pub webhook_id: String,
    /// The number of its next attempt.
    pub attempt: u32,
    /// When that is due.
    pub next_at: Option<Time>,
}

/// Counts.
///
/// # Errors
/// If the tables can not be read.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Stats, Error> {
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let tables = Tables::new(&aws, &stack);
    let now = context.now;
    let since = arguments.since.at(now);
    let subscribers: BTreeSet<SubscriberId> = if arguments.subscriber.is_empty() {
        tables.subscribers().await?
    } else {
        arguments.subscriber.iter().cloned().collect()
    };
    let counted = about_each(subscribers, |subscriber| {
        let tables = tables.clone();
        async move { partner(&tables, subscriber, since, now).await }
    })
    .await?;
    let (mut partners, mut odd) = (Vec::new(), Vec::new());
    for (partner, said) in counted {
        partners.push(partner);
        odd.extend(said);
    }
    partners.sort_by(|a: &Partner, b| a.subscriber_id.cmp(&b.subscriber_id));
    output::notes(&odd);
    let all_recorded = stack.parameter("DeliveryLog") != Some("failures");
    if !all_recorded {
        output::note(
            "This stack keeps no record of what is delivered at once (DeliveryLog: failures): it \
             is missing here, so that partners look worse than they are.",
        );
    }
    Ok(Stats {
        since: Time::new(since),
        all_recorded,
        partners,
    })
}

async fn partner(
    tables: &Tables,
    subscriber: SubscriberId,
    since: SystemTime,
    now: SystemTime,
) -> Result<(Partner, Vec<String>), Error> {
    // What waits is in the queue, which may have been held up: so far back is looked, however short
    // the time that is asked for.
    let waiting_since = now.checked_sub(JOB_RETENTION).unwrap_or(since);
    let period = Period {
        since: Some(since.min(waiting_since)),
        until: None,
    };
    let (mut tally, mut odd) = (Tally::since(since), Vec::new());
    tables
        .of_subscriber(&subscriber, period, |item| {
            if let Some(delivery) = Delivery::read(item, now, &mut odd) {
                tally.add(&delivery);
            }
            ControlFlow::Continue(())
        })
        .await?;
    Ok((tally.partner(subscriber.to_string()), odd))
}

impl Report for Stats {}

impl Display for Stats {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.partners.is_empty() {
            return f.write_str("Nobody is subscribed to anything.");
        }
        writeln!(f, "Since {}\n", self.since)?;
        let mut grid = Grid::new(&[
            "subscriber",
            "deliveries",
            "delivered",
            "success",
            "attempts each",
            "dead",
            "gone",
            "dropped",
            "waiting",
            "oldest since",
            "furthest attempt",
        ]);
        for partner in &self.partners {
            grid.push(partner.cells());
        }
        grid.fmt(f)?;
        let failing = self
            .partners
            .iter()
            .filter_map(|partner| partner.warning(self.all_recorded));
        for (number, warning) in failing.enumerate() {
            write!(f, "{}{warning}", if number == 0 { "\n\n" } else { "\n" })?;
        }
        Ok(())
    }
}

impl Partner {
    fn cells(&self) -> [String; 11] {
        let or_nothing = Option::unwrap_or_default;
        [
            self.subscriber_id.clone(),
            self.deliveries.to_string(),
            self.delivered.to_string(),
            self.success(),
            or_nothing(self.attempts_per_delivered.map(|mean| format!("{mean:.2}"))),
            self.dead.to_string(),
            self.gone.to_string(),
            self.dropped.to_string(),
            self.waiting.to_string(),
            or_nothing(self.oldest_waiting.as_ref().map(|it| it.since.to_string())),
            or_nothing(self.furthest.as_ref().map(|stage| match stage.next_at {
                Some(time) => format!("{} at {time}", stage.attempt),
                None => stage.attempt.to_string(),
            })),
        ]
    }

    /// In percent, cut off and not rounded, so that only what has never failed is 100 %.
    fn success(&self) -> String {
        let ended = self.delivered + self.dead + self.gone;
        match (self.delivered * 1000).checked_div(ended) {
            Some(permille) => format!("{}.{} %", permille / 10, permille % 10),
            None => String::new(),
        }
    }

    fn warning(&self, all_recorded: bool) -> Option<String> {
        let since = self.failing_since?;
        let last = match self.last_delivered_at {
            Some(time) => format!("; last delivered at {time}"),
            None => String::new(),
        };
        Some(format!(
            "Warning: {}: the last ten attempts{} all failed, the first of them at {since}{last}.",
            safe(&self.subscriber_id),
            if all_recorded {
                ""
            } else {
                " of those recorded"
            },
        ))
    }
}
