//! Carries a plan out, and collects what can be seen of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::evidence::{Disabled, Evidence, Published};
use super::partners::{Partner, posts_of};
use super::plan::Plan;
use super::proxy::Proxy;
use super::{now_ms, script};
use crate::delivery_record::parse_ms;
use crate::stack::{Function, Publisher, Queue, Stack};
use crate::tls::Authority;

/// How long the jobs queue has to be empty until it is believed.
const STAYS_EMPTY: Duration = Duration::from_secs(3);

/// How long a second dispatch of an event waits for the first.
const FIRST_DISPATCH_LIMIT: Duration = Duration::from_secs(20);

/// The longest delay between two attempts in a local stack of this scale, in seconds: 6 h.
const LONGEST_DELAY_SECONDS: u64 = 3;
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
        script::ATTEMPTS as u64 * attempt
            + FAULTS * FAULT_SECONDS
            + COPIES_WAIT_SECONDS
            + kills * plan.visibility_seconds
            + plan.seconds,
    )
}

/// Carries a plan out on a stack of its own. The certificate of the authority that its partners have
/// theirs of is put in the directory. `keep` gets what was seen and what the functions have
/// logged: when all is over, or, if the run ends in a panic, as much of it as there is then. `say` is
/// told how far the run is.
///
/// # Panics
/// If the stack does not start or does not answer.
pub async fn carry_out(
    plan: &Plan,
    directory: &Path,
    keep: impl Fn(&Evidence, &[String]),
    say: impl Fn(&str),
) -> Evidence {
    say("starting the local AWS");
    let stack = Stack::start().await;
    let upstream: SocketAddr = stack
        .endpoint_url()
        .trim_start_matches("http://")
        .parse()
        .expect("an address");
    let proxy = Proxy::to(upstream, plan.windows.clone()).await;
    let detour: Vec<(String, String)> = ["SQS", "SSM", "DYNAMODB", "EVENTBRIDGE"]
        .map(|service| (format!("AWS_ENDPOINT_URL_{service}"), proxy.url()))
        .to_vec();
    let authority = Authority::new("make soak");
    let authority_file = directory.join("authority.pem");
    std::fs::write(&authority_file, authority.pem()).expect("a directory for it");
    for function in [Function::Dispatch, Function::Deliver] {
        let mut variables = detour.clone();
        if function == Function::Deliver {
            let file = authority_file.to_string_lossy().into_owned();
            variables.push(("EXTRA_CA_FILE".to_owned(), file));
        }
        stack.set_environment(function, &variables).await;
        // The logs are followed from the start.
        let _ = stack.lines(function, &json!({}));
    }
    stack
        .set_visibility_timeout(Queue::Jobs, plan.visibility_seconds)
        .await;
    let mut partners = Vec::new();
    for partner in &plan.partners {
        let partner = Partner::start(partner, &authority).await;
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
    let watch = Watch {
        stack: &stack,
        partners: &partners,
        proxy: &proxy,
        keep: &keep,
        evidence: RefCell::default(),
    };
    let start = Instant::now();
    proxy.start(start);
    play(plan, &watch, start).await;

    say("waiting until nothing is left to be delivered");
    drain(plan, &watch, &say).await;
    collect(&watch).await;
    watch.keep()
}

/// What a run is seen by. It keeps what it has when the run ends in a panic.
struct Watch<'a> {
    stack: &'a Stack,
    partners: &'a [Partner],
    proxy: &'a Proxy,
    keep: &'a dyn Fn(&Evidence, &[String]),
    evidence: RefCell<Evidence>,
}

