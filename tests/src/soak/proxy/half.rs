//! A call that is done by half: every second part of it is left out, and the answer says which.

use serde_json::{Map, Value, json};

/// What was left out of a call.
#[derive(Debug, Default)]
pub(super) struct Half {
    rest: Rest,
    /// Whether anything was left in.
    pub(super) has_work: bool,
}

#[derive(Debug, Default)]
enum Rest {
    /// The calls that have one list of entries, each with an id: these ids.
    #[default]
    Nothing,
    Entries(Vec<Value>),
    /// `PutEvents`, which tells by the place: for each entry whether it was left in.
    Places(Vec<bool>),
    /// `BatchGetItem` and `BatchWriteItem`: the same by table as in the request, and how the answer
    /// calls it.
    Tables(&'static str, Map<String, Value>),
}

impl Half {
    /// Takes every second part out of the input of a call, beginning with the first one.
    pub(super) fn of(operation: &str, input: &mut Value) -> Self {
        let mut number = 0;
        let mut stays = || {
            number += 1;
            number % 2 == 0
        };
        if let "BatchGetItem" | "BatchWriteItem" = operation {
            let name = if operation == "BatchGetItem" {
                "UnprocessedKeys"
            } else {
                "UnprocessedItems"
            };
            let mut left_out = Map::new();
            let mut left_in = Map::new();
            for (table, all) in input["RequestItems"].as_object().into_iter().flatten() {
                let (mut yes, mut no) = (all.clone(), all.clone());
                let parts = parts(all).clone();
                let (stay, go): (Vec<Value>, Vec<Value>) = parts.into_iter().partition(|_| stays());
                for (map, value, parts) in
                    [(&mut left_in, &mut yes, stay), (&mut left_out, &mut no, go)]
                {
                    // DynamoDB refuses an empty list.
                    if !parts.is_empty() {
                        *parts_mut(value) = parts.into();
                        map.insert(table.clone(), value.take());
                    }
                }
            }
            let has_work = !left_in.is_empty();
            input["RequestItems"] = left_in.into();
            return Self {
                rest: Rest::Tables(name, left_out),
                has_work,
            };
        }
        let Some(entries) = input["Entries"].as_array_mut() else {
            return Self {
                rest: Rest::Nothing,
                has_work: true,
            };
        };
        let rest = if operation == "PutEvents" {
            let places: Vec<bool> = entries.iter().map(|_| stays()).collect();
            let mut place = places.iter();
            entries.retain(|_| place.next() == Some(&true));
            Rest::Places(places)
        } else {
            let mut ids = Vec::new();
            entries.retain(|entry| {
                let stays = stays();
                if !stays {
                    ids.push(entry["Id"].clone());
                }
                stays
            });
            Rest::Entries(ids)
        };
        Self {
            rest,
            has_work: !entries.is_empty(),
        }
    }

    /// The answer to the whole call, made of that to what was left in.
    pub(super) fn answer(self, answer: &Value) -> Value {
        let mut answer = answer.clone();
        match self.rest {
            Rest::Nothing => {}
            Rest::Entries(ids) => {
                let failed = ids.into_iter().map(|id| {
                    json!({
                        "Id": id,
                        "SenderFault": false,
                        "Code": "InternalError",
                        "Message": "a planned fault",
                    })
                });
                let mut all = answer["Failed"].as_array().cloned().unwrap_or_default();
                all.extend(failed);
                answer["Failed"] = all.into();
                if answer["Successful"].is_null() {
                    answer["Successful"] = json!([]);
                }
            }
            Rest::Places(places) => {
                let done = answer["Entries"].as_array().cloned().unwrap_or_default();
                let mut done = done.into_iter();
                let refused =
                    json!({"ErrorCode": "InternalFailure", "ErrorMessage": "a planned fault"});
                let entries: Vec<Value> = places
                    .into_iter()
                    .map(|was_done| {
                        let done = was_done.then(|| done.next()).flatten();
                        done.unwrap_or_else(|| refused.clone())
                    })
                    .collect();
                let failed = entries
                    .iter()
                    .filter(|entry| entry["ErrorCode"].is_string());
                answer["FailedEntryCount"] = failed.count().into();
                answer["Entries"] = entries.into();
            }
            Rest::Tables(name, left_out) => {
                if name == "UnprocessedKeys" && answer["Responses"].is_null() {
                    answer["Responses"] = json!({});
                }
                answer[name] = left_out.into();
            }
        }
        answer
    }
}

/// What is wanted of a table.
fn parts(wanted: &Value) -> Vec<Value> {
    let list = wanted.as_array().or_else(|| wanted["Keys"].as_array());
    list.cloned().unwrap_or_default()
}

fn parts_mut(wanted: &mut Value) -> &mut Value {
    if wanted.is_array() {
        wanted
    } else {
        &mut wanted["Keys"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halve(operation: &str, mut input: Value, answer: &Value) -> (Value, Value) {
        let half = Half::of(operation, &mut input);
        assert!(half.has_work);
        (input, half.answer(answer))
    }

    #[test]
    fn of_keys_the_rest_was_not_processed() {
        let (input, answer) = halve(
            "BatchGetItem",
            json!({"RequestItems": {
                "a": {"Keys": [1], "ConsistentRead": true},
                "b": {"Keys": [2, 3, 4], "ConsistentRead": true},
            }}),
            &json!({"Responses": {"b": ["two", "four"]}, "UnprocessedKeys": {}}),
        );
        assert_eq!(
            input,
            json!({"RequestItems": {"b": {"Keys": [2, 4], "ConsistentRead": true}}})
        );
        assert_eq!(
            answer,
            json!({
                "Responses": {"b": ["two", "four"]},
                "UnprocessedKeys": {
                    "a": {"Keys": [1], "ConsistentRead": true},
                    "b": {"Keys": [3], "ConsistentRead": true},
                },
            })
        );
    }

    #[test]
    fn of_writes_the_rest_was_not_processed() {
        let (input, answer) = halve(
            "BatchWriteItem",
            json!({"RequestItems": {"a": ["first", "second", "third"]}}),
            &json!({"UnprocessedItems": {}}),
        );
        assert_eq!(input, json!({"RequestItems": {"a": ["second"]}}));
        assert_eq!(
            answer,
            json!({"UnprocessedItems": {"a": ["first", "third"]}})
        );
    }

    #[test]
    fn of_events_the_rest_is_told_by_its_place() {
        let (input, answer) = halve(
            "PutEvents",
            json!({"Entries": ["first", "second", "third"]}),
            &json!({"FailedEntryCount": 0, "Entries": [{"EventId": "2"}]}),
        );
        assert_eq!(input, json!({"Entries": ["second"]}));
        assert_eq!(answer["FailedEntryCount"], 2);
        assert_eq!(answer["Entries"][0]["ErrorCode"], "InternalFailure");
        assert_eq!(answer["Entries"][1], json!({"EventId": "2"}));
        assert_eq!(answer["Entries"][2]["ErrorCode"], "InternalFailure");
    }

    #[test]
    fn a_single_part_is_left_out_and_there_is_nothing_to_do() {
        let mut input = json!({"RequestItems": {"a": {"Keys": [1]}}});
        let all = input["RequestItems"].clone();
        let half = Half::of("BatchGetItem", &mut input);
        assert!(!half.has_work);
        let answer = half.answer(&json!({}));
        assert_eq!(answer, json!({"Responses": {}, "UnprocessedKeys": all}));
    }
}
