//! How large an item is, by the rules of the Developer Guide ("DynamoDB item sizes and formats").

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Item, Reply, not_understood};

/// In bytes.
const MAX_ITEM: usize = 400 * 1024;

/// Checks that an item is made of values, and that they are not too large together.
pub(super) fn check(item: &Item, too_large: &str) -> Result<(), Reply> {
    if attributes(item)? <= MAX_ITEM {
        Ok(())
    } else {
        Err(Reply::invalid(too_large))
    }
}

/// In bytes.
pub(super) fn attributes(attributes: &Item) -> Result<usize, Reply> {
    let sizes = attributes
        .iter()
        .map(|(name, value)| Ok(name.len() + size(value)?));
    sizes.sum()
}

fn size(value: &Value) -> Result<usize, Reply> {
    // A list or a map takes three bytes, and one for each element.
    let content = value.as_object().filter(|types| types.len() == 1);
    let content = content.and_then(|types| types.iter().next());
    match content.map(|(name, content)| (name.as_str(), content)) {
        Some(("S", Value::String(text))) => Ok(text.len()),
        Some(("N", Value::String(text))) if text.parse::<f64>().is_ok_and(f64::is_finite) => {
            Ok(significant_digits(text).div_ceil(2) + 1)
        }
        Some(("B", Value::String(text))) => {
            let bytes = STANDARD.decode(text);
            bytes
                .map(|bytes| bytes.len())
                .map_err(|_| not_understood(value))
        }
        Some(("BOOL", Value::Bool(_)) | ("NULL", Value::Bool(true))) => Ok(1),
        Some(("L", Value::Array(list))) => {
            let elements: Result<usize, Reply> = list.iter().map(size).sum();
            Ok(3 + list.len() + elements?)
        }
        Some(("M", Value::Object(map))) => Ok(3 + map.len() + attributes(map)?),
        _ => Err(not_understood(value)),
    }
}

fn significant_digits(number: &str) -> usize {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits = mantissa.replace(['-', '+', '.'], "");
    digits.trim_matches('0').len()
}
