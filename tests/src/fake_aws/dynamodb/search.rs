//! `Query` and `Scan`: pages of a table or of its index.

use serde_json::{Map, Value, json};

use super::{Item, Key, Reply, Table, condition, expression, not_understood, text};

/// The index of the deliveries: what it is sorted by, and what it has beside that and the key.
const INDEX: &str = "bySubscriber";
const INDEX_KEY: [&str; 2] = ["subscriberId", "updatedAt"];
const IN_INDEX: [&str; 17] = [
    "eventType",
    "eventId",
    "occurredAt",
    "reference",
    "state",
    "attempts",
    "refusals",
    "messageId",
    "startedAt",
    "createdAt",
    "nextAt",
    "expiresAt",
    "deadReason",
    "history",
    "historyCut",
    "bodyOmitted",
    "redrivenAt",
];

/// A table or an index, sorted.
struct View<'a> {
    /// The hash key, the sort key, and what else tells items apart.
    key_names: Vec<&'static str>,
    items: Vec<(Key, Item)>,
    table: &'a Table,
}

/// One page of `Query` with the condition `<hash key> = :x`, which `AND` may narrow by the sort
/// key, in the order of the sort key.
pub(super) fn query(
    table: &Table,
    input: &Value,
    page_size: Option<usize>,
) -> Result<Value, Reply> {
    expression::check(
        input,
        &[
            "KeyConditionExpression",
            "FilterExpression",
            "ProjectionExpression",
        ],
    )?;
    let mut view = View::of(table, input)?;
    let words: Vec<&str> = text(input, "KeyConditionExpression")
        .split_whitespace()
        .collect();
    let (hash, narrowed) = words
        .split_at_checked(3)
        .ok_or_else(|| not_understood(words.join(" ")))?;
    let [name, "=", value] = hash else {
        return Err(not_understood(words.join(" ")));
    };
    is_key(name, view.key_names[0], input)?;
    let value = key_value(value, input)?;
    view.items.retain(|(key, _)| key[0] == value);
    let between = match narrowed {
        [] => None,
        ["AND", name, ">=", from] => Some((name, key_value(from, input)?, None)),
        ["AND", name, "<=", to] => Some((name, "", Some(key_value(to, input)?))),
        ["AND", name, "BETWEEN", from, "AND", to] => {
            Some((name, key_value(from, input)?, Some(key_value(to, input)?)))
        }
        _ => return Err(not_understood(words.join(" "))),
    };
    if let Some((name, from, to)) = between {
        is_key(name, view.key_names[1], input)?;
        view.items.retain(|(key, _)| {
            key[1].as_str() >= from && to.is_none_or(|to| key[1].as_str() <= to)
        });
    }
    if input["ScanIndexForward"] == false {
        view.items.reverse();
    }
    view.page(input, page_size)
}

/// One page of `Scan`.
pub(super) fn scan(table: &Table, input: &Value, page_size: Option<usize>) -> Result<Value, Reply> {
    expression::check(input, &["FilterExpression", "ProjectionExpression"])?;
    View::of(table, input)?.page(input, page_size)
}

fn is_key(word: &str, key_name: &str, input: &Value) -> Result<(), Reply> {
    if expression::path(word, input)? == key_name {
        return Ok(());
    }
    Err(Reply::invalid(format!(
        "Query condition missed key schema element: {key_name}"
    )))
}

fn key_value<'a>(word: &str, input: &'a Value) -> Result<&'a str, Reply> {
    Ok(text(expression::value(word, input)?, "S"))
}

impl<'a> View<'a> {
    fn of(table: &'a Table, input: &Value) -> Result<Self, Reply> {
        match input["IndexName"].as_str() {
            None => Ok(Self {
                key_names: table.key_names.to_vec(),
                items: table.items.clone().into_iter().collect(),
                table,
            }),
            Some(INDEX) if table.key_names == ["webhookId"] => {
                if input["ConsistentRead"] == true {
                    return Err(Reply::invalid(
                        "Consistent reads are not supported on global secondary indexes",
                    ));
                }
                Ok(Self::index(table))
            }
            Some(name) => Err(Reply::invalid(format!(
                "The table does not have the specified index: {name}"
            ))),
        }
    }

    fn index(table: &'a Table) -> Self {
        let key_names: Vec<&str> = INDEX_KEY.iter().chain(table.key_names).copied().collect();
        let entry = |item: &Item| {
            let part = |name: &&str| item.get(*name)?["S"].as_str().map(str::to_owned);
            // What has not all of its key is not in an index.
            let key: Key = key_names.iter().map(part).collect::<Option<_>>()?;
            let mut item = item.clone();
            item.retain(|name, _| {
                let name = name.as_str();
                key_names.contains(&name) || IN_INDEX.contains(&name)
            });
            Some((key, item))
        };
        let mut items: Vec<(Key, Item)> = table.items.values().filter_map(entry).collect();
        items.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self {
            key_names,
            items,
            table,
        }
    }

    /// A filter takes away of what a page has; it does not make the page fuller.
    fn page(self, input: &Value, page_size: Option<usize>) -> Result<Value, Reply> {
        let mut items = self.items.iter();
        if let Some(start) = input["ExclusiveStartKey"].as_object() {
            let part = |name: &&str| start.get(*name)?["S"].as_str().map(str::to_owned);
            let key: Option<Key> = self.key_names.iter().map(part).collect();
            let key = key.filter(|_| start.len() == self.key_names.len());
            let key = key.ok_or_else(|| Reply::invalid("The provided starting key is invalid"))?;
            items.by_ref().find(|(other, _)| *other == key);
        }
        let page: Vec<&(Key, Item)> = items
            .by_ref()
            .take(page_size.unwrap_or(usize::MAX))
            .collect();
        let mut found = Vec::new();
        for (_, item) in &page {
            if condition::holds_by("FilterExpression", input, Some(item))? {
                self.projected(input)?;
                found.push(expression::project(item, input)?);
            }
        }
        let mut output = json!({"Items": found, "Count": found.len(), "ScannedCount": page.len()});
        if let (Some(_), Some((key, _))) = (items.next(), page.last()) {
            let names = self.key_names.iter().map(|name| (*name).to_owned());
            let key: Map<String, Value> = names
                .zip(key.iter().map(|part| json!({"S": part})))
                .collect();
            output["LastEvaluatedKey"] = key.into();
        }
        Ok(output)
    }

    /// An index can not give what it does not have.
    fn projected(&self, input: &Value) -> Result<(), Reply> {
        let (true, Some(projection)) = (
            self.key_names.len() > self.table.key_names.len(),
            input["ProjectionExpression"].as_str(),
        ) else {
            return Ok(());
        };
        for word in expression::parts(projection) {
            let name = expression::path(word, input)?;
            let name = name.as_str();
            if !self.key_names.contains(&name) && !IN_INDEX.contains(&name) {
                return Err(Reply::invalid(format!(
                    "Global secondary index {INDEX} does not project {name}"
                )));
            }
        }
        Ok(())
    }
}
