//! What a run prints, and what it keeps.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::delays::Delay;
use super::evidence::Evidence;
use super::oracle::Verdict;
use super::plan::Plan;
use crate::stack::repository;

/// How many lines of one kind are printed; all are kept.
const SHOWN: usize = 20;

impl Verdict {
    /// The figures, for a program.
    #[must_use]
    pub fn summary(&self) -> Value {
        json!({
            "published": self.published,
            "delivered": self.delivered,
            "dead": self.dead,
            "gone": self.gone,
            "lost": self.lost.len(),
            "wrong": self.wrong.len(),
            "duplicates": self.duplicates,
            "worstDelay": self.delays,
            "posts": self.posts,
            "calls": self.calls,
            "failedCalls": self.failed_calls,
            "slowCalls": self.slow_calls,
            "deadEarly": self.dead_early,
            "left": self.left,
            "happened": self.happened,
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dead: usize = self.dead.values().sum();
        writeln!(
            formatter,
            "published   {:>6}  (events × their partners)",
            self.published
        )?;
        writeln!(formatter, "delivered   {:>6}", self.delivered)?;
        writeln!(
            formatter,
            "dead        {dead:>6}{}",
            reasons(self.dead.iter())
        )?;
        if self.dead_early > 0 {
            writeln!(
                formatter,
                "                    {} of them with fewer requests than attempts, while records could not be read",
                self.dead_early
            )?;
        }
        writeln!(formatter, "gone        {:>6}", self.gone)?;
        writeln!(formatter, "lost        {:>6}", self.lost.len())?;
        let duplicates: usize = self.duplicates.values().sum();
        let causes = reasons(self.duplicates.iter());
        writeln!(formatter, "duplicates  {duplicates:>6}{causes}")?;
        writeln!(
            formatter,
            "worst delay {}, {} while something was disturbed",
            seconds(self.delays.undisturbed.as_ref()),
            seconds(self.delays.disturbed.as_ref())
        )?;
        write!(
            formatter,
            "{} requests came to partners, {} of {} calls of AWS were made to fail",
            self.posts, self.failed_calls, self.calls
        )?;
        if self.slow_calls > 0 {
            write!(formatter, ", {} took too long", self.slow_calls)?;
        }
        let happened: Vec<String> = self
            .happened
            .iter()
            .map(|share| format!("{} of {} {}", share.done, share.planned, share.what))
            .collect();
        write!(
            formatter,
            "\nwent wrong as planned: {}",
            happened.join(", ")
        )?;
        if self.left > 0 {
            write!(
                formatter,
                "\n{} messages were still in the jobs queue when the time was over",
                self.left
            )?;
        }
        for (title, lines) in [
            ("Lost", &self.lost),
            ("Wrong", &self.wrong),
            ("Duplicates without a cause", &self.unexplained),
        ] {
            if !lines.is_empty() {
                write!(formatter, "\n{title}:")?;
            }
            for line in lines.iter().take(SHOWN) {
                write!(formatter, "\n  {line}")?;
            }
            if lines.len() > SHOWN {
                write!(formatter, "\n  and {} more", lines.len() - SHOWN)?;
            }
        }
        Ok(())
    }
}

fn reasons<'a, T: fmt::Display + 'a>(counts: impl Iterator<Item = (&'a T, &'a usize)>) -> String {
    let counts: Vec<String> = counts
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    if counts.is_empty() {
        String::new()
    } else {
        format!("  ({})", counts.join(", "))
    }
}

fn seconds(delay: Option<&Delay>) -> String {
    delay.map_or("none".to_owned(), |delay| {
        format!("{}.{:03} s", delay.ms / 1000, delay.ms % 1000)
    })
}

/// Makes the directory in which a run of a seed is kept: the earlier ones of that seed stay.
///
/// # Errors
/// If it cannot be made.
pub fn new_directory(seed: u64) -> io::Result<PathBuf> {
    new_directory_in(&repository().join("target").join("soak"), seed)
}

fn new_directory_in(parent: &Path, seed: u64) -> io::Result<PathBuf> {
    fs::create_dir_all(parent)?;
    let mut number = 1_u64;
    loop {
        let name = match number {
            1 => seed.to_string(),
            _ => format!("{seed}-{number}"),
        };
        let directory = parent.join(name);
        match fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Reads what a run has kept.
///
/// # Errors
/// If it is not there, or is something else.
pub fn read(directory: &Path) -> io::Result<(Plan, Evidence)> {
    let plan = fs::read_to_string(directory.join("plan.json"))?;
    let evidence = fs::read_to_string(directory.join("evidence.json"))?;
    Ok((
        serde_json::from_str(&plan)?,
        serde_json::from_str(&evidence)?,
    ))
}

/// Keeps the plan, before anything can go wrong.
///
/// # Errors
/// If the file cannot be written.
pub fn keep_plan(directory: &Path, plan: &Plan) -> io::Result<()> {
    let text = serde_json::to_string_pretty(plan)?;
    fs::write(directory.join("plan.json"), text)
}

/// Keeps what was seen, and what the functions have logged.
///
/// # Errors
/// If a file cannot be written.
pub fn keep_evidence(directory: &Path, evidence: &Evidence, logs: &[String]) -> io::Result<()> {
    fs::write(
        directory.join("evidence.json"),
        serde_json::to_string(evidence)?,
    )?;
    fs::write(directory.join("functions.log"), logs.join("\n"))
}

/// Keeps the account.
///
/// # Errors
/// If a file cannot be written.
pub fn keep_verdict(directory: &Path, verdict: &Verdict) -> io::Result<()> {
    fs::write(
        directory.join("verdict.json"),
        serde_json::to_string(verdict)?,
    )?;
    fs::write(directory.join("report.txt"), format!("{verdict}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_a_seed_leaves_the_earlier_ones_alone() {
        let parent = std::env::temp_dir().join(format!("soak-{}", std::process::id()));
        let names: Vec<PathBuf> = (0..3)
            .map(|_| new_directory_in(&parent, 7).unwrap())
            .collect();
        fs::remove_dir_all(&parent).unwrap();
        assert_eq!(names, ["7", "7-2", "7-3"].map(|name| parent.join(name)));
    }
}
