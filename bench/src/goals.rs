//! What was hoped for, beside what was measured.

use serde::Serialize;
use webhooks_core::calls::{self, Calls};

use crate::million::FLAT_MIB;
use crate::results::Results;
use crate::scenario::Kind;
use crate::workload::BATCH;

/// How a figure has to stand to its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Not above it.
    AtMost,
    /// Not below it.
    AtLeast,
    /// As it is, but for what arithmetic with floats adds.
    Exactly,
}

/// Of counts per delivery the last digits are the arithmetic's.
const NEARLY: f64 = 1e-6;

/// A goal and how it came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Goal {
    /// What is wanted, with its unit.
    pub what: String,
    /// Above or below.
    pub side: Side,
    /// The bound.
    pub bound: f64,
    /// The median that was measured, or the quotient of two.
    pub measured: f64,
    /// Whether it is as was hoped.
    pub met: bool,
}

impl Goal {
    fn new(what: String, side: Side, bound: f64, measured: f64) -> Self {
        let met = match side {
            Side::AtMost => measured <= bound,
            Side::AtLeast => measured >= bound,
            Side::Exactly => (measured - bound).abs() < NEARLY,
        };
        Self {
            what,
            side,
            bound,
            measured,
            met,
        }
    }
}

/// The function with the baseline that keeps the same records and sends with `fetch`.
const PAIRS: [(Kind, Kind); 2] = [
    (Kind::OursAll, Kind::NodeAll),
    (Kind::OursFailures, Kind::NodeFailures),
];

/// What is held against the baseline, and its name.
const COMPARED: [(&str, &str); 2] = [
    ("cpu_us_per_delivery", "CPU"),
    ("peak_memory_mib", "peak memory"),
];

/// How many times as much of it the baseline should need, whatever it sends with.
const LESS: f64 = 8.0;

/// By how much dispatch may need more memory for 100 000 subscribers than for a hundredth of them.
const FAN_OUT_MIB: f64 = 16.0;

/// The calls that the function itself makes for a delivery, by the model from which `webhooks cost`
/// makes a bill: this share of them fails, and all are tried
/// first, or all again.
fn modelled_requests(kind: Kind, failing: f64, again: bool) -> f64 {
    let first = if again { 0.0 } else { 1.0 };
    let batch = calls::Batch {
        messages: BATCH,
        first_delivered: first * (1.0 - failing),
        first_failed: first * failing,
        again_delivered: (1.0 - first) * (1.0 - failing),
        again_failed: (1.0 - first) * failing,
        dead_before: 0.0,
        died: 0.0,
        unknown_secrets: 0,
        log: match kind {
            Kind::OursFailures | Kind::NodeFailures => calls::Log::Failures,
            Kind::OursAll | Kind::NodeAll | Kind::NodeHttpAll | Kind::Floor => calls::Log::All,
        },
    };
    let calls = Calls::of_batch(&batch);
    // Of messages that fail by chance; here it is every second one, so that no batch is spared.
    let certain = |count: f64| if failing > 0.0 { count.ceil() } else { count };
    let sum = calls.batch_get_item
        + certain(calls.batch_write_item)
        + calls.update_item
        + certain(calls.change_message_visibility_batch);
    sum / BATCH as f64
}

