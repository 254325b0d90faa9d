//! The functions, and what hands jobs to deliver.

use super::*;

#[test]
fn a_function_that_is_not_as_deployed_is_a_problem() {
    assert_eq!(
        deliver(|function| function.state = "Failed".into()),
        problem(
            "deliver: the function deliver is Failed",
            "`aws lambda get-function-configuration --function-name deliver` says why"
        )
    );
    assert_eq!(
        deliver(|function| function.last_update = "Failed".into()),
        problem(
            "deliver: the last update of the function deliver failed",
            "deploy again"
        )
    );
    for (name, value, told) in [
        (
            "QUEUE_URL",
            Some("https://sqs/1/other"),
            "https://sqs/1/jobs",
        ),
        ("DELIVERIES_TABLE", None, "dels"),
        ("SECRET_PREFIX", Some("other"), "webhooks"),
    ] {
        assert_eq!(
            deliver(|function| {
                function.variables.remove(name);
                let value = value.map(|value| (name.to_owned(), value.to_owned()));
                function.variables.extend(value);
            }),
            problem(
                &format!(
                    "deliver: {name} in its environment is {}, and the stack's is {told}",
                    value.unwrap_or("nothing")
                ),
                &format!(
                    "somebody has changed the function by hand: set {name} back in the Lambda \
                     console, or let `aws cloudformation detect-stack-drift --stack-name shop` \
                     show all that differs"
                )
            )
        );
    }
}

#[test]
fn versions_that_differ_and_settings_for_tests_are_warned_of() {
    let set = |name: &str, value: &str| {
        deliver(|function| {
            function.variables.insert(name.to_owned(), value.to_owned());
        })
    };
    let version = env!("CARGO_PKG_VERSION");
    let deploy = "deploy again, or install the command of the deployed version";
    assert_eq!(
        set("WEBHOOKS_VERSION", "9.9.9"),
        warning(
            &format!("deliver: it is version 9.9.9, and this command is {version}"),
            deploy
        )
    );
    assert_eq!(
        deliver(|function| {
            function.variables.remove("WEBHOOKS_VERSION");
        }),
        warning(
            &format!(
                "deliver: it does not tell its version and is older than this command, {version}"
            ),
            deploy
        )
    );
    assert_eq!(
        set("ALLOW_PRIVATE_ENDPOINTS", "true"),
        warning(
            "deliver: ALLOW_PRIVATE_ENDPOINTS is true, never in production: a partner can reach \
             into your network",
            "set the parameter AllowPrivateEndpoints to false and deploy again"
        )
    );
    assert_eq!(set("RETRY_TIME_SCALE", "1.0"), []);
    assert_eq!(
        set("RETRY_TIME_SCALE", "0.001"),
        warning(
            "deliver: RETRY_TIME_SCALE is 0.001: retries are not as far apart as the policy says",
            "set the parameter RetryTimeScale to 1 and deploy again"
        )
    );
}

#[test]
fn jobs_that_are_not_handed_to_deliver_are_a_problem() {
    let mapping = |change: fn(&mut Mapping)| {
        wrong(|findings| {
            findings
                .mappings
                .as_mut()
                .unwrap()
                .iter_mut()
                .for_each(change)
        })
    };
    assert_eq!(
        mapping(|mapping| mapping.state = "Disabled".into()),
        problem(
            "jobs to deliver: the event source mapping is Disabled: no webhook is sent",
            "`aws lambda update-event-source-mapping --uuid m1 --enabled`"
        )
    );
    assert_eq!(
        mapping(|mapping| mapping.state = "Updating".into()),
        warning(
            "jobs to deliver: the event source mapping is Updating",
            "wait until that is done, and look again"
        )
    );
    assert_eq!(
        mapping(|mapping| mapping.reports_failures = false),
        problem(
            "jobs to deliver: ReportBatchItemFailures is off: jobs that failed are deleted as if \
             they were delivered",
            "at once: `aws lambda update-event-source-mapping --uuid m1 --function-response-types \
             ReportBatchItemFailures`"
        )
    );
    assert_eq!(
        mapping(|mapping| mapping.source_arn = "arn:sqs:other".into()),
        problem(
            "jobs to deliver: nothing hands jobs to deliver: no webhook is sent",
            "make the event source mapping again as the template has it, with batches of 10 and \
             ReportBatchItemFailures"
        )
    );
}
