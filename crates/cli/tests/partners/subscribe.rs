//! `webhooks subscribe`.

use e2e::fake_aws::Reply;
use e2e::signature::secret_for;
use serde_json::json;
use webhooks_core::secret::{Scheme, SigningSecrets, secret_text};

use super::{NONE, PARAMETER, changes, done, failed, put_row, run, stage};

/// An address, so that nothing has to be resolved.
const URL: &str = "https://8.8.8.8/hook";

const ONE: [&str; 6] = [
    "subscribe",
    "kasse-nord",
    "--event",
    "OrderPaid",
    "--url",
    URL,
];

#[tokio::test]
async fn a_new_partner_gets_rows_and_a_secret() {
    let stage = stage().await;
    let arguments = [&ONE[..], &["--event", "OrderRefunded"]].concat();
    let ran = run(&stage, &arguments).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let secret = stage.aws.parameter(PARAMETER).unwrap();
    assert!(secret.starts_with("whsec_"), "{secret}");
    assert_eq!(secret.len(), "whsec_".len() + 44);
    assert_eq!(
        ran.stdout,
        format!(
            "kasse-nord  OrderPaid: subscribed
kasse-nord  OrderRefunded: subscribed

For the partner, over a safe channel (`webhooks secret show kasse-nord --reveal` shows it again):

  url          https://8.8.8.8/hook
  events       OrderPaid, OrderRefunded
  secret       {secret}
  verify with  any library of https://www.standardwebhooks.com, over the raw body
"
        )
    );
    for event_type in ["OrderPaid", "OrderRefunded"] {
        assert_eq!(
            stage.aws.row(event_type, "kasse-nord"),
            Some(json!({
                "eventType": {"S": event_type},
                "subscriberId": {"S": "kasse-nord"},
                "url": {"S": URL},
                "enabled": {"BOOL": true},
            }))
        );
    }
    let put = &stage.aws.calls("PutParameter")[0];
    assert_eq!(put["Type"], "SecureString");
    assert_eq!(put["Overwrite"], false);
    assert_eq!(put["KeyId"], json!(null));
    assert_eq!(stage.aws.calls("GetParameters")[0]["WithDecryption"], true);
}

#[tokio::test]
async fn a_second_run_changes_nothing_and_says_so() {
    let stage = stage().await;
    let arguments = [
        &ONE[..],
        &["--header", "X-Api-Key: 1", "--description", "the till"],
    ]
    .concat();
    let first = done(&stage, &arguments).await;
    assert_eq!(first["secret"]["state"], "new");
    assert_eq!(first["rows"][0]["done"], "created");
    let secret = stage.aws.parameter(PARAMETER).unwrap();
    let row = stage.aws.row("OrderPaid", "kasse-nord").unwrap();
    assert_eq!(row["headers"], json!({"M": {"x-api-key": {"S": "1"}}}));
    assert_eq!(row["description"], json!({"S": "the till"}));
    let before = changes(&stage).len();

    let second = done(&stage, &arguments).await;
    assert_eq!(second["secret"]["state"], "there");
    assert_eq!(second["rows"][0]["done"], "unchanged");
    assert!(!second.to_string().contains("whsec_"), "{second}");
    let ran = run(&stage, &ONE).await;
    assert_eq!(
        ran.stdout,
        "Nothing was changed: kasse-nord is subscribed so already.
kasse-nord  OrderPaid: as it was

For the partner:

  url          https://8.8.8.8/hook
  events       OrderPaid
  secret       the one that it has already (`webhooks secret show kasse-nord --reveal`)
  verify with  any library of https://www.standardwebhooks.com, over the raw body
"
    );
    assert_eq!(changes(&stage).len(), before);
    assert_eq!(stage.aws.parameter(PARAMETER), Some(secret));
    assert_eq!(stage.aws.row("OrderPaid", "kasse-nord"), Some(row));
}

#[tokio::test]
async fn another_url_is_said_and_neither_the_secret_nor_the_switch_is_touched() {
    let stage = stage().await;
    let secret = secret_for("kasse-nord");
    stage.set_secret("kasse-nord", &secret);
    let row = put_row(
        &stage,
        "OrderPaid",
        &json!({
            "url": {"S": "https://9.9.9.9/old?token=hidden"},
            "enabled": {"BOOL": false},
            "disabledReason": {"S": "the endpoint answered 410 Gone"},
            "disabledAt": {"S": "2026-11-30T12:00:00.000Z"},
        }),
    );
    let ran = run(&stage, &ONE).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        ran.stdout.lines().next().unwrap(),
        "kasse-nord  OrderPaid: changed, url changed from https://9.9.9.9/old to \
         https://8.8.8.8/hook; still disabled (the endpoint answered 410 Gone), enable it \
         by `webhooks enable kasse-nord --event OrderPaid`"
    );
    let mut expected = row;
    expected["url"] = json!({"S": URL});
    assert_eq!(stage.aws.row("OrderPaid", "kasse-nord"), Some(expected));
    assert_eq!(stage.aws.parameter(PARAMETER), Some(secret));
}

