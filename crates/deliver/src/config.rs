//! The environment of the function.

use std::time::Duration;

use webhooks_core::endpoint::EndpointRules;
use webhooks_core::policy::{
    self, Configuration, OverrideError, Overrides, RetryPolicy, VISIBILITY_TIMEOUT_SECONDS,
};
use webhooks_core::setting::{SettingError, Settings, flag, http_url, table_name};
use webhooks_post::Trust;

/// Which deliveries have a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryLog {
    /// All of them.
    All,
    /// Those that were not delivered at their first attempt.
    Failures,
}

/// What the function is told by its environment.
#[derive(Debug, Clone)]
pub struct Config {
    /// `QUEUE_URL`: the queue of delivery jobs, whose messages are hidden until their next attempt.
    pub queue_url: String,
    /// `TABLE_NAME`: the subscriptions table.
    pub table_name: String,
    /// `DELIVERIES_TABLE`: the table of delivery records.
    pub deliveries_table: String,
    /// `DELIVERY_LOG`: `all` or `failures`.
    pub delivery_log: DeliveryLog,
    /// `REFERENCE_FIELDS`: fields of an event's `detail`, separated by commas. The value of the
    /// first that is there is remembered beside the delivery.
    pub reference_fields: Vec<String>,
    /// `EVENT_BUS_NAME`: where notices to operators are published; without it there are none.
    pub event_bus_name: Option<String>,
    /// `SECRET_PREFIX`: the first part of the name of every signing-secret parameter.
    pub secret_prefix: String,
    /// `RETRY_POLICY` by name, as changed by `RETRY_BASE_SECONDS`, `RETRY_FACTOR`,
    /// `RETRY_CAP_SECONDS` and `RETRY_ATTEMPTS`, stretched by `RETRY_TIME_SCALE`, with attempts of
    /// at most `ATTEMPT_TIMEOUT_SECONDS`, on a queue with the visibility timeout of
    /// `VISIBILITY_TIMEOUT_SECONDS` and the `maxReceiveCount` of `MAX_RECEIVE_COUNT`.
    pub policy: RetryPolicy,
    /// `MAX_RECEIVE_COUNT`: after how many receives the queue's redrive policy moves a message.
    pub most_receives: u32,
    /// `ALLOW_PRIVATE_ENDPOINTS`.
    pub endpoints: EndpointRules,
    /// `EXTRA_CA_FILE`: a PEM file with certificate authorities that are trusted beside Mozilla's.
    pub trust: Trust,
    /// `SECRET_CACHE_SECONDS`: how long a secret is used before SSM is asked again, at most.
    pub secret_cache: Duration,
}

/// Why the function can not start.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A variable is missing or wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The variables that change the retry policy do not fit together.
    #[error(
        "environment variables RETRY_BASE_SECONDS, RETRY_FACTOR, RETRY_CAP_SECONDS, \
         RETRY_ATTEMPTS and MAX_RECEIVE_COUNT: {0}"
    )]
    Overrides(#[from] OverrideError),
}

impl Config {
    /// Reads the environment.
    ///
    /// # Errors
    /// Names the variable that is missing or wrong.
    pub fn from_settings(settings: &Settings<'_>) -> Result<Self, ConfigError> {
        let receives = number(settings, "MAX_RECEIVE_COUNT", COUNT)?;
        let policy = retry_policy(settings, receives)?;
        Ok(Self {
            queue_url: settings.required("QUEUE_URL", "the URL of an SQS queue", http_url)?,
            table_name: settings.required("TABLE_NAME", TABLE, table_name)?,
            deliveries_table: settings.required("DELIVERIES_TABLE", TABLE, table_name)?,
            delivery_log: settings.optional(
                "DELIVERY_LOG",
                "all or failures",
                DeliveryLog::All,
                |text| match text {
                    "all" => Some(DeliveryLog::All),
                    "failures" => Some(DeliveryLog::Failures),
                    _ => None,
                },
            )?,
            reference_fields: settings.optional(
                "REFERENCE_FIELDS",
                "names of fields, separated by commas",
                Vec::new(),
                field_names,
            )?,
            event_bus_name: settings.optional(
                "EVENT_BUS_NAME",
                "the name or ARN of an EventBridge bus",
                None,
                |text| Some(Some(table_name(text)?)),
            )?,
            secret_prefix: settings.required(
                "SECRET_PREFIX",
                "the first part of a parameter's path, such as `webhooks`, without a slash at either end",
                secret_prefix,
            )?,
            most_receives: receives.unwrap_or(policy.receives()),
            policy,
            endpoints: EndpointRules {
                allow_private: settings.optional(
                    "ALLOW_PRIVATE_ENDPOINTS",
                    "true or false",
                    false,
                    flag,
                )?,
            },
            trust: settings.optional(
                "EXTRA_CA_FILE",
                "the path of a PEM file with certificates",
                Trust::default(),
                |path| Trust::from_pem_file(path).ok(),
            )?,
            secret_cache: settings.optional(
                "SECRET_CACHE_SECONDS",
                "a whole number of seconds from 1 to 3600",
                SECRET_CACHE,
                |text| {
                    let seconds = text.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
                    seconds.map(Duration::from_secs)
                },
            )?,
        })
    }
}

