//! Numbers as people write them: `1M`, `2KB`, `1%`.

use webhooks_core::calls::JOB_ENVELOPE_BYTES;
use webhooks_core::packing::MAX_BYTES;

/// The most events that can be asked about: beyond, nothing of the model holds.
const MOST: u64 = 1_000_000_000_000;

/// What a number of things can be counted in.
const COUNTED: [(&str, u64); 3] = [("k", 1_000), ("M", 1_000_000), ("B", 1_000_000_000)];

/// Reads a number of things: `250000`, `1_000_000`, `250k`, `1.5M`, `2B`.
///
/// # Errors
/// If it is none, or none from 1 to 10^12.
pub fn count(text: &str) -> Result<u64, String> {
    whole(text, &COUNTED)
        .filter(|count| (1..=MOST).contains(count))
        .ok_or_else(|| {
            "expected a number from 1 to 1000B, such as 250k, 1.5M or 1_000_000".to_owned()
        })
}

/// The most subscribers of an event that can be asked about.
const MOST_SUBSCRIBERS: u32 = 100_000;

/// Reads a number of subscribers: `1`, `25`, `1k`.
///
/// # Errors
/// If it is none, or none from 1 to 100,000.
pub fn subscribers(text: &str) -> Result<u32, String> {
    whole(text, &COUNTED)
        .and_then(|count| u32::try_from(count).ok())
        .filter(|count| (1..=MOST_SUBSCRIBERS).contains(count))
        .ok_or_else(|| "expected a number from 1 to 100k, such as 3, 1.5k or 1_000".to_owned())
}

/// Reads a size in bytes: `300B`, `2KB` (2000), `2KiB` (2048), `1MiB`.
///
/// # Errors
/// If it is none, or too large for a job with its envelope.
pub fn size(text: &str) -> Result<usize, String> {
    const LARGEST: usize = MAX_BYTES - JOB_ENVELOPE_BYTES;
    let units = [
        ("KiB", 1024),
        ("MiB", 1_048_576),
        ("KB", 1000),
        ("MB", 1_000_000),
        ("B", 1),
    ];
    let expected = "expected a size with its unit, such as 300B, 2KB or 64KiB";
    let bytes = units
        .iter()
        .any(|(unit, _)| text.ends_with(unit))
        .then(|| whole(text, &units))
        .flatten()
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| expected.to_owned())?;
    usize::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes <= LARGEST)
        .ok_or_else(|| format!("a job must fit into 1MiB with its envelope: at most {LARGEST}B"))
}

/// Reads a rate: `1%`, `0.5%` or `0.01`.
///
/// # Errors
/// If it is none. Without `%` a number of 1 or more is none: whoever writes `1` may mean one in a
/// hundred.
pub fn rate(text: &str) -> Result<f64, String> {
    let expected = || "expected a rate from 0% to 100%, such as 1% or 0.01".to_owned();
    let (number, of) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    if !number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(expected());
    }
    let rate = number.parse::<f64>().map_err(|_| expected())? / of;
    if rate > 1.0 || (rate == 1.0 && of == 1.0) {
        return Err(expected());
    }
    Ok(rate)
}

/// A number with one of these units, or with none, which is whole in the end.
fn whole(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, unit) = units
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))
        .unwrap_or((text, 1));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |digits: &str| -> Option<u64> {
        let digits = digits.replace('_', "");
        digits
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(())?;
        digits.parse().ok()
    };
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let parts = digits(fraction)?.checked_mul(unit)?;
    // Between two digits, and one at a time.
    let is_apart = whole.starts_with('_') || whole.ends_with('_') || whole.contains("__");
    if fraction.contains('_') || is_apart || !parts.is_multiple_of(scale) {
        return None;
    }
    digits(whole)?.checked_mul(unit)?.checked_add(parts / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_with_their_units() {
        for (text, number) in [
            ("1", 1),
            ("1_000_000", 1_000_000),
            ("250k", 250_000),
            ("1M", 1_000_000),
            ("1.5M", 1_500_000),
            ("0.5k", 500),
            ("2B", 2_000_000_000),
            ("1000B", MOST),
        ] {
            assert_eq!(count(text), Ok(number), "{text}");
        }
        for bad in [
            "",
            "0",
            "0M",
            "-1",
            "+1",
            "M",
            "1m",
            "1K",
            "1e6",
            "1.5",
            "1.0005k",
            "1M ",
            " 1",
            "_1",
            "1_",
            "1__0",
            "1_k",
            "1_.5k",
            "1._5M",
            "1.",
            ".5M",
            "1001B",
            "1,000",
            "99999999999999999999",
            "1.00000000000000000000M",
        ] {
            assert_eq!(
                count(bad),
                Err("expected a number from 1 to 1000B, such as 250k, 1.5M or 1_000_000".into()),
                "{bad}"
            );
        }
    }

    #[test]
    fn subscribers_are_counted_as_events_are() {
        for (text, number) in [("1", 1), ("1k", 1000), ("1.5k", 1500), ("100_000", 100_000)] {
            assert_eq!(subscribers(text), Ok(number), "{text}");
        }
        for bad in ["", "0", "-1", "1__0", "100001", "1M", "5000000B"] {
            assert_eq!(
                subscribers(bad),
                Err("expected a number from 1 to 100k, such as 3, 1.5k or 1_000".into()),
                "{bad}"
            );
        }
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("300B", 300),
            ("2KB", 2000),
            ("2KiB", 2048),
            ("1.5KB", 1500),
            ("1MB", 1_000_000),
            ("1023KiB", 1_047_552),
            ("1048311B", 1_048_311),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "0B", "300", "2kb", "2 KB", "-2KB", "KB", "0.3B", "1GiB"] {
            assert_eq!(
                size(bad),
                Err("expected a size with its unit, such as 300B, 2KB or 64KiB".into()),
                "{bad}"
            );
        }
        for large in ["1048312B", "1MiB", "2MiB"] {
            assert_eq!(
                size(large),
                Err("a job must fit into 1MiB with its envelope: at most 1048311B".into())
            );
        }
    }

    #[test]
    fn rates_are_read_as_shares_and_in_percent() {
        for (text, share) in [
            ("1%", 0.01),
            ("0.5%", 0.005),
            ("0.01", 0.01),
            ("0", 0.0),
            ("0%", 0.0),
            ("100%", 1.0),
        ] {
            assert_eq!(rate(text), Ok(share), "{text}");
        }
        for bad in [
            "", "%", "1", "2", "1.0", "100.1%", "-1%", "+1%", "1 %", "1e-2", "nan", "inf", "1%%",
            ".", "0.1.2",
        ] {
            assert_eq!(
                rate(bad),
                Err("expected a rate from 0% to 100%, such as 1% or 0.01".into()),
                "{bad}"
            );
        }
    }
}
