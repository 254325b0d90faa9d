//! What a partner answers, by how often it has been sent a delivery.

use std::io::Write as _;
use std::sync::LazyLock;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::receiver::Answer;

/// How long an attempt may take in a local stack, in milliseconds: `AttemptSeconds` of the template.
pub const ATTEMPT_MS: u64 = 3000;

/// How many attempts are made: `RetryAttempts` of the template.
pub const ATTEMPTS: usize = 8;

/// When a late answer comes: well after the attempt is over.
const LATE: Duration = Duration::from_millis(ATTEMPT_MS + 1500);

/// How a partner behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Script {
    /// Accepts at once.
    Good,
    /// Accepts, and hangs up in the middle of its answer's body.
    DropsBody,
    /// Accepts, with a body that never ends.
    EndlessBody,
    /// Accepts, with a body that is small and becomes large.
    GzipBomb,
    /// Accepts twice when the attempt is long over, then in time.
    Late,
    /// Hangs up in the middle of its status line twice, then accepts.
    DropsStatus,
    /// Resets the connection twice when it has read the request, then accepts.
    Resets,
    /// Asks to be left alone three times, then accepts.
    Throttles,
    /// Answers 500 for ever.
    Broken,
    /// Accepts two deliveries, then answers 410.
    Leaves,
    /// Accepts at once, over TLS.
    GoodTls,
    /// Hangs up during its first TLS handshakes, then accepts.
    RecoversTls,
    /// Has a certificate that nobody vouches for.
    SelfSigned,
    /// Speaks no TLS where it should.
    NoTls,
    /// Hangs up during the TLS handshake.
    HangsUpInHandshake,
    /// Does not listen.
    Down,
}

/// During how many handshakes [`Script::RecoversTls`] hangs up: fewer than a delivery has attempts.
pub const BAD_HANDSHAKES: usize = 5;

/// How many deliveries [`Script::Leaves`] accepts.
const BEFORE_LEAVING: usize = 2;

impl Script {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Good,
        Self::DropsBody,
        Self::EndlessBody,
        Self::GzipBomb,
        Self::Late,
        Self::DropsStatus,
        Self::Resets,
        Self::Throttles,
        Self::Broken,
        Self::Leaves,
        Self::GoodTls,
        Self::RecoversTls,
        Self::SelfSigned,
        Self::NoTls,
        Self::HangsUpInHandshake,
        Self::Down,
    ];

    /// Whether the first attempt is accepted in time.
    #[must_use]
    pub fn accepts_at_once(self) -> bool {
        match self {
            Self::Good | Self::DropsBody | Self::EndlessBody | Self::GzipBomb | Self::GoodTls => {
                true
            }
            Self::Late
            | Self::DropsStatus
            | Self::Resets
            | Self::Throttles
            | Self::Broken
            | Self::Leaves
            | Self::RecoversTls
            | Self::SelfSigned
            | Self::NoTls
            | Self::HangsUpInHandshake
            | Self::Down => false,
        }
    }

    /// Whether one of the attempts is the last one in any case: it is accepted in time, or answered
    /// by a 410.
    #[must_use]
    pub fn takes_an_end(self) -> bool {
        match self {
            Self::Good
            | Self::DropsBody
            | Self::EndlessBody
            | Self::GzipBomb
            | Self::Late
            | Self::DropsStatus
            | Self::Resets
            | Self::Throttles
            | Self::Leaves
            | Self::GoodTls
            | Self::RecoversTls => true,
            Self::Broken
            | Self::SelfSigned
            | Self::NoTls
            | Self::HangsUpInHandshake
            | Self::Down => false,
        }
    }

    /// Whether requests get through to it.
    #[must_use]
    pub fn gets_requests(self) -> bool {
        match self {
            Self::Good
            | Self::DropsBody
            | Self::EndlessBody
            | Self::GzipBomb
            | Self::Late
            | Self::DropsStatus
            | Self::Resets
            | Self::Throttles
            | Self::Broken
            | Self::Leaves
            | Self::GoodTls
            | Self::RecoversTls => true,
            Self::SelfSigned | Self::NoTls | Self::HangsUpInHandshake | Self::Down => false,
        }
    }

    /// The answer to a request, and its status if it is to have one. `before` counts the requests
    /// for the same delivery, and `deliveries` the other deliveries of which there was one.
    #[must_use]
    pub fn answer(self, before: usize, deliveries: usize) -> (Option<u16>, Answer) {
        let plain = |status| (Some(status), Answer::status(status));
        match self {
            Self::Good => plain(204),
            Self::DropsBody => (
                Some(200),
                Answer::raw("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nthank you fo")
                    .then_close(),
            ),
            Self::EndlessBody => (
                Some(200),
                Answer::raw("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
                    .then_for_ever([b'.'; 1024], Duration::from_millis(20)),
            ),
            Self::GzipBomb => (
                Some(200),
                // By itself, since the sender does not take all of the rest.
                Answer::raw(BOMB.as_slice()).preceded_by(format!(
                    "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
                    BOMB.len()
                )),
            ),
            Self::Late if before < 2 => (Some(200), Answer::status(200).after(LATE)),
            Self::DropsStatus if before < 2 => (None, Answer::raw("HTTP/1.1 20").then_close()),
            Self::Resets if before < 2 => (None, Answer::nothing().then_reset()),
            Self::Throttles if before < 3 => (Some(429), Answer::retry_after(429, "1")),
            Self::Late | Self::DropsStatus | Self::Resets => plain(204),
            Self::Throttles => plain(200),
            Self::Broken => plain(500),
            Self::GoodTls | Self::RecoversTls => plain(204),
            Self::Leaves if deliveries < BEFORE_LEAVING => plain(204),
            Self::Leaves => plain(410),
            Self::SelfSigned | Self::NoTls | Self::HangsUpInHandshake | Self::Down => {
                unreachable!("no request gets that far")
            }
        }
    }
}

/// A hundred megabytes of nothing in a hundred kilobytes, as a hundred members of one megabyte.
static BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&vec![0; 1_000_000]).unwrap();
    let member = encoder.finish().unwrap();
    member.repeat(100)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_an_end_does_so_within_the_attempts() {
        for script in Script::ALL {
            if !script.gets_requests() {
                continue;
            }
            let ends = |before: usize| {
                let (status, _) = script.answer(before, BEFORE_LEAVING);
                // Of the late partner the first two come too late.
                let is_late = script == Script::Late && before < 2;
                !is_late && status.is_some_and(|status| [200, 204, 410].contains(&status))
            };
            assert_eq!((0..ATTEMPTS).any(ends), script.takes_an_end(), "{script:?}");
            let needs_more = [Script::Leaves, Script::RecoversTls].contains(&script);
            assert_eq!(ends(0), script.accepts_at_once() || needs_more);
        }
    }
}
