//! The decisions of `sqs-webhooks`, and nothing else: no runtime, no AWS, no HTTP client, no
//! clock and no random source. What is needed of the outside comes in as an argument (`now`,
//! `jitter`), what is decided goes out as a value, and the functions `dispatch` and `deliver`
//! carry it out.
//!
//! In the order in which a delivery meets them:
//!
//! | module | decides |
//! |---|---|
//! | [`event`] | what an EventBridge event must be, and the body that is frozen from it |
//! | [`identity`] | what a subscriber may be called, and the `webhook-id` of a delivery |
//! | [`subscription`] | what a row of the subscriptions table says |
//! | [`job`] | the SQS message that carries a delivery |
//! | [`packing`] | which jobs go into one `SendMessageBatch` |
//! | [`endpoint`], [`address`] | where a webhook may be sent |
//! | [`header`] | which headers a subscription may add |
//! | [`secret`], [`signature`] | how it is signed |
//! | [`verify`] | how a receiver finds out that it was |
//! | [`diagnosis`] | why a signature does not match |
//! | [`record`], [`mod@turn`] | whether an attempt is due, and which one |
//! | [`outcome`], [`retry_after`] | what an answer means |
//! | [`policy`], [`mod@decide`] | what happens next, and when |
//! | [`timestamp`], [`mod@reference`] | what is written down of it |
//! | [`json`] | what passes for a JSON object |
//! | [`setting`] | how a function reads its environment |
//! | [`calls`] | how many calls of AWS all this takes |

pub mod address;
pub mod calls;
pub mod decide;
pub mod diagnosis;
pub mod endpoint;
pub mod event;
pub mod header;
pub mod identity;
pub mod job;
pub mod json;
pub mod outcome;
pub mod packing;
pub mod policy;
pub mod record;
pub mod reference;
pub mod retry_after;
pub mod secret;
pub mod setting;
pub mod signature;
pub mod subscription;
pub mod timestamp;
pub mod turn;
pub mod verify;

mod sqs_text;

pub use decide::{DeadReason, Step, decide};
pub use outcome::Outcome;
pub use turn::{Turn, turn};
