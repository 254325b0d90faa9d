use super::*;

fn with(record: Value) -> Tables {
    let mut tables = Tables::default();
    tables.deliveries.put(&record);
    tables
}

fn record(id: &str) -> Value {
    json!({"webhookId": {"S": id}, "state": {"S": "retrying"}, "attempts": {"N": "1"}})
}

fn put(item: &Value) -> Value {
    json!({"PutRequest": {"Item": item}})
}

fn writes(puts: &[Value]) -> Value {
    json!({"RequestItems": {DELIVERIES_TABLE: puts}})
}

/// An update of the record `a`, for which `#state`, `:one`, `:list` and so on are given if they
/// are in the expressions.
fn update(update: &str, condition: &str) -> Value {
    let mut input = json!({
        "TableName": DELIVERIES_TABLE,
        "Key": {"webhookId": {"S": "a"}},
        "UpdateExpression": update,
    });
    if !condition.is_empty() {
        input["ConditionExpression"] = condition.into();
    }
    let used = |word: &str| update.contains(word) || condition.contains(word);
    if used("#state") {
        input["ExpressionAttributeNames"] = json!({"#state": "state"});
    }
    let values = [
        (":dead", json!({"S": "dead"})),
        (":retrying", json!({"S": "retrying"})),
        (":one", json!({"N": "1"})),
        (":two", json!({"N": "2"})),
        (":entry", json!({"L": [{"M": {"n": {"N": "2"}}}]})),
        (":empty", json!({"L": []})),
    ];
    for (word, value) in values.into_iter().filter(|(word, _)| used(word)) {
        input["ExpressionAttributeValues"][word] = value;
    }
    input
}

/// The code and the message of a refusal.
fn refusal(result: Result<Value, Reply>) -> (&'static str, String) {
    match result {
        Err(Reply::Error {
            status: 400,
            code,
            message,
        }) => (code, message),
        other => panic!("{other:?}"),
    }
}

fn invalid(message: &str) -> (&'static str, String) {
    ("ValidationException", message.to_owned())
}

#[test]
fn one_call_reads_both_tables() {
    let mut tables = with(record("a"));
    let row = json!({"eventType": {"S": "t"}, "subscriberId": {"S": "s"}, "url": {"S": "u"}});
    tables.subscriptions.put(&row);
    let input = json!({"RequestItems": {
        TABLE_NAME: {"Keys": [
            {"eventType": {"S": "t"}, "subscriberId": {"S": "s"}},
            {"eventType": {"S": "t"}, "subscriberId": {"S": "none"}},
        ]},
        DELIVERIES_TABLE: {
            "Keys": [{"webhookId": {"S": "a"}}, {"webhookId": {"S": "none"}}],
            "ProjectionExpression": "webhookId, #state",
            "ExpressionAttributeNames": {"#state": "state"},
        },
    }});
    assert_eq!(
        tables.batch_get(&input),
        Ok(json!({"UnprocessedKeys": {}, "Responses": {
            TABLE_NAME: [row],
            DELIVERIES_TABLE: [{"webhookId": {"S": "a"}, "state": {"S": "retrying"}}],
        }}))
    );
}

#[test]
fn a_call_reads_a_hundred_items_of_all_tables_together() {
    let keys = |count| -> Vec<Value> {
        (0..count)
            .map(|number| json!({"webhookId": {"S": number.to_string()}}))
            .collect()
    };
    let row = json!({"eventType": {"S": "t"}, "subscriberId": {"S": "s"}});
    let taken = |count| {
        let input = json!({"RequestItems": {
            TABLE_NAME: {"Keys": [row]},
            DELIVERIES_TABLE: {"Keys": keys(count)},
        }});
        Tables::default().batch_get(&input).is_ok()
    };
    assert_eq!([1, 99, 100].map(taken), [true, true, false]);
}

#[test]
fn an_unknown_table_and_a_key_of_another_table_are_refused() {
    let mut tables = Tables::default();
    let missing = (
        "ResourceNotFoundException",
        "Requested resource not found".to_owned(),
    );
    let requests = json!({"RequestItems": {"other": [put(&record("a"))]}});
    assert_eq!(refusal(tables.batch_write(&requests)), missing);
    let requests = json!({"RequestItems": {"other": {"Keys": [{"webhookId": {"S": "a"}}]}}});
    assert_eq!(refusal(tables.batch_get(&requests)), missing);
    let mut input = update("SET attempts = :one", "");
    input["TableName"] = "other".into();
    assert_eq!(refusal(tables.update(&input)), missing);
    input["TableName"] = TABLE_NAME.into();
    assert_eq!(
        refusal(tables.update(&input)),
        invalid("The provided key element does not match the schema")
    );
}

