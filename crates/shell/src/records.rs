//! The rows of the deliveries table: how the parts of a delivery record are read and written.
//!
//! `deliver` writes the rows, the `webhooks` command reads them, and people see them in the
//! console, so names and forms are those of the table's description in the README.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::types::AttributeValue;
use webhooks_core::record::{Entry, Record, State};
use webhooks_core::timestamp;

/// A row, or a part of one.
pub type Item = HashMap<String, AttributeValue>;

/// The index by which a subscriber's deliveries are found, the newest last.
pub const BY_SUBSCRIBER: &str = "bySubscriber";

/// Whether a row should be gone by now: DynamoDB deletes late.
#[must_use]
pub fn has_expired(item: &Item, now: SystemTime) -> bool {
    number::<u64>(item, "expiresAt").is_some_and(|seconds| {
        SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_secs(seconds))
            .is_some_and(|expires_at| expires_at <= now)
    })
}

/// Reads what an attempt needs of a row. Of a delivery that has ended, as a person may have written
/// it down, the times may be missing.
///
/// # Errors
/// Names the first attribute that is missing or is not what it should be.
pub fn record(item: &Item) -> Result<Record, &'static str> {
    let state = text(item, "state")
        .and_then(State::by_name)
        .ok_or("state")?;
    let count = |name: &'static str| match (item.get(name), state) {
        // That it has been delivered counts, whatever else the row says.
        (None, _) | (Some(_), State::Delivered) => Ok(0),
        (Some(AttributeValue::N(number)), _) => number.parse::<u32>().map_err(|_| name),
        (Some(_), _) => Err(name),
    };
    let moment = |name: &'static str| match (time(item, name), state) {
        (Some(time), _) => Ok(time),
        (None, State::Retrying) => Err(name),
        (None, State::Delivered | State::Dead | State::Gone | State::Dropped) => {
            Ok(SystemTime::UNIX_EPOCH)
        }
    };
    Ok(Record {
        state,
        message_id: text(item, "messageId").map(str::to_owned),
        attempts: count("attempts")?,
        refusals: count("refusals")?,
        started_at: moment("startedAt")?,
        created_at: moment("createdAt")?,
        updated_at: moment("updatedAt")?,
        next_at: time(item, "nextAt"),
    })
}

/// Reads the history of a row. What is not an entry is left out.
#[must_use]
pub fn history(item: &Item) -> Vec<Entry> {
    let Some(AttributeValue::L(entries)) = item.get("history") else {
        return Vec::new();
    };
    let entry = |value: &AttributeValue| {
        let item = value.as_m().ok()?;
        Some(Entry {
            n: number(item, "n")?,
            at: time(item, "at")?,
            outcome: text(item, "outcome")?.to_owned(),
            status: number(item, "status"),
            ms: number(item, "ms"),
            error: text(item, "error").map(str::to_owned),
            next_at: time(item, "nextAt"),
        })
    };
    entries.iter().filter_map(entry).collect()
}

/// An entry of a history as it is written down.
#[must_use]
pub fn entry(entry: &Entry) -> AttributeValue {
    let mut item = Item::from([
        ("n".to_owned(), AttributeValue::N(entry.n.to_string())),
        ("at".to_owned(), time_value(entry.at)),
        (
            "outcome".to_owned(),
            AttributeValue::S(entry.outcome.clone()),
        ),
    ]);
    if let Some(status) = entry.status {
        item.insert("status".to_owned(), AttributeValue::N(status.to_string()));
    }
    if let Some(ms) = entry.ms {
        item.insert("ms".to_owned(), AttributeValue::N(ms.to_string()));
    }
    if let Some(error) = &entry.error {
        item.insert("error".to_owned(), AttributeValue::S(error.clone()));
    }
    if let Some(next_at) = entry.next_at {
        item.insert("nextAt".to_owned(), time_value(next_at));
    }
    AttributeValue::M(item)
}

/// A text attribute.
#[must_use]
pub fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    Some(item.get(name)?.as_s().ok()?)
}

/// A time attribute.
#[must_use]
pub fn time(item: &Item, name: &str) -> Option<SystemTime> {
    timestamp::parse(text(item, name)?)
}

/// A number attribute that fits.
#[must_use]
pub fn number<T: std::str::FromStr>(item: &Item, name: &str) -> Option<T> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// A time as it is written down.
#[must_use]
pub fn time_value(time: SystemTime) -> AttributeValue {
    AttributeValue::S(timestamp::format(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_040_000)
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let full = Entry {
            n: 3,
            at: now(),
            outcome: "retry".into(),
            status: Some(503),
            ms: Some(12),
            error: Some("no answer".into()),
            next_at: Some(now() + Duration::from_millis(1500)),
        };
        let bare = Entry {
            n: 1,
            at: now(),
            outcome: "delivered".into(),
            status: None,
            ms: None,
            error: None,
            next_at: None,
        };
        let written = AttributeValue::L(vec![
            entry(&full),
            AttributeValue::S("no entry".into()),
            entry(&bare),
        ]);
        let item = Item::from([("history".into(), written)]);
        assert_eq!(history(&item), [full, bare]);
    }

    #[test]
    fn a_row_that_is_no_record_names_the_attribute() {
        let s = |text: &str| AttributeValue::S(text.into());
        let mut item = Item::from([
            ("state".to_owned(), s("retrying")),
            ("messageId".to_owned(), s("m1")),
            ("attempts".to_owned(), AttributeValue::N("2".into())),
            ("startedAt".to_owned(), s("2026-11-30T12:00:00.000Z")),
            ("createdAt".to_owned(), s("2026-11-30T12:00:00.000Z")),
            ("updatedAt".to_owned(), s("2026-11-30T12:00:00.000Z")),
        ]);
        assert_eq!(
            record(&item),
            Ok(Record {
                state: State::Retrying,
                message_id: Some("m1".into()),
                attempts: 2,
                refusals: 0,
                started_at: now(),
                created_at: now(),
                updated_at: now(),
                next_at: None,
            })
        );
        item.remove("startedAt");
        assert_eq!(record(&item), Err("startedAt"));
        let by_hand = Item::from([("state".to_owned(), s("delivered"))]);
        assert_eq!(record(&by_hand).unwrap().state, State::Delivered);
        item.insert("attempts".into(), s("2"));
        assert_eq!(record(&item), Err("attempts"));
        item.insert("state".into(), s("asleep"));
        assert_eq!(record(&item), Err("state"));
    }

    #[test]
    fn a_row_expires_at_its_second() {
        let item = |seconds: &str| {
            Item::from([("expiresAt".to_owned(), AttributeValue::N(seconds.into()))])
        };
        assert!(has_expired(&item("1796040000"), now()));
        assert!(!has_expired(&item("1796040001"), now()));
        assert!(!has_expired(&item("18446744073709551615"), now()));
        assert!(!has_expired(&Item::new(), now()));
    }
}
