//! SSM Parameter Store, as far as secrets are read and written. Every parameter is a SecureString.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Reply;

/// What a SecureString looks like to those who forget to ask for its decryption. It is valid
/// base64, so that nothing but a check of the prefix keeps it from being signed with.
const CIPHERTEXT: &str = "AQICAHhkZWNyeXB0aW9uV2FzTm90QXNrZWRGb3JkZWNyeXB0aW9uV2FzTm90QXNr";

/// How much a standard parameter holds, in bytes.
const VALUE_MAX_BYTES: usize = 4096;

/// The parameters: each with its value and its version.
#[derive(Default)]
pub(super) struct Parameters(BTreeMap<String, (String, u64)>);

impl Parameters {
    /// Sets a value, and gives its version.
    pub(super) fn put(&mut self, name: &str, value: &str) -> u64 {
        let before = self.0.get(name).map_or(0, |(_, version)| *version);
        let version = before + 1;
        self.0.insert(name.to_owned(), (value.to_owned(), version));
        version
    }

    pub(super) fn delete(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    pub(super) fn value(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|(value, _)| value.clone())
    }

    pub(super) fn get_parameters(&self, input: &Value) -> Reply {
        let names: Vec<&str> = input["Names"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if names.is_empty() || names.len() > 10 {
            return Reply::invalid("Member must have length between 1 and 10");
        }
        let (found, missing): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| self.0.contains_key(**name));
        let found: Vec<Value> = found
            .into_iter()
            .filter_map(|name| self.parameter(name, input))
            .collect();
        Reply::Output(json!({"Parameters": found, "InvalidParameters": missing}))
    }

    pub(super) fn get_parameter(&self, input: &Value) -> Reply {
        let name = input["Name"].as_str().unwrap_or_default();
        match self.parameter(name, input) {
            Some(parameter) => Reply::Output(json!({"Parameter": parameter})),
            None => Reply::error(400, "ParameterNotFound"),
        }
    }

    pub(super) fn put_parameter(&mut self, input: &Value) -> Reply {
        let (name, value) = (&input["Name"], &input["Value"]);
        let (Some(name), Some(value)) = (name.as_str(), value.as_str()) else {
            return Reply::invalid("Name and Value are required");
        };
        if input["Type"] != "SecureString" {
            return Reply::invalid(format!("not understood: Type {}", input["Type"]));
        }
        if value.is_empty() || value.len() > VALUE_MAX_BYTES {
            return Reply::invalid("Standard tier parameters support a maximum of 4096 characters");
        }
        if self.0.contains_key(name) && input["Overwrite"] != true {
            return Reply::error(400, "ParameterAlreadyExists");
        }
        Reply::Output(json!({"Version": self.put(name, value), "Tier": "Standard"}))
    }

    pub(super) fn delete_parameter(&mut self, input: &Value) -> Reply {
        if self.delete(input["Name"].as_str().unwrap_or_default()) {
            Reply::Output(json!({}))
        } else {
            Reply::error(400, "ParameterNotFound")
        }
    }

    fn parameter(&self, name: &str, input: &Value) -> Option<Value> {
        let (value, version) = self.0.get(name)?;
        let decrypted = input["WithDecryption"] == true;
        Some(json!({
            "Name": name,
            "Type": "SecureString",
            "Value": if decrypted { value } else { CIPHERTEXT },
            "Version": version,
        }))
    }
}
