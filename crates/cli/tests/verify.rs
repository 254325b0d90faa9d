//! `webhooks verify`, which asks nobody: there is no AWS on its stage.

#![expect(clippy::unwrap_used, reason = "a test stops where it stands")]

use std::path::PathBuf;
use std::process::Stdio;

use e2e::command::Ran;
use e2e::stage::Stage;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

const WEBHOOKS: &str = env!("CARGO_BIN_EXE_webhooks");

/// A published example of the specification.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BODY: &str = r#"{"test": 2432232314}"#;
const REQUEST: [&str; 7] = [
    "verify",
    "--id",
    "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "--timestamp",
    "1614265330",
    "--signature",
    "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
];
const AT: [&str; 2] = ["--at", "2021-02-25T15:02:11Z"];

/// Runs it with this standard input.
async fn verify(stage: &Stage, more: &[&str], input: &str) -> Ran {
    let mut arguments = REQUEST.to_vec();
    arguments.extend(more);
    let mut command = stage.command(WEBHOOKS, &arguments);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may end without reading.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    Ran::new(child.wait_with_output().await.unwrap())
}

async fn stage() -> Stage {
    Stage::for_command()
        .await
        .without("AWS_REGION")
        .without("AWS_ACCESS_KEY_ID")
        .without("AWS_ENDPOINT_URL")
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("webhooks-verify-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

#[tokio::test]
async fn what_is_signed_as_it_must_be_is_verified() {
    let stage = stage().await;
    let given = [AT[0], AT[1], "--secret", SECRET, "--body", "-"];
    let ran = verify(&stage, &given, BODY).await;
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "verified\n"),
        "{ran:?}"
    );
    let ran = verify(&stage, &[&given[..], &["--json"]].concat(), BODY).await;
    assert_eq!(ran.code, Some(0));
    assert_eq!(
        ran.json(),
        json!({
            "verified": true,
            "message": "The signature is right.",
            "signatureIsRight": true,
            "reasons": [],
        })
    );
    assert_eq!(stage.aws.all_calls().len(), 0);
}

#[tokio::test]
async fn the_secret_need_not_stand_on_the_command_line() {
    let body = file("body", BODY);
    let body = body.to_str().unwrap();
    let from_variable = stage().await.with("WEBHOOKS_SECRET", SECRET);
    let ran = verify(&from_variable, &[AT[0], AT[1], "--body", body], "").await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let secret = file("secret", &format!("{SECRET}\n"));
    let secret = format!("@{}", secret.display());
    let stage = stage().await;
    let given = [AT[0], AT[1], "--body", body, "--secret", &secret];
    let ran = verify(&stage, &given, "").await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let help = stage.run(WEBHOOKS, &["verify", "--help"]).await;
    assert!(!help.stdout.contains(SECRET), "{help:?}");
}

#[tokio::test]
async fn why_it_does_not_match_is_said_without_the_secret() {
    let stage = stage().await;
    let given = [AT[0], AT[1], "--secret", SECRET, "--body", "-"];
    let ran = verify(&stage, &given, r#"{"test":2432232314}"#).await;
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (
            Some(1),
            "not verified: body-reserialised\n\nThe body was parsed and written anew: what was \
             signed is the same JSON with a space after `:` and `,`. Verify the raw body, before \
             it is parsed. Apart from that, the signature is right.\n"
        )
    );
    let given = [
        "--secret",
        SECRET,
        "--body",
        "-",
        "--json",
        "--at",
        "2021-02-25T15:12:10Z",
    ];
    let ran = verify(&stage, &given, BODY).await;
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        ran.json(),
        json!({
            "verified": false,
            "reason": "too-old",
            "message": "`webhook-timestamp` is 600 seconds ago, more than the 300 that are \
                        allowed: this clock is fast, or the request is an old one. Apart from \
                        that, the signature is right.",
            "signatureIsRight": true,
            "reasons": ["too-old"],
        })
    );
    let wrong = format!("{SECRET}x");
    let ran = verify(&stage, &["--secret", &wrong, "--body", "-"], BODY).await;
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stdout.starts_with("not verified: secret-alphabet\n"),
        "{ran:?}"
    );
    assert!(!format!("{ran:?}").contains(&SECRET[6..14]), "{ran:?}");
}

#[tokio::test]
async fn what_can_not_be_read_is_named() {
    let stage = stage().await;
    for (given, said) in [
        (
            ["--secret", SECRET, "--body", "/nonexistent/body"],
            "webhooks: the body can not be read from `/nonexistent/body`: No such file or \
             directory (os error 2)\n",
        ),
        (
            ["--secret", "@/nonexistent/secret", "--body", "-"],
            "webhooks: the secret can not be read from `/nonexistent/secret`: No such file or \
             directory (os error 2)\n",
        ),
        (
            ["--secret", "@-", "--body", "-"],
            "webhooks: standard input can not be both the body and the secret\n",
        ),
        (
            ["--secret", "@/dev/zero", "--body", "-"],
            "webhooks: the secret in `/dev/zero` is longer than the 65536 bytes it may have\n",
        ),
        (
            ["--secret", SECRET, "--body", "/dev/zero"],
            "webhooks: the body in `/dev/zero` is longer than the 16777216 bytes it may have\n",
        ),
        (
            [
                "--secret",
                "@whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                "--body",
                "-",
            ],
            "webhooks: --secret: `@` is for the name of a file; leave it out before a secret\n",
        ),
    ] {
        let ran = verify(&stage, &given, BODY).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), said));
    }
    let ran = verify(&stage, &["--body", "-"], BODY).await;
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("--secret <SECRET>"), "{ran:?}");
}
