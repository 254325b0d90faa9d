//! What all expressions have in common: the words in them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Item, Reply, not_understood, text};

/// Words of DynamoDB's list that name things in this project. One of them in an expression, in
/// any case and without a `#name`, is refused.
const RESERVED: [&str; 11] = [
    "AT",
    "COUNT",
    "DATA",
    "ERROR",
    "KEY",
    "REFERENCE",
    "STATE",
    "STATUS",
    "TIMESTAMP",
    "TYPE",
    "URL",
];

/// Checks the words of the expressions of a call: none is reserved, and of the names and values
/// that come with them none is missing and none is left over.
pub(super) fn check(input: &Value, expressions: &[&str]) -> Result<(), Reply> {
    let mut used = BTreeSet::new();
    for expression in expressions {
        let words = text(input, expression)
            .split(|c: char| !(c.is_ascii_alphanumeric() || "_#:".contains(c)));
        for word in words {
            if RESERVED.contains(&word.to_ascii_uppercase().as_str()) {
                return Err(Reply::invalid(format!(
                    "Invalid {expression}: Attribute name is a reserved keyword; reserved keyword: {word}"
                )));
            }
            let given = match word.chars().next() {
                Some('#') => !input["ExpressionAttributeNames"][word].is_null(),
                Some(':') => !input["ExpressionAttributeValues"][word].is_null(),
                _ => continue,
            };
            if !given {
                return Err(Reply::invalid(format!(
                    "Invalid {expression}: An expression attribute used in expression is not defined: {word}"
                )));
            }
            used.insert(word);
        }
    }
    for given in ["ExpressionAttributeNames", "ExpressionAttributeValues"] {
        let words = input[given].as_object().into_iter().flat_map(Map::keys);
        for word in words {
            if !used.contains(word.as_str()) {
                return Err(Reply::invalid(format!(
                    "Value provided in {given} unused in expressions: keys: {{{word}}}"
                )));
            }
        }
    }
    Ok(())
}

/// The attribute that a word means. Nothing within an attribute is understood.
pub(super) fn path(word: &str, input: &Value) -> Result<String, Reply> {
    let word = word.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '#';
    if word.is_empty() || !word.chars().all(plain) {
        return Err(not_understood(word));
    }
    let name = input["ExpressionAttributeNames"][word].as_str();
    Ok(name.unwrap_or(word).to_owned())
}

/// The value that a word means, which is to be a `:name`.
pub(super) fn value<'a>(word: &str, input: &'a Value) -> Result<&'a Value, Reply> {
    let value = &input["ExpressionAttributeValues"][word.trim()];
    value
        .is_object()
        .then_some(value)
        .ok_or_else(|| not_understood(word))
}

/// The arguments of a call of this function, if it is one.
pub(super) fn arguments<'a>(text: &'a str, function: &str) -> Option<Vec<&'a str>> {
    let rest = text.trim().strip_prefix(function)?.trim_start();
    let inner = rest.strip_prefix('(')?.strip_suffix(')')?;
    Some(parts(inner))
}

/// What is between the commas, except for those in parentheses.
pub(super) fn parts(list: &str) -> Vec<&str> {
    let mut depth = 0;
    list.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .collect()
}

/// The attributes of an item that are asked for.
pub(super) fn project(item: &Item, request: &Value) -> Result<Value, Reply> {
    let mut item = item.clone();
    if let Some(projection) = request["ProjectionExpression"].as_str() {
        let words = parts(projection).into_iter();
        let names: BTreeSet<String> = words
            .map(|word| path(word, request))
            .collect::<Result<_, _>>()?;
        item.retain(|name, _| names.contains(name));
    }
    Ok(Value::Object(item))
}
