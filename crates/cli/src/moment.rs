//! Points in time: as people write them, `2h` (ago) or `2026-11-30T12:00:00Z`, and as they are
//! shown.

use std::fmt::{self, Display, Formatter};
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use webhooks_core::timestamp;

use crate::error::Error;
use crate::span;

/// A point in time that is shown in the table's notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(SystemTime);

impl Time {
    /// This time.
    #[must_use]
    pub fn new(time: SystemTime) -> Self {
        Self(time)
    }

    /// The time.
    #[must_use]
    pub fn get(self) -> SystemTime {
        self.0
    }

    /// How long before `now` it is; nothing if it is not before.
    #[must_use]
    pub fn ago(self, now: SystemTime) -> Duration {
        now.duration_since(self.0).unwrap_or_default()
    }
}

impl Display for Time {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.pad(&timestamp::format(self.0))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

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
        let at = || timestamp::parse(text).map(Self::At);
        ago.or_else(at).ok_or_else(|| {
            "expected a duration before now, such as 30m, 2h or 7d, or a time such as \
             2026-11-30T12:00:00Z"
                .to_owned()
        })
    }

    /// When it is.
    #[must_use]
    pub fn at(self, now: SystemTime) -> SystemTime {
        match self {
            Self::Ago(ago) => now.checked_sub(ago).map_or(SystemTime::UNIX_EPOCH, |time| {
                time.max(SystemTime::UNIX_EPOCH)
            }),
            Self::At(time) => time,
        }
    }
}

/// From when to when: the first moment is in it, the last one is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Period {
    /// Not before this.
    pub since: Option<SystemTime>,
    /// Before this.
    pub until: Option<SystemTime>,
}

impl Period {
    /// The one that the options `--since` and `--until` ask for.
    ///
    /// # Errors
    /// If no time lies in it.
    pub fn new(
        since: Option<Moment>,
        until: Option<Moment>,
        now: SystemTime,
    ) -> Result<Self, Error> {
        let period = Self {
            since: since.map(|since| since.at(now)),
            until: until.map(|until| until.at(now)),
        };
        match period.since.zip(period.until) {
            Some((since, until)) if since >= until => Err(Error::Usage(
                "--since is not before --until, so nothing can be meant".into(),
            )),
            Some(_) | None => Ok(period),
        }
    }

    /// Whether a time lies in it.
    #[must_use]
    pub fn holds(&self, time: SystemTime) -> bool {
        self.since.is_none_or(|since| since <= time) && self.until.is_none_or(|until| time < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_its_first_moment_and_not_its_last() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let ago = |seconds| Some(Moment::Ago(Duration::from_secs(seconds)));
        let now = at(100);
        let period = Period::new(ago(20), ago(10), now).unwrap();
        for (seconds, is_in) in [(79, false), (80, true), (89, true), (90, false)] {
            assert_eq!(period.holds(at(seconds)), is_in, "{seconds}");
        }
        assert_eq!(Period::new(None, None, now), Ok(Period::default()));
        assert!(Period::default().holds(now));
        for until in [ago(20), ago(21)] {
            let error = Period::new(ago(20), until, now).unwrap_err();
            assert_eq!(
                error,
                Error::Usage("--since is not before --until, so nothing can be meant".into())
            );
        }
    }

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
