//! The server on this machine: the same answers, a limit on all that a client could draw out, and
//! the program itself.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where it stands"
)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use e2e::client::{Client, post};
use e2e::runtime::Environment;
use e2e::signature::secret_for;
use e2e::stage::{RECEIVER_PARAMETER, Stage, assert_untold, side_by_side};
use e2e::webhook::Webhook;
use receiver::server::{Limits, serve};
use receiver::{Keys, Receiver, Store};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use webhooks_core::verify::VerifyingKeys;

const LOCAL: &str = env!("CARGO_BIN_EXE_receiver-local");

/// Starts a server in this process, which ends with the test.
async fn start(secret: &str, limits: Limits) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let keys = Keys::Fixed(Arc::new(VerifyingKeys::parse(secret).unwrap()));
    let keep = Duration::from_secs(60);
    let receiver = Receiver::new(keys, Store::memory(), keep);
    tokio::spawn(serve(listener, Arc::new(receiver), limits));
    address
}

/// Starts the program, and gives the address at which it listens.
async fn start_program(stage: &Stage) -> (Environment, SocketAddr) {
    let program = stage.launch(LOCAL).await;
    let line = program.line_with(&["receiver.listening"]).await;
    let line: Value = serde_json::from_str(&line).unwrap();
    let address = line["address"].as_str().unwrap().parse().unwrap();
    (program, address)
}

