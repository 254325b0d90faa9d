use std::fs;

use clap::Parser as _;

use super::text::{dollars, percent};
use super::*;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn cost(options: &[&str]) -> Cost {
    let line = ["cost"].iter().chain(options);
    let Line { arguments } = Line::try_parse_from(line).unwrap();
    let policy = RetryPolicy::by_name(&arguments.policy).unwrap();
    Cost::of(&arguments, &policy)
}

/// What one line of it comes to for a million deliveries.
fn line(cost: &Cost, what: &str) -> f64 {
    let row = cost.lines.iter().find(|row| row.what == Some(what));
    row.unwrap().amount.per_million_deliveries
}

fn calls(cost: &Cost, name: &str) -> f64 {
    cost.calls_per_delivery[name].as_f64().unwrap()
}

#[test]
fn a_million_deliveries_cost_what_can_be_counted_by_hand() {
    let cost = cost(&[]);
    for (what, usd) in [
        ("published events", 1.0),
        ("dispatch, invocations", 0.2),
        // 20 ms of 0.25 GB: 5000 GB-seconds.
        ("dispatch, time", 0.066_667),
        ("dispatch, subscriptions", 0.125),
        ("dispatch, jobs sent", 0.4),
        // 100,000 batches, each received and deleted.
        ("deliver, jobs received, hidden, deleted", 0.08),
        ("deliver, invocations", 0.02),
        // 120 ms of 0.25 GB: 3000 GB-seconds.
        ("deliver, time", 0.04),
        // One secret, every 270 seconds of 30 days: 9600.
        ("deliver, secrets decrypted", 0.0288),
        // Each is sent, and received with nine others.
        ("fair queues, surcharge; basis not confirmed", 0.11),
        // 1600 bytes each.
        ("webhooks", 0.134_110),
        ("deliver, subscriptions and records", 0.25),
        ("deliver, records and their index", 1.25),
        // 570 bytes each, in the table and in the index.
        ("records, for 30 days", 0.265_427),
        // 180 + 390 + 9 + 53 bytes each.
        ("both logs", 0.294_298),
        ("notices of dead deliveries", 0.0),
    ] {
        assert_eq!(line(&cost, what), usd, "{what}");
    }
    assert_eq!(cost.lines.len(), 16);
    assert_eq!(cost.total.per_million_deliveries, 4.264_303);
    assert_eq!(cost.total.per_month, 4.264_303);
    let services: f64 = cost.services.iter().map(|row| row.amount.per_month).sum();
    assert!((services - 4.264_303).abs() < 1e-5);
}

#[test]
fn the_calls_of_a_delivery_are_told_by_name() {
    let well = cost(&["--fanout", "25"]);
    let expected = [
        ("Query", 0.04),
        ("SendMessageBatch", 0.12),
        ("ReceiveMessage", 0.1),
        ("BatchGetItem", 0.1),
        // 25 partners' secrets, 9600 times each, in 2.5 million batches.
        ("GetParameters", 0.0096),
        ("BatchWriteItem", 0.1),
        ("UpdateItem", 0.0),
        ("ChangeMessageVisibilityBatch", 0.0),
        ("PutEvents", 0.0),
        ("DeleteMessageBatch", 0.1),
    ];
    for (name, count) in expected {
        assert_eq!(calls(&well, name), count, "{name}");
    }
    assert_eq!(well.calls_per_delivery.len(), expected.len());
    assert_eq!(calls(&cost(&["--batch", "1"]), "BatchGetItem"), 1.0);
}

#[test]
fn what_always_fails_is_tried_to_the_end_and_let_go_thirty_times() {
    let cost = cost(&["--failure-rate", "100%"]);
    assert_eq!(cost.attempts_per_delivery, 8.0);
    assert_eq!(cost.receives_per_delivery, 38.0);
    assert_eq!(cost.dead_share, 1.0);
    // The first of the eight is put, the others are updates.
    assert_eq!(calls(&cost, "UpdateItem"), 7.0);
    assert_eq!(calls(&cost, "ReceiveMessage"), 3.8);
    assert_eq!(calls(&cost, "ChangeMessageVisibilityBatch"), 3.8);
    assert_eq!(calls(&cost, "DeleteMessageBatch"), 0.0);
    for (what, usd) in [
        ("deliver, jobs received, hidden, deleted", 3.04),
        ("fair queues, surcharge; basis not confirmed", 0.48),
        // Two reads for each receive.
        ("deliver, subscriptions and records", 9.5),
        // 2 writes, then 3 for each of five, then 6 for the two that are larger than 1 KB.
        ("deliver, records and their index", 29.0 * 0.625),
        ("notices of dead deliveries", 1.0),
    ] {
        assert_eq!(line(&cost, what), usd, "{what}");
    }
}

