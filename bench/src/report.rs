//! The tables that people read. They are Markdown, so that they can be put into a text as they
//! are.

use std::fmt::Write as _;

use crate::goals::{Goal, Side};
use crate::machine::Machine;
use crate::million::{FLAT_MIB, Growth};
use crate::results::{FanOut, Measured, Results};
use crate::scenario::Kind;
use crate::stats::{Spread, p99, percentile};

/// Figures of deliver in the order of their rows, with the decimals that they are worth.
const ROWS: [(&str, &str, usize); 10] = [
    ("CPU per delivery, µs", "cpu_us_per_delivery", 1),
    ("deliveries per second", "deliveries_per_second", 0),
    ("batch less delay, p50, ms", "added_ms_p50", 2),
    ("batch less delay, p99, ms", "added_ms_p99", 2),
    ("peak memory, MiB", "peak_memory_mib", 1),
    ("connections per delivery", "connections_per_delivery", 2),
    ("log per delivery, bytes", "log_bytes_per_delivery", 0),
    ("AWS requests per delivery", "aws_requests_per_delivery", 2),
    (
        "AWS bytes sent per delivery",
        "aws_bytes_sent_per_delivery",
        0,
    ),
    (
        "AWS bytes received per delivery",
        "aws_bytes_received_per_delivery",
        0,
    ),
];

const COLD_ROWS: [(&str, &str, usize); 4] = [
    ("cold start to first poll, ms", "cold_start_ms", 1),
    ("CPU until first poll, ms", "init_cpu_ms", 1),
    ("first batch, ms", "first_batch_ms", 1),
    ("memory after first batch, MiB", "peak_memory_mib", 1),
];

const DISPATCH_ROWS: [(&str, &str, usize); 10] = [
    ("cold start to first poll, ms", "cold_start_ms", 1),
    ("first event, ms", "first_event_ms", 1),
    ("one event, ms", "event_ms", 2),
    ("events per second", "events_per_second", 1),
    ("jobs per second", "jobs_per_second", 0),
    ("CPU per job, µs", "cpu_us_per_job", 1),
    ("peak memory, MiB", "peak_memory_mib", 1),
    (
        "SQS requests per job",
        "SendMessageBatch_requests_per_job",
        4,
    ),
    ("DynamoDB requests per job", "Query_requests_per_job", 5),
    ("AWS bytes sent per job", "aws_bytes_sent_per_job", 0),
];

/// All tables.
#[must_use]
pub fn text(results: &Results) -> String {
    let mut text = machine(&results.machine);
    if let Some(cold_starts) = &results.cold_starts {
        text += &scenario(cold_starts, &COLD_ROWS);
    }
    for measured in &results.deliver {
        text += &scenario(measured, &ROWS);
        text += &latencies(measured);
    }
    if let Some(base) = results.scenario("base") {
        text += &operations(base);
    }
    text += &dispatch(&results.dispatch);
    if let Some(growth) = &results.million {
        text += &million(growth);
    }
    text += &goals(&results.goals);
    text
}

fn machine(machine: &Machine) -> String {
    let node = match &machine.node {
        Some(version) => format!("Node.js {version}"),
        None => "no Node.js, so its columns are missing".to_owned(),
    };
    format!(
        "{}, {} cores, Linux {}; {}; commit {}; {}; {node}\n\
         Each figure: median of the runs (smallest – largest).\n",
        machine.cpu, machine.cores, machine.kernel, machine.date, machine.commit, machine.rustc
    )
}

fn scenario(scenario: &Measured, rows: &[(&str, &str, usize)]) -> String {
    let kinds: Vec<Kind> = scenario.summary.keys().copied().collect();
    let mut heads = vec![String::new()];
    heads.extend(kinds.iter().map(|kind| kind.title().to_owned()));
    let rows = rows.iter().map(|(title, name, decimals)| {
        let mut row = vec![(*title).to_owned()];
        row.extend(
            kinds
                .iter()
                .map(|kind| cell(scenario.figure(*kind, name), *decimals)),
        );
        row
    });
    let runs = scenario.lives.len() / kinds.len().max(1);
    format!(
        "\n### {}: {}\n{runs} runs of {} deliveries each\n\n{}",
        scenario.name,
        scenario.title,
        scenario.deliveries,
        table(&heads, rows)
    )
}

