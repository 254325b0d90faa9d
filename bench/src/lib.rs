//! The measurement of the functions: `make bench` runs it.
//!
//! It drives one environment of a real bootstrap from outside, plays everything around it, and
//! looks at what the process costs. A second program that does the same job in Node.js
//! (`bench/node`) and a bare HTTP client (`src/bin/floor.rs`) are measured the same way, in turns
//! with the function, so that a change in the machine's mood hits all of them.
//!
//! | module | |
//! |---|---|
//! | [`http`] | HTTP/1.1 with as little work as can be |
//! | [`workload`] | SQS batches, and what the world answers to them |
//! | [`fan_out`] | subscriptions in pages, and who has got a job |
//! | [`aws`] | the AWS endpoints, which count |
//! | [`partner`] | the partners |
//! | [`tls`] | their certificate |
//! | [`environment`] | Lambda: one environment, and the clock |
//! | [`floor`] | the bare client as a process |
//! | [`process`] | CPU time and memory of a process |
//! | [`scenario`] | the programs, and what the partners do |
//! | [`deliver`], [`million`], [`dispatch`] | what is measured |
//! | [`running`] | a function at work, and whether it did it |
//! | [`stats`] | what many runs come to |
//! | [`results`], [`goals`], [`report`] | what is made of it |
//! | [`machine`] | where it was measured |
//! | [`run`] | all of it, as the command line says |

#![expect(
    clippy::indexing_slicing,
    reason = "a measurement stops where something is not as it was made"
)]

pub mod aws;
pub mod deliver;
pub mod dispatch;
pub mod environment;
pub mod fan_out;
pub mod floor;
pub mod goals;
pub mod http;
pub mod machine;
pub mod million;
pub mod partner;
pub mod process;
pub mod report;
pub mod results;
pub mod run;
pub mod running;
pub mod scenario;
pub mod stats;
pub mod tls;
pub mod workload;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something went otherwise than it had to.
    #[error("{0}")]
    Wrong(String),
    /// The machine did not play along.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// There is no certificate.
    #[error(transparent)]
    Certificate(#[from] rcgen::Error),
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The results can not be written.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// One in words.
    pub fn new(text: impl Into<String>) -> Self {
        Self::Wrong(text.into())
    }
}
