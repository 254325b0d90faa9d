//! Every target holds for its seeds and for inputs made of them: always the same ones, or for
//! `FUZZ_SECONDS` those after a number that nobody has chosen.

#![expect(clippy::expect_used, reason = "a test stops where it stands")]

use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const ANY_BYTES: &str = env!("CARGO_BIN_EXE_any-bytes");

/// Runs a target in a process of its own: it writes to standard output what deliver does.
fn assert_holds(target: &str, runs: u32) {
    let mut command = Command::new(ANY_BYTES);
    match std::env::var("FUZZ_SECONDS") {
        Ok(seconds) => {
            let start = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let start = start.as_nanos() % 1_000_000_000;
            command.args(["--seconds", &seconds, "--start", &start.to_string()]);
        }
        Err(_) => {
            command.args(["--runs", &runs.to_string()]);
        }
    }
    let output = command.arg(target).stdout(Stdio::null()).output();
    let output = output.expect("the program can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    println!("{said}");
}

#[test]
fn a_retry_after_is_digits_or_a_date_of_the_library_and_no_wait_is_longer_than_the_queue_keeps() {
    assert_holds("retry_after", 20_000);
}

#[test]
fn what_passes_for_a_job_is_safe_and_can_be_written_again() {
    assert_holds("job", 20_000);
}

#[test]
fn what_passes_for_an_event_can_be_fanned_out_byte_for_byte() {
    assert_holds("event", 10_000);
}

#[test]
fn what_is_signed_is_verified_and_no_secret_is_shown() {
    assert_holds("secrets", 5_000);
}

#[test]
fn a_url_that_passes_is_public_and_passes_again_as_it_is() {
    assert_holds("url", 20_000);
}

#[test]
fn an_address_passes_if_and_only_if_a_second_reading_calls_it_public() {
    assert_holds("address", 50_000);
}

#[test]
fn what_the_official_library_signs_is_verified_and_nothing_that_it_refuses() {
    assert_holds("verify", 5_000);
}

#[test]
fn any_batch_is_answered_and_deletes_nothing_by_accident_and_keeps_nothing_that_is_done() {
    assert_holds("batch", 2_000);
}