fn webhook(secret: &str, id: &str) -> Webhook {
    Webhook::now(
        secret,
        id,
        &Webhook::body_of("OrderPaid", r#"{"total":1.0}"#),
    )
}

#[tokio::test]
async fn a_secret_is_all_that_the_program_needs() {
    let secret = secret_for("partner");
    let stage = Stage::for_receiver().await.with("LISTEN", "127.0.0.1:0");
    let stage = stage.without("SECRET_PARAMETER").without("TABLE_NAME");
    let stage = stage.with("WEBHOOKS_SECRET", &secret);
    let (program, address) = start_program(&stage).await;
    let mut client = Client::connect(address).await;
    let good = webhook(&secret, "msg_1");
    let mut changed = good.clone();
    changed.body = changed.body.replace("1.0", "1");

    // All on one connection.
    for (webhook, status, body) in [
        (&good, 202, r#"{"result":"stored"}"#),
        (&good, 200, r#"{"result":"repeat"}"#),
        (
            &changed,
            401,
            r#"{"reason":"no signature in `webhook-signature` is right","result":"refused"}"#,
        ),
    ] {
        let answered = client
            .post(&webhook.headers(), webhook.body.as_bytes())
            .await;
        assert_eq!((answered.status, answered.body.as_str()), (status, body));
        assert_eq!(answered.header("content-type"), Some("application/json"));
    }
    client
        .send(b"GET / HTTP/1.1\r\nhost: receiver\r\n\r\n")
        .await;
    let answered = client.answer().await.unwrap();
    assert_eq!(answered.status, 405);
    assert_eq!(answered.header("allow"), Some("POST"));

    assert_eq!(stage.aws.all_calls().len(), 0);
    let key = secret.strip_prefix("whsec_").unwrap();
    assert_untold(&program.stop().await, &[key, r#"{"total":1.0}"#]);
}

#[tokio::test]
async fn of_requests_that_come_at_once_one_is_stored() {
    let secret = secret_for("partner");
    let stage = Stage::for_receiver().await.with("LISTEN", "127.0.0.1:0");
    stage.aws.put_parameter(RECEIVER_PARAMETER, &secret);
    let (program, address) = start_program(&stage).await;
    let webhook = webhook(&secret, "msg_1");

    let mut senders = JoinSet::new();
    for _ in 0..16 {
        let webhook = webhook.clone();
        senders.spawn(async move {
            let mut client = Client::connect(address).await;
            let answered = client
                .post(&webhook.headers(), webhook.body.as_bytes())
                .await;
            answered.status
        });
    }
    let mut statuses = senders.join_all().await;

    statuses.sort_unstable();
    assert_eq!(statuses[..15], [200; 15]);
    assert_eq!(statuses[15], 202);
    assert_eq!(stage.aws.calls("PutItem").len(), 16);
    assert_eq!(stage.aws.calls("GetParameter").len(), 1);
    assert_eq!(
        stage.aws.received("msg_1").unwrap()["data"]["S"],
        r#"{"total":1.0}"#
    );
    program.stop().await;
}

#[tokio::test]
async fn headers_that_came_twice_are_no_webhook() {
    let secret = secret_for("partner");
    let address = start(&secret, Limits::default()).await;
    let webhook = webhook(&secret, "msg_1");
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let mut headers = webhook.headers().to_vec();
        let twice = headers.iter().find(|(other, _)| *other == name).copied();
        headers.extend(twice);
        let mut client = Client::connect(address).await;
        let answered = client.post(&headers, webhook.body.as_bytes()).await;
        assert_eq!(answered.status, 401, "{name}: {answered:?}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_not_waited_for() {
    let secret = secret_for("partner");
    let address = start(&secret, Limits::default()).await;
    let begin = b"POST / HTTP/1.1\r\nhost: receiver\r\n".to_vec();
    // One that says so, and one that does not.
    let said = [&begin[..], b"content-length: 1048577\r\n\r\n"].concat();
    let size = 1024 * 1024 + 1;
    let mut unsaid = [&begin[..], b"transfer-encoding: chunked\r\n\r\n"].concat();
    unsaid.extend_from_slice(format!("{size:x}\r\n").as_bytes());
    unsaid.resize(unsaid.len() + size, b'x');
    for request in [said, unsaid] {
        let mut client = Client::connect(address).await;
        client.send(&request).await;
        let answered = client.answer().await.expect("an answer");
        assert_eq!(
            (answered.status, answered.body.as_str()),
            (
                413,
                r#"{"reason":"the body has more than 1048576 bytes","result":"refused"}"#
            )
        );
    }
    // The largest that is taken.
    let mut largest = Webhook::body_of("OrderPaid", r#""""#);
    let data = "x".repeat(1024 * 1024 - largest.len());
    largest = largest.replace(r#""""#, &format!(r#""{data}""#));
    assert_eq!(largest.len(), 1024 * 1024);
    let webhook = Webhook::now(&secret, "msg_1", &largest);
    let mut client = Client::connect(address).await;
    let answered = client.post(&webhook.headers(), largest.as_bytes()).await;
    assert_eq!(answered.status, 202);
}

#[tokio::test]
async fn a_slow_client_is_not_waited_for() {
    let secret = secret_for("partner");
    let limits = Limits {
        head: Duration::from_millis(300),
        body: Duration::from_millis(300),
        ..Limits::default()
    };
    let address = start(&secret, limits).await;
    let webhook = webhook(&secret, "msg_1");
    let whole = post(&webhook.headers(), webhook.body.as_bytes());
    let cases = [
        ("nothing", 0, None),
        ("half a head", 20, None),
        ("half a body", whole.len() - 3, Some(408)),
        ("all", whole.len(), Some(202)),
    ];
    side_by_side(cases, move |(what, bytes, status)| {
        let part = whole[..bytes].to_vec();
        async move {
            let mut client = Client::connect(address).await;
            client.send(&part).await;
            let start = Instant::now();
            let answered = client.answer().await;
            let seconds = start.elapsed().as_secs();
            assert!(seconds < 8, "{what}: {seconds} s");
            // hyper may say 408 to half a head, or hang up.
            let answered = answered.map(|answered| answered.status);
            match status {
                Some(_) => assert_eq!(answered, status, "{what}"),
                None => assert!(matches!(answered, None | Some(408)), "{what}: {answered:?}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_place() {
    let secret = secret_for("partner");
    let limits = Limits {
        connections: 1,
        head: Duration::from_millis(300),
        ..Limits::default()
    };
    let address = start(&secret, limits).await;
    let mut idle = Client::connect(address).await;
    let mut waiting = Client::connect(address).await;
    let webhook = webhook(&secret, "msg_1");

    let answered = waiting
        .post(&webhook.headers(), webhook.body.as_bytes())
        .await;

    assert_eq!(answered.status, 202);
    assert_eq!(idle.answer().await, None);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answers_loses_its_place() {
    let secret = secret_for("partner");
    let short = Duration::from_millis(300);
    let limits = Limits {
        connections: 1,
        head: short,
        body: short,
        life: short,
    };
    let address = start(&secret, limits).await;
    let mut greedy = Client::connect(address).await;
    // More answers than the system keeps for a connection that nobody reads from.
    let requests = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(400_000);
    let greedy = tokio::spawn(async move {
        greedy.send(requests.as_bytes()).await;
        greedy
    });
    let mut waiting = Client::connect(address).await;
    let webhook = webhook(&secret, "msg_1");

    let answered = waiting
        .post(&webhook.headers(), webhook.body.as_bytes())
        .await;

    assert_eq!(answered.status, 202);
    // Until then it has held its end of the connection.
    greedy.await.unwrap();
}

#[tokio::test]
async fn a_wrong_variable_is_named_and_a_secret_is_not_shown() {
    let secret = secret_for("partner");
    let cases = [
        (
            "WEBHOOKS_SECRET",
            "whsec_hunter2hunter2",
            "WEBHOOKS_SECRET: ",
        ),
        ("LISTEN", "everywhere", "LISTEN is `everywhere`"),
        ("SECRET_PARAMETER", "/partner/secret", "set one of"),
        ("KEEP_DAYS", "-1", "KEEP_DAYS is `-1`"),
        // In use: by nobody's server, as it is not an address of this machine.
        ("LISTEN", "192.0.2.1:1", "the function can not start"),
    ];
    side_by_side(cases, move |(name, value, said)| {
        let secret = secret.clone();
        async move {
            let stage = Stage::for_receiver().await.without("SECRET_PARAMETER");
            let stage = stage.with("WEBHOOKS_SECRET", &secret).with(name, value);
            let program = stage.launch(LOCAL).await;
            let status = program.ready().await.expect_err("it must not start");
            assert_eq!(status.code(), Some(1), "{name}");
            let lines = program.output().await;
            assert!(lines.join("\n").contains(said), "{name}: {lines:?}");
            assert_untold(&lines, &["hunter2hunter2"]);
        }
    })
    .await;
}