/// Over the batches of all runs together, where that is what the scenario is about.
fn latencies(scenario: &Measured) -> String {
    let mut text = String::new();
    for kind in scenario.summary.keys() {
        let lives = scenario.lives.iter().filter(|life| life.program == *kind);
        let added: Vec<f64> = lives
            .flat_map(|life| life.added_ms.iter().copied())
            .collect();
        if let (Some(half), Some(most)) = (percentile(&added, 50), p99(&added)) {
            let _ = write!(
                text,
                "\n- {}: added over all {} batches p50 {half:.2} ms, p99 {most:.2} ms",
                kind.title(),
                added.len()
            );
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// What goes to AWS, by operation.
fn operations(scenario: &Measured) -> String {
    let heads = ["", "operation", "requests", "bytes sent", "bytes received"].map(str::to_owned);
    let mut rows = Vec::new();
    for (kind, figures) in &scenario.summary {
        for name in figures.keys() {
            let Some(operation) = name.strip_suffix("_requests_per_delivery") else {
                continue;
            };
            let of = |what: &str, decimals| {
                let name = format!("{operation}_{what}_per_delivery");
                let median = scenario.figure(*kind, &name).map(|spread| spread.median);
                median.map_or_else(String::new, |median| format!("{median:.decimals$}"))
            };
            let operation = if operation == "aws" {
                "**all**"
            } else {
                operation
            };
            rows.push(vec![
                kind.title().to_owned(),
                operation.to_owned(),
                of("requests", 2),
                of("bytes_sent", 0),
                of("bytes_received", 0),
            ]);
        }
    }
    format!(
        "\n### AWS, per delivery ({})\n\n{}",
        scenario.name,
        table(&heads, rows)
    )
}

fn dispatch(fan_outs: &[FanOut]) -> String {
    if fan_outs.is_empty() {
        return String::new();
    }
    let mut heads = vec![String::new()];
    heads.extend(
        fan_outs
            .iter()
            .map(|found| format!("{} subscribers", found.fan_out)),
    );
    let rows = DISPATCH_ROWS.iter().map(|(title, name, decimals)| {
        let mut row = vec![(*title).to_owned()];
        row.extend(
            fan_outs
                .iter()
                .map(|found| cell(found.summary.get(*name).copied(), *decimals)),
        );
        row
    });
    format!(
        "\n### dispatch: one event to its subscribers\n\n{}",
        table(&heads, rows)
    )
}

fn million(growth: &Growth) -> String {
    let samples: Vec<String> = growth
        .memory_mib
        .iter()
        .map(|mib| format!("{mib:.1}"))
        .collect();
    format!(
        "\n### memory over {} deliveries, {} of them answered 500\n\n\
         In {:.0} s, to 1 000 partners. Resident after each twentieth, MiB: {}. \
         Growth {:+.2} MiB (flat is at most {FLAT_MIB}), peak {:.1} MiB.\n",
        growth.deliveries,
        growth.failures,
        growth.seconds,
        samples.join(" "),
        growth.growth_mib(),
        growth.peak_memory_mib
    )
}

fn goals(goals: &[Goal]) -> String {
    let heads = ["goal", "bound", "measured", ""].map(str::to_owned);
    let rows = goals.iter().map(|goal| {
        let side = match goal.side {
            Side::AtMost => "≤",
            Side::AtLeast => "≥",
            Side::Exactly => "=",
        };
        vec![
            goal.what.clone(),
            format!("{side} {}", goal.bound),
            format!("{:.2}", goal.measured),
            if goal.met { "met" } else { "MISSED" }.to_owned(),
        ]
    });
    format!("\n### Goals\n\n{}", table(&heads, rows))
}

fn cell(spread: Option<Spread>, decimals: usize) -> String {
    spread.map_or_else(
        || "–".to_owned(),
        |Spread { median, min, max }| {
            format!("{median:.decimals$} ({min:.decimals$} – {max:.decimals$})")
        },
    )
}

/// A table of Markdown that is also one on a terminal.
fn table(heads: &[String], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut lines = vec![heads.to_vec()];
    lines.extend(rows);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text += "|\n";
        if index == 0 {
            for width in &widths {
                let _ = write!(text, "|{}", "-".repeat(width + 2));
            }
            text += "|\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliver::Life;

    #[test]
    fn a_scenario_is_a_table_with_a_column_for_each_program() {
        let life = |program, cpu| Life {
            program,
            figures: [("cpu_us_per_delivery".to_owned(), cpu)].into(),
            added_ms: Vec::new(),
        };
        let lives = vec![
            life(Kind::OursAll, 40.0),
            life(Kind::Floor, 30.0),
            life(Kind::OursAll, 44.0),
            life(Kind::Floor, 31.0),
        ];
        let scenario = Measured::new("base", "all well", 100, lives);
        assert_eq!(
            super::scenario(&scenario, &ROWS[..1]),
            "\n### base: all well\n2 runs of 100 deliveries each\n\n\
             |                      | ours, all          | bare client        |\n\
             |----------------------|--------------------|--------------------|\n\
             | CPU per delivery, µs | 42.0 (40.0 – 44.0) | 30.5 (30.0 – 31.0) |\n"
        );
    }
}