#[tokio::test]
async fn of_a_v1a_secret_the_partner_gets_the_public_key_alone() {
    let stage = stage().await;
    let key = "arn:aws:kms:eu-central-1:111122223333:key/k";
    stage.aws.set_stack_parameter("SecretsKmsKeyArn", key);
    let arguments = [&ONE[..], &["--scheme", "v1a"]].concat();
    let first = done(&stage, &arguments).await;
    let secret = stage.aws.parameter(PARAMETER).unwrap();
    assert!(secret.starts_with("whsk_"));
    let public = first["secret"]["publicKey"].as_str().unwrap();
    assert!(public.starts_with("whpk_"), "{public}");
    assert!(!first.to_string().contains("whsk_"), "{first}");
    assert_eq!(stage.aws.calls("PutParameter")[0]["KeyId"], key);
    let ran = run(&stage, &arguments).await;
    assert!(
        ran.stdout.contains(&format!("  public key   {public}\n")),
        "{ran:?}"
    );
    let ran = run(&stage, &[&ONE[..], &["--scheme", "v1"]].concat()).await;
    assert_eq!(
        ran.stderr,
        "kasse-nord has a v1a secret already, and --scheme is for a new one: change it by `webhooks \
         secret rotate kasse-nord --scheme v1`\n"
    );
    assert_eq!(stage.aws.parameter(PARAMETER), Some(secret));
}

#[tokio::test]
async fn a_partner_verifies_with_the_newest_secret_that_signs() {
    let stage = stage().await;
    let key = |byte| secret_text(Scheme::V1a, &[byte; 32]);
    let public = |byte| {
        let secrets = SigningSecrets::parse(&key(byte)).unwrap();
        secrets.iter().next().unwrap().public_key().unwrap()
    };
    let shared = secret_for("kasse-nord");
    let ended = ";until=2020-01-01T00:00:00Z";
    let old = ";until=2099-01-01T00:00:00Z";
    let given = "  secret       the one that it has already (`webhooks secret show kasse-nord \
                 --reveal`)\n"
        .to_owned();
    let public_2 = format!("  public key   {}\n", public(2));
    for (value, line) in [
        (format!("{shared} {}{old}", key(1)), &given),
        (format!("{}{ended} {shared}", key(1)), &given),
        (
            format!("{}{ended} {} {shared}{old}", key(1), key(2)),
            &public_2,
        ),
        (format!("{} {}{ended}", key(2), key(1)), &public_2),
    ] {
        stage.set_secret("kasse-nord", &value);
        let ran = run(&stage, &ONE).await;
        assert!(ran.stdout.contains(line), "{line}: {ran:?}");
    }
}

#[tokio::test]
async fn headers_do_not_go_to_another_host_unsaid() {
    let stage = stage().await;
    let row = |url: &str| {
        let headers = json!({"X-Api-Key": {"S": "hidden"}, "Webhook-Id": {"S": "hidden"}});
        put_row(
            &stage,
            "OrderPaid",
            &json!({"url": {"S": url}, "headers": {"M": headers}}),
        )
    };
    for url in [
        "https://9.9.9.9/hook",
        "https://8.8.8.8:8443/hook",
        "http://8.8.8.8/hook",
        "broken",
    ] {
        let before = row(url);
        assert_eq!(
            failed(&stage, &ONE).await,
            (
                Some(2),
                "webhooks: --url leads to another host, and the headers that were given for the one \
                 before would go there too: x-api-key. Say what the new host is to get: all its \
                 headers by --header-file (or --header), or none by --no-headers; nothing was \
                 changed\n"
                    .into()
            ),
            "{url}"
        );
        assert_eq!(changes(&stage), NONE);
        assert_eq!(stage.aws.row("OrderPaid", "kasse-nord"), Some(before));
    }
    // The other path of the same host gets what it got.
    row("https://8.8.8.8:443/other");
    done(&stage, &ONE).await;
    for say in [&["--no-headers"][..], &["--header", "x-b: 2"]] {
        row("https://9.9.9.9/hook");
        done(&stage, &[&ONE[..], say].concat()).await;
    }
    let row = stage.aws.row("OrderPaid", "kasse-nord").unwrap();
    assert_eq!(row["headers"], json!({"M": {"x-b": {"S": "2"}}}));
    // What is never sent does not matter.
    let reserved = json!({
        "url": {"S": "https://9.9.9.9/hook"}, "headers": {"M": {"Host": {"S": "x"}}},
    });
    put_row(&stage, "OrderPaid", &reserved);
    done(&stage, &ONE).await;
}

