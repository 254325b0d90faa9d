//! Delivery records, the real program against AWS as the tests play it: what is written down of a
//! delivery, what a received message is owed by it, and what holds while records can be neither
//! read nor written.
//!
//! | module | about |
//! |---|---|
//! | [`rows`], [`bodies`], [`calls`], [`model`] | what is written down, and how many calls it takes |
//! | [`turns`], [`runs`] | which attempt a message is owed, and which message begins anew |
//! | [`policies`], [`variables`] | the published policies end to end, and how operators change them |
//! | [`faults`], [`given_up`] | faults of ours, and what is given up before SQS would lose it |
//! | [`doubtful`], [`unreliable`], [`unwritten`] | records of which little is known |
//! | [`notices`], [`figures`] | what operators are told |

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it stands"
)]

mod bodies;
mod calls;
mod doubtful;
mod faults;
mod figures;
mod given_up;
mod helpers;
mod model;
mod notices;
mod policies;
mod rows;
mod runs;
mod turns;
mod unreliable;
mod unwritten;
mod variables;
