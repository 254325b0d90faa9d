//! Why something came again that a partner had accepted. At least once is what is promised, so each
//! duplicate must have a cause that the promise names; what the record says was delivered is never
//! sent again.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;

use super::evidence::{Evidence, Post};
use super::oracle::INVOCATION_MS;

/// How long a write that failed makes `deliver` doubt what it reads, in milliseconds.
const DISTRUST_MS: u64 = 60_000;

/// A cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
    /// Another job of it was tried at the same time, failed, and had the last word in the record.
    Overwritten,
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
            Self::Overwritten => "another job of it wrote over the record",
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
                    cause: cause(accepted, again, &posts[..=index], evidence),
                    accepted,
                    again,
                });
            }
        }
    }
    duplicates
}

/// The cause of the last one of these.
fn cause(accepted: &Post, again: &Post, posts: &[&Post], evidence: &Evidence) -> Cause {
    let id = &again.webhook_id;
    let accepted_at = accepted.accepted_at().unwrap_or_default();
    let failed =
        |operations: &[&str], from: u64| has_failed(operations, id, from..=again.at, evidence);
    // A batch that had read before may still be sending.
    let known = evidence.known_delivered.get(id);
    let is_known = known.is_some_and(|known| known + INVOCATION_MS < again.at);
    if failed(&["BatchGetItem"], again.at.saturating_sub(INVOCATION_MS)) {
        return Cause::RecordUnread;
    }
    let overwritten = evidence.overwritten.get(id);
    if is_known && overwritten.is_some_and(|at| *at <= again.at) {
        return Cause::Overwritten;
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
    if has_two_jobs(id, again.at, evidence) {
        return Cause::DispatchedTwice;
    }
    let was_impatient = |(from, to): &(u64, u64)| {
        *from <= accepted_at + INVOCATION_MS && accepted.at <= to + INVOCATION_MS
    };
    if evidence.impatience.iter().any(was_impatient) || was_handed_out_early(posts, evidence) {
        return Cause::RedeliveredEarly;
    }
    Cause::Unknown
}

/// Whether a call about a delivery failed at such a time. A read that was answered when the function
/// tried again told it all.
fn has_failed(
    operations: &[&str],
    webhook_id: &str,
    when: RangeInclusive<u64>,
    evidence: &Evidence,
) -> bool {
    evidence.failures().any(|call| {
        operations.contains(&call.operation.as_str())
            && call.webhook_ids.contains(webhook_id)
            && when.contains(&call.at)
            && !(call.operation == "BatchGetItem" && call.answered_later)
    })
}

/// Whether there can have been two jobs of a delivery by then.
fn has_two_jobs(webhook_id: &str, at: u64, evidence: &Evidence) -> bool {
    let is_of = |event: &str| webhook_id.starts_with(&format!("msg_{event}_"));
    let was_given_twice = evidence
        .again
        .iter()
        .any(|(event, again_at)| is_of(event) && *again_at <= at);
    was_given_twice || has_failed(&["SendMessageBatch"], webhook_id, 0..=at, evidence)
}

/// Whether a request, the last one of these, may come before the time that the record has for it:
/// whoever sent it can not have known the record.
#[must_use]
pub fn may_be_early(posts: &[&Post], evidence: &Evidence) -> bool {
    let Some(post) = posts.last() else {
        return false;
    };
    let shortly_before = post.at.saturating_sub(INVOCATION_MS)..=post.at;
    let read = &["BatchGetItem"];
    has_failed(read, &post.webhook_id, shortly_before.clone(), evidence)
        || has_two_jobs(&post.webhook_id, post.at, evidence)
        || was_handed_out_early(posts, evidence)
        || (was_made_visible(shortly_before, evidence)
            && is_distrusted(&(post.at.saturating_sub(DISTRUST_MS)..=post.at), evidence))
}

/// Whether a job was sent while, or shortly after, the queue handed out again what was being worked
/// on: two that do not know of each other may have had it since.
fn was_handed_out_early(posts: &[&Post], evidence: &Evidence) -> bool {
    let was_sent_then = |(from, to): &(u64, u64)| {
        posts
            .iter()
            .any(|post| (*from..=to + INVOCATION_MS).contains(&post.at))
    };
    evidence.impatience.iter().any(was_sent_then)
}

/// Whether what was to be hidden was made visible at such a time.
fn was_made_visible(when: RangeInclusive<u64>, evidence: &Evidence) -> bool {
    evidence
        .failures()
        .any(|call| call.fault == "early" && when.contains(&call.at))
}

/// Whether the receives of a message may have stood in for the attempts of its delivery, which lasted
/// from then until then.
pub(super) fn were_in_doubt(webhook_id: &str, from: u64, until: u64, evidence: &Evidence) -> bool {
    let written = from.saturating_sub(DISTRUST_MS)..=until;
    has_failed(&["BatchGetItem"], webhook_id, from..=until, evidence)
        || is_distrusted(&written, evidence)
}

/// Whether a function may have gone by the receives of a message instead of its record, as something
/// could not be written at such a time.
fn is_distrusted(when: &RangeInclusive<u64>, evidence: &Evidence) -> bool {
    evidence.failures().any(|call| {
        ["BatchWriteItem", "UpdateItem"].contains(&call.operation.as_str())
            && when.contains(&call.at)
    })
}
