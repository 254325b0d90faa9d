//! Points in time as text: RFC 3339 in UTC, always with three decimals, so that texts sort as the
//! times do.

use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

const MILLISECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// Writes a time, for example `2026-11-30T12:00:00.000Z`. What is smaller than a millisecond is
/// cut off, and a time before 1970 or after 9999 becomes the nearest in between: such times are
/// only met in rows that a person has written.
#[must_use]
pub fn format(time: SystemTime) -> String {
    // What lies beyond the year 9999 can not be written; the last moment before stands for it.
    let written = |time: SystemTime| {
        let nanos = time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
        let time = OffsetDateTime::from_unix_timestamp_nanos(i128::try_from(nanos).ok()?).ok()?;
        time.format(MILLISECONDS).ok()
    };
    match written(time) {
        Some(text) => text,
        None if time < SystemTime::UNIX_EPOCH => "1970-01-01T00:00:00.000Z".to_owned(),
        None => "9999-12-31T23:59:59.999Z".to_owned(),
    }
}

/// Reads a time in any form that RFC 3339 allows.
#[must_use]
pub fn parse(text: &str) -> Option<SystemTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok().map(Into::into)
}

/// Reads a number of milliseconds since 1970, which is how SQS writes times.
#[must_use]
pub fn parse_epoch_millis(text: &str) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(text.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_to_the_millisecond_and_read_again() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_796_040_000_042_900);
        assert_eq!(format(time), "2026-11-30T12:00:00.042Z");
        let read = parse("2026-11-30T12:00:00.042Z").unwrap();
        assert_eq!(format(read), "2026-11-30T12:00:00.042Z");
        assert_eq!(parse_epoch_millis("1796040000042"), Some(read));
        assert_eq!(
            format(SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_040_000)),
            "2026-11-30T12:00:00.000Z"
        );
    }

    #[test]
    fn a_time_that_nobody_means_is_written_too() {
        let late = parse("9999-12-31T23:59:59-01:00").unwrap();
        assert_eq!(format(late), "9999-12-31T23:59:59.999Z");
        let early = parse("0000-01-01T00:00:00+23:00").unwrap();
        assert_eq!(format(early), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn other_forms_of_a_time_are_read() {
        let noon = parse("2026-11-30T12:00:00Z");
        assert!(noon.is_some());
        assert_eq!(parse("2026-11-30T13:00:00+01:00"), noon);
        for bad in ["", "yesterday", "2026-11-30", "2026-11-30 12:00"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
        for bad in ["", "-1", "1.5", "18446744073709551616", "x"] {
            assert_eq!(parse_epoch_millis(bad), None, "{bad:?}");
        }
    }
}
