//! Keeping messages hidden that are in hand, and showing them again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, Message,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// For how long messages are hidden, in seconds; renewed when half of it is over.
pub(crate) const HIDDEN_SECONDS: i32 = 300;
pub(crate) const HIDDEN: Duration = Duration::from_mins(5);

/// How often it is looked which ones need that.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// SQS takes ten entries in a batch.
pub(crate) const ENTRIES: usize = 10;

/// Calls at the same time.
const CALLS: usize = 8;

/// The id of a message and its receipt handle.
pub(crate) type Handle = (String, String);

/// The receipt handles of the messages in hand, by message id.
#[derive(Default)]
pub(crate) struct Held(Mutex<HashMap<String, Hold>>);

#[derive(Clone)]
struct Hold {
    receipt_handle: String,
    until: Instant,
}

impl Held {
    fn with<T>(&self, change: impl FnOnce(&mut HashMap<String, Hold>) -> T) -> T {
        // Nothing in here panics half-way.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a message, and tells whether it was not in hand yet. SQS may hand one out twice; only
    /// the last receipt handle is good for anything.
    pub(crate) fn take(&self, message: &Message, until: Instant) -> bool {
        let (Some(id), Some(receipt_handle)) = (message.message_id(), message.receipt_handle())
        else {
            return false;
        };
        let hold = Hold {
            receipt_handle: receipt_handle.to_owned(),
            until,
        };
        self.with(|held| held.insert(id.to_owned(), hold).is_none())
    }

    pub(crate) fn count(&self) -> usize {
        self.with(|held| held.len())
    }

    pub(crate) fn all(&self) -> Vec<Handle> {
        self.with(|held| held.iter().map(pair).collect())
    }

    /// Those that are shown again before `time`.
    fn due(&self, time: Instant) -> Vec<Handle> {
        self.with(|held| {
            let due = held.iter().filter(|(_, hold)| hold.until < time);
            due.map(pair).collect()
        })
    }

    pub(crate) fn handles(&self, ids: &[&str]) -> Vec<Handle> {
        self.with(|held| {
            let found = ids.iter().filter_map(|id| held.get_key_value(*id));
            found.map(pair).collect()
        })
    }

    fn renew<'a>(&self, ids: impl Iterator<Item = &'a str>, until: Instant) {
        self.with(|held| {
            for id in ids {
                if let Some(hold) = held.get_mut(id) {
                    hold.until = until;
                }
            }
        });
    }

    pub(crate) fn forget<'a>(&self, ids: impl Iterator<Item = &'a str>) {
        self.with(|held| {
            for id in ids {
                held.remove(id);
            }
        });
    }
}

fn pair((id, hold): (&String, &Hold)) -> Handle {
    (id.clone(), hold.receipt_handle.clone())
}

/// Hides what is in hand for another while, until it is told to end. `hide` gives the ids of those
/// for which that failed.
pub(crate) async fn keep_hidden<F: Future<Output = Vec<String>>>(
    held: Arc<Held>,
    mut ending: watch::Receiver<bool>,
    hide: impl Fn(Vec<Handle>) -> F,
) {
    loop {
        tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let due = held.due(Instant::now() + HIDDEN / 2);
        let until = Instant::now() + HIDDEN;
        let failed = hide(due.clone()).await;
        let renewed = due.iter().filter(|(id, _)| !failed.contains(id));
        // One that can not be hidden again is tried once more at the next look: if it is received
        // by somebody else, its record tells what to do.
        held.renew(renewed.map(|(id, _)| id.as_str()), until);
    }
}

/// Sets the visibility of messages and gives the ids of those for which that failed.
pub(crate) async fn change(
    client: &Client,
    queue_url: &str,
    messages: &[Handle],
    seconds: i32,
) -> Vec<String> {
    let mut calls = JoinSet::new();
    let mut failed = Vec::new();
    for chunk in messages.chunks(ENTRIES) {
        while calls.len() >= CALLS {
            failed.extend(
                calls
                    .join_next()
                    .await
                    .and_then(Result::ok)
                    .unwrap_or_default(),
            );
        }
        let chunk = chunk.to_vec();
        let (client, queue_url) = (client.clone(), queue_url.to_owned());
        calls.spawn(async move { change_once(&client, &queue_url, chunk, seconds).await });
    }
    while let Some(done) = calls.join_next().await {
        failed.extend(done.unwrap_or_default());
    }
    failed
}

async fn change_once(
    client: &Client,
    queue_url: &str,
    messages: Vec<Handle>,
    seconds: i32,
) -> Vec<String> {
    let entries = messages.iter().enumerate();
    let entries = entries.filter_map(|(index, (_, receipt_handle))| {
        ChangeMessageVisibilityBatchRequestEntry::builder()
            .id(index.to_string())
            .receipt_handle(receipt_handle)
            .visibility_timeout(seconds)
            .build()
            .ok()
    });
    let answer = client
        .change_message_visibility_batch()
        .queue_url(queue_url)
        .set_entries(Some(entries.collect()))
        .send()
        .await;
    match answer {
        Ok(answer) => named(&messages, &answer.failed),
        Err(_) => messages.into_iter().map(|(id, _)| id).collect(),
    }
}

/// The ids of the messages that a batch names as failed by their places.
pub(crate) fn named(messages: &[Handle], failed: &[BatchResultErrorEntry]) -> Vec<String> {
    let places = failed.iter().filter_map(|entry| entry.id().parse().ok());
    let ids = places.filter_map(|place: usize| Some(messages.get(place)?.0.clone()));
    ids.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_in_hand_is_hidden_again_before_its_time_is_over() {
        let began = Instant::now();
        let held = Arc::new(Held::default());
        for id in ["a", "b", "c"] {
            let message = Message::builder().message_id(id).receipt_handle(id).build();
            assert!(held.take(&message, began + HIDDEN));
        }
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (ending, ended) = watch::channel(false);
        let hide = {
            let calls = Arc::clone(&calls);
            move |due: Vec<Handle>| {
                let mut ids: Vec<String> = due.into_iter().map(|(id, _)| id).collect();
                ids.sort();
                let mut calls = calls.lock().unwrap();
                if !ids.is_empty() {
                    calls.push((began.elapsed().as_secs(), ids.concat()));
                }
                // The first time, one of them is not hidden again.
                let failed = if calls.len() == 1 { ids } else { Vec::new() };
                async { failed.into_iter().filter(|id| id == "b").collect() }
            }
        };
        let keeper = tokio::spawn(keep_hidden(Arc::clone(&held), ended, hide));
        tokio::time::sleep(Duration::from_secs(200)).await;
        held.forget(["c"].into_iter());
        tokio::time::sleep(Duration::from_secs(200)).await;
        ending.send_replace(true);
        keeper.await.unwrap();
        let calls = calls.lock().unwrap().clone();
        let expected = [(155, "abc"), (160, "b"), (310, "a"), (315, "b")];
        assert_eq!(calls, expected.map(|(at, ids)| (at, ids.to_owned())));
    }
}