#[test]
fn a_horizon_ends_the_attempts_and_the_receives_go_on_to_what_the_queue_allows() {
    let payments = cost(&["--failure-rate", "100%", "--policy", "payments-24h"]);
    assert_eq!(payments.assumed.attempts_at_most, 100);
    assert_eq!(payments.assumed.attempts_usually, 56);
    assert_eq!(payments.attempts_per_delivery, 56.0);
    // The template's MaxReceiveCount.
    assert_eq!(payments.receives_per_delivery, 130.0);
    let contract = cost(&["--failure-rate", "100%", "--policy", "contract-72h"]);
    assert_eq!(contract.attempts_per_delivery, 11.0);
    assert_eq!(contract.receives_per_delivery, 41.0);
}

#[test]
fn a_retry_costs_an_update_of_three_writes_and_its_share_of_a_batch() {
    let cost = cost(&["--failure-rate", "50%", "--policy", "bounded"]);
    // 1 + 1/2 + … + 1/128, and of the 256th part that dies 30 receives more.
    assert_eq!(cost.attempts_per_delivery, 1.992_188);
    assert_eq!(cost.receives_per_delivery, 2.109_375);
    assert_eq!(calls(&cost, "UpdateItem"), 0.992_188);
    // 2, and 3 for each attempt from the second to the sixth, 6 for the seventh and the eighth.
    let writes = 2.0 + 3.0 * (31.0 / 32.0) + 6.0 * (3.0 / 128.0);
    assert_eq!(
        line(&cost, "deliver, records and their index"),
        rounded(writes * 0.625)
    );
}

#[test]
fn only_failures_are_written_down_if_that_is_asked_for() {
    let cost = cost(&["--delivery-log", "failures", "--failure-rate", "1%"]);
    // A hundredth has a first write of two, and nearly all of that another of three.
    let writes: f64 = 0.01 * 2.0 + (2..=6).map(|n| 3.0 * 0.01_f64.powi(n - 1)).sum::<f64>();
    let usd = line(&cost, "deliver, records and their index");
    assert!((usd - writes * 0.625).abs() < 1e-6, "{usd}");
}

#[test]
fn a_large_payload_is_billed_by_its_chunks() {
    let cost = cost(&["--payload", "250KB"]);
    assert_eq!(line(&cost, "published events"), 4.0);
    assert_eq!(line(&cost, "dispatch, invocations"), 0.2);
    assert_eq!(line(&cost, "dispatch, jobs sent"), 1.6);
    // Ten are three calls, of 16, 16 and 8 chunks, and one that deletes them.
    assert_eq!(line(&cost, "deliver, jobs received, hidden, deleted"), 1.64);
    // Four requests for each that is sent, and four for each that is received.
    assert_eq!(
        line(&cost, "fair queues, surcharge; basis not confirmed"),
        0.8
    );

    assert_eq!(calls(&cost, "ReceiveMessage"), 0.3);

    let largest = super::tests::cost(&["--payload", "1MB"]);
    assert_eq!(line(&largest, "published events"), 16.0);
    // The first 256 KB are one request, the other 737,956 bytes are 12.
    assert_eq!(line(&largest, "dispatch, invocations"), 13.0 * 0.2);
    // Six of them are what Lambda takes, each received by itself.
    assert_eq!(largest.assumed.batch, 6);
    assert_eq!(calls(&largest, "ReceiveMessage"), 1.0);
    assert_eq!(line(&largest, "deliver, invocations"), rounded(0.2 / 6.0));
}

