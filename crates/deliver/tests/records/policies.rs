//! The published policies, end to end: how often a receiver is called, how long it is left alone
//! in between, and how a run ends. What would be days is an edit of the planned time.

use std::ops::RangeInclusive;
use std::time::Duration;

use e2e::delivery_record::{history, moment, now_ms, story, time_value};
use e2e::receiver::{Answer, Receiver};
use e2e::runtime::Environment;
use e2e::signature::{assert_signed, secret_for};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Batch, Stage, failures, side_by_side};
use serde_json::{Value, json};

use crate::helpers::{self, DELIVER, NONE};

const POLICIES: [&str; 4] = ["standard", "bounded", "contract-72h", "payments-24h"];

/// A stage under a policy, with a subscriber whose receiver answers this, one after the other.
async fn stage(policy: &str, answers: Vec<Answer>) -> (Stage, Receiver, Job) {
    let (stage, receiver, job) = helpers::stage(answers).await;
    (stage.with("RETRY_POLICY", policy), receiver, job)
}

/// Receive number `count` of the run's message, at the time that is planned for it.
async fn receive(stage: &Stage, deliver: &Environment, job: &Job, count: u32) -> Batch {
    if count > 1 {
        stage.make_due(job);
    }
    let record = Record::new(0, &job.text()).received(count);
    stage.deliver(deliver, &[record]).await
}

/// Checks that the run has ended: its message is kept and seen again at once, but not sent.
async fn assert_dead(stage: &Stage, deliver: &Environment, job: &Job, last: &Batch, reason: &str) {
    assert_eq!(last.response, failures(&["m0"]), "{reason}");
    assert_eq!(last.delay(0), Some(0), "{reason}");
    let row = stage.record_of(job);
    assert_eq!(row["state"], json!({"S": "dead"}));
    assert_eq!(row["deadReason"], json!({"S": reason}));
    assert_eq!(row["nextAt"], Value::Null);
    assert_eq!(row["body"], json!({"S": job.body}));
    for count in [20, 30] {
        let record = Record::new(0, &job.text()).received(count);
        let batch = stage.deliver(deliver, &[record]).await;
        assert_eq!(batch.response, failures(&["m0"]));
        assert_eq!(batch.delay(0), Some(0));
        assert_eq!(
            batch.calls,
            ["BatchGetItem", "ChangeMessageVisibilityBatch"]
        );
    }
    assert_eq!(stage.record_of(job), row);
    assert_eq!(stage.aws.records().len(), 1);
}

/// `seconds`, half of them random.
fn equal(seconds: &[i64]) -> Vec<RangeInclusive<i64>> {
    let range = |seconds: &i64| (seconds + 1) / 2..=*seconds;
    seconds.iter().map(range).collect()
}

/// `seconds`, all of them random.
fn full(seconds: &[i64]) -> Vec<RangeInclusive<i64>> {
    seconds.iter().map(|seconds| 1..=*seconds).collect()
}

/// The delays of a policy, from the one after the first attempt to the one before the last.
fn schedule(policy: &str) -> Vec<RangeInclusive<i64>> {
    match policy {
        "standard" => equal(&[60, 180, 540, 1620, 4860, 14_580, 21_600]),
        "bounded" => equal(&[30, 60, 120, 240, 480, 960, 1920]),
        "contract-72h" => vec![
            29..=32,
            285..=315,
            1710..=1890,
            6840..=7560,
            20_520..=22_680,
            41_040..=42_960,
            41_040..=42_960,
            41_040..=42_960,
            41_040..=42_960,
            41_040..=42_960,
        ],
        "payments-24h" => {
            let mut seconds = vec![10, 20, 40, 80, 160, 320, 640, 1280, 2560];
            seconds.resize(99, 3600);
            full(&seconds)
        }
        _ => panic!("{policy}"),
    }
}

