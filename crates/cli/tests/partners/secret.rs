//! `webhooks secret new`, `show` and `list`.

use e2e::fake_aws::Reply;
use e2e::signature::secret_for;
use serde_json::json;

use super::{PARAMETER, done, failed, put_row, run, stage};

#[tokio::test]
async fn a_first_secret_is_made_and_a_second_is_refused() {
    let stage = stage().await;
    let ran = run(&stage, &["secret", "new", "kasse-nord"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let secret = stage.aws.parameter(PARAMETER).unwrap();
    assert_eq!(
        ran.stdout,
        format!(
            "kasse-nord has a secret now. For the partner, over a safe channel (`webhooks secret \
             show kasse-nord --reveal` shows it again):\n\n  secret  {secret}\n"
        )
    );
    assert_eq!(
        failed(&stage, &["secret", "new", "kasse-nord"]).await,
        (
            Some(1),
            "webhooks: kasse-nord has a secret already (parameter \
             /webhooks/kasse-nord/signing-secret), which was left alone: change it by `webhooks \
             secret rotate kasse-nord`\n"
                .into()
        )
    );
    assert_eq!(stage.aws.parameter(PARAMETER), Some(secret));
    let report = done(&stage, &["secret", "new", "kasse-sued", "--scheme", "v1a"]).await;
    assert_eq!(report["scheme"], "v1a");
    assert_eq!(report["secret"], json!(null));
    assert!(report["publicKey"].as_str().unwrap().starts_with("whpk_"));
    let ran = run(&stage, &["secret", "new", "kasse-west", "--scheme", "v1a"]).await;
    assert!(
        ran.stdout.starts_with(
            "kasse-west has a secret now. For the partner, which is to be sure that it is yours \
             (`webhooks secret show kasse-west` shows it again):\n\n  public key  whpk_"
        ),
        "{ran:?}"
    );
}

#[tokio::test]
async fn secrets_are_shown_with_their_ends_and_themselves_only_if_asked_for() {
    let stage = stage().await;
    let (new, old, ended) = (secret_for("new"), secret_for("old"), secret_for("ended"));
    stage.set_secret(
        "kasse-nord",
        &format!("{new} {old};until=2099-01-01T00:00:00Z {ended};until=2020-01-01T00:00:00Z"),
    );
    let ran = run(&stage, &["secret", "show", "kasse-nord"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(
        ran.stdout,
        "/webhooks/kasse-nord/signing-secret, version 1

scheme  state                                 public key
v1      signs                                 -
v1      signs until 2099-01-01T00:00:00.000Z  -
v1      ended 2020-01-01T00:00:00.000Z        -
"
    );
    let report = done(&stage, &["secret", "show", "kasse-nord"]).await;
    assert!(!report.to_string().contains("whsec_"), "{report}");
    let report = done(&stage, &["secret", "show", "kasse-nord", "--reveal"]).await;
    assert_eq!(
        report["secrets"][1],
        json!({
            "scheme": "v1", "active": true, "until": "2099-01-01T00:00:00.000Z", "secret": old,
        })
    );
}

#[tokio::test]
async fn a_secret_that_is_not_there_or_broken_is_said_with_what_to_do() {
    let stage = stage().await;
    assert_eq!(
        failed(&stage, &["secret", "show", "kasse-nord"]).await,
        (
            Some(3),
            "webhooks: there is no parameter /webhooks/kasse-nord/signing-secret: make a secret by \
             `webhooks secret new kasse-nord`\n"
                .into()
        )
    );
    stage.set_secret("kasse-nord", "whsec_AA==");
    let (code, said) = failed(&stage, &["secret", "show", "kasse-nord", "--reveal"]).await;
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with(
            "webhooks: parameter /webhooks/kasse-nord/signing-secret: the signing key has 1 \
             bytes; it must have 24 to 64. Nothing can be signed with it; "
        ),
        "{said}"
    );
}

#[tokio::test]
async fn what_ends_soon_is_missing_or_broken_is_warned_of() {
    let stage = stage().await;
    let good = secret_for("x");
    for subscriber in ["good", "late", "missing", "broken", "ended"] {
        stage
            .aws
            .put_subscription("OrderPaid", subscriber, "https://8.8.8.8/");
    }
    put_row(&stage, "OrderPaid", &json!({"enabled": {"BOOL": false}}));
    stage.set_secret("good", &format!("{good} {good};until=2020-01-01T00:00:00Z"));
    stage.set_secret("late", &format!("{good};until=2099-01-01T00:00:00Z"));
    stage.set_secret("broken", "hunter2");
    stage.set_secret("ended", &format!("{good};until=2020-01-01T00:00:00Z"));
    let ran = run(&stage, &["secret", "list", "--within", "4000w"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let warnings: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| line.starts_with("Warning"))
        .collect();
    assert_eq!(
        warnings,
        [
            "Warning: broken: nothing is sent, broken: the signing secret does not start with \
             `whsec_` or `whsk_` (is there white space in it?).",
            "Warning: ended: nothing is sent, ended: the last secret ended at \
             2020-01-01T00:00:00.000Z.",
            "Warning: late: the last secret ends at 2099-01-01T00:00:00.000Z and none follows: \
             `webhooks secret rotate late`.",
            "Warning: missing: nothing is sent, missing: there is no parameter \
             /webhooks/missing/signing-secret.",
        ]
    );
    let report = done(&stage, &["secret", "list"]).await;
    let warned: Vec<&str> = report["partners"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|partner| !partner["warning"].is_null())
        .map(|partner| partner["subscriberId"].as_str().unwrap())
        .collect();
    assert_eq!(warned, ["broken", "ended", "missing"]);
    assert!(!report.to_string().contains("whsec_M"), "{report}");
}

#[tokio::test]
async fn one_parameter_that_can_not_be_read_does_not_hide_the_others() {
    let stage = stage().await;
    for number in 0..12 {
        stage.subscribe(&format!("s{number}"), "https://8.8.8.8/");
    }
    stage.aws.rule("GetParameters", |input| {
        let names = input["Names"].as_array().unwrap();
        let refused = names.contains(&json!("/webhooks/s3/signing-secret"));
        if refused {
            Reply::error(400, "AccessDeniedException")
        } else {
            Reply::Usual
        }
    });
    let report = done(&stage, &["secret", "list"]).await;
    let partners = report["partners"].as_array().unwrap();
    assert_eq!(partners.len(), 12);
    for partner in partners {
        let is_refused = partner["subscriberId"] == "s3";
        assert_eq!(partner["problem"].is_null(), !is_refused, "{partner}");
    }
    // Two calls, and ten for the batch that was refused.
    assert_eq!(stage.aws.calls("GetParameters").len(), 12);
}
