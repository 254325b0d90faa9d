//! What holds for any input: nothing that a publisher, a partner, an operator or a receiver writes
//! makes a decision panic, and what is taken in comes out as it was.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a broken property stops the test where it stands"
)]

mod generators;
mod messages;
mod retries;
mod trust;

use proptest::test_runner::{Config, FileFailurePersistence};

/// The last second of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

fn cases(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..Config::default()
    }
}