impl Watch<'_> {
    /// Adds to what was seen.
    fn note(&self, add: impl FnOnce(&mut Evidence)) {
        add(&mut self.evidence.borrow_mut());
    }

    /// The event that says this, once it is published.
    fn published(&self, detail: &str) -> Option<Published> {
        let evidence = self.evidence.borrow();
        let mut published = evidence.published.iter();
        published.find(|event| event.detail == detail).cloned()
    }

    /// Whether each event is known to be dispatched, or to have failed in that.
    fn all_have_left_dispatch(&self, dispatched: &BTreeMap<String, u64>) -> bool {
        let evidence = self.evidence.borrow();
        evidence.published.iter().all(|event| {
            dispatched.contains_key(&event.id) || evidence.undispatched.contains(&event.id)
        })
    }

    /// Keeps all that was seen, and gives it.
    fn keep(&self) -> Evidence {
        let mut evidence = self.evidence.take();
        evidence.posts = posts_of(self.partners);
        evidence.dispatched = dispatched(self.stack);
        let dropped = json!({"message": "delivery.dropped"});
        evidence.dropped = self
            .stack
            .lines(Function::Deliver, &dropped)
            .iter()
            .filter_map(|line| line.json["webhookId"].as_str().map(str::to_owned))
            .collect();
        let seen = self.proxy.take_seen();
        evidence.failed_calls = seen.failed_calls;
        evidence.known_delivered = seen.known_delivered;
        evidence.overwritten = seen.overwritten;
        evidence.jobs = seen.jobs;
        evidence.calls = seen.calls;
        evidence.met = self.proxy.met();
        let logs: Vec<String> = [Function::Dispatch, Function::Deliver]
            .iter()
            .flat_map(|function| self.stack.lines(*function, &json!({})))
            .map(|line| line.json.to_string())
            .collect();
        (self.keep)(&evidence, &logs);
        evidence
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Whatever it was that failed may fail here too, and a second panic ends the process.
            let _ = catch_unwind(AssertUnwindSafe(|| self.keep()));
        }
    }
}

/// Lets everything happen at its time. Nothing waits for anything else, so that a slow look into the
/// queue holds no event up.
async fn play(plan: &Plan, watch: &Watch<'_>, start: Instant) {
    let publisher = watch.stack.publisher();
    let moment = async |at: u64| {
        let due = start + Duration::from_millis(at);
        sleep(due.saturating_duration_since(Instant::now())).await;
    };
    let publish = async {
        for event in &plan.events {
            moment(event.at).await;
            let at = now_ms();
            let id = publisher.publish(&event.event_type, &event.detail).await;
            let published = Published {
                id,
                event_type: event.event_type.clone(),
                detail: event.detail.clone(),
                at,
                taken: now_ms(),
            };
            watch.note(|evidence| evidence.published.push(published));
        }
    };
    let mut twice: Vec<(u64, &str)> = plan
        .events
        .iter()
        .filter_map(|event| Some((event.again_at?, event.detail.as_str())))
        .collect();
    twice.sort_unstable();
    let again = async {
        for (at, detail) in twice {
            moment(at).await;
            again(&publisher, detail, watch).await;
        }
    };
    let kill = async {
        for at in &plan.kills {
            moment(*at).await;
            let at = now_ms();
            // Shortly after another one there may be none.
            let (killed, _) = watch.stack.kill_functions();
            if killed > 0 {
                watch.note(|evidence| evidence.kills.push(at));
            }
        }
    };
    let look = async {
        for at in &plan.looks {
            moment(*at).await;
            let at = now_ms();
            watch.stack.peek(Queue::Jobs).await;
            watch.note(|evidence| evidence.looks.push(at));
        }
    };
    let be_impatient = async {
        for (from, length) in &plan.impatience {
            moment(*from).await;
            let from = now_ms();
            let set = async |seconds| {
                watch
                    .stack
                    .set_visibility_timeout(Queue::Jobs, seconds)
                    .await;
            };
            set(1).await;
            sleep(Duration::from_millis(*length)).await;
            set(plan.visibility_seconds).await;
            watch.note(|evidence| evidence.impatience.push((from, now_ms())));
        }
    };
    let steal = async {
        for at in &plan.thefts {
            moment(*at).await;
            watch.stack.steal(Queue::Jobs).await;
        }
    };
    tokio::join!(publish, again, kill, look, be_impatient, steal);
}

