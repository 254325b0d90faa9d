//! The functions, what they are told, and what hands jobs to deliver.

use super::unless_found;
use crate::doctor::check::{Check, Level};
use crate::doctor::findings::{Findings, Function, Mapping, Read};
use crate::stack::Stack;

/// The version of this command, which is that of the template and the functions beside it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

const DELIVER: &str = "deliver";

pub(super) fn checks(findings: &Findings) -> Vec<Check> {
    let stack = &findings.stack;
    let jobs = ("QUEUE_URL", stack.jobs_queue_url.as_str());
    let subscriptions = ("TABLE_NAME", stack.subscriptions_table.as_str());
    let mut checks = of_function(
        "dispatch",
        &findings.dispatch,
        stack,
        &[jobs, subscriptions],
        None,
    );
    let told = [
        jobs,
        subscriptions,
        ("DELIVERIES_TABLE", &stack.deliveries_table),
        ("SECRET_PREFIX", &stack.secret_prefix),
    ];
    let timeout = deployed_timeout(stack);
    checks.extend(of_function(
        DELIVER,
        &findings.deliver,
        stack,
        &told,
        timeout,
    ));
    if let Ok(deliver) = &findings.deliver {
        checks.extend(not_for_production(deliver));
    }
    checks.extend(of_mappings(findings));
    checks
}

fn of_function(
    subject: &'static str,
    function: &Read<Function>,
    stack: &Stack,
    told: &[(&str, &str)],
    timeout_seconds: Option<u64>,
) -> Vec<Check> {
    let function = match function {
        Ok(function) => function,
        Err(unread) => return vec![Check::unread(subject, unread)],
    };
    let mut found = Vec::new();
    if function.state != "Active" && function.state != "Inactive" {
        found.push(Check::problem(
            subject,
            format!("the function {} is {}", function.name, function.state),
            format!(
                "`aws lambda get-function-configuration --function-name {}` says why",
                function.name
            ),
        ));
    }
    if function.last_update == "Failed" {
        found.push(Check::problem(
            subject,
            format!("the last update of the function {} failed", function.name),
            "deploy again",
        ));
    }
    if let Some(expected) = timeout_seconds
        && function.timeout_seconds != expected
    {
        found.push(Check::problem(
            subject,
            format!(
                "its timeout is {} s, and the stack's is {expected} s: attempts and the jobs queue \
                 go by that",
                function.timeout_seconds
            ),
            format!(
                "`aws lambda update-function-configuration --function-name {} --timeout {expected}`",
                function.name
            ),
        ));
    }
    for (name, expected) in told {
        let value = function.variables.get(*name);
        if value.is_none_or(|value| value != expected) {
            let value = value.map_or("nothing", String::as_str);
            found.push(Check::problem(
                subject,
                format!("{name} in its environment is {value}, and the stack's is {expected}"),
                format!(
                    "somebody has changed the function by hand: set {name} back in the Lambda \
                     console, or let `aws cloudformation detect-stack-drift --stack-name {}` show \
                     all that differs",
                    stack.name
                ),
            ));
        }
    }
    found.extend(of_version(subject, function));
    let is_well = found.iter().all(|check| check.level == Level::Warning);
    if is_well {
        found.insert(
            0,
            Check::ok(
                subject,
                format!("{} is active and told what the stack is", function.name),
            ),
        );
    }
    found
}

/// How long an invocation of deliver may take as the stack was deployed, in seconds.
pub(super) fn deployed_timeout(stack: &Stack) -> Option<u64> {
    stack.parameter("DeliverTimeoutSeconds")?.parse().ok()
}

fn of_version(subject: &'static str, function: &Function) -> Option<Check> {
    let found = match function.variables.get("WEBHOOKS_VERSION") {
        Some(version) if version == VERSION => return None,
        Some(version) => format!("it is version {version}, and this command is {VERSION}"),
        None => format!("it does not tell its version and is older than this command, {VERSION}"),
    };
    let mend = "deploy again, or install the command of the deployed version";
    Some(Check::warning(subject, found, mend))
}

/// Settings that only demos and tests want.
fn not_for_production(deliver: &Function) -> Vec<Check> {
    let mut found = Vec::new();
    if deliver
        .variables
        .get("ALLOW_PRIVATE_ENDPOINTS")
        .map(String::as_str)
        == Some("true")
    {
        found.push(Check::warning(
            DELIVER,
            "ALLOW_PRIVATE_ENDPOINTS is true, never in production: a partner can reach into your \
             network",
            "set the parameter AllowPrivateEndpoints to false and deploy again",
        ));
    }
    let scale = deliver.variables.get("RETRY_TIME_SCALE");
    let scale = scale.filter(|text| text.parse() != Ok(1.0_f64));
    if let Some(scale) = scale {
        found.push(Check::warning(
            DELIVER,
            format!("RETRY_TIME_SCALE is {scale}: retries are not as far apart as the policy says"),
            "set the parameter RetryTimeScale to 1 and deploy again",
        ));
    }
    found
}

fn of_mappings(findings: &Findings) -> Vec<Check> {
    const SUBJECT: &str = "jobs to deliver";
    let mappings = match &findings.mappings {
        Ok(mappings) => mappings,
        Err(unread) => return vec![Check::unread(SUBJECT, unread)],
    };
    let name = findings.stack.jobs_queue_url.rsplit('/').next();
    let end = format!(":{}", name.unwrap_or_default());
    let Some(mapping) = mappings
        .iter()
        .find(|mapping| mapping.source_arn.ends_with(&end))
    else {
        return vec![Check::problem(
            SUBJECT,
            "nothing hands jobs to deliver: no webhook is sent",
            "make the event source mapping again as the template has it, with batches of 10 and \
             ReportBatchItemFailures",
        )];
    };
    unless_found(of_mapping(SUBJECT, mapping), || {
        Check::ok(SUBJECT, "enabled, and deliver reports each failed job")
    })
}

fn of_mapping(subject: &'static str, mapping: &Mapping) -> Vec<Check> {
    let update = format!(
        "aws lambda update-event-source-mapping --uuid {}",
        mapping.id
    );
    let mut found = Vec::new();
    match mapping.state.as_str() {
        "Enabled" => {}
        "Creating" | "Enabling" | "Updating" => found.push(Check::warning(
            subject,
            format!("the event source mapping is {}", mapping.state),
            "wait until that is done, and look again",
        )),
        state => found.push(Check::problem(
            subject,
            format!("the event source mapping is {state}: no webhook is sent"),
            format!("`{update} --enabled`"),
        )),
    }
    if !mapping.reports_failures {
        found.push(Check::problem(
            subject,
            "ReportBatchItemFailures is off: jobs that failed are deleted as if they were delivered",
            format!("at once: `{update} --function-response-types ReportBatchItemFailures`"),
        ));
    }
    found
}
