//! `webhooks doctor` on a stack as it is after a deployment, and with things broken in it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where it stands"
)]

use e2e::fake_aws::{Reply, operations};
use e2e::signature::secret_for;
use e2e::stage::{DEAD_LETTER_QUEUE_URL, Stage};
use serde_json::{Value, json};

const WEBHOOKS: &str = env!("CARGO_BIN_EXE_webhooks");

/// A stack with one partner, and nothing wrong with it.
async fn stage() -> Stage {
    let stage = Stage::for_command().await;
    stage.aws.set_stack_parameter("EventTypes", "OrderPaid");
    stage
        .aws
        .put_subscription("OrderPaid", "kasse-nord", "https://192.0.9.1/hook");
    stage.set_secret("kasse-nord", &secret_for("kasse-nord"));
    stage
}

/// The checks that are not ok, each as `level subject: found`.
async fn wrong(stage: &Stage, code: i32) -> Vec<String> {
    let ran = stage.run(WEBHOOKS, &["doctor", "--json"]).await;
    assert_eq!(ran.code, Some(code), "{ran:?}");
    let json = ran.json();
    let text = |check: &Value, name: &str| check[name].as_str().unwrap().to_owned();
    let checks = json["checks"].as_array().unwrap().iter();
    checks
        .filter(|check| check["level"] != "ok")
        .map(|check| {
            format!(
                "{} {}: {}",
                text(check, "level"),
                text(check, "subject"),
                text(check, "found")
            )
        })
        .collect()
}

#[tokio::test]
async fn a_stack_with_which_nothing_is_wrong_is_green() {
    let ran = stage().await.run(WEBHOOKS, &["doctor"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        ran.stdout,
        "ok           stack              UPDATE_COMPLETE\n\
         ok           retry policy       standard, 8 attempts at most\n\
         ok           event rule         enabled on the bus sqs-webhooks, with dispatch as target\n\
         ok           records            they are deleted after their 30 days\n\
         ok           dispatch           sqs-webhooks-dispatch is active and told what the stack is\n\
         ok           deliver            sqs-webhooks-deliver is active and told what the stack is\n\
         ok           jobs to deliver    enabled, and deliver reports each failed job\n\
         ok           jobs queue         visibility, retention and receives agree with deliver (0 messages)\n\
         ok           dead letters       none, and they would be kept for 14 days\n\
         ok           dispatch failures  it is empty\n\
         ok           subscriptions      1 subscription enabled, of 1 subscriber\n\
         ok           secrets            1 subscriber can be signed for\n\
         ok           alarms             all 11 are there and publish to the alarm topic\n\
         ok           alarm topic        1 subscription confirmed\n\n\
         sqs-webhooks: no problem, no warning\n"
    );
}

#[tokio::test]
async fn each_of_five_things_that_are_broken_is_named_with_its_mending() {
    let stage = stage().await;
    let rule = json!({"Name": "r", "EventBusName": "b", "State": "DISABLED"});
    stage.aws.always("DescribeRule", Reply::Output(rule));
    stage.aws.put_dead_letter("m1", 1_796_000_000_000, "{}");
    stage
        .aws
        .put_subscription("OrderPaid", "kasse-sued", "https://10.0.0.1/");
    stage.aws.rule("DescribeAlarms", |input| {
        let Reply::Output(mut output) = operations::alarms(input) else {
            unreachable!("it is always answered");
        };
        let mut alarms = output["MetricAlarms"].as_array_mut().unwrap().iter_mut();
        let dead = alarms
            .find(|alarm| alarm["AlarmName"] == "sqs-webhooks-DeadDeliveriesAlarm-1")
            .unwrap();
        dead["ActionsEnabled"] = false.into();
        Reply::Output(output)
    });
    assert_eq!(
        wrong(&stage, 1).await,
        [
            "problem event rule: it is DISABLED: no event becomes a webhook",
            "problem dead letters: 1 delivery is dead",
            "problem subscriptions: kasse-sued, OrderPaid: its url is not allowed, nothing is \
             sent: 10.0.0.1 is not a public address: it is a private network",
            "problem secrets: kasse-sued: there is no parameter \
             /webhooks/kasse-sued/signing-secret, nothing is sent",
            "problem alarms: DeadDeliveriesAlarm tells nobody: its actions are disabled",
        ]
    );
    let ran = stage.run(WEBHOOKS, &["doctor"]).await;
    assert!(
        ran.stdout.contains("→ `aws cloudwatch enable-alarm-actions --alarm-names sqs-webhooks-DeadDeliveriesAlarm-1`\n"),
        "{ran:?}"
    );
    assert!(
        ran.stdout
            .ends_with("sqs-webhooks: 5 problems, no warning\n"),
        "{ran:?}"
    );
    assert_eq!(stage.aws.dead_letters(), [("m1".to_owned(), true)]);
}

#[tokio::test]
async fn warnings_alone_do_not_fail() {
    let stage = stage().await;
    stage
        .aws
        .always("GetTopicAttributes", operations::topic(0, 1));
    stage.aws.rule("GetFunctionConfiguration", |input| {
        let Reply::Output(mut output) = operations::function(input) else {
            unreachable!("it is always answered");
        };
        let variables = &mut output["Environment"]["Variables"];
        variables["WEBHOOKS_VERSION"] = "0.0.1".into();
        Reply::Output(output)
    });
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        wrong(&stage, 0).await,
        [
            format!("warning dispatch: it is version 0.0.1, and this command is {version}"),
            format!("warning deliver: it is version 0.0.1, and this command is {version}"),
            "warning alarm topic: nobody hears alarms yet: of 1 subscribed nobody has confirmed"
                .to_owned(),
        ]
    );
}

