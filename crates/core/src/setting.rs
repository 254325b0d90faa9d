//! Reading the environment: each variable once, at cold start, with an error that names the
//! variable and the expected form.

use std::fmt;
use std::str::FromStr;

/// Looks up environment variables. The lookup is an argument so that tests need not touch the
/// process's environment.
pub struct Settings<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
}

/// A variable is missing or has an unusable value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("environment variable {name} {problem}; expected {expected}")]
pub struct SettingError {
    /// The variable's name.
    pub name: &'static str,
    /// What is wrong with it.
    pub problem: String,
    /// The expected form.
    pub expected: String,
}

impl<'a> Settings<'a> {
    /// Settings that come from `lookup`.
    #[must_use]
    pub fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { lookup }
    }

    /// A variable that must be set and not empty, put through `parse`, which gives `None` for a
    /// value that is not of the expected form.
    ///
    /// # Errors
    /// Names the variable.
    pub fn required<T>(
        &self,
        name: &'static str,
        expected: impl fmt::Display,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, SettingError> {
        self.read(name, &expected, parse)?
            .ok_or_else(|| SettingError {
                name,
                problem: "is not set".into(),
                expected: expected.to_string(),
            })
    }

    /// A variable that may be left out. Set but empty counts as left out.
    ///
    /// # Errors
    /// Names the variable if its value is not of the expected form.
    pub fn optional<T>(
        &self,
        name: &'static str,
        expected: impl fmt::Display,
        default: T,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, SettingError> {
        Ok(self.read(name, &expected, parse)?.unwrap_or(default))
    }

    fn read<T>(
        &self,
        name: &'static str,
        expected: &dyn fmt::Display,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, SettingError> {
        match (self.lookup)(name) {
            Some(value) if !value.is_empty() => match parse(&value) {
                Some(parsed) => Ok(Some(parsed)),
                None => Err(SettingError {
                    name,
                    problem: format!("is `{value}`"),
                    expected: expected.to_string(),
                }),
            },
            Some(_) | None => Ok(None),
        }
    }
}

/// The name or ARN of a DynamoDB table.
#[must_use]
pub fn table_name(value: &str) -> Option<String> {
    value
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_.-:/".contains(&byte))
        .then(|| value.to_owned())
}

/// `true` or `false`, nothing else: a typo must not switch a guard off.
#[must_use]
pub fn flag(value: &str) -> Option<bool> {
    bool::from_str(value).ok()
}

/// An absolute http or https URL.
#[must_use]
pub fn http_url(value: &str) -> Option<String> {
    let url = url::Url::parse(value).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T>(
        value: Option<&str>,
        f: impl FnOnce(&Settings<'_>) -> Result<T, SettingError>,
    ) -> Result<T, String> {
        let lookup = |name: &str| (name == "X").then(|| value.map(str::to_owned)).flatten();
        f(&Settings::new(&lookup)).map_err(|error| error.to_string())
    }

    #[test]
    fn an_error_names_the_variable_and_the_expected_form() {
        for value in [None, Some("")] {
            assert_eq!(
                read(value, |settings| settings.required("X", "a URL", http_url)),
                Err("environment variable X is not set; expected a URL".into())
            );
        }
        assert_eq!(
            read(Some("yes"), |settings| settings.optional(
                "X",
                "true or false",
                false,
                flag
            )),
            Err("environment variable X is `yes`; expected true or false".into())
        );
    }

    #[test]
    fn a_value_of_the_expected_form_is_taken() {
        assert_eq!(
            read(
                Some("https://sqs.eu-central-1.amazonaws.com/1/q"),
                |settings| { settings.required("X", "a URL", http_url) }
            ),
            Ok("https://sqs.eu-central-1.amazonaws.com/1/q".into())
        );
        assert_eq!(
            read(None, |settings| settings.optional("X", "", false, flag)),
            Ok(false)
        );
        assert_eq!(
            read(Some("true"), |settings| settings
                .optional("X", "", false, flag)),
            Ok(true)
        );
        for bad in ["True", "1", "TRUE"] {
            assert_eq!(flag(bad), None, "{bad}");
        }
        for bad in ["queue", "ftp://x/", "/1/q", "http://"] {
            assert_eq!(http_url(bad), None, "{bad}");
        }
    }
}
