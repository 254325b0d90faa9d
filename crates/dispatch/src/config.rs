//! The environment of the function.

use webhooks_core::setting::{SettingError, Settings, http_url};

/// What the function is told by its environment.
#[derive(Debug, Clone)]
pub struct Config {
    /// `QUEUE_URL`: the queue of delivery jobs.
    pub queue_url: String,
    /// `TABLE_NAME`: the subscriptions table.
    pub table_name: String,
}

impl Config {
    /// Reads the environment.
    ///
    /// # Errors
    /// Names the variable that is missing or wrong.
    pub fn from_settings(settings: &Settings<'_>) -> Result<Self, SettingError> {
        Ok(Self {
            queue_url: settings.required("QUEUE_URL", "the URL of an SQS queue", http_url)?,
            table_name: settings.required(
                "TABLE_NAME",
                "the name of a DynamoDB table",
                webhooks_core::setting::table_name,
            )?,
        })
    }
}
