//! SSM Parameter Store, as far as a function reads it. Every parameter is a SecureString.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Reply;

/// What a SecureString looks like to those who forget to ask for its decryption. It is valid
/// base64, so that nothing but a check of the prefix keeps it from being signed with.
const CIPHERTEXT: &str = "AQICAHhkZWNyeXB0aW9uV2FzTm90QXNrZWRGb3JkZWNyeXB0aW9uV2FzTm90QXNr";

pub(super) fn get_parameters(parameters: &BTreeMap<String, String>, input: &Value) -> Reply {
    let names: Vec<&str> = input["Names"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if names.is_empty() || names.len() > 10 {
        return Reply::invalid("Member must have length between 1 and 10");
    }
    let (found, missing): (Vec<&str>, Vec<&str>) = names
        .iter()
        .partition(|name| parameters.contains_key(**name));
    let found: Vec<Value> = found
        .into_iter()
        .map(|name| parameter(name, &parameters[name], input))
        .collect();
    Reply::Output(json!({"Parameters": found, "InvalidParameters": missing}))
}

pub(super) fn get_parameter(parameters: &BTreeMap<String, String>, input: &Value) -> Reply {
    let name = input["Name"].as_str().unwrap_or_default();
    match parameters.get(name) {
        Some(value) => Reply::Output(json!({"Parameter": parameter(name, value, input)})),
        None => Reply::error(400, "ParameterNotFound"),
    }
}

fn parameter(name: &str, value: &str, input: &Value) -> Value {
    let decrypted = input["WithDecryption"] == true;
    json!({
        "Name": name,
        "Type": "SecureString",
        "Value": if decrypted { value } else { CIPHERTEXT },
        "Version": 1,
    })
}
