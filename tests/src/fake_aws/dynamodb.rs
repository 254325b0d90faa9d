//! The subscriptions table. Rows are DynamoDB's JSON; expressions are read as far as a function
//! writes them, and an expression that is not understood fails the call with the reason.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::Reply;

/// Words of DynamoDB's list that name things in this project. One of them in an expression, in
/// any case and without a `#name`, is refused.
const RESERVED: [&str; 8] = [
    "URL",
    "TYPE",
    "STATE",
    "STATUS",
    "TIMESTAMP",
    "DATA",
    "KEY",
    "COUNT",
];

#[derive(Default)]
pub(super) struct Rows(BTreeMap<(String, String), Map<String, Value>>);

type Row = Map<String, Value>;

impl Rows {
    pub(super) fn put(&mut self, row: &Value) {
        let key = key_of(row).expect("a row has its key");
        self.0.insert(key, row.as_object().unwrap().clone());
    }

    pub(super) fn delete(&mut self, event_type: &str, subscriber_id: &str) {
        self.0
            .remove(&(event_type.to_owned(), subscriber_id.to_owned()));
    }

    pub(super) fn get(&self, event_type: &str, subscriber_id: &str) -> Option<Value> {
        let key = (event_type.to_owned(), subscriber_id.to_owned());
        self.0.get(&key).cloned().map(Value::Object)
    }

    pub(super) fn batch_get(&self, input: &Value) -> Reply {
        let mut responses = Map::new();
        let mut count = 0;
        for (table, request) in input["RequestItems"].as_object().into_iter().flatten() {
            if let Err(refusal) = check_words(request, "ProjectionExpression") {
                return refusal;
            }
            let keys = request["Keys"].as_array().map_or(&[][..], Vec::as_slice);
            count += keys.len();
            let distinct: BTreeSet<_> = keys.iter().filter_map(key_of).collect();
            if distinct.len() < keys.len() {
                return Reply::invalid("Provided list of item keys contains duplicates");
            }
            let found = distinct
                .iter()
                .filter_map(|key| self.0.get(key))
                .map(|row| project(row, request))
                .collect();
            responses.insert(table.clone(), Value::Array(found));
        }
        if (1..=100).contains(&count) {
            Reply::Output(json!({"Responses": responses, "UnprocessedKeys": {}}))
        } else {
            Reply::invalid("Too many or no items requested for the BatchGetItem call")
        }
    }

    pub(super) fn get_item(&self, input: &Value) -> Reply {
        let row = key_of(&input["Key"]).and_then(|key| self.0.get(&key));
        Reply::Output(match row {
            Some(row) => json!({"Item": project(row, input)}),
            None => json!({}),
        })
    }

    /// One page of `Query` with the condition `eventType = :x`, in the order of the sort key.
    pub(super) fn query(&self, input: &Value, page_size: Option<usize>) -> Reply {
        for expression in [
            "KeyConditionExpression",
            "ProjectionExpression",
            "FilterExpression",
        ] {
            if let Err(refusal) = check_words(input, expression) {
                return refusal;
            }
        }
        if !input["FilterExpression"].is_null() {
            return Reply::invalid("the tests' table does not filter");
        }
        let condition = input["KeyConditionExpression"].as_str().unwrap_or_default();
        let equation = condition.split_once('=').map(|(name, value)| {
            let value = &input["ExpressionAttributeValues"][value.trim()]["S"];
            (name_of(name, input), value.as_str())
        });
        let Some((name, Some(event_type))) = equation else {
            return Reply::invalid(format!("not understood: {condition}"));
        };
        if name != "eventType" {
            return Reply::invalid("Query condition missed key schema element: eventType");
        }
        let start = key_of(&input["ExclusiveStartKey"]);
        let mut rows = self
            .0
            .iter()
            .filter(|(key, _)| key.0 == event_type && start.as_ref().is_none_or(|s| *key > s));
        let page: Vec<_> = rows
            .by_ref()
            .take(page_size.unwrap_or(usize::MAX))
            .collect();
        let items: Vec<Value> = page.iter().map(|(_, row)| project(row, input)).collect();
        let mut output = json!({"Items": items, "Count": items.len()});
        if let (Some(_), Some(((event_type, subscriber_id), _))) = (rows.next(), page.last()) {
            output["LastEvaluatedKey"] =
                json!({"eventType": {"S": event_type}, "subscriberId": {"S": subscriber_id}});
        }
        Reply::Output(output)
    }

