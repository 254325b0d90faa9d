//! What the real program asks of AWS for a batch is what the model of `webhooks cost` counts.

use e2e::delivery_record::now_ms;
use e2e::fake_aws::item_bytes;
use e2e::receiver::{Answer, Receiver};
use e2e::runtime::Environment;
use e2e::sqs_event::{Job, Record};
use e2e::stage::Stage;
use webhooks_core::calls::{self, Batch, Calls, Log};

use crate::helpers::DELIVER;

/// Ten deliveries to ten subscribers, and a function that has no secret yet.
const COLD: Batch = Batch {
    messages: 10,
    first_delivered: 0.0,
    first_failed: 0.0,
    again_delivered: 0.0,
    again_failed: 0.0,
    dead_before: 0.0,
    died: 0.0,
    unknown_secrets: 10,
    log: Log::All,
};

const WARM: Batch = Batch {
    unknown_secrets: 0,
    ..COLD
};

/// Ten deliveries to partners that all answer this.
async fn ten(status: u16, log: &str) -> (Stage, Receiver, Environment) {
    let receiver = Receiver::always(Answer::status(status)).await;
    let stage = Stage::for_deliver()
        .await
        .with("EVENT_BUS_NAME", "shop")
        .with("RETRY_POLICY", "bounded")
        .with("DELIVERY_LOG", log);
    for number in 0..10 {
        stage.subscribe(&format!("s{number}"), &receiver.url("/"));
    }
    let deliver = stage.start(DELIVER).await;
    (stage, receiver, deliver)
}

fn job(number: usize) -> Job {
    Job::for_subscriber(&format!("s{number}"))
}

fn records(receive: u32) -> Vec<Record> {
    let record = |number| {
        let record = Record::new(number, &job(number).text());
        record.sent_at_ms(now_ms() - 1000).received(receive)
    };
    (0..10).map(record).collect()
}

/// The calls that the function itself makes in one batch are these, each as often.
async fn assert_calls(stage: &Stage, deliver: &Environment, records: &[Record], batch: &Batch) {
    let before = stage.aws.all_calls().len();
    stage.deliver(deliver, records).await;
    let made = stage.aws.all_calls().split_off(before);
    let mut expected = Calls::of_batch(batch);
    // The poller's, which is not part of the function.
    expected.receive_message = 0.0;
    expected.delete_message_batch = 0.0;
    let counted = expected.by_name().map(|(name, _)| {
        let calls = made.iter().filter(|call| call.operation == name);
        (name, calls.count() as f64)
    });
    assert_eq!(counted, expected.by_name());
    let known: f64 = counted.iter().map(|(_, count)| count).sum();
    assert_eq!(made.len() as f64, known, "{made:?}");
}

#[tokio::test]
async fn a_batch_that_is_delivered_takes_the_calls_of_the_model() {
    for (variable, log) in [("all", Log::All), ("failures", Log::Failures)] {
        let (stage, _receiver, deliver) = ten(204, variable).await;
        let first_delivered = 1.0;
        let cold = Batch {
            first_delivered,
            log,
            ..COLD
        };
        assert_calls(&stage, &deliver, &records(1), &cold).await;
        for number in 0..10 {
            stage.aws.delete_record(&job(number).webhook_id());
        }
        let warm = Batch {
            unknown_secrets: 0,
            ..cold
        };
        assert_calls(&stage, &deliver, &records(1), &warm).await;
    }
}

#[tokio::test]
async fn a_batch_that_fails_and_is_retried_takes_the_calls_of_the_model() {
    for (variable, log) in [("all", Log::All), ("failures", Log::Failures)] {
        let (stage, _receiver, deliver) = ten(500, variable).await;
        let first_failed = 1.0;
        let cold = Batch {
            first_failed,
            log,
            ..COLD
        };
        assert_calls(&stage, &deliver, &records(1), &cold).await;
        for number in 0..10 {
            stage.make_due(&job(number));
        }
        let again_failed = 1.0;
        let failing = Batch {
            again_failed,
            log,
            ..WARM
        };
        assert_calls(&stage, &deliver, &records(2), &failing).await;
        let well = Receiver::always(Answer::status(204)).await;
        for number in 0..10 {
            stage.make_due(&job(number));
            stage.subscribe(&format!("s{number}"), &well.url("/"));
        }
        let again_delivered = 1.0;
        let delivered = Batch {
            again_delivered,
            log,
            ..WARM
        };
        assert_calls(&stage, &deliver, &records(3), &delivered).await;
    }
}

#[tokio::test]
async fn a_batch_that_is_given_up_takes_the_calls_of_the_model() {
    let (stage, _receiver, deliver) = ten(400, "all").await;
    let (first_failed, died) = (1.0, 1.0);
    let dying = Batch {
        first_failed,
        died,
        ..COLD
    };
    assert_calls(&stage, &deliver, &records(1), &dying).await;
    let dead_before = 1.0;
    let dead = Batch {
        dead_before,
        ..WARM
    };
    for receive in 2..6 {
        assert_calls(&stage, &deliver, &records(receive), &dead).await;
    }
}

/// What a batch of ten writes: the lengths of its log lines, and of one record, in bytes.
async fn written(status: u16, receives: u32) -> (Vec<usize>, usize) {
    let (stage, _receiver, deliver) = ten(status, "all").await;
    for receive in 1..=receives {
        if receive > 1 {
            for number in 0..10 {
                stage.make_due(&job(number));
            }
        }
        let records: Vec<Record> = (0..10)
            .map(|number| {
                let id = format!("059f36b4-87a3-44ab-83d2-66197583{number:04}");
                Record::new(number, &job(number).text())
                    .with_message_id(&id)
                    .sent_at_ms(now_ms() - 1000)
                    .received(receive)
            })
            .collect();
        stage.deliver(&deliver, &records).await;
    }
    let record = item_bytes(&stage.record_of(&job(0)));
    let lines = deliver.stop().await.into_iter();
    let lines = lines.filter(|line| !line.contains("ALLOW_PRIVATE_ENDPOINTS"));
    (lines.map(|line| line.len()).collect(), record)
}

/// The model's names are a little longer, and its times shorter.
fn assert_about(measured: usize, modelled: usize) {
    let range = modelled * 85 / 100..=modelled * 115 / 100;
    assert!(range.contains(&measured), "{measured} in {range:?}");
}

#[tokio::test]
async fn log_and_records_have_about_the_sizes_of_the_model() {
    let metrics = calls::METRICS_LINE_BYTES + 10 * calls::METRICS_BYTES_PER_ATTEMPT;
    let record = |attempts| calls::RECORD_BYTES + attempts * calls::RECORD_BYTES_PER_ATTEMPT;
    for (status, receives, line) in [
        (204, 1, calls::DELIVERED_LINE_BYTES),
        (500, 1, calls::FAILED_LINE_BYTES),
        (500, 4, calls::FAILED_LINE_BYTES),
    ] {
        let (lines, bytes) = written(status, receives).await;

        assert_eq!(lines.len(), 11 * receives as usize, "{lines:?}");
        for &length in &lines[..10] {
            assert_about(length, line);
        }
        assert_about(lines[10], metrics);
        assert_about(bytes, record(receives as usize));
    }
    let job = job(0);
    let url = "https://partner.example/webhooks/of-a-shop";
    let envelope = job.text().len() - job.body.len() - job.url.len() + url.len();
    assert_about(envelope, calls::JOB_ENVELOPE_BYTES);
}
