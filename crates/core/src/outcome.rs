//! What an attempt came to.

use crate::endpoint::EndpointError;
use crate::retry_after::RetryAfter;

/// The outcome of one attempt, or of the try to make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver answered 2xx.
    Delivered {
        /// The status.
        status: u16,
    },
    /// The receiver answered 410: it wants no more of these.
    Gone,
    /// The attempt failed and the receiver may take it later.
    Retry {
        /// What went wrong.
        failure: Failure,
        /// When the receiver wants to be asked again.
        retry_after: Option<RetryAfter>,
    },
    /// The endpoint rules forbid the url or the address behind it. Nothing was sent.
    Blocked(EndpointError),
    /// Something of ours went wrong; the subscriber is not to blame.
    Fault(Fault),
}

/// How an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// An answer other than 2xx and 410.
    Status(u16),
    /// No status line before the deadline.
    Timeout,
    /// The name could not be resolved.
    Dns,
    /// No connection.
    Connect,
    /// The certificate was not accepted, or the TLS handshake failed.
    Tls,
    /// The connection broke before a status line had come.
    Connection,
    /// What came was not HTTP.
    Protocol,
}

/// What of ours went wrong. Unless it says otherwise, nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The subscription could not be read.
    Subscription,
    /// The row of the subscription is not one.
    Row,
    /// By its receive count the delivery may have used up its attempts, and its record, which
    /// would know, can not be relied on.
    Record,
    /// The message is so old that it would soon expire in the queue.
    TooLate,
    /// The signing secret could not be read, or may not be signed with.
    Secret,
    /// The invocation had no time left for an attempt when it began.
    NoTimeLeft,
    /// The attempt was begun, but the invocation's end came before the attempt's own time limit.
    CutShort,
    /// The subscription could not be switched off after a 410.
    Disable,
}

impl Outcome {
    /// What an answer means: its status line decides, whatever follows it (Standard Webhooks 1.0:
    /// 2xx is success, 410 disables the endpoint, everything else is a failure).
    #[must_use]
    pub fn of_response(status: u16, retry_after: Option<RetryAfter>) -> Self {
        match status {
            200..=299 => Self::Delivered { status },
            410 => Self::Gone,
            _ => Self::Retry {
                failure: Failure::Status(status),
                retry_after,
            },
        }
    }

    /// An attempt that ended without an answer.
    #[must_use]
    pub fn without_answer(failure: Failure) -> Self {
        Self::Retry {
            failure,
            retry_after: None,
        }
    }

    /// The word for logs: `delivered`, `gone`, `retry`, `blocked` or `fault`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Delivered { .. } => "delivered",
            Self::Gone => "gone",
            Self::Retry { .. } => "retry",
            Self::Blocked(_) => "blocked",
            Self::Fault(_) => "fault",
        }
    }

    /// The word for what went wrong, if something did.
    #[must_use]
    pub fn failure(&self) -> Option<&'static str> {
        match self {
            Self::Retry { failure, .. } => Some(failure.name()),
            Self::Blocked(_) => Some("blocked"),
            Self::Fault(fault) => Some(fault.name()),
            Self::Delivered { .. } | Self::Gone => None,
        }
    }

    /// What a failed answer asks for.
    #[must_use]
    pub fn retry_after(&self) -> Option<RetryAfter> {
        match self {
            Self::Retry { retry_after, .. } => *retry_after,
            Self::Delivered { .. } | Self::Gone | Self::Blocked(_) | Self::Fault(_) => None,
        }
    }

    /// The status of the answer, if there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Delivered { status }
            | Self::Retry {
                failure: Failure::Status(status),
                ..
            } => Some(*status),
            Self::Gone | Self::Fault(Fault::Disable) => Some(410),
            Self::Retry { .. } | Self::Blocked(_) | Self::Fault(_) => None,
        }
    }
}

impl Failure {
    /// The word for logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Status(_) => "status",
            Self::Timeout => "timeout",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Connection => "connection",
            Self::Protocol => "protocol",
        }
    }
}

impl Fault {
    /// The words for logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Subscription => "subscription unreadable",
            Self::Row => "subscription row broken",
            Self::Record => "delivery record unreliable",
            Self::TooLate => "message about to expire",
            Self::Secret => "signing secret unusable",
            Self::NoTimeLeft => "no time left",
            Self::CutShort => "cut short by the end of the invocation",
            Self::Disable => "subscription could not be disabled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_2xx_is_delivered() {
        for status in [200, 201, 202, 203, 204, 205, 207, 226, 299] {
            assert_eq!(
                Outcome::of_response(status, Some(RetryAfter::Seconds(300))),
                Outcome::Delivered { status }
            );
        }
    }

    #[test]
    fn only_410_is_gone() {
        assert_eq!(
            Outcome::of_response(410, Some(RetryAfter::Seconds(300))),
            Outcome::Gone
        );
    }

    #[test]
    fn every_other_status_is_a_failure_that_keeps_its_retry_after() {
        let retry_after = Some(RetryAfter::Seconds(300));
        for status in (0..=999).filter(|status| !(200..=299).contains(status) && *status != 410) {
            assert_eq!(
                Outcome::of_response(status, retry_after),
                Outcome::Retry {
                    failure: Failure::Status(status),
                    retry_after
                }
            );
        }
    }
}
