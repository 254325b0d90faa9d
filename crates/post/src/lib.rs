//! One signed POST to a partner: what is sent, where it may go, and what its end means.
//!
//! The function `deliver` sends webhooks with it, and the `webhooks` command its pings, so that a
//! ping proves something about the webhooks.
//!
//! | module | |
//! |---|---|
//! | [`request`] | the url and the headers of a POST |
//! | `exchange` | the POST, its time limit, and its outcome |
//! | `failure` | what an exchange without an answer means |
//! | `connection` | where connections are made, and guarded |
//! | `resolution` | what a name stands for |
//! | `counted` | connections that count what passes through them |

pub mod request;

mod connection;
mod counted;
mod exchange;
mod failure;
mod resolution;

pub use connection::{Trust, TrustError};
pub use exchange::{Posted, Poster};
pub use resolution::{ResolveError, resolve};
