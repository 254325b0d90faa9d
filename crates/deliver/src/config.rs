//! The environment of the function.

use webhooks_core::endpoint::EndpointRules;
use webhooks_core::policy::{self, RetryPolicy};
use webhooks_core::setting::{SettingError, Settings, flag, http_url, table_name};

/// The visibility timeout of the template's queue, in seconds.
const DEFAULT_VISIBILITY_TIMEOUT_SECONDS: u32 = 180;

/// What the function is told by its environment.
#[derive(Debug, Clone)]
pub struct Config {
    /// `QUEUE_URL`: the queue of delivery jobs, whose messages are hidden until their next attempt.
    pub queue_url: String,
    /// `TABLE_NAME`: the subscriptions table.
    pub table_name: String,
    /// `SECRET_PREFIX`: the first part of the name of every signing-secret parameter.
    pub secret_prefix: String,
    /// `RETRY_POLICY` by name, stretched by `RETRY_TIME_SCALE`, on a queue with the visibility
    /// timeout of `VISIBILITY_TIMEOUT_SECONDS`.
    pub policy: RetryPolicy,
    /// `ALLOW_PRIVATE_ENDPOINTS`.
    pub endpoints: EndpointRules,
}

impl Config {
    /// Reads the environment.
    ///
    /// # Errors
    /// Names the variable that is missing or wrong.
    pub fn from_settings(settings: &Settings<'_>) -> Result<Self, SettingError> {
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
        let visibility_timeout = settings.optional(
            "VISIBILITY_TIMEOUT_SECONDS",
            "the queue's visibility timeout, a whole number of seconds from 0 to 43200",
            DEFAULT_VISIBILITY_TIMEOUT_SECONDS,
            |text| text.parse().ok().filter(|seconds| *seconds <= 43_200),
        )?;
        Ok(Self {
            queue_url: settings.required("QUEUE_URL", "the URL of an SQS queue", http_url)?,
            table_name: settings.required(
                "TABLE_NAME",
                "the name of a DynamoDB table",
                table_name,
            )?,
            secret_prefix: settings.required(
                "SECRET_PREFIX",
                "the first part of a parameter's path, such as `webhooks`, without a slash at either end",
                secret_prefix,
            )?,
            policy: policy
                .with_time_scale(time_scale)
                .for_visibility_timeout(visibility_timeout),
            endpoints: EndpointRules {
                allow_private: settings.optional(
                    "ALLOW_PRIVATE_ENDPOINTS",
                    "true or false",
                    false,
                    flag,
                )?,
            },
        })
    }
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
                "SECRET_PREFIX" => Some("webhooks".into()),
                _ => None,
            }
        };
        Config::from_settings(&Settings::new(&lookup)).map_err(|error| error.to_string())
    }

    #[test]
    fn three_variables_are_enough() {
        let config = config(("", None)).unwrap();
        assert_eq!(
            config.policy,
            RetryPolicy::standard().for_visibility_timeout(180)
        );
        assert!(!config.endpoints.allow_private);
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
                "is `fast`; expected one of standard",
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
