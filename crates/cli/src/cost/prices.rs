//! What AWS asks for: every price that the model uses, in one table.
//!
//! They are the public on-demand prices of one Region on one date. Free tiers and discounts for
//! volume are left out, so that a small bill is rather lower.

use serde::Serialize;

/// Where these prices hold.
pub const REGION: &str = "us-east-1";
/// The month in which they were looked up.
pub const DATE: &str = "2026-11";
/// Where they were found.
pub const SOURCE: &str = "public price pages of the services, on demand, without free tiers";

/// One gigabyte, as AWS bills it.
const GB: f64 = 1_073_741_824.0;
const MILLION: f64 = 1_000_000.0;

/// A price.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Price {
    /// Who asks for it.
    pub service: &'static str,
    /// What it is for.
    pub unit: &'static str,
    /// In US dollars, for as many of these as `per` says.
    pub usd: f64,
    /// How many.
    pub per: f64,
}

impl Price {
    /// The price of so many.
    #[must_use]
    pub fn of(&self, quantity: f64) -> f64 {
        quantity * self.usd / self.per
    }
}

const fn price(service: &'static str, unit: &'static str, usd: f64, per: f64) -> Price {
    Price {
        service,
        unit,
        usd,
        per,
    }
}

/// A custom event, for each 64 KB of it.
pub const EVENT: Price = price("EventBridge", "events, each 64 KB", 1.00, MILLION);
/// An invocation; of an asynchronous one also each 64 KB beyond its first 256 KB.
pub const INVOCATION: Price = price("Lambda", "requests", 0.20, MILLION);
/// A function on arm64 that runs.
pub const GB_SECOND: Price = price("Lambda", "GB-seconds on arm64", 13.3334, MILLION);
/// A call of SQS, for each 64 KB that it carries.
pub const SQS_REQUEST: Price = price("SQS", "requests, each 64 KB", 0.40, MILLION);
/// What a standard queue asks for beside it where messages have a group (fair queues). Which calls
/// that is asked for could not be read from AWS itself; here it is those that carry such messages.
pub const FAIR_QUEUE: Price = price("SQS", "requests with a group, each 64 KB", 0.10, MILLION);
/// A consistent read of up to 4 KB.
pub const READ: Price = price("DynamoDB", "reads, consistent, each 4 KB", 0.125, MILLION);
/// A write of up to 1 KB, to a table or to an index.
pub const WRITE: Price = price("DynamoDB", "writes, each 1 KB", 0.625, MILLION);
/// What a table or an index keeps.
pub const KEPT: Price = price("DynamoDB", "bytes kept for a month", 0.25, GB);
/// A call of KMS: SSM makes one for each SecureString that it decrypts, and is free itself.
pub const KMS_REQUEST: Price = price("KMS", "requests", 0.03, 10_000.0);
/// What is logged.
pub const LOGGED: Price = price("CloudWatch", "bytes logged", 0.50, GB);
/// What leaves AWS.
pub const SENT: Price = price("data transfer", "bytes to the internet", 0.09, GB);
/// A custom metric.
pub const METRIC: Price = price("CloudWatch", "custom metrics for a month", 0.30, 1.0);
/// A metric that an alarm watches.
pub const ALARM_METRIC: Price = price("CloudWatch", "metrics of alarms for a month", 0.10, 1.0);
/// A dashboard.
pub const DASHBOARD: Price = price("CloudWatch", "dashboards for a month", 3.00, 1.0);

/// All of them.
pub const ALL: [Price; 14] = [
    EVENT,
    INVOCATION,
    GB_SECOND,
    SQS_REQUEST,
    FAIR_QUEUE,
    READ,
    WRITE,
    KEPT,
    KMS_REQUEST,
    LOGGED,
    SENT,
    METRIC,
    ALARM_METRIC,
    DASHBOARD,
];