/// Hands an event to `dispatch` once more. When EventBridge took it stands only in the jobs of it;
/// if there are none after a while, there is no second time.
async fn again(publisher: &Publisher<'_>, detail: &str, watch: &Watch<'_>) {
    let end = Instant::now() + FIRST_DISPATCH_LIMIT;
    while Instant::now() < end {
        if let Some(event) = watch.published(detail)
            && let Some(time) = watch.proxy.occurred_at(&event.id)
        {
            let text = format!(
                r#"{{"version":"0","id":"{}","detail-type":"{}","source":"shop.orders","time":"{time}","detail":{detail}}}"#,
                event.id, event.event_type
            );
            watch.note(|evidence| evidence.again.push((event.id, now_ms())));
            return publisher.dispatch(&text).await;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until every event has become jobs and no job is left, or for as long as that may take. On a
/// machine that does not keep up it may take longer, as long as there are ever fewer.
async fn drain(plan: &Plan, watch: &Watch<'_>, say: &impl Fn(&str)) {
    let limit = drain_limit(plan);
    let mut fewest = u32::MAX;
    let mut progress = Instant::now();
    let mut empty_since: Option<Instant> = None;
    let mut told = Instant::now();
    while progress.elapsed() < limit {
        let left = watch.stack.count(Queue::Jobs).await;
        watch.note(|evidence| evidence.left = left);
        if left < fewest {
            fewest = left;
            progress = Instant::now();
        }
        take_undispatched(watch).await;
        let dispatched = dispatched(watch.stack);
        if left == 0 && watch.all_have_left_dispatch(&dispatched) {
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

/// Takes what is in the dispatch failure queue.
async fn take_undispatched(watch: &Watch<'_>) {
    for body in watch.stack.take_all(Queue::DispatchFailures).await {
        let failure: Value = serde_json::from_str(&body).unwrap_or_default();
        let id = failure["requestPayload"]["id"].as_str().unwrap_or(&body);
        watch.note(|evidence| {
            evidence.undispatched.insert(id.to_owned());
        });
    }
}

/// The events of which `dispatch` says that it has sent all jobs, and when it last said so.
fn dispatched(stack: &Stack) -> BTreeMap<String, u64> {
    let done = json!({"message": "event.dispatched", "unsent": 0});
    let mut dispatched = BTreeMap::new();
    for line in stack.lines(Function::Dispatch, &done) {
        let id = line.json["eventId"].as_str();
        // It has microseconds.
        let at = line.json["timestamp"].as_str().and_then(|at| at.get(..23));
        if let Some((id, at)) = id.zip(at) {
            let at = parse_ms(&format!("{at}Z"));
            let last = dispatched.entry(id.to_owned()).or_insert(at);
            *last = at.max(*last);
        }
    }
    dispatched
}

/// What is to be seen when all is over.
async fn collect(watch: &Watch<'_>) {
    let stack = watch.stack;
    for record in stack.all_records().await {
        let id = record["webhookId"].as_str().expect("a key").to_owned();
        watch.note(|evidence| {
            evidence.records.insert(id, record);
        });
    }
    for body in stack.take_all(Queue::DeadLetters).await {
        let job: Value = serde_json::from_str(&body).unwrap_or_default();
        watch.note(|evidence| match job["webhookId"].as_str() {
            Some(id) => {
                evidence.dead_letters.insert(id.to_owned());
            }
            None => evidence.strange_letters.push(body),
        });
    }
    take_undispatched(watch).await;
    for partner in watch.partners {
        for event_type in &partner.plan.event_types {
            let row = stack.row(event_type, &partner.plan.id).await;
            if row["enabled"].as_bool() == Ok(&false) {
                let disabled = Disabled {
                    event_type: event_type.clone(),
                    partner: partner.plan.id.clone(),
                    at: parse_ms(row["disabledAt"].as_s().expect("a time")),
                };
                watch.note(|evidence| evidence.disabled.push(disabled));
            }
        }
    }
}
