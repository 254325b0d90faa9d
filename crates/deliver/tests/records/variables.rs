//! A retry policy that an operator has changed in a way that SQS, or the policy itself, does not
//! allow for stops the function before its first batch, and the log says what does not fit.

use e2e::stage::{Stage, side_by_side};

use crate::helpers::{DELIVER, errors_of};

type Variables = &'static [(&'static str, &'static str)];

async fn stage(variables: Variables) -> Stage {
    let mut stage = Stage::for_deliver().await;
    for (name, value) in variables {
        stage = stage.with(name, value);
    }
    stage
}

#[tokio::test]
async fn changes_that_do_not_fit_together_stop_the_start_and_are_named() {
    let cases: [(Variables, &str); 12] = [
        (
            &[
                ("RETRY_POLICY", "contract-72h"),
                ("RETRY_BASE_SECONDS", "60"),
            ],
            "the policy contract-72h has a fixed table of delays: base, factor and cap can not be changed",
        ),
        (
            &[("RETRY_POLICY", "contract-72h"), ("RETRY_FACTOR", "2")],
            "the policy contract-72h has a fixed table of delays: base, factor and cap can not be changed",
        ),
        (
            &[
                ("RETRY_POLICY", "contract-72h"),
                ("RETRY_CAP_SECONDS", "60"),
            ],
            "the policy contract-72h has a fixed table of delays: base, factor and cap can not be changed",
        ),
        (
            &[("RETRY_BASE_SECONDS", "21601")],
            "the base of 21601 s is longer than the cap of 21600 s",
        ),
        (
            &[("RETRY_CAP_SECONDS", "59")],
            "the base of 60 s is longer than the cap of 59 s",
        ),
        (
            &[("RETRY_BASE_SECONDS", "20"), ("RETRY_CAP_SECONDS", "10")],
            "the base of 20 s is longer than the cap of 10 s",
        ),
        (
            &[("RETRY_CAP_SECONDS", "42961")],
            "a cap of 42961 s is longer than the 42960 s that this queue can hide a message",
        ),
        (
            &[
                ("VISIBILITY_TIMEOUT_SECONDS", "600"),
                ("RETRY_CAP_SECONDS", "42541"),
            ],
            "a cap of 42541 s is longer than the 42540 s that this queue can hide a message",
        ),
        (
            &[("RETRY_ATTEMPTS", "9")],
            "9 attempts and 30 spare receives are more than the queue's maxReceiveCount of 38",
        ),
        (
            &[
                ("RETRY_POLICY", "payments-24h"),
                ("MAX_RECEIVE_COUNT", "129"),
            ],
            "100 attempts and 30 spare receives are more than the queue's maxReceiveCount of 129",
        ),
        (
            &[("RETRY_ATTEMPTS", "971"), ("MAX_RECEIVE_COUNT", "1001")],
            "971 attempts and 30 spare receives are more than the queue's maxReceiveCount of 1000",
        ),
        (
            &[
                ("RETRY_ATTEMPTS", "4294967295"),
                ("MAX_RECEIVE_COUNT", "4294967295"),
            ],
            "4294967295 attempts and 30 spare receives are more than the queue's maxReceiveCount of 1000",
        ),
    ];
    side_by_side(cases, |(variables, message)| async move {
        let stage = stage(variables).await;
        let deliver = stage.launch(DELIVER).await;

        let status = deliver.ready().await.expect_err("it must not start");

        assert!(!status.success(), "{variables:?}: {status}");
        assert_eq!(deliver.polls(), 0);
        let lines = deliver.output().await;
        let [line] = &errors_of(&lines)[..] else {
            panic!("{lines:#?}");
        };
        assert_eq!(
            line["cause"],
            format!(
                "environment variables RETRY_BASE_SECONDS, RETRY_FACTOR, RETRY_CAP_SECONDS, \
                 RETRY_ATTEMPTS and MAX_RECEIVE_COUNT: {message}"
            ),
            "{variables:?}"
        );
        assert_eq!(stage.aws.all_calls().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_change_up_to_the_limits_is_taken() {
    let cases: [Variables; 10] = [
        &[("ATTEMPT_TIMEOUT_SECONDS", "1")],
        &[("RETRY_BASE_SECONDS", "21600")],
        &[
            ("RETRY_CAP_SECONDS", "42960"),
            ("RETRY_BASE_SECONDS", "42960"),
        ],
        &[("RETRY_FACTOR", "1")],
        &[("RETRY_FACTOR", "4294967295")],
        &[("RETRY_ATTEMPTS", "1")],
        &[("RETRY_POLICY", "contract-72h"), ("RETRY_ATTEMPTS", "3")],
        &[("RETRY_ATTEMPTS", "9"), ("MAX_RECEIVE_COUNT", "39")],
        &[("RETRY_ATTEMPTS", "970"), ("MAX_RECEIVE_COUNT", "1000")],
        &[
            ("RETRY_POLICY", "payments-24h"),
            ("MAX_RECEIVE_COUNT", "130"),
            ("DELIVERY_LOG", "failures"),
            ("REFERENCE_FIELDS", " orderId , invoice id,Bestellnummer"),
            (
                "EVENT_BUS_NAME",
                "arn:aws:events:eu-central-1:111122223333:event-bus/ops.a_b-c",
            ),
        ],
    ];
    side_by_side(cases, |variables| async move {
        let stage = stage(variables).await;
        let deliver = stage.start(DELIVER).await;

        let lines = deliver.stop().await;

        let errors = lines.iter().filter(|line| line.contains("ERROR"));
        assert_eq!(errors.count(), 0, "{variables:?}: {lines:#?}");
    })
    .await;
}

#[tokio::test]
async fn a_time_limit_that_is_none_stops_the_start_and_is_named() {
    side_by_side(["0", "1.5", "-1", "10s"], |seconds| async move {
        let stage = Stage::for_deliver()
            .await
            .with("ATTEMPT_TIMEOUT_SECONDS", seconds);
        let deliver = stage.launch(DELIVER).await;

        let status = deliver.ready().await.expect_err("it must not start");

        assert!(!status.success(), "{seconds}: {status}");
        let output = deliver.output().await.join("\n");
        assert!(output.contains("ATTEMPT_TIMEOUT_SECONDS"), "{output}");
    })
    .await;
}
