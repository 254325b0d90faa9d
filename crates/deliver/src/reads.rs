//! What a batch reads from AWS: once for all of its deliveries, and each delivery waits only for
//! what it needs itself.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use tokio::sync::OnceCell;
use tokio::time::Instant;
use webhooks_core::identity::SubscriberId;

use crate::attempt::Delivery;
use crate::secrets::{SecretCache, SecretResult, SecretUnavailable};
use crate::subscriptions::{Found, Lookup, SubscriptionKey, Subscriptions};

/// How long reading may take, before the attempts.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// The reads of one batch. Whoever needs one first starts it, the others share it.
pub(crate) struct Reads {
    keys: HashSet<SubscriptionKey>,
    /// Whose secret was not in the cache when the batch came.
    unknown: HashSet<SubscriberId>,
    now: SystemTime,
    deadline: Instant,
    rows: OnceCell<Found>,
    secrets: OnceCell<HashMap<SubscriberId, SecretResult>>,
}

impl Reads {
    /// The reads for these deliveries, which may take until `deadline` at most.
    pub(crate) fn for_batch<'a>(
        deliveries: impl Iterator<Item = &'a Delivery>,
        cache: &SecretCache,
        deadline: Instant,
    ) -> Self {
        let now = SystemTime::now();
        let keys: HashSet<SubscriptionKey> =
            deliveries.map(|delivery| delivery.key.clone()).collect();
        let unknown = keys
            .iter()
            .map(|key| &key.subscriber_id)
            .filter(|subscriber| cache.known(subscriber, now).is_none())
            .cloned()
            .collect();
        Self {
            keys,
            unknown,
            now,
            deadline: deadline.min(Instant::now() + READ_LIMIT),
            rows: OnceCell::new(),
            secrets: OnceCell::new(),
        }
    }

    /// What the table says about a key; `None` if it could not be read.
    pub(crate) async fn lookup(
        &self,
        table: &Subscriptions,
        key: &SubscriptionKey,
    ) -> Option<Lookup> {
        let read = || async {
            tokio::time::timeout_at(self.deadline, table.read(&self.keys))
                .await
                .unwrap_or_else(|_| {
                    tracing::error!("subscriptions.out_of_time");
                    Found::new()
                })
        };
        self.rows.get_or_init(read).await.get(key).cloned()
    }

    /// The secret of a subscriber. Those whose secret is known do not wait for SSM.
    pub(crate) async fn secret(
        &self,
        cache: &SecretCache,
        subscriber: &SubscriberId,
    ) -> SecretResult {
        if !self.unknown.contains(subscriber)
            && let Some(known) = cache.known(subscriber, self.now)
        {
            return known;
        }
        let ask = || {
            cache.ask(
                self.unknown.iter().cloned().collect(),
                self.now,
                self.deadline,
            )
        };
        let asked = self.secrets.get_or_init(ask).await;
        asked.get(subscriber).cloned().unwrap_or_else(|| {
            let error = "SSM was not asked".into();
            Err(SecretUnavailable::Unreadable(subscriber.to_string(), error))
        })
    }
}
