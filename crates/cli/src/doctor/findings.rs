//! What is known of a stack, or why it is not.

use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;

use webhooks_core::identity::SubscriberId;

use crate::error::Error;
use crate::parameters::Parameter;
use crate::stack::Stack;
use crate::subscriptions::Entry;

/// Something that was asked for.
pub type Read<T> = Result<T, Unread>;

/// Why something is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// A permission is missing, that for this IAM action.
    #[error("needs the permission {0}")]
    Denied(String),
    /// It did not work, as said here.
    #[error("{0}")]
    Failed(String),
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        match error {
            Error::Denied { action, .. } => Self::Denied(action),
            Error::NoRecord { said, .. } => Self::Failed(said),
            Error::Failed(text) | Error::Usage(text) | Error::NotFound(text) => Self::Failed(text),
        }
    }
}

/// All that is asked about a stack.
#[derive(Debug, Clone)]
pub struct Findings {
    /// When it is asked.
    pub now: SystemTime,
    /// What CloudFormation says of it.
    pub stack: Stack,
    /// The names of its alarms, by their names in the template.
    pub alarm_names: Read<BTreeMap<String, String>>,
    /// Those of them that CloudWatch has.
    pub alarms: Read<Vec<Alarm>>,
    /// Where alarms are published.
    pub topic: Read<Topic>,
    /// Deliveries under way.
    pub jobs: Read<Queue>,
    /// Dead deliveries.
    pub dead_letters: Read<Queue>,
    /// Events that did not become jobs.
    pub dispatch_failures: Read<Queue>,
    /// The function that signs and posts.
    pub deliver: Read<Function>,
    /// The function that makes jobs of events.
    pub dispatch: Read<Function>,
    /// What hands jobs to deliver.
    pub mappings: Read<Vec<Mapping>>,
    /// What hands events to dispatch.
    pub rule: Read<Rule>,
    /// Whether old delivery records are deleted.
    pub expiry: Read<Expiry>,
    /// All subscriptions.
    pub rows: Read<Vec<Entry>>,
    /// The secrets of those who have an enabled one.
    pub secrets: BTreeMap<SubscriberId, Read<Option<Parameter>>>,
    /// What the host names of their urls stand for.
    pub hosts: BTreeMap<String, Resolution>,
}

/// An alarm in CloudWatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// Its name.
    pub name: String,
    /// Whether it tells anybody.
    pub actions_enabled: bool,
    /// Whom, when it rings.
    pub actions: Vec<String>,
    /// Whether it rings.
    pub rings: bool,
}

/// An SNS topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topic {
    /// How many get what is published.
    pub confirmed: u64,
    /// How many were asked whether they want to, and have not answered.
    pub pending: u64,
}

/// An SQS queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Its URL.
    pub url: String,
    /// Its ARN.
    pub arn: String,
    /// `VisibilityTimeout`.
    pub visibility_seconds: u64,
    /// `MessageRetentionPeriod`.
    pub retention_seconds: u64,
    /// `RedrivePolicy`.
    pub redrive: Option<Redrive>,
    /// How many messages it has, as far as SQS knows.
    pub messages: u64,
}

/// When a queue gives a message up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// To where.
    pub target_arn: String,
    /// After how many receives.
    pub most_receives: u64,
}

/// A Lambda function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// `Active`, or something else.
    pub state: String,
    /// `Successful`, or something else.
    pub last_update: String,
    /// How long an invocation may take.
    pub timeout_seconds: u64,
    /// Its environment.
    pub variables: HashMap<String, String>,
}

/// What hands messages of a queue to a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Its id.
    pub id: String,
    /// `Enabled`, or something else.
    pub state: String,
    /// The queue.
    pub source_arn: String,
    /// Whether the function says which messages failed (`ReportBatchItemFailures`).
    pub reports_failures: bool,
}

/// An EventBridge rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// Its bus.
    pub bus: String,
    /// `ENABLED`, or something else.
    pub state: String,
    /// To whom it hands events.
    pub targets: Vec<String>,
}

/// The time to live of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiry {
    /// Whether rows are deleted by it.
    pub enabled: bool,
    /// By which attribute.
    pub attribute: String,
}

/// What a host name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// Addresses that may be called.
    Allowed,
    /// At least one that may not, for this reason.
    Forbidden(String),
    /// Nothing, for this reason.
    Failed(String),
}
