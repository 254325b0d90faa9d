//! `UpdateExpression`: `SET` with `list_append`, `if_not_exists` and sums, and `REMOVE`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::expression::{arguments, parts, path, value};
use super::{Item, Reply, not_understood, text};

/// An item after the update. Every value is taken from the item as it was.
pub(super) fn updated(item: &Item, input: &Value, key_names: &[&str]) -> Result<Item, Reply> {
    let mut updated = item.clone();
    let mut written = BTreeSet::new();
    for (keyword, actions) in clauses(text(input, "UpdateExpression"))? {
        for action in parts(&actions) {
            let (target, source) = match (keyword, action.split_once('=')) {
                ("SET", Some((target, source))) => (target, Some(source)),
                ("REMOVE", None) => (action, None),
                _ => return Err(not_understood(action)),
            };
            let target = path(target, input)?;
            if key_names.contains(&target.as_str()) {
                return Err(Reply::invalid(format!(
                    "Cannot update attribute {target}. This attribute is part of the key"
                )));
            }
            if !written.insert(target.clone()) {
                return Err(Reply::invalid(format!(
                    "Invalid UpdateExpression: Two document paths overlap with each other: {target}"
                )));
            }
            match source {
                Some(source) => updated.insert(target, operand(source, item, input)?),
                None => updated.remove(&target),
            };
        }
    }
    Ok(updated)
}

/// `SET` and `REMOVE` with what follows them, each at most once.
fn clauses(update: &str) -> Result<BTreeMap<&str, String>, Reply> {
    let mut clauses: BTreeMap<&str, String> = BTreeMap::new();
    let mut current = "";
    for word in update.split_whitespace() {
        if ["SET", "REMOVE"].contains(&word) {
            if clauses.insert(word, String::new()).is_some() {
                return Err(Reply::invalid(format!(
                    "Invalid UpdateExpression: The \"{word}\" section can only be used once"
                )));
            }
            current = word;
        } else {
            let clause = clauses
                .get_mut(current)
                .ok_or_else(|| not_understood(update))?;
            clause.push_str(word);
            clause.push(' ');
        }
    }
    if clauses.is_empty() {
        return Err(not_understood(update));
    }
    Ok(clauses)
}

fn operand(source: &str, item: &Item, input: &Value) -> Result<Value, Reply> {
    if let Some([first, second]) = arguments(source, "list_append").as_deref() {
        let mut list = elements(first, item, input)?;
        list.extend(elements(second, item, input)?);
        return Ok(json!({"L": list}));
    }
    if let Some([word, otherwise]) = arguments(source, "if_not_exists").as_deref() {
        return match item.get(&path(word, input)?) {
            Some(present) => Ok(present.clone()),
            None => operand(otherwise, item, input),
        };
    }
    if let Some((first, second)) = source.split_once('+') {
        let sum = number(first, item, input)? + number(second, item, input)?;
        return Ok(json!({"N": sum.to_string()}));
    }
    if source.trim().starts_with(':') {
        return value(source, input).cloned();
    }
    let attribute = item.get(&path(source, input)?).cloned();
    attribute.ok_or_else(|| {
        Reply::invalid(
            "The provided expression refers to an attribute that does not exist in the item",
        )
    })
}

fn number(source: &str, item: &Item, input: &Value) -> Result<i64, Reply> {
    let number = operand(source, item, input)?;
    let number = number["N"].as_str().and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| {
        Reply::invalid("An operand in the update expression has an incorrect data type: +")
    })
}

fn elements(source: &str, item: &Item, input: &Value) -> Result<Vec<Value>, Reply> {
    let list = operand(source, item, input)?;
    list["L"].as_array().cloned().ok_or_else(|| {
        Reply::invalid(
            "An operand in the update expression has an incorrect data type: list_append",
        )
    })
}