#[tokio::test]
async fn what_may_not_be_read_is_not_checked_and_not_the_end() {
    let stage = stage().await;
    for (operation, code) in [
        ("ListStackResources", "AccessDenied"),
        ("GetTopicAttributes", "AuthorizationError"),
        ("GetFunctionConfiguration", "AccessDeniedException"),
        ("ListEventSourceMappings", "AccessDeniedException"),
        ("DescribeRule", "AccessDeniedException"),
        ("DescribeTimeToLive", "AccessDeniedException"),
        ("GetQueueAttributes", "AccessDenied"),
        ("GetParameters", "AccessDeniedException"),
    ] {
        stage.aws.always(operation, Reply::error(403, code));
    }
    let needs = |subject: &str, action: &str| {
        format!("notChecked {subject}: needs the permission {action}")
    };
    assert_eq!(
        wrong(&stage, 0).await,
        [
            needs("event rule", "events:DescribeRule"),
            needs("records", "dynamodb:DescribeTimeToLive"),
            needs("dispatch", "lambda:GetFunctionConfiguration"),
            needs("deliver", "lambda:GetFunctionConfiguration"),
            needs("jobs to deliver", "lambda:ListEventSourceMappings"),
            needs("jobs queue", "sqs:GetQueueAttributes"),
            needs("dead letters", "sqs:GetQueueAttributes"),
            needs("dispatch failures", "sqs:GetQueueAttributes"),
            "notChecked secrets: kasse-nord: needs the permission ssm:GetParameters".to_owned(),
            needs("alarms", "cloudformation:ListStackResources"),
            needs("alarm topic", "sns:GetTopicAttributes"),
        ]
    );
    let stage = self::stage().await;
    stage
        .aws
        .always("DescribeAlarms", Reply::error(403, "AccessDenied"));
    stage
        .aws
        .always("Scan", Reply::error(400, "AccessDeniedException"));
    assert_eq!(
        wrong(&stage, 0).await,
        [
            needs("subscriptions", "dynamodb:Scan"),
            needs("secrets", "dynamodb:Scan"),
            needs("alarms", "cloudwatch:DescribeAlarms"),
        ]
    );
}

