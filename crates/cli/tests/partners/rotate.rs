//! `webhooks secret rotate`.

use std::time::{Duration, SystemTime};

use e2e::fake_aws::Reply;
use e2e::signature::secret_for;
use serde_json::json;
use webhooks_core::secret::{Scheme, secret_text};
use webhooks_core::timestamp;

use super::{NONE, PARAMETER, changes, done, failed, run, stage};

/// How far a time is from now, in seconds, rounded down to a minute.
fn seconds_ahead(time: &serde_json::Value) -> u64 {
    let time = timestamp::parse(time.as_str().unwrap()).unwrap();
    // What the test itself takes.
    let time = time + Duration::from_secs(30);
    time.duration_since(SystemTime::now()).unwrap().as_secs() / 60 * 60
}

#[tokio::test]
async fn the_new_secret_signs_first_and_the_old_one_beside_it_for_a_day() {
    let stage = stage().await;
    let old = secret_for("old");
    stage.set_secret("kasse-nord", &old);
    let ran = run(&stage, &["secret", "rotate", "kasse-nord"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let value = stage.aws.parameter(PARAMETER).unwrap();
    let (new, rest) = value.split_once(' ').unwrap();
    let until = rest.strip_prefix(&format!("{old};until=")).unwrap();
    assert_eq!(seconds_ahead(&json!(until)), 86_400);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "kasse-nord has a new secret. For the partner, over a safe channel (`webhooks secret \
             show kasse-nord --reveal` shows it again):",
            "",
            &format!("  secret  {new}"),
        ]
    );
    let everywhere = lines[4]
        .strip_prefix("It signs in every function from ")
        .and_then(|rest| rest.strip_suffix(" on (where SSM can not be asked, half an hour from"));
    assert_eq!(seconds_ahead(&json!(everywhere)), 300);
    assert_eq!(lines[5], "now at the latest). Beside it:");
    assert_eq!(lines[6], format!("  the old one (v1) signs until {until}"));
    assert_eq!(lines.len(), 7);
    let put = &stage.aws.calls("PutParameter")[0];
    assert_eq!(
        (&put["Overwrite"], &put["Type"]),
        (&json!(true), &json!("SecureString"))
    );
}

#[tokio::test]
async fn a_rotation_keeps_the_scheme_unless_another_is_named() {
    let stage = stage().await;
    let key = "arn:aws:kms:eu-central-1:111122223333:key/k";
    stage.aws.set_stack_parameter("SecretsKmsKeyArn", key);
    stage.aws.set_stack_parameter("SecretCacheSeconds", "2");
    stage.set_secret("kasse-nord", &secret_for("old"));
    let rotate = ["secret", "rotate", "kasse-nord", "--overlap", "1h"];
    let report = done(&stage, &[&rotate[..], &["--scheme", "v1a"]].concat()).await;
    assert_eq!(report["scheme"], "v1a");
    assert!(report["publicKey"].as_str().unwrap().starts_with("whpk_"));
    assert_eq!(report["secret"], json!(null));
    assert_eq!(report["version"], 2);
    assert_eq!(report["overwritten"], json!(null));
    assert_eq!(seconds_ahead(&report["old"][0]["until"]), 3600);
    assert_eq!(seconds_ahead(&report["everywhereAt"]), 0);
    let report = done(&stage, &rotate).await;
    assert_eq!(report["scheme"], "v1a");
    assert_eq!(report["old"].as_array().unwrap().len(), 2);
    assert_eq!(stage.aws.calls("PutParameter")[1]["KeyId"], key);
    assert!(!report.to_string().contains("whsk_"), "{report}");
}

#[tokio::test]
async fn after_a_leak_the_old_secret_ends_at_once_as_far_as_it_can() {
    let stage = stage().await;
    for value in [secret_for("old"), "hunter2".to_owned()] {
        stage.set_secret("kasse-nord", &value);
        let ran = run(
            &stage,
            &["secret", "rotate", "kasse-nord", "--overlap", "0", "--yes"],
        )
        .await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let now = stage.aws.parameter(PARAMETER).unwrap();
        assert!(now.starts_with("whsec_") && !now.contains(' '), "{now}");
        assert!(ran.stdout.contains(&now), "{}", ran.stdout);
        assert!(
            ran.stdout.contains(
                "The old one has ended. Functions that are warm still sign with it, until"
            ),
            "{}",
            ran.stdout
        );
    }
}

