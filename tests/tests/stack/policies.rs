//! The four retry policies as they are published: for each kind of receiver the attempts, the time
//! between them and the end. All times are shorter by a factor, so that hours pass in seconds; a
//! second is the least that remains of them. Each policy has a stack, which other tests share.

use std::sync::Arc;
use std::time::Duration;

use e2e::receiver::{Answer, Received};
use e2e::stack::{Partner, Stack};
use serde_json::Value;

use crate::{assert_attempts_of_one_delivery, body, detail, millis, told};

/// What a receiver asks for that is overloaded.
const RETRY_AFTER: u32 = 2;
/// What may pass between a planned attempt and its POST, beside the attempt itself: the local AWS
/// looks once a second for what is due, and all tests share the machine.
const LATENESS: Duration = Duration::from_secs(10);

/// A policy's published table.
pub(crate) struct Policy {
    name: &'static str,
    /// Factor on all of its times.
    scale: f64,
    /// Seconds from one attempt to the next before jitter; the last one stays.
    delays: &'static [f64],
    /// Between which parts of a delay chance decides.
    jitter: (f64, f64),
    /// The most attempts.
    attempts: usize,
    /// Seconds after which there is none any more.
    horizon: Option<f64>,
    /// Seconds for one attempt.
    timeout: u32,
    /// What an answer leads to that never changes.
    statuses: &'static [(u16, End)],
}

/// How a delivery ends.
#[derive(Clone, Copy)]
enum End {
    /// After the first answer that says so, the subscription is switched off.
    Gone,
    /// After this many answers with a status that will not change.
    Status(usize),
    /// As for a receiver that is broken.
    UsedUp,
}

pub(crate) const STANDARD: Policy = Policy {
    name: "standard",
    scale: 0.0005,
    delays: &[60., 180., 540., 1620., 4860., 14580., 21600.],
    jitter: (0.5, 1.0),
    attempts: 8,
    horizon: None,
    timeout: 10,
    statuses: &[(410, End::Gone), (301, End::UsedUp), (400, End::UsedUp)],
};

pub(crate) const BOUNDED: Policy = Policy {
    name: "bounded",
    scale: 0.005,
    delays: &[30., 60., 120., 240., 480., 960., 1920.],
    jitter: (0.5, 1.0),
    attempts: 8,
    horizon: None,
    timeout: 10,
    statuses: &[
        (410, End::Gone),
        (400, End::Status(1)),
        (301, End::Status(1)),
        (408, End::UsedUp),
    ],
};

pub(crate) const CONTRACT_72H: Policy = Policy {
    name: "contract-72h",
    scale: 0.0003,
    delays: &[30., 300., 1800., 7200., 21600., 43200.],
    jitter: (0.95, 1.05),
    attempts: 11,
    horizon: Some(259_200.),
    timeout: 8,
    statuses: &[
        (410, End::Gone),
        (400, End::Status(3)),
        (401, End::Status(3)),
        (403, End::Status(3)),
        (404, End::Status(3)),
        (422, End::UsedUp),
    ],
};

const PAYMENTS_24H: Policy = Policy {
    name: "payments-24h",
    scale: 0.0008,
    delays: &[10., 20., 40., 80., 160., 320., 640., 1280., 2560., 3600.],
    jitter: (0.0, 1.0),
    attempts: 100,
    horizon: Some(86_400.),
    timeout: 10,
    statuses: &[
        (410, End::Gone),
        (400, End::Status(1)),
        (401, End::Status(1)),
        (403, End::Status(1)),
        (422, End::Status(1)),
        (404, End::UsedUp),
    ],
};

#[tokio::test]
async fn standard_retries_all_that_fails_eight_times() {
    STANDARD.is_kept().await;
}

#[tokio::test]
async fn bounded_retries_eight_times_what_may_pass_by_itself() {
    BOUNDED.is_kept().await;
}

#[tokio::test]
async fn contract_72h_retries_until_its_horizon_and_a_rejection_three_times() {
    CONTRACT_72H.is_kept().await;
}

#[tokio::test]
async fn payments_24h_retries_until_its_horizon_what_can_get_better() {
    PAYMENTS_24H.is_kept().await;
}

impl Policy {
    /// The stack of this policy. Its `deliver` has the time that it has in production, so that an
    /// attempt can take as long as the policy allows.
    pub(crate) async fn stack(&self) -> Arc<Stack> {
        let scale = self.scale.to_string();
        Stack::shared(&[
            ("RetryPolicy", self.name),
            ("RetryTimeScale", &scale),
            ("DeliverTimeoutSeconds", "30"),
        ])
        .await
    }

