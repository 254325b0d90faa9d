//! How many calls of AWS the functions make: what `dispatch` makes of an event, and `deliver` of a
//! batch. The bill follows from it, and tests of both functions hold them to it.
//!
//! Counts are expectations, so that a batch may hold a mix: of ten messages of which each fails
//! with one chance in a hundred, one batch in ten has something to hide. Where all messages of a
//! batch are alike they are whole numbers, and exact. Repetitions (of what was throttled or left
//! unprocessed) are not in them.

use crate::packing::{MAX_BYTES, MAX_ENTRIES};

/// SQS and EventBridge bill a payload of more than this as several requests, in bytes.
pub const CHUNK_BYTES: usize = 65_536;

/// `BatchGetItem` takes a hundred keys, and a delivery has two: its subscription and its record.
const DELIVERIES_PER_READ: usize = 50;

/// `BatchWriteItem` takes 25 items.
const RECORDS_PER_WRITE: usize = 25;

/// `GetParameters` takes ten names.
const SECRETS_PER_READ: usize = 10;

/// About what a job has beside the payload, in bytes: ids of 36 characters, a subscriber's name of
/// ten and a url of forty, as in all sizes below.
pub const JOB_ENVELOPE_BYTES: usize = 265;

/// About how long the log line of an event is, in bytes.
pub const EVENT_LINE_BYTES: usize = 180;

/// About how long the log line of an attempt is that is delivered, in bytes.
pub const DELIVERED_LINE_BYTES: usize = 390;

/// About how long the log line of an attempt is that fails, in bytes.
pub const FAILED_LINE_BYTES: usize = 460;

/// About how long the line with a batch's figures is, in bytes.
pub const METRICS_LINE_BYTES: usize = 530;

/// About by how much an attempt makes that line longer, in bytes.
pub const METRICS_BYTES_PER_ATTEMPT: usize = 9;

/// About how large a delivery record is, without what is in its history and without the payload of
/// a dead delivery, in bytes.
pub const RECORD_BYTES: usize = 375;

/// About by how much an attempt makes a record larger, in bytes.
pub const RECORD_BYTES_PER_ATTEMPT: usize = 95;

/// About how large a row of the subscriptions table is, in bytes.
pub const SUBSCRIPTION_BYTES: usize = 130;

/// How often each operation is called.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Calls {
    /// `Query`, of dispatch: one for each page of subscriptions.
    pub query: f64,
    /// `SendMessageBatch`, of dispatch.
    pub send_message_batch: f64,
    /// `ReceiveMessage`, of Lambda's poller.
    pub receive_message: f64,
    /// `BatchGetItem`, of deliver.
    pub batch_get_item: f64,
    /// `GetParameters`, of deliver.
    pub get_parameters: f64,
    /// `BatchWriteItem`, of deliver: records that are new.
    pub batch_write_item: f64,
    /// `UpdateItem`, of deliver: records that have been there before.
    pub update_item: f64,
    /// `ChangeMessageVisibilityBatch`, of deliver.
    pub change_message_visibility_batch: f64,
    /// `PutEvents`, of deliver: notices to operators.
    pub put_events: f64,
    /// `DeleteMessageBatch`, of Lambda's poller.
    pub delete_message_batch: f64,
}

impl Calls {
    /// The calls of dispatch for one event with this many enabled subscriptions, in pages of its
    /// type's rows, whose jobs have this many bytes each.
    #[must_use]
    pub fn of_event(subscribers: usize, pages: usize, job_bytes: usize) -> Self {
        Self {
            query: float(pages),
            send_message_batch: float(sizes(subscribers, job_bytes).len()),
            ..Self::default()
        }
    }