/// All goals of which there are figures.
#[must_use]
pub fn judge(results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut add = |what: String, side, bound, measured: Option<f64>| {
        goals.extend(measured.map(|measured| Goal::new(what, side, bound, measured)));
    };
    let cold = |kind, name| Some(results.cold_starts.as_ref()?.figure(kind, name)?.median);
    let of = |scenario, kind, name| Some(results.scenario(scenario)?.figure(kind, name)?.median);
    let quotient = |above: Option<f64>, below: Option<f64>| Some(above? / below?);
    for (ours, node) in PAIRS {
        let title = ours.title();
        add(
            format!("{title}: cold start to first poll, ms"),
            Side::AtMost,
            15.0,
            cold(ours, "cold_start_ms"),
        );
        add(
            format!("{title}: CPU per delivery (base), µs"),
            Side::AtMost,
            60.0,
            of("base", ours, "cpu_us_per_delivery"),
        );
        add(
            format!("{title}: peak memory (base), MiB"),
            Side::AtMost,
            20.0,
            of("base", ours, "peak_memory_mib"),
        );
        add(
            format!("{title}: cold start, Node.js ÷ ours"),
            Side::AtLeast,
            13.0,
            quotient(cold(node, "cold_start_ms"), cold(ours, "cold_start_ms")),
        );
        for (figure, title_of_figure) in COMPARED {
            add(
                format!("{title}: {title_of_figure} (base), Node.js ÷ ours"),
                Side::AtLeast,
                LESS,
                quotient(of("base", node, figure), of("base", ours, figure)),
            );
        }
        for (scenario, failing) in [("base", 0.0), ("fail", 1.0), ("half", 0.5), ("again", 0.0)] {
            add(
                format!(
                    "{title}: AWS requests per delivery ({scenario}), as `webhooks cost` counts"
                ),
                Side::Exactly,
                modelled_requests(ours, failing, scenario == "again"),
                of(scenario, ours, "aws_requests_per_delivery"),
            );
        }
        for scenario in ["base", "tls", "tls-new"] {
            let cpu = |kind| of(scenario, kind, "cpu_us_per_delivery");
            add(
                format!("{title}: CPU ({scenario}), ours ÷ bare client"),
                Side::AtMost,
                2.0,
                quotient(cpu(ours), cpu(Kind::Floor)),
            );
        }
    }
    for (figure, title) in COMPARED {
        let ours = of("base", Kind::OursAll, figure);
        add(
            format!("ours, all: {title} (base), Node.js http ÷ ours"),
            Side::AtLeast,
            LESS,
            quotient(of("base", Kind::NodeHttpAll, figure), ours),
        );
    }
    if let Some(growth) = &results.million {
        add(
            format!(
                "memory over {} deliveries, growth in MiB",
                growth.deliveries
            ),
            Side::AtMost,
            FLAT_MIB,
            Some(growth.growth_mib()),
        );
    }
    let peak = |fan_out| {
        let found = results
            .dispatch
            .iter()
            .find(|found| found.fan_out == fan_out);
        Some(found?.summary.get("peak_memory_mib")?.median)
    };
    add(
        "dispatch: peak memory at 100 000 subscribers over that at 1 000, MiB".into(),
        Side::AtMost,
        FAN_OUT_MIB,
        peak(100_000).zip(peak(1_000)).map(|(many, few)| many - few),
    );
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliver::Life;
    use crate::results::Measured;

    fn life(program: Kind, cpu: f64) -> Life {
        Life {
            program,
            figures: [("cpu_us_per_delivery".to_owned(), cpu)].into(),
            added_ms: Vec::new(),
        }
    }

    #[test]
    fn the_model_counts_a_read_a_write_and_a_call_that_hides_what_failed() {
        for (kind, failing, requests) in [
            (Kind::OursAll, 0.0, 0.2),
            (Kind::OursAll, 1.0, 0.3),
            (Kind::OursAll, 0.5, 0.3),
            (Kind::OursFailures, 0.0, 0.1),
            (Kind::OursFailures, 1.0, 0.3),
            (Kind::OursFailures, 0.5, 0.3),
        ] {
            assert_eq!(
                modelled_requests(kind, failing, false),
                requests,
                "{kind:?} {failing}"
            );
        }
        for kind in [Kind::OursAll, Kind::OursFailures] {
            assert_eq!(modelled_requests(kind, 0.0, true), 1.1);
        }
    }

    #[test]
    fn goals_are_judged_by_medians_and_only_where_there_are_figures() {
        let lives = vec![
            life(Kind::OursAll, 59.0),
            life(Kind::OursAll, 99.0),
            life(Kind::OursAll, 60.0),
            life(Kind::NodeHttpAll, 300.0),
            life(Kind::Floor, 25.0),
        ];
        let results = Results {
            deliver: vec![Measured::new("base", "", 1, lives)],
            ..Results::default()
        };
        let goals: Vec<_> = judge(&results)
            .into_iter()
            .map(|goal| (goal.what, goal.measured, goal.met))
            .collect();
        assert_eq!(
            goals,
            [
                ("ours, all: CPU per delivery (base), µs".into(), 60.0, true),
                (
                    "ours, all: CPU (base), ours ÷ bare client".into(),
                    2.4,
                    false
                ),
                (
                    "ours, all: CPU (base), Node.js http ÷ ours".into(),
                    5.0,
                    false
                ),
            ]
        );
    }
}
