//! The payload of a dead delivery is kept in its record, so that it can be sent again though the
//! dead-letter queue was emptied; and what DynamoDB has no room for.

use e2e::delivery_record::{history, now_ms, story, time_value};
use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, failures};
use serde_json::{Value, json};

use crate::helpers::{DELIVER, NONE, stage};

/// A stage under `bounded` with a subscriber whose receiver rejects everything.
async fn bounded() -> (Stage, Receiver) {
    let (stage, receiver, _) = stage([Answer::status(400)]).await;
    (stage.with("RETRY_POLICY", "bounded"), receiver)
}

/// A job whose payload has exactly this many bytes, mostly this text again and again.
fn job_of(bytes: usize, filler: &str) -> Job {
    let mut job = Job::for_subscriber("kasse-nord");
    let (start, end) = (r#"{"data":{"text":""#, r#""}}"#);
    let count = (bytes - start.len() - end.len()) / filler.chars().next().unwrap().len_utf8();
    let text: String = filler.chars().cycle().take(count).collect();
    job.body = format!("{start}{text}{end}");
    assert_eq!(job.body.len(), bytes);
    job
}

/// Letters in no order (a linear congruential generator): 6 of 8 bits, so that gzip leaves about
/// three quarters of them.
fn noise(count: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = 7_u64;
    let letter = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(LETTERS[usize::try_from(state >> 58).unwrap()])
    };
    (0..count).map(letter).collect()
}

/// The record of a job that was rejected.
async fn dead_record(stage: &Stage, job: &Job) -> Value {
    let deliver = stage.start(DELIVER).await;
    let batch = stage
        .deliver(&deliver, &[Record::new(0, &job.text())])
        .await;
    assert_eq!(batch.response, failures(&["m0"]));
    assert_eq!(batch.delay(0), Some(0));
    let row = stage.record_of(job);
    assert_eq!(row["state"], json!({"S": "dead"}));
    row
}

#[tokio::test]
async fn a_short_payload_is_kept_as_it_is() {
    let (stage, _receiver) = bounded().await;
    let mut awkward = Job::for_subscriber("kasse-nord");
    awkward.body = r#"{"a":1.0,"a":1E400,"é":"\u00e9😀","b": [ ]}"#.into();
    for job in [
        awkward.with_event_id("awkward"),
        job_of(1024, "é").with_event_id("1-kb"),
    ] {
        let row = dead_record(&stage, &job).await;

        assert_eq!(row["body"], json!({"S": job.body}));
        assert_eq!(row["bodyOmitted"], Value::Null);
    }
}

#[tokio::test]
async fn a_longer_payload_is_kept_compressed() {
    let (stage, _receiver) = bounded().await;
    for (bytes, filler) in [
        (1025, "x".to_owned()),
        (100_000, "é".to_owned()),
        (900_000, "0123456789".to_owned()),
        (400_000, noise(400_000)),
    ] {
        let job = job_of(bytes, &filler).with_event_id(&bytes.to_string());

        let row = dead_record(&stage, &job).await;

        assert_eq!(unpacked(&row["body"]), job.body, "{bytes}");
        assert_eq!(row["bodyOmitted"], Value::Null, "{bytes}");
    }
}

#[tokio::test]
async fn a_payload_that_does_not_fit_is_left_out_and_the_record_says_so() {
    let (stage, receiver) = bounded().await;
    let job = job_of(600_000, &noise(600_000));

    let row = dead_record(&stage, &job).await;

    assert_eq!(row["body"], Value::Null);
    assert_eq!(row["bodyOmitted"], json!({"BOOL": true}));
    assert_eq!(row["deadReason"], json!({"S": "status"}));
    assert_eq!(receiver.requests()[0].text(), job.body);
}

#[tokio::test]
async fn ten_dead_payloads_of_the_largest_size_are_written_in_one_batch() {
    let (stage, _receiver) = bounded().await;
    let deliver = stage.start(DELIVER).await;
    let letters = noise(440_000);
    let jobs: Vec<Job> = (0..10)
        .map(|n| job_of(440_000, &letters).with_event_id(&format!("e{n}")))
        .collect();
    let records: Vec<Record> = jobs
        .iter()
        .enumerate()
        .map(|(n, job)| Record::new(n, &job.text()))
        .collect();

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.reported().len(), 10);
    for (n, job) in jobs.iter().enumerate() {
        assert_eq!(batch.delay(n), Some(0));
        assert_eq!(unpacked(&stage.record_of(job)["body"]), job.body);
    }
}

