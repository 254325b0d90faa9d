//! What a stack is made of, as its template's outputs and parameters tell it.

use std::collections::HashMap;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_cloudformation::Client;
use aws_sdk_cloudformation::error::ProvideErrorMetadata as _;
use webhooks_core::endpoint::EndpointRules;
use webhooks_core::policy::{Configuration, Overrides, RetryPolicy, VISIBILITY_TIMEOUT_SECONDS};

use crate::Context;
use crate::aws;
use crate::error::Error;

/// The stack's name in `infra/samconfig.toml`.
pub const DEFAULT_NAME: &str = "sqs-webhooks";

/// How long deliver keeps a secret, unless its configuration says otherwise.
const SECRET_CACHE: Duration = Duration::from_secs(300);

/// The names of what belongs to a stack.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// The stack's own.
    pub name: String,
    /// Who receives what, and where.
    pub subscriptions_table: String,
    /// What happened to each delivery.
    pub deliveries_table: String,
    /// Deliveries under way.
    pub jobs_queue_url: String,
    /// Deliveries that are dead.
    pub dead_letter_queue_url: String,
    /// Signing secrets are the SSM parameters `/{this}/{subscriberId}/signing-secret`.
    pub secret_prefix: String,
    /// All outputs of the template.
    pub outputs: HashMap<String, String>,
    /// The values of the template's parameters.
    pub parameters: HashMap<String, String>,
    /// What CloudFormation says of it, such as `UPDATE_COMPLETE`.
    pub status: String,
}

impl Stack {
    /// Asks CloudFormation about the stack of the command line.
    ///
    /// # Errors
    /// If there is no such stack, if it is none of ours, or if it can not be asked about.
    pub async fn read(context: &Context, aws: &SdkConfig) -> Result<Self, Error> {
        let name = context.global.stack.as_deref().unwrap_or(DEFAULT_NAME);
        let answer = Client::new(aws)
            .describe_stacks()
            .stack_name(name)
            .send()
            .await
            .map_err(|error| match (error.code(), error.message()) {
                (Some("ValidationError"), Some(message)) if message.contains("not exist") => {
                    let region = aws.region().map_or("?", |region| region.as_ref());
                    Error::NotFound(format!(
                        "no stack `{name}` in {region}: name it by --stack or WEBHOOKS_STACK, and \
                         check Region and account"
                    ))
                }
                _ => aws::failure("cloudformation:DescribeStacks", &error),
            })?;
        let stack = answer.stacks().first();
        let outputs = stack.map_or(&[][..], |stack| stack.outputs());
        let parameters = stack.map_or(&[][..], |stack| stack.parameters());
        let status = stack.and_then(|stack| stack.stack_status());
        let read = Self::from_outputs(
            name,
            &outputs
                .iter()
                .filter_map(|output| Some((output.output_key()?, output.output_value()?)))
                .collect(),
            parameters
                .iter()
                .filter_map(|parameter| {
                    let key = parameter.parameter_key()?.to_owned();
                    Some((key, parameter.parameter_value()?.to_owned()))
                })
                .collect(),
        )?;
        Ok(Self {
            status: status.map_or(String::new(), |status| status.as_str().to_owned()),
            ..read
        })
    }

    fn from_outputs(
        name: &str,
        outputs: &HashMap<&str, &str>,
        parameters: HashMap<String, String>,
    ) -> Result<Self, Error> {
        let output = |key: &str| match outputs.get(key) {
            Some(value) => Ok((*value).to_owned()),
            None => Err(no_output(name, key)),
        };
        Ok(Self {
            name: name.to_owned(),
            subscriptions_table: output("SubscriptionsTableName")?,
            deliveries_table: output("DeliveriesTableName")?,
            jobs_queue_url: output("JobsQueueUrl")?,
            dead_letter_queue_url: output("DeadLetterQueueUrl")?,
            secret_prefix: output("SecretPrefix")?,
            outputs: outputs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            parameters,
            status: String::new(),
        })
    }

