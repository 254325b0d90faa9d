//! The account of a run. It uses nothing of the code that is tested, and of what that says of itself
//! only what an operator is to rely on: the dead-letter queue with its reasons, and what was switched
//! off by a 410.

use std::collections::BTreeMap;

use serde::Serialize;

use super::delays::{self, Delays};
use super::duplicates::{self, Cause};
use super::evidence::{Evidence, FailedCall, Post, Published};
use super::plan::Plan;
use super::script::Script;
use crate::delivery_record::parse_ms;
use death::{Death, death};

/// How long a batch may go on working with what it had read before, in milliseconds: the timeout
/// of `deliver` in a local stack.
pub const INVOCATION_MS: u64 = 5000;

/// How much later than the partner's answer the function's clock may say the same thing.
const CLOCK_MS: u64 = 1000;

/// What became of events that are in the dispatch failure queue.
const NOT_DISPATCHED: &str = "not dispatched";

const WINDOWS: &str = "times of failing calls";
const KILLS: &str = "kills";

/// Of how many deliveries one may have come again for no known cause.
const PER_UNEXPLAINED: usize = 100;

/// What became of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// How many deliveries are owed: each published event to each of its subscribers.
    pub published: usize,
    /// How many were accepted in time.
    pub delivered: usize,
    /// How many are in the dead-letter queue, by the reason.
    pub dead: BTreeMap<String, usize>,
    /// How many of the dead got fewer requests than a delivery has attempts, while records could not
    /// be read or written: the receives of their messages stood in for their attempts.
    pub dead_early: usize,
    /// How many were dropped by a 410.
    pub gone: usize,
    /// Of what became of them there is no trace.
    pub lost: Vec<String>,
    /// What must never happen: wrong signatures, changed bodies, webhooks that nobody published.
    pub wrong: Vec<String>,
    /// How often something came again that had been accepted, by the cause.
    pub duplicates: BTreeMap<Cause, usize>,
    /// The duplicates without a cause.
    pub unexplained: Vec<String>,
    /// The attempts that came latest after they were due.
    pub delays: Delays,
    /// How many requests came to partners.
    pub posts: usize,
    /// How many messages were still in the jobs queue when the time was over.
    pub left: u32,
    /// How many calls of AWS the functions made.
    pub calls: u64,
    /// How many of them were made to fail.
    pub failed_calls: usize,
    /// How many of them failed by themselves, as the machine was too slow.
    pub slow_calls: usize,
    /// How much of what was planned to go wrong did.
    pub happened: Vec<Share>,
}

/// How much of what was planned was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// What.
    pub what: &'static str,
    /// How often it was planned.
    pub planned: usize,
    /// How often it happened.
    pub done: usize,
}

impl Verdict {
    /// Whether the run has failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        !self.lost.is_empty()
            || !self.wrong.is_empty()
            || self.left > 0
            || self.unexplained.len() * PER_UNEXPLAINED > self.published
    }
}