    /// `UpdateItem` with `SET a = :x, …` and a condition of `a = :x` and `attribute_exists(a)`,
    /// joined by `AND`. As in DynamoDB, without a condition it creates a row that is missing.
    pub(super) fn update(&mut self, input: &Value) -> Reply {
        for expression in ["UpdateExpression", "ConditionExpression"] {
            if let Err(refusal) = check_words(input, expression) {
                return refusal;
            }
        }
        let Some(key) = key_of(&input["Key"]) else {
            return Reply::invalid("The provided key element does not match the schema");
        };
        if let Some(condition) = input["ConditionExpression"].as_str() {
            for part in condition.split(" AND ") {
                match holds(part.trim(), self.0.get(&key), input) {
                    Some(true) => {}
                    Some(false) => {
                        return Reply::refusal(
                            400,
                            "ConditionalCheckFailedException",
                            "The conditional request failed",
                        );
                    }
                    None => return Reply::invalid(format!("not understood: {part}")),
                }
            }
        }
        let update = input["UpdateExpression"].as_str().unwrap_or_default();
        let Some(assignments) = update.trim().strip_prefix("SET ") else {
            return Reply::invalid(format!("not understood: {update}"));
        };
        let row = self
            .0
            .entry(key)
            .or_insert_with(|| input["Key"].as_object().cloned().unwrap_or_default());
        for assignment in assignments.split(',') {
            let value = assignment.split_once('=').map(|(name, value)| {
                let value = &input["ExpressionAttributeValues"][value.trim()];
                (name_of(name, input), value)
            });
            match value {
                Some((name, value)) if value.is_object() => row.insert(name, value.clone()),
                _ => return Reply::invalid(format!("not understood: {assignment}")),
            };
        }
        Reply::Output(json!({}))
    }
}

fn holds(condition: &str, row: Option<&Row>, input: &Value) -> Option<bool> {
    let attribute = |name: &str| row.and_then(|row| row.get(&name_of(name, input)));
    if let Some((name, value)) = condition.split_once('=') {
        let value = &input["ExpressionAttributeValues"][value.trim()];
        return value.is_object().then(|| attribute(name) == Some(value));
    }
    let name = condition
        .strip_prefix("attribute_exists(")
        .and_then(|rest| rest.strip_suffix(')'))?;
    Some(attribute(name).is_some())
}

fn project(row: &Row, request: &Value) -> Value {
    let Some(projection) = request["ProjectionExpression"].as_str() else {
        return Value::Object(row.clone());
    };
    let names: BTreeSet<String> = projection
        .split(',')
        .map(|name| name_of(name, request))
        .collect();
    let kept = row.iter().filter(|(name, _)| names.contains(*name));
    Value::Object(
        kept.map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

fn name_of(word: &str, input: &Value) -> String {
    let word = word.trim();
    input["ExpressionAttributeNames"][word]
        .as_str()
        .unwrap_or(word)
        .to_owned()
}

fn check_words(input: &Value, expression: &str) -> Result<(), Reply> {
    let text = input[expression].as_str().unwrap_or_default();
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_#:".contains(c)));
    for word in words {
        if RESERVED.contains(&word.to_ascii_uppercase().as_str()) {
            return Err(Reply::invalid(format!(
                "Invalid {expression}: Attribute name is a reserved keyword; reserved keyword: {word}"
            )));
        }
    }
    Ok(())
}

fn key_of(row: &Value) -> Option<(String, String)> {
    let part = |name: &str| row[name]["S"].as_str().map(str::to_owned);
    Some((part("eventType")?, part("subscriberId")?))
}
