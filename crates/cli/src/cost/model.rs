//! The model: how much of what AWS bills a volume of deliveries takes.
//!
//! Each attempt fails with the same chance, whatever became of the others; a month has 30 days. The
//! calls are those of [`webhooks_core::calls`], to which tests hold both functions.

use serde::Serialize;
use webhooks_core::calls::{
    self, Batch, Calls, DELIVERED_LINE_BYTES, EVENT_LINE_BYTES, FAILED_LINE_BYTES,
    JOB_ENVELOPE_BYTES, METRICS_BYTES_PER_ATTEMPT, METRICS_LINE_BYTES, RECORD_BYTES,
    RECORD_BYTES_PER_ATTEMPT, SUBSCRIPTION_BYTES, at_least_one, billed_requests, chunks,
};

use super::prices::{self, Price};

/// What the functions take beside the partner, in seconds: dispatch for a page of subscriptions and
/// for eight calls of SQS, which it makes at once, and deliver for what it reads and writes.
const PAGE_SECONDS: f64 = 0.010;
const EIGHT_SENDS_SECONDS: f64 = 0.010;
const BATCH_SECONDS: f64 = 0.020;
const SENDS_AT_ONCE: usize = 8;

/// What an event has beside the payload, in bytes.
const EVENT_ENVELOPE_BYTES: usize = 100;

/// What an attempt sends beside the payload, in bytes: headers, frames, acknowledgements, and its
/// share of connecting.
const WIRE_BYTES: usize = 1000;

/// DynamoDB adds this to each item that it keeps, in bytes.
const ITEM_OVERHEAD_BYTES: usize = 100;

/// DynamoDB reads in these units, and writes in those, in bytes.
const READ_BYTES: usize = 4096;
const WRITE_BYTES: usize = 1024;
/// A page of a query, in bytes.
const PAGE_BYTES: usize = 1_048_576;

/// The longest payload that is kept with a record, in bytes. It is compressed, which is not counted
/// on here.
const BODY_MAX: usize = 336 * 1024;

/// An asynchronous invocation has one request for so many bytes, and another for each chunk beyond.
const INVOCATION_BYTES: usize = 262_144;

/// Lambda begins to poll a queue with so many at once.
const POLLERS: f64 = 5.0;

const MONTH_SECONDS: f64 = 30.0 * 86_400.0;

/// How long a secret is used before SSM is asked again, in the mean: 5 minutes less a tenth.
const SECRET_SECONDS: f64 = 270.0;

/// What is asked about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Volume {
    /// Events in a month.
    pub events: f64,
    /// Subscribers of each, at least 1.
    pub fanout: usize,
    /// The payload of a webhook, in bytes.
    pub payload: usize,
    /// With which chance an attempt fails, from 0 to 1.
    pub failure_rate: f64,
    /// Attempts of a delivery that always fails, as the schedule has them.
    pub attempts: u32,
    /// Receives of a dead delivery without an attempt, until SQS lets it go.
    pub let_go: u32,
    /// Messages in a batch of deliver, from 1 to 10.
    pub batch: usize,
    /// How long a partner takes to accept, in seconds.
    pub accept_seconds: f64,
    /// How long one takes to fail, in seconds.
    pub fail_seconds: f64,
    /// Memory of each function, in GB.
    pub memory_gb: f64,
    /// Which deliveries get a record.
    pub log: calls::Log,
}

/// How much of something is taken, and what it costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Line {
    /// Who asks for it.
    pub service: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// How much of it.
    pub quantity: f64,
    /// Of what.
    pub unit: &'static str,
    /// What it costs, in US dollars.
    pub usd: f64,
}

/// What comes of a volume.
#[derive(Debug, Clone, PartialEq)]
pub struct Bill {
    /// How many deliveries there are.
    pub deliveries: f64,
    /// Attempts of each, in the mean.
    pub attempts: f64,
    /// Which share of them dies.
    pub dead: f64,
    /// How often SQS hands out each: for its attempts, and for being let go when it is dead.
    pub receives: f64,
    /// The calls of each, in the mean.
    pub calls: Calls,
    /// How many environments of deliver are busy, in the mean.
    pub environments: f64,
    /// How often a second SSM is asked, in the mean.
    pub parameters_per_second: f64,
    /// What costs something.
    pub lines: Vec<Line>,
}

impl Bill {
    /// The bill for a volume.
    #[must_use]
    pub fn of(volume: &Volume) -> Self {
        let p = volume.failure_rate;
        let tries = (0..volume.attempts).map(|before| p.powi(exponent(before)));
        let attempts: f64 = tries.sum();
        let dead = p.powi(exponent(volume.attempts));
        let receives = attempts + dead * f64::from(volume.let_go);
        let mut bill = Self {
            deliveries: volume.events * float(volume.fanout),
            attempts,
            dead,
            receives,
            calls: Calls::default(),
            environments: 0.0,
            parameters_per_second: 0.0,
            lines: Vec::new(),
        };
        let sent = bill.fan_out(volume);
        let received = bill.deliver(volume);
        // Every job has a group, its subscriber.
        bill.add(
            prices::FAIR_QUEUE,
            "fair queues, surcharge; basis not confirmed",
            sent + received,
        );
        bill.remember(volume);
        bill.tell(volume);
        bill
    }

