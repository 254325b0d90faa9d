//! Logs: one JSON object a line on standard output, which is what CloudWatch Logs and
//! `LoggingConfig: JSON` expect.

use std::io::Write as _;

use tracing_subscriber::filter::LevelFilter;

/// Starts logging at the level of `AWS_LAMBDA_LOG_LEVEL`, `INFO` if that is not set or not a
/// level: a log that is silent by mistake helps nobody.
pub fn init() {
    let level = std::env::var("AWS_LAMBDA_LOG_LEVEL")
        .ok()
        .and_then(|level| level.parse().ok())
        .unwrap_or(LevelFilter::INFO);
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_target(false)
        .with_max_level(level)
        .init();
}

/// Says why the function can not start, and ends the process: Lambda reports the exit, and the
/// line names the cause.
pub fn refuse_to_start(cause: &dyn std::error::Error) -> ! {
    tracing::error!(%cause, "the function can not start");
    // Nobody is left to tell if the last line can not be written.
    let _ = std::io::stdout().flush();
    std::process::exit(1);
}
