//! Why something came again that a partner had accepted. At least once is what is promised, so each
//! duplicate must have a cause that the promise names; what the record says was delivered is never
//! sent again.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, FailedCall, Post};
use super::oracle::INVOCATION_MS;

/// A cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The 2xx came when the attempt was over.
    AnsweredTooLate,
    /// The function was killed before it could write the record.
    Killed,
    /// The record could not be written.
    RecordUnwritten,
    /// The record could not be read.
    RecordUnread,
    /// There are two jobs, as `dispatch` got the event twice or could not know that SQS had the job.
    DispatchedTwice,
    /// SQS handed the job out again while it was worked on.
    RedeliveredEarly,
    /// None, though the record had long said that it was delivered.
    KnownToBeDelivered,
    /// None that is known.
    Unknown,
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::AnsweredTooLate => "the partner had answered too late",
            Self::Killed => "the function was killed",
            Self::RecordUnwritten => "the record could not be written",
            Self::RecordUnread => "the record could not be read",
            Self::DispatchedTwice => "there were two jobs of it",
            Self::RedeliveredEarly => "SQS handed it out again too early",
            Self::KnownToBeDelivered => "none, it was known to be delivered",
            Self::Unknown => "unknown",
        })
    }
}

/// Something that came again.
#[derive(Debug)]
pub struct Duplicate<'a> {
    /// Why.
    pub cause: Cause,
    accepted: &'a Post,
    again: &'a Post,
}

impl Duplicate<'_> {
    /// What happened, for a person.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "{}: accepted at {} and sent again at {}, cause: {}",
            self.again.webhook_id,
            self.accepted.accepted_at().unwrap_or_default(),
            self.again.at,
            self.cause
        )
    }
}

/// All that came again after it was accepted, by webhook id and in the order of time.
#[must_use]
pub fn find<'a>(posts: &BTreeMap<&str, Vec<&'a Post>>, evidence: &Evidence) -> Vec<Duplicate<'a>> {
    let mut duplicates = Vec::new();
    for posts in posts.values() {
        for (index, again) in posts.iter().enumerate() {
            let earlier = posts.iter().take(index);
            // In time rather than late, and the latest of them: what came after it is its repeat.
            let accepted = earlier
                .filter(|post| post.accepted_at().is_some())
                .max_by_key(|post| (post.accepted_in_time().is_some(), post.at));
            if let Some(accepted) = accepted {
                duplicates.push(Duplicate {
                    cause: cause(accepted, again, evidence),
                    accepted,
                    again,
                });
            }
        }
    }
    duplicates
}

fn cause(accepted: &Post, again: &Post, evidence: &Evidence) -> Cause {
    let id = &again.webhook_id;
    let accepted_at = accepted.accepted_at().unwrap_or_default();
    let failed = |operations: &[&str], from: u64| {
        evidence.failed_calls.iter().any(|call: &FailedCall| {
            operations.contains(&call.operation.as_str())
                && call.webhook_ids.contains(id)
                && (from..=again.at).contains(&call.at)
        })
    };
    // A batch that had read before may still be sending.
    let known = evidence.known_delivered.get(id);
    let is_known = known.is_some_and(|known| known + INVOCATION_MS < again.at);
    if failed(&["BatchGetItem"], again.at.saturating_sub(INVOCATION_MS)) {
        return Cause::RecordUnread;
    }
    if is_known {
        return Cause::KnownToBeDelivered;
    }
    if accepted.accepted_in_time().is_none() {
        return Cause::AnsweredTooLate;
    }
    if failed(&["BatchWriteItem", "UpdateItem"], accepted.at) {
        return Cause::RecordUnwritten;
    }
    let was_killed = |at: &u64| (accepted.at..=again.at).contains(at);
    if evidence.kills.iter().any(was_killed) {
        return Cause::Killed;
    }
    let has_two_jobs = evidence
        .again
        .iter()
        .any(|(event, at)| id.starts_with(&format!("msg_{event}_")) && *at <= again.at);
    if has_two_jobs || failed(&["SendMessageBatch"], 0) {
        return Cause::DispatchedTwice;
    }
    let was_impatient = |(from, to): &(u64, u64)| {
        *from <= accepted_at + INVOCATION_MS && accepted.at <= to + INVOCATION_MS
    };
    if evidence.impatience.iter().any(was_impatient) {
        return Cause::RedeliveredEarly;
    }
    Cause::Unknown
}
