//! A memory of ids, for a server on this machine.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::Stored;

/// How many ids are remembered at most; then the oldest go.
const MAX_IDS: usize = 100_000;

/// The ids of what came, and when each may be forgotten.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Ids>);

#[derive(Debug, Default)]
struct Ids {
    known: HashSet<String>,
    /// In the order in which they came, in which they also expire.
    order: VecDeque<(SystemTime, String)>,
}

impl Memory {
    pub(super) fn put(&self, webhook_id: &str, now: SystemTime, keep: Duration) -> Stored {
        // Nothing is done under the lock that could leave it half changed.
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((expires_at, _)) = ids.order.front()
            && (*expires_at < now || ids.order.len() >= MAX_IDS)
        {
            if let Some((_, oldest)) = ids.order.pop_front() {
                ids.known.remove(&oldest);
            }
        }
        if !ids.known.insert(webhook_id.to_owned()) {
            return Stored::Repeat;
        }
        ids.order.push_back((now + keep, webhook_id.to_owned()));
        Stored::New
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(60);

    #[test]
    fn an_id_is_new_once_until_it_has_expired() {
        let memory = Memory::default();
        let start = SystemTime::UNIX_EPOCH;
        let put = |id, seconds| memory.put(id, start + Duration::from_secs(seconds), KEEP);
        assert_eq!(put("a", 0), Stored::New);
        assert_eq!(put("b", 1), Stored::New);
        assert_eq!(put("a", 60), Stored::Repeat);
        assert_eq!(put("a", 61), Stored::New);
        assert_eq!(put("b", 61), Stored::Repeat);
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let memory = Memory::default();
        let now = SystemTime::UNIX_EPOCH;
        for id in 0..=MAX_IDS {
            assert_eq!(memory.put(&id.to_string(), now, KEEP), Stored::New);
        }
        assert_eq!(memory.0.lock().unwrap().known.len(), MAX_IDS);
        assert_eq!(memory.put("0", now, KEEP), Stored::New);
        assert_eq!(memory.put(&MAX_IDS.to_string(), now, KEEP), Stored::Repeat);
    }
}
