//! Connections that break, hang, drip or die while idle, and the time that an invocation has.

use std::sync::Arc;
use std::time::Duration;

use e2e::http1::{read_request, response};
use e2e::receiver::{Answer, Received, Receiver};
use e2e::runtime::Ending;
use e2e::signature::{assert_signed, secret_for};
use e2e::sqs_event::{Job, Record, event};
use e2e::stage::{FUNCTION_TIMEOUT, Stage, failures};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpSocket;
use tokio::sync::Notify;

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

const NONE: [&str; 0] = [];

/// A stage with one subscription.
async fn one_subscriber(receiver: &Receiver) -> Stage {
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
    stage
}

/// A message for it, with an event of its own.
fn order(number: usize) -> Record {
    Record::of_event(number, "kasse-nord")
}

fn connections_of(requests: &[Received]) -> Vec<usize> {
    requests.iter().map(|request| request.connection).collect()
}

#[tokio::test]
async fn a_peer_that_hangs_up_after_reading_gets_the_same_delivery_again_later() {
    for ending in [
        Answer::nothing().then_reset(),
        Answer::nothing().then_close(),
    ] {
        let receiver = Receiver::always(ending).await;
        let stage = one_subscriber(&receiver).await;
        let deliver = stage.start(DELIVER).await;
        let job = Job::for_subscriber("kasse-nord");
        let record = Record::new(0, &job.text());

        let batch = stage.deliver(&deliver, std::slice::from_ref(&record)).await;

        assert_eq!(batch.response, failures(&["m0"]));
        batch.assert_delay(0, 30..=60);
        assert_eq!(receiver.requests().len(), 1, "not at once");

        stage.make_due(&job);
        stage.deliver(&deliver, &[record.received(2)]).await;

        let requests = receiver.requests();
        let [first, second] = &requests[..] else {
            panic!("{requests:?}");
        };
        assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
        assert_eq!(first.body, second.body);
        for request in &requests {
            assert_signed(request, &[&secret_for("kasse-nord")]);
        }
    }
}

#[tokio::test]
async fn a_refused_connection_brings_the_delivery_back() {
    let (_socket, address) = Receiver::refusing();
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &format!("http://{address}/"));
    let deliver = stage.start(DELIVER).await;
    let records = [Record::new(0, &Job::for_subscriber("kasse-nord").text())];

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&["m0"]));
    batch.assert_delay(0, 30..=60);
}

#[tokio::test]
async fn connections_are_used_again_within_and_across_invocations() {
    let receiver = Receiver::always(Answer::with(200, &[], b"thanks")).await;
    let stage = one_subscriber(&receiver).await;
    let deliver = stage.start(DELIVER).await;

    for n in 0..3 {
        let batch = stage.deliver(&deliver, &[order(n)]).await;
        assert_eq!(batch.response, failures(&NONE));
    }
    assert_eq!(connections_of(&receiver.requests()), [0, 0, 0]);

    for batch in 1..4 {
        let records: Vec<Record> = (0..10).map(|n| order(10 * batch + n)).collect();
        stage.deliver(&deliver, &records).await;
    }
    assert!(receiver.connections() <= 10, "{}", receiver.connections());
    assert_eq!(receiver.requests().len(), 33);
}

#[tokio::test]
async fn a_connection_that_died_while_idle_costs_the_subscriber_nothing() {
    // The peer closes just when the second request goes out: it has taken it, and says nothing.
    for death in [
        Answer::nothing().then_close(),
        Answer::nothing().then_reset(),
    ] {
        let receiver =
            Receiver::sequence(vec![Answer::status(200), death, Answer::status(200)]).await;
        let stage = one_subscriber(&receiver).await;
        let deliver = stage.start(DELIVER).await;

        let first = stage.deliver(&deliver, &[order(0)]).await;
        let second = stage.deliver(&deliver, &[order(1)]).await;

        assert_eq!(first.response, failures(&NONE));
        assert_eq!(second.response, failures(&NONE));
        assert_eq!(second.visibilities, []);
        let requests = receiver.requests();
        assert_eq!(connections_of(&requests), [0, 0, 1]);
        assert_eq!(requests[1].headers, requests[2].headers, "the same attempt");
        assert_eq!(requests[1].body, requests[2].body);
    }
}

#[tokio::test]
async fn a_request_is_sent_again_at_once_only_once() {
    let receiver =
        Receiver::sequence(vec![Answer::status(200), Answer::nothing().then_reset()]).await;
    let stage = one_subscriber(&receiver).await;
    let deliver = stage.start(DELIVER).await;

    stage.deliver(&deliver, &[order(0)]).await;
    let batch = stage.deliver(&deliver, &[order(1)]).await;

    assert_eq!(batch.response, failures(&["m1"]));
    batch.assert_delay(1, 30..=60);
    assert_eq!(connections_of(&receiver.requests()), [0, 0, 1]);
}

