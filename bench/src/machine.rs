//! Where and when something was measured.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A machine, and what was on it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// How many of its cores there are.
    pub cores: usize,
    /// The kernel's version.
    pub kernel: String,
    /// When the measurement began, RFC 3339, UTC.
    pub date: String,
    /// The commit that was checked out, with `-dirty` if something was changed since.
    pub commit: String,
    /// Node.js's version, if it is there.
    pub node: Option<String>,
    /// The compiler's version.
    pub rustc: String,
}

impl Machine {
    /// This one, now.
    #[must_use]
    pub fn here(node: Option<&Path>) -> Self {
        let date = OffsetDateTime::now_utc();
        let date = date.replace_nanosecond(0).unwrap_or(date);
        Self {
            cpu: fs::read_to_string("/proc/cpuinfo")
                .ok()
                .and_then(|text| processor(&text))
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: thread::available_parallelism().map_or(0, Into::into),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            date: date.format(&Rfc3339).unwrap_or_default(),
            commit: said(Command::new("git").args([
                "describe",
                "--always",
                "--dirty",
                "--abbrev=12",
            ])),
            node: node.map(|node| said(Command::new(node).arg("--version"))),
            rustc: said(Command::new("rustc").arg("--version")),
        }
    }
}

/// What a program says of itself; `unknown` if it is not there.
fn said(command: &mut Command) -> String {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|| "unknown".into())
}

fn processor(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    let (_, name) = line.split_once(':')?;
    Some(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::processor;

    #[test]
    fn the_processor_is_named_where_the_kernel_knows_its_name() {
        let text =
            "processor\t: 0\nmodel name\t: Some CPU\nprocessor\t: 1\nmodel name\t: Some CPU\n";
        assert_eq!(processor(text).as_deref(), Some("Some CPU"));
        assert_eq!(processor("processor\t: 0\n"), None);
    }
}
