//! What the template says, compared with what the code does and with what AWS needs: the local
//! stack is laxer than AWS and watches no alarm.
//!
//! | module | compares |
//! |---|---|
//! | [`agreement`] | numbers and names that must agree with each other and with the code |
//! | [`environment`] | the functions' variables with those that they read |
//! | [`wiring`] | which resource hands what to which, and where what fails is kept |
//! | [`permissions`] | every grant, one by one |
//! | [`alarms`] | every alarm with the metric that it must watch |
//! | [`dashboard`] | the dashboard and the saved queries with the metrics and log fields there are |
//! | [`receiver`] | the template of a partner's receiver, all of it |
//! | [`documents`] | the README, samconfig.toml and Cargo.toml with the template |

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it stands"
)]

mod agreement;
mod alarms;
mod cloudformation;
mod dashboard;
mod documents;
mod environment;
mod permissions;
mod receiver;
mod wiring;