#[tokio::test]
async fn a_request_is_not_sent_again_once_an_answer_has_begun() {
    for begun in [
        "H",
        "HTTP/1.1 ",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 102 Processing\r\n\r\n",
    ] {
        let receiver = Receiver::sequence(vec![
            Answer::status(200),
            Answer::raw(begun).then_close(),
            Answer::status(200),
        ])
        .await;
        let stage = one_subscriber(&receiver).await;
        let deliver = stage.start(DELIVER).await;

        stage.deliver(&deliver, &[order(0)]).await;
        let batch = stage.deliver(&deliver, &[order(1)]).await;

        assert_eq!(batch.response, failures(&["m1"]), "{begun:?}");
        assert_eq!(receiver.requests().len(), 2, "{begun:?}");
    }
}

/// It was alive, so whoever is behind it may have taken the request.
#[tokio::test]
async fn a_request_is_not_sent_again_on_a_connection_that_dies_a_while_later() {
    let receiver = Receiver::sequence(vec![
        Answer::status(200),
        Answer::nothing().then_close_after(Duration::from_millis(1500)),
        Answer::status(200),
    ])
    .await;
    let stage = one_subscriber(&receiver).await;
    let deliver = stage.start(DELIVER).await;

    stage.deliver(&deliver, &[order(0)]).await;
    let batch = stage.deliver(&deliver, &[order(1)]).await;

    assert_eq!(batch.response, failures(&["m1"]));
    assert_eq!(connections_of(&receiver.requests()), [0, 0]);
}

#[tokio::test]
async fn a_connection_that_the_peer_closed_between_invocations_is_not_used() {
    let answer = Answer::status(200).then_close_after(Duration::from_millis(50));
    let receiver = Receiver::always(answer).await;
    let stage = one_subscriber(&receiver).await;
    let deliver = stage.start(DELIVER).await;

    for n in 0..3 {
        let batch = stage.deliver(&deliver, &[order(n)]).await;
        assert_eq!(batch.response, failures(&NONE), "invocation {n}");
        receiver.wait_until_open(0).await;
    }
    assert_eq!(connections_of(&receiver.requests()), [0, 1, 2]);
}

#[tokio::test]
async fn the_first_request_after_a_freeze_succeeds() {
    let word = Arc::new(Notify::new());
    let receiver = Receiver::always(Answer::status(200).then_close_on(&word)).await;
    let stage = one_subscriber(&receiver).await;
    let deliver = stage.start(DELIVER).await;

    stage.deliver(&deliver, &[order(0)]).await;
    for n in 1..4 {
        let records = [order(n)];
        deliver.freeze().await;
        // The peer closes while the function cannot see it.
        word.notify_one();
        receiver.wait_until_open(0).await;
        let (batch, ()) = tokio::join!(stage.deliver(&deliver, &records), deliver.thaw());
        assert_eq!(batch.response, failures(&NONE), "invocation {n}");
    }
    assert_eq!(connections_of(&receiver.requests()), [0, 1, 2, 3]);
}

#[tokio::test]
async fn the_first_calls_to_aws_after_a_freeze_succeed() {
    let receiver = Receiver::always(Answer::retry_after(503, "300")).await;
    let stage = one_subscriber(&receiver).await;
    let deliver = stage.start(DELIVER).await;

    stage.deliver(&deliver, &[order(0)]).await;
    for n in 1..4 {
        let records = [order(n)];
        deliver.freeze().await;
        stage.aws.close_connections();
        let (batch, ()) = tokio::join!(stage.deliver(&deliver, &records), deliver.thaw());
        assert_eq!(batch.response, failures(&[format!("m{n}")]));
        assert_eq!(batch.delay(n), Some(300), "invocation {n}");
    }
    assert_eq!(receiver.requests().len(), 4);
}

#[tokio::test]
async fn one_hanging_receiver_holds_up_nobody_and_is_cut_off_after_ten_seconds() {
    let drip =
        "HTTP/1.1 200 OK\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let mut answers = vec![
        ("/0".to_owned(), Answer::hang()),
        (
            "/1".to_owned(),
            Answer::drip(drip, Duration::from_millis(300)),
        ),
    ];
    let quick = Answer::status(204).after(Duration::from_millis(50));
    answers.extend((2..10).map(|n| (format!("/{n}"), quick.clone())));
    let receiver = Receiver::by_target(answers).await;
    let stage = Stage::for_deliver().await;
    let mut records = Vec::new();
    for n in 0..10 {
        let name = format!("s{n}");
        stage.subscribe(&name, &receiver.url(&format!("/{n}")));
        records.push(Record::new(n, &Job::for_subscriber(&name).text()));
    }
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&["m0", "m1"]));
    for n in [0, 1] {
        batch.assert_delay(n, 30..=60);
    }
    assert!(
        (Duration::from_secs(10)..Duration::from_secs(12)).contains(&batch.took),
        "{:?}",
        batch.took
    );
    let requests = receiver.requests();
    assert_eq!(requests.len(), 10);
    let first = requests[0].at;
    for request in &requests {
        let after = request.at.duration_since(first);
        assert!(
            after < Duration::from_secs(1),
            "{}: {after:?}",
            request.target
        );
    }
    receiver.wait_until_open(8).await;
}

