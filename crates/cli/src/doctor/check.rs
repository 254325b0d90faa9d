//! One check, and all of them as a report.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::findings::Unread;
use crate::error::Exit;
use crate::output::Report;

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// As it must be.
    Ok,
    /// As somebody wanted it, and good to know.
    Info,
    /// Not as it should be, or not for long.
    Warning,
    /// Webhooks or alarms are lost by it.
    Problem,
    /// It could not be found out.
    NotChecked,
}

impl Level {
    fn words(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Problem => "problem",
            Self::NotChecked => "not checked",
        }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// What was looked at.
    pub subject: &'static str,
    /// How it stands.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// The command or the setting that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

impl Check {
    /// All is well.
    pub fn ok(subject: &'static str, found: impl Into<String>) -> Self {
        Self::new(subject, Level::Ok, found, None)
    }

    /// Nothing is wrong.
    pub fn info(subject: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::new(subject, Level::Info, found, Some(mend.into()))
    }

    /// Something is not as it should be.
    pub fn warning(
        subject: &'static str,
        found: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self::new(subject, Level::Warning, found, Some(mend.into()))
    }

    /// Something is wrong.
    pub fn problem(
        subject: &'static str,
        found: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self::new(subject, Level::Problem, found, Some(mend.into()))
    }

    /// It could not be found out.
    pub fn unread(subject: &'static str, unread: &Unread) -> Self {
        Self::new(subject, Level::NotChecked, unread.to_string(), None)
    }

    fn new(
        subject: &'static str,
        level: Level,
        found: impl Into<String>,
        mend: Option<String>,
    ) -> Self {
        Self {
            subject,
            level,
            found: found.into(),
            mend,
        }
    }
}

/// All checks of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Examination {
    /// The stack's name.
    pub stack: String,
    /// How many problems there are.
    pub problems: usize,
    /// How many warnings.
    pub warnings: usize,
    /// How many checks could not be made.
    pub not_checked: usize,
    /// All checks.
    pub checks: Vec<Check>,
}

impl Examination {
    /// These checks.
    #[must_use]
    pub fn new(stack: String, checks: Vec<Check>) -> Self {
        let count = |level| checks.iter().filter(|check| check.level == level).count();
        Self {
            stack,
            problems: count(Level::Problem),
            warnings: count(Level::Warning),
            not_checked: count(Level::NotChecked),
            checks,
        }
    }
}

impl Report for Examination {
    fn exit(&self) -> Exit {
        if self.problems == 0 {
            Exit::Done
        } else {
            Exit::Failed
        }
    }
}

impl Display for Examination {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let subjects = self.checks.iter().map(|check| check.subject.len());
        let width = subjects.max().unwrap_or(0);
        for check in &self.checks {
            let level = check.level.words();
            writeln!(f, "{level:11}  {:width$}  {}", check.subject, check.found)?;
            if let Some(mend) = &check.mend {
                writeln!(f, "{:11}  {:width$}  → {mend}", "", "")?;
            }
        }
        write!(
            f,
            "\n{}: {}, {}",
            self.stack,
            counted(self.problems, "problem"),
            counted(self.warnings, "warning")
        )?;
        match self.not_checked {
            0 => Ok(()),
            number => write!(f, ", {number} not checked"),
        }
    }
}

/// `no problem`, `1 problem`, `2 problems`.
pub(super) fn counted(number: usize, what: &str) -> String {
    match number {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_fails_and_its_mending_stands_below_it() {
        let checks = vec![
            Check::ok("stack", "UPDATE_COMPLETE"),
            Check::problem("rule", "it is DISABLED", "`enable it`"),
            Check::unread(
                "jobs queue",
                &Unread::Denied("sqs:GetQueueAttributes".into()),
            ),
        ];
        let examination = Examination::new("shop".into(), checks);
        assert_eq!(examination.exit(), Exit::Failed);
        assert_eq!(
            examination.to_string(),
            "ok           stack       UPDATE_COMPLETE\n\
             problem      rule        it is DISABLED\n                         → `enable it`\n\
             not checked  jobs queue  needs the permission sqs:GetQueueAttributes\n\n\
             shop: 1 problem, no warning, 1 not checked"
        );
    }

    #[test]
    fn warnings_and_what_is_not_checked_do_not_fail() {
        let checks = vec![
            Check::warning("topic", "x", "y"),
            Check::unread("rule", &Unread::Failed("z".into())),
        ];
        let examination = Examination::new("shop".into(), checks);
        assert_eq!(examination.exit(), Exit::Done);
    }
}
