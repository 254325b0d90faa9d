//! How the functions talk to AWS.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use webhooks_core::subscription::{Attribute, Row};

/// The SDK has no total time limit of its own, so a stalled call would use up the invocation.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of one try of a call.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Limit of a call with all its tries.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(8);

/// Region, credentials and endpoint as Lambda gives them in the environment, and the time limits
/// above. Nothing else is asked: a Lambda function has no profile, and a look for an instance
/// role would only delay the error.
pub async fn config() -> SdkConfig {
    let http_client = Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https();
    aws_config::defaults(BehaviorVersion::latest())
        .http_client(http_client)
        .credentials_provider(EnvironmentVariableCredentialsProvider::new())
        .retry_config(RetryConfig::standard().with_max_attempts(3))
        // The time limits end a stalled call; watching over its throughput as well costs each call
        // a few percent of its CPU time.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .timeout_config(
            TimeoutConfig::builder()
                .connect_timeout(CONNECT_TIMEOUT)
                .operation_attempt_timeout(ATTEMPT_TIMEOUT)
                .operation_timeout(OPERATION_TIMEOUT)
                .build(),
        )
        .load()
        .await
}

/// The longest description of an error, in characters.
const ERROR_MAX_CHARS: usize = 300;

/// What went wrong with a call, for a log: code, message and causes. Never the request or the
/// answer, which the `Debug` form of an SDK error holds in full, secrets and all.
#[must_use]
pub fn describe<E, R>(error: &SdkError<E, R>) -> String
where
    E: ProvideErrorMetadata + Error + 'static,
    R: fmt::Debug,
{
    let text = match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => causes(error),
    };
    text.chars().take(ERROR_MAX_CHARS).collect()
}

/// An error and what caused it, on one line.
#[must_use]
pub fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// A row of the subscriptions table as core reads it.
#[must_use]
pub fn row(item: &HashMap<String, AttributeValue>) -> Row<'_> {
    let named = |name: &str| item.get(name).map(attribute);
    let headers = item.get("headers").map(|value| match value {
        AttributeValue::M(map) => {
            let entries = map.iter();
            Ok(entries
                .map(|(name, value)| (name.as_str(), attribute(value)))
                .collect())
        }
        other => Err(attribute(other)),
    });
    Row {
        subscriber_id: named("subscriberId"),
        url: named("url"),
        enabled: named("enabled"),
        headers,
    }
}

fn attribute(value: &AttributeValue) -> Attribute<'_> {
    match value {
        AttributeValue::S(text) => Attribute::Text(text),
        AttributeValue::Bool(flag) => Attribute::Flag(*flag),
        _ => Attribute::Other,
    }
}
