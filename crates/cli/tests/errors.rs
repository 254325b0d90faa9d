//! What is said when it does not work, and by which exit code.

use e2e::fake_aws::Reply;
use e2e::stage::Stage;

const WEBHOOKS: &str = env!("CARGO_BIN_EXE_webhooks");

/// Runs a command that fails, and gives its exit code and what it said.
async fn failed(stage: &Stage, arguments: &[&str]) -> (Option<i32>, String) {
    let ran = stage.run(WEBHOOKS, arguments).await;
    assert_eq!(ran.stdout, "", "{ran:?}");
    (ran.code, ran.stderr)
}

#[tokio::test]
async fn without_a_region_it_says_where_to_name_one() {
    let stage = Stage::for_command().await.without("AWS_REGION");
    assert_eq!(
        failed(&stage, &["log", "msg_1_a"]).await,
        (
            Some(1),
            "webhooks: no AWS Region: name it by --region, AWS_REGION, or `region` in the AWS \
             profile\n"
                .into()
        )
    );
    let (code, said) = failed(&stage, &["log", "msg_1_a", "--profile", "shop"]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("(is there a profile `shop`?)"), "{said}");
    let ran = stage
        .run(WEBHOOKS, &["stats", "--region", "eu-central-1"])
        .await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[tokio::test]
async fn without_credentials_it_says_how_to_sign_in() {
    let stage = Stage::for_command()
        .await
        .without("AWS_ACCESS_KEY_ID")
        .without("AWS_SECRET_ACCESS_KEY");
    let (code, said) = failed(&stage, &["stats"]).await;
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with(
            "webhooks: no AWS credentials found (`aws sso login`, `aws configure`, AWS_PROFILE or \
             --profile): "
        ),
        "{said}"
    );
    assert_eq!(stage.aws.all_calls().len(), 0);
}

#[tokio::test]
async fn what_aws_says_of_credentials_is_said_with_what_to_do() {
    for (code, expected) in [
        (
            "ExpiredToken",
            "the AWS credentials have expired, renew them (",
        ),
        (
            "InvalidClientTokenId",
            "AWS does not accept the credentials, check them (",
        ),
        (
            "AccessDenied",
            "access denied, the credentials need the permission cloudformation:DescribeStacks: \
             AccessDenied: ",
        ),
    ] {
        let stage = Stage::for_command().await;
        stage.aws.always("DescribeStacks", Reply::error(403, code));
        let (exit, said) = failed(&stage, &["log", "msg_1_a"]).await;
        assert_eq!(exit, Some(1));
        assert!(said.starts_with(&format!("webhooks: {expected}")), "{said}");
    }
}

#[tokio::test]
async fn a_permission_that_is_missing_is_named() {
    for (operation, arguments) in [
        ("GetItem", &["log", "msg_1_a"][..]),
        ("Query", &["log", "--subscriber", "a"]),
        ("Scan", &["log", "--reference", "1"]),
        ("Scan", &["stats"]),
        ("Query", &["stats", "--subscriber", "a"]),
    ] {
        let stage = Stage::for_command().await;
        stage
            .aws
            .always(operation, Reply::error(400, "AccessDeniedException"));
        let (code, said) = failed(&stage, arguments).await;
        assert_eq!(code, Some(1));
        assert_eq!(
            said,
            format!(
                "webhooks: access denied, the credentials need the permission \
                 dynamodb:{operation}: AccessDeniedException: AccessDeniedException, says the \
                 test\n"
            )
        );
    }
}

#[tokio::test]
async fn a_stack_that_is_not_there_is_not_found() {
    let stage = Stage::for_command().await;
    let expected = "webhooks: no stack `shop` in eu-central-1: name it by --stack or \
                    WEBHOOKS_STACK, and check Region and account\n";
    for arguments in [
        &["log", "msg_1_a", "--stack", "shop"][..],
        &["--stack", "shop", "schedule"],
    ] {
        assert_eq!(failed(&stage, arguments).await, (Some(3), expected.into()));
    }
    let stage = stage.with("WEBHOOKS_STACK", "shop");
    assert_eq!(failed(&stage, &["stats"]).await, (Some(3), expected.into()));
}