    /// The calls of deliver, and of the poller, for one batch.
    #[must_use]
    pub fn of_batch(batch: &Batch) -> Self {
        let any = |share: f64| at_least_one(share, batch.messages);
        // Retries have a record, so that they are written down one by one.
        let again = batch.again_delivered + batch.again_failed;
        let first = match batch.log {
            Log::All => batch.first_delivered + batch.first_failed,
            Log::Failures => batch.first_failed,
        };
        let failed = batch.first_failed + batch.again_failed;
        Self {
            receive_message: 1.0,
            batch_get_item: float(batch.messages.div_ceil(DELIVERIES_PER_READ)),
            get_parameters: float(batch.unknown_secrets.div_ceil(SECRETS_PER_READ)),
            batch_write_item: any(first) * float(batch.messages.div_ceil(RECORDS_PER_WRITE)),
            update_item: again * float(batch.messages),
            change_message_visibility_batch: any(failed + batch.dead_before),
            put_events: any(batch.died),
            delete_message_batch: any(batch.first_delivered + batch.again_delivered),
            ..Self::default()
        }
    }

    /// So many times these calls.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        self.with(self, |count, _| count * factor)
    }

    /// These calls and those.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, |count, more| count + more)
    }

    /// The operations' names, as AWS has them, and how often each is called.
    #[must_use]
    pub fn by_name(&self) -> [(&'static str, f64); 10] {
        [
            ("Query", self.query),
            ("SendMessageBatch", self.send_message_batch),
            ("ReceiveMessage", self.receive_message),
            ("BatchGetItem", self.batch_get_item),
            ("GetParameters", self.get_parameters),
            ("BatchWriteItem", self.batch_write_item),
            ("UpdateItem", self.update_item),
            (
                "ChangeMessageVisibilityBatch",
                self.change_message_visibility_batch,
            ),
            ("PutEvents", self.put_events),
            ("DeleteMessageBatch", self.delete_message_batch),
        ]
    }

    fn with(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            query: of(self.query, other.query),
            send_message_batch: of(self.send_message_batch, other.send_message_batch),
            receive_message: of(self.receive_message, other.receive_message),
            batch_get_item: of(self.batch_get_item, other.batch_get_item),
            get_parameters: of(self.get_parameters, other.get_parameters),
            batch_write_item: of(self.batch_write_item, other.batch_write_item),
            update_item: of(self.update_item, other.update_item),
            change_message_visibility_batch: of(
                self.change_message_visibility_batch,
                other.change_message_visibility_batch,
            ),
            put_events: of(self.put_events, other.put_events),
            delete_message_batch: of(self.delete_message_batch, other.delete_message_batch),
        }
    }
}

/// Which deliveries get a record: the template's parameter `DeliveryLog`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// All.
    All,
    /// Those that were not delivered at once.
    Failures,
}

/// The messages of one batch, by what becomes of them: shares of all messages, from 0 to 1. The
/// first five are of different messages, and make 1 together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batch {
    /// How many messages there are, at least 1.
    pub messages: usize,
    /// Those that are delivered at their first attempt.
    pub first_delivered: f64,
    /// Those whose first attempt fails.
    pub first_failed: f64,
    /// Those that are delivered at a later attempt.
    pub again_delivered: f64,
    /// Those whose later attempt fails.
    pub again_failed: f64,
    /// Those that have been given up before, and are on their way to the dead-letter queue.
    pub dead_before: f64,
    /// Those of the failed ones that are given up now. Nobody is told if the stack has no bus.
    pub died: f64,
    /// How many subscribers there are among them whose secrets are not in the function's cache.
    pub unknown_secrets: usize,
    /// Which of them get a record.
    pub log: Log,
}

/// The chance that a batch has at least one of what makes up this share of all messages.
#[must_use]
pub fn at_least_one(share: f64, messages: usize) -> f64 {
    let exponent = i32::try_from(messages).unwrap_or(i32::MAX);
    1.0 - (1.0 - share).powi(exponent)
}

/// As how many requests SQS bills the calls that carry these messages to the queue, or from it. An
/// SQS call holds ten messages and 1 MiB, and each 64 KB of it counts.
#[must_use]
pub fn billed_requests(messages: usize, bytes: usize) -> usize {
    let calls = sizes(messages, bytes).into_iter();
    calls.map(|size| chunks(size * bytes)).sum()
}

/// As how many requests a payload of this size is billed, in chunks of [`CHUNK_BYTES`].
#[must_use]
pub fn chunks(bytes: usize) -> usize {
    bytes.div_ceil(CHUNK_BYTES).max(1)
}