#[test]
fn a_volume_beyond_a_limit_is_told() {
    assert_eq!(cost(&[]).warnings, [] as [&str; 0]);
    // 10 billion batches of 120 ms.
    let many = cost(&["--events", "100B"]);
    assert_eq!(
        many.warnings,
        ["463 environments of deliver would be busy, the template's MaximumConcurrency is 20"]
    );
    assert!(many.to_string().contains(
        "\n\nBeyond a limit: 463 environments of deliver would be busy, the template's \
         MaximumConcurrency is 20.\nPrices of"
    ));
    // Two environments ask for 100,000 secrets every 270 seconds, in each of 200 million batches.
    let wide = cost(&[
        "--events",
        "20k",
        "--fanout",
        "100k",
        "--receiver-time",
        "0",
    ]);
    assert_eq!(wide.assumed.fanout, 100_000);
    assert_eq!(
        wide.warnings,
        ["SSM would be asked 77 times a second, an account has 40 unless it asks for more"]
    );
    let template = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/template.yaml");
    let template = fs::read_to_string(template).unwrap();
    let default = format!(
        "  MaximumConcurrency:\n    Type: Number\n    Default: {}\n",
        limits::MAXIMUM_CONCURRENCY
    );
    assert!(template.contains(&default), "{default}");
}

#[test]
fn a_batch_waits_for_its_slowest_partner() {
    let seconds = |options: &[&str]| {
        let cost = cost(options);
        let row = cost
            .lines
            .iter()
            .find(|row| row.what == Some("deliver, time"));
        // GB-seconds of 100,000 batches.
        row.unwrap().quantity.unwrap() / 0.25 / 100_000.0
    };
    assert!((seconds(&[]) - 0.12).abs() < 1e-9);
    assert!((seconds(&["--receiver-time", "0"]) - 0.02).abs() < 1e-9);
    // All eight attempts and the thirty receives without one, of which no batch is free.
    let failing = ["--failure-rate", "1%", "--failure-time", "10000"];
    // 1.0101 attempts: one batch in ten has a failure, and then takes 10 s.
    let expected = (0.02 + 0.1 + (1.0 - 0.99_f64.powi(10)) * 9.9) * 1.010_101;
    assert!(
        (seconds(&failing) - expected).abs() < 1e-3,
        "{}",
        seconds(&failing)
    );
}

#[test]
fn more_environments_ask_for_more_secrets_and_never_for_more_than_there_are_attempts() {
    let secrets = |options: &[&str]| {
        let cost = cost(options);
        let row = cost
            .lines
            .iter()
            .find(|row| row.unit == Some("requests") && row.service == "KMS");
        row.unwrap().quantity.unwrap()
    };
    assert_eq!(secrets(&["--events", "1000"]), 1000.0);
    assert_eq!(secrets(&["--fanout", "10"]), 96_000.0);
    // 100 million batches of 120 ms fill 4.6 environments for a month.
    assert_eq!(secrets(&["--events", "1B"]), 5.0 * 9600.0);
}

#[test]
fn what_is_fixed_is_what_the_template_makes() {
    let template = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/template.yaml");
    let template = fs::read_to_string(template).unwrap();
    let count = |text: &str| template.matches(text).count() as f64;
    let alarms = count("Type: AWS::CloudWatch::Alarm\n");
    assert_eq!(alarms, 11.0);
    // One alarm has a formula of two metrics.
    assert_eq!(count("MetricStat:"), 2.0);
    assert_eq!(model::ALARM_METRICS, alarms + 1.0);
    assert_eq!(count("Type: AWS::CloudWatch::Dashboard\n"), 1.0);
    // Twelve that deliver writes, and one that is made of both logs.
    assert_eq!(model::METRICS, 13.0);
    let cost = cost(&["--events", "1"]);
    // 13 × 0.30 + 12 × 0.10 + 3 + 648,000 × 0.40 / 1,000,000
    assert_eq!(cost.fixed_total, 8.3592);
}