#[tokio::test]
async fn aws_out_of_reach_is_not_waited_for_for_ever() {
    let stage = Stage::for_command()
        .await
        .with("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
    let (code, said) = failed(&stage, &["stats"]).await;
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with("webhooks: cloudformation:DescribeStacks failed: dispatch failure"),
        "{said}"
    );
}

#[tokio::test]
async fn a_command_line_that_can_not_be_meant_is_refused() {
    let stage = Stage::for_command().await;
    for arguments in [
        &["log"][..],
        &["log", ""],
        &["log", "msg_1_a", "--subscriber", "a"],
        &["log", "--state", "dead"],
        &["log", "--subscriber", "a", "--state", "asleep"],
        &["log", "--subscriber", "a", "--since", "yesterday"],
        &["log", "--subscriber", "a b"],
        &["log", "--subscriber", "a", "--since", "1h", "--until", "1h"],
        &["stats", "--subscriber", "a b"],
        &["schedule", "--policy", "eternal"],
        &["stats", "--since", "2"],
        &["cost", "--fanout", "0"],
        &["cost", "--batch", "11"],
        &["cost", "--memory", "127"],
        &["cost", "--delivery-log", "none"],
        &["cost", "--policy", "eternal"],
        &["bless"],
        &[],
    ] {
        let (code, said) = failed(&stage, arguments).await;
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
    }
    assert_eq!(stage.aws.all_calls().len(), 0);
}

#[tokio::test]
async fn a_volume_that_can_not_be_meant_is_told_with_what_is_expected() {
    let stage = Stage::for_command().await;
    for (option, value, expected) in [
        (
            "--events",
            "1e6",
            "'--events <NUMBER>': expected a number from 1 to 1000B, such as 250k, 1.5M or 1_000_000",
        ),
        (
            "--payload",
            "2000",
            "'--payload <SIZE>': expected a size with its unit, such as 300B, 2KB or 64KiB",
        ),
        (
            "--payload",
            "2MB",
            "'--payload <SIZE>': a job must fit into 1MiB with its envelope: at most 1048311B",
        ),
        (
            "--failure-rate",
            "1",
            "'--failure-rate <RATE>': expected a rate from 0% to 100%, such as 1% or 0.01",
        ),
    ] {
        let (code, said) = failed(&stage, &["cost", option, value]).await;
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.starts_with(&format!("error: invalid value '{value}' for {expected}\n")),
            "{said}"
        );
    }
    assert_eq!(stage.aws.all_calls().len(), 0);
}

#[tokio::test]
async fn help_lists_the_exit_codes() {
    let stage = Stage::for_command().await;
    let ran = stage.run(WEBHOOKS, &["--help"]).await;
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.stdout.contains("3    what was asked for is not there"),
        "{}",
        ran.stdout
    );
}

#[tokio::test]
async fn what_is_refused_is_repeated_safely_and_a_secret_not_at_all() {
    let stage = Stage::for_command().await;
    let forged = "x\nwebhooks: well\u{1b}[2J";
    for arguments in [
        &["stats", forged][..],
        &["stats", "--since", forged],
        &[forged],
    ] {
        let (code, said) = failed(&stage, arguments).await;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.starts_with("error: "), "{said}");
        assert!(said.contains(r"x\nwebhooks: well\u{1b}[2J"), "{said}");
    }
    for arguments in [
        ["secret", "show", "a", "whsec_hidden"],
        ["secret", "rotate", "a", "whsk_hidden"],
    ] {
        let (code, said) = failed(&stage, &arguments).await;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("'whsec_…'"), "{said}");
        assert!(!said.contains("hidden"), "{said}");
    }
    let (code, said) = failed(&stage, &["log", "whsec_hidden"]).await;
    assert_eq!(code, Some(3), "{said}");
    assert!(!said.contains("hidden"), "{said}");
    let (code, said) = failed(&stage, &["log", forged]).await;
    assert_eq!(code, Some(3), "{said}");
    assert!(!said.contains("\nwebhooks:"), "{said}");
    let ran = stage.run(WEBHOOKS, &["--version"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stdout.starts_with("webhooks "), "{ran:?}");
}
