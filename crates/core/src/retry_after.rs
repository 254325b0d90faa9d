//! The `Retry-After` header (RFC 9110 §10.2.3).

use std::time::{Duration, SystemTime};

/// When a receiver wants to be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// `delay-seconds`; more than fits stands as the largest number.
    Seconds(u64),
    /// `HTTP-date`.
    At(SystemTime),
}

impl RetryAfter {
    /// Reads a header value: digits alone, or one of the three date formats that RFC 9110 §5.6.7
    /// obliges a recipient to accept. Anything else is `None`, and the sender's own schedule
    /// holds: a guess would sooner be too early than too late.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let value = value.trim_ascii();
        if !value.is_empty() && value.iter().all(u8::is_ascii_digit) {
            let seconds = value.iter().fold(0_u64, |sum, digit| {
                sum.saturating_mul(10)
                    .saturating_add(u64::from(digit - b'0'))
            });
            return Some(Self::Seconds(seconds));
        }
        httpdate::parse_http_date(str::from_utf8(value).ok()?)
            .ok()
            .map(Self::At)
    }

    /// How long to wait from `now`, in whole seconds rounded up; 0 for a time that has passed.
    #[must_use]
    pub fn seconds_from(self, now: SystemTime) -> u64 {
        match self {
            Self::Seconds(seconds) => seconds,
            Self::At(time) => {
                let wait = time.duration_since(now).unwrap_or(Duration::ZERO);
                wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    /// 2026-11-30T12:00:00Z
    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_796_040_000)
    }

    fn wait(value: &str) -> Option<u64> {
        RetryAfter::parse(value.as_bytes()).map(|retry_after| retry_after.seconds_from(now()))
    }

    #[test]
    fn seconds_are_digits_alone() {
        for (value, seconds) in [
            ("120", 120),
            ("00120", 120),
            ("0", 0),
            (" \t 120 \t ", 120),
            ("9999999999", 9_999_999_999),
            ("9223372037", 9_223_372_037),
            ("18446744073709551615", u64::MAX),
            ("18446744073709551616", u64::MAX),
            ("99999999999999999999999999", u64::MAX),
        ] {
            assert_eq!(wait(value), Some(seconds), "{value:?}");
        }
    }

    #[test]
    fn all_three_date_formats_are_read() {
        for value in [
            "Mon, 30 Nov 2026 12:02:00 GMT",
            "Monday, 30-Nov-26 12:02:00 GMT",
            "Mon Nov 30 12:02:00 2026",
        ] {
            assert_eq!(wait(value), Some(120), "{value}");
        }
        assert_eq!(wait("Sun Dec  6 08:49:37 2026"), Some(506_977));
        assert_eq!(
            wait("Wed, 21 Oct 2099 07:28:00 GMT"),
            Some(4_096_250_880 - 1_796_040_000)
        );
    }

    #[test]
    fn a_date_is_waited_for_to_the_full_second() {
        let now = now() + Duration::from_millis(500);
        let retry_after = RetryAfter::parse(b"Mon, 30 Nov 2026 12:02:00 GMT").unwrap();
        assert_eq!(retry_after.seconds_from(now), 120);
    }

    #[test]
    fn a_time_that_has_passed_asks_for_no_wait() {
        for value in [
            "Thu, 01 Jan 1970 00:00:00 GMT",
            "Mon, 30 Nov 2026 11:59:59 GMT",
            "Wednesday, 21-Oct-70 07:28:00 GMT",
        ] {
            assert_eq!(wait(value), Some(0), "{value}");
        }
    }

    #[test]
    fn anything_else_is_ignored() {
        for value in [
            "",
            "    ",
            "-1",
            "-0",
            "-99999999999",
            "+120",
            "1.5",
            "0.493",
            "1.",
            ".5",
            "0x10",
            "120junk",
            "120s",
            "1e3",
            "10 20",
            "Infinity",
            "NaN",
            "null",
            "soon",
            "Mon, 30 Nov 2026 12:02:00 UTC",
            "Mon, 30 Nov 2026 12:02:00 +0000",
            "mon, 30 nov 2026 12:02:00 gmt",
            "Wed, 1 Oct 2099 07:28:00 GMT",
            "Mon, 21 Oct 2099 07:28:00 GMT",
            "Wed, 21 Oct 2099 23:59:60 GMT",
            "2099-10-21T07:28:00Z",
        ] {
            assert_eq!(wait(value), None, "{value:?}");
        }
        assert_eq!(RetryAfter::parse(b"\xff\xfe"), None);
    }
}
