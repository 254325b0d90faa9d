//! The alarms, and whether anybody hears them.

use std::collections::BTreeMap;

use super::unless_found;
use crate::doctor::check::{Check, counted};
use crate::doctor::findings::{Alarm, Findings, Topic};

/// The alarms of the template, by their names in it.
pub(super) const ALARMS: [&str; 11] = [
    "BlockedEndpointsAlarm",
    "DeadDeliveriesAlarm",
    "DeadLettersAgeAlarm",
    "DeadLettersAlarm",
    INFLOW,
    "DeliverErrorsAlarm",
    "DispatchFailuresAlarm",
    "FirstAttemptLatencyAlarm",
    "InFlightAlarm",
    "OwnFaultsAlarm",
    "RecordErrorsAlarm",
];

/// A local AWS has no alarms on a formula.
const INFLOW: &str = "DeadLettersInflowAlarm";
const LOCAL_ACCOUNT: &str = ":000000000000:";

const SUBJECT: &str = "alarms";

pub(super) fn checks(findings: &Findings) -> Vec<Check> {
    let topic = findings.stack.output("AlarmTopicArn").unwrap_or_default();
    let mut checks = match (&findings.alarm_names, &findings.alarms) {
        (Err(unread), _) | (Ok(_), Err(unread)) => vec![Check::unread(SUBJECT, unread)],
        (Ok(names), Ok(alarms)) => of_alarms(names, alarms, topic, &findings.stack.name),
    };
    checks.push(match &findings.topic {
        Err(unread) => Check::unread("alarm topic", unread),
        Ok(heard) => of_topic(*heard, topic),
    });
    checks
}

fn of_alarms(
    names: &BTreeMap<String, String>,
    alarms: &[Alarm],
    topic: &str,
    stack: &str,
) -> Vec<Check> {
    let is_local = topic.contains(LOCAL_ACCOUNT);
    let mut found = Vec::new();
    for in_template in ALARMS {
        if in_template == INFLOW && is_local {
            continue;
        }
        let Some(name) = names.get(in_template) else {
            found.push(Check::problem(
                SUBJECT,
                format!("the stack has no {in_template}"),
                "deploy again with the template of this version",
            ));
            continue;
        };
        let Some(alarm) = alarms.iter().find(|alarm| alarm.name == *name) else {
            found.push(Check::problem(
                SUBJECT,
                format!("{in_template} ({name}) was deleted"),
                format!(
                    "CloudFormation does not see it: take {in_template} out of the template, \
                     deploy, put it back and deploy again (`aws cloudformation \
                     detect-stack-drift --stack-name {stack}` shows what else is gone)"
                ),
            ));
            continue;
        };
        if !alarm.actions_enabled {
            found.push(Check::problem(
                SUBJECT,
                format!("{in_template} tells nobody: its actions are disabled"),
                format!("`aws cloudwatch enable-alarm-actions --alarm-names {name}`"),
            ));
        }
        if !alarm.actions.iter().any(|action| action == topic) {
            found.push(Check::problem(
                SUBJECT,
                format!("{in_template} tells nobody: the alarm topic is not among its actions"),
                format!(
                    "give the alarm {name} the action {topic} again, in the console or by \
                         `aws cloudwatch put-metric-alarm`"
                ),
            ));
        }
    }
    let mut checks = unless_found(found, || {
        let number = ALARMS.len() - usize::from(is_local);
        Check::ok(
            SUBJECT,
            format!("all {number} are there and publish to the alarm topic"),
        )
    });
    for alarm in alarms.iter().filter(|alarm| alarm.rings) {
        let in_template = names.iter().find(|(_, name)| **name == alarm.name);
        let in_template = in_template.map_or(alarm.name.as_str(), |(name, _)| name);
        checks.push(Check::warning(
            SUBJECT,
            format!("{in_template} rings"),
            format!(
                "its description says what to do: `aws cloudwatch describe-alarms --alarm-names {}`",
                alarm.name
            ),
        ));
    }
    checks
}

fn of_topic(topic: Topic, arn: &str) -> Check {
    const SUBJECT: &str = "alarm topic";
    match (topic.confirmed, topic.pending) {
        (0, 0) => Check::warning(
            SUBJECT,
            "nobody is subscribed: alarms ring unheard",
            format!(
                "set the parameter AlarmEmail, or `aws sns subscribe --topic-arn {arn} --protocol \
                 email --notification-endpoint ops@example.com`"
            ),
        ),
        (0, pending) => Check::warning(
            SUBJECT,
            format!("nobody hears alarms yet: of {pending} subscribed nobody has confirmed"),
            "follow the link in the mail of AWS Notifications; it is valid for three days, then \
             subscribe again",
        ),
        (confirmed, _) => {
            let number = usize::try_from(confirmed).unwrap_or(usize::MAX);
            Check::ok(
                SUBJECT,
                format!("{} confirmed", counted(number, "subscription")),
            )
        }
    }
}
