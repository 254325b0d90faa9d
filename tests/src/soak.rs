//! `make soak`: a stream of events for many partners, good and bad ones, while AWS fails, functions
//! are killed and messages come twice, and then an account of every delivery.
//!
//! | module | has |
//! |---|---|
//! | [`plan`] | what is to happen, and when: drawn from a seed before anything runs |
//! | [`script`] | what a partner answers |
//! | [`partners`] | the partners' servers, and a log of what came to them |
//! | [`proxy`] | a way from the functions to AWS on which calls fail |
//! | [`run`] | what carries a plan out |
//! | [`evidence`] | what was seen of it, from outside of the functions |
//! | [`oracle`] | the account: delivered, dead, gone or lost |
//! | [`duplicates`] | why something came again that a partner had accepted |
//! | [`delays`] | how late attempts came |
//! | [`report`] | what is printed and kept |
//!
//! docs/soak.md tells how to read what it prints.

pub mod delays;
pub mod duplicates;
pub mod evidence;
pub mod oracle;
pub mod partners;
pub mod plan;
pub mod proxy;
pub mod report;
pub mod run;
pub mod script;

use std::sync::LazyLock;
use std::time::Instant;

use crate::delivery_record;

/// Both clocks, read once.
static BOTH: LazyLock<(Instant, u64)> =
    LazyLock::new(|| (Instant::now(), delivery_record::now_ms()));

/// A moment in milliseconds since 1970. All moments of a run are told by the same reading of the two
/// clocks, so that they keep their distances if somebody sets the clock.
///
/// # Panics
/// If that is further away than numbers go.
#[must_use]
pub fn unix_ms(moment: Instant) -> u64 {
    let (instant, ms) = *BOTH;
    let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap();
    let after = millis(moment.saturating_duration_since(instant));
    (ms + after).saturating_sub(millis(instant.saturating_duration_since(moment)))
}

/// The time, in milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    unix_ms(Instant::now())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_keep_their_distance() {
        let now = Instant::now();
        let later = now + Duration::from_millis(1500);
        let ms = unix_ms(now);
        assert_eq!(unix_ms(later) - ms, 1500);
        assert!(delivery_record::now_ms().abs_diff(ms) < 60_000);
    }
}
