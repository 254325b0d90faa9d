//! `webhooks list` and `webhooks show`.

use e2e::fake_aws::Reply;
use e2e::signature::secret_for;
use serde_json::json;

use super::{done, failed, put_row, run, stage};

#[tokio::test]
async fn all_subscriptions_are_listed_with_what_is_wrong_and_without_tokens() {
    let stage = stage().await;
    stage.aws.set_page_size(1);
    put_row(
        &stage,
        "OrderPaid",
        &json!({"url": {"S": "https://a.example/h?token=hidden"}, "description": {"S": "the till"}}),
    );
    let gone = json!({
        "enabled": {"BOOL": false},
        "disabledReason": {"S": "the endpoint answered 410 Gone"},
        "disabledAt": {"S": "2026-11-30T12:00:00.000Z"},
    });
    put_row(&stage, "OrderRefunded", &gone);
    stage.aws.put_row(json!({
        "eventType": {"S": "OrderPaid"}, "subscriberId": {"S": "by hand"}, "url": {"S": "x"},
    }));
    let ran = run(&stage, &["list"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(
        ran.stdout,
        "\
subscriber  event type     url                   enabled  reason                                                                              description
by hand     OrderPaid      x                     broken   `subscriberId`: a subscriberId is 1 to 64 characters of A-Z, a-z, 0-9, `_` and `-`  -
kasse-nord  OrderPaid      https://a.example/h   yes      -                                                                                   the till
kasse-nord  OrderRefunded  https://8.8.8.8/hook  no       the endpoint answered 410 Gone                                                      -

Broken: by hand, OrderPaid: no verb can name it; delete it by `aws dynamodb delete-item --table-name subscriptions --key '{\"eventType\":{\"S\":\"OrderPaid\"},\"subscriberId\":{\"S\":\"by hand\"}}'`
"
    );
    let report = done(
        &stage,
        &[
            "list",
            "--event",
            "OrderRefunded",
            "--subscriber",
            "kasse-nord",
        ],
    )
    .await;
    assert_eq!(
        report,
        json!({"subscriptions": [{
            "eventType": "OrderRefunded", "subscriberId": "kasse-nord",
            "url": "https://8.8.8.8/hook", "enabled": false,
            "disabledReason": "the endpoint answered 410 Gone",
            "disabledAt": "2026-11-30T12:00:00.000Z", "description": null, "problem": null,
            "mend": null,
        }]})
    );
    for (filter, missing) in [
        (
            &["--subscriber", "nobody"][..],
            "nobody is not subscribed to anything",
        ),
        (
            &["--subscriber", "kasse-nord", "--event", "OrderShipped"],
            "kasse-nord is not subscribed to OrderShipped",
        ),
    ] {
        assert_eq!(
            failed(&stage, &[&["list"], filter].concat()).await,
            (
                Some(3),
                format!("webhooks: {missing}: `webhooks list` shows who is subscribed to what\n")
            )
        );
    }
    let ran = run(&stage, &["list", "--event", "OrderShipped"]).await;
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "There are no such subscriptions.\n")
    );
}

