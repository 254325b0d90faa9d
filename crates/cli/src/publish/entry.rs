//! The entries of a file, as `aws events put-events --entries` takes them, and what is refused
//! before it is sent.

use std::time::SystemTime;

use serde::Deserialize;
use serde_json::value::RawValue;
use webhooks_core::timestamp;

use crate::error::Error;

/// The most entries of a call, and the most that they have together, in bytes (EventBridge API
/// Reference, `PutEvents`).
const MOST_ENTRIES: usize = 10;
const MAX_BYTES: usize = 1024 * 1024;
/// What EventBridge counts for the time of an entry, in bytes.
const TIME_BYTES: usize = 14;

/// An event to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `Source`.
    pub source: String,
    /// `DetailType`.
    pub event_type: String,
    /// `Detail`, an object as text, byte for byte as it was given.
    pub detail: String,
    /// `Time`.
    pub time: Option<SystemTime>,
    /// `Resources`.
    pub resources: Vec<String>,
    /// `TraceHeader`.
    pub trace_header: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Given<'a> {
    source: String,
    detail_type: String,
    #[serde(borrow)]
    detail: &'a RawValue,
    #[serde(borrow, default)]
    time: Option<&'a RawValue>,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    trace_header: Option<String>,
    #[serde(default)]
    event_bus_name: Option<String>,
}

/// Where events go, and which of them the rule of the stack lets through.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The bus.
    pub bus: &'a str,
    /// The parameter `EventSources`; `None` if the stack does not tell.
    pub sources: Option<&'a str>,
    /// The parameter `EventTypes`.
    pub types: Option<&'a str>,
}

