//! Looking for dead deliveries, and what is going to become of them.
//!
//! The plan is only a forecast for the preview: everything is read and decided again just before
//! its turn.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use webhooks_core::timestamp;
use webhooks_shell::records::{self, Item, text};

use super::counts::Counts;
use super::filter::{Filter, Identity};
use super::letters::{Found, Letters, Received};
use super::stop::Stop;
use super::store::{DELIVERIES_PER_READ, Parts, known};
use super::summary::{Left, Others, Planned, Source};
use super::verdict::{self, Handling, Obstacle, Settled};
use crate::error::Error;
use crate::moment::Period;
use crate::tables::{Tables, about_each};

/// How far the time of an event may lie ahead of its publication: as the publisher's clock.
const CLOCKS_DIFFER_BY: Duration = Duration::from_hours(24);

/// A delivery to work on.
#[derive(Debug)]
pub(crate) struct Dead {
    pub identity: Identity,
    /// Its messages in the dead-letter queue; if there are none, its record is all there is.
    pub letters: Vec<Received>,
}

impl Dead {
    pub(crate) fn source(&self) -> Source {
        if self.letters.is_empty() {
            Source::Record
        } else {
            Source::Letter
        }
    }
}

/// What there is to do.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The earliest events first, and dead letters before records.
    pub dead: Vec<Dead>,
    /// What is to be sent.
    pub planned: Planned,
    /// Dead letters of what needs nothing more, which are to be deleted, in deliveries.
    pub copies: Counts<Settled>,
    /// What there is nothing to do for, or nothing that can be done.
    pub left: Left,
    /// What else is in the dead-letter queue.
    pub others: Others,
}

impl Plan {
    /// Whether nothing at all was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.dead.is_empty() && self.left == Left::default() && !self.others.more
    }

    /// Sorts what was received from the dead-letter queue. Gives the webhook ids of all jobs in
    /// it.
    pub(crate) async fn add_letters(
        &mut self,
        letters: &Letters,
        tables: &Tables,
        filter: &Filter,
        stop: &Stop,
        progress: impl Fn(usize),
    ) -> Result<HashSet<String>, Error> {
        let Found {
            meant,
            not_meant,
            not_jobs,
            elsewhere,
            more,
        } = letters.receive(filter, stop, progress).await?;
        self.others = Others {
            not_meant: not_meant.len(),
            not_jobs,
            elsewhere,
            more,
        };
        let mut in_queue: HashSet<String> = not_meant.into_iter().collect();
        in_queue.extend(
            meant
                .iter()
                .map(|letter| letter.identity.webhook_id.clone()),
        );
        let mut dead = by_delivery(meant);
        sort(&mut dead);
        let mut rest = dead.into_iter().peekable();
        while rest.peek().is_some() && !stop.is_asked_for() {
            let chunk: Vec<Dead> = rest.by_ref().take(DELIVERIES_PER_READ).collect();
            let of: Vec<&Identity> = chunk.iter().map(|dead| &dead.identity).collect();
            let said = tables.read(&of, Parts::Records).await?;
            for dead in chunk {
                let record = said.record(&dead.identity.webhook_id);
                if !filter.takes_reference(record.and_then(|item| text(item, "reference"))) {
                    self.others.not_meant += dead.letters.len();
                    continue;
                }
                let known = record.and_then(known);
                let handling =
                    verdict::of_letters(&dead.letters, known.as_ref(), SystemTime::now());
                let subscription = said.subscription(&dead.identity);
                match (handling, verdict::of_subscription(subscription)) {
                    (Handling::Delete(settled), _) => self.copies.add(settled),
                    (Handling::Send(_), Err(obstacle)) => {
                        self.left.skipped.add(obstacle);
                        continue;
                    }
                    (Handling::Send(_), Ok(_)) => self.planned.add(&dead.identity, Source::Letter),
                }
                self.dead.push(dead);
            }
        }
        Ok(in_queue)
    }

    /// Looks for dead deliveries in the table, of which there is nothing `in_queue`.
    pub(crate) async fn add_records(
        &mut self,
        in_queue: &HashSet<String>,
        tables: &Tables,
        filter: &Filter,
        stop: &Stop,
    ) -> Result<(), Error> {
        let mut dead = Vec::new();
        for item in dead_records(tables, filter, stop).await? {
            if let Some(identity) = Identity::of_record(&item)
                && !in_queue.contains(&identity.webhook_id)
            {
                self.forecast(&item, identity, &mut dead);
            }
        }
        sort(&mut dead);
        let mut rest = dead.into_iter().peekable();
        while rest.peek().is_some() && !stop.is_asked_for() {
            let chunk: Vec<Dead> = rest.by_ref().take(DELIVERIES_PER_READ).collect();
            let of: Vec<&Identity> = chunk.iter().map(|dead| &dead.identity).collect();
            let said = tables.read(&of, Parts::Subscriptions).await?;
            for dead in chunk {
                match verdict::of_subscription(said.subscription(&dead.identity)) {
                    Ok(_) => {
                        self.planned.add(&dead.identity, Source::Record);
                        self.dead.push(dead);
                    }
                    Err(obstacle) => self.left.skipped.add(obstacle),
                }
            }
        }
        Ok(())
    }

    /// What the index tells of a record; it may lag behind.
    fn forecast(&mut self, item: &Item, identity: Identity, dead: &mut Vec<Dead>) {
        let left = &mut self.left;
        let Some(known) = known(item) else {
            return left.skipped.add(Obstacle::BodyUnreadable);
        };
        match verdict::of_record(&known, SystemTime::now()) {
            Some(settled) => left.nothing_to_do.add(settled),
            None if item.contains_key("bodyOmitted") => left.skipped.add(Obstacle::BodyOmitted),
            None => dead.push(Dead {
                identity,
                letters: Vec::new(),
            }),
        }
    }
}

