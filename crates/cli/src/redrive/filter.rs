//! Which deliveries are meant.

use webhooks_core::identity::SubscriberId;
use webhooks_core::job::Job;
use webhooks_core::timestamp;
use webhooks_shell::records::{self, Item};

use crate::moment::Period;

/// What makes a delivery this one: everything in a job but url and payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub webhook_id: String,
    pub event_id: String,
    pub event_type: String,
    pub subscriber_id: SubscriberId,
    /// As published.
    pub occurred_at: String,
}

impl Identity {
    /// Of a job; `None` if its subscriber id is none, which a job that was parsed never has.
    pub(crate) fn of_job(job: &Job<'_>) -> Option<Self> {
        Some(Self {
            webhook_id: job.webhook_id.clone().into_owned(),
            event_id: job.event_id.clone().into_owned(),
            event_type: job.event_type.clone().into_owned(),
            subscriber_id: SubscriberId::parse(&job.subscriber_id).ok()?,
            occurred_at: job.occurred_at.clone().into_owned(),
        })
    }

    /// Of a row of the deliveries table; `None` if a part of it is missing.
    pub(crate) fn of_record(item: &Item) -> Option<Self> {
        let text = |name| records::text(item, name).map(str::to_owned);
        Some(Self {
            webhook_id: text("webhookId")?,
            event_id: text("eventId")?,
            event_type: text("eventType")?,
            subscriber_id: SubscriberId::parse(records::text(item, "subscriberId")?).ok()?,
            occurred_at: text("occurredAt")?,
        })
    }
}

/// What a delivery must be to be redriven. What is not given does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub webhook_id: Option<String>,
    pub subscriber_id: Option<SubscriberId>,
    pub event_type: Option<String>,
    pub reference: Option<String>,
    /// When the event happened.
    pub period: Period,
}

impl Filter {
    /// Whether a delivery is meant, as far as its identity tells. A reference is known to its
    /// record alone, see [`Self::takes_reference`].
    pub(crate) fn takes(&self, delivery: &Identity) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, value: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == value)
        }
        is(self.webhook_id.as_ref(), &delivery.webhook_id)
            && is(self.subscriber_id.as_ref(), &delivery.subscriber_id)
            && is(self.event_type.as_ref(), &delivery.event_type)
            && self.takes_time(&delivery.occurred_at)
    }

    /// Whether the delivery of this record is meant.
    pub(crate) fn takes_record(&self, item: &Item) -> bool {
        Identity::of_record(item).is_some_and(|identity| self.takes(&identity))
            && self.takes_reference(records::text(item, "reference"))
    }

    /// Whether a delivery with this reference, or without one, is meant.
    pub(crate) fn takes_reference(&self, reference: Option<&str>) -> bool {
        self.reference.is_none() || self.reference.as_deref() == reference
    }

    /// A time that can not be read lies in no period.
    fn takes_time(&self, occurred_at: &str) -> bool {
        self.period == Period::default()
            || timestamp::parse(occurred_at).is_some_and(|time| self.period.holds(time))
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn delivery() -> Identity {
        Identity {
            webhook_id: "msg_e1_kasse-nord".into(),
            event_id: "e1".into(),
            event_type: "OrderPaid".into(),
            subscriber_id: SubscriberId::parse("kasse-nord").unwrap(),
            occurred_at: "2026-11-30T12:00:00Z".into(),
        }
    }

    fn at(text: &str) -> Option<SystemTime> {
        Some(timestamp::parse(text).unwrap())
    }

    #[test]
    fn the_event_s_time_is_in_the_period_with_its_first_moment_and_without_its_last() {
        let period = |since, until| Filter {
            period: Period { since, until },
            ..Filter::default()
        };
        let noon = at("2026-11-30T12:00:00Z");
        let later = at("2026-11-30T12:00:00.001Z");
        let earlier = at("2026-11-30T11:59:59.999Z");
        for (since, until, taken) in [
            (noon, None, true),
            (later, None, false),
            (None, noon, false),
            (None, later, true),
            (earlier, later, true),
            (earlier, noon, false),
        ] {
            let filter = period(since, until);
            assert_eq!(filter.takes(&delivery()), taken, "{filter:?}");
        }
        let unknown = Identity {
            occurred_at: "noon".into(),
            ..delivery()
        };
        assert!(!period(earlier, None).takes(&unknown));
        assert!(period(None, None).takes(&unknown));
        // An offset is a way of writing, not another time.
        let elsewhere = Identity {
            occurred_at: "2026-11-30T13:00:00+01:00".into(),
            ..delivery()
        };
        assert!(period(noon, later).takes(&elsewhere));
    }
}
