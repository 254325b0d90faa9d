//! What a dead delivery is owed: to be sent again, or nothing more.
//!
//! A redrive can end between any two of its steps, and two can run at the same time, so what is
//! found says little by itself: a dead letter may be the copy of a delivery that was redriven, or
//! even delivered, since. The delivery's record tells, as it is just before the letter's turn.

use std::fmt::{self, Display, Formatter};
use std::time::SystemTime;

use serde::Serialize;
use webhooks_core::record::{Record, State};
use webhooks_core::subscription::{RowError, Subscription};
use webhooks_core::turn::OVERDUE_AFTER;

use super::counts::Kind;
use super::letters::Received;

/// A delivery's record with the mark of its last redrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub record: Record,
    pub mark: Option<Mark>,
}

/// What a redrive leaves in the record of a dead delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// When it was sent again, always later than the record's last change before.
    pub at: SystemTime,
    /// The SQS message that it was sent as.
    pub message_id: Option<String>,
}

/// Why nothing needs to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Settled {
    /// The receiver has it.
    Delivered,
    /// Another message of it is being tried.
    UnderWay,
    /// It was redriven just now, and not tried yet.
    OnItsWay,
    /// It ended otherwise since it was found, see [`State::Gone`] and [`State::Dropped`].
    NotDead,
}

/// Why something can not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Obstacle {
    /// There is no subscription any more.
    NotSubscribed,
    /// The subscription is disabled.
    Disabled,
    /// The row is not a subscription.
    BrokenSubscription,
    /// The record is without its payload: it was too large. Only the dead-letter queue has it.
    BodyOmitted,
    /// The record has no payload that can be read.
    BodyUnreadable,
    /// The job is larger than SQS takes, with the url of today.
    TooLarge,
}

impl Kind for Settled {
    const ALL: &'static [Self] = &[
        Self::Delivered,
        Self::UnderWay,
        Self::OnItsWay,
        Self::NotDead,
    ];
}

impl Display for Settled {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delivered => "Delivered meanwhile, nothing to do",
            Self::UnderWay => "Being retried already, nothing to do",
            Self::OnItsWay => "Just redriven, nothing to do",
            Self::NotDead => "Not dead any more, nothing to do",
        })
    }
}

impl Kind for Obstacle {
    const ALL: &'static [Self] = &[
        Self::NotSubscribed,
        Self::Disabled,
        Self::BrokenSubscription,
        Self::BodyOmitted,
        Self::BodyUnreadable,
        Self::TooLarge,
    ];
}

impl Display for Obstacle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Not redriven, ")?;
        f.write_str(match self {
            Self::NotSubscribed => "nobody is subscribed any more",
            Self::Disabled => "the subscription is disabled",
            Self::BrokenSubscription => "the row in the subscriptions table is broken",
            Self::BodyOmitted => {
                "only the dead-letter queue had the payload: it was too large for the record"
            }
            Self::BodyUnreadable => "the record has no payload that can be read",
            Self::TooLarge => "the job would be larger than SQS takes",
        })
    }
}

/// What becomes of the dead letters of one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handling {
    /// This one is sent again, and all are deleted.
    Send(usize),
    /// All are deleted.
    Delete(Settled),
}

/// Decides about the dead letters of one delivery.
pub(crate) fn of_letters(letters: &[Received], known: Option<&Known>, now: SystemTime) -> Handling {
    let mut settled = None;
    let mut newest: Option<(usize, &Received)> = None;
    for (index, letter) in letters.iter().enumerate() {
        match known.and_then(|known| settles(known, letter, now)) {
            Some(reason) => settled = Some(reason),
            None if newest.is_none_or(|(_, newest)| newest.sent_at < letter.sent_at) => {
                newest = Some((index, letter));
            }
            None => {}
        }
    }
    match (newest, settled) {
        (None, Some(reason)) => Handling::Delete(reason),
        (Some((index, _)), _) => Handling::Send(index),
        (None, None) => Handling::Send(0),
    }
}

/// Why a dead letter is only the copy of a delivery that goes on, or went on, without it.
fn settles(known: &Known, letter: &Received, now: SystemTime) -> Option<Settled> {
    match known.record.state {
        State::Delivered => Some(Settled::Delivered),
        State::Retrying => {
            let another = known.record.message_id.as_deref() != Some(letter.message_id.as_str());
            (another && !is_overdue(&known.record, now)).then_some(Settled::UnderWay)
        }
        State::Dead => known
            .on_its_way(now)
            .filter(|mark| mark.message_id.as_deref() != Some(letter.message_id.as_str()))
            .map(|_| Settled::OnItsWay),
        // The receiver does not have it. Whoever is subscribed now is owed it.
        State::Gone | State::Dropped => None,
    }
}

