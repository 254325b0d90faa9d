//! The functions' environment variables: those that the template sets are those that are read,
//! and the functions understand them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use webhooks_core::policy::{NAMES, RetryPolicy};
use webhooks_core::setting::Settings;

use crate::cloudformation::{Template, number};

/// The variables of a function, with something of the right form for what AWS fills in.
fn variables(template: &Template, function: &str) -> BTreeMap<String, String> {
    let variables = template.properties(function)["Environment"]["Variables"].take();
    let value = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other if *other == json!({"Ref": "JobsQueue"}) => {
            "https://sqs.eu-central-1.amazonaws.com/111122223333/sqs-webhooks-jobs".into()
        }
        other if *other == json!({"Ref": "SubscriptionsTable"}) => {
            "sqs-webhooks-SubscriptionsTable-1BD9EAF151C4B".into()
        }
        other => panic!("not a text: {other}"),
    };
    let variables = variables.as_object().unwrap().iter();
    variables
        .map(|(name, variable)| (name.clone(), value(variable)))
        .collect()
}

/// What a function makes of these variables, and the names that it has asked for.
fn read_by<T>(
    variables: &BTreeMap<String, String>,
    read: impl Fn(&Settings<'_>) -> T,
) -> (T, BTreeSet<String>) {
    let asked = RefCell::new(BTreeSet::new());
    let lookup = |name: &str| {
        asked.borrow_mut().insert(name.to_owned());
        variables.get(name).cloned()
    };
    let config = read(&Settings::new(&lookup));
    (config, asked.into_inner())
}

#[test]
fn the_template_sets_exactly_what_dispatch_reads() {
    let variables = variables(&Template::read(), "DispatchFunction");
    let (config, asked) = read_by(&variables, dispatch::Config::from_settings);
    let config = config.unwrap();
    assert_eq!(asked, variables.keys().cloned().collect());
    assert_eq!(config.queue_url, variables["QUEUE_URL"]);
    assert_eq!(config.table_name, variables["TABLE_NAME"]);
}

#[test]
fn the_template_sets_exactly_what_deliver_reads() {
    let template = Template::read();
    let variables = variables(&template, "DeliverFunction");
    let (config, asked) = read_by(&variables, deliver::Config::from_settings);
    let config = config.unwrap();
    assert_eq!(asked, variables.keys().cloned().collect());
    assert_eq!(config.queue_url, variables["QUEUE_URL"]);
    assert_eq!(config.table_name, variables["TABLE_NAME"]);
    assert_eq!(config.secret_prefix, "webhooks");
    assert_eq!(
        config.policy,
        RetryPolicy::standard().for_visibility_timeout(180)
    );
    assert!(!config.endpoints.allow_private);
}

#[test]
fn deliver_follows_every_parameter() {
    for name in NAMES {
        for timeout in Template::read().allowed_values("DeliverTimeoutSeconds") {
            let template = Template::read()
                .with("RetryPolicy", name)
                .with("DeliverTimeoutSeconds", &timeout)
                .with("RetryTimeScale", "0.5")
                .with("SecretPrefix", "partners/eu")
                .with("AllowPrivateEndpoints", "true");
            let variables = variables(&template, "DeliverFunction");
            let (config, _) = read_by(&variables, deliver::Config::from_settings);
            let config = config.unwrap();
            assert_eq!(config.secret_prefix, "partners/eu");
            assert!(config.endpoints.allow_private);
            // What SQS takes in all, less what a message may have been in hand already.
            let hidden = number(&template.properties("JobsQueue")["VisibilityTimeout"]);
            let longest = u64::from(config.policy.longest_delay_seconds);
            assert_eq!(longest, 43_200 - hidden - 60);
            let published = RetryPolicy::by_name(name).unwrap();
            assert_eq!(config.policy.base, published.base.mul_f64(0.5));
            assert!(config.policy.timeout > Duration::ZERO);
        }
    }
}