/// How long a secret is used before SSM is asked again.
const SECRET_CACHE: Duration = Duration::from_secs(300);

const TABLE: &str = "the name of a DynamoDB table";

const SECONDS: &str = "a whole number of seconds, at least 1";
const COUNT: &str = "a whole number, at least 1";

fn number(
    settings: &Settings<'_>,
    name: &'static str,
    expected: &str,
) -> Result<Option<u32>, SettingError> {
    settings.optional(name, expected, None, |text| {
        let number: u32 = text.parse().ok()?;
        (number > 0).then_some(Some(number))
    })
}

fn retry_policy(
    settings: &Settings<'_>,
    receives: Option<u32>,
) -> Result<RetryPolicy, ConfigError> {
    let policy = settings.optional(
        "RETRY_POLICY",
        format_args!("one of {}", policy::NAMES.join(", ")),
        RetryPolicy::standard(),
        RetryPolicy::by_name,
    )?;
    let time_scale = settings.optional(
        "RETRY_TIME_SCALE",
        "a number greater than 0 and at most 1",
        1.0,
        |text| {
            let scale: f64 = text.parse().ok()?;
            (scale > 0.0 && scale <= 1.0).then_some(scale)
        },
    )?;
    let visibility_timeout_seconds = settings.optional(
        "VISIBILITY_TIMEOUT_SECONDS",
        "the queue's visibility timeout, a whole number of seconds from 0 to 43200",
        VISIBILITY_TIMEOUT_SECONDS,
        |text| text.parse().ok().filter(|seconds| *seconds <= 43_200),
    )?;
    let overrides = Overrides {
        base_seconds: number(settings, "RETRY_BASE_SECONDS", SECONDS)?,
        factor: number(settings, "RETRY_FACTOR", COUNT)?,
        cap_seconds: number(settings, "RETRY_CAP_SECONDS", SECONDS)?,
        attempts: number(settings, "RETRY_ATTEMPTS", COUNT)?,
    };
    let attempt_timeout_seconds = number(settings, "ATTEMPT_TIMEOUT_SECONDS", SECONDS)?;
    Ok(RetryPolicy::configured(Configuration {
        policy,
        time_scale,
        visibility_timeout_seconds,
        attempt_timeout_seconds,
        overrides,
        receives,
    })?)
}

/// Names without white space around them, at least one.
fn field_names(text: &str) -> Option<Vec<String>> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    names.iter().all(|name| !name.is_empty()).then_some(names)
}

