//! The `webhooks` command on a stage: the real program, run as an operator runs it.

use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::fake_aws::FakeAws;
use crate::stage::Stage;

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of a command.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Reads what a command has left.
    ///
    /// # Panics
    /// If it wrote anything but UTF-8.
    #[must_use]
    pub fn new(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Stage {
    /// A stage for the `webhooks` command.
    pub async fn for_command() -> Self {
        let aws = FakeAws::start().await;
        let endpoint = aws.url();
        Self::with_aws(aws)
            .with("AWS_ENDPOINT_URL", &endpoint)
            .with("AWS_REGION", "eu-central-1")
            .with("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
            .with("AWS_SECRET_ACCESS_KEY", "secret")
            .with("AWS_EC2_METADATA_DISABLED", "true")
            .with("HOME", "/nonexistent")
    }

    /// A command with the stage's environment variables and no others, that reads nothing and
    /// whose output is kept. It is killed when its child is dropped.
    #[must_use]
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(self.variables())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs a command to its end.
    ///
    /// # Panics
    /// If it can not be started, or does not end.
    pub async fn run(&self, program: &str, arguments: &[&str]) -> Ran {
        let output = self.command(program, arguments).output();
        let output = tokio::time::timeout(PATIENCE, output).await;
        Ran::new(output.expect("it ends").expect("it starts"))
    }
}
