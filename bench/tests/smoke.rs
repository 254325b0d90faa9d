//! The whole measurement at its smallest, with the programs that cargo has built for the tests:
//! what they cost is of no interest here, that they are measured is.

#![expect(
    clippy::unwrap_used,
    reason = "a harness stops the test where it stands"
)]

use std::fs;
use std::path::{Path, PathBuf};

use bench::run::{Arguments, run};
use clap::Parser as _;
use serde_json::Value;

/// A program that cargo puts beside the one of this package.
fn program(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_bench")).with_file_name(name);
    assert!(
        program.exists(),
        "{} is not there. Run `cargo test --workspace --no-run` first, as `make unit` does.",
        program.display()
    );
    program
}

/// The arguments of a quick run of these parts, whose values go to a file of this name.
fn arguments(parts: &[&str], name: &str, more: &[&str]) -> Arguments {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let (deliver, dispatch) = (program("deliver"), program("dispatch"));
    let mut words = vec!["bench", "--quick", "--floor", env!("CARGO_BIN_EXE_floor")];
    words.extend(["--deliver", deliver.to_str().unwrap()]);
    words.extend(["--dispatch", dispatch.to_str().unwrap()]);
    words.extend(["--out", out.to_str().unwrap()]);
    for part in parts {
        words.extend(["--only", part]);
    }
    words.extend(more);
    Arguments::parse_from(words)
}

fn results(arguments: &Arguments) -> Value {
    serde_json::from_str(&fs::read_to_string(&arguments.out).unwrap()).unwrap()
}

#[test]
fn deliver_is_measured_in_every_scenario() {
    let arguments = arguments(&["cold", "deliver"], "deliver.json", &[]);
    let text = run(&arguments).unwrap();
    assert!(text.contains("### tls-new: "), "{text}");
    assert!(
        text.contains("no Node.js, so its columns are missing"),
        "{text}"
    );

    let results = results(&arguments);
    let scenarios = results["deliver"].as_array().unwrap();
    assert_eq!(scenarios.len(), 9);
    for scenario in scenarios {
        let name = scenario["name"].as_str().unwrap();
        let median = |program: &str, figure: &str| {
            let figure = &scenario["summary"][program][figure]["median"];
            figure
                .as_f64()
                .unwrap_or_else(|| panic!("{name}: no {figure} of {program}"))
        };
        assert!(median("ours-all", "cpu_us_per_delivery") > 0.0);
        assert!(median("floor", "cpu_us_per_delivery") > 0.0);
        // One read for ten, and one write where there is something to write; one change of
        // visibility where something failed.
        let (with_records, without) = match name {
            "fail" | "half" => (0.3, 0.3),
            // Each record that is there is changed by itself.
            "again" => (1.1, 1.1),
            _ => (0.2, 0.1),
        };
        for (program, requests) in [("ours-all", with_records), ("ours-failures", without)] {
            let measured = median(program, "aws_requests_per_delivery");
            assert!(
                (measured - requests).abs() < 1e-9,
                "{name}, {program}: {measured}"
            );
        }
        let connections = f64::from(u8::from(name == "tls-new"));
        let measured = median("ours-all", "connections_per_delivery");
        assert!((measured - connections).abs() < 1e-9, "{name}: {measured}");
    }
    assert_eq!(results["cold_starts"]["lives"].as_array().unwrap().len(), 4);
}

#[test]
fn dispatch_is_measured_for_few_and_for_many() {
    let arguments = arguments(
        &["dispatch"],
        "dispatch.json",
        &["--fan-out", "10", "--fan-out", "15000"],
    );
    run(&arguments).unwrap();

    let results = results(&arguments);
    let requests = |fan_out: usize, operation: &str| {
        let figures = &results["dispatch"][fan_out]["summary"];
        figures[format!("{operation}_requests_per_job")]["median"]
            .as_f64()
            .unwrap()
    };
    assert!((requests(0, "SendMessageBatch") - 0.1).abs() < 1e-9);
    assert!((requests(1, "SendMessageBatch") - 0.1).abs() < 1e-9);
    // 15 000 rows are two pages.
    assert!((requests(1, "Query") - 2.0 / 15_000.0).abs() < 1e-9);
}

#[test]
fn memory_is_watched_over_as_many_deliveries_as_are_asked_for() {
    let arguments = arguments(&["million"], "million.json", &["--million", "2000"]);
    let text = run(&arguments).unwrap();
    assert!(
        text.contains("### memory over 2000 deliveries, 200 of them answered 500"),
        "{text}"
    );

    let million = &results(&arguments)["million"];
    assert_eq!(million["memory_mib"].as_array().unwrap().len(), 20);
}

/// `make unit` makes the bundle; without Node.js there is none, as `make bench` says too.
#[test]
fn the_baseline_does_the_same_job() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let bundle = root.join("target/bench/deliver.cjs");
    if !bundle.exists() {
        eprintln!(
            "{} is not there: the baseline is not tested",
            bundle.display()
        );
        return;
    }
    let node = ["--node", "node", "--node-bundle", bundle.to_str().unwrap()];
    let arguments = arguments(&["half", "again", "tls-new"], "baseline.json", &node);
    run(&arguments).unwrap();

    let results = results(&arguments);
    for scenario in results["deliver"].as_array().unwrap() {
        let requests = |program: &str| {
            let figures = &scenario["summary"][program];
            figures["aws_requests_per_delivery"]["median"]
                .as_f64()
                .unwrap()
        };
        assert!((requests("node-all") - requests("ours-all")).abs() < 1e-9);
        assert!((requests("node-http-all") - requests("ours-all")).abs() < 1e-9);
        assert!((requests("node-failures") - requests("ours-failures")).abs() < 1e-9);
    }
}

#[test]
fn a_function_that_does_not_do_its_job_is_no_measurement() {
    // The bare client is no function: it waits for its own orders and ends without them.
    let mut arguments = arguments(&["base"], "wrong.json", &[]);
    arguments.deliver = PathBuf::from(env!("CARGO_BIN_EXE_floor"));
    let error = run(&arguments).unwrap_err().to_string();
    assert!(
        error.starts_with("ours, all in base: the program has ended: "),
        "{error}"
    );
    assert!(!arguments.out.exists());
}

#[test]
fn a_part_that_does_not_exist_is_named() {
    let error = run(&arguments(&["bass"], "unknown.json", &[]))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "there is no part bass, only cold, deliver, dispatch, million, base, 20kb, 250kb, fail, \
         half, again, tls, tls-new, latency"
    );
}
