//! `webhooks unsubscribe`.

use e2e::fake_aws::Reply;
use serde_json::json;

use super::{NONE, PARAMETER, changes, done, failed, put_row, run, stage};

#[tokio::test]
async fn all_subscriptions_go_and_the_secret_stays() {
    let stage = stage().await;
    stage.subscribe("kasse-sued", "https://8.8.8.8/");
    stage.set_secret("kasse-nord", "whsec_x");
    put_row(&stage, "OrderPaid", &json!({}));
    put_row(
        &stage,
        "OrderRefunded",
        &json!({"url": null, "enabled": {"S": "broken"}}),
    );
    let ran = run(&stage, &["unsubscribe", "kasse-nord"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(
        ran.stdout,
        "kasse-nord is not subscribed to OrderPaid, OrderRefunded any more. Deliveries that are \
         under way are dropped at their next attempt.\n"
    );
    assert_eq!(stage.aws.row("OrderPaid", "kasse-nord"), None);
    assert_eq!(stage.aws.row("OrderRefunded", "kasse-nord"), None);
    assert!(stage.is_enabled("kasse-sued"));
    assert_eq!(stage.aws.parameter(PARAMETER).unwrap(), "whsec_x");

    // The secret that was left can still be deleted, once.
    let delete = ["unsubscribe", "kasse-nord", "--delete-secret", "--yes"];
    let report = done(&stage, &delete).await;
    assert_eq!(report["secretDeleted"], true);
    assert_eq!(stage.aws.parameter(PARAMETER), None);
    let (code, said) = failed(&stage, &delete).await;
    assert_eq!(code, Some(3));
    assert!(
        said.starts_with("webhooks: kasse-nord is not subscribed to anything: "),
        "{said}"
    );
}

#[tokio::test]
async fn one_event_type_goes_and_the_others_keep_the_secret() {
    let stage = stage().await;
    stage.set_secret("kasse-nord", "whsec_x");
    put_row(&stage, "OrderPaid", &json!({}));
    put_row(&stage, "OrderRefunded", &json!({}));
    let one = ["unsubscribe", "kasse-nord", "--event", "OrderPaid"];
    assert_eq!(
        failed(&stage, &[&one[..], &["--delete-secret", "--yes"]].concat()).await,
        (
            Some(2),
            "webhooks: --delete-secret: kasse-nord stays subscribed to other events, which need \
             the secret\n"
                .into()
        )
    );
    assert_eq!(changes(&stage), NONE);
    let report = done(&stage, &one).await;
    assert_eq!(
        report,
        json!({
            "subscriberId": "kasse-nord", "removed": ["OrderPaid"], "notReached": [],
            "secretDeleted": false, "declined": false, "error": null,
        })
    );
    assert!(stage.aws.row("OrderRefunded", "kasse-nord").is_some());
    let (code, said) = failed(&stage, &one).await;
    assert_eq!(code, Some(3));
    assert!(
        said.starts_with("webhooks: kasse-nord is not subscribed to OrderPaid: "),
        "{said}"
    );
    let report = done(
        &stage,
        &[
            "unsubscribe",
            "kasse-nord",
            "--event",
            "OrderRefunded",
            "--delete-secret",
            "--yes",
        ],
    )
    .await;
    assert_eq!(report["secretDeleted"], true);
}

#[tokio::test]
async fn a_secret_is_not_deleted_unless_that_is_confirmed() {
    let stage = stage().await;
    stage.set_secret("kasse-nord", "whsec_x");
    put_row(&stage, "OrderPaid", &json!({}));
    assert_eq!(
        failed(&stage, &["unsubscribe", "kasse-nord", "--delete-secret"]).await,
        (
            Some(2),
            "webhooks: --delete-secret deletes for good, and there is no terminal to ask on: \
             confirm it by --yes\n"
                .into()
        )
    );
    assert_eq!(stage.aws.all_calls().len(), 0);
}

#[tokio::test]
async fn who_is_subscribed_again_at_the_same_moment_keeps_the_secret() {
    let stage = stage().await;
    stage.set_secret("kasse-nord", "whsec_x");
    let paid = put_row(&stage, "OrderPaid", &json!({}));
    put_row(&stage, "OrderRefunded", &json!({}));
    let seen = Reply::Output(json!({"Items": [paid]}));
    stage.aws.next("Scan", [seen]);
    let delete = [
        "unsubscribe",
        "kasse-nord",
        "--delete-secret",
        "--yes",
        "--json",
    ];
    let ran = run(&stage, &delete).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(
        ran.json(),
        json!({
            "subscriberId": "kasse-nord", "removed": ["OrderPaid"], "notReached": [],
            "secretDeleted": false, "declined": false,
            "error": "kasse-nord was subscribed to OrderRefunded by somebody else at this moment, \
                      so its secret was kept",
        })
    );
    assert_eq!(stage.aws.parameter(PARAMETER).unwrap(), "whsec_x");
    assert!(stage.aws.row("OrderRefunded", "kasse-nord").is_some());
}

#[tokio::test]
async fn a_row_that_somebody_changes_at_the_same_moment_stays() {
    let stage = stage().await;
    let seen = put_row(
        &stage,
        "OrderPaid",
        &json!({"url": {"S": "https://9.9.9.9/a"}}),
    );
    put_row(&stage, "OrderPaid", &json!({}));
    let seen = Reply::Output(json!({"Items": [seen]}));
    stage.aws.next("Scan", [seen]);
    let (code, said) = failed(&stage, &["unsubscribe", "kasse-nord"]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("was changed by somebody else"), "{said}");
    assert!(stage.is_enabled("kasse-nord"));
}

#[tokio::test]
async fn what_was_done_before_an_error_is_told() {
    let stage = stage().await;
    put_row(&stage, "OrderPaid", &json!({}));
    put_row(&stage, "OrderRefunded", &json!({}));
    let denied = Reply::error(400, "AccessDeniedException");
    stage.aws.next("DeleteItem", [Reply::Usual, denied]);
    let ran = run(&stage, &["unsubscribe", "kasse-nord", "--json"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report = ran.json();
    assert_eq!(report["removed"], json!(["OrderPaid"]));
    assert_eq!(report["notReached"], json!(["OrderRefunded"]));
    let error = report["error"].as_str().unwrap();
    assert!(error.contains("dynamodb:DeleteItem"), "{error}");
}
