//! Logs: one JSON object a line on standard output, which is what CloudWatch Logs and
//! `LoggingConfig: JSON` expect.

use std::io::Write as _;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts logging at the level of `AWS_LAMBDA_LOG_LEVEL`.
pub fn init() {
    let level = level(std::env::var("AWS_LAMBDA_LOG_LEVEL").ok().as_deref());
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_target(false);
    // The runtime logs the error of an invocation once more, and in Rust's own notation.
    let filter = Targets::new()
        .with_default(level)
        .with_target("lambda_runtime", LevelFilter::OFF);
    tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .init();
}

/// `INFO` if the variable is not set or not a level: a log that is silent by mistake helps nobody.
/// `INFO` is also the most there is: below it there are only the libraries' own traces, which may
/// show what passes through them.
fn level(variable: Option<&str>) -> LevelFilter {
    match variable {
        Some("ERROR" | "error" | "FATAL" | "fatal") => LevelFilter::ERROR,
        Some("WARN" | "warn") => LevelFilter::WARN,
        Some(_) | None => LevelFilter::INFO,
    }
}

/// Says why the function can not start, and ends the process: Lambda reports the exit, and the
/// line names the cause.
pub fn refuse_to_start(cause: &dyn std::error::Error) -> ! {
    tracing::error!(%cause, "the function can not start");
    // Nobody is left to tell if the last line can not be written.
    let _ = std::io::stdout().flush();
    std::process::exit(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_level_is_more_talkative_than_info() {
        for (variable, expected) in [
            (None, LevelFilter::INFO),
            (Some("loud"), LevelFilter::INFO),
            (Some("TRACE"), LevelFilter::INFO),
            (Some("DEBUG"), LevelFilter::INFO),
            (Some("WARN"), LevelFilter::WARN),
            (Some("error"), LevelFilter::ERROR),
            (Some("FATAL"), LevelFilter::ERROR),
            (Some(""), LevelFilter::INFO),
            (Some("OFF"), LevelFilter::INFO),
            (Some("0"), LevelFilter::INFO),
        ] {
            assert_eq!(level(variable), expected, "{variable:?}");
        }
    }
}
