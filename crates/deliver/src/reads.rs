//! What a batch reads from AWS: once for all of its deliveries, and each delivery waits only for
//! what it needs itself.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use tokio::sync::OnceCell;
use tokio::time::Instant;
use webhooks_core::identity::SubscriberId;

use crate::attempt::Delivery;
use crate::secrets::{SecretCache, SecretResult, SecretUnavailable};
use crate::subscriptions::SubscriptionKey;
use crate::tables::{Found, Tables};

/// How long reading may take, before the attempts.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// The reads of one batch. Whoever needs one first starts it, the others share it.
pub(crate) struct Reads {
    keys: HashSet<SubscriptionKey>,
    webhook_ids: HashSet<String>,
    /// Whose secret was not in the cache when the batch came.
    unknown: HashSet<SubscriberId>,
    now: SystemTime,
    deadline: Instant,
    found: OnceCell<Found>,
    secrets: OnceCell<HashMap<SubscriberId, SecretResult>>,
}

impl Reads {
    /// The reads for these deliveries, which may take until `deadline` at most.
    pub(crate) fn for_batch(
        deliveries: &[Delivery],
        cache: &SecretCache,
        deadline: Instant,
    ) -> Self {
        let now = SystemTime::now();
        let keys: HashSet<SubscriptionKey> = deliveries
            .iter()
            .map(|delivery| delivery.key.clone())
            .collect();
        let unknown = keys
            .iter()
            .map(|key| &key.subscriber_id)
            .filter(|subscriber| cache.known(subscriber, now).is_none())
            .cloned()
            .collect();
        Self {
            keys,
            webhook_ids: deliveries
                .iter()
                .map(|delivery| delivery.webhook_id.clone())
                .collect(),
            unknown,
            now,
            deadline: deadline.min(Instant::now() + READ_LIMIT),
            found: OnceCell::new(),
            secrets: OnceCell::new(),
        }
    }

    /// What the tables say.
    pub(crate) async fn found(&self, tables: &Tables) -> &Found {
        // In a box: each delivery has this future within its own, and only one of them runs it.
        let read = || {
            Box::pin(async {
                let mut found = Found::default();
                let read = tables.read(&self.keys, &self.webhook_ids, &mut found);
                // What was read by then is kept.
                if tokio::time::timeout_at(self.deadline, read).await.is_err() {
                    tracing::error!("tables.out_of_time");
                }
                found
            })
        };
        self.found.get_or_init(read).await
    }

    /// Asks for the secrets that are not known, while the tables are read.
    pub(crate) async fn ask_for_secrets(&self, cache: &SecretCache) {
        if !self.unknown.is_empty() {
            self.asked_secrets(cache).await;
        }
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
        let asked = self.asked_secrets(cache).await;
        asked.get(subscriber).cloned().unwrap_or_else(|| {
            let error = "SSM was not asked".into();
            Err(SecretUnavailable::Unreadable(subscriber.to_string(), error))
        })
    }

    async fn asked_secrets(&self, cache: &SecretCache) -> &HashMap<SubscriberId, SecretResult> {
        let ask = || {
            let unknown = self.unknown.iter().cloned().collect();
            Box::pin(cache.ask(unknown, self.now, self.deadline))
        };
        self.secrets.get_or_init(ask).await
    }
}
