//! The published contracts, word for word.

use webhooks_core::policy::Overrides;

use super::*;

fn published(name: &str) -> Contract {
    Contract::published(RetryPolicy::by_name(name).unwrap())
}

/// The text between two headings, or from the start to one.
fn part<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap();
    let rest = &text[start..];
    rest.split_once(to).map_or(rest, |(part, _)| part)
}

const HEAD: &str = "| attempt | after the one before | since the first |\n|---|---|---|\n";
const FOOT: &str = "\n\nDelays count from the end of the attempt before; the attempts themselves \
                    are not counted in.\n\n";

fn table(contract: &Contract) -> String {
    let text = contract.to_string();
    let table = part(&text, "| attempt", "### What");
    table
        .strip_prefix(HEAD)
        .and_then(|table| table.strip_suffix(FOOT))
        .unwrap()
        .to_owned()
}

fn answers_of(contract: &Contract) -> String {
    let text = contract.to_string();
    part(&text, "| answer |", "\n\n").to_owned()
}

#[test]
fn standard_is_printed_as_it_is_published() {
    assert_eq!(
        published("standard").to_string(),
        "\
## Retry schedule `standard`

A webhook is tried at most 8 times. No attempt begins later than 84 h after the first, which only long waits asked for by `Retry-After` lead to.
Half of each delay is fixed and half is random, so that a receiver that recovers is not hit by everything at once.

| attempt | after the one before | since the first |
|---|---|---|
| 1 | | 0 s |
| 2 | 30 s to 1 min | 30 s to 1 min |
| 3 | 1 min 30 s to 3 min | 2 min to 4 min |
| 4 | 4 min 30 s to 9 min | 6 min 30 s to 13 min |
| 5 | 13 min 30 s to 27 min | 20 min to 40 min |
| 6 | 40 min 30 s to 1 h 21 min | 1 h to 2 h 1 min |
| 7 | 2 h 1 min to 4 h 3 min | 3 h 2 min to 6 h 4 min |
| 8 | 3 h to 6 h | 6 h 2 min to 12 h 4 min |

Delays count from the end of the attempt before; the attempts themselves are not counted in.

### What an answer leads to

| answer | what follows |
|---|---|
| 2xx | delivered, whatever becomes of the body |
| 410 | the subscription is switched off; this webhook and later ones are not sent |
| any other status; 3xx is not followed | retried |
| none: timeout, no connection, TLS error, broken connection | retried |

An attempt may take 10 s until the status line, connecting included; a slower answer counts as none.
`Retry-After`, in seconds or as an HTTP date, is honoured with every status that is retried: the next attempt does not come before it. The longest wait that can be asked for is 11 h 56 min.

### Repeats

Every attempt of a webhook has the same `webhook-id`, and so has everything that repeats it later. A webhook can come more than once, also after a 2xx; ignore an id that was handled before. Remember ids for 7 days, or for 37 days if webhooks that are sent again by hand (up to 30 days later) must be recognised too."
    );
}

#[test]
fn bounded_ends_within_an_hour_and_gives_up_what_is_not_listed() {
    let contract = published("bounded");
    assert_eq!(
        table(&contract),
        "\
| 1 | | 0 s |
| 2 | 15 s to 30 s | 15 s to 30 s |
| 3 | 30 s to 1 min | 45 s to 1 min 30 s |
| 4 | 1 min to 2 min | 1 min 45 s to 3 min 30 s |
| 5 | 2 min to 4 min | 3 min 45 s to 7 min 30 s |
| 6 | 4 min to 8 min | 7 min 45 s to 15 min 30 s |
| 7 | 8 min to 16 min | 15 min 45 s to 31 min 30 s |
| 8 | 16 min to 32 min | 31 min 45 s to 1 h 4 min |"
    );
    assert_eq!(
        answers_of(&contract),
        "\
| answer | what follows |
|---|---|
| 2xx | delivered, whatever becomes of the body |
| 410 | the subscription is switched off; this webhook and later ones are not sent |
| 408, 425, 429, 5xx | retried |
| any other status; 3xx is not followed | given up at once |
| none: timeout, no connection, TLS error, broken connection | retried |"
    );
    let text = contract.to_string();
    assert!(text.contains("The longest wait that can be asked for is 6 h."));
    assert!(text.contains("An attempt may take 10 s until"));
}

#[test]
fn the_contract_says_where_the_queue_cuts_a_delay() {
    let contract = published("contract-72h");
    let text = contract.to_string();
    assert_eq!(
        part(&text, "A webhook", "### What"),
        "\
A webhook is tried at most 11 times. No attempt begins later than 72 h after the first.
Each delay varies a little, so that a receiver that recovers is not hit by everything at once.

| attempt | after the one before | since the first |
|---|---|---|
| 1 | | 0 s |
| 2 | 29 s to 32 s | 29 s to 32 s |
| 3 | 4 min 45 s to 5 min 15 s | 5 min 14 s to 5 min 47 s |
| 4 | 28 min 30 s to 31 min 30 s | 33 min 44 s to 37 min 17 s |
| 5 | 1 h 54 min to 2 h 6 min | 2 h 27 min to 2 h 44 min |
| 6 | 5 h 42 min to 6 h 18 min | 8 h 9 min to 9 h 2 min |
| 7 | 11 h 24 min to 11 h 56 min * | 19 h 33 min to 20 h 58 min |
| 8 | 11 h 24 min to 11 h 56 min * | 30 h 57 min to 32 h 54 min |
| 9 | 11 h 24 min to 11 h 56 min * | 42 h 21 min to 44 h 50 min |
| 10 | 11 h 24 min to 11 h 56 min * | 53 h 45 min to 56 h 46 min |
| 11 | 11 h 24 min to 11 h 56 min * | 65 h 9 min to 68 h 42 min |

\\* 12 h in the schedule, but the queue can keep a webhook for 11 h 56 min at most.

Delays count from the end of the attempt before; the attempts themselves are not counted in.

"
    );
    assert_eq!(
        answers_of(&contract),
        "\
| answer | what follows |
|---|---|
| 2xx | delivered, whatever becomes of the body |
| 410 | the subscription is switched off; this webhook and later ones are not sent |
| 400, 401, 403, 404 | retried, but given up at the third such answer to a webhook |
| any other status; 3xx is not followed | retried |
| none: timeout, no connection, TLS error, broken connection | retried |"
    );
    assert!(text.contains("An attempt may take 8 s until"));
}