#[test]
fn a_batch_of_puts_is_written_as_a_whole_or_not_at_all() {
    let mut tables = with(json!({"webhookId": {"S": "a"}, "messageId": {"S": "m"}}));
    let twice = [record("a"), record("b"), record("a")].map(|item| put(&item));
    assert_eq!(
        refusal(tables.batch_write(&writes(&twice))),
        invalid("Provided list of item keys contains duplicates")
    );
    assert_eq!(tables.deliveries.all().len(), 1);
    let once = [record("a"), record("b")].map(|item| put(&item));
    assert_eq!(
        tables.batch_write(&writes(&once)),
        Ok(json!({"UnprocessedItems": {}}))
    );
    assert_eq!(tables.deliveries.all(), [record("a"), record("b")]);
}

#[test]
fn a_batch_has_up_to_twenty_five_puts() {
    let taken = |count: usize| {
        let puts: Vec<Value> = (0..count)
            .map(|number| put(&record(&number.to_string())))
            .collect();
        Tables::default().batch_write(&writes(&puts)).is_ok()
    };
    assert_eq!([0, 1, 25, 26].map(taken), [false, true, true, false]);
}

#[test]
fn an_update_sets_appends_and_removes() {
    let mut tables = with(record("a"));
    let expression = "SET #state = :dead, history = list_append(if_not_exists(history, :empty), :entry), \
        attempts = if_not_exists(attempts, :two), refusals = if_not_exists(refusals, :two), \
        messageId = attempts";
    assert_eq!(tables.update(&update(expression, "")), Ok(json!({})));
    let mut expected = json!({
        "webhookId": {"S": "a"},
        "state": {"S": "dead"},
        "history": {"L": [{"M": {"n": {"N": "2"}}}]},
        "attempts": {"N": "1"},
        "refusals": {"N": "2"},
        "messageId": {"N": "1"},
    });
    assert_eq!(tables.deliveries.get(&["a"]), Some(expected.clone()));

    let expression = "SET history = list_append(if_not_exists(history, :empty), :entry)\n REMOVE refusals, messageId, nextAt";
    assert_eq!(tables.update(&update(expression, "")), Ok(json!({})));
    let expected = expected.as_object_mut().unwrap();
    expected["history"] = json!({"L": [{"M": {"n": {"N": "2"}}}, {"M": {"n": {"N": "2"}}}]});
    expected.remove("refusals");
    expected.remove("messageId");
    assert_eq!(
        tables.deliveries.get(&["a"]).as_ref(),
        Some(&Value::Object(expected.clone()))
    );
}

#[test]
fn an_update_without_a_condition_creates_the_item() {
    let mut tables = Tables::default();
    let input = update("SET attempts = :one REMOVE nextAt", "");
    assert_eq!(tables.update(&input), Ok(json!({})));
    assert_eq!(
        tables.deliveries.all(),
        [json!({"webhookId": {"S": "a"}, "attempts": {"N": "1"}})]
    );
}

#[test]
fn conditions_are_joined_by_and_before_or() {
    let holds = |condition: &str, mut tables: Tables| {
        let before = tables.deliveries.all();
        match tables.update(&update("SET refusals = :two", condition)) {
            Ok(_) => true,
            result => {
                let expected = (
                    "ConditionalCheckFailedException",
                    "The conditional request failed".to_owned(),
                );
                assert_eq!(refusal(result), expected);
                assert_eq!(tables.deliveries.all(), before);
                false
            }
        }
    };
    for (condition, with_item, without_item) in [
        ("#state = :retrying", true, false),
        ("#state = :dead", false, false),
        ("#state <> :retrying", false, true),
        ("#state <> :dead", true, true),
        ("attribute_exists(#state)", true, false),
        ("attribute_not_exists(#state)", false, true),
        (
            "attribute_not_exists(#state) OR #state <> :dead",
            true,
            true,
        ),
        ("#state = :dead OR attempts = :two", false, false),
        ("attempts = :one AND #state = :dead", false, false),
        (
            "attempts = :one OR #state = :dead AND attempts = :two",
            true,
            false,
        ),
        (
            "attempts = :two AND #state = :dead\nOR attempts = :one",
            true,
            false,
        ),
    ] {
        assert_eq!(
            holds(condition, with(record("a"))),
            with_item,
            "{condition}"
        );
        assert_eq!(
            holds(condition, Tables::default()),
            without_item,
            "{condition}"
        );
    }
}

