//! The subscriptions: rows, urls and secrets.

use std::collections::BTreeSet;

use webhooks_core::header::is_reserved;
use webhooks_core::identity::SubscriberId;
use webhooks_core::secret::parameter_name;
use webhooks_core::subscription::{RowError, Subscription};

use crate::doctor::check::{Check, Level, counted};
use crate::doctor::findings::{Findings, Read, Resolution};
use crate::parameters::Parameter;
use crate::secret::facts::{Ending, SOON, ending, facts};
use crate::subscriptions::Entry;

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
    let of_secrets = findings.secrets.iter();
    let of_secrets =
        of_secrets.flat_map(|(subscriber, secret)| of_secret(findings, subscriber, secret));
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
        Err(error) => return vec![of_broken_row(findings, row, &which, error)],
    };
    if !subscription.enabled {
        let reason = row.disabled_reason.as_deref();
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        let since = row.disabled_at.map(|at| format!(" since {at}"));
        return vec![Check::info(
            ROWS,
            format!("{which}: disabled{}{reason}", since.unwrap_or_default()),
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

/// What a broken row costs. By one of which only the headers are broken webhooks are made all the
/// same, and as long as it is disabled they would be none.
fn of_broken_row(findings: &Findings, row: &Entry, which: &str, error: &RowError) -> Check {
    let mend = row.mend(&findings.stack.subscriptions_table);
    let mend = mend.unwrap_or_default();
    let consequence = match error {
        RowError::Headers(_) if row.makes_webhooks() => "webhooks are made and fail",
        RowError::Headers(_) => {
            let found = format!("{which}: disabled, and the row is broken: {error}");
            return Check::warning(ROWS, found, mend);
        }
        RowError::Missing(_)
        | RowError::WrongType(..)
        | RowError::SubscriberId(_)
        | RowError::EmptyUrl
        | RowError::UrlTooLong => "nothing is sent",
    };
    let found = format!("{which}: the row is broken, {consequence}: {error}");
    Check::problem(ROWS, found, mend)
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
    findings: &Findings,
    subscriber: &SubscriberId,
    secret: &Read<Option<Parameter>>,
) -> Vec<Check> {
    let name = parameter_name(&findings.stack.secret_prefix, subscriber.as_str());
    let problem = |found: String, mend: String| vec![Check::problem(SECRETS, found, mend)];
    let parameter = match secret {
        Err(unread) => {
            return vec![Check {
                found: format!("{subscriber}: {unread}"),
                ..Check::unread(SECRETS, unread)
            }];
        }
        Ok(None) => {
            return problem(
                format!("{subscriber}: there is no parameter {name}, nothing is sent"),
                format!("`webhooks secret new {subscriber}`, and hand it out"),
            );
        }
        Ok(Some(parameter)) => parameter,
    };
    let now = findings.now;
    let secrets = match facts(&parameter.value, now, false) {
        Ok(secrets) => secrets,
        Err(error) => {
            return problem(
                format!("{subscriber}: {name} can not be signed with, nothing is sent: {error}"),
                "put the right value there, as a SecureString".to_owned(),
            );
        }
    };
    let rotate = format!("`webhooks secret rotate {subscriber}`, and hand the new one out");
    let mut found = match ending(&secrets, now, now + SOON) {
        Ending::Later => Vec::new(),
        Ending::Soon(end) => vec![Check::warning(
            SECRETS,
            format!("{subscriber}: the last secret ends at {end}, without a successor"),
            rotate,
        )],
        Ending::Ended(_) => problem(
            format!("{subscriber}: all secrets in {name} have ended, nothing is sent"),
            rotate,
        ),
    };
    if !parameter.is_secure {
        found.push(not_encrypted(findings, subscriber, &name));
    }
    found
}

/// SSM never changes the type of a parameter that is there (`HierarchyTypeMismatch`), so `secret
/// rotate` can not do it either.
fn not_encrypted(findings: &Findings, subscriber: &SubscriberId, name: &str) -> Check {
    let key = findings.stack.parameter("SecretsKmsKeyArn");
    let key = key.map_or(String::new(), |key| format!(" --key-id {key}"));
    Check::warning(
        SECRETS,
        format!(
            "{subscriber}: {name} is not a SecureString: it is not encrypted, and shown to \
             whoever may read parameters"
        ),
        format!(
            "keep its value, then `aws ssm delete-parameter --name {name}` and at once `aws ssm \
             put-parameter --name {name} --type SecureString{key} --value VALUE`; then `webhooks \
             secret rotate {subscriber}`, as others may have read it"
        ),
    )
}