    async fn is_kept(&self) {
        let stack = self.stack().await;
        tokio::join!(
            self.retries_what_is_broken(&stack),
            self.waits_as_long_as_it_is_asked_to(&stack),
            self.gives_up_on_a_slow_answer(&stack),
            self.retries_a_broken_connection_but_no_broken_answer(&stack),
            self.treats_statuses_as_published(&stack),
        );
    }

    /// 500, for ever.
    async fn retries_what_is_broken(&self, stack: &Stack) {
        let mut partner = stack
            .partner("OrderShipped", "broken", [Answer::status(500)])
            .await;
        let event_id = stack.publish("OrderShipped", &detail()).await;
        let webhook_id = partner.webhook_id(&event_id);
        let end = stack.ending(&webhook_id).await;
        let posts = all_posts(&mut partner, &webhook_id).await;
        self.assert_used_up(&end, &posts);

        let letter = stack.dead_letter(&webhook_id).await;
        let job: Value = serde_json::from_str(letter.body().unwrap()).unwrap();
        assert_eq!(job["body"], body(&posts[0]));
        assert_eq!(end["body"], posts[0].text());
        assert_eq!(end["messageId"].as_str(), letter.message_id());
        let without_body = {
            let mut end = end;
            end.as_object_mut().unwrap().remove("body");
            end
        };
        assert_eq!(stack.records_of("broken").await, [without_body]);
    }

    /// 429 with `Retry-After`, three times.
    async fn waits_as_long_as_it_is_asked_to(&self, stack: &Stack) {
        let overloaded = Answer::retry_after(429, &RETRY_AFTER.to_string());
        let mut answers = vec![overloaded; 3];
        answers.push(Answer::status(200));
        let mut partner = stack.partner("OrderReopened", "overloaded", answers).await;
        let event_id = stack.publish("OrderReopened", &detail()).await;
        let webhook_id = partner.webhook_id(&event_id);
        let record = stack.ending(&webhook_id).await;
        let history = [
            "1 retry 429",
            "2 retry 429",
            "3 retry 429",
            "4 delivered 200",
        ];
        assert_eq!(told(&record), history);
        let posts = all_posts(&mut partner, &webhook_id).await;
        self.assert_pace(&record, &posts, RETRY_AFTER);
    }

    /// 200, but later than an attempt may take.
    async fn gives_up_on_a_slow_answer(&self, stack: &Stack) {
        let timeout = Duration::from_secs(self.timeout.into());
        let late = Answer::status(200).after(timeout + LATENESS);
        let answers = [late, Answer::status(200)];
        let mut partner = stack.partner("OrderDelayed", "slow", answers).await;
        let event_id = stack.publish("OrderDelayed", &detail()).await;
        let webhook_id = partner.webhook_id(&event_id);
        let line = partner.attempt(&webhook_id, 1).await.json;
        assert_eq!(line["outcome"], "retry", "{line}");
        assert_eq!(line["failure"], "timeout", "{line}");
        let took = Duration::from_millis(line["ms"].as_u64().unwrap());
        assert!((timeout..timeout + LATENESS).contains(&took), "{line}");
        let record = stack.ending(&webhook_id).await;
        assert_eq!(told(&record), ["1 retry", "2 delivered 200"]);
        let posts = all_posts(&mut partner, &webhook_id).await;
        self.assert_pace(&record, &posts, 0);
    }

    /// The status line decides, whatever becomes of the rest of the answer.
    async fn retries_a_broken_connection_but_no_broken_answer(&self, stack: &Stack) {
        let broken_off = |answer: &str| Answer::raw(answer).then_close();
        let answers = [broken_off("HTTP/1.1 20"), Answer::status(204)];
        let mut early = stack
            .partner("OrderArrived", "broken-off-early", answers)
            .await;
        let answers = [broken_off(
            "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nthank you fo",
        )];
        let mut late = stack
            .partner("OrderArrived", "broken-off-late", answers)
            .await;
        let event_id = stack.publish("OrderArrived", &detail()).await;

        let webhook_id = early.webhook_id(&event_id);
        let record = stack.ending(&webhook_id).await;
        assert_eq!(told(&record), ["1 retry", "2 delivered 204"]);
        let posts = all_posts(&mut early, &webhook_id).await;
        self.assert_pace(&record, &posts, 0);

        let webhook_id = late.webhook_id(&event_id);
        let record = stack.ending(&webhook_id).await;
        assert_eq!(told(&record), ["1 delivered 200"]);
        assert_eq!(all_posts(&mut late, &webhook_id).await.len(), 1);
    }

