//! The headers that a subscription adds to its requests.

use e2e::receiver::{Answer, Receiver};
use e2e::signature::{assert_signed, secret_for};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, failures};
use serde_json::{Value, json};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

/// Delivers one job to a subscription with this `headers` attribute.
async fn deliver_with(receiver: &Receiver, headers: Value) -> (String, Vec<String>, Stage) {
    let stage = Stage::for_deliver().await;
    stage.set_secret("kasse-nord", &secret_for("kasse-nord"));
    stage.aws.put_row(json!({
        "eventType": {"S": "OrderPaid"},
        "subscriberId": {"S": "kasse-nord"},
        "url": {"S": receiver.url("/hook")},
        "enabled": {"BOOL": true},
        "description": {"S": "till in the north"},
        "headers": headers,
    }));
    let deliver = stage.start(DELIVER).await;
    let job = Job::for_subscriber("kasse-nord");
    let batch = stage
        .deliver(&deliver, &[Record::new(0, &job.text())])
        .await;
    (batch.response, deliver.stop().await, stage)
}

#[tokio::test]
async fn headers_of_a_subscription_are_sent_beside_our_own_and_never_in_their_place() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (response, ..) = deliver_with(
        &receiver,
        json!({"M": {
            "X-Api-Key": {"S": "k-1"},
            "authorization": {"S": "Bearer abc="},
            "Webhook-Signature": {"S": "v1,forged"},
            "webhook-id": {"S": "msg_forged"},
            "Content-Type": {"S": "text/plain"},
            "content-length": {"S": "1"},
            "HOST": {"S": "other.example"},
            "Transfer-Encoding": {"S": "chunked"},
            "User-Agent": {"S": "other"},
        }}),
    )
    .await;

    assert_eq!(response, failures(&[] as &[&str]));
    let requests = receiver.requests();
    let [request] = &requests[..] else {
        panic!("{requests:?}");
    };
    assert_eq!(
        request.header_names(),
        [
            "authorization",
            "content-length",
            "content-type",
            "host",
            "user-agent",
            "webhook-id",
            "webhook-signature",
            "webhook-timestamp",
            "x-api-key",
        ]
    );
    assert_eq!(request.header("x-api-key"), Some("k-1"));
    assert_eq!(request.header("authorization"), Some("Bearer abc="));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(
        request.header("host"),
        Some(receiver.address().to_string().as_str())
    );
    assert_signed(request, &[&secret_for("kasse-nord")]);
}

#[tokio::test]
async fn headers_that_no_request_can_have_are_our_fault_and_stop_nobody_else() {
    for (headers, error) in [
        (
            json!({"M": {"x-a": {"S": "1\r\nx-injected: 2"}}}),
            "`headers`: the value of the header `x-a` must be visible ASCII with spaces only inside, \
             at most 1024 characters",
        ),
        (
            json!({"M": {"x a": {"S": "1"}}}),
            "`headers`: `x a` is not a header name: letters, digits and !#$%&'*+-.^_`|~, at most 64",
        ),
        (
            json!({"M": {"x-a": {"N": "1"}}}),
            "`headers`: the value of the header `x-a` is not a string (S)",
        ),
        (json!({"S": "x-a: 1"}), "`headers`: not a map (M)"),
    ] {
        let receiver = Receiver::always(Answer::status(204)).await;
        let (response, lines, stage) = deliver_with(&receiver, headers).await;

        assert_eq!(response, failures(&["m0"]), "{error}");
        assert_eq!(receiver.connections(), 0);
        assert!(stage.is_enabled("kasse-nord"));
        let unsent: Vec<Value> = lines
            .iter()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|line| line["message"] == "delivery.unsent")
            .collect();
        let [line] = &unsent[..] else {
            panic!("{unsent:?}");
        };
        assert_eq!(
            (&line["level"], &line["error"]),
            (&json!("ERROR"), &json!(error))
        );
    }
}
