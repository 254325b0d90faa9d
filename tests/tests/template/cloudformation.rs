//! Reading a template: the short forms of functions (`!Ref`) become the long ones (`{"Ref": …}`),
//! and what follows from the parameters is worked out as CloudFormation does it.

use std::collections::BTreeMap;

use e2e::stack::read;
use saphyr::{LoadableYamlNode as _, Scalar, Yaml};
use serde_json::{Map, Value, json};

/// A template with a value for each parameter.
#[derive(Clone)]
pub struct Template {
    json: Value,
    parameters: BTreeMap<String, String>,
}

impl Template {
    /// The service's template with its parameters' defaults.
    pub fn read() -> Self {
        Self::in_directory("infra")
    }

    /// The receiver's template with its parameters' defaults.
    pub fn read_receiver() -> Self {
        Self::in_directory("infra/receiver")
    }

    fn in_directory(directory: &str) -> Self {
        let text = read(directory, "template.yaml");
        let documents = Yaml::load_from_str(&text).unwrap();
        let [document] = &documents[..] else {
            panic!("{} documents", documents.len());
        };
        let json = to_json(document);
        let parameters = json["Parameters"].as_object().unwrap().iter();
        let parameters = parameters
            .map(|(name, parameter)| (name.clone(), text_of(&parameter["Default"])))
            .collect();
        Self { json, parameters }
    }

    /// The same with another value for a parameter.
    pub fn with(mut self, parameter: &str, value: &str) -> Self {
        let old = self.parameters.insert(parameter.into(), value.into());
        assert!(old.is_some(), "no parameter {parameter}");
        self
    }

    /// The parameters and their values.
    pub fn parameters(&self) -> &BTreeMap<String, String> {
        &self.parameters
    }

    /// A parameter as it is declared.
    pub fn declaration(&self, parameter: &str) -> &Value {
        &self.json["Parameters"][parameter]
    }

    /// The values that a parameter may have.
    pub fn allowed_values(&self, parameter: &str) -> Vec<String> {
        let values = self.declaration(parameter)["AllowedValues"].as_array();
        values.expect("AllowedValues").iter().map(text_of).collect()
    }

    /// A whole section, as it is written.
    pub fn section(&self, name: &str) -> &Value {
        &self.json[name]
    }

    /// The names of all resources of a type.
    pub fn names_of(&self, resource_type: &str) -> Vec<&str> {
        let resources = self.json["Resources"].as_object().unwrap().iter();
        resources
            .filter(|(_, resource)| resource["Type"] == resource_type)
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// A resource's properties. What refers to other resources is left as it is.
    pub fn properties(&self, resource: &str) -> Value {
        let resource = &self.json["Resources"][resource];
        assert!(resource.is_object(), "no such resource");
        self.resolve(&resource["Properties"])
    }

    fn resolve(&self, value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| self.resolve(item)).collect(),
            Value::Object(fields) => match only(fields) {
                Some(("Ref", Value::String(name))) => {
                    self.parameter(name).unwrap_or_else(|| value.clone())
                }
                Some(("Fn::Sub", Value::String(text))) => json!({"Fn::Sub": self.substitute(text)}),
                Some(("Fn::FindInMap", path)) => self.find_in_map(&self.resolve(path)),
                Some(("Fn::If", choice)) => {
                    let holds = self.condition(choice[0].as_str().unwrap());
                    self.resolve(&choice[if holds { 1 } else { 2 }])
                }
                _ => fields
                    .iter()
                    .map(|(name, value)| (name.clone(), self.resolve(value)))
                    .collect(),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        }
    }

    fn parameter(&self, name: &str) -> Option<Value> {
        let value = self.parameters.get(name)?;
        if self.declaration(name)["Type"] == "CommaDelimitedList" {
            return Some(value.split(',').collect());
        }
        Some(value.as_str().into())
    }

    fn substitute(&self, text: &str) -> String {
        let parameters = self.parameters.iter();
        parameters.fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("${{{name}}}"), value)
        })
    }

    fn find_in_map(&self, path: &Value) -> Value {
        let words = path.as_array().unwrap().iter().map(text_of);
        words.fold(self.json["Mappings"].clone(), |map, word| {
            let value = map.get(&word);
            value
                .unwrap_or_else(|| panic!("{path} has no {word}"))
                .clone()
        })
    }

    fn condition(&self, name: &str) -> bool {
        let condition = &self.json["Conditions"][name];
        assert!(condition.is_object(), "no condition {name}");
        self.holds(condition)
    }

    fn holds(&self, condition: &Value) -> bool {
        match only(condition.as_object().unwrap()) {
            Some(("Fn::Not", inner)) => !self.holds(&inner[0]),
            Some(("Fn::Equals", sides)) => {
                let sides = self.resolve(sides);
                sides[0] == sides[1]
            }
            _ => panic!("{condition}"),
        }
    }
}

/// A scalar as text.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => panic!("not a scalar: {value}"),
    }
}

/// A whole number, written as one or as text.
pub fn number(value: &Value) -> u64 {
    text_of(value).parse().unwrap()
}

fn only(fields: &Map<String, Value>) -> Option<(&str, &Value)> {
    let mut fields = fields.iter();
    let (name, value) = fields.next()?;
    fields.next().is_none().then_some((name.as_str(), value))
}

fn to_json(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(flag)) => Value::Bool(*flag),
        Yaml::Value(Scalar::Integer(number)) => (*number).into(),
        Yaml::Value(Scalar::FloatingPoint(number)) => number.into_inner().into(),
        Yaml::Value(Scalar::String(text)) => text.as_ref().into(),
        Yaml::Sequence(items) => items.iter().map(to_json).collect(),
        Yaml::Mapping(fields) => fields
            .iter()
            .map(|(name, value)| (text_of(&to_json(name)), to_json(value)))
            .collect(),
        Yaml::Tagged(tag, value) => {
            assert_eq!(tag.handle, "!", "{tag:?}");
            let value = to_json(value);
            match (tag.suffix.as_str(), &value) {
                ("Ref", _) => json!({"Ref": value}),
                ("GetAtt", Value::String(path)) => {
                    let (resource, attribute) = path.split_once('.').unwrap();
                    json!({"Fn::GetAtt": [resource, attribute]})
                }
                (function, _) => {
                    let mut fields = Map::new();
                    fields.insert(format!("Fn::{function}"), value);
                    Value::Object(fields)
                }
            }
        }
        Yaml::Representation(..) | Yaml::Alias(_) | Yaml::BadValue => panic!("{yaml:?}"),
    }
}