#[test]
fn a_hundred_attempts_make_a_short_table() {
    let contract = published("payments-24h");
    let text = contract.to_string();
    assert_eq!(
        part(&text, "A webhook", "\n\n"),
        "\
A webhook is tried at most 100 times, as a rule about 56 times. No attempt begins later than 24 h after the first.
All of each delay is random, so that a receiver that recovers is not hit by everything at once."
    );
    assert_eq!(
        table(&contract),
        "\
| 1 | | 0 s |
| 2 | 1 s to 10 s | 1 s to 10 s |
| 3 | 1 s to 20 s | 2 s to 30 s |
| 4 | 1 s to 40 s | 3 s to 1 min 10 s |
| 5 | 1 s to 1 min 20 s | 4 s to 2 min 30 s |
| 6 | 1 s to 2 min 40 s | 5 s to 5 min 10 s |
| 7 | 1 s to 5 min 20 s | 6 s to 10 min 30 s |
| 8 | 1 s to 10 min 40 s | 7 s to 21 min 10 s |
| 9 | 1 s to 21 min 20 s | 8 s to 42 min 30 s |
| 10 | 1 s to 42 min 40 s | 9 s to 1 h 26 min |
| 11 and on | then every 1 s to 1 h | from 10 s on, until 24 h |"
    );
    assert_eq!(
        answers_of(&contract),
        "\
| answer | what follows |
|---|---|
| 2xx | delivered, whatever becomes of the body |
| 410 | the subscription is switched off; this webhook and later ones are not sent |
| 400, 401, 403, 422 | given up at once |
| any other status; 3xx is not followed | retried |
| none: timeout, no connection, TLS error, broken connection | retried |"
    );
}

#[test]
fn the_data_are_those_of_the_text() {
    let data = serde_json::to_value(published("contract-72h")).unwrap();
    assert_eq!(data["policy"], "contract-72h");
    assert_eq!(data["attemptsAtMost"], 11);
    assert_eq!(data["horizonSeconds"], 259_200);
    assert_eq!(data["horizonIsReached"], true);
    assert_eq!(data["timeoutSeconds"], 8);
    assert_eq!(data["longestDelaySeconds"], 42_960);
    assert_eq!(
        data["attempts"][10],
        serde_json::json!({
            "attempt": 11,
            "lastAttempt": 11,
            "afterPreviousSeconds": {"from": 41_040, "to": 42_960},
            "sinceFirstSeconds": {"from": 234_584, "to": 247_277},
            "clampedFromSeconds": 43_200,
        })
    );
    assert_eq!(
        data["answers"][2],
        serde_json::json!({
            "answer": "400, 401, 403, 404",
            "leadsTo": "retried",
            "attemptsAtMost": 3,
        })
    );
    let payments = serde_json::to_value(published("payments-24h")).unwrap();
    assert_eq!(
        (&data["jitter"], &payments["jitter"]),
        (&"small".into(), &"all".into())
    );
    let ends: Vec<_> = payments["answers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["leadsTo"])
        .collect();
    assert_eq!(
        ends,
        ["delivered", "disabled", "dead", "retried", "retried"]
    );
    assert_eq!(payments["attemptsUsually"], 56);
    assert_eq!(payments["attempts"][10]["attempt"], 11);
    assert_eq!(payments["attempts"][10]["lastAttempt"], 100);
    assert_eq!(payments["attempts"].as_array().unwrap().len(), 11);
}

#[test]
fn a_changed_policy_is_printed_as_it_is_carried_out() {
    let overrides = Overrides {
        base_seconds: Some(3600),
        factor: Some(1),
        attempts: Some(200),
        ..Overrides::default()
    };
    let policy = RetryPolicy::payments_24h()
        .for_visibility_timeout(180)
        .with_overrides(overrides, Some(300))
        .unwrap();
    assert_eq!(
        table(&Contract::of(&policy)),
        "\
| 1 | | 0 s |
| 2 and on | then every 1 s to 1 h | from 1 s on, until 24 h |"
    );
    let scaled = RetryPolicy::standard()
        .for_visibility_timeout(30)
        .with_time_scale(0.001);
    let text = Contract::of(&scaled).to_string();
    assert!(
        text.contains("**Not for partners:** this stack multiplies its delays by 0.001"),
        "{text}"
    );
    assert!(text.contains("| 8 | 11 s to 22 s | "), "{text}");
}
