//! A wrong environment variable stops the function before it takes its first event, and the log
//! names the variable.

use e2e::stage::Stage;

const DISPATCH: &str = env!("CARGO_BIN_EXE_dispatch");

#[tokio::test]
async fn a_wrong_variable_stops_the_start_and_is_named() {
    for (name, value) in [
        ("QUEUE_URL", None),
        ("QUEUE_URL", Some("")),
        ("QUEUE_URL", Some("jobs")),
        (
            "QUEUE_URL",
            Some("arn:aws:sqs:eu-central-1:111122223333:jobs"),
        ),
        ("TABLE_NAME", None),
        ("TABLE_NAME", Some("")),
        ("TABLE_NAME", Some("a b")),
    ] {
        let stage = Stage::for_dispatch().await;
        let stage = match value {
            Some(value) => stage.with(name, value),
            None => stage.without(name),
        };
        let dispatch = stage.launch(DISPATCH).await;

        let status = dispatch.ready().await.expect_err("it must not start");

        assert!(!status.success(), "{name}={value:?}: {status}");
        assert_eq!(dispatch.polls(), 0);
        let output = dispatch.output().await.join("\n");
        assert!(output.contains(name), "{name}={value:?}: {output}");
    }
}
