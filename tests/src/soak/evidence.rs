//! What was seen of a run, from outside of the functions. Times are in milliseconds since 1970.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How long it may take until a killed function is seen to have hung up, in milliseconds.
const KILL_MS: u64 = 1000;

/// All of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Evidence {
    /// The events that EventBridge took.
    pub published: Vec<Published>,
    /// The requests that came to partners.
    pub posts: Vec<Post>,
    /// The delivery records, by webhook id.
    pub records: BTreeMap<String, Value>,
    /// The webhook ids of the jobs in the dead-letter queue.
    pub dead_letters: BTreeSet<String>,
    /// What is in the dead-letter queue and is no job.
    pub strange_letters: Vec<String>,
    /// The ids of the events in the dispatch failure queue.
    pub undispatched: BTreeSet<String>,
    /// The ids of events that `dispatch` says it is done with, and when it last said so.
    pub dispatched: BTreeMap<String, u64>,
    /// The deliveries of which `dispatch` wanted to send a job.
    pub jobs: BTreeSet<String>,
    /// When subscriptions were switched off.
    pub disabled: Vec<Disabled>,
    /// Deliveries that `deliver` says it dropped since nobody wants them any more.
    pub dropped: BTreeSet<String>,
    /// The calls of AWS that were made to fail.
    pub failed_calls: Vec<FailedCall>,
    /// When AWS had taken the record that a delivery was delivered.
    pub known_delivered: BTreeMap<String, u64>,
    /// When, after that, AWS took a record that said something else.
    pub overwritten: BTreeMap<String, u64>,
    /// How many calls of AWS the functions made.
    pub calls: u64,
    /// How many of them met each of the planned windows.
    pub met: Vec<u64>,
    /// When all processes were killed.
    pub kills: Vec<u64>,
    /// When `dispatch` got an event a second time.
    pub again: Vec<(String, u64)>,
    /// From when until when the queue handed out again what was being worked on.
    pub impatience: Vec<(u64, u64)>,
    /// When somebody looked into the queue.
    pub looks: Vec<u64>,
    /// How many messages were still in the jobs queue when the time was over.
    pub left: u32,
}

/// An event that was published.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Published {
    /// Its id.
    pub id: String,
    /// Its type.
    pub event_type: String,
    /// What it says.
    pub detail: String,
    /// When it was handed to EventBridge.
    pub at: u64,
    /// When EventBridge had taken it.
    pub taken: u64,
}

/// A request that came to a partner.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Post {
    /// Who got it.
    pub partner: String,
    /// Its `webhook-id`.
    pub webhook_id: String,
    /// When it was read.
    pub at: u64,
    /// Its body.
    pub body: String,
    /// What is wrong with it, as the library for receivers says.
    pub refused: Option<String>,
    /// The status that it is answered with, if the answer has one.
    pub status: Option<u16>,
    /// When the status line was written to the socket, as a whole.
    pub answered_at: Option<u64>,
}

/// A subscription that was switched off.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disabled {
    /// What was subscribed to.
    pub event_type: String,
    /// By whom.
    pub partner: String,
    /// When.
    pub at: u64,
}

/// A call of AWS that was made to fail.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedCall {
    /// When it came.
    pub at: u64,
    /// What it was.
    pub operation: String,
    /// How it failed.
    pub fault: String,
    /// The deliveries that it was about, as far as it names them.
    pub webhook_ids: BTreeSet<String>,
    /// When the function hung up, if it was not made to fail but not answered in time.
    pub hung_up: Option<u64>,
    /// What the SDK names a call by, and all further tries of it.
    pub invocation: String,
    /// Whether a further try of it was answered.
    pub answered_later: bool,
}

impl Evidence {
    /// The calls of AWS that failed, without those whose function hung up since it was killed.
    pub fn failures(&self) -> impl Iterator<Item = &FailedCall> {
        self.failed_calls.iter().filter(|call| {
            let was_killed = |at: &u64| {
                call.hung_up
                    .is_some_and(|hung_up| (*at..=at + KILL_MS).contains(&hung_up))
            };
            !self.kills.iter().any(was_killed)
        })
    }
}

impl Post {
    /// When a 2xx was written, if it was.
    #[must_use]
    pub fn accepted_at(&self) -> Option<u64> {
        let is_success = self
            .status
            .is_some_and(|status| (200..300).contains(&status));
        self.answered_at.filter(|_| is_success)
    }

    /// The same, if the sender was still waiting for it.
    #[must_use]
    pub fn accepted_in_time(&self) -> Option<u64> {
        self.accepted_at()
            .filter(|answered_at| answered_at.saturating_sub(self.at) < super::script::ATTEMPT_MS)
    }
}