/// The records of the dead deliveries that are meant; of the one that is meant by its id, however
/// it stands.
async fn dead_records(tables: &Tables, filter: &Filter, stop: &Stop) -> Result<Vec<Item>, Error> {
    let is_meant = |filter: &Filter, item: &Item| {
        !records::has_expired(item, SystemTime::now()) && filter.takes_record(item)
    };
    if let Some(webhook_id) = &filter.webhook_id {
        let item = tables.delivery(webhook_id).await?;
        return Ok(item
            .filter(|item| is_meant(filter, item))
            .into_iter()
            .collect());
    }
    // Who has no subscription left can not be sent anything, so those in the table are all.
    let subscribers = match &filter.subscriber_id {
        Some(subscriber_id) => BTreeSet::from([subscriber_id.clone()]),
        None => tables.subscribers().await?,
    };
    let period = Period {
        // Nothing dies before it happens.
        since: filter
            .period
            .since
            .and_then(|since| since.checked_sub(CLOCKS_DIFFER_BY)),
        until: None,
    };
    let found = about_each(subscribers, |subscriber| {
        let (tables, filter, stop) = (tables.clone(), filter.clone(), stop.clone());
        async move {
            let mut dead = Vec::new();
            let each = |item: &Item| {
                if text(item, "state") == Some("dead") && is_meant(&filter, item) {
                    let mut item = item.clone();
                    // It is not asked, and long.
                    item.remove("history");
                    dead.push(item);
                }
                if stop.is_asked_for() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            tables.of_subscriber(&subscriber, period, each).await?;
            Ok(dead)
        }
    })
    .await?;
    Ok(found.into_iter().flatten().collect())
}

/// Puts the copies of a delivery together.
fn by_delivery(letters: Vec<Received>) -> Vec<Dead> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut all: Vec<Dead> = Vec::new();
    for letter in letters {
        let place = places
            .entry(letter.identity.webhook_id.clone())
            .or_insert(all.len());
        match all.get_mut(*place) {
            Some(dead) => dead.letters.push(letter),
            None => all.push(Dead {
                identity: letter.identity.clone(),
                letters: vec![letter],
            }),
        }
    }
    all
}

/// A receiver gets what it missed in the order in which it happened, as far as a queue keeps one.
fn sort(dead: &mut [Dead]) {
    dead.sort_by_cached_key(|dead| timestamp::parse(&dead.identity.occurred_at));
}
