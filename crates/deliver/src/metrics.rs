//! Figures of a batch, in CloudWatch's embedded metric format: a line of the log that CloudWatch
//! turns into metrics. One line for a batch, and the only dimension is the function: a partner as
//! a dimension would cost 0.30 $ a month for each metric.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use webhooks_core::timestamp;

const NAMESPACE: &str = "SqsWebhooks";

/// A metric takes a hundred values in one line (CloudWatch, "embedded metric format").
const VALUES_MAX: usize = 100;

/// What is counted, of a delivery or of a whole batch.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// POSTs that were begun.
    pub attempts: u32,
    pub delivered: u32,
    pub retried: u32,
    /// Runs that have ended without a delivery.
    pub dead: u32,
    pub gone: u32,
    pub blocked: u32,
    /// Deliveries that could not be tried, or not to the end, through our own fault.
    pub faults: u32,
    pub poison: u32,
    /// Records that could not be written, or not be relied on.
    pub record_errors: u32,
    /// Of each POST, to its status line.
    pub latencies: Vec<Duration>,
    /// Of each first attempt, from the event to its beginning.
    pub first_attempt_latencies: Vec<Duration>,
    /// How many attempts each delivered webhook took.
    pub attempts_per_delivered: Vec<u32>,
}

impl Metrics {
    /// Adds what is counted of something else.
    pub(crate) fn add(&mut self, other: Self) {
        let Self {
            attempts,
            delivered,
            retried,
            dead,
            gone,
            blocked,
            faults,
            poison,
            record_errors,
            latencies,
            first_attempt_latencies,
            attempts_per_delivered,
        } = other;
        self.attempts += attempts;
        self.delivered += delivered;
        self.retried += retried;
        self.dead += dead;
        self.gone += gone;
        self.blocked += blocked;
        self.faults += faults;
        self.poison += poison;
        self.record_errors += record_errors;
        self.latencies.extend(latencies);
        self.first_attempt_latencies.extend(first_attempt_latencies);
        self.attempts_per_delivered.extend(attempts_per_delivered);
    }

    /// Writes the line, if there is anything to tell.
    pub(crate) fn print(&self, function_name: &str, now: SystemTime) {
        if let Some(line) = self.line(function_name, now) {
            // In one piece: standard output looks for the end of the line in each part of it.
            let line = format!("{line}\n");
            // Without standard output there is nowhere to tell it either.
            let _ = std::io::stdout().lock().write_all(line.as_bytes());
        }
    }

    fn line(&self, function_name: &str, now: SystemTime) -> Option<Value> {
        let mut metrics = Vec::new();
        let mut line = Map::new();
        let counts = [
            ("Attempts", self.attempts),
            ("Delivered", self.delivered),
            ("Retried", self.retried),
            ("Dead", self.dead),
            ("Gone", self.gone),
            ("Blocked", self.blocked),
            ("Faults", self.faults),
            ("Poison", self.poison),
            ("RecordErrors", self.record_errors),
        ];
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            metrics.push(json!({"Name": name, "Unit": "Count"}));
            line.insert(name.into(), count.into());
        }
        let millis = |durations: &[Duration]| {
            let millis = |duration: &Duration| u64::try_from(duration.as_millis()).ok();
            durations
                .iter()
                .filter_map(millis)
                .map(Value::from)
                .collect()
        };
        let attempts = self.attempts_per_delivered.iter().copied();
        let lists: [(&str, &str, Vec<Value>); 3] = [
            ("Latency", "Milliseconds", millis(&self.latencies)),
            (
                "FirstAttemptLatency",
                "Milliseconds",
                millis(&self.first_attempt_latencies),
            ),
            (
                "AttemptsPerDelivered",
                "Count",
                attempts.map(Value::from).collect(),
            ),
        ];
        for (name, unit, mut values) in lists {
            if !values.is_empty() {
                values.truncate(VALUES_MAX);
                metrics.push(json!({"Name": name, "Unit": unit}));
                line.insert(name.into(), Value::Array(values));
            }
        }
        if metrics.is_empty() {
            return None;
        }
        let millis = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis();
        line.insert(
            "_aws".into(),
            json!({
                "Timestamp": u64::try_from(millis).ok()?,
                "CloudWatchMetrics": [{
                    "Namespace": NAMESPACE,
                    "Dimensions": [["FunctionName"]],
                    "Metrics": metrics,
                }],
            }),
        );
        line.insert("FunctionName".into(), function_name.into());
        line.insert("message".into(), "metrics".into());
        // Both are asked for by Lambda's JSON log format. Nothing is wrong; but at a log level of
        // WARN Lambda would drop the line, and with it every alarm that stands on it.
        line.insert("level".into(), "WARN".into());
        line.insert("timestamp".into(), timestamp::format(now).into());
        Some(Value::Object(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(1_796_040_000_123)
    }

    #[test]
    fn a_batch_becomes_one_line_with_what_it_has_to_tell() {
        let metrics = Metrics {
            attempts: 3,
            delivered: 2,
            dead: 1,
            latencies: [12, 5, 700].map(Duration::from_millis).into(),
            attempts_per_delivered: vec![1, 4],
            ..Metrics::default()
        };
        assert_eq!(
            metrics.line("shop-deliver", now()),
            Some(json!({
                "_aws": {
                    "Timestamp": 1_796_040_000_123_u64,
                    "CloudWatchMetrics": [{
                        "Namespace": "SqsWebhooks",
                        "Dimensions": [["FunctionName"]],
                        "Metrics": [
                            {"Name": "Attempts", "Unit": "Count"},
                            {"Name": "Delivered", "Unit": "Count"},
                            {"Name": "Dead", "Unit": "Count"},
                            {"Name": "Latency", "Unit": "Milliseconds"},
                            {"Name": "AttemptsPerDelivered", "Unit": "Count"},
                        ],
                    }],
                },
                "FunctionName": "shop-deliver",
                "Attempts": 3,
                "Delivered": 2,
                "Dead": 1,
                "Latency": [12, 5, 700],
                "AttemptsPerDelivered": [1, 4],
                "message": "metrics",
                "level": "WARN",
                "timestamp": "2026-11-30T12:00:00.123Z",
            }))
        );
    }

    #[test]
    fn a_batch_with_nothing_to_tell_is_silent() {
        assert_eq!(Metrics::default().line("f", now()), None);
    }

    #[test]
    fn a_metric_has_no_more_values_than_cloudwatch_takes() {
        let metrics = Metrics {
            attempts_per_delivered: vec![1; 101],
            ..Metrics::default()
        };
        let line = metrics.line("f", now()).unwrap();
        assert_eq!(line["AttemptsPerDelivered"].as_array().unwrap().len(), 100);
    }
}