#[tokio::test]
async fn a_receiver_that_always_fails_is_called_as_often_as_the_policy_says() {
    side_by_side(POLICIES, |policy| async move {
        let delays = schedule(policy);
        let (stage, receiver, job) = stage(policy, vec![Answer::status(500)]).await;
        let deliver = stage.start(DELIVER).await;
        let mut count = 0;
        for range in &delays {
            count += 1;

            let batch = receive(&stage, &deliver, &job, count).await;

            assert_eq!(batch.response, failures(&["m0"]), "{policy}");
            batch.assert_delay(0, range.clone());
            let row = stage.record_of(&job);
            assert_eq!(row["attempts"], json!({"N": count.to_string()}));
            let delay = u64::try_from(batch.delay(0).unwrap()).unwrap();
            let planned = moment(&row["nextAt"]) - moment(&row["updatedAt"]);
            assert_eq!(planned, delay * 1000, "{policy}");
        }

        let last = receive(&stage, &deliver, &job, count + 1).await;

        assert_dead(&stage, &deliver, &job, &last, "attempts").await;
        let requests = receiver.requests();
        assert_eq!(requests.len(), delays.len() + 1, "{policy}");
        let row = stage.record_of(&job);
        let mut expected: Vec<(u32, String)> =
            (1..=count).map(|n| (n, "retry".to_owned())).collect();
        expected.push((count + 1, "dead".to_owned()));
        assert_eq!(story(&row), expected, "{policy}");
        for request in &requests {
            assert_eq!(
                request.header("webhook-id"),
                Some(job.webhook_id().as_str())
            );
            assert_eq!(request.text(), job.body);
        }
    })
    .await;
}

/// What a policy does with a status: it is retried, or the run is dead after this many attempts.
fn attempts_at(policy: &str, status: u16) -> Option<u32> {
    match (policy, status) {
        ("standard", _) | ("bounded", 408 | 425 | 429 | 500..=599) => None,
        ("bounded", _) | ("payments-24h", 400 | 401 | 403 | 422) => Some(1),
        ("contract-72h", 400 | 401 | 403 | 404) => Some(3),
        ("contract-72h" | "payments-24h", _) => None,
        _ => panic!("{policy}"),
    }
}