#[tokio::test]
async fn a_doctor_that_may_look_at_nothing_does_not_say_that_all_is_well() {
    let stage = stage().await;
    for operation in [
        "ListStackResources",
        "GetTopicAttributes",
        "GetFunctionConfiguration",
        "ListEventSourceMappings",
        "DescribeRule",
        "DescribeTimeToLive",
        "GetQueueAttributes",
        "Scan",
    ] {
        let denied = Reply::error(400, "AccessDeniedException");
        stage.aws.always(operation, denied);
    }
    let ran = stage.run(WEBHOOKS, &["doctor"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stdout.ends_with(
            "sqs-webhooks: no problem, no warning\n12 checks could not be made: event rule, \
             records, dispatch, deliver, jobs to deliver, jobs queue, dead letters, dispatch \
             failures, subscriptions, secrets, alarms, alarm topic\n"
        ),
        "{ran:?}"
    );
    let json = stage.run(WEBHOOKS, &["doctor", "--json"]).await.json();
    assert_eq!(json["notChecked"], 12);
}

#[tokio::test]
async fn what_a_local_aws_does_not_know_is_not_checked() {
    let stage = stage().await;
    let unknown = Reply::error(400, "InvalidAction");
    stage.aws.always("DescribeAlarms", unknown.clone());
    stage.aws.always("GetTopicAttributes", unknown);
    assert_eq!(
        wrong(&stage, 0).await,
        [
            "notChecked alarms: cloudwatch:DescribeAlarms failed: InvalidAction: InvalidAction, \
             says the test",
            "notChecked alarm topic: sns:GetTopicAttributes failed: InvalidAction: InvalidAction, \
             says the test",
        ]
    );
}

#[tokio::test]
async fn a_secret_that_is_no_secure_string_is_warned_of() {
    let stage = stage().await;
    let name = "/webhooks/kasse-nord/signing-secret";
    let answer = json!({"InvalidParameters": [], "Parameters": [{
        "Name": name,
        "Type": "String",
        "Value": secret_for("kasse-nord"),
        "Version": 1,
    }]});
    stage.aws.always("GetParameters", Reply::Output(answer));
    assert_eq!(
        wrong(&stage, 0).await,
        [format!(
            "warning secrets: kasse-nord: {name} is not a SecureString: it is not encrypted, and \
             shown to whoever may read parameters"
        )]
    );
}

#[tokio::test]
async fn names_are_resolved_unless_that_is_not_wanted() {
    let stage = stage().await;
    let url = "https://no-such-host.sqs-webhooks.example/";
    stage.aws.put_subscription("OrderPaid", "kasse-nord", url);
    let found = wrong(&stage, 0).await;
    let [warning] = &found[..] else {
        panic!("{found:?}");
    };
    assert!(
        warning.starts_with(
            "warning subscriptions: kasse-nord, OrderPaid: no-such-host.sqs-webhooks.example can \
             not be resolved from here: "
        ),
        "{warning}"
    );
    let ran = stage.run(WEBHOOKS, &["doctor", "--no-resolve"]).await;
    assert!(ran.stdout.ends_with("no problem, no warning\n"), "{ran:?}");
}

#[tokio::test]
async fn a_stack_that_is_not_there_or_can_not_be_asked_about_ends_it() {
    let stage = stage().await;
    let ran = stage.run(WEBHOOKS, &["doctor", "--stack", "shop"]).await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    stage
        .aws
        .always("DescribeStacks", Reply::error(403, "AccessDenied"));
    let ran = stage.run(WEBHOOKS, &["doctor"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr
            .contains("need the permission cloudformation:DescribeStacks"),
        "{ran:?}"
    );
    let stage = Stage::for_command()
        .await
        .without("AWS_ACCESS_KEY_ID")
        .without("AWS_SECRET_ACCESS_KEY");
    let ran = stage.run(WEBHOOKS, &["doctor"]).await;
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.starts_with("webhooks: no AWS credentials found"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn the_queue_of_the_stack_is_only_looked_at() {
    let stage = stage().await;
    stage.aws.put_dead_letter("m1", 1_796_000_000_000, "{}");
    let ran = stage.run(WEBHOOKS, &["doctor", "--no-resolve"]).await;
    assert_eq!(ran.code, Some(1));
    let asked = stage.aws.calls("GetQueueAttributes");
    assert!(
        asked
            .iter()
            .any(|input| input["QueueUrl"] == DEAD_LETTER_QUEUE_URL)
    );
    assert_eq!(stage.aws.calls("ReceiveMessage"), [] as [Value; 0]);
}
