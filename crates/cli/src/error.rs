//! How the command ends: its exit codes, and the errors behind them.

use crate::args::without_secrets;
use crate::output::safe;

/// The exit codes. `webhooks --help` and the README list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// It could not be done, or not all of it.
    Failed = 1,
    /// The command line is not understood. This is also what clap ends with.
    Usage = 2,
    /// What was asked for is not there: no such delivery, no such stack.
    NotFound = 3,
    /// Interrupted (128 + SIGINT); what had been begun is said.
    Interrupted = 130,
}

/// Why a command failed, in words for the person who typed it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something did not work.
    #[error("{0}")]
    Failed(String),
    /// AWS does not allow it.
    #[error("access denied, the credentials need the permission {action}: {said}")]
    Denied {
        /// The IAM action that is needed, such as `dynamodb:Query`.
        action: String,
        /// What AWS said.
        said: String,
    },
    /// The command line asks for something that can not be meant.
    #[error("{0}")]
    Usage(String),
    /// What was asked for is not there.
    #[error("{0}")]
    NotFound(String),
    /// There is no record of it, which may have several reasons.
    #[error("{}", with_reasons(said, reasons))]
    NoRecord {
        /// That it is not there.
        said: String,
        /// What it may be that.
        reasons: Vec<String>,
    },
}

/// A line, and one for each reason. Nothing within them begins another one.
#[must_use]
pub fn with_reasons(said: &str, reasons: &[String]) -> String {
    let mut text = format!("{}:", safe(said));
    for reason in reasons {
        text += &format!("\n- {}", safe(reason));
    }
    text
}

impl Error {
    /// The exit code it leads to.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Failed(_) | Self::Denied { .. } => Exit::Failed,
            Self::Usage(_) => Exit::Usage,
            Self::NotFound(_) | Self::NoRecord { .. } => Exit::NotFound,
        }
    }

    /// What the person is told, without secrets that were typed where they do not belong. It is one line, whatever the values in it are; only reasons have
    /// their own.
    #[must_use]
    pub fn told(&self) -> String {
        without_secrets(&match self {
            Self::NoRecord { .. } => self.to_string(),
            Self::Failed(_) | Self::Denied { .. } | Self::Usage(_) | Self::NotFound(_) => {
                safe(&self.to_string())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reasons_have_lines_of_their_own() {
        let forged = "a\nwebhooks: b".to_owned();
        for error in [
            Error::Failed(forged.clone()),
            Error::Usage(forged.clone()),
            Error::NotFound(forged.clone()),
            Error::Denied {
                action: forged.clone(),
                said: forged.clone(),
            },
        ] {
            assert!(error.told().contains(r"a\nwebhooks: b"), "{error:?}");
            assert_eq!(error.told().lines().count(), 1, "{error:?}");
        }
        let error = Error::NoRecord {
            said: forged.clone(),
            reasons: vec!["c".into(), forged],
        };
        assert_eq!(error.told(), "a\\nwebhooks: b:\n- c\n- a\\nwebhooks: b");
    }
}