    /// An output of the template that only some verbs need.
    ///
    /// # Errors
    /// If it has none of that name.
    pub fn output(&self, key: &str) -> Result<&str, Error> {
        let value = self.outputs.get(key).map(String::as_str);
        value.ok_or_else(|| no_output(&self.name, key))
    }

    /// The retry policy that the stack's parameters make.
    ///
    /// # Errors
    /// If they make none; deliver does not start then either.
    pub fn policy(&self) -> Result<RetryPolicy, Error> {
        let name = self.parameter("RetryPolicy").unwrap_or("standard");
        let wrong = |what: &str| Error::Failed(format!("the stack `{}`: {what}", self.name));
        let policy = RetryPolicy::by_name(name)
            .ok_or_else(|| wrong(&format!("RetryPolicy `{name}` is not known here")))?;
        let number = |key: &str| match self.parameter(key) {
            Some(text) => match text.parse::<u32>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(wrong(&format!("{key} `{text}` is not a number"))),
            },
            None => Ok(None),
        };
        let time_scale = match self.parameter("RetryTimeScale") {
            Some(text) => text
                .parse()
                .map_err(|_| wrong(&format!("RetryTimeScale `{text}` is not a number")))?,
            None => 1.0,
        };
        // The template's mapping `DeliverTimeouts`.
        let (visibility_timeout_seconds, attempt_timeout_seconds) =
            match self.parameter("DeliverTimeoutSeconds") {
                Some("30") | None => (VISIBILITY_TIMEOUT_SECONDS, 10),
                Some("5") => (30, 3),
                Some(text) => {
                    let what = format!("DeliverTimeoutSeconds `{text}` is not known here");
                    return Err(wrong(&what));
                }
            };
        RetryPolicy::configured(Configuration {
            policy,
            time_scale,
            visibility_timeout_seconds,
            attempt_timeout_seconds: Some(attempt_timeout_seconds),
            overrides: Overrides {
                base_seconds: number("RetryBaseSeconds")?,
                factor: number("RetryFactor")?,
                cap_seconds: number("RetryCapSeconds")?,
                attempts: number("RetryAttempts")?,
            },
            receives: number("MaxReceiveCount")?,
        })
        .map_err(|error| wrong(&error.to_string()))
    }

    /// Which urls may be called.
    #[must_use]
    pub fn endpoint_rules(&self) -> EndpointRules {
        EndpointRules {
            allow_private: self.parameter("AllowPrivateEndpoints") == Some("true"),
        }
    }

    /// The event types that become webhooks; none if the stack does not say.
    #[must_use]
    pub fn event_types(&self) -> Vec<&str> {
        let types = self.parameter("EventTypes").unwrap_or_default().split(',');
        types
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .collect()
    }

    /// How long a function signs with a secret before it asks SSM again, at most.
    #[must_use]
    pub fn secret_cache(&self) -> Duration {
        let seconds = self.parameter("SecretCacheSeconds");
        let seconds = seconds.and_then(|text| text.parse().ok());
        seconds.map_or(SECRET_CACHE, Duration::from_secs)
    }

    /// A template parameter, if it has a value that is not empty.
    #[must_use]
    pub fn parameter(&self, key: &str) -> Option<&str> {
        let value = self.parameters.get(key)?;
        (!value.is_empty()).then_some(value)
    }
}