#[tokio::test]
async fn a_row_that_would_stay_broken_is_refused_with_what_mends_it() {
    let stage = stage().await;
    let broken = json!({"headers": {"S": "x-api-key: hidden"}});
    let before = put_row(&stage, "OrderPaid", &broken);
    let both = [&ONE[..], &["--event", "OrderRefunded"]].concat();
    assert_eq!(
        failed(&stage, &both).await,
        (
            Some(1),
            "webhooks: the subscription of kasse-nord to OrderPaid would still be broken: \
             `headers`: not a map (M). Give all headers that it is to have by --header-file, or \
             remove them by --no-headers; nothing was changed\n"
                .into()
        )
    );
    assert_eq!(changes(&stage), NONE);
    assert_eq!(stage.aws.row("OrderPaid", "kasse-nord"), Some(before));
    let report = done(&stage, &[&ONE[..], &["--no-headers"]].concat()).await;
    assert_eq!(report["rows"][0]["changes"], json!(["headers removed"]));
    let wrong = json!({"headers": {"M": {"x-a": {"N": "1"}}}});
    put_row(&stage, "OrderPaid", &wrong);
    let (code, said) = failed(&stage, &ONE).await;
    assert_eq!(code, Some(1));
    assert!(
        said.contains("`headers`: the value of the header `x-a` is not a string (S). "),
        "{said}"
    );
    done(&stage, &[&ONE[..], &["--header", "x-a: 1"]].concat()).await;
}

#[tokio::test]
async fn a_key_can_be_given_in_a_file() {
    let stage = stage().await;
    let path = std::env::temp_dir().join(format!("headers-{}", std::process::id()));
    std::fs::write(&path, "X-Api-Key: @hidden\n").unwrap();
    let file = ["--header-file", path.to_str().unwrap()];
    let report = done(&stage, &[&ONE[..], &file].concat()).await;
    assert_eq!(report["rows"][0]["done"], "created");
    let (code, _) = failed(&stage, &[&ONE[..], &file, &["--no-headers"]].concat()).await;
    assert_eq!(code, Some(2));
    std::fs::remove_file(&path).unwrap();
    let row = stage.aws.row("OrderPaid", "kasse-nord").unwrap();
    assert_eq!(
        row["headers"],
        json!({"M": {"x-api-key": {"S": "@hidden"}}})
    );
    let (code, said) = failed(&stage, &[&ONE[..], &file].concat()).await;
    assert_eq!(code, Some(2));
    let expected = format!(
        "webhooks: --header-file can not be read from `{}`: ",
        file[1]
    );
    assert!(said.starts_with(&expected), "{said}");
}

#[tokio::test]
async fn an_event_type_that_the_stack_does_not_let_through_is_refused() {
    let stage = stage().await;
    let arguments = [&ONE[..], &["--event", "OrderShipped"]].concat();
    assert_eq!(
        failed(&stage, &arguments).await,
        (
            Some(2),
            "webhooks: `OrderShipped` is no event type of the stack `sqs-webhooks`, whose parameter \
             EventTypes has OrderPaid, OrderRefunded: add it there first\n"
                .into()
        )
    );
    assert_eq!(changes(&stage), NONE);
}

#[tokio::test]
async fn a_header_that_can_not_be_sent_is_refused_before_any_call() {
    let stage = stage().await;
    for (header, reason) in [
        (
            "Webhook-Id: hidden",
            "--header `Webhook-Id` can not be set by a subscription: it is reserved",
        ),
        ("host: hidden", "--header `host` can not be set"),
        (
            "Content-Type: hidden",
            "--header `Content-Type` can not be set",
        ),
        (
            "hidden",
            "--header number 1 is not of the form 'Name: value'",
        ),
        ("a b: hidden", "--header: `a b` is not a header name"),
        (
            "x-a: hid\r\nhost: den",
            "--header: the value of the header `x-a` must be visible ASCII",
        ),
    ] {
        let (code, said) = failed(&stage, &[&ONE[..], &["--header", header]].concat()).await;
        assert_eq!(code, Some(2), "{header:?}: {said}");
        assert!(said.starts_with(&format!("webhooks: {reason}")), "{said}");
        assert!(!said.contains("hid"), "{said}");
    }
    assert_eq!(stage.aws.all_calls().len(), 0);
}