#[tokio::test]
async fn a_partner_is_shown_whole_but_for_what_is_secret() {
    let stage = stage().await;
    let (new, old) = (secret_for("new"), secret_for("old"));
    let value = format!("{new} {old};until=2099-01-01T00:00:00Z");
    stage.set_secret("kasse-nord", &value);
    put_row(
        &stage,
        "OrderPaid",
        &json!({
            "url": {"S": "https://a.example/h?token=hidden"},
            "headers": {"M": {"X-Api-Key": {"S": "hidden"}, "Webhook-Id": {"S": "forged"}}},
            "description": {"S": "the till"},
        }),
    );
    let off = json!({
        "enabled": {"BOOL": false},
        "disabledReason": {"S": "maintenance"},
        "disabledAt": {"S": "2026-11-30T12:00:00.000Z"},
    });
    put_row(&stage, "OrderRefunded", &off);
    let ran = run(&stage, &["show", "kasse-nord"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(
        ran.stdout,
        "kasse-nord
  event        OrderPaid
    url        https://a.example/h
    state      enabled
    header     Webhook-Id: (reserved, not sent)
    header     X-Api-Key: (a value that --reveal shows)
    about      the till
  event        OrderRefunded
    url        https://8.8.8.8/hook
    state      disabled since 2026-11-30T12:00:00.000Z: maintenance
  secret       v1, signs
  secret       v1, signs until 2099-01-01T00:00:00.000Z
"
    );
    let hidden = done(&stage, &["show", "kasse-nord"]).await.to_string();
    assert!(!hidden.contains("hidden"), "{hidden}");
    let report = done(&stage, &["show", "kasse-nord", "--reveal"]).await;
    let row = &report["subscriptions"][0];
    assert_eq!(row["url"], "https://a.example/h?token=hidden");
    assert_eq!(
        row["headers"],
        json!([
            {"name": "Webhook-Id", "sent": false, "value": "forged"},
            {"name": "X-Api-Key", "sent": true, "value": "hidden"},
        ])
    );
    assert!(!report.to_string().contains("whsec_"), "{report}");
}

#[tokio::test]
async fn who_may_not_read_the_secret_still_sees_the_subscriptions() {
    let stage = stage().await;
    put_row(&stage, "OrderPaid", &json!({}));
    let report = done(&stage, &["show", "kasse-nord"]).await;
    assert_eq!(
        report["secretProblem"],
        "there is no parameter /webhooks/kasse-nord/signing-secret"
    );
    let denied = Reply::error(400, "AccessDeniedException");
    stage.aws.always("GetParameters", denied);
    let report = done(&stage, &["show", "kasse-nord"]).await;
    assert_eq!(report["subscriptions"][0]["enabled"], true);
    let problem = report["secretProblem"].as_str().unwrap();
    assert!(problem.contains("ssm:GetParameters"), "{problem}");
}

#[tokio::test]
async fn a_partner_of_whom_nothing_is_known_is_not_found() {
    let stage = stage().await;
    assert_eq!(
        failed(&stage, &["show", "kasse-west"]).await,
        (
            Some(3),
            "webhooks: kasse-west has neither a subscription nor a secret: `webhooks list` shows \
             who has\n"
                .into()
        )
    );
}

const FORGED: &str = "a\nWarning: kasse-nord: all is well\u{1b}[2J";
const SHOWN: &str = r"a\nWarning: kasse-nord: all is well\u{1b}[2J";

#[tokio::test]
async fn no_value_of_a_row_begins_a_line() {
    let stage = stage().await;
    let url = "https://8.8.8.8/";
    stage.aws.put_subscription("OrderPaid", FORGED, url);
    stage.set_secret("kasse-nord", &e2e::signature::secret_for("k"));
    put_row(&stage, FORGED, &json!({"headers": {"S": "x"}}));
    for arguments in [
        &["list"][..],
        &["show", "kasse-nord"],
        &["secret", "list"],
        &["doctor", "--no-resolve"],
        &["ping", "kasse-nord"],
        &["enable", "kasse-nord", "--event", FORGED],
        &["unsubscribe", "kasse-nord", "--event", "x\nWarning: "],
    ] {
        let ran = run(&stage, arguments).await;
        for said in [&ran.stdout, &ran.stderr] {
            assert!(!said.contains("\nWarning: kasse"), "{arguments:?}: {ran:?}");
            assert!(!said.contains("\nWarning: :"), "{arguments:?}: {ran:?}");
            assert!(!said.contains('\u{1b}'), "{arguments:?}: {ran:?}");
        }
        let is_said = [&ran.stdout, &ran.stderr]
            .iter()
            .any(|said| said.contains(SHOWN));
        let is_missing = arguments.contains(&"unsubscribe");
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            is_said || (is_missing && all.contains(r"x\nWarning: ")),
            "{arguments:?}: {ran:?}"
        );
    }
}

#[tokio::test]
async fn a_text_of_70_000_characters_is_cut_in_the_list_and_whole_in_its_json() {
    let stage = stage().await;
    let long = "x".repeat(70_000);
    let changes = json!({"enabled": {"BOOL": false}, "disabledReason": {"S": long},
        "description": {"S": long}});
    put_row(&stage, "OrderPaid", &changes);
    let ran = run(&stage, &["list"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout
            .contains(&format!("  {0}…  {0}…\n", "x".repeat(199))),
        "{ran:?}"
    );
    let list = done(&stage, &["list"]).await;
    assert_eq!(list["subscriptions"][0]["description"], long);
    assert_eq!(list["subscriptions"][0]["disabledReason"], long);
}
