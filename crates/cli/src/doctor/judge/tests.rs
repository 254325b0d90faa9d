//! Every check to the letter, each from a stack with which nothing else is wrong.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use webhooks_core::identity::SubscriberId;
use webhooks_core::timestamp;
use webhooks_shell::records::Item;

use super::alarms::ALARMS;
use super::*;
use crate::doctor::check::Level;
use crate::doctor::findings::{
    Alarm, Expiry, Function, Mapping, Queue, Redrive, Resolution, Rule, Topic, Unread,
};
use crate::parameters::{Parameter, Value};
use crate::stack::Stack;
use crate::subscriptions::Entry;

mod alarms;
mod functions;
mod partners;
mod queues;

const TOPIC: &str = "arn:aws:sns:eu-central-1:111122223333:alarms";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn texts<const N: usize>(pairs: [(&str, &str); N]) -> HashMap<String, String> {
    let pairs = pairs.into_iter();
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn queue(name: &str, days: u64) -> Queue {
    Queue {
        url: format!("https://sqs/1/{name}"),
        arn: format!("arn:sqs:{name}"),
        visibility_seconds: 30,
        retention_seconds: days * 86_400,
        redrive: None,
        messages: 0,
    }
}

fn row(subscriber: &str, event_type: &str, url: &str) -> Item {
    let s = |text: &str| AttributeValue::S(text.to_owned());
    Item::from([
        ("eventType".to_owned(), s(event_type)),
        ("subscriberId".to_owned(), s(subscriber)),
        ("url".to_owned(), s(url)),
        ("enabled".to_owned(), AttributeValue::Bool(true)),
    ])
}

fn kasse() -> SubscriberId {
    SubscriberId::parse("kasse").unwrap()
}

fn parameter(value: &str) -> Parameter {
    Parameter {
        value: Value::new(value.to_owned()),
        version: 1,
        is_secure: true,
    }
}

fn green() -> Findings {
    let name = |alarm: &str| format!("shop-{alarm}");
    let now = timestamp::parse("2026-11-30T12:00:00Z").unwrap();
    Findings {
        now,
        stack: Stack {
            name: "shop".into(),
            subscriptions_table: "subs".into(),
            deliveries_table: "dels".into(),
            jobs_queue_url: "https://sqs/1/jobs".into(),
            dead_letter_queue_url: "https://sqs/1/dlq".into(),
            secret_prefix: "webhooks".into(),
            outputs: texts([
                ("AlarmTopicArn", TOPIC),
                ("DispatchFunctionName", "dispatch"),
            ]),
            parameters: texts([("EventTypes", "OrderPaid"), ("DeliverTimeoutSeconds", "30")]),
            status: "UPDATE_COMPLETE".into(),
        },
        alarm_names: Ok(ALARMS
            .iter()
            .map(|alarm| ((*alarm).to_owned(), name(alarm)))
            .collect()),
        alarms: Ok(ALARMS
            .iter()
            .map(|alarm| Alarm {
                name: name(alarm),
                actions_enabled: true,
                actions: vec![TOPIC.to_owned()],
                rings: false,
            })
            .collect()),
        topic: Ok(Topic {
            confirmed: 2,
            pending: 0,
        }),
        jobs: Ok(Queue {
            visibility_seconds: 180,
            redrive: Some(Redrive {
                target_arn: "arn:sqs:dlq".into(),
                most_receives: 38,
            }),
            ..queue("jobs", 7)
        }),
        dead_letters: Ok(queue("dlq", 14)),
        dispatch_failures: Ok(queue("failures", 14)),
        deliver: Ok(Function {
            name: "deliver".into(),
            state: "Active".into(),
            last_update: "Successful".into(),
            timeout_seconds: 30,
            variables: texts([
                ("QUEUE_URL", "https://sqs/1/jobs"),
                ("TABLE_NAME", "subs"),
                ("DELIVERIES_TABLE", "dels"),
                ("SECRET_PREFIX", "webhooks"),
                ("WEBHOOKS_VERSION", env!("CARGO_PKG_VERSION")),
                ("VISIBILITY_TIMEOUT_SECONDS", "180"),
                ("MAX_RECEIVE_COUNT", "38"),
                ("RETRY_TIME_SCALE", "1"),
                ("ALLOW_PRIVATE_ENDPOINTS", "false"),
            ]),
        }),
        dispatch: Ok(Function {
            name: "dispatch".into(),
            state: "Active".into(),
            last_update: "Successful".into(),
            timeout_seconds: 60,
            variables: texts([
                ("QUEUE_URL", "https://sqs/1/jobs"),
                ("TABLE_NAME", "subs"),
                ("WEBHOOKS_VERSION", env!("CARGO_PKG_VERSION")),
            ]),
        }),
        mappings: Ok(vec![Mapping {
            id: "m1".into(),
            state: "Enabled".into(),
            source_arn: "arn:sqs:jobs".into(),
            reports_failures: true,
        }]),
        rule: Ok(Rule {
            name: "rule".into(),
            bus: "shop".into(),
            state: "ENABLED".into(),
            targets: vec!["arn:aws:lambda:eu-central-1:1:function:dispatch".into()],
        }),
        expiry: Ok(Expiry {
            enabled: true,
            attribute: "expiresAt".into(),
        }),
        rows: Ok(vec![
            Entry::read(row("kasse", "OrderPaid", "https://k.example/")).unwrap(),
        ]),
        secrets: BTreeMap::from([(kasse(), Ok(Some(parameter(SECRET))))]),
        hosts: BTreeMap::from([("k.example".to_owned(), Resolution::Allowed)]),
    }
}

/// What is not ok, and how it is mended.
fn wrong(change: impl FnOnce(&mut Findings)) -> Vec<(Level, String, String)> {
    let mut findings = green();
    change(&mut findings);
    all(&findings)
        .into_iter()
        .filter(|check| check.level != Level::Ok)
        .map(|check| {
            let found = format!("{}: {}", check.subject, check.found);
            (check.level, found, check.mend.unwrap_or_default())
        })
        .collect()
}

fn problem(found: &str, mend: &str) -> Vec<(Level, String, String)> {
    vec![(Level::Problem, found.to_owned(), mend.to_owned())]
}

fn warning(found: &str, mend: &str) -> Vec<(Level, String, String)> {
    vec![(Level::Warning, found.to_owned(), mend.to_owned())]
}

fn jobs(change: impl FnOnce(&mut Queue)) -> Vec<(Level, String, String)> {
    wrong(|findings| change(findings.jobs.as_mut().unwrap()))
}

fn deliver(change: impl FnOnce(&mut Function)) -> Vec<(Level, String, String)> {
    wrong(|findings| change(findings.deliver.as_mut().unwrap()))
}

/// With a row of this kind in the place of the good one.
fn with_row(change: impl FnOnce(&mut Item)) -> Vec<(Level, String, String)> {
    wrong(|findings| {
        let mut item = row("kasse", "OrderPaid", "https://k.example/");
        change(&mut item);
        findings.rows = Ok(vec![Entry::read(item).unwrap()]);
    })
}

fn with_secret(value: &str) -> Vec<(Level, String, String)> {
    wrong(|findings| {
        findings.secrets = BTreeMap::from([(kasse(), Ok(Some(parameter(value))))]);
    })
}

#[test]
fn nothing_is_wrong_with_a_stack_as_it_is_deployed() {
    assert_eq!(wrong(|_| {}), []);
    assert_eq!(all(&green()).len(), 14);
}

#[test]
fn a_stack_whose_deployment_did_not_end_well_is_told() {
    let status = |status: &str| wrong(|findings| findings.stack.status = status.to_owned());
    assert_eq!(status("CREATE_COMPLETE"), []);
    let why = "`aws cloudformation describe-stack-events --stack-name shop` says why; then deploy \
               again";
    assert_eq!(
        status("UPDATE_ROLLBACK_COMPLETE"),
        warning(
            "stack: UPDATE_ROLLBACK_COMPLETE: the last deployment failed and was taken back",
            why
        )
    );
    assert_eq!(
        status("UPDATE_IN_PROGRESS"),
        warning(
            "stack: UPDATE_IN_PROGRESS: it is being changed",
            "wait until that is done, and look again"
        )
    );
    assert_eq!(
        status("UPDATE_ROLLBACK_FAILED"),
        problem("stack: UPDATE_ROLLBACK_FAILED: it is not as deployed", why)
    );
    assert_eq!(
        wrong(|findings| {
            findings.stack.parameters = texts([("RetryAttempts", "9"), ("MaxReceiveCount", "38")]);
        }),
        problem(
            "retry policy: deliver can not start: the stack `shop`: 9 attempts and 30 spare \
             receives are more than the queue's maxReceiveCount of 38",
            "mend the parameter and deploy again"
        )
    );
}

#[test]
fn a_rule_that_hands_nothing_on_is_a_problem() {
    let rule = |change: fn(&mut Rule)| wrong(|findings| change(findings.rule.as_mut().unwrap()));
    assert_eq!(
        rule(|rule| rule.state = "DISABLED".into()),
        problem(
            "event rule: it is DISABLED: no event becomes a webhook",
            "`aws events enable-rule --name rule --event-bus-name shop`"
        )
    );
    assert_eq!(
        rule(|rule| rule.targets.clear()),
        problem(
            "event rule: dispatch is not its target: no event becomes a webhook",
            "put the target back as the template has it: `aws events list-targets-by-rule --rule \
             rule --event-bus-name shop` shows what is there"
        )
    );
}

#[test]
fn records_that_are_never_deleted_are_told() {
    assert_eq!(
        wrong(|findings| findings.expiry.as_mut().unwrap().enabled = false),
        warning(
            "records: they are never deleted: the table grows for ever",
            "`aws dynamodb update-time-to-live --table-name dels --time-to-live-specification \
             Enabled=true,AttributeName=expiresAt`"
        )
    );
}

#[test]
fn what_could_not_be_read_is_not_checked_and_changes_no_other_check() {
    let unread = || Unread::Denied("x:Y".into());
    let found = wrong(|findings| {
        findings.deliver = Err(unread());
        findings.dead_letters = Err(unread());
        findings.alarms = Err(unread());
        findings.secrets = BTreeMap::from([(kasse(), Err(unread()))]);
    });
    let subjects: Vec<_> = found
        .iter()
        .map(|(level, found, _)| (*level, found.as_str()))
        .collect();
    assert_eq!(
        subjects,
        [
            (Level::NotChecked, "deliver: needs the permission x:Y"),
            (Level::NotChecked, "dead letters: needs the permission x:Y"),
            (
                Level::NotChecked,
                "secrets: kasse: needs the permission x:Y"
            ),
            (Level::NotChecked, "alarms: needs the permission x:Y"),
        ]
    );
}
