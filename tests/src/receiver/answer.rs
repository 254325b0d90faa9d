//! What a receiver does with a request, as a value.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::http1::response;

/// The answer to one request: some acts, then an end.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) acts: Vec<Act>,
    pub(super) end: End,
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    Send(Vec<u8>),
    Wait(Duration),
    /// Waits for a word of the test.
    WaitFor(Arc<Notify>),
    /// One byte at a time.
    Drip(Vec<u8>, Duration),
    /// The same bytes again and again, until the peer hangs up.
    ForEver(Vec<u8>, Duration),
}

#[derive(Clone, Debug)]
pub(super) enum End {
    KeepOpen,
    Close,
    CloseAfter(Duration),
    CloseOn(Arc<Notify>),
    Reset,
    Hang,
}

impl Answer {
    /// A whole response without a body, after which the connection stays open.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::with(status, &[], b"")
    }

    /// A whole response with these headers and this body.
    #[must_use]
    pub fn with(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Self {
        Self::raw(response(status, headers, body))
    }

    /// A response with a `Retry-After`.
    #[must_use]
    pub fn retry_after(status: u16, value: &str) -> Self {
        Self::with(status, &[("Retry-After", value)], b"")
    }

    /// These bytes, whatever they mean.
    #[must_use]
    pub fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self {
            acts: vec![Act::Send(bytes.as_ref().to_owned())],
            end: End::KeepOpen,
        }
    }

    /// Nothing, with the connection left open; combine with the ends.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            acts: Vec::new(),
            end: End::KeepOpen,
        }
    }

    /// Nothing, for ever.
    #[must_use]
    pub fn hang() -> Self {
        Self::nothing().then_hang()
    }

    /// These bytes, one at a time, with a pause after each.
    #[must_use]
    pub fn drip(bytes: impl AsRef<[u8]>, pause: Duration) -> Self {
        Self {
            acts: vec![Act::Drip(bytes.as_ref().to_owned(), pause)],
            end: End::KeepOpen,
        }
    }

    /// The same, but first a pause.
    #[must_use]
    pub fn after(mut self, pause: Duration) -> Self {
        self.acts.insert(0, Act::Wait(pause));
        self
    }

    /// The same, but not before the test has given its word by `notify_one`.
    #[must_use]
    pub fn on(mut self, word: &Arc<Notify>) -> Self {
        self.acts.insert(0, Act::WaitFor(Arc::clone(word)));
        self
    }

    /// The same, but first these bytes, for example an interim response.
    #[must_use]
    pub fn preceded_by(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.acts.insert(0, Act::Send(bytes.as_ref().to_owned()));
        self
    }

    /// The same, then these bytes again and again with a pause after each.
    #[must_use]
    pub fn then_for_ever(mut self, bytes: impl AsRef<[u8]>, pause: Duration) -> Self {
        self.acts
            .push(Act::ForEver(bytes.as_ref().to_owned(), pause));
        self
    }

    /// The same, then the connection is closed properly (FIN).
    #[must_use]
    pub fn then_close(mut self) -> Self {
        self.end = End::Close;
        self
    }

    /// The same, then the connection is closed properly (FIN) after a pause.
    #[must_use]
    pub fn then_close_after(mut self, pause: Duration) -> Self {
        self.end = End::CloseAfter(pause);
        self
    }

    /// The same, then the connection is closed properly (FIN) when the test gives its word by
    /// `notify_one`.
    #[must_use]
    pub fn then_close_on(mut self, word: &Arc<Notify>) -> Self {
        self.end = End::CloseOn(Arc::clone(word));
        self
    }

    /// The same, then the connection is reset (RST).
    #[must_use]
    pub fn then_reset(mut self) -> Self {
        self.end = End::Reset;
        self
    }

    /// The same, then nothing more comes and nothing more is answered.
    #[must_use]
    pub fn then_hang(mut self) -> Self {
        self.end = End::Hang;
        self
    }
}
