//! What the README, samconfig.toml and Cargo.toml say about the template.

use std::collections::{BTreeMap, BTreeSet};

use e2e::stack::read;
use toml::Table;

use crate::cloudformation::Template;

/// The parameters that the README lists below this heading, with their defaults.
pub fn listed_below(heading: &str) -> BTreeMap<String, String> {
    let readme = read("", "README.md");
    let (_, section) = readme
        .split_once(&format!("\n### {heading}\n"))
        .expect("the heading");
    // Not any `#`: examples have comments.
    let (section, _) = section.split_once("\n## ").expect("a next section");
    let rows = section.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.strip_suffix('`')?;
        let default = cells.next()?.trim_matches('`');
        assert!(!cells.next()?.is_empty(), "{line}");
        let default = if default == "empty" { "" } else { default };
        Some((name.to_owned(), default.to_owned()))
    });
    let rows: Vec<_> = rows.collect();
    let listed: BTreeMap<_, _> = rows.iter().cloned().collect();
    assert_eq!(listed.len(), rows.len(), "listed twice");
    listed
}

/// Checks that the console shows every parameter of a template, in one of its groups.
pub fn assert_console_shows_all(template: &Template) {
    let interface = &template.section("Metadata")["AWS::CloudFormation::Interface"];
    let groups = interface["ParameterGroups"].as_array().unwrap();
    let shown: Vec<&str> = groups
        .iter()
        .flat_map(|group| group["Parameters"].as_array().unwrap())
        .map(|name| name.as_str().unwrap())
        .collect();
    let names: BTreeSet<&str> = shown.iter().copied().collect();
    assert_eq!(names.len(), shown.len(), "shown twice");
    let parameters = template.parameters().keys();
    assert_eq!(names, parameters.map(String::as_str).collect());
}

#[test]
fn the_readme_lists_every_parameter_with_its_default() {
    assert_eq!(listed_below("Parameters"), *Template::read().parameters());
}

#[test]
fn the_console_shows_every_parameter_in_a_group() {
    assert_console_shows_all(&Template::read());
}

#[test]
fn only_the_local_stack_has_the_settings_for_demos() {
    let config: Table = read("infra", "samconfig.toml").parse().unwrap();
    let overrides = |environment: &str, command: &str| -> BTreeMap<String, String> {
        let parameters = &config[environment][command]["parameters"];
        let text = parameters.get("parameter_overrides");
        let text = text.and_then(toml::Value::as_str).unwrap_or_default();
        let pairs = text.split_whitespace().map(|pair| {
            let (name, value) = pair.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        });
        pairs.collect()
    };
    assert_eq!(overrides("default", "deploy"), BTreeMap::new());
    assert_eq!(overrides("default", "build"), BTreeMap::new());
    let local = overrides("local", "deploy");
    // `with` knows the names that there are.
    local
        .iter()
        .fold(Template::read(), |template, (name, value)| {
            template.with(name, value)
        });
    assert_eq!(local["AllowPrivateEndpoints"], "true");
    assert_eq!(local["DeliverTimeoutSeconds"], "5");
}

/// cargo-lambda builds with "abort" unless this is said, and one panic would end a whole batch.
#[test]
fn release_builds_unwind() {
    let manifest: Table = read("", "Cargo.toml").parse().unwrap();
    assert_eq!(
        manifest["profile"]["release"]["panic"].as_str(),
        Some("unwind")
    );
    for (name, profile) in manifest["profile"].as_table().unwrap() {
        if name != "release" {
            assert_eq!(profile.get("panic"), None, "{name}");
        }
    }
}
