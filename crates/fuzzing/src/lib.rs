//! What holds for any bytes at all: each target takes some, hands them to the product, and panics
//! if something is not as it must be.
//!
//! The same targets are run in two ways. `cargo fuzz` searches with what it sees of the code that an
//! input reaches (`fuzz/`, which needs a nightly compiler). The program `any-bytes` and the tests
//! run the seeds of `fuzz/corpus` and what becomes of them by [`mutation`], on any compiler.
//!
//! | target | bytes |
//! |---|---|
//! | [`text::retry_after`] | a `Retry-After` header |
//! | [`text::job`] | an SQS message |
//! | [`text::event`] | an EventBridge event |
//! | [`text::secrets`] | the value of a signing-secret parameter |
//! | [`endpoint::url`], [`endpoint::address`] | where a subscription points, and what its name resolves to |
//! | [`signature::verify`] | keys, headers and body of a request |
//! | [`batch::batch`] | an invocation of deliver |

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken property stops the target where it stands"
)]

pub mod batch;
pub mod endpoint;
pub mod mutation;
mod partner;
pub mod signature;
pub mod text;

/// A target.
pub type Target = fn(&[u8]);

/// All targets, by the names of their folders in `fuzz/corpus`.
pub const TARGETS: [(&str, Target); 8] = [
    ("retry_after", text::retry_after),
    ("job", text::job),
    ("event", text::event),
    ("secrets", text::secrets),
    ("url", endpoint::url),
    ("address", endpoint::address),
    ("verify", signature::verify),
    ("batch", batch::batch),
];

/// Runs a target by its name, as `fuzz/fuzz_targets` does.
///
/// # Panics
/// If its property does not hold, or there is no such target.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.into_iter().find(|(target, _)| *target == name);
    let (_, target) = target.unwrap_or_else(|| panic!("there is no target {name}"));
    target(data);
}
