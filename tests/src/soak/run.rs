//! Carries a plan out, and collects what can be seen of it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::evidence::{Disabled, Evidence, Published};
use super::partners::{Partner, posts_of};
use super::plan::{EventPlan, Plan};
use super::proxy::Proxy;
use super::{now_ms, script};
use crate::delivery_record::parse_ms;
use crate::stack::{Function, Publisher, Queue, Stack};

/// How long the jobs queue has to be empty until it is believed.
const STAYS_EMPTY: Duration = Duration::from_secs(3);

/// The longest delay between two attempts in a local stack of this scale, in seconds: 6 h.
const LONGEST_DELAY_SECONDS: u64 = 3;
const ATTEMPTS: u64 = 8;
/// How often a fault of ours brings a message back before it is dead, and how long it waits then.
const FAULTS: u64 = 30;
const FAULT_SECONDS: u64 = 2;
/// How long another copy of a delivery waits that is being retried, in seconds. It is not scaled.
const COPIES_WAIT_SECONDS: u64 = 60;

/// How long a run may take to come to an end once nothing is published and nothing fails any more,
/// on a machine that keeps up with it.
#[must_use]
pub fn drain_limit(plan: &Plan) -> Duration {
    let attempt = script::ATTEMPT_MS / 1000 + LONGEST_DELAY_SECONDS;
    let kills = plan.kills.len() as u64 + 1;
    Duration::from_secs(
        ATTEMPTS * attempt
            + FAULTS * FAULT_SECONDS
            + COPIES_WAIT_SECONDS
            + kills * plan.visibility_seconds
            + plan.seconds,
    )
}

/// Carries a plan out on a stack of its own. `say` is told how far it is.
///
/// # Panics
/// If the stack does not start or does not answer.
pub async fn carry_out(plan: &Plan, say: impl Fn(&str)) -> (Evidence, Vec<String>) {
    say("starting the local AWS");
    let stack = Stack::start().await;
    let upstream: SocketAddr = stack
        .endpoint_url()
        .trim_start_matches("http://")
        .parse()
        .expect("an address");
    let (proxy, starter) = Proxy::to(upstream, plan.windows.clone()).await;
    let detour: Vec<(String, String)> = ["SQS", "SSM", "DYNAMODB", "EVENTBRIDGE"]
        .map(|service| (format!("AWS_ENDPOINT_URL_{service}"), proxy.url()))
        .to_vec();
    for function in [Function::Dispatch, Function::Deliver] {
        stack.set_environment(function, &detour).await;
        // The logs are followed from the start.
        let _ = stack.lines(function, &json!({}));
    }
    stack
        .set_visibility_timeout(Queue::Jobs, plan.visibility_seconds)
        .await;
    let mut partners = Vec::new();
    for partner in &plan.partners {
        let partner = Partner::start(partner).await;
        stack.put_secret(&partner.plan.id, &partner.secret).await;
        for event_type in &partner.plan.event_types {
            stack
                .put_row(event_type, &partner.plan.id, &partner.url())
                .await;
        }
        partners.push(partner);
    }

    say(&format!(
        "publishing {} events to {} partners for {} s",
        plan.events.len(),
        partners.len(),
        plan.seconds
    ));
    let mut evidence = Evidence::default();
    let start = Instant::now();
    starter.start(start);
    play(plan, &stack, &partners, start, &mut evidence).await;

    say("waiting until nothing is left to be delivered");
    drain(plan, &stack, &evidence, &say).await;
    collect(&stack, &partners, &proxy, &mut evidence).await;
    let logs = [Function::Dispatch, Function::Deliver]
        .iter()
        .flat_map(|function| stack.lines(*function, &json!({})))
        .map(|line| line.json.to_string())
        .collect();
    (evidence, logs)
}

