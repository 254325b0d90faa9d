//! What a partner calls the thing that a webhook is about: an order number, an invoice number.
//!
//! People ask for "order 12345", not for a webhook id. So one field of the event is remembered
//! beside the delivery, and `webhooks log` finds the delivery by it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json;

/// The longest reference, in bytes. What is longer is no number that people ask for.
const MAX_BYTES: usize = 128;

/// The value of the first of these fields that stands at the top of the payload's `data` and is a
/// text or a number.
#[must_use]
pub fn find(payload: &str, fields: &[String]) -> Option<String> {
    #[derive(Deserialize)]
    struct Payload<'a> {
        #[serde(borrow)]
        data: BTreeMap<String, &'a RawValue>,
    }
    if fields.is_empty() {
        return None;
    }
    let Payload { data } = json::object(payload).ok()?;
    fields
        .iter()
        .filter_map(|field| text_of(data.get(field)?))
        .find(|text| (1..=MAX_BYTES).contains(&text.len()))
}

fn text_of(value: &RawValue) -> Option<String> {
    let json = value.get();
    match json.as_bytes().first()? {
        b'"' => serde_json::from_str(json).ok(),
        b'-' | b'0'..=b'9' => Some(json.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(data: &str) -> Option<String> {
        let payload = format!(r#"{{"type":"OrderPaid","timestamp":"t","data":{data}}}"#);
        find(&payload, &["orderId".into(), "invoice".into()])
    }

    #[test]
    fn the_first_field_that_is_a_text_or_a_number_is_the_reference() {
        for (data, expected) in [
            (r#"{"orderId":"K-1001","invoice":"7"}"#, Some("K-1001")),
            (r#"{"total":1,"orderId":12345}"#, Some("12345")),
            (
                r#"{"orderId":123456789012345678901234567890}"#,
                Some("123456789012345678901234567890"),
            ),
            (r#"{"orderId":null,"invoice":"7"}"#, Some("7")),
            (r#"{"orderId":{"orderId":"1"}}"#, None),
            (r#"{"orderId":"K\u00e4se"}"#, Some("Käse")),
            (r#"{"orderId":"1","orderId":"2"}"#, Some("2")),
            (r#"{"orderId":""}"#, None),
            ("{}", None),
            ("[]", None),
        ] {
            assert_eq!(found(data).as_deref(), expected, "{data}");
        }
        let long = "x".repeat(129);
        assert_eq!(found(&format!(r#"{{"orderId":"{long}"}}"#)), None);
    }

    #[test]
    fn without_fields_nothing_is_looked_for() {
        assert_eq!(find(r#"{"data":{"orderId":"1"}}"#, &[]), None);
    }
}
