//! The subscriptions of one event type in pages as DynamoDB cuts them, and who of them has got a
//! job.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::workload::{EVENT_TYPE, subscriber};

/// `Query` gives at most 1 MB in one page: names and values, not the JSON around them.
const PAGE_BYTES: usize = 1024 * 1024;

/// Subscribers and their jobs of the event in hand.
#[derive(Debug)]
pub struct Subscribers {
    /// The answers to `Query`.
    pages: Vec<Vec<u8>>,
    /// The number of each page's first row.
    starts: Vec<usize>,
    jobs: Mutex<Jobs>,
}

#[derive(Debug)]
struct Jobs {
    has_one: Vec<bool>,
    count: usize,
}

impl Subscribers {
    /// This many.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let url = |partner: usize| format!("https://hooks.partner-{partner:06}.example/webhooks");
        let size = "eventTypesubscriberIdurlenabled".len()
            + EVENT_TYPE.len()
            + subscriber(0).len()
            + url(0).len()
            + 1;
        let per_page = PAGE_BYTES / size;
        let starts: Vec<usize> = (0..count).step_by(per_page).collect();
        let pages = starts.iter().map(|start| {
            let end = count.min(start + per_page);
            let items: Vec<Value> = (*start..end)
                .map(|partner| {
                    json!({
                        "subscriberId": {"S": subscriber(partner)},
                        "url": {"S": url(partner)},
                        "enabled": {"BOOL": true},
                    })
                })
                .collect();
            let mut page = json!({
                "Count": items.len(),
                "ScannedCount": items.len(),
                "Items": items,
            });
            if end < count {
                page["LastEvaluatedKey"] = json!({
                    "eventType": {"S": EVENT_TYPE},
                    "subscriberId": {"S": subscriber(end - 1)},
                });
            }
            page.to_string().into_bytes()
        });
        Self {
            pages: pages.collect(),
            jobs: Mutex::new(Jobs {
                has_one: vec![false; count],
                count: 0,
            }),
            starts,
        }
    }

    /// The answer to a `Query`.
    ///
    /// # Errors
    /// If it asks for what is not there.
    pub fn page(&self, body: &[u8]) -> Result<Vec<u8>, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Query {
            exclusive_start_key: Option<Value>,
        }
        let query: Query = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let start = match &query.exclusive_start_key {
            None => 0,
            Some(key) => {
                key["subscriberId"]["S"]
                    .as_str()
                    .and_then(partner_of)
                    .ok_or("a start key of nobody")?
                    + 1
            }
        };
        let page = self.starts.iter().position(|first| *first == start);
        let page = page.and_then(|page| self.pages.get(page));
        page.cloned()
            .ok_or_else(|| format!("no page begins at {start}"))
    }

    /// Notes that a subscriber has got a job; `false` if there is no such one, or it had one.
    pub fn mark(&self, subscriber_id: &str) -> bool {
        let mut jobs = self.jobs();
        let Some(has_one) = partner_of(subscriber_id).and_then(|n| jobs.has_one.get_mut(n)) else {
            return false;
        };
        let is_first = !std::mem::replace(has_one, true);
        jobs.count += usize::from(is_first);
        is_first
    }

    /// Whether each has got a job; the next event begins with none.
    pub fn is_complete(&self) -> bool {
        let mut jobs = self.jobs();
        let is_complete = jobs.count == jobs.has_one.len();
        jobs.has_one.fill(false);
        jobs.count = 0;
        is_complete
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn partner_of(subscriber_id: &str) -> Option<usize> {
    subscriber_id.strip_prefix("partner-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_hold_every_subscriber_once_and_a_megabyte_at_most() {
        let subscribers = Subscribers::new(25_000);
        let (mut rows, mut start) = (0, None);
        loop {
            let query = match &start {
                None => json!({}),
                Some(key) => json!({"ExclusiveStartKey": key}),
            };
            let page = subscribers.page(query.to_string().as_bytes()).unwrap();
            let page: Value = serde_json::from_slice(&page).unwrap();
            for item in page["Items"].as_array().unwrap() {
                assert!(subscribers.mark(item["subscriberId"]["S"].as_str().unwrap()));
                rows += 1;
            }
            match &page["LastEvaluatedKey"] {
                Value::Null => break,
                key => start = Some(key.clone()),
            }
        }
        assert_eq!(rows, 25_000);
        assert_eq!(subscribers.pages.len(), 3);
        assert!(subscribers.is_complete());
        assert!(!subscribers.is_complete());
    }

    #[test]
    fn a_second_job_and_one_for_nobody_are_noticed() {
        let subscribers = Subscribers::new(2);
        assert!(subscribers.mark("partner-000001"));
        assert!(!subscribers.mark("partner-000001"));
        assert!(!subscribers.mark("partner-000002"));
        assert!(!subscribers.mark("somebody"));
        assert!(!subscribers.is_complete());
    }

    #[test]
    fn a_page_that_does_not_exist_is_refused() {
        let key = json!({"ExclusiveStartKey": {"subscriberId": {"S": "partner-000000"}}});
        assert!(
            Subscribers::new(10)
                .page(key.to_string().as_bytes())
                .is_err()
        );
    }
}
