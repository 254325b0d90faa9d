//! The subscriptions: rows, urls and secrets.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use webhooks_core::header::is_reserved;
use webhooks_core::identity::SubscriberId;
use webhooks_core::secret::parameter_name;
use webhooks_core::subscription::Subscription;

use crate::doctor::check::{Check, Level, counted};
use crate::doctor::findings::{Findings, Read, Resolution};
use crate::moment::Time;
use crate::parameters::Value;
use crate::subscriptions::Entry;

/// A secret that ends sooner than this needs a successor.
const SOON: Duration = Duration::from_hours(7 * 24);

const ROWS: &str = "subscriptions";
const SECRETS: &str = "secrets";

pub(super) fn checks(findings: &Findings) -> Vec<Check> {
    let rows = match &findings.rows {
        Ok(rows) => rows,
        Err(unread) => {
            return vec![Check::unread(ROWS, unread), Check::unread(SECRETS, unread)];
        }
    };
    if rows.is_empty() {
        let mend = "`webhooks subscribe SUBSCRIBER --event TYPE --url URL`";
        return vec![Check::info(ROWS, "nobody is subscribed yet", mend)];
    }
    let enabled: Vec<&Subscription> = rows
        .iter()
        .filter_map(|row| row.subscription.as_ref().ok())
        .filter(|subscription| subscription.enabled)
        .collect();
    let whose: BTreeSet<&SubscriberId> = enabled.iter().map(|row| &row.subscriber_id).collect();
    let of_rows = rows.iter().flat_map(|row| of_row(findings, row)).collect();
    let mut checks = with_summary(
        ROWS,
        of_rows,
        format!(
            "{} enabled, of {}",
            counted(enabled.len(), "subscription"),
            counted(whose.len(), "subscriber")
        ),
    );
    let of_secrets = findings.secrets.iter().filter_map(|(subscriber, secret)| {
        of_secret(
            subscriber,
            secret,
            &findings.stack.secret_prefix,
            findings.now,
        )
    });
    checks.extend(with_summary(
        SECRETS,
        of_secrets.collect(),
        format!("{} can be signed for", counted(whose.len(), "subscriber")),
    ));
    checks
}

/// With a line before them that says that all is well, if nothing of them is wrong.
fn with_summary(subject: &'static str, mut checks: Vec<Check>, all_is_well: String) -> Vec<Check> {
    if checks.iter().all(|check| check.level == Level::Info) {
        checks.insert(0, Check::ok(subject, all_is_well));
    }
    checks
}

fn of_row(findings: &Findings, row: &Entry) -> Vec<Check> {
    let (subscriber, event_type) = (&row.subscriber_id, &row.event_type);
    let which = format!("{subscriber}, {event_type}");
    let subscription = match &row.subscription {
        Ok(subscription) => subscription,
        Err(error) => {
            let mend = row.mend(&findings.stack.subscriptions_table);
            return vec![Check::problem(
                ROWS,
                format!("{which}: the row is broken, nothing is sent: {error}"),
                mend.unwrap_or_default(),
            )];
        }
    };
    if !subscription.enabled {
        let reason = row.disabled_reason.as_deref();
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        let since = row.disabled_at.map(|at| format!(" since {at}"));
        return vec![Check::info(
            ROWS,
            format!("{which}: switched off{}{reason}", since.unwrap_or_default()),
            format!("`webhooks enable {subscriber} --event {event_type}` when it is wanted again"),
        )];
    }
    let mut found: Vec<Check> = of_url(findings, subscription, &which, event_type)
        .into_iter()
        .collect();
    for name in row.headers.keys().filter(|name| is_reserved(name)) {
        found.push(Check::warning(
            ROWS,
            format!("{which}: the header `{name}` is not sent, it is not a subscription's to set"),
            "take it out of the row's `headers`",
        ));
    }
    let types = findings.stack.event_types();
    if !types.is_empty() && !types.contains(&event_type.as_str()) {
        found.push(Check::warning(
            ROWS,
            format!("{which}: the rule lets no such event through"),
            "add the type to the parameter EventTypes and deploy again",
        ));
    }
    found
}

fn of_url(
    findings: &Findings,
    subscription: &Subscription,
    which: &str,
    event_type: &str,
) -> Option<Check> {
    let mend = format!(
        "`webhooks subscribe {} --event {event_type} --url URL` changes it",
        subscription.subscriber_id
    );
    let forbidden = |reason: &str| {
        let found = format!("{which}: its url is not allowed, nothing is sent: {reason}");
        Some(Check::problem(ROWS, found, mend.clone()))
    };
    let url = match findings.stack.endpoint_rules().judge_url(&subscription.url) {
        Ok(url) => url,
        Err(rule) => return forbidden(&rule.to_string()),
    };
    let host = url.host_str()?;
    match findings.hosts.get(host)? {
        Resolution::Allowed => None,
        Resolution::Forbidden(reason) => forbidden(&format!("{host}: {reason}")),
        Resolution::Failed(reason) => Some(Check::warning(
            ROWS,
            format!("{which}: {host} can not be resolved from here: {reason}"),
            format!("ask the partner; {mend}"),
        )),
    }
}

fn of_secret(
    subscriber: &SubscriberId,
    secret: &Read<Option<Value>>,
    prefix: &str,
    now: SystemTime,
) -> Option<Check> {
    let name = parameter_name(prefix, subscriber.as_str());
    let rotate = format!("`webhooks secret rotate {subscriber}`, and hand the new one out");
    let problem = |found: String, mend: String| Some(Check::problem(SECRETS, found, mend));
    let value = match secret {
        Err(unread) => {
            return Some(Check {
                found: format!("{subscriber}: {unread}"),
                ..Check::unread(SECRETS, unread)
            });
        }
        Ok(None) => {
            return problem(
                format!("{subscriber}: there is no parameter {name}, nothing is sent"),
                format!("`webhooks secret new {subscriber}`, and hand it out"),
            );
        }
        Ok(Some(value)) => value,
    };
    let secrets = match value.secrets() {
        Ok(secrets) => secrets,
        Err(error) => {
            return problem(
                format!("{subscriber}: {name} can not be signed with, nothing is sent: {error}"),
                "put the right value there, as a SecureString".to_owned(),
            );
        }
    };
    // The last one to end; one without an end never does.
    let mut end = Some(SystemTime::UNIX_EPOCH);
    for secret in secrets.active(now) {
        end = end.zip(secret.until()).map(|(end, until)| end.max(until));
    }
    match end {
        None => None,
        Some(SystemTime::UNIX_EPOCH) => problem(
            format!("{subscriber}: all secrets in {name} have ended, nothing is sent"),
            rotate,
        ),
        Some(end) if end <= now + SOON => Some(Check::warning(
            SECRETS,
            format!(
                "{subscriber}: the last secret ends at {}, without a successor",
                Time::new(end)
            ),
            rotate,
        )),
        Some(_) => None,
    }
}
