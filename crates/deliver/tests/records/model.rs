//! What the real program asks of AWS for a batch is what the model of `webhooks cost` counts.

use e2e::delivery_record::now_ms;
use e2e::receiver::{Answer, Receiver};
use e2e::runtime::Environment;
use e2e::sqs_event::{Job, Record};
use e2e::stage::Stage;
use webhooks_core::calls::{Batch, Calls, Log};

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
    if std::env::var_os("MEASURE").is_some() {
        for line in deliver.stop().await {
            println!("{} {line}", line.len());
        }
        println!("{}", stage.aws.records()[0]);
    }
}