/// Makes the account.
#[must_use]
pub fn judge(plan: &Plan, evidence: &Evidence) -> Verdict {
    let owed = owed(plan, evidence);
    let was_slow = |call: &&FailedCall| call.hung_up.is_some();
    let slow_calls = evidence.failures().filter(was_slow).count();
    let failed_calls = evidence.failures().count() - slow_calls;
    let mut verdict = Verdict {
        published: owed.len(),
        posts: evidence.posts.len(),
        left: evidence.left,
        calls: evidence.calls,
        failed_calls,
        slow_calls,
        happened: happened(plan, evidence),
        ..Verdict::default()
    };
    proves_nothing(evidence, &mut verdict);
    let mut posts: BTreeMap<&str, Vec<&Post>> = BTreeMap::new();
    for post in &evidence.posts {
        posts.entry(&post.webhook_id).or_default().push(post);
    }
    for post in &evidence.posts {
        if let Some(error) = &post.refused {
            verdict.wrong.push(format!("{}: {error}", post.webhook_id));
        }
        match owed.get(post.webhook_id.as_str()) {
            Some(debt) if !debt.script.gets_requests() => verdict.wrong.push(format!(
                "{} came to {}, which had not shown who it is",
                post.webhook_id, post.partner
            )),
            Some(debt) if debt.partner == post.partner => {
                if let Some(error) = wrong_body(debt.event, post) {
                    verdict.wrong.push(format!("{}: {error}", post.webhook_id));
                }
            }
            _ => verdict.wrong.push(format!(
                "{} came to {}, which nobody owes it",
                post.webhook_id, post.partner
            )),
        }
    }
    for (webhook_id, posts) in &posts {
        if posts.windows(2).any(|pair| pair[0].body != pair[1].body) {
            verdict
                .wrong
                .push(format!("{webhook_id}: the body changed"));
        }
    }
    wrong_after_410(evidence, &owed, &mut verdict);
    for letter in &evidence.strange_letters {
        verdict
            .wrong
            .push(format!("no job in the dead-letter queue: {letter}"));
    }
    for (webhook_id, debt) in &owed {
        let posts = posts
            .get(webhook_id.as_str())
            .map_or(&[][..], Vec::as_slice);
        match end(webhook_id, debt, posts, evidence) {
            End::Delivered => verdict.delivered += 1,
            End::Dead(reason) => {
                match death(
                    debt,
                    &reason,
                    posts,
                    evidence.records.get(webhook_id),
                    evidence,
                ) {
                    Death::Due => {}
                    Death::Early => verdict.dead_early += 1,
                    Death::Wrong(why) => verdict.wrong.push(format!("{webhook_id}: {why}")),
                }
                *verdict.dead.entry(reason).or_default() += 1;
            }
            End::Gone => verdict.gone += 1,
            End::Lost(why) => verdict.lost.push(format!("{webhook_id}: {why}")),
        }
    }
    for duplicate in duplicates::find(&posts, evidence) {
        *verdict.duplicates.entry(duplicate.cause).or_default() += 1;
        match duplicate.cause {
            Cause::Unknown => verdict.unexplained.push(duplicate.text()),
            Cause::KnownToBeDelivered => verdict.wrong.push(duplicate.text()),
            _ => {}
        }
    }
    let published = |webhook_id: &str| owed.get(webhook_id).map(|debt| debt.event.at);
    verdict.delays = delays::find(plan, evidence, &posts, published, &mut verdict.wrong);
    verdict
}

/// A delivery that is owed.
struct Debt<'a> {
    event: &'a Published,
    partner: &'a str,
    script: Script,
}

/// All of them, by webhook id.
fn owed<'a>(plan: &'a Plan, evidence: &'a Evidence) -> BTreeMap<String, Debt<'a>> {
    let mut owed = BTreeMap::new();
    for event in &evidence.published {
        for partner in &plan.partners {
            if partner.event_types.contains(&event.event_type) {
                let id = format!("msg_{}_{}", event.id, partner.id);
                let debt = Debt {
                    event,
                    partner: &partner.id,
                    script: partner.script,
                };
                owed.insert(id, debt);
            }
        }
    }
    owed
}

enum End {
    Delivered,
    Dead(String),
    Gone,
    Lost(String),
}

fn end(webhook_id: &str, debt: &Debt<'_>, posts: &[&Post], evidence: &Evidence) -> End {
    let is_good = |post: &&&Post| post.refused.is_none() && post.partner == debt.partner;
    if posts
        .iter()
        .filter(is_good)
        .any(|post| post.accepted_in_time().is_some())
    {
        return End::Delivered;
    }
    let record = evidence.records.get(webhook_id);
    let text = |name: &str| record.and_then(|record| record[name].as_str());
    if evidence.dead_letters.contains(webhook_id) {
        return match (text("state"), text("deadReason")) {
            (Some("dead"), Some(reason)) => End::Dead(reason.to_owned()),
            (state, _) => End::Lost(format!(
                "in the dead-letter queue without a reason, its record says {state:?}"
            )),
        };
    }
    if is_gone(webhook_id, debt, posts, evidence, text("state")) {
        return End::Gone;
    }
    let was_dispatched = evidence.dispatched.contains_key(&debt.event.id);
    if evidence.undispatched.contains(&debt.event.id) && !was_dispatched {
        return End::Dead(NOT_DISPATCHED.to_owned());
    }
    End::Lost(format!(
        "{} requests, its record says {:?}, {} dispatched",
        posts.len(),
        text("state"),
        if was_dispatched { "was" } else { "was not" }
    ))
}

