//! What comes next for a delivery, in words.

use std::time::SystemTime;

use webhooks_core::DeadReason;
use webhooks_core::record::State;
use webhooks_core::turn::OVERDUE_AFTER;

use crate::delivery::Delivery;
use crate::moment::Time;
use crate::output::safe;
use crate::span;

/// What it can mean that nothing comes.
const MISSING: &str = "Is deliver switched off, throttled or failing, or was the queue purged?";

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
        State::Dead => dead(delivery, &since, now),
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
    if late <= OVERDUE_AFTER {
        return format!("Attempt {number} is due since {next_at}.");
    }
    format!(
        "Attempt {number} was due at {next_at}, {} ago, and has not been made. {MISSING}",
        span::at_least(late.as_secs())
    )
}

fn dead(delivery: &Delivery, since: &str, now: SystemTime) -> String {
    let redriven = |redriven_at: &Time| delivery.updated_at.is_none_or(|time| *redriven_at >= time);
    let what = match delivery.redriven_at.filter(redriven) {
        Some(redriven_at) if redriven_at.ago(now) < OVERDUE_AFTER => {
            return format!(
                "Redriven at {redriven_at}; its new first attempt has not been made yet."
            );
        }
        Some(redriven_at) => format!(
            "Redriven at {redriven_at}, {} ago, and its new first attempt has not been made. \
             {MISSING}",
            span::at_least(redriven_at.ago(now).as_secs())
        ),
        None => format!("Dead since {since}{}.", reason(delivery)),
    };
    let condition = if delivery.body_omitted {
        ", as long as the dead-letter queue has it (the record does not keep so large a payload),"
    } else {
        ""
    };
    format!(
        "{what} Send it again{condition} with\n  webhooks redrive --webhook-id {}",
        safe(&delivery.webhook_id)
    )
}

fn reason(delivery: &Delivery) -> &'static str {
    let name = delivery.dead_reason.as_deref();
    match name.and_then(DeadReason::by_name) {
        Some(DeadReason::Attempts) => ": all attempts were used up",
        Some(DeadReason::Horizon) => ": the time for attempts was over",
        Some(DeadReason::Status) => ": the policy does not try this answer again",
        Some(DeadReason::Faults) => {
            ": through faults of ours it could not be tried, again and again"
        }
        Some(DeadReason::Age) => ": it would soon have expired in the jobs queue",
        Some(DeadReason::Receives) => ": SQS would not have handed it out once more",
        None => "",
    }
}