#[tokio::test]
async fn what_is_refused_after_a_leak_is_told_by_the_stacks_policy() {
    let rotate = ["secret", "rotate", "kasse-nord", "--overlap", "0", "--yes"];
    for (policy, tries, told) in [
        ("standard", 8, "400, 401 or 403 is dead after 8 tries"),
        ("bounded", 1, "400, 401 or 403 is dead at once"),
        ("contract-72h", 3, "400, 401 or 403 is dead after 3 tries"),
        ("payments-24h", 1, "400, 401 or 403 is dead at once"),
    ] {
        let stage = stage().await;
        stage.aws.set_stack_parameter("RetryPolicy", policy);
        stage.set_secret("kasse-nord", &secret_for("old"));
        let ran = run(&stage, &rotate).await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(
            ran.stdout.ends_with(&format!(
                "half an hour from now at the latest).\n\
                 Until the partner has the new one it can verify nothing. By this stack's retry \
                 policy a webhook that it\nrefuses by {told}. When it has the new one, send again \
                 what is dead:\n  webhooks redrive --subscriber kasse-nord\n"
            )),
            "{}",
            ran.stdout
        );
        let report = done(&stage, &rotate).await;
        assert_eq!(
            report["refusals"][1],
            json!({"status": 401, "tries": tries})
        );
    }
    // A stack of which no policy can be told does not hold it up.
    let stage = stage().await;
    stage.aws.set_stack_parameter("RetryPolicy", "ours");
    stage.set_secret("kasse-nord", &secret_for("old"));
    let ran = run(&stage, &rotate).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.ends_with(
            "it can verify nothing. When it has the new one, send again what is dead:\n  webhooks \
             redrive --subscriber kasse-nord\n"
        ),
        "{}",
        ran.stdout
    );
}

#[tokio::test]
async fn the_old_secret_does_not_end_at_once_unless_that_is_confirmed() {
    let stage = stage().await;
    stage.set_secret("kasse-nord", &secret_for("old"));
    for overlap in ["0", "0s"] {
        let rotate = ["secret", "rotate", "kasse-nord", "--overlap", overlap];
        assert_eq!(
            failed(&stage, &rotate).await,
            (
                Some(2),
                "webhooks: --overlap 0 ends the old secrets now, whether or not the partner has the \
                 new one, and there is no terminal to ask on: confirm it by --yes\n"
                    .into()
            )
        );
    }
    assert_eq!(stage.aws.all_calls().len(), 0);
}

#[tokio::test]
async fn an_ended_secret_does_not_decide_how_the_new_one_signs() {
    let stage = stage().await;
    let ended = secret_text(Scheme::V1a, &[1; 32]);
    let value = format!("{ended};until=2020-01-01T00:00:00Z {}", secret_for("old"));
    stage.set_secret("kasse-nord", &value);
    let report = done(&stage, &["secret", "rotate", "kasse-nord"]).await;
    assert_eq!(report["scheme"], "v1");
}

#[tokio::test]
async fn an_overlap_that_leaves_a_gap_or_is_none_is_refused() {
    let stage = stage().await;
    stage.set_secret("kasse-nord", &secret_for("old"));
    let rotate = |overlap| ["secret", "rotate", "kasse-nord", "--overlap", overlap];
    let (code, said) = failed(&stage, &rotate("4m")).await;
    assert_eq!(code, Some(2));
    assert!(
        said.contains("for up to 5 min, so the overlap must not be shorter"),
        "{said}"
    );
    for overlap in ["31d", "24", "soon"] {
        let (code, said) = failed(&stage, &rotate(overlap)).await;
        assert_eq!(code, Some(2), "{overlap}: {said}");
    }
    assert_eq!(changes(&stage), NONE);
}

#[tokio::test]
async fn a_secret_that_is_not_there_or_broken_is_not_rotated() {
    let stage = stage().await;
    let (code, said) = failed(&stage, &["secret", "rotate", "kasse-nord"]).await;
    assert_eq!(code, Some(3), "{said}");
    stage.set_secret("kasse-nord", "hunter2");
    let (code, said) = failed(&stage, &["secret", "rotate", "kasse-nord"]).await;
    assert_eq!(code, Some(1));
    assert!(
        said.ends_with("`webhooks secret rotate kasse-nord --overlap 0`\n"),
        "{said}"
    );
    assert_eq!(changes(&stage), NONE);
}

