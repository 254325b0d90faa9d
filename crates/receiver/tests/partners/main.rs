//! The official libraries of Rust, Python and JavaScript, both ways.
//!
//! | module | tells |
//! |---|---|
//! | [`ours`] | what we sign is verified by the examples that partners are given |
//! | [`theirs`] | what the libraries sign is verified by our receiver |
//! | [`readme`] | the lines that the README shows are those of the examples |
//!
//! They need what `make setup` installs, and Node.js.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where it stands"
)]

mod ours;
mod readme;
mod theirs;

use std::path::PathBuf;
use std::process::Stdio;

use e2e::stack::{python, repository};
use tokio::process::Command;

/// The languages that partners are given an example in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Rust,
    Python,
    JavaScript,
}

impl Language {
    const ALL: [Self; 3] = [Self::Rust, Self::Python, Self::JavaScript];

    /// Its example in examples/.
    fn example(self) -> &'static str {
        match self {
            Self::Rust => "partner.rs",
            Self::Python => "partner.py",
            Self::JavaScript => "partner.mjs",
        }
    }

    /// The command that runs its example.
    fn run_example(self) -> Command {
        match self {
            Self::Rust => Command::new(rust_example()),
            Self::Python => python_with(examples().join(self.example())),
            Self::JavaScript => node_with(examples().join(self.example())),
        }
    }
}

fn examples() -> PathBuf {
    repository().join("examples")
}

/// Where cargo puts the example, beside the directory of this test.
fn rust_example() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own program");
    let directory = test.ancestors().nth(2).expect("cargo's directory");
    let example = directory.join("examples").join("partner");
    assert!(
        example.exists(),
        "{} is not there. Run `cargo build -p receiver --example partner` first.",
        example.display()
    );
    example
}

fn python_with(script: PathBuf) -> Command {
    let mut command = Command::new(python().unwrap());
    command.arg(script);
    command
}

/// Node.js with a script that uses the official library.
fn node_with(script: PathBuf) -> Command {
    let version = std::process::Command::new("node")
        .arg("--version")
        .stderr(Stdio::null())
        .output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let major = version.as_ref().ok().and_then(|version| {
        let numbers = version.trim().strip_prefix('v')?.split('.');
        numbers
            .map_while(|number| number.parse::<u32>().ok())
            .next()
    });
    assert!(
        major.is_some_and(|major| major >= 18),
        "Node.js 18 or newer is needed to test examples/partner.mjs; `node --version`: {version:?}"
    );
    assert!(
        examples().join("node_modules/standardwebhooks").exists(),
        "examples/node_modules is not there. Run `make setup` first."
    );
    let mut command = Command::new("node");
    command.arg(script);
    command
}