/// Why a delivery of which only the record is there needs nothing; `None` if it is to be sent.
pub(crate) fn of_record(known: &Known, now: SystemTime) -> Option<Settled> {
    match known.record.state {
        State::Delivered => Some(Settled::Delivered),
        State::Retrying => Some(Settled::UnderWay),
        State::Dead => known.on_its_way(now).map(|_| Settled::OnItsWay),
        State::Gone | State::Dropped => Some(Settled::NotDead),
    }
}

/// Whether there is somebody to send to. A job without a subscription would be dropped by
/// deliver, and with it the delivery's last copy.
pub(crate) fn of_subscription(
    subscription: Option<&Result<Subscription, RowError>>,
) -> Result<&Subscription, Obstacle> {
    match subscription {
        None => Err(Obstacle::NotSubscribed),
        Some(Err(_)) => Err(Obstacle::BrokenSubscription),
        Some(Ok(subscription)) if subscription.enabled => Ok(subscription),
        Some(Ok(_)) => Err(Obstacle::Disabled),
    }
}

impl Known {
    /// The mark of a redrive whose message has not been tried yet.
    fn on_its_way(&self, now: SystemTime) -> Option<&Mark> {
        self.mark.as_ref().filter(|mark| {
            let age = now.duration_since(mark.at);
            // Clocks differ: a mark may also lie ahead.
            let distance = age.unwrap_or_else(|ahead| ahead.duration());
            // A later change of the record, or its message being the redriven one, means that
            // the new run has ended as well.
            mark.at > self.record.updated_at
                && (mark.message_id.is_none() || mark.message_id != self.record.message_id)
                // After that the mark says nothing any more: the message may have been purged.
                && distance < OVERDUE_AFTER
        })
    }
}