/// How much of what was planned to go wrong did.
fn happened(plan: &Plan, evidence: &Evidence) -> Vec<Share> {
    let share = |what, planned, done| Share {
        what,
        planned,
        done,
    };
    let met = evidence.met.iter().filter(|met| **met > 0).count();
    let twice = plan.events.iter().filter(|event| event.again_at.is_some());
    vec![
        share(WINDOWS, plan.windows.len(), met),
        share(KILLS, plan.kills.len(), evidence.kills.len()),
        share("second dispatches", twice.count(), evidence.again.len()),
        share(
            "looks into the queue",
            plan.looks.len(),
            evidence.looks.len(),
        ),
        share(
            "times of an impatient queue",
            plan.impatience.len(),
            evidence.impatience.len(),
        ),
    ]
}

/// A run in which nothing happened shows nothing.
fn proves_nothing(evidence: &Evidence, verdict: &mut Verdict) {
    for share in &verdict.happened {
        if [WINDOWS, KILLS].contains(&share.what) && share.planned > 0 && share.done == 0 {
            verdict.wrong.push(format!(
                "none of {} {} came about",
                share.planned, share.what
            ));
        }
    }
    if evidence.published.is_empty() {
        verdict.wrong.push("nothing was published".to_owned());
    }
    if evidence.calls == 0 {
        verdict
            .wrong
            .push("no call of AWS came through the proxy".to_owned());
    }
}

/// Whether a delivery was dropped by a 410: its own, or an earlier one that has switched the
/// subscription off.
fn is_gone(
    webhook_id: &str,
    debt: &Debt<'_>,
    posts: &[&Post],
    evidence: &Evidence,
    state: Option<&str>,
) -> bool {
    let Some(disabled) = evidence.disabled.iter().find(|disabled| {
        disabled.partner == debt.partner && disabled.event_type == debt.event.event_type
    }) else {
        return false;
    };
    let has_answered_410 = |post: &&Post| post.status == Some(410) && post.answered_at.is_some();
    let by_its_own = posts.iter().any(has_answered_410);
    // `dispatch` may have looked later than the event was published; then it has sent no job.
    let dispatched = evidence.dispatched.get(&debt.event.id);
    let was_off = dispatched.is_some_and(|at| {
        let is_later = debt.event.at >= disabled.at;
        let was_left_out = *at >= disabled.at && !evidence.jobs.contains(webhook_id);
        state.is_none() && (is_later || was_left_out)
    });
    let is_said =
        matches!(state, Some("gone" | "dropped")) || evidence.dropped.contains(webhook_id);
    by_its_own || is_said || was_off
}

/// Nothing may come once a subscription is off, but for what was already under way.
fn wrong_after_410(evidence: &Evidence, owed: &BTreeMap<String, Debt<'_>>, verdict: &mut Verdict) {
    for disabled in &evidence.disabled {
        let answered = evidence
            .posts
            .iter()
            .filter(|post| post.partner == disabled.partner && post.status == Some(410))
            .filter_map(|post| post.answered_at)
            .min();
        if answered.is_none_or(|answered| answered > disabled.at + CLOCK_MS) {
            verdict.wrong.push(format!(
                "{} was switched off before it answered 410",
                disabled.partner
            ));
        }
        for post in &evidence.posts {
            let is_of_it = owed.get(&post.webhook_id).is_some_and(|debt| {
                debt.partner == disabled.partner && debt.event.event_type == disabled.event_type
            });
            // One invocation may have read the row before, and have waited for the answer in time.
            if is_of_it && post.at > disabled.at + 2 * INVOCATION_MS {
                verdict.wrong.push(format!(
                    "{} came when the subscription was long off",
                    post.webhook_id
                ));
            }
        }
    }
}

/// What is wrong with a body. When EventBridge took the event stands only in it.
fn wrong_body(event: &Published, post: &Post) -> Option<String> {
    let start = format!(r#"{{"type":"{}","timestamp":""#, event.event_type);
    let end = format!(r#"","data":{}}}"#, event.detail);
    let rest = post.body.strip_prefix(&start);
    let time = rest.and_then(|rest| rest.strip_suffix(&end));
    let Some(time) = time.filter(|time| time.len() == 20) else {
        return Some(format!("another body than was published: {}", post.body));
    };
    let at = parse_ms(&time.replace('Z', ".000Z"));
    // EventBridge cuts it to seconds.
    let is_now = (event.at.saturating_sub(1000)..=event.taken + 1000).contains(&at);
    (!is_now).then(|| format!("another time than that of the event: {time}"))
}

mod death;
#[cfg(test)]
mod tests;
