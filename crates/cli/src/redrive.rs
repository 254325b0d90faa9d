//! `webhooks redrive`: dead deliveries go back to the jobs queue with a fresh budget.
//!
//! They are taken from the dead-letter queue, and from the delivery records where the queue does
//! not have them any more. Each is sent first, then marked as redriven in its record, then deleted
//! from the dead-letter queue. So a stop between two steps never loses a delivery: at worst it
//! leaves a copy, and the next run tells by the record that it is one.
//!
//! | module | |
//! |---|---|
//! | `filter` | which deliveries are meant |
//! | `letters`, `held` | receiving, hiding and deleting the messages of the dead-letter queue |
//! | `store` | reading records and subscriptions, marking a record |
//! | `verdict` | what a dead delivery is owed |
//! | `plan` | what there is to do, for the preview |
//! | `work` | doing it |
//! | `rebuild` | a job made from a record |
//! | `jobs` | sending jobs |
//! | `counts` | how many of what |
//! | `summary` | what is told of it |
//! | `stop` | Ctrl-C |

use std::collections::HashSet;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser as NonEmpty;
use indicatif::{ProgressBar, ProgressStyle};
use webhooks_core::identity::{SubscriberId, is_webhook_id};

use crate::args::subscriber_id;
use crate::error::Error;
use crate::moment::{Moment, Period};
use crate::output;
use crate::stack::Stack;
use crate::tables::Tables;
use crate::{Context, aws, confirm};

mod counts;
mod filter;
mod held;
mod jobs;
mod letters;
mod plan;
mod rebuild;
mod stop;
mod store;
mod summary;
mod verdict;
mod work;

use filter::Filter;
use jobs::Jobs;
use letters::Letters;
use plan::Plan;
use stop::Stop;
pub use summary::Summary;
use summary::deliveries;
use work::Worker;

/// The options.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only deliveries to this subscriber
    #[arg(long, value_name = "ID", value_parser = subscriber_id)]
    subscriber: Option<SubscriberId>,

    /// Only deliveries of this event type
    #[arg(long, value_name = "TYPE", value_parser = NonEmpty::new())]
    event_type: Option<String>,

    /// Only deliveries with this reference, such as the order's number (template: ReferenceFields)
    #[arg(long, value_name = "VALUE", value_parser = NonEmpty::new())]
    reference: Option<String>,

    /// Only this delivery
    #[arg(long, value_name = "ID", value_parser = webhook_id)]
    webhook_id: Option<String>,

    /// Only events from then on: 30m, 2h, 7d (ago), or 2026-11-30T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    since: Option<Moment>,

    /// Only events before then
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    until: Option<Moment>,

    /// Where dead deliveries are looked for: in the dead-letter queue (dlq), in the delivery
    /// records of 30 days (records), or in both
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = Place::Both)]
    from: Place,

    /// Most deliveries per second
    #[arg(long, value_name = "NUMBER", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,

    /// Show what would be redriven, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask first
    #[arg(long, short)]
    yes: bool,
}

/// Where dead deliveries are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Place {
    Dlq,
    Records,
    // The queue, and the records of what it does not have.
    Both,
}

fn webhook_id(text: &str) -> Result<String, String> {
    let expected = "expected a webhook id, such as msg_6f1c1a5e-…_kasse-nord";
    is_webhook_id(text)
        .then(|| text.to_owned())
        .ok_or_else(|| expected.to_owned())
}

/// Redrives.
///
/// # Errors
/// If nothing could be done.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Summary, Error> {
    let filter = arguments.filter(context)?;
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let stop = Stop::listen();
    let tables = Tables::new(&aws, &stack);
    let jobs = Jobs::new(&aws, &stack.jobs_queue_url);
    letters::refuse_a_running_move(&aws, &stack.dead_letter_queue_url).await?;
    let letters = match arguments.from {
        Place::Dlq | Place::Both => Some(Letters::open(&aws, &stack.dead_letter_queue_url)),
        Place::Records => None,
    };
    let worker = Worker {
        tables,
        jobs,
        letters: letters.as_ref(),
        rate: arguments.rate,
        stop,
    };
    let result = redrive(arguments, &filter, &worker).await;
    drop(worker);
    // Whatever has happened, what is left in the dead-letter queue is shown again.
    let still_hidden = match letters {
        Some(letters) => letters.release().await,
        None => 0,
    };
    let mut summary = result?;
    summary.still_hidden = still_hidden;
    Ok(summary)
}