#[test]
fn what_dynamodb_refuses_changes_nothing() {
    let mut left_over = update("REMOVE nextAt", "");
    left_over["ExpressionAttributeValues"] = json!({":one": {"N": "1"}});
    let cases = [
        (
            left_over,
            "Value provided in ExpressionAttributeValues unused in expressions: keys: {:one}",
        ),
        (
            update("SET state = :dead", ""),
            "Invalid UpdateExpression: Attribute name is a reserved keyword; reserved keyword: state",
        ),
        (
            update("SET attempts = :one", "Reference = :one"),
            "Invalid ConditionExpression: Attribute name is a reserved keyword; reserved keyword: Reference",
        ),
        (
            update("SET attempts = :absent", ""),
            "Invalid UpdateExpression: An expression attribute used in expression is not defined: :absent",
        ),
        (
            update("SET attempts = :two REMOVE attempts", ""),
            "Invalid UpdateExpression: Two document paths overlap with each other: attempts",
        ),
        (
            update("SET webhookId = :dead", ""),
            "Cannot update attribute webhookId. This attribute is part of the key",
        ),
        (
            update(
                "SET attempts = :two, history = list_append(history, :entry)",
                "",
            ),
            "The provided expression refers to an attribute that does not exist in the item",
        ),
        (
            update("SET history = list_append(attempts, :entry)", ""),
            "An operand in the update expression has an incorrect data type: list_append",
        ),
        (
            update("SET attempts = :two", "(attempts = :one)"),
            "not understood: (attempts",
        ),
        (
            update("SET attempts = webhookId + :one", ""),
            "An operand in the update expression has an incorrect data type: +",
        ),
        (
            update("ADD attempts :one", ""),
            "not understood: ADD attempts :one",
        ),
    ];
    for (input, message) in cases {
        let mut tables = with(record("a"));
        assert_eq!(refusal(tables.update(&input)), invalid(message));
        assert_eq!(tables.deliveries.all(), [record("a")]);
    }
}

#[test]
fn an_item_has_up_to_400_kb() {
    // webhookId and its value, `body`.
    let room = 400 * 1024 - 10 - 4;
    let item = |bytes| json!({"webhookId": {"S": "a"}, "body": {"S": "x".repeat(bytes)}});
    let mut tables = Tables::default();
    assert_eq!(
        refusal(tables.batch_write(&writes(&[put(&item(room + 1))]))),
        invalid("Item size has exceeded the maximum allowed size")
    );
    assert!(tables.batch_write(&writes(&[put(&item(room))])).is_ok());
    assert_eq!(
        refusal(tables.update(&update("SET attempts = :one", ""))),
        invalid("Item size to update has exceeded the maximum allowed size")
    );
    assert_eq!(tables.deliveries.all(), [item(room)]);
}

#[test]
fn sizes_are_those_of_the_developer_guide() {
    // Whether it is no larger than that: the key, two names and the filler take the rest.
    let fits = |value: &Value, bytes: usize| {
        let filler = "x".repeat(400 * 1024 - 10 - 1 - 1 - bytes);
        let item = json!({"webhookId": {"S": "a"}, "a": value, "f": {"S": filler}});
        size::check(item.as_object().unwrap(), "").is_ok()
    };
    for (value, bytes) in [
        (json!({"S": "é"}), 2),
        (json!({"N": "0"}), 1),
        (json!({"N": "7"}), 2),
        (json!({"N": "1793275200"}), 5),
        (json!({"B": "AAECAw=="}), 4),
        (json!({"BOOL": true}), 1),
        (json!({"NULL": true}), 1),
        (json!({"L": [{"S": "ab"}, {"N": "7"}]}), 3 + 2 + 2 + 2),
        (json!({"M": {"ab": {"S": "c"}}}), 3 + 1 + 2 + 1),
    ] {
        assert!(fits(&value, bytes), "{value}");
        assert!(!fits(&value, bytes - 1), "{value}");
    }
    for value in [
        json!({}),
        json!({"S": "a", "N": "1"}),
        json!({"N": 1}),
        json!({"N": "one"}),
        json!({"B": "AAECAw"}),
        json!({"L": ["a"]}),
    ] {
        assert!(!fits(&value, 100), "{value}");
    }
}

#[test]
fn an_item_is_deleted_if_its_condition_is_met() {
    let mut tables = with(record("a"));
    let delete = |condition: &str| {
        json!({
            "TableName": DELIVERIES_TABLE,
            "Key": {"webhookId": {"S": "a"}},
            "ConditionExpression": condition,
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        })
    };
    let refused = tables.delete_item(&delete("attempts <> :one"));
    assert_eq!(refusal(refused).0, "ConditionalCheckFailedException");
    assert!(tables.deliveries.get(&["a"]).is_some());
    assert_eq!(
        tables.delete_item(&delete("attempts = :one")),
        Ok(json!({}))
    );
    assert_eq!(tables.deliveries.get(&["a"]), None);
}
