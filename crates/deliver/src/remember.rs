//! What is remembered of a message's turn: from what came of it to the change of its record.

use std::time::SystemTime;

use bytes::Bytes;
use webhooks_core::outcome::Fault;
use webhooks_core::record::{self, Entry, Record, State};
use webhooks_core::turn::{Memory, Run};
use webhooks_core::{DeadReason, Outcome, Step, reference};

use crate::Deliver;
use crate::attempt::{Delivery, Unwanted};
use crate::config::DeliveryLog;
use crate::deliveries::Change;
use crate::report::Report;

impl Deliver {
    /// What is written down of an attempt or a fault; `None` if nothing is.
    pub(crate) fn change(
        &self,
        delivery: &Delivery,
        run: &Run,
        memory: &Memory,
        report: &Report,
        step: Step,
        now: SystemTime,
    ) -> Option<Change> {
        match report.outcome {
            // The table is out of reach, or the time is over.
            Outcome::Fault(Fault::Subscription | Fault::Record | Fault::NoTimeLeft) => return None,
            // It spends no attempt, and how many there were is not known.
            Outcome::Fault(_) if *memory == Memory::Unreliable => return None,
            Outcome::Fault(
                Fault::Row | Fault::TooLate | Fault::Secret | Fault::CutShort | Fault::Disable,
            )
            | Outcome::Delivered { .. }
            | Outcome::Gone
            | Outcome::Retry { .. }
            | Outcome::Blocked(_) => {}
        }
        let record = Record::after(
            known(memory),
            delivery.message_id.as_deref(),
            run,
            &report.outcome,
            step,
            &self.policy,
            now,
        );
        let dead = record::dead_reason(step).map(|reason| (reason, delivery.payload.clone()));
        self.written_down(delivery, memory, record, report.entry(run, step, now), dead)
    }

    /// What is written down of a delivery that nobody wants any more; `None` if nothing is.
    pub(crate) fn change_of_dropped(
        &self,
        delivery: &Delivery,
        run: &Run,
        memory: &Memory,
        unwanted: Unwanted,
    ) -> Option<Change> {
        let now = SystemTime::now();
        let message_id = delivery.message_id.as_deref();
        let entry = Entry {
            n: run.attempt,
            at: now,
            outcome: State::Dropped.name().to_owned(),
            status: None,
            ms: None,
            error: Some(unwanted.to_string()),
            next_at: None,
        };
        let record = Record::dropped(known(memory), message_id, run, now);
        self.written_down(delivery, memory, record, entry, None)
    }

    fn written_down(
        &self,
        delivery: &Delivery,
        memory: &Memory,
        record: Record,
        entry: Entry,
        dead: Option<(DeadReason, Bytes)>,
    ) -> Option<Change> {
        let at_once = match record.state {
            State::Delivered => *memory == Memory::Known(None),
            State::Retrying | State::Dead | State::Gone | State::Dropped => false,
        };
        if self.delivery_log == DeliveryLog::Failures && at_once {
            return None;
        }
        let payload = str::from_utf8(&delivery.payload).unwrap_or_default();
        Some(Change {
            webhook_id: delivery.webhook_id.clone(),
            event_id: delivery.event_id.clone(),
            key: delivery.key.clone(),
            occurred_at: delivery.occurred_at.clone(),
            reference: reference::find(payload, &self.reference_fields),
            before: memory.clone(),
            record,
            entry,
            dead,
        })
    }
}

fn known(memory: &Memory) -> Option<&Record> {
    match memory {
        Memory::Known(record) => record.as_ref(),
        Memory::Broken | Memory::Unreliable => None,
    }
}
