//! What is to happen in a run, and when. All of it is drawn from a seed before anything runs, so a
//! run that failed can be carried out again; how fast the machine is remains up to the machine.

use std::ops::Range;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use super::script::Script;

/// The events that only partners get who accept at once. They are the ones that come twice: a second
/// copy of a delivery that is being retried waits for a minute, which is long for a short run.
const CALM: &str = "OrderPaid";
/// The other events.
const OTHERS: [&str; 2] = ["OrderRefunded", "OrderPlaced"];

/// Runs that publish for less time than this are kept short at their end too.
const SHORT_SECONDS: u64 = 30;

/// In how many windows of such a run calls fail.
const SHORT_WINDOWS: usize = 6;

/// How long no fault begins at the start, and none lasts at the end, in milliseconds.
const QUIET_MS: u64 = 1500;

/// Everything that is to happen. Times are in milliseconds since the first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// What it was drawn from.
    pub seed: u64,
    /// For how long events are published, in seconds.
    pub seconds: u64,
    /// The visibility timeout of the jobs queue in seconds: after that a job comes again whose
    /// function was killed.
    pub visibility_seconds: u64,
    /// Who subscribes.
    pub partners: Vec<PartnerPlan>,
    /// What is published.
    pub events: Vec<EventPlan>,
    /// When calls of AWS fail.
    pub windows: Vec<Window>,
    /// When all processes of the functions are killed.
    pub kills: Vec<u64>,
    /// When somebody looks into the jobs queue, which hands the jobs out once more.
    pub looks: Vec<u64>,
    /// When, and for how long, the queue hands out again within a second what is being worked on.
    pub impatience: Vec<(u64, u64)>,
    /// When a job is taken away behind the service's back. Never in a plan that is drawn: it
    /// proves that the account sees a loss.
    #[serde(default)]
    pub thefts: Vec<u64>,
}

/// A partner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartnerPlan {
    /// Its subscriber id.
    pub id: String,
    /// How it behaves.
    pub script: Script,
    /// What it has subscribed to.
    pub event_types: Vec<String>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventPlan {
    /// When it is published.
    pub at: u64,
    /// Its type.
    pub event_type: String,
    /// What it says, as the local EventBridge would write it.
    pub detail: String,
    /// When `dispatch` gets it a second time.
    pub again_at: Option<u64>,
}

/// A time in which calls of one kind fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// When it begins.
    pub from: u64,
    /// When it is over.
    pub to: u64,
    /// Which calls.
    pub operation: String,
    /// What becomes of them.
    pub fault: Fault,
    /// Every how many-th of them.
    pub every: u64,
    /// Only those that speak of this.
    pub only: Option<String>,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// 500.
    Error,
    /// AWS has had enough.
    Throttle,
    /// No answer until the window is over.
    Hang,
    /// It is done, but the answer is lost.
    Cut,
    /// A part of it is not done.
    Partial,
    /// What was to be hidden is visible at once.
    Early,
}

/// What can happen to the calls of the functions.
const FAULTS: [(&str, &[Fault]); 8] = {
    use Fault::{Cut, Early, Error, Hang, Partial, Throttle};
    [
        ("GetParameters", &[Error, Throttle, Hang, Cut]),
        ("BatchGetItem", &[Error, Throttle, Hang, Cut, Partial]),
        ("BatchWriteItem", &[Error, Throttle, Hang, Cut, Partial]),
        ("UpdateItem", &[Error, Throttle, Hang, Cut]),
        ("Query", &[Error, Throttle, Hang, Cut]),
        ("SendMessageBatch", &[Error, Throttle, Hang, Cut, Partial]),
        (
            "ChangeMessageVisibilityBatch",
            &[Error, Hang, Cut, Partial, Early],
        ),
        ("PutEvents", &[Error, Hang, Cut, Partial]),
    ]
};

