//! How the command ends: its exit codes, and the errors behind them.

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
}

impl Error {
    /// The exit code it leads to.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Failed(_) | Self::Denied { .. } => Exit::Failed,
            Self::Usage(_) => Exit::Usage,
            Self::NotFound(_) => Exit::NotFound,
        }
    }
}
