//! The stack itself, its policy, its rule and its table of records.

use super::unless_found;
use crate::doctor::check::{Check, POLICY, STACK};
use crate::doctor::findings::{Expiry, Findings, Read, Rule};

/// The attribute by which delivery records are deleted.
const EXPIRES_AT: &str = "expiresAt";

pub(super) fn checks(findings: &Findings) -> Vec<Check> {
    let mut checks = vec![status(findings)];
    checks.push(match findings.stack.policy() {
        Ok(policy) => Check::ok(
            POLICY,
            format!("{}, {} attempts at most", policy.name, policy.attempts),
        ),
        Err(error) => Check::problem(
            POLICY,
            format!("deliver can not start: {error}"),
            "mend the parameter and deploy again",
        ),
    });
    checks.extend(rule(findings, &findings.rule));
    checks.push(expiry(&findings.stack.deliveries_table, &findings.expiry));
    checks
}

fn status(findings: &Findings) -> Check {
    const SUBJECT: &str = STACK;
    let (status, name) = (&findings.stack.status, &findings.stack.name);
    let why = format!(
        "`aws cloudformation describe-stack-events --stack-name {name}` says why; then deploy again"
    );
    match status.as_str() {
        "CREATE_COMPLETE" | "UPDATE_COMPLETE" | "IMPORT_COMPLETE" => Check::ok(SUBJECT, status),
        "UPDATE_ROLLBACK_COMPLETE" => Check::warning(
            SUBJECT,
            format!("{status}: the last deployment failed and was taken back"),
            why,
        ),
        _ if status.ends_with("_IN_PROGRESS") => Check::warning(
            SUBJECT,
            format!("{status}: it is being changed"),
            "wait until that is done, and look again",
        ),
        _ => Check::problem(SUBJECT, format!("{status}: it is not as deployed"), why),
    }
}

fn rule(findings: &Findings, rule: &Read<Rule>) -> Vec<Check> {
    const SUBJECT: &str = "event rule";
    let rule = match rule {
        Ok(rule) => rule,
        Err(unread) => return vec![Check::unread(SUBJECT, unread)],
    };
    let which = format!("--name {} --event-bus-name {}", rule.name, rule.bus);
    let mut found = Vec::new();
    if rule.state != "ENABLED" {
        found.push(Check::problem(
            SUBJECT,
            format!("it is {}: no event becomes a webhook", rule.state),
            format!("`aws events enable-rule {which}`"),
        ));
    }
    if let Ok(dispatch) = findings.stack.output("DispatchFunctionName") {
        let end = format!(":function:{dispatch}");
        if !rule.targets.iter().any(|target| target.ends_with(&end)) {
            found.push(Check::problem(
                SUBJECT,
                format!("{dispatch} is not its target: no event becomes a webhook"),
                format!(
                    "put the target back as the template has it: `aws events list-targets-by-rule \
                     --rule {} --event-bus-name {}` shows what is there",
                    rule.name, rule.bus
                ),
            ));
        }
    }
    unless_found(found, || {
        Check::ok(
            SUBJECT,
            format!("enabled on the bus {}, with dispatch as target", rule.bus),
        )
    })
}

fn expiry(table: &str, expiry: &Read<Expiry>) -> Check {
    const SUBJECT: &str = "records";
    match expiry {
        Err(unread) => Check::unread(SUBJECT, unread),
        Ok(expiry) if expiry.enabled && expiry.attribute == EXPIRES_AT => {
            Check::ok(SUBJECT, "they are deleted after their 30 days")
        }
        Ok(_) => Check::warning(
            SUBJECT,
            "they are never deleted: the table grows for ever",
            format!(
                "`aws dynamodb update-time-to-live --table-name {table} \
                 --time-to-live-specification Enabled=true,AttributeName={EXPIRES_AT}`"
            ),
        ),
    }
}