fn no_output(stack: &str, key: &str) -> Error {
    Error::Failed(format!(
        "the stack `{stack}` has no output {key}: it is not a stack of sqs-webhooks, not yet \
         deployed, or older than this command"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs() -> HashMap<&'static str, &'static str> {
        HashMap::from([
            ("SubscriptionsTableName", "s"),
            ("DeliveriesTableName", "d"),
            ("JobsQueueUrl", "https://sqs/jobs"),
            ("DeadLetterQueueUrl", "https://sqs/dlq"),
            ("SecretPrefix", "webhooks"),
            ("Another", "1"),
        ])
    }

    fn stack(parameters: &[(&str, &str)]) -> Stack {
        let parameters = parameters
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Stack::from_outputs("w", &outputs(), parameters.collect()).unwrap()
    }

    #[test]
    fn a_stack_that_is_none_of_ours_is_told_by_the_output_it_lacks() {
        let mut outputs = outputs();
        outputs.remove("DeliveriesTableName");
        assert_eq!(
            Stack::from_outputs("w", &outputs, HashMap::new()),
            Err(Error::Failed(
                "the stack `w` has no output DeliveriesTableName: it is not a stack of \
                 sqs-webhooks, not yet deployed, or older than this command"
                    .into()
            ))
        );
    }

    #[test]
    fn the_policy_is_the_one_that_the_parameters_make() {
        let standard = RetryPolicy::standard().for_visibility_timeout(180);
        assert_eq!(stack(&[]).policy(), Ok(standard));
        let changed = stack(&[
            ("RetryPolicy", "bounded"),
            ("RetryBaseSeconds", "5"),
            ("RetryFactor", ""),
            ("RetryAttempts", "3"),
            ("MaxReceiveCount", "33"),
            ("RetryTimeScale", "0.5"),
            ("DeliverTimeoutSeconds", "5"),
        ])
        .policy()
        .unwrap();
        assert_eq!(changed.name, "bounded");
        assert_eq!(
            (changed.attempts, changed.longest_delay_seconds),
            (3, 43_110)
        );
        assert_eq!(changed.timeout, Duration::from_secs(3));
        assert_eq!(changed.backoff_seconds(2, 1.0), 5);
    }

    #[test]
    fn the_timeouts_are_those_of_the_template() {
        let template = include_str!("../../../infra/template.yaml");
        for (chosen, hidden) in [("30", 180), ("5", 30)] {
            let policy = stack(&[("DeliverTimeoutSeconds", chosen)])
                .policy()
                .unwrap();
            assert_eq!(policy.longest_delay_seconds, 43_200 - hidden - 60);
            let attempt = policy.timeout.as_secs();
            let line = format!(
                "'{chosen}': {{ QueueVisibilitySeconds: '{hidden}', AttemptSeconds: '{attempt}' }}"
            );
            assert!(template.contains(&line), "{line}");
        }
    }

    #[test]
    fn what_partners_may_have_is_said_by_parameters() {
        let bare = stack(&[]);
        assert!(!bare.endpoint_rules().allow_private);
        assert_eq!(bare.event_types(), Vec::<&str>::new());
        assert_eq!(bare.secret_cache(), Duration::from_secs(300));
        let open = stack(&[
            ("AllowPrivateEndpoints", "true"),
            ("EventTypes", "OrderPaid, OrderRefunded"),
            ("SecretCacheSeconds", "2"),
        ]);
        assert!(open.endpoint_rules().allow_private);
        assert_eq!(open.event_types(), ["OrderPaid", "OrderRefunded"]);
        assert_eq!(open.secret_cache(), Duration::from_secs(2));
    }

    #[test]
    fn parameters_that_make_no_policy_are_named() {
        let error =
            |parameters: &[(&str, &str)]| stack(parameters).policy().unwrap_err().to_string();
        assert_eq!(
            error(&[("RetryPolicy", "eternal")]),
            "the stack `w`: RetryPolicy `eternal` is not known here"
        );
        assert_eq!(
            error(&[("DeliverTimeoutSeconds", "60")]),
            "the stack `w`: DeliverTimeoutSeconds `60` is not known here"
        );
        assert_eq!(
            error(&[("RetryAttempts", "9"), ("MaxReceiveCount", "38")]),
            "the stack `w`: 9 attempts and 30 spare receives are more than the queue's \
             maxReceiveCount of 38"
        );
    }
}
