//! What a partner without the new secret costs: it refuses what comes, and the stack's retry policy
//! says how often that is tried.

use serde::Serialize;
use webhooks_core::outcome::Failure;
use webhooks_core::policy::{RetryPolicy, Treatment};

/// What a receiver answers whose secret does not fit. Libraries differ.
const STATUSES: [u16; 3] = [400, 401, 403];

/// How often a webhook is tried that a partner refuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// What the partner answers.
    pub status: u16,
    /// After so many tries with this answer it is dead.
    pub tries: u32,
}

/// What a policy does with each way to refuse.
#[must_use]
pub fn refusals(policy: &RetryPolicy) -> Vec<Refusal> {
    let tries = |status| match policy.treatment(Failure::Status(status)) {
        Treatment::Dead => 1,
        Treatment::AtMost(tries) => tries.min(policy.attempts),
        Treatment::Retry => policy.attempts,
    };
    STATUSES
        .into_iter()
        .map(|status| Refusal {
            status,
            tries: tries(status),
        })
        .collect()
}

/// The same in words: `400, 401 or 403 is dead at once`.
#[must_use]
pub fn in_words(refusals: &[Refusal]) -> String {
    let parts = refusals.chunk_by(|one, next| one.tries == next.tries);
    let parts = parts.map(|part| {
        let statuses: Vec<String> = part.iter().map(|it| it.status.to_string()).collect();
        let statuses = match statuses.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, before)) => format!("{} or {last}", before.join(", ")),
            None => String::new(),
        };
        match part.first().map_or(0, |it| it.tries) {
            1 => format!("{statuses} is dead at once"),
            tries => format!("{statuses} is dead after {tries} tries"),
        }
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_says_what_becomes_of_a_refused_webhook() {
        for (policy, words) in [
            (
                RetryPolicy::standard(),
                "400, 401 or 403 is dead after 8 tries",
            ),
            (RetryPolicy::bounded(), "400, 401 or 403 is dead at once"),
            (
                RetryPolicy::contract_72h(),
                "400, 401 or 403 is dead after 3 tries",
            ),
            (
                RetryPolicy::payments_24h(),
                "400, 401 or 403 is dead at once",
            ),
        ] {
            assert_eq!(in_words(&refusals(&policy)), words, "{}", policy.name);
        }
    }

    #[test]
    fn statuses_that_are_treated_alike_are_told_together() {
        let refusal = |status, tries| Refusal { status, tries };
        let refusals = [refusal(400, 1), refusal(401, 3), refusal(403, 3)];
        assert_eq!(
            in_words(&refusals),
            "400 is dead at once, 401 or 403 is dead after 3 tries"
        );
    }
}