impl Plan {
    /// The plan of a seed for a run that publishes for so many seconds.
    #[must_use]
    pub fn draw(seed: u64, seconds: u64) -> Self {
        let random = &mut StdRng::seed_from_u64(seed);
        let is_short = seconds < SHORT_SECONDS;
        let end = seconds * 1000;
        let partners = partners(random, is_short);
        let events = events(random, end, is_short);
        // Each costs whoever was under way a visibility timeout.
        let (count, latest) = if is_short {
            (1, end / 2)
        } else {
            (seconds / 25, end)
        };
        let kills = moments(random, count, latest);
        let windows = if is_short {
            short_windows(random, end, &kills)
        } else {
            windows(random, end)
        };
        let looks = moments(random, seconds.div_ceil(10), end);
        let impatience = moments(random, seconds.div_ceil(30), end)
            .into_iter()
            .map(|from| (from, random.random_range(1500..3000)))
            .collect();
        Self {
            seed,
            seconds,
            visibility_seconds: if is_short { 12 } else { 30 },
            partners,
            events,
            windows,
            kills,
            looks,
            impatience,
            thefts: Vec::new(),
        }
    }
}

fn partners(random: &mut StdRng, is_short: bool) -> Vec<PartnerPlan> {
    let copies = if is_short { 1 } else { 2 };
    let mut partners = Vec::new();
    for script in Script::ALL {
        let count = if script == Script::Good { 4 } else { copies };
        for number in 1..=count {
            let word = serde_json::to_value(script).unwrap();
            let id = format!("{}-{number}", word.as_str().unwrap());
            let mut event_types = OTHERS.to_vec();
            event_types.shuffle(random);
            event_types.truncate(random.random_range(1..=2));
            if script.accepts_at_once() {
                event_types.push(CALM);
            }
            partners.push(PartnerPlan {
                id,
                script,
                event_types: event_types.into_iter().map(str::to_owned).collect(),
            });
        }
    }
    partners
}

fn events(random: &mut StdRng, end: u64, is_short: bool) -> Vec<EventPlan> {
    let (shortest, longest) = if is_short { (300, 700) } else { (300, 1500) };
    let mut events = Vec::new();
    let mut at = 0;
    while at < end {
        let is_calm = random.random_bool(0.5);
        let event_type = if is_calm {
            CALM
        } else {
            OTHERS[random.random_range(0..OTHERS.len())]
        };
        let comes_again = (is_calm || !is_short) && random.random_bool(0.15);
        let note = "\\u00e4 ".repeat(random.random_range(0..200));
        let detail = format!(
            r#"{{"orderId": "K-{}", "total": {}, "note": "{note}"}}"#,
            events.len(),
            random.random_range(1..1_000_000),
        );
        events.push(EventPlan {
            at,
            event_type: event_type.to_owned(),
            detail,
            again_at: comes_again.then(|| at + random.random_range(200..4000)),
        });
        at += random.random_range(shortest..longest);
    }
    events
}

/// All that can fail, in any order.
fn faults(random: &mut StdRng) -> Vec<(&'static str, Fault)> {
    let mut all: Vec<(&str, Fault)> = FAULTS
        .into_iter()
        .flat_map(|(operation, faults)| faults.iter().map(move |fault| (operation, *fault)))
        .collect();
    all.shuffle(random);
    all
}

/// The windows of a short run, which lie where they like: among them one for secrets, one for
/// records, and calls that hang, that a run of this length would do without too often.
fn short_windows(random: &mut StdRng, end: u64, kills: &[u64]) -> Vec<Window> {
    let mut all = faults(random);
    // There are hardly any in so short a time.
    all.retain(|(operation, _)| *operation != "PutEvents");
    let needs: [fn(&str, Fault) -> bool; 3] = [
        |operation, _| operation == "GetParameters",
        |operation, _| operation == "BatchGetItem",
        // Of calls that every event or attempt leads to.
        |operation, fault| {
            fault == Fault::Hang && ["BatchWriteItem", "UpdateItem", "Query"].contains(&operation)
        },
    ];
    let mut chosen: Vec<(&str, Fault)> = needs
        .iter()
        .filter_map(|is_needed| {
            let mut all = all.iter().copied();
            all.find(|(operation, fault)| is_needed(operation, *fault))
        })
        .collect();
    let others = all.iter().filter(|other| !chosen.contains(other));
    let others: Vec<(&str, Fault)> = others.copied().take(SHORT_WINDOWS - needs.len()).collect();
    chosen.extend(others);
    let mut windows: Vec<Window> = chosen
        .into_iter()
        .map(|(operation, fault)| {
            let length = random.random_range(1000..2000);
            let latest = end - QUIET_MS - length;
            let from = match kills.first() {
                // A function keeps secrets for minutes: only a new one asks for them.
                Some(kill) if operation == "GetParameters" => (*kill).min(latest),
                _ => random.random_range(QUIET_MS..latest),
            };
            window(random, from..from + length, operation, fault, true)
        })
        .collect();
    windows.sort_by_key(|window| window.from);
    windows
}

