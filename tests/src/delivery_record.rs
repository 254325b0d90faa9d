//! Delivery records as a test reads and changes them. What would be waiting is an edit: the
//! planned time of an attempt is set to the past, and the next receive is due.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::sqs_event::Job;
use crate::stage::Stage;

const MS_PER_DAY: u64 = 86_400_000;

impl Stage {
    /// The record of a job's delivery as it is now, in DynamoDB's JSON.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn record_of(&self, job: &Job) -> Value {
        let id = job.webhook_id();
        self.record(&id)
            .unwrap_or_else(|| panic!("no record of {id}"))
    }

    /// Sets attributes of a record that is there, in DynamoDB's JSON, or takes away those that
    /// are null.
    ///
    /// # Panics
    /// If there is no record, or the changes are not an object.
    pub fn edit_record(&self, job: &Job, changes: &Value) {
        let mut record = self.record_of(job);
        let attributes = record.as_object_mut().expect("an item");
        for (name, value) in changes.as_object().expect("an object") {
            if value.is_null() {
                attributes.remove(name);
            } else {
                attributes.insert(name.clone(), value.clone());
            }
        }
        self.aws.put_record(record);
    }

    /// Lets the time of a job's next attempt come.
    ///
    /// # Panics
    /// If none is planned.
    pub fn make_due(&self, job: &Job) {
        let record = self.record_of(job);
        assert!(record["nextAt"].is_object(), "no attempt planned: {record}");
        self.edit_record(job, &json!({"nextAt": time_value(now_ms() - 1000)}));
    }
}

/// Now, in milliseconds since 1970.
///
/// # Panics
/// Before 1970.
#[must_use]
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// The milliseconds since 1970 of a time in the one form that records have:
/// `2026-11-30T12:00:00.000Z`.
///
/// # Panics
/// If it has another form.
#[must_use]
pub fn parse_ms(text: &str) -> u64 {
    let digits = |from: usize, to: usize| -> u64 {
        let part = text.get(from..to).unwrap_or_default();
        assert!(part.bytes().all(|byte| byte.is_ascii_digit()), "{text:?}");
        part.parse().unwrap_or_else(|_| panic!("{text:?}"))
    };
    let (year, month, day) = (digits(0, 4), digits(5, 7), digits(8, 10));
    let seconds = (digits(11, 13) * 60 + digits(14, 16)) * 60 + digits(17, 19);
    let ms = days_since_1970(year, month, day) * MS_PER_DAY + seconds * 1000 + digits(20, 23);
    assert_eq!(time_text(ms), text, "not the form of our times");
    ms
}

/// The time of an attribute, or of a field of a history entry, in milliseconds since 1970.
///
/// # Panics
/// If it is not a text of that form.
#[must_use]
pub fn moment(value: &Value) -> u64 {
    parse_ms(value["S"].as_str().unwrap_or_else(|| panic!("{value}")))
}

/// The same as [`parse_ms`] reads it.
#[must_use]
pub fn time_text(ms: u64) -> String {
    let (year, month, day) = (1970..)
        .flat_map(|year| (1..=12).map(move |month| (year, month)))
        .take_while(|(year, month)| days_since_1970(*year, *month, 1) <= ms / MS_PER_DAY)
        .last()
        .map(|(year, month)| {
            let day = ms / MS_PER_DAY - days_since_1970(year, month, 1) + 1;
            (year, month, day)
        })
        .unwrap();
    let seconds = ms / 1000;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        ms % 1000
    )
}

/// The same as an attribute.
#[must_use]
pub fn time_value(ms: u64) -> Value {
    json!({"S": time_text(ms)})
}

/// The entries of a record's history, each without the `M` around it.
///
/// # Panics
/// If it has none.
#[must_use]
pub fn history(record: &Value) -> Vec<Value> {
    let entries = record["history"]["L"].as_array();
    let entries = entries.unwrap_or_else(|| panic!("no history: {record}"));
    entries.iter().map(|entry| entry["M"].clone()).collect()
}

/// Number and outcome of each entry of a record's history.
///
/// # Panics
/// If an entry lacks one of them.
#[must_use]
pub fn story(record: &Value) -> Vec<(u32, String)> {
    history(record)
        .iter()
        .map(|entry| {
            let n = entry["n"]["N"].as_str().expect("n").parse().unwrap();
            (n, entry["outcome"]["S"].as_str().expect("outcome").into())
        })
        .collect()
}

/// In the Gregorian calendar, which counts a leap day every four years, save three in 400.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leap_days_until = |year: u64| year / 4 - year / 100 + year / 400;
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let leap_day = u64::from(is_leap && month > 2);
    let month = usize::try_from(month - 1).unwrap();
    (year - 1970) * 365 + leap_days_until(year - 1) - leap_days_until(1969)
        + BEFORE[month]
        + leap_day
        + day
        - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_date() {
        // `date -u -d … +%s`
        for (text, ms) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2000-02-29T23:59:59.999Z", 951_868_799_999),
            ("2026-11-30T12:00:00.042Z", 1_796_040_000_042),
            ("2028-02-29T00:00:00.000Z", 1_835_395_200_000),
            ("2028-12-31T00:00:00.000Z", 1_861_833_600_000),
            ("2100-03-01T00:00:00.000Z", 4_107_542_400_000),
        ] {
            assert_eq!(parse_ms(text), ms, "{text}");
            assert_eq!(time_text(ms), text);
        }
    }

    #[test]
    #[should_panic(expected = "not the form")]
    fn another_form_is_refused() {
        let _ = parse_ms("2026-11-30T12:00:00.042+00:00");
    }
}
