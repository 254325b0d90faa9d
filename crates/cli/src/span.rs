//! Durations as people write and read them: `90s`, `30m`, `2h`, `7d`, and `2 h 1 min`.

use std::time::Duration;

/// Reads a duration: whole numbers with a unit each, such as `2h` or `1d12h`.
///
/// # Errors
/// If it is not one.
pub fn parse(text: &str) -> Result<Duration, String> {
    read(text).ok_or_else(|| "expected a duration such as 90s, 30m, 2h or 7d".to_owned())
}

fn read(text: &str) -> Option<Duration> {
    let mut seconds: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let unit = tail.chars().next()?;
        let factor = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        let number: u64 = number.parse().ok()?;
        seconds = seconds.checked_add(number.checked_mul(factor)?)?;
        rest = tail.get(unit.len_utf8()..)?;
    }
    (!text.is_empty()).then(|| Duration::from_secs(seconds))
}

/// A duration in seconds for people, as a lower bound: from an hour on seconds are cut off.
#[must_use]
pub fn at_least(seconds: u64) -> String {
    let unit = smallest_unit(seconds);
    exact(seconds / unit * unit)
}

/// The same as an upper bound: from an hour on it is rounded up to a minute.
#[must_use]
pub fn at_most(seconds: u64) -> String {
    exact(seconds.next_multiple_of(smallest_unit(seconds)))
}

fn smallest_unit(seconds: u64) -> u64 {
    match seconds {
        0..3600 => 1,
        3600.. => 60,
    }
}

/// A duration in seconds for people, to the second.
#[must_use]
pub fn exact(seconds: u64) -> String {
    let parts = [
        (seconds / 3600, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{number} {unit}"))
        .collect();
    if parts.is_empty() {
        "0 s".to_owned()
    } else {
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, seconds) in [
            ("90s", 90),
            ("30m", 1800),
            ("2h", 7200),
            ("7d", 604_800),
            ("1w", 604_800),
            ("1d12h", 129_600),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in [
            "",
            "2",
            "h",
            "-2h",
            "2 h",
            "2H",
            "1.5h",
            "2h30",
            "2ĥ",
            "99999999999999999999d",
            "18446744073709551615w",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_lower_bound_is_rounded_down_and_an_upper_one_up() {
        for (seconds, low, high) in [
            (0, "0 s", "0 s"),
            (59, "59 s", "59 s"),
            (60, "1 min", "1 min"),
            (90, "1 min 30 s", "1 min 30 s"),
            (3599, "59 min 59 s", "59 min 59 s"),
            (3630, "1 h", "1 h 1 min"),
            (42_960, "11 h 56 min", "11 h 56 min"),
            (259_199, "71 h 59 min", "72 h"),
        ] {
            assert_eq!(at_least(seconds), low, "{seconds}");
            assert_eq!(at_most(seconds), high, "{seconds}");
        }
    }
}
