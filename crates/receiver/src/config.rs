//! The environment of the function and of the local server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use webhooks_core::setting::{SettingError, Settings, table_name};
use webhooks_core::verify::{KeyError, VerifyingKeys};

/// How long an event is remembered unless said otherwise, in days. A delivery can come again for 7
/// days by itself, and be sent again by hand for 30 after that.
const KEEP_DAYS: u32 = 37;

const DAY: Duration = Duration::from_secs(86_400);

const PARAMETER: &str = "the name of an SSM parameter, such as /webhooks-receiver/secret";
const TABLE: &str = "the name of a DynamoDB table";

/// What the function is told by its environment.
#[derive(Debug, Clone)]
pub struct Config {
    /// `SECRET_PARAMETER`: the SSM SecureString with the secrets.
    pub secret_parameter: String,
    /// `TABLE_NAME`: the table of what came.
    pub table_name: String,
    /// `KEEP_DAYS`: how long it is remembered, in whole days.
    pub keep: Duration,
}

/// What the local server is told by its environment.
#[derive(Debug, Clone)]
pub struct LocalConfig {
    /// `LISTEN`: address and port; port 0 is any that is free.
    pub listen: SocketAddr,
    /// `WEBHOOKS_SECRET` or `SECRET_PARAMETER`.
    pub secret: Secret,
    /// `TABLE_NAME`: the table of what came; without it ids are kept in memory.
    pub table_name: Option<String>,
    /// `KEEP_DAYS`: how long it is remembered, in whole days.
    pub keep: Duration,
}

/// Where the local server has its secrets from.
#[derive(Debug, Clone)]
pub enum Secret {
    /// `WEBHOOKS_SECRET`: the secrets themselves.
    Given(Arc<VerifyingKeys>),
    /// `SECRET_PARAMETER`: the SSM SecureString with them.
    Parameter(String),
}

/// Why it can not start. Never carries any part of a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A variable is missing or wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The secrets can not be verified with.
    #[error("environment variable WEBHOOKS_SECRET: {0}")]
    Secret(#[from] KeyError),
    /// There is no secret, or there are two sources of it.
    #[error("set one of the environment variables WEBHOOKS_SECRET and SECRET_PARAMETER")]
    SecretSource,
}

impl Config {
    /// Reads the environment.
    ///
    /// # Errors
    /// Names the variable that is missing or wrong.
    pub fn from_settings(settings: &Settings<'_>) -> Result<Self, SettingError> {
        Ok(Self {
            secret_parameter: settings.required("SECRET_PARAMETER", PARAMETER, parameter_name)?,
            table_name: settings.required("TABLE_NAME", TABLE, table_name)?,
            keep: keep(settings)?,
        })
    }
}

impl LocalConfig {
    /// Reads the environment.
    ///
    /// # Errors
    /// Names the variable that is missing or wrong.
    pub fn from_settings(settings: &Settings<'_>) -> Result<Self, ConfigError> {
        let some = |text: &str| Some(Some(text.to_owned()));
        // Taken as it is: the error of a setting would show it.
        let given = settings.optional("WEBHOOKS_SECRET", "", None, some)?;
        let parameter = settings.optional("SECRET_PARAMETER", PARAMETER, None, |text| {
            Some(Some(parameter_name(text)?))
        })?;
        let secret = match (given, parameter) {
            (Some(text), None) => Secret::Given(Arc::new(VerifyingKeys::parse(&text)?)),
            (None, Some(name)) => Secret::Parameter(name),
            (None, None) | (Some(_), Some(_)) => return Err(ConfigError::SecretSource),
        };
        Ok(Self {
            listen: settings.optional(
                "LISTEN",
                "an address and a port, such as 127.0.0.1:8000",
                SocketAddr::from(([127, 0, 0, 1], 8000)),
                |text| text.parse().ok(),
            )?,
            secret,
            table_name: settings.optional("TABLE_NAME", TABLE, None, |text| {
                Some(Some(table_name(text)?))
            })?,
            keep: keep(settings)?,
        })
    }
}

fn keep(settings: &Settings<'_>) -> Result<Duration, SettingError> {
    let days = settings.optional(
        "KEEP_DAYS",
        "a whole number of days from 1 to 3650",
        KEEP_DAYS,
        |text| text.parse().ok().filter(|days| (1..=3650).contains(days)),
    )?;
    Ok(DAY * days)
}

/// A parameter's path; a name without a slash has no ARN of the form that the template grants.
fn parameter_name(text: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte);
    (text.starts_with('/') && !text.ends_with('/') && text.bytes().all(allowed))
        .then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn local(variables: &[(&str, &str)]) -> Result<LocalConfig, String> {
        let lookup = |name: &str| {
            let variable = variables.iter().find(|(other, _)| *other == name);
            variable.map(|(_, value)| (*value).to_owned())
        };
        LocalConfig::from_settings(&Settings::new(&lookup)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_secret_is_all_that_the_local_server_needs() {
        let config = local(&[("WEBHOOKS_SECRET", SECRET)]).unwrap();
        assert_eq!(config.listen, "127.0.0.1:8000".parse().unwrap());
        assert_eq!(config.table_name, None);
        assert_eq!(config.keep, 37 * DAY);
        let config = local(&[
            ("SECRET_PARAMETER", "/partner/secret"),
            ("LISTEN", "[::1]:0"),
            ("TABLE_NAME", "received"),
            ("KEEP_DAYS", "7"),
        ])
        .unwrap();
        assert!(matches!(config.secret, Secret::Parameter(name) if name == "/partner/secret"));
        assert_eq!(config.listen, "[::1]:0".parse().unwrap());
        assert_eq!(config.table_name.as_deref(), Some("received"));
        assert_eq!(config.keep, 7 * DAY);
    }

    #[test]
    fn a_wrong_secret_is_not_shown() {
        for (value, reason) in [
            ("hunter2", KeyError::Prefix),
            ("whsec_aHVudGVyMg==", KeyError::Length(7)),
        ] {
            assert_eq!(
                local(&[("WEBHOOKS_SECRET", value)]).unwrap_err(),
                format!("environment variable WEBHOOKS_SECRET: {reason}")
            );
        }
    }

    #[test]
    fn a_wrong_variable_is_named() {
        let source = ConfigError::SecretSource.to_string();
        assert_eq!(local(&[]).unwrap_err(), source);
        let both = [("WEBHOOKS_SECRET", SECRET), ("SECRET_PARAMETER", "/a")];
        assert_eq!(local(&both).unwrap_err(), source);
        for (name, value) in [
            ("LISTEN", "8000"),
            ("TABLE_NAME", "a b"),
            ("KEEP_DAYS", "0"),
            ("KEEP_DAYS", "3651"),
            ("KEEP_DAYS", "1.5"),
        ] {
            let error = local(&[("WEBHOOKS_SECRET", SECRET), (name, value)]).unwrap_err();
            let begin = format!("environment variable {name} is `{value}`; expected ");
            assert!(error.starts_with(&begin), "{error}");
        }
        for name in ["secret", "/secret/", "/a b"] {
            let error = local(&[("SECRET_PARAMETER", name)]).unwrap_err();
            assert!(
                error.starts_with("environment variable SECRET_PARAMETER is"),
                "{error}"
            );
        }
    }
}