async fn redrive(
    arguments: &Arguments,
    filter: &Filter,
    worker: &Worker<'_>,
) -> Result<Summary, Error> {
    let plan = look(arguments, filter, worker).await?;
    if let Some(webhook_id) = &filter.webhook_id
        && plan.is_empty()
        && !worker.stop.is_asked_for()
    {
        let elsewhere = match plan.others.elsewhere {
            0 => String::new(),
            count => {
                format!("; messages of the dead-letter queue in other hands: about {count}")
            }
        };
        return Err(Error::NotFound(format!(
            "there is no dead delivery {webhook_id} that the options mean, `webhooks log \
             {webhook_id}` tells how it stands{elsewhere}"
        )));
    }
    let mut left = plan.left.clone();
    left.nothing_to_do.add_all(&plan.copies);
    let preview = Summary {
        dry_run: arguments.dry_run,
        interrupted: worker.stop.is_asked_for(),
        planned: plan.planned.sum(),
        planned_by_subscription: plan.planned.clone(),
        left,
        dead_letter_queue: plan.others,
        ..Summary::default()
    };
    if arguments.dry_run || preview.interrupted || plan.dead.is_empty() {
        let not_reached = if arguments.dry_run {
            0
        } else {
            plan.dead.len()
        };
        return Ok(Summary {
            not_reached,
            ..preview
        });
    }
    output::note(&preview.preview());
    if !arguments.yes && confirm::can_ask() && !agreed(&preview, &plan, &worker.stop).await {
        return Ok(Summary {
            interrupted: worker.stop.is_asked_for(),
            declined: !worker.stop.is_asked_for(),
            not_reached: plan.dead.len(),
            ..preview
        });
    }
    let summary = Summary {
        left: plan.left,
        ..preview
    };
    Ok(worker.work(plan.dead, summary).await)
}

/// Looks for what is meant. It can be interrupted, and then the plan is not complete.
async fn look(arguments: &Arguments, filter: &Filter, worker: &Worker<'_>) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(100));
    let result = async {
        let mut in_queue = HashSet::new();
        if let Some(letters) = worker.letters {
            bar.set_message("Reading the dead-letter queue");
            let progress = |count| {
                bar.set_message(format!("Reading the dead-letter queue: {count} messages"));
            };
            in_queue = plan
                .add_letters(letters, &worker.tables, filter, &worker.stop, progress)
                .await?;
        }
        if arguments.from != Place::Dlq && !worker.stop.is_asked_for() {
            bar.set_message("Reading the delivery records");
            plan.add_records(&in_queue, &worker.tables, filter, &worker.stop)
                .await?;
        }
        Ok(())
    }
    .await;
    bar.finish_and_clear();
    result.map(|()| plan)
}

/// Asks, and waits for the answer or for Ctrl-C.
async fn agreed(preview: &Summary, plan: &Plan, stop: &Stop) -> bool {
    let copies = plan.copies.total();
    let deleted = if copies > 0 {
        format!(", delete the dead letters of {copies} that need it no more")
    } else {
        String::new()
    };
    let question = format!("Redrive {}{deleted}?", deliveries(preview.planned.total()));
    tokio::select! {
        agreed = confirm::agreed(&question) => agreed,
        () = stop.asked_for() => false,
    }
}

/// The bar that shows how far the work is.
fn progress_bar(deliveries: usize) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(deliveries).unwrap_or(u64::MAX));
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} deliveries, {eta} to go");
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

impl Arguments {
    fn filter(&self, context: &Context) -> Result<Filter, Error> {
        Ok(Filter {
            webhook_id: self.webhook_id.clone(),
            subscriber_id: self.subscriber.clone(),
            event_type: self.event_type.clone(),
            reference: self.reference.clone(),
            period: Period::new(self.since, self.until, context.now)?,
        })
    }
}
