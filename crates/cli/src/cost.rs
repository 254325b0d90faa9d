//! `webhooks cost`: what AWS asks for a volume of webhooks. It is a model and needs no access to
//! AWS: `model` counts what is taken, `prices` says what that costs.

mod amount;
mod limits;
mod model;
mod prices;
mod text;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Map, Value};
use webhooks_core::calls::{self, Calls};
use webhooks_core::policy::{self, HEADROOM, RetryPolicy};

use crate::error::Error;
use crate::output::Report;
use crate::{Context, schedule};
use model::{Bill, Line, Volume};
use prices::Price;

const MILLION: f64 = 1_000_000.0;

/// Arguments of `cost`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Events in a month, such as 250k, 1M or 1_000_000
    #[arg(long, value_name = "NUMBER", default_value = "1M", value_parser = amount::count)]
    pub events: u64,

    /// Subscribers of each event, such as 3 or 1k
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = amount::subscribers)]
    pub fanout: u32,

    /// Payload of a webhook, such as 300B, 2KB or 64KiB
    #[arg(long, value_name = "SIZE", default_value = "600B", value_parser = amount::size)]
    pub payload: usize,

    /// Attempts that fail, such as 1% or 0.01
    #[arg(long, value_name = "RATE", default_value = "0%", value_parser = amount::rate)]
    pub failure_rate: f64,

    /// Deliveries in a batch: 10 under load, towards 1 where seconds pass between webhooks
    #[arg(long, value_name = "NUMBER", default_value_t = 10,
          value_parser = clap::value_parser!(u8).range(1..=10))]
    pub batch: u8,

    /// How long partners take to accept, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub receiver_time: u32,

    /// How long partners take to fail, in milliseconds [default: as to accept]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub failure_time: Option<u32>,

    /// Memory of each function, in MB; the template has 256
    #[arg(long, value_name = "MB", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(128..=10_240))]
    pub memory: u32,

    /// Which deliveries get a record, as the template's parameter DeliveryLog
    #[arg(long, value_name = "WHICH", default_value = "all")]
    pub delivery_log: DeliveryLog,

    /// Retry policy, which bounds the attempts
    #[arg(long, value_name = "POLICY", default_value = "standard", value_parser = policy::NAMES)]
    pub policy: String,
}

/// Which deliveries get a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DeliveryLog {
    /// Every one.
    All,
    /// Those that were not delivered at once.
    Failures,
}

/// What `cost` gives. Amounts are in US dollars.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Where the prices hold.
    pub region: &'static str,
    /// The month in which they were looked up.
    pub prices_of: &'static str,
    /// Where.
    pub source: &'static str,
    /// What was asked about.
    pub assumed: Assumed,
    /// Deliveries in a month.
    pub deliveries: f64,
    /// Deliveries in a second, in the mean.
    pub deliveries_per_second: f64,
    /// Below so many batches hold one, unless deliveries come in bursts; from there on they fill.
    pub batches_fill_from_per_second: f64,
    /// Attempts of a delivery, in the mean.
    pub attempts_per_delivery: f64,
    /// Receives of a delivery from SQS, in the mean: those of dead ones are more.
    pub receives_per_delivery: f64,
    /// Which share of the deliveries dies.
    pub dead_share: f64,
    /// The calls of a delivery, in the mean, by operation.
    pub calls_per_delivery: Map<String, Value>,
    /// By what it is for.
    pub lines: Vec<Row>,
    /// By service.
    pub services: Vec<Row>,
    /// In all, in batches of as many as were asked about.
    pub total: Amount,
    /// The same in batches of one, which is what thin traffic comes to.
    pub total_in_batches_of_one: Amount,
    /// What comes on top each month, whatever the volume.
    pub fixed_per_month: Vec<Fixed>,
    /// Their sum.
    pub fixed_total: f64,
    /// Which limits the volume does not fit into.
    pub warnings: Vec<String>,
    /// The prices that were used.
    pub prices: &'static [Price],
}

/// What a volume was asked about.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assumed {
    /// Events in a month.
    pub events: u64,
    /// Subscribers of each.
    pub fanout: u32,
    /// In bytes.
    pub payload_bytes: usize,
    /// With which chance an attempt fails.
    pub failure_rate: f64,
    /// Messages in a batch of deliver: fewer than was asked for where Lambda takes no more.
    pub batch: usize,
    /// In milliseconds.
    pub receiver_time_ms: u32,
    /// In milliseconds.
    pub failure_time_ms: u32,
    /// In MB.
    pub memory_mb: u32,
    /// Which deliveries get a record.
    pub delivery_log: DeliveryLog,
    /// The retry policy.
    pub policy: String,
    /// Most attempts by that.
    pub attempts_at_most: u32,
    /// How many there are as a rule where all fail: a horizon may end them earlier.
    pub attempts_usually: u32,
}

/// What something costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Amount {
    /// For a million deliveries.
    pub per_million_deliveries: f64,
    /// For the volume that was asked about, a month.
    pub per_month: f64,
}

/// What a part of it costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Who asks for it.
    pub service: &'static str,
    /// What it is for; nothing for a whole service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<&'static str>,
    /// How much of it, in a month.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantity: Option<f64>,
    /// Of what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<&'static str>,
    /// What that costs.
    #[serde(flatten)]
    pub amount: Amount,
}

