//! One check, and all of them as a report.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::findings::Unread;
use crate::error::Exit;
use crate::output::{Report, safe};

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

/// The subject of what CloudFormation says of the stack.
pub(super) const STACK: &str = "stack";
/// The subject of what the stack's parameters make.
pub(super) const POLICY: &str = "retry policy";

/// What is known of every stack that is found.
const OF_THE_STACK: [&str; 2] = [STACK, POLICY];

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

    /// Whether nothing could be found out but what CloudFormation says when it is asked what the
    /// stack is, so that to find no problem says nothing.
    fn is_blind(&self) -> bool {
        self.checks
            .iter()
            .filter(|check| !OF_THE_STACK.contains(&check.subject))
            .all(|check| check.level == Level::NotChecked)
    }
}

impl Report for Examination {
    fn exit(&self) -> Exit {
        if self.problems > 0 || self.is_blind() {
            Exit::Failed
        } else {
            Exit::Done
        }
    }
}

impl Display for Examination {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let subjects = self.checks.iter().map(|check| check.subject.len());
        let width = subjects.max().unwrap_or(0);
        for check in &self.checks {
            let level = check.level.words();
            // Names, reasons and urls in it are other people's: none of them begins a line.
            let found = safe(&check.found);
            writeln!(f, "{level:11}  {:width$}  {found}", check.subject)?;
            if let Some(mend) = check.mend.as_deref().map(safe) {
                writeln!(f, "{:11}  {:width$}  → {mend}", "", "")?;
            }
        }
        write!(
            f,
            "\n{}: {}, {}",
            safe(&self.stack),
            counted(self.problems, "problem"),
            counted(self.warnings, "warning")
        )?;
        if self.not_checked == 0 {
            return Ok(());
        }
        let unread = self.checks.iter();
        let unread = unread.filter(|check| check.level == Level::NotChecked);
        let mut subjects: Vec<&str> = unread.map(|check| check.subject).collect();
        subjects.dedup();
        write!(
            f,
            "\n{} could not be made: {}",
            counted(self.not_checked, "check"),
            subjects.join(", ")
        )
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
             shop: 1 problem, no warning\n1 check could not be made: jobs queue"
        );
    }

    #[test]
    fn no_value_begins_a_line() {
        let forged = "a\nok           secrets  all is well\u{1b}[2J";
        let checks = vec![
            Check::problem("rule", forged, forged),
            Check::unread("topic", &Unread::Failed(forged.into())),
        ];
        let examination = Examination::new("shop".into(), checks);
        let text = examination.to_string();
        let lines: Vec<&str> = text.lines().collect();
        let shown = r"a\nok           secrets  all is well\u{1b}[2J";
        assert_eq!(
            lines[..3],
            [
                format!("problem      rule   {shown}"),
                format!("                    → {shown}"),
                format!("not checked  topic  {shown}"),
            ]
        );
        assert_eq!(lines.len(), 6, "{text}");
        // Whoever reads the JSON gets what is there.
        assert_eq!(examination.checks[0].found, forged);
    }

    fn unread(subject: &'static str) -> Check {
        Check::unread(subject, &Unread::Failed("z".into()))
    }

    #[test]
    fn warnings_and_what_is_not_checked_do_not_fail() {
        let checks = vec![
            Check::warning("topic", "x", "y"),
            unread("rule"),
            unread("secrets"),
            unread("secrets"),
        ];
        let examination = Examination::new("shop".into(), checks);
        assert_eq!(examination.exit(), Exit::Done);
        assert!(
            examination.to_string().ends_with(
                "\nshop: no problem, 1 warning\n3 checks could not be made: rule, secrets"
            ),
            "{examination}"
        );
    }

    #[test]
    fn to_have_found_out_nothing_fails() {
        let known = || [Check::ok(STACK, "x"), Check::ok(POLICY, "y")].to_vec();
        let exit = |more: &[Check]| {
            let checks = [known(), more.to_vec()].concat();
            Examination::new("shop".into(), checks).exit()
        };
        assert_eq!(exit(&[unread("rule"), unread("alarms")]), Exit::Failed);
        assert_eq!(
            exit(&[unread("rule"), Check::ok("alarms", "z")]),
            Exit::Done
        );
    }
}