/// Reads the entries of a file, a list or a single one.
///
/// # Errors
/// Names the entry, from 1, and what is wrong with it.
pub fn read(text: &str, target: Target<'_>) -> Result<Vec<Entry>, Error> {
    let refused = |error: &dyn std::fmt::Display| {
        Error::Usage(format!(
            "the file is not a PutEvents entry, or a list of them: {error}"
        ))
    };
    let given: Vec<&RawValue> = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).map_err(|error| refused(&error))?
    } else {
        vec![serde_json::from_str(text).map_err(|error| refused(&error))?]
    };
    if given.is_empty() || given.len() > MOST_ENTRIES {
        return Err(Error::Usage(format!(
            "the file has {} entries; one call takes 1 to {MOST_ENTRIES}",
            given.len()
        )));
    }
    let entries = given
        .into_iter()
        .zip(1..)
        .map(|(given, number)| {
            read_one(given.get(), target)
                .map_err(|problem| Error::Usage(format!("entry {number}: {problem}")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let bytes: usize = entries.iter().map(Entry::bytes).sum();
    if bytes > MAX_BYTES {
        return Err(Error::Usage(format!(
            "the entries have {bytes} bytes together; EventBridge takes {MAX_BYTES} (1 MiB) in a \
             call"
        )));
    }
    Ok(entries)
}

fn read_one(text: &str, target: Target<'_>) -> Result<Entry, String> {
    let given: Given<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    for (name, value, parameter, allowed) in [
        ("Source", &given.source, "EventSources", target.sources),
        ("DetailType", &given.detail_type, "EventTypes", target.types),
    ] {
        let passes =
            allowed.is_none_or(|allowed| allowed.split(',').any(|one| one.trim() == value));
        if !passes {
            return Err(format!(
                "the rule would not let it through: its {name} is `{value}`, and the stack's \
                 parameter {parameter} is `{}`",
                allowed.unwrap_or_default()
            ));
        }
    }
    match &given.event_bus_name {
        Some(bus) if bus != target.bus => {
            return Err(format!(
                "its EventBusName is `{bus}`, and the stack listens on `{}`: leave it out",
                target.bus
            ));
        }
        Some(_) | None => {}
    }
    let detail = if given.detail.get().starts_with('"') {
        serde_json::from_str(given.detail.get()).map_err(|error| error.to_string())?
    } else {
        given.detail.get().to_owned()
    };
    let is_object = detail.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(&detail).is_ok();
    if !is_object {
        return Err("its Detail is not a JSON object, nor a string that has one in it".to_owned());
    }
    Ok(Entry {
        source: given.source,
        event_type: given.detail_type,
        detail,
        time: given.time.map(|time| read_time(time.get())).transpose()?,
        resources: given.resources,
        trace_header: given.trace_header,
    })
}

/// RFC 3339, or a number of seconds since 1970, which is what the AWS CLI takes too.
fn read_time(raw: &str) -> Result<SystemTime, String> {
    let text: Option<String> = serde_json::from_str(raw).ok();
    let time = match &text {
        Some(text) => timestamp::parse(text),
        None => raw.parse().ok().and_then(|seconds| {
            SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::from_secs(seconds))
        }),
    };
    time.ok_or_else(|| {
        format!("its Time is {raw}; expected a time such as \"2026-11-30T12:00:00Z\"")
    })
}

impl Entry {
    fn bytes(&self) -> usize {
        let texts = [&self.source, &self.event_type, &self.detail];
        let texts = texts.into_iter().chain(&self.resources).map(String::len);
        let time = if self.time.is_some() { TIME_BYTES } else { 0 };
        texts.sum::<usize>() + time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target<'static> = Target {
        bus: "shop",
        sources: Some("shop.orders, shop.returns"),
        types: Some("OrderPaid"),
    };

    fn refused(text: &str) -> String {
        read(text, TARGET).unwrap_err().to_string()
    }

    fn entry(detail: &str) -> String {
        format!(r#"{{"Source":"shop.orders","DetailType":"OrderPaid","Detail":{detail}}}"#)
    }

    #[test]
    fn a_detail_is_passed_on_byte_for_byte_whether_it_is_text_or_an_object() {
        for (given, passed) in [
            (r#""{\"a\":1.0}""#, r#"{"a":1.0}"#),
            (
                r#"{"a": 1.00, "b":12345678901234567890}"#,
                r#"{"a": 1.00, "b":12345678901234567890}"#,
            ),
            (r#"{"a":"\u00e9"}"#, r#"{"a":"\u00e9"}"#),
        ] {
            let entries = read(&entry(given), TARGET).unwrap();
            assert_eq!(entries[0].detail, passed);
            let list = format!("[{0},{0}]", entry(given));
            assert_eq!(
                read(&list, TARGET).unwrap(),
                [&entries[0], &entries[0]].map(Clone::clone)
            );
        }
    }

    #[test]
    fn the_other_fields_are_read() {
        let text = entry("{}").replace(
            "\"Detail\"",
            r#""Time":"2026-11-30T12:00:00Z","Resources":["r"],"TraceHeader":"t","EventBusName":"shop","Detail""#,
        );
        let one = read(&text, TARGET).unwrap().remove(0);
        let noon = timestamp::parse("2026-11-30T12:00:00Z");
        assert_eq!(
            one,
            Entry {
                source: "shop.orders".into(),
                event_type: "OrderPaid".into(),
                detail: "{}".into(),
                time: noon,
                resources: vec!["r".into()],
                trace_header: Some("t".into()),
            }
        );
        let number = text.replace("\"2026-11-30T12:00:00Z\"", "1796040000");
        assert_eq!(read(&number, TARGET).unwrap()[0].time, noon);
    }

    #[test]
    fn what_the_rule_would_not_let_through_names_the_parameter() {
        assert_eq!(
            refused(&entry("{}").replace("shop.orders", "shop")),
            "entry 1: the rule would not let it through: its Source is `shop`, and the stack's \
             parameter EventSources is `shop.orders, shop.returns`"
        );
        assert_eq!(
            refused(&format!(
                "[{},{}]",
                entry("{}"),
                entry("{}").replace("Paid", "Lost")
            )),
            "entry 2: the rule would not let it through: its DetailType is `OrderLost`, and the \
             stack's parameter EventTypes is `OrderPaid`"
        );
    }

    #[test]
    fn what_eventbridge_would_refuse_is_refused_before_it_is_sent() {
        let detail = "entry 1: its Detail is not a JSON object, nor a string that has one in it";
        for given in ["[1]", "null", "7", "\"x\"", r#""[]""#, r#""{""#, "\"\""] {
            assert_eq!(refused(&entry(given)), detail, "{given}");
        }
        assert_eq!(
            refused("[]"),
            "the file has 0 entries; one call takes 1 to 10"
        );
        let eleven = vec![entry("{}"); 11].join(",");
        assert_eq!(
            refused(&format!("[{eleven}]")),
            "the file has 11 entries; one call takes 1 to 10"
        );
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_BYTES));
        assert_eq!(
            refused(&entry(&long)),
            "the entries have 1048604 bytes together; EventBridge takes 1048576 (1 MiB) in a call"
        );
        assert_eq!(
            refused(&entry("{}").replace("\"Detail\"", "\"EventBusName\":\"b\",\"Detail\"")),
            "entry 1: its EventBusName is `b`, and the stack listens on `shop`: leave it out"
        );
        assert_eq!(
            refused(&entry("{}").replace("\"Detail\"", "\"Time\":\"noon\",\"Detail\"")),
            "entry 1: its Time is \"noon\"; expected a time such as \"2026-11-30T12:00:00Z\""
        );
    }

    #[test]
    fn a_file_of_another_form_is_refused() {
        assert_eq!(
            refused("hello"),
            "the file is not a PutEvents entry, or a list of them: expected value at line 1 column 1"
        );
        assert_eq!(
            refused(r#"{"detail-type":"OrderPaid"}"#),
            "entry 1: unknown field `detail-type`, expected one of `Source`, `DetailType`, \
             `Detail`, `Time`, `Resources`, `TraceHeader`, `EventBusName` at line 1 column 14"
        );
        assert_eq!(
            refused(r#"{"Source":"shop.orders"}"#),
            "entry 1: missing field `DetailType` at line 1 column 24"
        );
    }
}
