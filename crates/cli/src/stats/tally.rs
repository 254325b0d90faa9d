//! Counting a partner's deliveries.

use std::time::SystemTime;

use webhooks_core::record::State;

use super::{Partner, Stage, Waiting};
use crate::delivery::Delivery;
use crate::moment::Time;

/// So many failed attempts in a row are a warning.
const IN_A_ROW: usize = 10;

/// What was counted so far.
#[derive(Debug)]
pub(super) struct Tally {
    since: SystemTime,
    deliveries: u64,
    delivered: u64,
    attempts_of_delivered: u64,
    dead: u64,
    gone: u64,
    dropped: u64,
    waiting: u64,
    oldest_waiting: Option<Waiting>,
    furthest: Option<Stage>,
    last_delivered_at: Option<Time>,
    /// The latest attempts, by their time, and whether they delivered.
    latest: Vec<(Time, bool)>,
}

impl Tally {
    pub(super) fn since(since: SystemTime) -> Self {
        Self {
            since,
            deliveries: 0,
            delivered: 0,
            attempts_of_delivered: 0,
            dead: 0,
            gone: 0,
            dropped: 0,
            waiting: 0,
            oldest_waiting: None,
            furthest: None,
            last_delivered_at: None,
            latest: Vec::with_capacity(IN_A_ROW + 1),
        }
    }

    pub(super) fn add(&mut self, delivery: &Delivery) {
        for step in delivery.history.iter().filter(|step| step.is_attempt()) {
            self.attempt(step.at, step.is_delivered());
        }
        let state = delivery.known_state();
        if state == Some(State::Retrying) {
            self.wait(delivery);
        }
        let in_time = |time: Time| time.get() >= self.since;
        if !delivery.updated_at.is_some_and(in_time) {
            return;
        }
        self.deliveries += 1;
        match state {
            Some(State::Delivered) => {
                self.delivered += 1;
                self.attempts_of_delivered += u64::from(delivery.attempts);
            }
            Some(State::Dead) => self.dead += 1,
            Some(State::Gone) => self.gone += 1,
            Some(State::Dropped) => self.dropped += 1,
            Some(State::Retrying) | None => {}
        }
    }

    fn attempt(&mut self, at: Time, delivered: bool) {
        if delivered {
            self.last_delivered_at = self.last_delivered_at.max(Some(at));
        }
        let place = self.latest.partition_point(|(other, _)| *other <= at);
        self.latest.insert(place, (at, delivered));
        if self.latest.len() > IN_A_ROW {
            self.latest.remove(0);
        }
    }

    fn wait(&mut self, delivery: &Delivery) {
        self.waiting += 1;
        let began = delivery.started_at.or(delivery.created_at);
        if let Some(since) = began
            && self
                .oldest_waiting
                .as_ref()
                .is_none_or(|oldest| since < oldest.since)
        {
            self.oldest_waiting = Some(Waiting {
                webhook_id: delivery.webhook_id.clone(),
                since,
            });
        }
        let attempt = delivery.attempts.saturating_add(1);
        if self
            .furthest
            .as_ref()
            .is_none_or(|stage| attempt > stage.attempt)
        {
            self.furthest = Some(Stage {
                webhook_id: delivery.webhook_id.clone(),
                attempt,
                next_at: delivery.next_at,
            });
        }
    }

    pub(super) fn partner(self, subscriber_id: String) -> Partner {
        let ended = self.delivered + self.dead + self.gone;
        let all_failed =
            self.latest.len() >= IN_A_ROW && self.latest.iter().all(|(_, delivered)| !delivered);
        let first = self.latest.first().map(|(at, _)| *at);
        Partner {
            subscriber_id,
            deliveries: self.deliveries,
            delivered: self.delivered,
            dead: self.dead,
            gone: self.gone,
            dropped: self.dropped,
            success_rate: ratio(self.delivered, ended),
            attempts_per_delivered: ratio(self.attempts_of_delivered, self.delivered),
            waiting: self.waiting,
            oldest_waiting: self.oldest_waiting,
            furthest: self.furthest,
            last_delivered_at: self.last_delivered_at,
            failing_since: first.filter(|_| all_failed),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of deliveries are far below 2^52"
)]
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
