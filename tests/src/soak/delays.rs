//! How late attempts come after they are due, and whether one comes before.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::duplicates;
use super::evidence::{Evidence, Post};
use super::oracle::INVOCATION_MS;
use super::plan::Plan;
use crate::delivery_record::parse_ms;

/// What counts as too early, in milliseconds.
const EARLY_MS: u64 = 100;

/// The longest time from when an attempt was due to when it came, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delays {
    /// While nothing was disturbed.
    pub undisturbed: Option<Delay>,
    /// While, or shortly after, something was.
    pub disturbed: Option<Delay>,
}

/// A late attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delay {
    /// How late, in milliseconds.
    pub ms: u64,
    /// Which.
    pub webhook_id: String,
}

/// How late attempts were, by the time of the event or the one that the record has for the next
/// attempt. `published` knows when the event of a delivery was. What came too early, though whoever
/// sent it must have known better, is added to `early`.
#[must_use]
pub fn find(
    plan: &Plan,
    evidence: &Evidence,
    posts: &BTreeMap<&str, Vec<&Post>>,
    published: impl Fn(&str) -> Option<u64>,
    early: &mut Vec<String>,
) -> Delays {
    let mut delays = Delays::default();
    let troubles = troubles(plan, evidence);
    for (webhook_id, posts) in posts {
        let Some(published) = published(webhook_id) else {
            continue;
        };
        let history = evidence
            .records
            .get(*webhook_id)
            .and_then(|record| record["history"].as_array());
        let planned: Vec<(u64, u64)> = history
            .into_iter()
            .flatten()
            .filter_map(|entry| Some((time(&entry["at"])?, time(&entry["nextAt"])?)))
            .collect();
        let mut before: Option<u64> = None;
        for (index, post) in posts.iter().enumerate() {
            // What was planned since the last request; nothing, if that one was forgotten.
            let due = match before {
                None => Some(published),
                // What an attempt itself has led to may be of the same millisecond.
                Some(before) => planned
                    .iter()
                    .filter(|(at, _)| (before..post.at).contains(at))
                    .map(|(_, next)| *next)
                    .max(),
            };
            let was_planned = before.is_some();
            before = Some(post.at);
            let Some(due) = due else { continue };
            if was_planned && post.at + EARLY_MS < due {
                let text = format!("{webhook_id}: {} ms too early", due - post.at);
                if !duplicates::may_be_early(&posts[..=index], evidence) {
                    early.push(text);
                }
            }
            let ms = post.at.saturating_sub(due);
            let is_disturbed = troubles
                .iter()
                .any(|(from, to)| *from <= post.at && due <= *to);
            let worst = if is_disturbed {
                &mut delays.disturbed
            } else {
                &mut delays.undisturbed
            };
            if worst.as_ref().is_none_or(|worst| worst.ms < ms) {
                let webhook_id = (*webhook_id).to_owned();
                *worst = Some(Delay { ms, webhook_id });
            }
        }
    }
    delays
}

/// The times in which something was disturbed.
fn troubles(plan: &Plan, evidence: &Evidence) -> Vec<(u64, u64)> {
    let comes_back = plan.visibility_seconds * 1000 + INVOCATION_MS;
    let kills = evidence.kills.iter().map(|at| (*at, at + comes_back));
    let calls = evidence
        .failures()
        .map(|call| (call.at, call.at + comes_back));
    let impatience = evidence
        .impatience
        .iter()
        .map(|(from, to)| (*from, to + INVOCATION_MS));
    kills.chain(calls).chain(impatience).collect()
}

fn time(value: &Value) -> Option<u64> {
    value.as_str().map(parse_ms)
}
