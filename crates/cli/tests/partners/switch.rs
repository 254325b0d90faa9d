//! `webhooks enable` and `webhooks disable`.

use e2e::fake_aws::Reply;
use serde_json::json;

use super::{NONE, changes, done, failed, put_row, run, stage};

#[tokio::test]
async fn what_is_disabled_says_why_and_since_when_and_is_enabled_without_a_trace() {
    let stage = stage().await;
    let before = put_row(
        &stage,
        "OrderPaid",
        &json!({"description": {"S": "the till"}}),
    );
    let disable = ["disable", "kasse-nord", "--reason", "maintenance"];
    let ran = run(&stage, &disable).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(ran.stdout, "kasse-nord  OrderPaid: disabled\n");
    let row = stage.aws.row("OrderPaid", "kasse-nord").unwrap();
    assert_eq!(row["enabled"], json!({"BOOL": false}));
    assert_eq!(row["disabledReason"], json!({"S": "maintenance"}));
    let at = row["disabledAt"]["S"].as_str().unwrap();
    assert_eq!((at.len(), &at[23..]), (24, "Z"));
    assert_eq!(row["url"], before["url"]);

    // Twice is as good as once, and the first reason stays.
    let ran = run(&stage, &["disable", "kasse-nord", "--reason", "other"]).await;
    assert_eq!(
        ran.stdout,
        "kasse-nord  OrderPaid: disabled already, left as it was\n"
    );
    assert_eq!(stage.aws.row("OrderPaid", "kasse-nord"), Some(row));

    let report = done(&stage, &["enable", "kasse-nord"]).await;
    assert_eq!(
        report,
        json!({
            "subscriberId": "kasse-nord", "enabled": true, "switched": ["OrderPaid"],
            "unchanged": [], "notReached": [], "error": null,
        })
    );
    assert_eq!(stage.aws.row("OrderPaid", "kasse-nord"), Some(before));
    let ran = run(&stage, &["enable", "kasse-nord"]).await;
    assert_eq!(
        ran.stdout,
        "kasse-nord  OrderPaid: enabled already, left as it was\n"
    );
    assert_eq!(changes(&stage), ["UpdateItem", "UpdateItem"]);
}

#[tokio::test]
async fn only_the_named_event_types_are_switched() {
    let stage = stage().await;
    put_row(&stage, "OrderPaid", &json!({}));
    put_row(&stage, "OrderRefunded", &json!({}));
    let arguments = [
        "disable",
        "kasse-nord",
        "--event",
        "OrderRefunded",
        "--reason",
        "x",
    ];
    let report = done(&stage, &arguments).await;
    assert_eq!(report["switched"], json!(["OrderRefunded"]));
    assert!(stage.is_enabled("kasse-nord"));
    let arguments = ["enable", "kasse-nord", "--event", "OrderShipped"];
    let (code, said) = failed(&stage, &arguments).await;
    assert_eq!(code, Some(3));
    assert_eq!(
        said,
        "webhooks: kasse-nord is not subscribed to OrderShipped: `webhooks list` shows who is \
         subscribed to what\n"
    );
}

#[tokio::test]
async fn nothing_is_enabled_if_a_url_can_only_be_blocked() {
    let stage = stage().await;
    put_row(&stage, "OrderPaid", &json!({"enabled": {"BOOL": false}}));
    let private = json!({"enabled": {"BOOL": false}, "url": {"S": "http://8.8.8.8/"}});
    put_row(&stage, "OrderRefunded", &private);
    assert_eq!(
        failed(&stage, &["enable", "kasse-nord"]).await,
        (
            Some(1),
            "webhooks: the subscription of kasse-nord to OrderRefunded can not be enabled: the \
             url's scheme is `http`, only https is allowed. Give it another url by `webhooks \
             subscribe kasse-nord --event OrderRefunded --url URL`; nothing was changed\n"
                .into()
        )
    );
    assert_eq!(changes(&stage), NONE);
    stage
        .aws
        .set_stack_parameter("AllowPrivateEndpoints", "true");
    done(&stage, &["enable", "kasse-nord"]).await;
}

#[tokio::test]
async fn a_row_that_would_stay_broken_is_not_enabled() {
    for enabled in [false, true] {
        let stage = stage().await;
        put_row(&stage, "OrderPaid", &json!({"enabled": {"BOOL": false}}));
        let broken = json!({"enabled": {"BOOL": enabled}, "headers": {"S": "x-a: hidden"}});
        put_row(&stage, "OrderRefunded", &broken);
        assert_eq!(
            failed(&stage, &["enable", "kasse-nord"]).await,
            (
                Some(1),
                "webhooks: the subscription of kasse-nord to OrderRefunded can not be enabled: \
                 `headers`: not a map (M). Mend it by `webhooks subscribe kasse-nord --event \
                 OrderRefunded --url URL` with --no-headers, or with all headers that it is to have \
                 by --header-file; nothing was changed\n"
                    .into()
            )
        );
        assert_eq!(changes(&stage), NONE);
    }
}

#[tokio::test]
async fn a_row_that_somebody_changes_at_the_same_moment_is_not_switched() {
    let stage = stage().await;
    let seen = put_row(&stage, "OrderPaid", &json!({"enabled": {"BOOL": false}}));
    let gone = json!({"enabled": {"BOOL": false}, "disabledReason": {"S": "410"}});
    let theirs = put_row(&stage, "OrderPaid", &gone);
    let seen = Reply::Output(json!({"Items": [seen]}));
    stage.aws.next("Scan", [seen]);
    let (code, said) = failed(&stage, &["enable", "kasse-nord"]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("was changed by somebody else"), "{said}");
    assert_eq!(stage.aws.row("OrderPaid", "kasse-nord"), Some(theirs));
}
