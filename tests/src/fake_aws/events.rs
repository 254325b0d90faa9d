//! EventBridge, as far as a function puts events on a bus.

use serde_json::{Value, json};

use super::Reply;

/// All entries of a call together, in bytes.
const MAX_BYTES: usize = 1_048_576;

pub(super) fn put_events(input: &Value) -> Reply {
    let entries = input["Entries"].as_array().map_or(&[][..], Vec::as_slice);
    if !(1..=10).contains(&entries.len()) {
        return Reply::invalid("Member must have length between 1 and 10");
    }
    let texts = ["Source", "DetailType", "Detail"];
    let bytes: usize = entries
        .iter()
        .flat_map(|entry| texts.map(|name| text(entry, name).len()))
        .sum();
    if bytes > MAX_BYTES {
        return Reply::invalid("Total size of the entries in the request is over the limit.");
    }
    let results: Vec<Value> = entries
        .iter()
        .enumerate()
        .map(|(number, entry)| match fault(entry, &texts) {
            Some((code, message)) => json!({"ErrorCode": code, "ErrorMessage": message}),
            None => json!({"EventId": format!("17793124-05d4-b198-2fde-{number:012}")}),
        })
        .collect();
    let failed = results.iter().filter(|result| result["EventId"].is_null());
    Reply::Output(json!({"FailedEntryCount": failed.count(), "Entries": results}))
}

fn fault(entry: &Value, required: &[&str]) -> Option<(&'static str, String)> {
    let missing = required.iter().find(|name| text(entry, name).is_empty());
    if let Some(name) = missing {
        let message =
            format!("Parameter {name} is not valid. Reason: {name} is a required argument.");
        return Some(("InvalidArgument", message));
    }
    let detail: Value = serde_json::from_str(text(entry, "Detail")).unwrap_or_default();
    (!detail.is_object()).then(|| ("MalformedDetail", "Detail is malformed.".into()))
}

fn text<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(detail: &str) -> Value {
        json!({"Source": "s", "DetailType": "t", "Detail": detail})
    }

    #[test]
    fn an_event_gets_an_id_and_a_broken_one_a_reason() {
        let entries = [entry("{}"), entry(""), entry("[]"), entry(r#"{"a":1}"#)];
        assert_eq!(
            put_events(&json!({"Entries": entries})),
            Reply::Output(json!({"FailedEntryCount": 2, "Entries": [
                {"EventId": "17793124-05d4-b198-2fde-000000000000"},
                {"ErrorCode": "InvalidArgument", "ErrorMessage": "Parameter Detail is not valid. Reason: Detail is a required argument."},
                {"ErrorCode": "MalformedDetail", "ErrorMessage": "Detail is malformed."},
                {"EventId": "17793124-05d4-b198-2fde-000000000003"},
            ]}))
        );
    }

    #[test]
    fn a_call_takes_one_to_ten_events() {
        let taken = |count| {
            let entries = vec![entry("{}"); count];
            matches!(put_events(&json!({"Entries": entries})), Reply::Output(_))
        };
        assert_eq!([0, 1, 10, 11].map(taken), [false, true, true, false]);
    }
}
