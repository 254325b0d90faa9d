//! What is said when the verbs for partners do not work.

use e2e::fake_aws::Reply;
use e2e::signature::secret_for;
use serde_json::json;

use super::{NONE, changes, failed, put_row, stage};

const SUBSCRIBE: [&str; 6] = [
    "subscribe",
    "kasse-nord",
    "--event",
    "OrderPaid",
    "--url",
    "https://9.9.9.9/",
];

const VERBS: [&[&str]; 13] = [
    &["ping", "kasse-nord"],
    &[
        "publish",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../events/order-paid.json"),
    ],
    &["doctor"],
    &SUBSCRIBE,
    &["unsubscribe", "kasse-nord"],
    &["list"],
    &["show", "kasse-nord"],
    &["enable", "kasse-nord"],
    &["disable", "kasse-nord", "--reason", "x"],
    &["secret", "new", "kasse-nord"],
    &["secret", "show", "kasse-nord"],
    &["secret", "rotate", "kasse-nord"],
    &["secret", "list"],
];

#[tokio::test]
async fn a_permission_that_is_missing_is_named_and_nothing_is_changed() {
    for (action, arguments) in [
        ("dynamodb:Scan", &SUBSCRIBE[..]),
        ("ssm:GetParameters", &SUBSCRIBE),
        ("dynamodb:UpdateItem", &SUBSCRIBE),
        ("dynamodb:Scan", &["unsubscribe", "kasse-nord"]),
        ("dynamodb:DeleteItem", &["unsubscribe", "kasse-nord"]),
        ("dynamodb:Scan", &["list"]),
        ("dynamodb:Scan", &["show", "kasse-nord"]),
        (
            "dynamodb:UpdateItem",
            &["disable", "kasse-nord", "--reason", "x"],
        ),
        ("ssm:PutParameter", &["secret", "new", "kasse-sued"]),
        ("ssm:GetParameters", &["secret", "show", "kasse-nord"]),
        ("ssm:GetParameters", &["secret", "rotate", "kasse-nord"]),
        ("ssm:PutParameter", &["secret", "rotate", "kasse-nord"]),
        ("dynamodb:Scan", &["secret", "list"]),
        ("ssm:GetParameters", &["secret", "list"]),
    ] {
        let stage = stage().await;
        let row = put_row(&stage, "OrderPaid", &json!({}));
        let secret = secret_for("kasse-nord");
        stage.set_secret("kasse-nord", &secret);
        let (_, operation) = action.split_once(':').unwrap();
        let operation = operation.to_owned().leak();
        let denied = Reply::error(400, "AccessDeniedException");
        stage.aws.always(operation, denied);
        let (code, said) = failed(&stage, arguments).await;
        assert_eq!(code, Some(1), "{action}: {said}");
        let expected =
            format!("webhooks: access denied, the credentials need the permission {action}: ");
        assert!(said.starts_with(&expected), "{arguments:?}: {said}");
        assert_eq!(stage.aws.row("OrderPaid", "kasse-nord"), Some(row));
        assert_eq!(stage.aws.parameter(super::PARAMETER), Some(secret));
    }
}

#[tokio::test]
async fn without_credentials_or_a_stack_every_verb_says_so() {
    let stage = stage().await;
    for arguments in VERBS {
        let elsewhere = [arguments, &["--stack", "shop"]].concat();
        let (code, said) = failed(&stage, &elsewhere).await;
        assert_eq!(code, Some(3), "{arguments:?}");
        assert!(said.starts_with("webhooks: no stack `shop` in "), "{said}");
    }
    assert_eq!(changes(&stage), NONE);
    let stage = stage
        .without("AWS_ACCESS_KEY_ID")
        .without("AWS_SECRET_ACCESS_KEY");
    for arguments in VERBS {
        let (code, said) = failed(&stage, arguments).await;
        assert_eq!(code, Some(1), "{arguments:?}");
        assert!(
            said.starts_with("webhooks: no AWS credentials found"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_command_line_that_can_not_be_meant_is_refused_before_any_call() {
    let stage = stage().await;
    for arguments in [
        &[
            "subscribe",
            "kasse nord",
            "--event",
            "A",
            "--url",
            "https://9.9.9.9/",
        ][..],
        &["subscribe", "kasse-nord", "--url", "https://9.9.9.9/"],
        &["subscribe", "kasse-nord", "--event", "A"],
        &[
            "subscribe",
            "kasse-nord",
            "--event",
            "",
            "--url",
            "https://9.9.9.9/",
        ],
        &["unsubscribe"],
        &["unsubscribe", "kasse.nord"],
        &["list", "--event", ""],
        &["show"],
        &["enable", ""],
        &["disable", "kasse-nord"],
        &["disable", "kasse-nord", "--reason", ""],
        &["disable", "kasse-nord", "--reason", &"x".repeat(257)],
        &["disable", "kasse-nord", "--reason", "two\nlines"],
        &[&SUBSCRIBE[..], &["--description", &"x".repeat(257)]].concat(),
        &[&SUBSCRIBE[..], &["--description", "two\nlines"]].concat(),
        &["secret"],
        &["secret", "new", "kasse-nord", "--scheme", "v2"],
        &["secret", "list", "--within", "soon"],
    ] {
        let (code, said) = failed(&stage, arguments).await;
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
    }
    assert_eq!(stage.aws.all_calls().len(), 0);
}
