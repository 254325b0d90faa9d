//! How the functions talk to AWS.

use std::time::Duration;

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

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