#[tokio::test]
async fn only_a_dead_delivery_keeps_its_payload() {
    let receiver = Receiver::sequence(vec![
        Answer::status(503),
        Answer::status(400),
        Answer::status(503),
        Answer::status(200),
    ])
    .await;
    let stage = Stage::for_deliver().await.with("RETRY_POLICY", "bounded");
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let deliver = stage.start(DELIVER).await;
    let job = Job::for_subscriber("kasse-nord");
    let receive = |number: usize, count: u32| {
        let sent_at = if number == 0 { 0 } else { now_ms() };
        Record::new(number, &job.text())
            .sent_at_ms(sent_at)
            .received(count)
    };
    stage.deliver(&deliver, &[receive(0, 1)]).await;
    assert_eq!(stage.record_of(&job)["body"], Value::Null);
    stage.make_due(&job);
    stage.deliver(&deliver, &[receive(0, 2)]).await;
    let dead = stage.record_of(&job);
    assert_eq!(dead["body"], json!({"S": job.body}));
    assert_eq!(dead["deadReason"], json!({"S": "status"}));

    stage.deliver(&deliver, &[receive(1, 1)]).await;

    let retrying = stage.record_of(&job);
    for name in ["body", "bodyOmitted", "deadReason"] {
        assert_eq!(retrying[name], Value::Null, "{name}");
    }
    stage.make_due(&job);
    let batch = stage.deliver(&deliver, &[receive(1, 2)]).await;
    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(
        story(&stage.record_of(&job)),
        [
            (1, "retry".to_owned()),
            (2, "dead".to_owned()),
            (1, "retry".to_owned()),
            (2, "delivered".to_owned())
        ]
    );
}

/// A record that is due and has no room for another entry of its history.
fn put_full_record(stage: &Stage, job: &Job) {
    let ago = time_value(now_ms() - 60_000);
    let error = "x".repeat(400 * 1024 - 450);
    stage.put_record(
        job,
        &json!({
            "state": {"S": "retrying"}, "attempts": {"N": "1"}, "refusals": {"N": "0"},
            "messageId": {"S": "m0"}, "startedAt": ago, "createdAt": ago, "updatedAt": ago,
            "nextAt": ago,
            "history": {"L": [{"M": {
                "n": {"N": "1"}, "at": ago, "outcome": {"S": "retry"}, "error": {"S": error},
            }}]},
        }),
    );
}

#[tokio::test]
async fn a_history_that_has_no_more_room_begins_anew_and_says_so() {
    for (status, state, delay) in [
        (500, "retrying", None),
        (200, "delivered", None),
        (400, "dead", Some(0)),
    ] {
        let receiver = Receiver::always(Answer::status(status)).await;
        let stage = Stage::for_deliver().await.with("RETRY_POLICY", "bounded");
        stage.subscribe("kasse-nord", &receiver.url("/"));
        let job = Job::for_subscriber("kasse-nord");
        put_full_record(&stage, &job);
        let created = stage.record_of(&job)["createdAt"].clone();
        let deliver = stage.start(DELIVER).await;

        let batch = stage
            .deliver(&deliver, &[Record::new(0, &job.text()).received(2)])
            .await;

        let updates = batch.calls.iter().filter(|call| *call == "UpdateItem");
        assert_eq!(updates.count(), 2, "{state}");
        let row = stage.record_of(&job);
        assert_eq!(row["state"], json!({"S": state}));
        assert_eq!(row["attempts"], json!({"N": "2"}), "{state}");
        assert_eq!(row["createdAt"], created);
        assert_eq!(row["historyCut"], json!({"BOOL": true}));
        let outcome = if state == "retrying" { "retry" } else { state };
        assert_eq!(story(&row), [(2, outcome.to_owned())]);
        if let Some(delay) = delay {
            assert_eq!(batch.delay(0), Some(delay));
            // There is room for it, now that the history has gone.
            assert_eq!(row["body"], json!({"S": job.body}));
        }
        let lines = deliver.stop().await;
        let errors = lines.iter().filter(|line| line.contains("ERROR")).count();
        assert_eq!(errors, 0, "{lines:#?}");
    }
}

#[tokio::test]
async fn a_cut_history_grows_again_and_still_says_that_it_was_cut() {
    let receiver = Receiver::always(Answer::status(500)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let job = Job::for_subscriber("kasse-nord");
    put_full_record(&stage, &job);
    let deliver = stage.start(DELIVER).await;
    for count in 2..=3 {
        let record = Record::new(0, &job.text()).received(count);
        stage.deliver(&deliver, &[record]).await;
        stage.make_due(&job);
    }

    let row = stage.record_of(&job);

    assert_eq!(
        story(&row),
        [(2, "retry".to_owned()), (3, "retry".to_owned())]
    );
    assert_eq!(row["historyCut"], json!({"BOOL": true}));
    assert_eq!(history(&row).len(), 2);
}

/// Decompresses by `gzip`, the reference.
fn unpacked(body: &Value) -> String {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use base64::Engine as _;

    let base64 = body["B"].as_str().unwrap_or_else(|| panic!("{body:.100}"));
    let packed = base64::engine::general_purpose::STANDARD
        .decode(base64)
        .unwrap();
    let mut gzip = Command::new("gzip")
        .args(["--decompress", "--stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = gzip.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(&packed).unwrap());
    let output = gzip.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}
