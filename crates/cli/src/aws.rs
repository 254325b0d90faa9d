//! How the command talks to AWS: like the AWS CLI, and with errors that say what to do.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::{Builder, Connector};
use webhooks_shell::aws::{causes, describe};

use crate::args::Global;
use crate::error::Error;

/// Limit of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Limit of one try of a call. SQS answers a long poll after 20 s.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(25);
/// Limit of a call with all its tries. The SDK itself has none.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(60);
/// The most tries of a call.
const TRIES: u32 = 4;

/// Region, credentials and endpoint as the AWS CLI finds them, and the time limits above.
///
/// # Errors
/// If there is no Region.
pub async fn config(global: &Global) -> Result<SdkConfig, Error> {
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(
            Builder::new().build_with_connector_fn(|settings, components| {
                let mut connector = Connector::builder().proxy_config(ProxyConfig::from_env());
                connector.set_connector_settings(settings.cloned());
                if let Some(components) = components {
                    connector.set_sleep_impl(components.sleep_impl());
                }
                connector
                    .tls_provider(Provider::Rustls(CryptoMode::Ring))
                    .build()
            }),
        )
        .retry_config(RetryConfig::standard().with_max_attempts(TRIES))
        .timeout_config(
            TimeoutConfig::builder()
                .connect_timeout(CONNECT_TIMEOUT)
                .operation_attempt_timeout(ATTEMPT_TIMEOUT)
                .operation_timeout(OPERATION_TIMEOUT)
                .build(),
        );
    if let Some(profile) = &global.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(region) = &global.region {
        loader = loader.region(Region::new(region.clone()));
    }
    let config = loader.load().await;
    if config.region().is_none() {
        let profile = match &global.profile {
            Some(profile) => format!(" (is there a profile `{profile}`?)"),
            None => String::new(),
        };
        return Err(Error::Failed(format!(
            "no AWS Region: name it by --region, AWS_REGION, or `region` in the AWS profile{profile}"
        )));
    }
    Ok(config)
}

/// What is told of a call that failed. `action` is the IAM action that it needs, such as
/// `dynamodb:Query`.
pub fn failure<E, R>(action: &str, error: &SdkError<E, R>) -> Error
where
    E: ProvideErrorMetadata + StdError + 'static,
    R: fmt::Debug + 'static,
{
    if let Some(credentials) = credentials_error(error) {
        return Error::Failed(unusable_credentials(credentials));
    }
    let said = describe(error);
    if is_denied(error.code()) {
        let action = action.to_owned();
        return Error::Denied { action, said };
    }
    Error::Failed(match error.code() {
        Some("ExpiredToken" | "ExpiredTokenException" | "RequestExpired") => {
            format!("the AWS credentials have expired, renew them ({SIGN_IN}): {said}")
        }
        Some(
            "InvalidClientTokenId"
            | "UnrecognizedClientException"
            | "InvalidAccessKeyId"
            | "InvalidSignatureException"
            | "SignatureDoesNotMatch"
            | "IncompleteSignature"
            | "MissingAuthenticationToken"
            | "MissingAuthenticationTokenException",
        ) => format!("AWS does not accept the credentials, check them ({SIGN_IN}): {said}"),
        Some(_) | None => format!("{action} failed: {said}"),
    })
}

/// Whether an error means that a permission is missing.
fn is_denied(code: Option<&str>) -> bool {
    matches!(
        code,
        Some(
            "AccessDenied"
                | "AccessDeniedException"
                | "AuthorizationError"
                | "AuthorizationErrorException"
                | "UnauthorizedOperation"
                | "AWS.SimpleQueueService.AccessDenied"
        )
    )
}

const SIGN_IN: &str = "`aws sso login`, `aws configure`, AWS_PROFILE or --profile";

fn unusable_credentials(error: &CredentialsError) -> String {
    let causes = causes(error);
    if matches!(error, CredentialsError::CredentialsNotLoaded(_)) {
        format!("no AWS credentials found ({SIGN_IN}): {causes}")
    } else if causes.contains("expired") || causes.contains("SSO token") {
        format!("the AWS credentials have expired, renew them ({SIGN_IN}): {causes}")
    } else {
        format!("the AWS credentials can not be loaded ({SIGN_IN}): {causes}")
    }
}

/// The credentials provider's error among the causes of another.
fn credentials_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a CredentialsError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        next = error.source();
    }
    None
}