    /// One receiver for each status that the policy says something about.
    async fn treats_statuses_as_published(&self, stack: &Stack) {
        let mut partners = Vec::new();
        for (status, end) in self.statuses {
            let id = format!("answers-{status}");
            let answers = [Answer::status(*status)];
            partners.push((
                stack.partner("OrderCancelled", &id, answers).await,
                *status,
                *end,
            ));
        }
        let event_id = stack.publish("OrderCancelled", &detail()).await;
        for (mut partner, status, end) in partners {
            let webhook_id = partner.webhook_id(&event_id);
            let record = stack.ending(&webhook_id).await;
            let posts = all_posts(&mut partner, &webhook_id).await;
            match end {
                End::Gone => {
                    assert_eq!(record["state"], "gone", "{record}");
                    assert_eq!(told(&record), [format!("1 gone {status}")]);
                    assert_eq!(posts.len(), 1);
                    assert_eq!(stack.dead_letters(&webhook_id).await, []);
                }
                End::Status(tries) => {
                    assert_eq!(record["deadReason"], "status", "{status}: {record}");
                    let mut history: Vec<String> =
                        (1..tries).map(|n| format!("{n} retry {status}")).collect();
                    history.push(format!("{tries} dead {status}"));
                    assert_eq!(told(&record), history);
                    self.assert_pace(&record, &posts, 0);
                    stack.dead_letter(&webhook_id).await;
                }
                End::UsedUp => {
                    self.assert_used_up(&record, &posts);
                    stack.dead_letter(&webhook_id).await;
                }
            }
        }
    }

    /// Checks that a delivery was tried for as long as the policy says, and no longer.
    fn assert_used_up(&self, record: &Value, posts: &[Received]) {
        assert_eq!(record["state"], "dead", "{record}");
        self.assert_pace(record, posts, 0);
        let Some(horizon) = self.horizon else {
            assert_eq!(record["deadReason"], "attempts", "{record}");
            assert_eq!(posts.len(), self.attempts);
            return;
        };
        assert_eq!(record["deadReason"], "horizon", "{record}");
        assert!(posts.len() < self.attempts, "{}", posts.len());
        let end = millis(&record["startedAt"]) + whole_millis((horizon * self.scale).floor());
        let history = record["history"].as_array().unwrap();
        let (last, before) = history.split_last().unwrap();
        for entry in before {
            assert!(millis(&entry["nextAt"]) <= end, "{entry}: {record}");
        }
        let (_, longest) = self.delay(posts.len());
        assert!(
            millis(&last["at"]) + whole_millis(longest) > end,
            "given up early: {record}"
        );
    }

    /// Checks a record against the schedule, and the POSTs of its one run against the record.
    fn assert_pace(&self, record: &Value, posts: &[Received], asked_seconds: u32) {
        let history = record["history"].as_array().unwrap();
        assert_eq!(history.len(), posts.len(), "{record}");
        assert_eq!(record["attempts"], posts.len());
        assert_attempts_of_one_delivery(posts);
        for (number, pair) in (1..).zip(history.windows(2)) {
            let [before, after] = pair else { continue };
            assert_eq!(before["n"], number);
            let (shortest, longest) = self.delay(number);
            let [shortest, longest] =
                [shortest, longest].map(|delay| whole_millis(delay.max(asked_seconds.into())));
            let planned = millis(&before["nextAt"]) - millis(&before["at"]);
            assert!(
                (shortest..=longest).contains(&planned),
                "attempt {number}: {record}"
            );
            assert!(
                millis(&after["at"]) >= millis(&before["nextAt"]),
                "{record}"
            );
        }
        for (number, pair) in (1..).zip(posts.windows(2)) {
            let [before, after] = pair else { continue };
            let (shortest, longest) = self.delay(number);
            let [shortest, longest] = [shortest, longest]
                .map(|delay| Duration::from_secs_f64(delay.max(asked_seconds.into())));
            let longest = longest + LATENESS + Duration::from_secs(self.timeout.into());
            let wait = after.at - before.at;
            assert!(
                (shortest..longest).contains(&wait),
                "{wait:?} after attempt {number}"
            );
        }
    }

    /// The shortest and the longest wait after an attempt, in whole seconds.
    fn delay(&self, attempt: usize) -> (f64, f64) {
        let last = self.delays.len() - 1;
        let delay = self.delays[last.min(attempt - 1)] * self.scale;
        let (low, high) = self.jitter;
        // What is almost a whole number may have been one.
        let shortest = (delay * low - 1e-9).ceil();
        let longest = (delay * high + 1e-9).ceil();
        (shortest.max(1.0), longest.max(1.0))
    }
}

/// All that have come; it has to be over.
async fn all_posts(partner: &mut Partner<'_>, webhook_id: &str) -> Vec<Received> {
    let mut posts = Vec::new();
    for _ in 0..partner.requests() {
        posts.push(partner.next_post(webhook_id).await);
    }
    posts
}

fn whole_millis(seconds: f64) -> i64 {
    i64::try_from(Duration::from_secs_f64(seconds).as_millis()).unwrap()
}