/// Letters, digits, `.`, `-`, `_`, and `/` in between (SSM, "parameter name requirements").
fn secret_prefix(text: &str) -> Option<String> {
    let parts_are_names = text.split('/').all(|part| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    });
    parts_are_names.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(change: (&str, Option<&str>)) -> Result<Config, String> {
        let lookup = |name: &str| {
            if name == change.0 {
                return change.1.map(str::to_owned);
            }
            match name {
                "QUEUE_URL" => Some("https://sqs.eu-central-1.amazonaws.com/1/q".into()),
                "TABLE_NAME" => Some("subscriptions".into()),
                "DELIVERIES_TABLE" => Some("deliveries".into()),
                "SECRET_PREFIX" => Some("webhooks".into()),
                _ => None,
            }
        };
        Config::from_settings(&Settings::new(&lookup)).map_err(|error| error.to_string())
    }

    #[test]
    fn four_variables_are_enough() {
        let config = config(("", None)).unwrap();
        assert_eq!(
            config.policy,
            RetryPolicy::standard().for_visibility_timeout(180)
        );
        assert!(!config.endpoints.allow_private);
        assert_eq!(config.delivery_log, DeliveryLog::All);
        assert_eq!(config.reference_fields, [] as [&str; 0]);
        assert_eq!(config.event_bus_name, None);
    }

    #[test]
    fn the_other_variables_are_read() {
        let fields = config(("REFERENCE_FIELDS", Some("orderId, invoice"))).unwrap();
        assert_eq!(fields.reference_fields, ["orderId", "invoice"]);
        let log = config(("DELIVERY_LOG", Some("failures"))).unwrap();
        assert_eq!(log.delivery_log, DeliveryLog::Failures);
        let bus = config(("EVENT_BUS_NAME", Some("default"))).unwrap();
        assert_eq!(bus.event_bus_name.as_deref(), Some("default"));
        let shorter = config(("ATTEMPT_TIMEOUT_SECONDS", Some("3"))).unwrap();
        assert_eq!(shorter.policy.timeout, Duration::from_secs(3));
        let not_longer = config(("ATTEMPT_TIMEOUT_SECONDS", Some("11"))).unwrap();
        assert_eq!(not_longer.policy.timeout, Duration::from_secs(10));
        assert_eq!(config(("", None)).unwrap().most_receives, 38);
        let fewer = config(("RETRY_ATTEMPTS", Some("5"))).unwrap();
        assert_eq!(fewer.policy.attempts, 5);
    }

    #[test]
    fn a_file_with_no_certificate_authority_in_it_is_refused_by_name() {
        let folder = std::env::temp_dir();
        for (name, text) in [
            ("absent.pem", None),
            ("empty.pem", Some("")),
            ("words.pem", Some("no certificate at all\n")),
            (
                "broken.pem",
                Some("-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n"),
            ),
            (
                "key.pem",
                Some("-----BEGIN PRIVATE KEY-----\nbm90aGluZw==\n-----END PRIVATE KEY-----\n"),
            ),
        ] {
            let path = folder.join(format!("sqs-webhooks-{}-{name}", std::process::id()));
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let path = path.to_str().unwrap();
            let refused = config(("EXTRA_CA_FILE", Some(path)));
            let _ = std::fs::remove_file(path);
            assert_eq!(
                refused.unwrap_err(),
                format!(
                    "environment variable EXTRA_CA_FILE is `{path}`; expected the path of a PEM \
                     file with certificates"
                )
            );
        }
    }

    #[test]
    fn an_override_that_the_queue_does_not_allow_for_is_named() {
        let names = "environment variables RETRY_BASE_SECONDS, RETRY_FACTOR, RETRY_CAP_SECONDS, RETRY_ATTEMPTS and MAX_RECEIVE_COUNT";
        assert_eq!(
            config(("RETRY_ATTEMPTS", Some("9"))).unwrap_err(),
            format!(
                "{names}: 9 attempts and 30 spare receives are more than the queue's maxReceiveCount of 38"
            )
        );
        assert_eq!(
            config(("MAX_RECEIVE_COUNT", Some("10"))).unwrap_err(),
            format!(
                "{names}: 8 attempts and 30 spare receives are more than the queue's maxReceiveCount of 10"
            )
        );
    }

    #[test]
    fn a_wrong_variable_is_named_with_the_expected_form() {
        for (name, value, message) in [
            (
                "QUEUE_URL",
                None,
                "is not set; expected the URL of an SQS queue",
            ),
            (
                "QUEUE_URL",
                Some("jobs"),
                "is `jobs`; expected the URL of an SQS queue",
            ),
            (
                "TABLE_NAME",
                Some("a b"),
                "is `a b`; expected the name of a DynamoDB table",
            ),
            (
                "RETRY_POLICY",
                Some("fast"),
                "is `fast`; expected one of standard, bounded, contract-72h, payments-24h",
            ),
            (
                "DELIVERY_LOG",
                Some("none"),
                "is `none`; expected all or failures",
            ),
            (
                "REFERENCE_FIELDS",
                Some("a,,b"),
                "is `a,,b`; expected names of fields, separated by commas",
            ),
            (
                "RETRY_BASE_SECONDS",
                Some("0"),
                "is `0`; expected a whole number of seconds, at least 1",
            ),
            (
                "RETRY_TIME_SCALE",
                Some("0"),
                "is `0`; expected a number greater than 0 and at most 1",
            ),
            (
                "RETRY_TIME_SCALE",
                Some("NaN"),
                "is `NaN`; expected a number greater than 0 and at most 1",
            ),
            (
                "ALLOW_PRIVATE_ENDPOINTS",
                Some("yes"),
                "is `yes`; expected true or false",
            ),
            (
                "VISIBILITY_TIMEOUT_SECONDS",
                Some("-1"),
                "is `-1`; expected the queue's visibility timeout, a whole number of seconds from 0 to 43200",
            ),
            (
                "SECRET_PREFIX",
                Some("/webhooks"),
                "is `/webhooks`; expected the first part of a parameter's path, such as `webhooks`, without a slash at either end",
            ),
        ] {
            assert_eq!(
                config((name, value)).unwrap_err(),
                format!("environment variable {name} {message}")
            );
        }
    }
}
