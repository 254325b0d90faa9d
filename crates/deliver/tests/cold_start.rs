//! A wrong environment variable stops the function before it takes its first batch, and the log
//! names the variable.

use e2e::stage::{Stage, side_by_side};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

#[tokio::test]
async fn a_wrong_variable_stops_the_start_and_is_named() {
    let cases = [
        ("QUEUE_URL", None),
        ("QUEUE_URL", Some("")),
        ("QUEUE_URL", Some("jobs")),
        ("TABLE_NAME", None),
        ("TABLE_NAME", Some("a b")),
        ("DELIVERIES_TABLE", None),
        ("DELIVERIES_TABLE", Some("a b")),
        ("DELIVERY_LOG", Some("none")),
        ("REFERENCE_FIELDS", Some("orderId,,id")),
        ("EVENT_BUS_NAME", Some("a b")),
        ("SECRET_PREFIX", None),
        ("SECRET_PREFIX", Some("")),
        ("SECRET_PREFIX", Some("/webhooks")),
        ("SECRET_PREFIX", Some("webhooks/")),
        ("SECRET_PREFIX", Some("web hooks")),
        ("RETRY_POLICY", Some("fast")),
        ("RETRY_POLICY", Some("Standard")),
        ("RETRY_TIME_SCALE", Some("0")),
        ("RETRY_TIME_SCALE", Some("-1")),
        ("RETRY_TIME_SCALE", Some("1.01")),
        ("RETRY_TIME_SCALE", Some("NaN")),
        ("RETRY_TIME_SCALE", Some("inf")),
        ("RETRY_TIME_SCALE", Some("1/60")),
        ("RETRY_BASE_SECONDS", Some("0")),
        ("RETRY_FACTOR", Some("1.5")),
        ("RETRY_CAP_SECONDS", Some("43200")),
        ("RETRY_ATTEMPTS", Some("9")),
        ("MAX_RECEIVE_COUNT", Some("37")),
        ("ATTEMPT_TIMEOUT_SECONDS", Some("0")),
        ("ALLOW_PRIVATE_ENDPOINTS", Some("yes")),
        ("ALLOW_PRIVATE_ENDPOINTS", Some("True")),
        ("ALLOW_PRIVATE_ENDPOINTS", Some("1")),
        ("ALLOW_PRIVATE_ENDPOINTS", Some(" true")),
        ("VISIBILITY_TIMEOUT_SECONDS", Some("-1")),
        ("VISIBILITY_TIMEOUT_SECONDS", Some("3 min")),
        ("VISIBILITY_TIMEOUT_SECONDS", Some("43201")),
    ];
    side_by_side(cases, |(name, value)| async move {
        let stage = Stage::for_deliver().await;
        let stage = match value {
            Some(value) => stage.with(name, value),
            None => stage.without(name),
        };
        let deliver = stage.launch(DELIVER).await;

        let status = deliver.ready().await.expect_err("it must not start");

        assert!(!status.success(), "{name}={value:?}: {status}");
        assert_eq!(deliver.polls(), 0);
        let output = deliver.output().await.join("\n");
        assert!(output.contains(name), "{name}={value:?}: {output}");
        assert_eq!(stage.aws.all_calls().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn four_variables_are_enough() {
    let stage = Stage::for_deliver()
        .await
        .without("ALLOW_PRIVATE_ENDPOINTS");
    let deliver = stage.start(DELIVER).await;

    let lines = deliver.stop().await;

    assert_eq!(lines, [] as [&str; 0], "a good start has nothing to say");
}

#[tokio::test]
async fn private_endpoints_are_allowed_loudly() {
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;

    deliver
        .line_with(&["WARN", "ALLOW_PRIVATE_ENDPOINTS"])
        .await;
}
