//! The tables. Items are DynamoDB's JSON. What a call asks for is either done or refused with
//! the reason; nothing is done by halves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::Reply;
use crate::stage::{DELIVERIES_TABLE, RECEIVED_TABLE, TABLE_NAME};

mod condition;
mod expression;
mod search;
mod size;
#[cfg(test)]
mod tests;
mod update;

/// What one `BatchGetItem` and one `BatchWriteItem` take, in all tables together.
const MAX_GETS: usize = 100;
const MAX_PUTS: usize = 25;

type Item = Map<String, Value>;

/// How large DynamoDB counts an item to be, in bytes.
///
/// # Panics
/// If it is none.
#[must_use]
pub fn item_bytes(item: &Value) -> usize {
    let item = item.as_object().expect("an item");
    size::attributes(item).expect("attributes of DynamoDB's types")
}

/// The values of the key attributes, which are all texts, in the order of the schema.
type Key = Vec<String>;

pub(super) struct Tables {
    pub(super) subscriptions: Table,
    pub(super) deliveries: Table,
    pub(super) received: Table,
}

pub(super) struct Table {
    /// The hash key, and the sort key if there is one.
    key_names: &'static [&'static str],
    items: BTreeMap<Key, Item>,
}

impl Default for Tables {
    fn default() -> Self {
        let table = |key_names| Table {
            key_names,
            items: BTreeMap::new(),
        };
        Self {
            subscriptions: table(&["eventType", "subscriberId"]),
            deliveries: table(&["webhookId"]),
            received: table(&["webhookId"]),
        }
    }
}

impl Tables {
    pub(super) fn batch_get(&self, input: &Value) -> Result<Value, Reply> {
        let mut responses = Map::new();
        let mut count = 0;
        for (name, request) in input["RequestItems"].as_object().into_iter().flatten() {
            let table = self.table(name)?;
            expression::check(request, &["ProjectionExpression"])?;
            let keys = list(&request["Keys"])?;
            count += keys.len();
            let distinct = distinct(keys.iter().map(|key| table.key(key)))?;
            let found = distinct.iter().filter_map(|key| table.items.get(key));
            let found = found.map(|item| expression::project(item, request));
            responses.insert(name.clone(), found.collect::<Result<_, _>>()?);
        }
        if (1..=MAX_GETS).contains(&count) {
            Ok(json!({"Responses": responses, "UnprocessedKeys": {}}))
        } else {
            Err(Reply::invalid(
                "Too many or no items requested for the BatchGetItem call",
            ))
        }
    }

    /// `BatchWriteItem` that only puts.
    pub(super) fn batch_write(&mut self, input: &Value) -> Result<Value, Reply> {
        let mut puts = Vec::new();
        for (name, requests) in input["RequestItems"].as_object().into_iter().flatten() {
            let table = self.table(name)?;
            let requests = list(requests)?;
            for request in requests {
                let item = &request["PutRequest"]["Item"];
                let attributes = item.as_object().ok_or_else(|| not_understood(request))?;
                size::check(
                    attributes,
                    "Item size has exceeded the maximum allowed size",
                )?;
                puts.push((name, table.key_in(item)?, attributes));
            }
            let keys = puts.iter().filter(|(other, ..)| *other == name);
            distinct(keys.map(|(_, key, _)| Ok(key.clone())))?;
        }
        if !(1..=MAX_PUTS).contains(&puts.len()) {
            return Err(Reply::invalid(
                "Too many or no items requested for the BatchWriteItem call",
            ));
        }
        for (name, key, item) in puts {
            self.table_mut(name)?.items.insert(key, item.clone());
        }
        Ok(json!({"UnprocessedItems": {}}))
    }

    pub(super) fn get_item(&self, input: &Value) -> Result<Value, Reply> {
        let table = self.table(text(input, "TableName"))?;
        expression::check(input, &["ProjectionExpression"])?;
        let item = table.items.get(&table.key(&input["Key"])?);
        Ok(match item {
            Some(item) => json!({"Item": expression::project(item, input)?}),
            None => json!({}),
        })
    }

    pub(super) fn query(&self, input: &Value, page_size: Option<usize>) -> Result<Value, Reply> {
        search::query(self.table(text(input, "TableName"))?, input, page_size)
    }

    pub(super) fn scan(&self, input: &Value, page_size: Option<usize>) -> Result<Value, Reply> {
        search::scan(self.table(text(input, "TableName"))?, input, page_size)
    }

    /// `PutItem`: the whole item, if there is none or the condition holds for the one there is.
    pub(super) fn put_item(&mut self, input: &Value) -> Result<Value, Reply> {
        let table = self.table_mut(text(input, "TableName"))?;
        expression::check(input, &["ConditionExpression"])?;
        let item = &input["Item"];
        let attributes = item.as_object().ok_or_else(|| not_understood(item))?;
        let key = table.key_in(item)?;
        meets_condition(input, table.items.get(&key))?;
        size::check(
            attributes,
            "Item size has exceeded the maximum allowed size",
        )?;
        table.items.insert(key, attributes.clone());
        Ok(json!({}))
    }

