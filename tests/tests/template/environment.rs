//! The functions' environment variables: those that the template sets are those that are read,
//! and the functions understand them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use deliver::DeliveryLog;
use serde_json::{Value, json};
use webhooks_core::policy::{NAMES, Overrides, RetryPolicy};
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
        other if *other == json!({"Ref": "DeliveriesTable"}) => {
            "sqs-webhooks-DeliveriesTable-595E8311107D7".into()
        }
        other if *other == json!({"Ref": "EventBus"}) => "sqs-webhooks".into(),
        other => panic!("not a text: {other}"),
    };
    let variables = variables.as_object().unwrap().iter();
    variables
        .map(|(name, variable)| (name.clone(), value(variable)))
        .collect()
}

/// What a function makes of these variables, and the names that it has asked for, but for those that
/// Lambda itself sets.
pub fn read_by<T>(
    variables: &BTreeMap<String, String>,
    read: impl Fn(&Settings<'_>) -> T,
) -> (T, BTreeSet<String>) {
    let asked = RefCell::new(BTreeSet::new());
    let lookup = |name: &str| {
        if !name.starts_with("AWS_") {
            asked.borrow_mut().insert(name.to_owned());
        }
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
    let mut set: BTreeSet<String> = variables.keys().cloned().collect();
    // The file comes with a layer, so whoever adds that adds this.
    set.insert("EXTRA_CA_FILE".into());
    assert_eq!(asked, set);
    assert_eq!(config.queue_url, variables["QUEUE_URL"]);
    assert_eq!(config.table_name, variables["TABLE_NAME"]);
    assert_eq!(config.secret_cache, Duration::from_secs(300));
    assert_eq!(config.deliveries_table, variables["DELIVERIES_TABLE"]);
    assert_eq!(config.delivery_log, DeliveryLog::All);
    assert_eq!(config.reference_fields, ["orderId"]);
    assert_eq!(config.event_bus_name.as_deref(), Some("sqs-webhooks"));
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
                .with("SecretCacheSeconds", "5")
                .with("AllowPrivateEndpoints", "true")
                .with("DeliveryLog", "failures")
                .with("ReferenceFields", "orderId,refund_id")
                .with("EventBusName", "default");
            let variables = variables(&template, "DeliverFunction");
            let (config, _) = read_by(&variables, deliver::Config::from_settings);
            let config = config.unwrap();
            assert_eq!(config.secret_prefix, "partners/eu");
            assert_eq!(config.secret_cache, Duration::from_secs(5));
            assert!(config.endpoints.allow_private);
            assert_eq!(config.delivery_log, DeliveryLog::Failures);
            assert_eq!(config.reference_fields, ["orderId", "refund_id"]);
            assert_eq!(config.event_bus_name.as_deref(), Some("default"));
            // What SQS takes in all, less what a message may have been in hand already.
            let hidden = number(&template.properties("JobsQueue")["VisibilityTimeout"]);
            let longest = u64::from(config.policy.longest_delay_seconds);
            assert_eq!(longest, 43_200 - hidden - 60);
            let attempt = variables["ATTEMPT_TIMEOUT_SECONDS"].parse().unwrap();
            let published = RetryPolicy::by_name(name)
                .unwrap()
                .with_timeout_of_at_most(Duration::from_secs(attempt))
                .with_time_scale(0.5)
                .for_visibility_timeout(u32::try_from(hidden).unwrap());
            assert_eq!(config.policy, published);
        }
    }
}

#[test]
fn no_reference_field_is_a_setting_too() {
    let config = changed(&[("ReferenceFields", "")]).unwrap();
    assert!(config.reference_fields.is_empty());
}

/// What deliver reads where these parameters are set.
fn changed(parameters: &[(&str, &str)]) -> Result<deliver::Config, String> {
    let template = parameters
        .iter()
        .fold(Template::read(), |template, (name, value)| {
            template.with(name, value)
        });
    let variables = variables(&template, "DeliverFunction");
    let (config, _) = read_by(&variables, deliver::Config::from_settings);
    config.map_err(|error| error.to_string())
}

#[test]
fn deliver_changes_the_policy_as_it_is_told() {
    let config = changed(&[
        ("RetryBaseSeconds", "20"),
        ("RetryFactor", "4"),
        ("RetryCapSeconds", "600"),
        ("RetryAttempts", "12"),
        ("MaxReceiveCount", "42"),
    ]);
    let overrides = Overrides {
        base_seconds: Some(20),
        factor: Some(4),
        cap_seconds: Some(600),
        attempts: Some(12),
    };
    let wanted = RetryPolicy::standard()
        .for_visibility_timeout(180)
        .with_overrides(overrides, Some(42))
        .unwrap();
    assert_eq!(config.unwrap().policy, wanted);
}

/// Each would end in deliveries that are lost or that stay in the queue for ever.
#[test]
fn deliver_does_not_start_with_what_the_queue_cannot_keep() {
    // Fewer receives than attempts and the spare ones.
    assert!(changed(&[("RetryAttempts", "9")]).is_err());
    assert!(changed(&[("MaxReceiveCount", "37")]).is_err());
    assert!(changed(&[("RetryAttempts", "9"), ("MaxReceiveCount", "39")]).is_ok());
    // SQS hides a message for less.
    assert!(changed(&[("RetryCapSeconds", "42961")]).is_err());
    assert!(changed(&[("RetryCapSeconds", "42960")]).is_ok());
    // The base of `standard` is 60 s.
    assert!(changed(&[("RetryCapSeconds", "59")]).is_err());
}

/// The functions do not read it; `webhooks doctor` compares it with its own.
#[test]
fn both_functions_tell_the_version_that_cargo_builds() {
    let template = Template::read();
    assert_eq!(
        template.section("Globals")["Function"]["Environment"]["Variables"],
        json!({"WEBHOOKS_VERSION": env!("CARGO_PKG_VERSION")})
    );
}