    /// The sum of all lines, in US dollars.
    #[must_use]
    pub fn usd(&self) -> f64 {
        self.lines.iter().map(|line| line.usd).sum()
    }

    /// Deliveries in a second, in the mean.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.deliveries / MONTH_SECONDS
    }

    /// Below how many deliveries in a second there is always a poller free, if this is a bill for
    /// batches of one: there is no batching window, so that nothing waits for others to come.
    #[must_use]
    pub fn filling_from(&self) -> f64 {
        self.per_second() * POLLERS / self.environments
    }

    fn add(&mut self, price: Price, what: &'static str, quantity: f64) {
        self.lines.push(Line {
            service: price.service,
            what,
            quantity,
            unit: price.unit,
            usd: price.of(quantity),
        });
    }

    /// What happens once for each event. Gives how many requests carry jobs to the queue.
    fn fan_out(&mut self, volume: &Volume) -> f64 {
        let Volume { events, fanout, .. } = *volume;
        let event_bytes = volume.payload + EVENT_ENVELOPE_BYTES;
        let job_bytes = volume.payload + JOB_ENVELOPE_BYTES;
        let rows_bytes = fanout * SUBSCRIPTION_BYTES;
        let pages = rows_bytes.div_ceil(PAGE_BYTES);
        let calls = Calls::of_event(fanout, pages, job_bytes);
        let rounds = (calls.send_message_batch / float(SENDS_AT_ONCE)).ceil();
        let seconds = float(pages) * PAGE_SECONDS + rounds * EIGHT_SENDS_SECONDS;
        let more = chunks(event_bytes.saturating_sub(INVOCATION_BYTES).max(1));
        let invocations = 1 + if event_bytes > INVOCATION_BYTES {
            more
        } else {
            0
        };
        self.add(
            prices::EVENT,
            "published events",
            events * float(chunks(event_bytes)),
        );
        self.add(
            prices::INVOCATION,
            "dispatch, invocations",
            events * float(invocations),
        );
        self.add(
            prices::GB_SECOND,
            "dispatch, time",
            events * seconds * volume.memory_gb,
        );
        self.add(
            prices::READ,
            "dispatch, subscriptions",
            events * float(rows_bytes.div_ceil(READ_BYTES)),
        );
        let sent = events * float(billed_requests(fanout, job_bytes));
        self.add(prices::SQS_REQUEST, "dispatch, jobs sent", sent);
        self.calls = self.calls.plus(calls.times(1.0 / float(fanout)));
        sent
    }

    /// What a batch of ten with this volume's mix of messages looks like.
    fn batch(&self, volume: &Volume) -> Batch {
        let p = volume.failure_rate;
        let first = 1.0 / self.receives;
        let again = (self.attempts - 1.0) / self.receives;
        Batch {
            messages: volume.batch,
            first_delivered: (1.0 - p) * first,
            first_failed: p * first,
            again_delivered: (1.0 - p) * again,
            again_failed: p * again,
            dead_before: self.dead * f64::from(volume.let_go) / self.receives,
            died: self.dead / self.receives,
            unknown_secrets: 0,
            log: volume.log,
        }
    }

    /// Batches in all.
    fn batches(&self, volume: &Volume) -> f64 {
        self.deliveries * self.receives / float(volume.batch)
    }

    /// What happens for each batch. Gives how many requests carry jobs from the queue.
    fn deliver(&mut self, volume: &Volume) -> f64 {
        let batch = self.batch(volume);
        let batches = self.batches(volume);
        let mut calls = Calls::of_batch(&batch);
        let any = |share: f64| at_least_one(share, volume.batch);
        let failing = any(batch.first_failed + batch.again_failed);
        let attempting = any(1.0 - batch.dead_before);
        let (accept, fail) = (volume.accept_seconds, volume.fail_seconds);
        // A batch lasts as long as its slowest attempt.
        let waiting = failing * fail.max(accept) + (attempting - failing) * accept;
        let seconds = BATCH_SECONDS + waiting;
        self.environments = batches * seconds / MONTH_SECONDS;
        let environments = self.environments.ceil().max(1.0);
        let attempts = self.deliveries * self.attempts;
        let secrets =
            (environments * float(volume.fanout) * MONTH_SECONDS / SECRET_SECONDS).min(attempts);
        calls.get_parameters = (secrets / batches).min(1.0);
        self.parameters_per_second = calls.get_parameters * batches / MONTH_SECONDS;
        // Of a dead delivery SQS hands out the whole message too. A receive holds what a send does.
        let job_bytes = volume.payload + JOB_ENVELOPE_BYTES;
        calls.receive_message = Calls::of_event(volume.batch, 1, job_bytes).send_message_batch;
        let received = billed_requests(volume.batch, job_bytes);
        let sqs =
            float(received) + calls.change_message_visibility_batch + calls.delete_message_batch;
        self.add(
            prices::SQS_REQUEST,
            "deliver, jobs received, hidden, deleted",
            batches * sqs,
        );
        self.add(prices::INVOCATION, "deliver, invocations", batches);
        self.add(
            prices::GB_SECOND,
            "deliver, time",
            batches * seconds * volume.memory_gb,
        );
        self.add(prices::KMS_REQUEST, "deliver, secrets decrypted", secrets);
        self.add(
            prices::SENT,
            "webhooks",
            attempts * float(volume.payload + WIRE_BYTES),
        );
        self.calls = self
            .calls
            .plus(calls.times(self.receives / float(volume.batch)));
        batches * float(received)
    }

    /// What is read, written and kept of the records.
    fn remember(&mut self, volume: &Volume) {
        let p = volume.failure_rate;
        let body = volume.payload.min(BODY_MAX);
        let record = |attempts: u32| {
            RECORD_BYTES + RECORD_BYTES_PER_ATTEMPT * usize::try_from(attempts).unwrap_or(0)
        };
        let reads = |bytes: usize| float(bytes.div_ceil(READ_BYTES).max(1));
        let writes = |bytes: usize| float(bytes.div_ceil(WRITE_BYTES));
        let (mut read, mut written, mut kept) = (0.0, 0.0, 0.0);
        for attempt in 1..=volume.attempts {
            let tried = p.powi(exponent(attempt - 1));
            let is_last = attempt == volume.attempts;
            // The subscription, and the record as it was.
            read += tried * (1.0 + reads(record(attempt - 1)));
            let failed = tried * p;
            let recorded = match (volume.log, attempt) {
                (calls::Log::Failures, 1) => failed,
                (calls::Log::All | calls::Log::Failures, _) => tried,
            };
            // The index is sorted by the time of the change: a new entry and the old one's end.
            let entries = if attempt == 1 { 1.0 } else { 2.0 };
            let bytes = record(attempt);
            written += recorded * (writes(bytes) + entries * writes(bytes));
            let ended = recorded - if is_last { 0.0 } else { failed };
            kept += ended * float(2 * (bytes + ITEM_OVERHEAD_BYTES));
            if is_last {
                let dead = failed;
                written += dead * (writes(bytes + body) - writes(bytes));
                kept += dead * float(body);
                let each = 1.0 + reads(bytes + body);
                read += dead * f64::from(volume.let_go) * each;
            }
        }
        self.add(
            prices::READ,
            "deliver, subscriptions and records",
            self.deliveries * read,
        );
        self.add(
            prices::WRITE,
            "deliver, records and their index",
            self.deliveries * written,
        );
        self.add(prices::KEPT, "records, for 30 days", self.deliveries * kept);
    }

    /// What is logged, and told to operators.
    fn tell(&mut self, volume: &Volume) {
        let failed = self.attempts * volume.failure_rate;
        let delivered = self.attempts - failed;
        let batch = self.batch(volume);
        let with_figures =
            self.batches(volume) * at_least_one(1.0 - batch.dead_before, batch.messages);
        let bytes = volume.events * float(EVENT_LINE_BYTES)
            + self.deliveries
                * (delivered * float(DELIVERED_LINE_BYTES)
                    + failed * float(FAILED_LINE_BYTES)
                    + self.attempts * float(METRICS_BYTES_PER_ATTEMPT))
            + with_figures * float(METRICS_LINE_BYTES);
        self.add(prices::LOGGED, "both logs", bytes);
        self.add(
            prices::EVENT,
            "notices of dead deliveries",
            self.deliveries * self.dead,
        );
    }
}

/// What a stack costs each month, whatever it does.
#[must_use]
pub fn fixed() -> Vec<Line> {
    let line = |price: Price, what, quantity| Line {
        service: price.service,
        what,
        quantity,
        unit: price.unit,
        usd: price.of(quantity),
    };
    vec![
        line(
            prices::METRIC,
            "figures of deliver, and errors in both logs",
            METRICS,
        ),
        line(
            prices::ALARM_METRIC,
            "11 alarms, of which one watches two",
            ALARM_METRICS,
        ),
        line(
            prices::DASHBOARD,
            "the dashboard, beyond an account's first three",
            1.0,
        ),
        line(
            prices::SQS_REQUEST,
            "asking an empty queue (5 pollers, 20 s each)",
            POLLS,
        ),
    ]
}

/// The metrics that the functions and the template make.
pub(super) const METRICS: f64 = 13.0;
/// The metrics that the template's alarms watch.
pub(super) const ALARM_METRICS: f64 = 12.0;
/// Long polls of an event source mapping that finds nothing, in 30 days.
const POLLS: f64 = POLLERS * MONTH_SECONDS / 20.0;

fn exponent(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn float(count: usize) -> f64 {
    count as f64
}