/// How many messages each call holds, the way [`Packer`](crate::packing::Packer) packs messages of
/// one size. One that is larger than a call may be is left out there; here it is a call of its own.
fn sizes(messages: usize, bytes: usize) -> Vec<usize> {
    let full = (MAX_BYTES / bytes.max(1)).clamp(1, MAX_ENTRIES);
    let mut sizes = vec![full; messages / full];
    if !messages.is_multiple_of(full) {
        sizes.push(messages % full);
    }
    sizes
}

fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packing::{Packed, Packer};

    const ALL_WELL: Batch = Batch {
        messages: 10,
        first_delivered: 1.0,
        first_failed: 0.0,
        again_delivered: 0.0,
        again_failed: 0.0,
        dead_before: 0.0,
        died: 0.0,
        unknown_secrets: 0,
        log: Log::All,
    };

    #[test]
    fn ten_that_are_delivered_are_read_written_and_deleted_at_once() {
        assert_eq!(
            Calls::of_batch(&ALL_WELL),
            Calls {
                receive_message: 1.0,
                batch_get_item: 1.0,
                batch_write_item: 1.0,
                delete_message_batch: 1.0,
                ..Calls::default()
            }
        );
        let unrecorded = Batch {
            log: Log::Failures,
            ..ALL_WELL
        };
        assert_eq!(Calls::of_batch(&unrecorded).batch_write_item, 0.0);
    }

    #[test]
    fn ten_retries_that_fail_are_written_down_one_by_one_and_hidden_at_once() {
        let failing = Batch {
            first_delivered: 0.0,
            again_failed: 1.0,
            ..ALL_WELL
        };
        assert_eq!(
            Calls::of_batch(&failing),
            Calls {
                receive_message: 1.0,
                batch_get_item: 1.0,
                update_item: 10.0,
                change_message_visibility_batch: 1.0,
                ..Calls::default()
            }
        );
    }

    #[test]
    fn of_ten_with_one_failure_in_a_hundred_every_tenth_batch_hides_something() {
        // 1 - 0.99^10
        let chance = 0.095_617_924_991_195_9;
        assert!((at_least_one(0.01, 10) - chance).abs() < 1e-12);
        let mixed = Batch {
            first_delivered: 0.99,
            first_failed: 0.01,
            ..ALL_WELL
        };
        let calls = Calls::of_batch(&mixed);
        assert!((calls.change_message_visibility_batch - chance).abs() < 1e-12);
        assert_eq!(calls.batch_write_item, 1.0);
    }

    #[test]
    fn calls_are_as_large_as_the_packer_makes_them() {
        for (messages, bytes) in [(1, 1), (10, 2500), (25, 700), (5, 300_000), (4, MAX_BYTES)] {
            let mut packer = Packer::default();
            let mut packed = Vec::new();
            for _ in 0..messages {
                let message = Packed {
                    group: String::new(),
                    body: "x".repeat(bytes),
                };
                packed.extend(packer.push(message).unwrap().map(|batch| batch.len()));
            }
            packed.extend(packer.finish().map(|batch| batch.len()));
            assert_eq!(sizes(messages, bytes), packed, "{messages} of {bytes}");
        }
        assert_eq!(sizes(0, 100), [] as [usize; 0]);
    }

    #[test]
    fn each_64_kb_of_a_call_is_billed() {
        assert_eq!(billed_requests(10, 2500), 1);
        assert_eq!(billed_requests(10, 6553), 1);
        assert_eq!(billed_requests(10, 6554), 2);
        // Four of 250 KB fit into 1 MiB: 16 chunks, 16, and 8 for the last two.
        assert_eq!(billed_requests(10, 250 * 1024), 40);
        assert_eq!(chunks(0), 1);
        assert_eq!(chunks(65_536), 1);
        assert_eq!(chunks(65_537), 2);
    }

    #[test]
    fn an_event_takes_a_query_for_each_page_and_a_send_for_each_ten() {
        for (subscribers, sends) in [(0, 0.0), (1, 1.0), (3, 1.0), (10, 1.0), (25, 3.0)] {
            let calls = Calls::of_event(subscribers, 1, 700);
            assert_eq!((calls.query, calls.send_message_batch), (1.0, sends));
        }
        assert_eq!(Calls::of_event(10, 1, 300_000).send_message_batch, 4.0);
    }
}
