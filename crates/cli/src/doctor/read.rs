//! Finds out what there is to know of a stack. Each question stands for itself: one that is
//! refused, or that a local AWS does not know, leaves the others alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use tokio::task::JoinSet;
use webhooks_core::endpoint::EndpointRules;
use webhooks_core::identity::SubscriberId;
use webhooks_post::{ResolveError, resolve};

use super::findings::{Findings, Read, Resolution};
use crate::parameters::{Parameter, Parameters};
use crate::stack::Stack;
use crate::subscriptions::{Entry, Subscriptions};

mod functions;
mod watch;

/// How long a name may take to resolve.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks everything.
pub async fn all(aws: &SdkConfig, stack: Stack, resolves: bool, now: SystemTime) -> Findings {
    let deliver = stack.output("DeliverFunctionName");
    let deliver = deliver.map(str::to_owned).unwrap_or_default();
    let (watched, queues, functions, partners) = tokio::join!(
        async {
            let alarm_names = watch::alarm_names(aws, &stack.name).await;
            let alarms = match &alarm_names {
                Ok(names) => watch::alarms(aws, names.values().cloned().collect()).await,
                Err(unread) => Err(unread.clone()),
            };
            (alarm_names, alarms, watch::topic(aws, &stack).await)
        },
        async {
            (
                watch::queue(aws, Ok(&stack.jobs_queue_url)).await,
                watch::queue(aws, Ok(&stack.dead_letter_queue_url)).await,
                watch::queue(aws, stack.output("DispatchFailureQueueUrl")).await,
            )
        },
        async {
            (
                functions::function(aws, stack.output("DeliverFunctionName")).await,
                functions::function(aws, stack.output("DispatchFunctionName")).await,
                functions::mappings(aws, &deliver).await,
                functions::rule(aws, stack.output("EventRuleArn")).await,
                watch::expiry(aws, &stack.deliveries_table).await,
            )
        },
        partners(aws, &stack, resolves),
    );
    let (alarm_names, alarms, topic) = watched;
    let (jobs, dead_letters, dispatch_failures) = queues;
    let (deliver, dispatch, mappings, rule, expiry) = functions;
    let (rows, secrets, hosts) = partners;
    Findings {
        now,
        stack,
        alarm_names,
        alarms,
        topic,
        jobs,
        dead_letters,
        dispatch_failures,
        deliver,
        dispatch,
        mappings,
        rule,
        expiry,
        rows,
        secrets,
        hosts,
    }
}

type Partners = (
    Read<Vec<Entry>>,
    BTreeMap<SubscriberId, Read<Option<Parameter>>>,
    BTreeMap<String, Resolution>,
);

/// The rows, and of those that are sent to, secrets and addresses.
async fn partners(aws: &SdkConfig, stack: &Stack, resolves: bool) -> Partners {
    let rows = match Subscriptions::new(aws, stack).all().await {
        Ok(rows) => rows,
        Err(error) => return (Err(error.into()), BTreeMap::new(), BTreeMap::new()),
    };
    let rules = stack.endpoint_rules();
    let mut subscribers = BTreeSet::new();
    let mut names = BTreeSet::new();
    for row in rows.iter().filter_map(|row| row.subscription.as_ref().ok()) {
        if row.enabled {
            subscribers.insert(row.subscriber_id.clone());
            let url = rules.judge_url(&row.url).ok();
            names.extend(url.as_ref().and_then(url::Url::domain).map(str::to_owned));
        }
    }
    let parameters = Parameters::new(aws, stack).read_many(&subscribers).await;
    let secrets = parameters
        .into_iter()
        .map(|(subscriber, read)| (subscriber, read.map_err(Into::into)))
        .collect();
    let hosts = if resolves {
        resolved(rules, names).await
    } else {
        BTreeMap::new()
    };
    (Ok(rows), secrets, hosts)
}

async fn resolved(rules: EndpointRules, names: BTreeSet<String>) -> BTreeMap<String, Resolution> {
    let mut asked: JoinSet<(String, Resolution)> = names
        .into_iter()
        .map(|name| async move {
            let answer = tokio::time::timeout(RESOLVE_TIMEOUT, resolve(rules, &name)).await;
            let resolution = match answer {
                Ok(Ok(_)) => Resolution::Allowed,
                Ok(Err(ResolveError::Forbidden(rule))) => Resolution::Forbidden(rule.to_string()),
                Ok(Err(error @ (ResolveError::Failed(_) | ResolveError::Empty))) => {
                    Resolution::Failed(error.to_string())
                }
                Err(_) => {
                    Resolution::Failed(format!("no answer within {} s", RESOLVE_TIMEOUT.as_secs()))
                }
            };
            (name, resolution)
        })
        .collect();
    let mut hosts = BTreeMap::new();
    while let Some(answer) = asked.join_next().await {
        hosts.extend(answer.ok());
    }
    hosts
}
