//! SQS, as far as a function speaks to it, with its own limits.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Reply;

/// Both for one message and for a batch, in bytes.
const MAX_BYTES: usize = 1_048_576;

/// A visibility counts from the receive of the message, which always lies back, in seconds.
const TOO_LONG: i64 = 43_200;

/// `before` is the number of messages that were sent before.
pub(super) fn send_batch(input: &Value, before: &mut usize) -> Reply {
    let entries = match entries(input) {
        Ok(entries) => entries,
        Err(refusal) => return refusal,
    };
    let bytes: usize = entries
        .iter()
        .map(|entry| text(entry, "MessageBody").len())
        .sum();
    if bytes > MAX_BYTES {
        return refusal("BatchRequestTooLong");
    }
    for entry in entries {
        let body = text(entry, "MessageBody");
        if body.is_empty() || !body.chars().all(is_taken) {
            return refusal("InvalidMessageContents");
        }
        let group = text(entry, "MessageGroupId");
        let printable = group.bytes().all(|byte| byte.is_ascii_graphic());
        if !printable || !(1..=128).contains(&group.len()) {
            return refusal("InvalidParameterValue");
        }
    }
    let mut successful = Vec::new();
    for entry in entries {
        *before += 1;
        let id = format!("sent-{before}");
        successful.push(json!({"Id": entry["Id"], "MessageId": id, "MD5OfMessageBody": "-"}));
    }
    Reply::Output(json!({"Successful": successful, "Failed": []}))
}

pub(super) fn change_visibility_batch(input: &Value) -> Reply {
    let entries = match entries(input) {
        Ok(entries) => entries,
        Err(refusal) => return refusal,
    };
    let mut successful = Vec::new();
    let mut failed = Vec::new();
    for entry in entries {
        let seconds = entry["VisibilityTimeout"].as_i64().unwrap_or(-1);
        if text(entry, "ReceiptHandle").is_empty() {
            failed.push(failure(entry, "ReceiptHandleIsInvalid", "no handle"));
        } else if (0..TOO_LONG).contains(&seconds) {
            successful.push(json!({"Id": entry["Id"]}));
        } else {
            failed.push(failure(
                entry,
                "InvalidParameterValue",
                &beyond_the_limit(seconds),
            ));
        }
    }
    Reply::Output(json!({"Successful": successful, "Failed": failed}))
}

/// SQS's words for a visibility that ends too late.
pub(super) fn beyond_the_limit(seconds: i64) -> String {
    format!(
        "Value {seconds} for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]."
    )
}

pub(super) fn failure(entry: &Value, code: &str, message: &str) -> Value {
    json!({"Id": entry["Id"], "SenderFault": true, "Code": code, "Message": message})
}

pub(super) fn entries(input: &Value) -> Result<&Vec<Value>, Reply> {
    let entries = input["Entries"]
        .as_array()
        .filter(|entries| !entries.is_empty());
    let entries = entries.ok_or_else(|| refusal("EmptyBatchRequest"))?;
    if entries.len() > 10 {
        return Err(refusal("TooManyEntriesInBatchRequest"));
    }
    let ids: BTreeSet<&str> = entries.iter().map(|entry| text(entry, "Id")).collect();
    if ids.len() < entries.len() {
        return Err(refusal("BatchEntryIdsNotDistinct"));
    }
    let plain = |id: &&str| {
        (1..=80).contains(&id.len())
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if ids.iter().all(plain) {
        Ok(entries)
    } else {
        Err(refusal("InvalidBatchEntryId"))
    }
}

pub(super) fn text<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry[name].as_str().unwrap_or_default()
}

pub(super) fn refusal(code: &'static str) -> Reply {
    Reply::refusal(400, code, format!("{code}, as SQS says"))
}

/// The characters that a message may have (SQS API Reference, `SendMessage`).
fn is_taken(character: char) -> bool {
    matches!(character,
        '\u{9}' | '\u{a}' | '\u{d}' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}