/// All that happens at a planned time.
enum Happening<'a> {
    Event(&'a EventPlan),
    Again(&'a EventPlan),
    Kill,
    Look,
    Impatient(u64),
    Patient,
    Theft,
}

async fn play(
    plan: &Plan,
    stack: &Stack,
    partners: &[Partner],
    start: Instant,
    evidence: &mut Evidence,
) {
    let mut happenings: Vec<(u64, Happening<'_>)> = Vec::new();
    for event in &plan.events {
        happenings.push((event.at, Happening::Event(event)));
        happenings.extend(event.again_at.map(|at| (at, Happening::Again(event))));
    }
    happenings.extend(plan.kills.iter().map(|at| (*at, Happening::Kill)));
    happenings.extend(plan.looks.iter().map(|at| (*at, Happening::Look)));
    for (from, length) in &plan.impatience {
        happenings.push((*from, Happening::Impatient(*length)));
        happenings.push((from + length, Happening::Patient));
    }
    happenings.extend(plan.thefts.iter().map(|at| (*at, Happening::Theft)));
    happenings.sort_by_key(|(at, _)| *at);
    let publisher = stack.publisher();
    for (at, happening) in happenings {
        let due = start + Duration::from_millis(at);
        sleep(due.saturating_duration_since(Instant::now())).await;
        match happening {
            Happening::Event(event) => {
                let at = now_ms();
                let id = publisher.publish(&event.event_type, &event.detail).await;
                evidence.published.push(Published {
                    id,
                    event_type: event.event_type.clone(),
                    detail: event.detail.clone(),
                    at,
                });
            }
            Happening::Again(event) => again(&publisher, partners, event, evidence).await,
            Happening::Kill => {
                let at = now_ms();
                // Shortly after another one there may be none.
                let (killed, _) = stack.kill_functions();
                if killed > 0 {
                    evidence.kills.push(at);
                }
            }
            Happening::Theft => stack.steal(Queue::Jobs).await,
            Happening::Look => {
                evidence.looks.push(now_ms());
                stack.peek(Queue::Jobs).await;
            }
            Happening::Impatient(length) => {
                stack.set_visibility_timeout(Queue::Jobs, 1).await;
                evidence.impatience.push((now_ms(), now_ms() + length));
            }
            Happening::Patient => {
                stack
                    .set_visibility_timeout(Queue::Jobs, plan.visibility_seconds)
                    .await;
            }
        }
    }
}

/// Hands an event to `dispatch` once more. When EventBridge took it stands only in what has come
/// to a partner, so one of them must have got it; if none has, there is no second time.
async fn again(
    publisher: &Publisher<'_>,
    partners: &[Partner],
    event: &EventPlan,
    evidence: &mut Evidence,
) {
    let Some(published) = evidence
        .published
        .iter()
        .find(|published| published.detail == event.detail)
    else {
        return;
    };
    let id = published.id.clone();
    let of_it = format!("msg_{id}_");
    let posts = posts_of(partners);
    let Some(post) = posts
        .iter()
        .find(|post| post.webhook_id.starts_with(&of_it))
    else {
        return;
    };
    let body: Value = serde_json::from_str(&post.body).expect("JSON");
    let text = format!(
        r#"{{"version":"0","id":"{id}","detail-type":"{}","source":"shop.orders","time":{},"detail":{}}}"#,
        event.event_type, body["timestamp"], event.detail
    );
    evidence.again.push((id, now_ms()));
    publisher.dispatch(&text).await;
}

/// Waits until every event has become jobs and no job is left, or for as long as that may take. On a
/// machine that does not keep up it may take longer, as long as there are ever fewer.
async fn drain(plan: &Plan, stack: &Stack, evidence: &Evidence, say: &impl Fn(&str)) {
    let limit = drain_limit(plan);
    let mut fewest = u32::MAX;
    let mut progress = Instant::now();
    let published: BTreeSet<&str> = evidence
        .published
        .iter()
        .map(|event| event.id.as_str())
        .collect();
    let mut empty_since: Option<Instant> = None;
    let mut told = Instant::now();
    while progress.elapsed() < limit {
        let left = stack.count(Queue::Jobs).await;
        if left < fewest {
            fewest = left;
            progress = Instant::now();
        }
        let dispatched = dispatched(stack);
        let failed = stack.count(Queue::DispatchFailures).await as usize;
        let all = published.len()
            <= failed
                + published
                    .iter()
                    .filter(|id| dispatched.contains(**id))
                    .count();
        if left == 0 && all {
            if empty_since.get_or_insert_with(Instant::now).elapsed() >= STAYS_EMPTY {
                return;
            }
        } else {
            empty_since = None;
        }
        if told.elapsed() > Duration::from_secs(15) {
            told = Instant::now();
            say(&format!("{left} jobs are left"));
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// The events of which `dispatch` says that it has sent all jobs.
fn dispatched(stack: &Stack) -> BTreeSet<String> {
    let done = json!({"message": "event.dispatched", "unsent": 0});
    stack
        .lines(Function::Dispatch, &done)
        .iter()
        .filter_map(|line| line.json["eventId"].as_str().map(str::to_owned))
        .collect()
}

async fn collect(stack: &Stack, partners: &[Partner], proxy: &Proxy, evidence: &mut Evidence) {
    evidence.left = stack.count(Queue::Jobs).await;
    evidence.dispatched = dispatched(stack);
    evidence.posts = posts_of(partners);
    for record in stack.all_records().await {
        let id = record["webhookId"].as_str().expect("a key").to_owned();
        evidence.records.insert(id, record);
    }
    for body in stack.take_all(Queue::DeadLetters).await {
        let job: Value = serde_json::from_str(&body).unwrap_or_default();
        match job["webhookId"].as_str() {
            Some(id) => {
                evidence.dead_letters.insert(id.to_owned());
            }
            None => evidence.strange_letters.push(body),
        }
    }
    for body in stack.take_all(Queue::DispatchFailures).await {
        let failure: Value = serde_json::from_str(&body).unwrap_or_default();
        let id = failure["requestPayload"]["id"].as_str().unwrap_or(&body);
        evidence.undispatched.insert(id.to_owned());
    }
    for partner in partners {
        for event_type in &partner.plan.event_types {
            let row = stack.row(event_type, &partner.plan.id).await;
            if row["enabled"].as_bool() == Ok(&false) {
                evidence.disabled.push(Disabled {
                    event_type: event_type.clone(),
                    partner: partner.plan.id.clone(),
                    at: parse_ms(row["disabledAt"].as_s().expect("a time")),
                });
            }
        }
    }
    let dropped = json!({"message": "delivery.dropped"});
    evidence.dropped = stack
        .lines(Function::Deliver, &dropped)
        .iter()
        .filter_map(|line| line.json["webhookId"].as_str().map(str::to_owned))
        .collect();
    let seen = proxy.seen();
    evidence.failed_calls = seen.failed_calls;
    evidence.known_delivered = seen.known_delivered;
    evidence.overwritten = seen.overwritten;
    evidence.calls = seen.calls;
}