fn window(
    random: &mut StdRng,
    when: Range<u64>,
    operation: &str,
    fault: Fault,
    is_short: bool,
) -> Window {
    let comes_twice = operation == "SendMessageBatch" && fault == Fault::Cut;
    Window {
        from: when.start,
        to: when.end,
        operation: operation.to_owned(),
        fault,
        every: random.random_range(1..=2),
        only: (comes_twice && is_short).then(|| CALM.to_owned()),
    }
}

/// Windows one after another, half of them with one more beside it.
fn windows(random: &mut StdRng, end: u64) -> Vec<Window> {
    let mut all = faults(random).into_iter().cycle();
    let mut windows = Vec::new();
    // Longer than the functions wait for a call, and than a batch may take.
    let longest = 8000;
    let mut from = QUIET_MS;
    loop {
        let to = from + random.random_range(1000..longest);
        if to + QUIET_MS > end {
            return windows;
        }
        let beside = random.random_range(1..=2);
        for (operation, fault) in all.by_ref().take(beside) {
            windows.push(window(random, from..to, operation, fault, false));
        }
        from = to + random.random_range(0..2000);
    }
}

/// So many moments, in order.
fn moments(random: &mut StdRng, count: u64, end: u64) -> Vec<u64> {
    let latest = end.saturating_sub(QUIET_MS).max(QUIET_MS + 1);
    let mut moments: Vec<u64> = (0..count)
        .map(|_| random.random_range(QUIET_MS..latest))
        .collect();
    moments.sort_unstable();
    moments
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_is_always_the_same_plan_and_another_one_another() {
        assert_eq!(Plan::draw(7, 60), Plan::draw(7, 60));
        assert_ne!(Plan::draw(7, 60), Plan::draw(8, 60));
    }

    #[test]
    fn a_plan_survives_its_file() {
        let plan = Plan::draw(7, 12);
        let file = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&file).unwrap(), plan);
    }

    #[test]
    fn every_script_and_every_fault_comes_up_in_a_run_of_minutes() {
        for seed in 0..20 {
            let plan = Plan::draw(seed, 180);
            let scripts: BTreeSet<Script> =
                plan.partners.iter().map(|partner| partner.script).collect();
            assert_eq!(scripts.len(), Script::ALL.len());
            let faults: BTreeSet<String> = plan
                .windows
                .iter()
                .map(|window| format!("{} {:?}", window.operation, window.fault))
                .collect();
            let all: usize = FAULTS.iter().map(|(_, faults)| faults.len()).sum();
            assert_eq!(faults.len(), all, "{seed}");
            assert_eq!(plan.kills.len(), 7);
        }
    }

    #[test]
    fn nothing_fails_at_the_end() {
        for seed in 0..100 {
            let plan = Plan::draw(seed, 12);
            assert!(plan.windows.iter().all(|window| window.to <= 10_500));
            assert!(plan.kills.iter().all(|at| *at <= 6000));
            assert_eq!(plan.kills.len(), 1);
        }
    }

    #[test]
    fn a_short_run_has_trouble_with_secrets_and_records_and_calls_that_hang() {
        for seed in 0..100 {
            let plan = Plan::draw(seed, 12);
            assert_eq!(plan.windows.len(), 6);
            let has = |test: &dyn Fn(&Window) -> bool| plan.windows.iter().any(test);
            assert!(has(
                &|window| window.operation == "GetParameters" && window.from == plan.kills[0]
            ));
            assert!(has(&|window| window.operation == "BatchGetItem"));
            assert!(has(&|window| window.fault == Fault::Hang));
        }
    }

    #[test]
    fn in_a_short_run_only_calm_events_come_twice() {
        for seed in 0..100 {
            for event in Plan::draw(seed, 12).events {
                assert!(event.again_at.is_none() || event.event_type == CALM);
            }
        }
    }
}
