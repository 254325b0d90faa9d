//! Whether a delivery may be dead: whoever accepts is to get everything, and whoever does not is to get
//! all attempts.

use serde_json::Value;

use super::super::duplicates;
use super::super::evidence::{Evidence, Post};
use super::super::script::ATTEMPTS;
use super::{Debt, NOT_DISPATCHED};
use crate::delivery_record::parse_ms;

/// Whether a delivery may be dead.
pub(super) enum Death {
    /// It had all of its attempts, or none could be made.
    Due,
    /// It had fewer, for a cause that is known.
    Early,
    /// Neither: why not.
    Wrong(String),
}

/// Judges a delivery that is dead for that reason.
pub(super) fn death(
    debt: &Debt<'_>,
    reason: &str,
    posts: &[&Post],
    record: Option<&Value>,
    evidence: &Evidence,
) -> Death {
    match reason {
        // Our own faults, which no partner can help.
        NOT_DISPATCHED | "faults" | "receives" => return Death::Due,
        "attempts" => {}
        _ => return Death::Wrong(format!("dead by {reason}, which nothing here leads to")),
    }
    let history = record.and_then(|record| record["history"].as_array());
    let failed_to_come = |entry: &&Value| entry["status"].is_null();
    let unseen = history.into_iter().flatten().filter(failed_to_come).count();
    let has_all = !debt.script.gets_requests() || posts.len() + unseen >= ATTEMPTS;
    if has_all && !debt.script.takes_an_end() {
        return Death::Due;
    }
    let webhook_id = format!("msg_{}_{}", debt.event.id, debt.partner);
    let updated_at = record.and_then(|record| record["updatedAt"].as_str());
    let until = updated_at.map_or(u64::MAX, parse_ms);
    let was_in_doubt = duplicates::were_in_doubt(&webhook_id, debt.event.at, until, evidence);
    if !has_all && was_in_doubt {
        return Death::Early;
    }
    Death::Wrong(format!(
        "dead after {} requests, of a partner that {}",
        posts.len(),
        if debt.script.takes_an_end() {
            "accepts"
        } else {
            "was there to get more"
        }
    ))
}
