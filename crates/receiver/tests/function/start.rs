//! A wrong environment variable stops the function before its first request, and the log names it.

use e2e::stage::{Stage, side_by_side};

use crate::RECEIVER;

#[tokio::test]
async fn a_wrong_variable_stops_the_start_and_is_named() {
    let cases = [
        ("SECRET_PARAMETER", None),
        ("SECRET_PARAMETER", Some("")),
        ("SECRET_PARAMETER", Some("secret")),
        ("TABLE_NAME", None),
        ("TABLE_NAME", Some("a b")),
        ("KEEP_DAYS", Some("0")),
        ("KEEP_DAYS", Some("37 days")),
    ];
    side_by_side(cases, |(name, value)| async move {
        let stage = Stage::for_receiver().await;
        let stage = match value {
            Some(value) => stage.with(name, value),
            None => stage.without(name),
        };
        let receiver = stage.launch(RECEIVER).await;

        let status = receiver.ready().await.expect_err("it must not start");

        assert!(!status.success(), "{name}={value:?}: {status}");
        let output = receiver.output().await.join("\n");
        assert!(output.contains(name), "{name}={value:?}: {output}");
        assert_eq!(stage.aws.all_calls().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn two_variables_are_enough_and_a_good_start_has_nothing_to_say() {
    let stage = Stage::for_receiver().await;
    let receiver = stage.start(RECEIVER).await;

    assert_eq!(receiver.stop().await, [] as [&str; 0]);
    assert_eq!(stage.aws.all_calls().len(), 0);
}
