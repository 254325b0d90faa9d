//! `ConditionExpression`: comparisons joined by `AND` and `OR`, without parentheses.

use serde_json::Value;

use super::expression::{arguments, path, value};
use super::{Item, Reply, not_understood};

/// Whether an item, or the lack of one, meets the condition of a call.
pub(super) fn holds(input: &Value, item: Option<&Item>) -> Result<bool, Reply> {
    holds_by("ConditionExpression", input, item)
}

/// The same of another of its expressions.
pub(super) fn holds_by(
    expression: &str,
    input: &Value,
    item: Option<&Item>,
) -> Result<bool, Reply> {
    let Some(condition) = input[expression].as_str() else {
        return Ok(true);
    };
    let words: Vec<&str> = condition.split_whitespace().collect();
    let mut any = false;
    for alternative in words.join(" ").split(" OR ") {
        let mut all = true;
        for part in alternative.split(" AND ") {
            all &= is_met(part, input, item)?;
        }
        any |= all;
    }
    Ok(any)
}

fn is_met(part: &str, input: &Value, item: Option<&Item>) -> Result<bool, Reply> {
    let attribute = |word: &str| path(word, input).map(|name| item?.get(&name));
    // An attribute that is missing equals nothing, so that it differs from everything.
    if let Some((word, other)) = part.split_once("<>") {
        return Ok(attribute(word)? != Some(value(other, input)?));
    }
    if let Some((word, other)) = part.split_once('<') {
        let number = |value: &Value| value["N"].as_str()?.parse::<u64>().ok();
        let other = number(value(other, input)?).ok_or_else(|| not_understood(part))?;
        return Ok(attribute(word)?
            .and_then(number)
            .is_some_and(|number| number < other));
    }
    if let Some((word, other)) = part.split_once('=') {
        return Ok(attribute(word)? == Some(value(other, input)?));
    }
    for (function, wanted) in [("attribute_exists", true), ("attribute_not_exists", false)] {
        if let Some([word]) = arguments(part, function).as_deref() {
            return Ok(attribute(word)?.is_some() == wanted);
        }
    }
    Err(not_understood(part))
}