#[tokio::test]
async fn headers_stay_until_others_or_none_are_named() {
    let stage = stage().await;
    let headers = json!({"headers": {"M": {"x-a": {"S": "1"}}}});
    put_row(&stage, "OrderPaid", &headers);
    done(&stage, &ONE).await;
    let row = || stage.aws.row("OrderPaid", "kasse-nord").unwrap();
    assert_eq!(row()["headers"], headers["headers"]);
    let other = done(&stage, &[&ONE[..], &["--header", "x-b: 2"]].concat()).await;
    assert_eq!(other["rows"][0]["changes"], json!(["headers set: x-b"]));
    assert_eq!(row()["headers"], json!({"M": {"x-b": {"S": "2"}}}));
    done(&stage, &[&ONE[..], &["--no-headers"]].concat()).await;
    assert_eq!(row()["headers"], json!(null));
}

#[tokio::test]
async fn a_row_that_somebody_changes_at_the_same_moment_is_not_overwritten() {
    let stage = stage().await;
    stage.set_secret("kasse-nord", &secret_for("kasse-nord"));
    let old = put_row(
        &stage,
        "OrderPaid",
        &json!({"url": {"S": "https://9.9.9.9/a"}}),
    );
    let theirs = put_row(
        &stage,
        "OrderPaid",
        &json!({"url": {"S": "https://9.9.9.9/b"}}),
    );
    for seen in [json!([old]), json!([])] {
        stage
            .aws
            .next("Scan", [Reply::Output(json!({"Items": seen}))]);
        assert_eq!(
            failed(&stage, &ONE).await,
            (
                Some(1),
                "webhooks: the subscription of kasse-nord to OrderPaid was changed by somebody else \
                 at this moment, and is left as it is now: look at it by `webhooks show \
                 kasse-nord`, and try again\n"
                    .into()
            )
        );
        let now = stage.aws.row("OrderPaid", "kasse-nord");
        assert_eq!(now.as_ref(), Some(&theirs));
    }
}

#[tokio::test]
async fn a_secret_that_somebody_makes_at_the_same_moment_is_left_alone() {
    let stage = stage().await;
    let secret = secret_for("kasse-nord");
    stage.set_secret("kasse-nord", &secret);
    let nothing = json!({"Parameters": [], "InvalidParameters": [PARAMETER]});
    stage.aws.next("GetParameters", [Reply::Output(nothing)]);
    let report = done(&stage, &ONE).await;
    assert_eq!(report["secret"]["state"], "there");
    assert_eq!(stage.aws.parameter(PARAMETER), Some(secret));
}

#[tokio::test]
async fn a_secret_that_somebody_deletes_at_the_same_moment_is_told() {
    let stage = stage().await;
    stage.set_secret("kasse-nord", &secret_for("kasse-nord"));
    let nothing = json!({"Parameters": [], "InvalidParameters": [PARAMETER]});
    let replies = [Reply::Usual, Reply::Output(nothing)];
    stage.aws.next("GetParameters", replies);
    let ran = run(&stage, &ONE).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(
        ran.stdout,
        "kasse-nord  OrderPaid: subscribed

Nothing can be signed: parameter /webhooks/kasse-nord/signing-secret was deleted by somebody else at \
         this moment. Make another one by `webhooks secret new kasse-nord`.
"
    );
}

#[tokio::test]
async fn a_new_secret_is_told_even_if_the_rows_can_not_be_written() {
    let stage = stage().await;
    let denied = Reply::error(400, "AccessDeniedException");
    stage.aws.next("UpdateItem", [denied]);
    let arguments = [&ONE[..], &["--event", "OrderRefunded", "--json"]].concat();
    let ran = run(&stage, &arguments).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report = ran.json();
    assert_eq!(
        report["secret"]["secret"].as_str().map(str::to_owned),
        stage.aws.parameter(PARAMETER)
    );
    assert_eq!(report["notReached"], json!(["OrderPaid", "OrderRefunded"]));
    let error = report["error"].as_str().unwrap();
    assert!(
        error.starts_with(
            "access denied, the credentials need the permission dynamodb:UpdateItem: "
        ),
        "{error}"
    );
    // The next run does what is left.
    let report = done(&stage, &ONE).await;
    assert_eq!(report["rows"][0]["done"], "created");
}

#[tokio::test]
async fn a_secret_that_can_not_be_signed_with_is_told_and_left_alone() {
    let stage = stage().await;
    stage.set_secret("kasse-nord", "hunter2");
    let ran = run(&stage, &ONE).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stdout.contains(
            "Nothing can be signed: parameter /webhooks/kasse-nord/signing-secret: the signing \
             secret does not start with `whsec_` or `whsk_` (is there white space in it?). Mend \
             it, or replace it by `webhooks secret rotate kasse-nord --overlap 0`."
        ),
        "{}",
        ran.stdout
    );
    assert_eq!(stage.aws.parameter(PARAMETER).unwrap(), "hunter2");
}