/// What a stack costs each month.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fixed {
    /// Who asks for it.
    pub service: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// In US dollars.
    pub per_month: f64,
}

/// Counts and prices.
///
/// # Errors
/// If a Region is meant of which there are no prices, or there is no such policy, which the command
/// line does not let through.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Cost, Error> {
    has_prices(context.global.region.as_deref())?;
    let policy = RetryPolicy::by_name(&arguments.policy)
        .ok_or_else(|| Error::Usage(format!("there is no policy `{}`", arguments.policy)))?;
    Ok(Cost::of(arguments, &policy))
}

/// Only what the command line says: a Region of the environment is there for the other verbs.
fn has_prices(region: Option<&str>) -> Result<(), Error> {
    match region {
        None | Some(prices::REGION) => Ok(()),
        Some(other) => Err(Error::Usage(format!(
            "there are no prices of {other}, only of {}; leave --region out to see those",
            prices::REGION
        ))),
    }
}

impl Cost {
    fn of(arguments: &Arguments, policy: &RetryPolicy) -> Self {
        let attempts = schedule::expected_attempts(policy);
        let failure_time = arguments.failure_time.unwrap_or(arguments.receiver_time);
        let volume = Volume {
            events: arguments.events as f64,
            fanout: usize::try_from(arguments.fanout).unwrap_or(usize::MAX),
            payload: arguments.payload,
            failure_rate: arguments.failure_rate,
            attempts,
            // A horizon may end a run long before the receives that the most attempts could take.
            let_go: policy.attempts.saturating_sub(attempts) + HEADROOM,
            batch: limits::fitting(arguments.batch, arguments.payload),
            accept_seconds: f64::from(arguments.receiver_time) / 1000.0,
            fail_seconds: f64::from(failure_time) / 1000.0,
            memory_gb: f64::from(arguments.memory) / 1024.0,
            log: match arguments.delivery_log {
                DeliveryLog::All => calls::Log::All,
                DeliveryLog::Failures => calls::Log::Failures,
            },
        };
        let bill = Bill::of(&volume);
        let amount = |usd: f64| Amount {
            per_million_deliveries: rounded(usd / bill.deliveries * MILLION),
            per_month: rounded(usd),
        };
        let in_ones = Bill::of(&Volume { batch: 1, ..volume });
        let fixed = model::fixed();
        Self {
            region: prices::REGION,
            prices_of: prices::DATE,
            source: prices::SOURCE,
            assumed: Assumed {
                events: arguments.events,
                fanout: arguments.fanout,
                payload_bytes: arguments.payload,
                failure_rate: arguments.failure_rate,
                batch: volume.batch,
                receiver_time_ms: arguments.receiver_time,
                failure_time_ms: failure_time,
                memory_mb: arguments.memory,
                delivery_log: arguments.delivery_log,
                policy: arguments.policy.clone(),
                attempts_at_most: policy.attempts,
                attempts_usually: attempts,
            },
            deliveries: bill.deliveries,
            deliveries_per_second: rounded(bill.per_second()),
            batches_fill_from_per_second: rounded(in_ones.filling_from()),
            attempts_per_delivery: rounded(bill.attempts),
            receives_per_delivery: rounded(bill.receives),
            dead_share: bill.dead,
            calls_per_delivery: named(&bill.calls),
            lines: bill
                .lines
                .iter()
                .map(|line| Row {
                    service: line.service,
                    what: Some(line.what),
                    quantity: Some(rounded(line.quantity)),
                    unit: Some(line.unit),
                    amount: amount(line.usd),
                })
                .collect(),
            services: by_service(&bill.lines)
                .into_iter()
                .map(|(service, usd)| Row {
                    service,
                    what: None,
                    quantity: None,
                    unit: None,
                    amount: amount(usd),
                })
                .collect(),
            total: amount(bill.usd()),
            total_in_batches_of_one: amount(in_ones.usd()),
            fixed_total: rounded(fixed.iter().map(|line| line.usd).sum()),
            fixed_per_month: fixed
                .into_iter()
                .map(|line| Fixed {
                    service: line.service,
                    what: line.what,
                    per_month: rounded(line.usd),
                })
                .collect(),
            warnings: limits::exceeded(&bill),
            prices: &prices::ALL,
        }
    }
}

fn named(calls: &Calls) -> Map<String, Value> {
    let calls = calls.by_name().into_iter();
    calls
        .map(|(name, count)| (name.to_owned(), rounded(count).into()))
        .collect()
}

/// The sums of the services, in the order in which they come first.
fn by_service(lines: &[Line]) -> Vec<(&'static str, f64)> {
    let mut sums: Vec<(&'static str, f64)> = Vec::new();
    for line in lines {
        match sums
            .iter_mut()
            .find(|(service, _)| *service == line.service)
        {
            Some((_, sum)) => *sum += line.usd,
            None => sums.push((line.service, line.usd)),
        }
    }
    sums
}

/// To a millionth: what comes after it is the arithmetic's.
fn rounded(number: f64) -> f64 {
    (number * MILLION).round() / MILLION
}

impl Report for Cost {}

#[cfg(test)]
mod tests;