/// Whether the message that is retried was not there when it was due.
fn is_overdue(record: &Record, now: SystemTime) -> bool {
    record.next_at.unwrap_or(record.updated_at) + OVERDUE_AFTER < now
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use webhooks_core::header::CustomHeaders;
    use webhooks_core::identity::SubscriberId;

    use super::super::filter::Identity;
    use super::*;

    /// 2026-11-30T12:00:00Z
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_040_000)
    }

    fn ago(minutes: u64) -> SystemTime {
        now() - Duration::from_mins(minutes)
    }

    /// Of a run of the message `m1` that was last heard of an hour ago.
    fn known(state: State) -> Known {
        Known {
            record: Record {
                state,
                message_id: Some("m1".into()),
                attempts: 8,
                refusals: 0,
                started_at: ago(600),
                created_at: ago(600),
                updated_at: ago(60),
                next_at: (state == State::Retrying).then(|| now() + Duration::from_mins(5)),
            },
            mark: None,
        }
    }

    /// Redriven as `m2`.
    fn marked(minutes_ago: u64) -> Known {
        Known {
            mark: Some(Mark {
                at: ago(minutes_ago),
                message_id: Some("m2".into()),
            }),
            ..known(State::Dead)
        }
    }

    fn sent(message_id: &str, minutes_ago: Option<u64>) -> Received {
        Received {
            message_id: message_id.into(),
            sent_at: minutes_ago.map(ago),
            identity: Identity {
                webhook_id: "msg_e1_kasse-nord".into(),
                event_id: "e1".into(),
                event_type: "OrderPaid".into(),
                subscriber_id: SubscriberId::parse("kasse-nord").unwrap(),
                occurred_at: "2026-11-30T01:00:00Z".into(),
            },
            body: String::new(),
        }
    }

    fn letter(message_id: &str) -> Received {
        sent(message_id, Some(600))
    }

    fn handling(known: &Known, message_id: &str) -> Handling {
        of_letters(&[letter(message_id)], Some(known), now())
    }

    #[test]
    fn a_dead_delivery_is_sent() {
        let dead = known(State::Dead);
        assert_eq!(handling(&dead, "m1"), Handling::Send(0));
        // Moved there by the console, and dead before deliver could write it down.
        assert_eq!(handling(&dead, "m9"), Handling::Send(0));
        assert_eq!(of_record(&dead, now()), None);
    }

    #[test]
    fn without_a_record_a_dead_letter_is_dead() {
        assert_eq!(of_letters(&[letter("m1")], None, now()), Handling::Send(0));
    }

    #[test]
    fn a_copy_of_what_was_delivered_is_deleted() {
        let delivered = known(State::Delivered);
        for message_id in ["m1", "m2"] {
            assert_eq!(
                handling(&delivered, message_id),
                Handling::Delete(Settled::Delivered)
            );
        }
        assert_eq!(of_record(&delivered, now()), Some(Settled::Delivered));
    }

    #[test]
    fn a_copy_of_what_is_retried_as_another_message_is_deleted() {
        let retrying = known(State::Retrying);
        assert_eq!(
            handling(&retrying, "m0"),
            Handling::Delete(Settled::UnderWay)
        );
        assert_eq!(of_record(&retrying, now()), Some(Settled::UnderWay));
    }

    #[test]
    fn the_message_that_was_retried_itself_is_dead_if_it_lies_there() {
        assert_eq!(handling(&known(State::Retrying), "m1"), Handling::Send(0));
    }

    #[test]
    fn a_message_that_went_missing_does_not_hold_the_others_back() {
        let next_at = |next_at| Known {
            record: Record {
                next_at,
                ..known(State::Retrying).record
            },
            mark: None,
        };
        let at_the_limit = next_at(Some(now() - OVERDUE_AFTER));
        assert_eq!(
            handling(&at_the_limit, "m0"),
            Handling::Delete(Settled::UnderWay)
        );
        let overdue = next_at(Some(now() - OVERDUE_AFTER - Duration::from_millis(1)));
        assert_eq!(handling(&overdue, "m0"), Handling::Send(0));
        // Without a plan, the last change counts.
        assert_eq!(handling(&next_at(None), "m0"), Handling::Send(0));
    }

    #[test]
    fn what_was_just_redriven_is_not_redriven_again() {
        for minutes in [0, 14] {
            let marked = marked(minutes);
            let on_its_way = Settled::OnItsWay;
            assert_eq!(handling(&marked, "m1"), Handling::Delete(on_its_way));
            assert_eq!(of_record(&marked, now()), Some(on_its_way));
        }
        let long_ago = marked(15);
        assert_eq!(handling(&long_ago, "m1"), Handling::Send(0));
        assert_eq!(of_record(&long_ago, now()), None);
    }

    #[test]
    fn the_redriven_message_itself_is_never_taken_for_its_own_copy() {
        assert_eq!(handling(&marked(1), "m2"), Handling::Send(0));
    }

    #[test]
    fn a_redriven_delivery_that_died_again_is_dead() {
        // By the record's last change.
        let mut again = marked(61);
        assert_eq!(of_record(&again, now()), None);
        // By its message, where this machine's clock is ahead of deliver's.
        again = marked(1);
        again.record.message_id = Some("m2".into());
        assert_eq!(of_record(&again, now()), None);
        assert_eq!(handling(&again, "m2"), Handling::Send(0));
        assert_eq!(handling(&again, "m1"), Handling::Send(0));
    }

    #[test]
    fn a_mark_from_a_clock_that_is_ahead_counts_as_long_as_one_that_is_behind() {
        let ahead = |minutes| Known {
            mark: Some(Mark {
                at: now() + Duration::from_mins(minutes),
                message_id: Some("m2".into()),
            }),
            ..known(State::Dead)
        };
        assert_eq!(of_record(&ahead(14), now()), Some(Settled::OnItsWay));
        assert_eq!(of_record(&ahead(15), now()), None);
    }

    #[test]
    fn who_is_subscribed_again_gets_the_letters_and_not_the_records() {
        for state in [State::Gone, State::Dropped] {
            assert_eq!(handling(&known(state), "m1"), Handling::Send(0));
            assert_eq!(of_record(&known(state), now()), Some(Settled::NotDead));
        }
    }

    #[test]
    fn of_several_letters_the_newest_is_sent_and_only_one() {
        let dead = known(State::Dead);
        for (letters, newest) in [
            ([sent("m1", Some(600)), sent("m2", Some(90))], 1),
            ([sent("m2", Some(90)), sent("m1", Some(600))], 0),
            ([sent("m1", None), sent("m2", Some(90))], 1),
            ([sent("m1", None), sent("m2", None)], 0),
        ] {
            let handling = of_letters(&letters, Some(&dead), now());
            assert_eq!(handling, Handling::Send(newest), "{letters:?}");
        }
        // The one that is retried is itself in the queue, so nothing is under way.
        let letters = [letter("m0"), letter("m1")];
        let handling = of_letters(&letters, Some(&known(State::Retrying)), now());
        assert_eq!(handling, Handling::Send(1));
    }

    #[test]
    fn nothing_is_sent_to_whom_deliver_would_drop_it() {
        let subscription = |enabled| {
            Ok(Subscription {
                subscriber_id: SubscriberId::parse("kasse-nord").unwrap(),
                url: "https://example.com/".into(),
                enabled,
                headers: CustomHeaders::default(),
            })
        };
        assert!(of_subscription(Some(&subscription(true))).is_ok());
        for (row, obstacle) in [
            (None, Obstacle::NotSubscribed),
            (Some(subscription(false)), Obstacle::Disabled),
            (Some(Err(RowError::EmptyUrl)), Obstacle::BrokenSubscription),
        ] {
            assert_eq!(of_subscription(row.as_ref()), Err(obstacle));
        }
    }
}