/// The limit for connecting is 5 s, that for the whole attempt 10 s.
#[tokio::test]
async fn a_peer_that_takes_seven_seconds_to_read_the_request_is_delivered_to() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(8).unwrap();
    let stage = Stage::for_deliver().await;
    let url = format!("http://{}/", listener.local_addr().unwrap());
    stage.subscribe("kasse-nord", &url);
    // More than the buffers of both ends take together: it is being sent all the time.
    let job = Job {
        body: format!(r#"{{"data":"{}"}}"#, "x".repeat(6_000_000)),
        ..Job::for_subscriber("kasse-nord")
    };
    let deliver = stage.start(DELIVER).await;
    let records = [Record::new(0, &job.text())];

    let (batch, request) = tokio::join!(stage.deliver(&deliver, &records), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut from, mut to) = stream.split();
        let mut begun = vec![0; 70 * 1024];
        for part in begun.chunks_mut(1024) {
            tokio::time::sleep(Duration::from_millis(100)).await;
            from.read_exact(part).await.unwrap();
        }
        let mut whole = BufReader::new(begun.as_slice().chain(from));
        let request = read_request(&mut whole).await.unwrap().unwrap();
        to.write_all(&response(200, &[], b"")).await.unwrap();
        request
    });

    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(batch.visibilities, []);
    assert!(batch.took >= Duration::from_secs(7), "{:?}", batch.took);
    assert_eq!(request.text(), job.body);
}

#[tokio::test]
async fn an_attempt_is_cut_off_in_time_for_the_answer_and_what_succeeded_is_kept() {
    let receiver = Receiver::by_target([
        ("/well".to_owned(), Answer::status(200)),
        ("/hang".to_owned(), Answer::hang()),
    ])
    .await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("well", &receiver.url("/well"));
    stage.subscribe("hang", &receiver.url("/hang"));
    let deliver = stage.start(DELIVER).await;
    let records = [
        Record::new(0, &Job::for_subscriber("well").text()),
        Record::new(1, &Job::for_subscriber("hang").text()),
    ];

    let batch = stage
        .deliver_within(&deliver, &records, Duration::from_secs(4))
        .await;

    assert_eq!(batch.response, failures(&["m1"]));
    // Cut short by us, so it is nobody's failure but ours, and waits like one.
    batch.assert_delay(1, 3..=5);
    assert!(
        (Duration::from_millis(2500)..Duration::from_millis(3900)).contains(&batch.took),
        "{:?}",
        batch.took
    );
    assert_eq!(receiver.requests().len(), 2);
    deliver
        .line_with(&[r#""subscriberId":"hang""#, r#""outcome":"fault""#])
        .await;
}

#[tokio::test]
async fn without_time_for_an_attempt_none_is_begun_and_all_come_back_at_once() {
    let receiver = Receiver::always(Answer::status(200)).await;
    let stage = Stage::for_deliver().await;
    let mut records = Vec::new();
    for n in 0..10 {
        let name = format!("s{n}");
        stage.subscribe(&name, &receiver.url("/"));
        records.push(Record::new(n, &Job::for_subscriber(&name).text()));
    }
    let deliver = stage.start(DELIVER).await;
    let ids: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();

    for time in [1900, 900] {
        let batch = stage
            .deliver_within(&deliver, &records, Duration::from_millis(time))
            .await;

        assert_eq!(batch.response, failures(&ids), "{time} ms");
        for n in 0..10 {
            assert_eq!(batch.delay(n), Some(1), "{time} ms");
        }
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn a_crash_in_mid_batch_loses_nothing_and_repeats_under_the_same_ids() {
    // The first request to `/slow` gets no answer, the second one does.
    let receiver = Receiver::start(|received| {
        if received.target == "/slow" && received.number < 2 {
            Answer::hang()
        } else {
            Answer::status(200)
        }
    })
    .await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("quick", &receiver.url("/quick"));
    stage.subscribe("slow", &receiver.url("/slow"));
    let records = ["quick", "slow"]
        .iter()
        .enumerate()
        .map(|(n, name)| Record::new(n, &Job::for_subscriber(name).text()));
    let records: Vec<Record> = records.collect();
    let deliver = stage.start(DELIVER).await;

    let events = event(&records);
    let (ending, before) = tokio::join!(deliver.invoke(&events, FUNCTION_TIMEOUT), async {
        let requests = receiver.wait_for(2).await;
        deliver.kill();
        requests
    });
    assert!(matches!(ending, Ending::Crashed(_)), "{ending:?}");
    assert_eq!(stage.aws.calls("ChangeMessageVisibilityBatch").len(), 0);

    // Lambda has said nothing of the batch to SQS, so all of it is handed out again.
    let deliver = stage.start(DELIVER).await;
    let records: Vec<Record> = records
        .into_iter()
        .map(|record| record.received(2))
        .collect();
    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&NONE));
    let after = receiver.requests().split_off(2);
    for request in &before {
        let repeated = after
            .iter()
            .find(|other| other.target == request.target)
            .unwrap();
        assert_eq!(repeated.header("webhook-id"), request.header("webhook-id"));
        assert_eq!(repeated.body, request.body);
    }
}
