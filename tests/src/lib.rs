//! The harness of the tests that run the real programs: it plays everything around a function,
//! so that a test can say what the world does and read what the function did to it.
//!
//! | module | plays |
//! |---|---|
//! | [`runtime`] | Lambda: one environment of a real bootstrap |
//! | [`fake_aws`] | SQS, DynamoDB, SSM and EventBridge, stricter than an emulator where AWS is |
//! | [`receiver`] | a partner's server, down to the bytes and the way it hangs up |
//! | [`client`] | a sender, down to the bytes and the pace at which they come |
//! | [`bridge_event`] | the events that EventBridge hands to `dispatch` |
//! | [`sqs_event`] | the batches that Lambda hands to `deliver` |
//! | [`delivery_record`] | the time that passes between two receives |
//! | [`signature`] | a partner's check of a signature, written from the specification |
//! | [`webhook`] | a webhook as a receiver gets it |
//! | [`stage`] | all of them together, for one function |
//! | [`network`] | the internet: namespaces with public addresses and no way out |
//! | [`dns`] | the resolver of such a network |
//! | [`tls`] | certificate authorities, and partners' servers with good and bad certificates |
//! | [`production`] | a stage in such a network, where `deliver` runs as in production |
//! | [`command`] | a stage for the `webhooks` command, and the terminal it is run from |
//!
//! [`stack`] plays nothing: it deploys the template with both functions to a local AWS, and does
//! there what an operator does. [`soak`] makes that AWS and its partners fail, and accounts for all
//! that was published.
//!
//! Nothing here uses the code that is tested: what `deliver` signs or `dispatch` writes is
//! compared with a second reading of the specification.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a harness stops the test where it stands"
)]

pub mod bridge_event;
pub mod client;
pub mod command;
pub mod delivery_record;
pub mod dns;
pub mod fake_aws;
pub mod http1;
pub mod network;
pub mod production;
pub mod receiver;
pub mod runtime;
pub mod signature;
pub mod soak;
pub mod sqs_event;
pub mod stack;
pub mod stage;
pub mod tls;
pub mod webhook;
