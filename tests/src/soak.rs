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

use std::time::{SystemTime, UNIX_EPOCH};

/// The time, in milliseconds since 1970.
///
/// # Panics
/// If the clock is set to a time before that.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}
