//! The `webhooks` command, as an operator runs it against the stack.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::{Child, Command};

use super::{PATIENCE, Stack};
use crate::command::Ran;

impl Stack {
    /// Runs the command to its end.
    ///
    /// # Panics
    /// If it is not built, or does not end.
    pub async fn webhooks(&self, arguments: &[&str]) -> Ran {
        let output = self.start_webhooks(arguments).wait_with_output();
        let output = tokio::time::timeout(PATIENCE, output).await;
        Ran::new(output.expect("it ends").expect("it runs"))
    }

    /// Starts the command. It is killed when its child is dropped.
    ///
    /// # Panics
    /// If it is not built.
    #[must_use]
    pub fn start_webhooks(&self, arguments: &[&str]) -> Child {
        let description = &self.description;
        Command::new(program())
            .args(arguments)
            .env_clear()
            .env("AWS_ENDPOINT_URL", &description.endpoint_url)
            .env("AWS_REGION", &description.region)
            .env("AWS_ACCESS_KEY_ID", &description.access_key_id)
            .env("AWS_SECRET_ACCESS_KEY", &description.secret_access_key)
            // Nobody's profiles.
            .env("HOME", "/nonexistent")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts")
    }
}

/// Where cargo puts the command, beside the directory of this test.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own program");
    let directory = test.ancestors().nth(2).expect("cargo's directory");
    let program = directory.join("webhooks");
    assert!(
        program.exists(),
        "{} is not there. Run `cargo test --workspace --no-run` first, as `make e2e` does.",
        program.display()
    );
    program
}
