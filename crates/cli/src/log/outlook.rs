//! What comes next for a delivery, in words.

use std::time::{Duration, SystemTime};

use webhooks_core::record::State;

use crate::delivery::Delivery;
use crate::moment::Time;
use crate::output::safe;
use crate::span;

/// How late an attempt may be before that is a sign of something.
const LATE_AFTER: Duration = Duration::from_mins(15);

/// What comes next, as seen at `now`.
pub(super) fn of(delivery: &Delivery, now: SystemTime) -> String {
    let Some(state) = delivery.known_state() else {
        return format!(
            "What comes next is not known: state `{}`.",
            safe(&delivery.state)
        );
    };
    let since = delivery
        .updated_at
        .map_or("?".to_owned(), |time| time.to_string());
    match state {
        State::Retrying => next_attempt(delivery, now),
        State::Delivered => {
            let step = delivery
                .history
                .iter()
                .rev()
                .find(|step| step.is_delivered());
            match step {
                Some(step) => format!("Delivered at {}, attempt {}.", step.at, step.n),
                None => format!("Delivered at {since}."),
            }
        }
        State::Dead => dead(delivery, &since),
        State::Gone => format!(
            "Not sent again: at {since} the receiver answered 410, which switched the \
             subscription off."
        ),
        State::Dropped => format!(
            "Not sent again: at {since} the subscription was switched off or did not exist."
        ),
    }
}

fn next_attempt(delivery: &Delivery, now: SystemTime) -> String {
    let number = delivery.attempts.saturating_add(1);
    let Some(next_at) = delivery.next_at else {
        return format!("Attempt {number} comes next; the record does not say when.");
    };
    let late = next_at.ago(now);
    if next_at.get() > now {
        let wait = next_at.get().duration_since(now).unwrap_or_default();
        return format!(
            "Next attempt, number {number}, at {next_at} (in {}).",
            span::at_most(wait.as_secs().max(1))
        );
    }
    if late <= LATE_AFTER {
        return format!("Attempt {number} is due since {next_at}.");
    }
    format!(
        "Attempt {number} was due at {next_at}, {} ago, and has not been made. Is deliver switched \
         off, throttled or failing, or was the queue purged?",
        span::at_least(late.as_secs())
    )
}

fn dead(delivery: &Delivery, since: &str) -> String {
    let redriven = |redriven_at: &Time| delivery.updated_at.is_none_or(|time| *redriven_at >= time);
    if let Some(redriven_at) = delivery.redriven_at.filter(redriven) {
        return format!("Redriven at {redriven_at}; its new first attempt has not been made yet.");
    }
    let reason = match delivery.dead_reason.as_deref() {
        Some("attempts") => ": all attempts were used up",
        Some("horizon") => ": the time for attempts was over",
        Some("status") => ": the policy does not try this answer again",
        Some(_) | None => "",
    };
    format!(
        "Dead since {since}{reason}. Send it again with\n  webhooks redrive --webhook-id {}",
        safe(&delivery.webhook_id)
    )
}