#[tokio::test]
async fn a_rotation_at_the_same_moment_is_warned_of_and_can_be_found_again() {
    let stage = stage().await;
    stage.set_secret("kasse-nord", &secret_for("old"));
    stage.set_secret("kasse-nord", &secret_for("theirs"));
    let seen = json!({"Parameters": [{
        "Name": PARAMETER, "Type": "SecureString", "Value": secret_for("old"), "Version": 1,
    }], "InvalidParameters": []});
    stage.aws.next("GetParameters", [Reply::Output(seen)]);
    let ran = run(&stage, &["secret", "rotate", "kasse-nord"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stdout.ends_with(
            "Warning: somebody else changed the secret at this moment, and that change was \
             overwritten. It is kept as
version 2:
  aws ssm get-parameter --with-decryption --name /webhooks/kasse-nord/signing-secret:2
If its first secret was given to the partner already, rotate once more and give the partner that one.
"
        ),
        "{}",
        ran.stdout
    );
}

/// What SSM answers once the parameter is changed after it was written.
fn seen(value: &str, version: i64) -> Reply {
    Reply::Output(json!({"Parameters": [{
        "Name": PARAMETER, "Type": "SecureString", "Value": value, "Version": version,
    }], "InvalidParameters": []}))
}

#[tokio::test]
async fn a_secret_that_was_replaced_at_the_same_moment_is_not_given_out() {
    let rotate = ["secret", "rotate", "kasse-nord"];
    let gone = json!({"Parameters": [], "InvalidParameters": [PARAMETER]});
    for (after, how) in [
        (
            seen(
                &format!("{} {}", secret_for("theirs"), secret_for("old")),
                3,
            ),
            "version 3 of parameter /webhooks/kasse-nord/signing-secret replaced it",
        ),
        (
            Reply::Output(gone),
            "parameter /webhooks/kasse-nord/signing-secret was deleted",
        ),
    ] {
        let stage = stage().await;
        stage.set_secret("kasse-nord", &secret_for("old"));
        let replies = [Reply::Usual, after.clone(), Reply::Usual, after];
        stage.aws.next("GetParameters", replies);
        let ran = run(&stage, &rotate).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""), "{ran:?}");
        assert_eq!(
            ran.stdout,
            format!(
                "Warning: somebody else replaced the secret of kasse-nord at this moment: {how}.\n\
                 The new secret of this rotation is gone. It is not shown here, and must NOT be \
                 given to the\npartner by anybody who has it. What signs now is told by\n  webhooks \
                 secret show kasse-nord\n"
            )
        );
        let ran = run(&stage, &[&rotate[..], &["--json"]].concat()).await;
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let json = ran.json();
        assert_eq!((&json["lost"], &json["old"]), (&json!(how), &json!([])));
        assert!(!ran.stdout.contains("whsec_"), "{ran:?}");
    }
}

#[tokio::test]
async fn a_new_secret_that_ssm_shows_only_later_or_beside_another_is_there() {
    let stage = stage().await;
    stage.set_secret("kasse-nord", &secret_for("old"));
    let before = seen(&secret_for("old"), 1);
    stage
        .aws
        .next("GetParameters", [Reply::Usual, before.clone(), before]);
    let report = done(&stage, &["secret", "rotate", "kasse-nord"]).await;
    assert_eq!(report["version"], 2);
    assert_eq!(stage.aws.calls("GetParameters").len(), 4);
}

#[tokio::test]
async fn a_new_secret_that_can_not_be_read_again_is_told_with_a_warning() {
    let stage = stage().await;
    stage.set_secret("kasse-nord", &secret_for("old"));
    let denied = Reply::error(400, "AccessDeniedException");
    stage.aws.next("GetParameters", [Reply::Usual, denied]);
    let ran = run(&stage, &["secret", "rotate", "kasse-nord"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("\n  secret  whsec_"), "{ran:?}");
    assert!(
        ran.stdout
            .contains("\n\nWarning: it was written, but could not be read again: access denied"),
        "{ran:?}"
    );
}