    /// `UpdateItem`. As in DynamoDB, without a condition it creates an item that is missing.
    pub(super) fn update(&mut self, input: &Value) -> Result<Value, Reply> {
        let table = self.table_mut(text(input, "TableName"))?;
        expression::check(input, &["UpdateExpression", "ConditionExpression"])?;
        for unknown in ["ReturnValues", "ReturnValuesOnConditionCheckFailure"] {
            if !matches!(input[unknown].as_str(), None | Some("NONE")) {
                return Err(not_understood(unknown));
            }
        }
        let key = table.key(&input["Key"])?;
        let item = table.items.get(&key);
        meets_condition(input, item)?;
        let item = item.cloned().unwrap_or_else(|| table.attributes(&key));
        let item = update::updated(&item, input, table.key_names)?;
        size::check(
            &item,
            "Item size to update has exceeded the maximum allowed size",
        )?;
        table.items.insert(key, item);
        Ok(json!({}))
    }

    /// `DeleteItem`. As in DynamoDB, without a condition it does not mind that there is none.
    pub(super) fn delete_item(&mut self, input: &Value) -> Result<Value, Reply> {
        let table = self.table_mut(text(input, "TableName"))?;
        expression::check(input, &["ConditionExpression"])?;
        let key = table.key(&input["Key"])?;
        meets_condition(input, table.items.get(&key))?;
        table.items.remove(&key);
        Ok(json!({}))
    }

    fn table(&self, name: &str) -> Result<&Table, Reply> {
        match name {
            TABLE_NAME => Ok(&self.subscriptions),
            DELIVERIES_TABLE => Ok(&self.deliveries),
            RECEIVED_TABLE => Ok(&self.received),
            _ => Err(no_such_table()),
        }
    }

    fn table_mut(&mut self, name: &str) -> Result<&mut Table, Reply> {
        match name {
            TABLE_NAME => Ok(&mut self.subscriptions),
            DELIVERIES_TABLE => Ok(&mut self.deliveries),
            RECEIVED_TABLE => Ok(&mut self.received),
            _ => Err(no_such_table()),
        }
    }
}

impl Table {
    /// What a test or an operator writes: anything that has a key.
    pub(super) fn put(&mut self, item: &Value) {
        let key = self.key_in(item).expect("an item has its key");
        self.items.insert(key, item.as_object().unwrap().clone());
    }

    pub(super) fn delete(&mut self, key: &[&str]) {
        self.items.remove(&owned(key));
    }

    pub(super) fn get(&self, key: &[&str]) -> Option<Value> {
        self.items.get(&owned(key)).cloned().map(Value::Object)
    }

    /// All items, in the order of their keys.
    pub(super) fn all(&self) -> Vec<Value> {
        self.items.values().cloned().map(Value::Object).collect()
    }

    /// The key of an item.
    fn key_in(&self, item: &Value) -> Result<Key, Reply> {
        let part = |name: &&str| {
            let part = item[*name]["S"].as_str().filter(|part| !part.is_empty());
            part.map(str::to_owned)
        };
        let key: Option<Key> = self.key_names.iter().map(part).collect();
        key.ok_or_else(no_such_key)
    }

    /// The same of attributes that may be nothing else.
    fn key(&self, attributes: &Value) -> Result<Key, Reply> {
        let key = self.key_in(attributes)?;
        let count = attributes.as_object().map_or(0, Map::len);
        (count == key.len()).then_some(key).ok_or_else(no_such_key)
    }

    fn attributes(&self, key: &Key) -> Item {
        let names = self.key_names.iter().map(|name| (*name).to_owned());
        names
            .zip(key.iter().map(|part| json!({"S": part})))
            .collect()
    }
}

fn meets_condition(input: &Value, item: Option<&Item>) -> Result<(), Reply> {
    if condition::holds(input, item)? {
        return Ok(());
    }
    Err(Reply::refusal(
        400,
        "ConditionalCheckFailedException",
        "The conditional request failed",
    ))
}

fn owned(key: &[&str]) -> Key {
    key.iter().map(|part| (*part).to_owned()).collect()
}

fn distinct(keys: impl Iterator<Item = Result<Key, Reply>>) -> Result<BTreeSet<Key>, Reply> {
    let mut distinct = BTreeSet::new();
    for key in keys {
        if !distinct.insert(key?) {
            return Err(Reply::invalid(
                "Provided list of item keys contains duplicates",
            ));
        }
    }
    Ok(distinct)
}

fn list(value: &Value) -> Result<&Vec<Value>, Reply> {
    let list = value.as_array().filter(|list| !list.is_empty());
    list.ok_or_else(|| Reply::invalid("Member must have length greater than or equal to 1"))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn no_such_key() -> Reply {
    Reply::invalid("The provided key element does not match the schema")
}

fn no_such_table() -> Reply {
    Reply::refusal(
        400,
        "ResourceNotFoundException",
        "Requested resource not found",
    )
}

/// For what DynamoDB may well take, but this does not.
fn not_understood(what: impl std::fmt::Display) -> Reply {
    Reply::invalid(format!("not understood: {what}"))
}