#[test]
fn the_readme_tells_what_the_model_gives() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let all = cost(&[]);
    let failures = cost(&["--delivery-log", "failures"]);
    let row = |name: &str, all: Amount, failures: Amount| {
        let usd = |amount: Amount| dollars(amount.per_million_deliveries);
        format!("| {name} | {} | {} |", usd(all), usd(failures))
    };
    let ones = [&all, &failures].map(|cost| cost.total_in_batches_of_one);
    let mut rows = vec![
        row("**in all**, batches of one", ones[0], ones[1]),
        row("**in all**, batches of ten", all.total, failures.total),
    ];
    let services = all.services.iter().zip(&failures.services);
    rows.extend(services.map(|(all, failures)| {
        let name = format!("of that {}", all.service);
        row(&name, all.amount, failures.amount)
    }));
    let ten = cost(&["--fanout", "10"]);
    let ten_failures = cost(&["--fanout", "10", "--delivery-log", "failures"]);
    rows.push(row(
        "batches of ten, ten subscribers per event",
        ten.total,
        ten_failures.total,
    ));
    let limit = format!(
        "below {:.0} deliveries a second",
        all.batches_fill_from_per_second
    );
    assert!(readme.contains(&limit), "the README should have: {limit}");
    let table = rows.join("\n");
    assert!(readme.contains(&table), "the README should have:\n{table}");
}

#[test]
fn which_sum_fits_follows_from_the_deliveries_in_a_second() {
    let thin = cost(&[]);
    assert_eq!(thin.deliveries_per_second, 0.385_802);
    // Five pollers, each of which is busy for 120 ms.
    assert_eq!(thin.batches_fill_from_per_second, 41.666_667);
    assert!(
        thin.to_string()
            .contains("Batches of 1 fit this volume: below 42 ")
    );
    // 41.28 and 42.05 a second.
    for (events, said) in [
        ("107M", "Batches of 1 fit"),
        ("109M", "It lies between the two"),
    ] {
        let text = cost(&["--events", events]).to_string();
        assert!(text.contains(said), "{text}");
    }
    let text = cost(&["--batch", "1"]).to_string();
    assert!(
        !text.contains("fit this volume") && !text.contains("It lies between"),
        "{text}"
    );
    assert!(
        cost(&["--events", "1k"])
            .to_string()
            .contains(", <0.01 a second: ")
    );
}

#[test]
fn the_text_tells_the_volume_the_sums_and_the_calls() {
    let text = cost(&["--fanout", "3", "--payload", "2KB", "--failure-rate", "1%"]).to_string();
    assert!(
        text.starts_with(
            "3,000,000 deliveries a month, 1.16 a second: 1,000,000 events for 3 subscribers of \
             2,000 bytes\n1% of the attempts fail (standard), so that a delivery takes 1.01 \
             attempts and <0.0001% of them die\n\n"
        ),
        "{text}"
    );
    for row in [
        "EventBridge    published events                             0.33                      1.00\n",
        "in all         $ per million deliveries  $ a month\n\
         batches of 1   4.68                      14.04\n\
         batches of 10  3.10                      9.29\n\n\
         Batches of 1 fit this volume: below 41 deliveries a second, evenly spread, none waits for \
         others.\n",
        "UpdateItem                    0.0101\n",
    ] {
        assert!(text.contains(row), "{row}{text}");
    }
    assert!(
        text.ends_with(
            "Prices of us-east-1, 2026-11, without free tiers. A model, made without a look at a \
             stack or an account: nobody has billed it yet."
        ),
        "{text}"
    );
}

#[test]
fn a_region_without_prices_is_refused_as_usage() {
    assert!(has_prices(None).is_ok());
    assert!(has_prices(Some("us-east-1")).is_ok());
    let refused = has_prices(Some("eu-central-1")).unwrap_err();
    assert_eq!(refused.exit() as u8, 2);
    assert_eq!(
        refused.told(),
        "there are no prices of eu-central-1, only of us-east-1; leave --region out to see those"
    );
}

#[test]
fn amounts_are_written_for_people() {
    for (usd, text) in [
        (0.0, "0.00"),
        (0.004, "<0.01"),
        (0.006, "0.01"),
        (0.125, "0.13"),
        (0.375, "0.38"),
        (999.999, "1,000.00"),
        (1_234_567.891, "1,234,567.89"),
    ] {
        assert_eq!(dollars(usd), text);
    }
    for (share, text) in [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.015, "1.5%"),
        (1e-16, "<0.0001%"),
    ] {
        assert_eq!(percent(share), text);
    }
}
