//! Points in time as people write them: `2h` (ago) or `2026-11-30T12:00:00Z`.

use std::time::{Duration, SystemTime};

use webhooks_core::timestamp;

use crate::span;

/// A point in time on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// This long before the command was started.
    Ago(Duration),
    /// This one.
    At(SystemTime),
}

impl Moment {
    /// Reads one.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let ago = span::parse(text).ok().map(Self::Ago);
        ago.or_else(|| timestamp::parse(text).map(Self::At))
            .ok_or_else(|| {
                "expected a duration before now, such as 30m, 2h or 7d, or a time such as \
                 2026-11-30T12:00:00Z"
                    .to_owned()
            })
    }

    /// When it is.
    #[must_use]
    pub fn at(self, now: SystemTime) -> SystemTime {
        match self {
            Self::Ago(ago) => now.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH),
            Self::At(time) => time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_duration_before_now_or_a_time() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_040_000);
        let at = |text| Moment::parse(text).map(|moment| timestamp::format(moment.at(now)));
        assert_eq!(at("2h"), Ok("2026-11-30T10:00:00.000Z".into()));
        assert_eq!(
            at("2026-11-30T13:00:00+01:00"),
            Ok("2026-11-30T12:00:00.000Z".into())
        );
        assert_eq!(at("99999999d"), Ok("1970-01-01T00:00:00.000Z".into()));
        for bad in ["", "yesterday", "2026-11-30", "2"] {
            assert!(Moment::parse(bad).is_err(), "{bad}");
        }
    }
}