#[tokio::test]
async fn every_status_leads_to_what_its_policy_says() {
    const STATUSES: [u16; 20] = [
        300, 302, 400, 401, 402, 403, 404, 405, 408, 409, 413, 418, 422, 425, 429, 451, 500, 503,
        599, 600,
    ];
    side_by_side(POLICIES, |policy| async move {
        // A rejection is what it is, though it asks for another try.
        let mut answers = STATUSES.map(|status| (status, None)).to_vec();
        answers.push((400, Some(300)));
        let target = |n: usize| format!("/{n}");
        let receiver = Receiver::by_target(answers.iter().enumerate().map(|(n, answer)| {
            let answer = match *answer {
                (status, None) => Answer::status(status),
                (status, Some(seconds)) => Answer::retry_after(status, &seconds.to_string()),
            };
            (target(n), answer)
        }))
        .await;
        let stage = Stage::for_deliver().await.with("RETRY_POLICY", policy);
        let deliver = stage.start(DELIVER).await;
        let jobs: Vec<Job> = (0..answers.len())
            .map(|n| {
                let name = format!("s{n}");
                stage.subscribe(&name, &receiver.url(&target(n)));
                Job::for_subscriber(&name)
            })
            .collect();
        for (count, delays) in (1..=4).zip(schedule(policy)) {
            let before: Vec<Option<Value>> = jobs
                .iter()
                .map(|job| stage.record(&job.webhook_id()))
                .collect();
            let mut records = Vec::new();
            for (n, job) in jobs.iter().enumerate() {
                if before[n]
                    .as_ref()
                    .is_some_and(|row| row["state"]["S"] == "retrying")
                {
                    stage.make_due(job);
                }
                records.push(Record::new(n, &job.text()).received(count));
            }

            let batch = stage.deliver(&deliver, &records).await;

            assert_eq!(batch.reported().len(), answers.len());
            for (n, ((status, asked), job)) in answers.iter().zip(&jobs).enumerate() {
                let most = attempts_at(policy, *status);
                let made = most.map_or(count, |most| count.min(most));
                let what = format!("{policy} {status} {asked:?} receive {count}");
                let requests = receiver.requests_to(&target(n)).len();
                assert_eq!(requests, usize::try_from(made).unwrap(), "{what}");
                let row = stage.record_of(job);
                assert_eq!(row["attempts"], json!({"N": made.to_string()}), "{what}");
                // What is dead at once needs no count of them.
                let refusals = if most.is_some_and(|most| most > 1) {
                    made
                } else {
                    0
                };
                let refusals = json!({"N": refusals.to_string()});
                assert_eq!(row["refusals"], refusals, "{what}");
                let mut outcomes: Vec<(u32, String)> =
                    (1..=made).map(|n| (n, "retry".to_owned())).collect();
                let (state, reason, body) = if most.is_some_and(|most| count >= most) {
                    assert_eq!(batch.delay(n), Some(0), "{what}");
                    assert_eq!(row["nextAt"], Value::Null, "{what}");
                    outcomes.pop();
                    outcomes.push((made, "dead".to_owned()));
                    if count > made {
                        // It is only passed on.
                        assert_eq!(Some(&row), before[n].as_ref(), "{what}");
                    }
                    ("dead", json!({"S": "status"}), json!({"S": job.body}))
                } else {
                    let asked = asked.unwrap_or(0);
                    let range = asked.max(*delays.start())..=asked.max(*delays.end());
                    batch.assert_delay(n, range);
                    ("retrying", Value::Null, Value::Null)
                };
                assert_eq!(row["state"], json!({"S": state}), "{what}");
                assert_eq!(row["deadReason"], reason, "{what}");
                assert_eq!(row["body"], body, "{what}");
                assert_eq!(story(&row), outcomes, "{what}");
                let entry = history(&row).pop().unwrap();
                assert_eq!(entry["status"], json!({"N": status.to_string()}), "{what}");
                assert_eq!(entry["nextAt"], row["nextAt"], "{what}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_receiver_rejects_is_counted_apart_from_what_fails() {
    // The third rejection is the sixth attempt.
    let answers = [503, 401, 503, 404, 429, 400].map(Answer::status).to_vec();
    let (stage, receiver, job) = stage("contract-72h", answers).await;
    let deliver = stage.start(DELIVER).await;
    for (count, refusals) in [(1, "0"), (2, "1"), (3, "1"), (4, "2"), (5, "2")] {
        let batch = receive(&stage, &deliver, &job, count).await;
        assert_ne!(batch.delay(0), Some(0), "{count}");
        assert_eq!(stage.record_of(&job)["refusals"], json!({"N": refusals}));
    }

    let sixth = receive(&stage, &deliver, &job, 6).await;

    assert_dead(&stage, &deliver, &job, &sixth, "status").await;
    assert_eq!(receiver.requests().len(), 6);
}

#[tokio::test]
async fn a_redriven_delivery_is_owed_its_rejections_again() {
    let (stage, receiver, job) = stage("contract-72h", vec![Answer::status(401)]).await;
    let ago = time_value(now_ms() - 600_000);
    stage.put_record(
        &job,
        &json!({
            "state": {"S": "dead"}, "deadReason": {"S": "status"},
            "attempts": {"N": "3"}, "refusals": {"N": "3"}, "messageId": {"S": "m7"},
            "startedAt": ago, "createdAt": ago, "updatedAt": ago,
        }),
    );
    let deliver = stage.start(DELIVER).await;
    let redriven = |count: u32| {
        Record::new(0, &job.text())
            .sent_at_ms(now_ms())
            .received(count)
    };
    for count in 1..=2 {
        stage.deliver(&deliver, &[redriven(count)]).await;
        stage.make_due(&job);
    }

    let third = stage.deliver(&deliver, &[redriven(3)]).await;

    assert_eq!(third.delay(0), Some(0));
    assert_eq!(stage.record_of(&job)["refusals"], json!({"N": "3"}));
    assert_eq!(receiver.requests().len(), 3);
}

#[tokio::test]
async fn three_429_and_a_200_are_a_delivery_under_every_policy() {
    side_by_side(POLICIES, |policy| async move {
        let mut answers = vec![Answer::retry_after(429, "4000"); 3];
        answers.push(Answer::status(200));
        let (stage, receiver, job) = stage(policy, answers).await;
        let deliver = stage.start(DELIVER).await;
        for count in 1..=3 {
            let batch = receive(&stage, &deliver, &job, count).await;
            assert_eq!(batch.delay(0), Some(4000), "{policy}");
        }

        let batch = receive(&stage, &deliver, &job, 4).await;

        assert_eq!(batch.response, failures(&NONE), "{policy}");
        let row = stage.record_of(&job);
        assert_eq!(row["state"], json!({"S": "delivered"}));
        assert_eq!(row["attempts"], json!({"N": "4"}));
        let mut expected: Vec<(u32, String)> = (1..=3).map(|n| (n, "retry".to_owned())).collect();
        expected.push((4, "delivered".to_owned()));
        assert_eq!(story(&row), expected, "{policy}");
        let requests = receiver.requests();
        assert_eq!(requests.len(), 4);
        for request in &requests {
            assert_signed(request, &[&secret_for("kasse-nord")]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_retry_after_is_bounded_by_the_queue_and_by_the_policy() {
    for (policy, longest) in [
        ("standard", 42_960),
        ("bounded", 21_600),
        ("contract-72h", 42_960),
        ("payments-24h", 42_960),
    ] {
        let (stage, _receiver, job) = stage(policy, vec![Answer::retry_after(503, "86400")]).await;
        let deliver = stage.start(DELIVER).await;

        let batch = receive(&stage, &deliver, &job, 1).await;

        assert_eq!(batch.delay(0), Some(longest), "{policy}");
    }
}

#[tokio::test]
async fn no_attempt_is_planned_beyond_the_horizon() {
    // The horizon in hours, and the longest delay that the second attempt leads to.
    let cases = [
        ("standard", 84, 180),
        ("bounded", 84, 60),
        ("contract-72h", 72, 315),
        ("payments-24h", 24, 20),
    ];
    side_by_side(cases, |(policy, hours, delay)| async move {
        let horizon_ms = hours * 3_600_000;
        // Milliseconds before the horizon, and whether the run goes on.
        for (left_ms, goes_on) in [(delay * 1000 + 30_000, true), (500, false), (0, false)] {
            let (stage, receiver, job) = stage(policy, vec![Answer::status(500)]).await;
            let started = time_value(now_ms() + left_ms - horizon_ms);
            let ago = time_value(now_ms() - 60_000);
            stage.put_record(
                &job,
                &json!({
                    "state": {"S": "retrying"}, "attempts": {"N": "1"}, "refusals": {"N": "0"},
                    "messageId": {"S": "m0"}, "startedAt": started, "createdAt": started,
                    "updatedAt": ago, "nextAt": ago,
                }),
            );
            let deliver = stage.start(DELIVER).await;

            let batch = receive(&stage, &deliver, &job, 2).await;

            if goes_on {
                assert_ne!(batch.delay(0), Some(0), "{policy} {left_ms}");
                assert_eq!(stage.record_of(&job)["state"], json!({"S": "retrying"}));
            } else {
                assert_dead(&stage, &deliver, &job, &batch, "horizon").await;
            }
            assert_eq!(receiver.requests().len(), 1, "{policy} {left_ms}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_receiver_that_asks_for_more_than_the_horizon_has_is_not_waited_for() {
    let (stage, receiver, job) =
        stage("payments-24h", vec![Answer::retry_after(503, "36000")]).await;
    let deliver = stage.start(DELIVER).await;
    let started = now_ms() - 15 * 3_600_000;
    let record = Record::new(0, &job.text()).first_received_at_ms(started);

    let batch = stage.deliver(&deliver, &[record]).await;

    assert_dead(&stage, &deliver, &job, &batch, "horizon").await;
    assert_eq!(receiver.requests().len(), 1);
    assert_eq!(stage.record_of(&job)["startedAt"], time_value(started));
}

#[tokio::test]
async fn an_answer_within_the_last_attempt_still_delivers_whatever_the_horizon() {
    let (stage, _receiver, job) = stage("payments-24h", vec![Answer::status(200)]).await;
    let deliver = stage.start(DELIVER).await;
    let started = now_ms() - 30 * 3_600_000;
    let record = Record::new(0, &job.text()).first_received_at_ms(started);

    let batch = stage.deliver(&deliver, &[record]).await;

    assert_eq!(batch.response, failures(&NONE));
}

#[tokio::test]
async fn a_410_disables_under_every_policy() {
    for policy in POLICIES {
        let (stage, _receiver, job) = stage(policy, vec![Answer::status(410)]).await;
        let deliver = stage.start(DELIVER).await;

        let batch = receive(&stage, &deliver, &job, 1).await;

        assert_eq!(batch.response, failures(&NONE), "{policy}");
        assert!(!stage.is_enabled("kasse-nord"), "{policy}");
        assert_eq!(stage.record_of(&job)["state"], json!({"S": "gone"}));
    }
}

#[tokio::test]
async fn no_answer_is_retried_under_every_policy() {
    side_by_side(POLICIES, |policy| async move {
        let answers = vec![
            Answer::nothing().then_reset(),
            Answer::raw("HTTP/1.1 20").then_close(),
            Answer::raw("SSH-2.0-OpenSSH_9.6\r\n").then_close(),
            Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").then_reset(),
        ];
        let (stage, receiver, job) = stage(policy, answers).await;
        let deliver = stage.start(DELIVER).await;
        for count in 1..=3 {
            let batch = receive(&stage, &deliver, &job, count).await;
            assert_eq!(batch.response, failures(&["m0"]), "{policy} {count}");
            assert_ne!(batch.delay(0), Some(0), "{policy} {count}");
        }

        // The status line decides, though the connection broke in mid-answer.
        let batch = receive(&stage, &deliver, &job, 4).await;

        assert_eq!(batch.response, failures(&NONE), "{policy}");
        assert_eq!(receiver.requests().len(), 4);
        let row = stage.record_of(&job);
        assert_eq!(row["state"], json!({"S": "delivered"}));
        assert_eq!(row["refusals"], json!({"N": "0"}));
    })
    .await;
}

#[tokio::test]
async fn an_answer_after_the_time_limit_of_the_policy_is_none() {
    let cases = [("standard", 10_000), ("contract-72h", 8000)];
    side_by_side(cases, |(policy, limit_ms)| async move {
        let late = Answer::status(200).after(Duration::from_millis(limit_ms + 1000));
        let (stage, receiver, job) = stage(policy, vec![late, Answer::status(200)]).await;
        let deliver = stage.start(DELIVER).await;

        let first = receive(&stage, &deliver, &job, 1).await;
        let second = receive(&stage, &deliver, &job, 2).await;

        assert_eq!(first.response, failures(&["m0"]), "{policy}");
        assert_eq!(second.response, failures(&NONE), "{policy}");
        let row = stage.record_of(&job);
        assert_eq!(
            story(&row),
            [(1, "retry".to_owned()), (2, "delivered".to_owned())]
        );
        let entry = &history(&row)[0];
        let error = format!("timeout: no answer within {limit_ms} ms");
        assert_eq!(entry["error"], json!({"S": error}));
        let ms: u64 = entry["ms"]["N"].as_str().unwrap().parse().unwrap();
        assert!((limit_ms..limit_ms + 900).contains(&ms), "{entry}");
        let requests = receiver.requests();
        assert_eq!(requests.len(), 2);
        for request in &requests {
            assert_eq!(
                request.header("webhook-id"),
                Some(job.webhook_id().as_str())
            );
        }
    })
    .await;
}

#[tokio::test]
async fn an_operator_can_change_a_growing_schedule() {
    let receiver = Receiver::always(Answer::status(500)).await;
    let stage = Stage::for_deliver()
        .await
        .with("RETRY_BASE_SECONDS", "10")
        .with("RETRY_FACTOR", "4")
        .with("RETRY_CAP_SECONDS", "100")
        .with("RETRY_ATTEMPTS", "4")
        .with("MAX_RECEIVE_COUNT", "34");
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let job = Job::for_subscriber("kasse-nord");
    let deliver = stage.start(DELIVER).await;
    for (count, range) in [(1, 5..=10), (2, 20..=40), (3, 50..=100)] {
        let batch = receive(&stage, &deliver, &job, count).await;
        batch.assert_delay(0, range);
    }

    let last = receive(&stage, &deliver, &job, 4).await;

    assert_dead(&stage, &deliver, &job, &last, "attempts").await;
    assert_eq!(receiver.requests().len(), 4);
}

#[tokio::test]
async fn an_operator_can_shorten_the_time_limit_and_not_lengthen_it() {
    let cases = [("2", "standard", 2000), ("30", "contract-72h", 8000)];
    side_by_side(cases, |(seconds, policy, limit_ms)| async move {
        let (stage, _receiver, job) = stage(policy, vec![Answer::hang()]).await;
        let stage = stage.with("ATTEMPT_TIMEOUT_SECONDS", seconds);
        let deliver = stage.start(DELIVER).await;

        let batch = receive(&stage, &deliver, &job, 1).await;

        assert_eq!(batch.response, failures(&["m0"]));
        let row = stage.record_of(&job);
        assert_eq!(row["attempts"], json!({"N": "1"}));
        let entry = &history(&row)[0];
        let error = format!("timeout: no answer within {limit_ms} ms");
        assert_eq!(entry["error"], json!({"S": error}));
    })
    .await;
}
