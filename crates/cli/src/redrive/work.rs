//! Redriving, batch by batch: send, mark, delete.

use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;
use tokio::time::Instant;
use webhooks_core::packing::Packed;
use webhooks_shell::records::{self, Item, text};

use super::filter::Identity;
use super::jobs::{Jobs, Sent};
use super::letters::Letters;
use super::plan::Dead;
use super::stop::Stop;
use super::store::{Parts, Said, known};
use super::summary::{Source, Summary};
use super::verdict::{self, Handling, Mark};
use super::{progress_bar, rebuild};
use crate::error::Error;
use crate::tables::Tables;

/// What SQS takes in a batch.
const PER_BATCH: usize = 10;

/// Everything that the work needs.
pub(crate) struct Worker<'a> {
    pub tables: Tables,
    pub jobs: Jobs,
    /// `None` if the dead-letter queue is left alone.
    pub letters: Option<&'a Letters>,
    /// Deliveries per second at most.
    pub rate: u32,
    pub stop: Stop,
}

/// A delivery that is to be sent now.
struct Ready {
    identity: Identity,
    source: Source,
    body: String,
    /// Its record as it was read, if that says dead.
    record: Option<Item>,
    /// Its messages in the dead-letter queue.
    letters: Vec<String>,
}

impl Worker<'_> {
    /// Redrives until all is done, somebody asks to stop, or something fails for good. What came
    /// of it is added to the summary.
    pub(crate) async fn work(&self, dead: Vec<Dead>, mut summary: Summary) -> Summary {
        let bar = progress_bar(dead.len());
        let letters = dead.partition_point(|dead| dead.source() == Source::Letter);
        let per_batch = PER_BATCH.min(usize::try_from(self.rate).unwrap_or(PER_BATCH));
        let mut done = 0;
        let mut dead = dead.into_iter();
        while dead.len() > 0 {
            if self.stop.is_asked_for() {
                summary.interrupted = true;
                break;
            }
            let began = Instant::now();
            // No batch has both: only records are read with their payloads.
            let rest_of_letters = letters.saturating_sub(done);
            let size = if rest_of_letters > 0 {
                per_batch.min(rest_of_letters)
            } else {
                per_batch
            };
            let batch: Vec<Dead> = dead.by_ref().take(size).collect();
            let count = batch.len();
            let sent_before = summary.redriven.total();
            if let Err(error) = self.redrive(batch, &mut summary).await {
                summary.error = Some(error.to_string());
            }
            done += count;
            bar.inc(u64::try_from(count).unwrap_or(0));
            if summary.error.is_some() {
                break;
            }
            let sent = summary.redriven.total() - sent_before;
            if dead.len() > 0 && sent > 0 {
                self.pause_until(began + self.time_for(sent)).await;
            }
        }
        summary.not_reached += dead.len();
        bar.finish_and_clear();
        summary
    }

    fn time_for(&self, deliveries: usize) -> Duration {
        let deliveries = u32::try_from(deliveries).unwrap_or(u32::MAX);
        Duration::from_secs(1) * deliveries / self.rate.max(1)
    }

    async fn pause_until(&self, time: Instant) {
        tokio::select! {
            () = tokio::time::sleep_until(time) => {}
            () = self.stop.asked_for() => {}
        }
    }

    /// Redrives one batch. What was sent before an error is counted.
    async fn redrive(&self, batch: Vec<Dead>, summary: &mut Summary) -> Result<(), Error> {
        let of: Vec<&Identity> = batch.iter().map(|dead| &dead.identity).collect();
        let from_records = batch.iter().any(|dead| dead.source() == Source::Record);
        let parts = if from_records {
            Parts::Payloads
        } else {
            Parts::Records
        };
        let said = match self.tables.read(&of, parts).await {
            Ok(said) => said,
            Err(error) => {
                summary.not_reached += batch.len();
                return Err(error);
            }
        };
        let now = SystemTime::now();
        let mut ready = Vec::new();
        let mut deleted = Vec::new();
        for dead in batch {
            match dead.source() {
                Source::Letter => {
                    prepare_letter(dead, &said, now, &mut ready, &mut deleted, summary)
                }
                Source::Record => prepare_record(dead.identity, &said, now, &mut ready, summary),
            }
        }
        let messages = ready
            .iter_mut()
            .map(|ready| Packed {
                group: ready.identity.subscriber_id.to_string(),
                body: std::mem::take(&mut ready.body),
            })
            .collect();
        let Sent {
            message_ids,
            refusal,
            failure,
        } = self.jobs.send(messages).await;
        summary.refusal = refusal.or(summary.refusal.take());
        let mut marking = JoinSet::new();
        for (ready, message_id) in ready.into_iter().zip(message_ids) {
            let Some(message_id) = message_id else {
                if failure.is_some() {
                    summary.not_reached += 1;
                } else {
                    summary.refused += 1;
                }
                continue;
            };
            summary.redriven.add(ready.source);
            deleted.extend(ready.letters);
            if let Some(record) = ready.record {
                let mark = mark(&record, message_id, now);
                let tables = self.tables.clone();
                marking.spawn(async move {
                    tables
                        .mark(&ready.identity.webhook_id, &record, &mark)
                        .await
                });
            }
        }
        let mut failure = failure;
        while let Some(marked) = marking.join_next().await {
            match marked {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    summary.unmarked += 1;
                    failure = Some(error);
                }
                Err(_) => summary.unmarked += 1,
            }
        }
        // Also what could not be marked: the job is in the queue.
        if let Some(letters) = self.letters {
            let deleted: Vec<&str> = deleted.iter().map(String::as_str).collect();
            match letters.delete(&deleted).await {
                Ok(undeleted) => summary.undeleted += undeleted,
                Err(error) => {
                    summary.undeleted += deleted.len();
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

/// What becomes of a delivery that is in the dead-letter queue.
fn prepare_letter(
    dead: Dead,
    said: &Said,
    now: SystemTime,
    ready: &mut Vec<Ready>,
    deleted: &mut Vec<String>,
    summary: &mut Summary,
) {
    let record = said.record(&dead.identity.webhook_id);
    let known = record.and_then(known);
    let handling = verdict::of_letters(&dead.letters, known.as_ref(), now);
    let ids = dead.letters.iter().map(|letter| letter.message_id.clone());
    let place = match handling {
        Handling::Delete(settled) => {
            deleted.extend(ids);
            return summary.left.nothing_to_do.add(settled);
        }
        Handling::Send(place) => place,
    };
    if let Err(obstacle) = verdict::of_subscription(said.subscription(&dead.identity)) {
        return summary.left.skipped.add(obstacle);
    }
    let letters = ids.collect();
    if let Some(letter) = dead.letters.into_iter().nth(place) {
        ready.push(Ready {
            identity: letter.identity,
            source: Source::Letter,
            body: letter.body,
            record: record.filter(|item| is_dead(item)).cloned(),
            letters,
        });
    }
}

/// What becomes of a delivery of which only the record is there.
fn prepare_record(
    identity: Identity,
    said: &Said,
    now: SystemTime,
    ready: &mut Vec<Ready>,
    summary: &mut Summary,
) {
    // A record that is gone has come to the end of its 30 days.
    let Some(record) = said.record(&identity.webhook_id) else {
        return summary.left.nothing_to_do.add(verdict::Settled::NotDead);
    };
    if let Some(settled) = known(record).and_then(|known| verdict::of_record(&known, now)) {
        return summary.left.nothing_to_do.add(settled);
    }
    let job = verdict::of_subscription(said.subscription(&identity))
        .and_then(|subscription| rebuild::job(&identity, &subscription.url, record));
    match job {
        Ok(body) => ready.push(Ready {
            source: Source::Record,
            body,
            record: Some(record.clone()),
            letters: Vec::new(),
            identity,
        }),
        Err(obstacle) => summary.left.skipped.add(obstacle),
    }
}

fn is_dead(item: &Item) -> bool {
    text(item, "state") == Some("dead")
}

/// Later than the record's last change, whatever this machine's clock says: the record is only
/// marked if that was the last one.
fn mark(record: &Item, message_id: String, now: SystemTime) -> Mark {
    let after = records::time(record, "updatedAt").map(|time| time + Duration::from_millis(1));
    Mark {
        at: after.map_or(now, |after| after.max(now)),
        message_id: Some(message_id),
    }
}
