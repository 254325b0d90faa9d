//! The queues: whether they agree with the policy and the functions, and whether something waits
//! in them for somebody.

use webhooks_core::policy::{HEADROOM, JOB_RETENTION};

use super::functions::deployed_timeout;
use super::unless_found;
use crate::doctor::check::Check;
use crate::doctor::findings::{Findings, Function, Queue};
use crate::stack::Stack;

/// As long as SQS keeps anything, in seconds.
const LONGEST_RETENTION: u64 = 14 * 86_400;

/// AWS asks for this many function timeouts in a queue's visibility timeout.
const TIMEOUTS_PER_VISIBILITY: u64 = 6;

pub(super) fn checks(findings: &Findings) -> Vec<Check> {
    let mut checks = match &findings.jobs {
        Err(unread) => vec![Check::unread("jobs queue", unread)],
        Ok(jobs) => of_jobs(findings, jobs),
    };
    checks.extend(match &findings.dead_letters {
        Err(unread) => vec![Check::unread(DEAD, unread)],
        Ok(queue) => of_dead_letters(findings, queue),
    });
    checks.push(match &findings.dispatch_failures {
        Err(unread) => Check::unread(FAILURES, unread),
        Ok(queue) if queue.messages == 0 => Check::ok(FAILURES, "it is empty"),
        Ok(queue) => Check::problem(
            FAILURES,
            match queue.messages {
                1 => "1 event did not become webhooks".to_owned(),
                number => format!("{number} events did not become webhooks"),
            },
            format!(
                "look at them (`aws sqs receive-message --queue-url {} --attribute-names All`) and \
                 at dispatch's log, mend the cause, and publish the events again",
                queue.url
            ),
        ),
    });
    checks
}

const DEAD: &str = "dead letters";
const FAILURES: &str = "dispatch failures";

fn of_jobs(findings: &Findings, jobs: &Queue) -> Vec<Check> {
    const SUBJECT: &str = "jobs queue";
    let mut found = Vec::new();
    let set = |attribute: &str, value: u64| {
        format!(
            "`aws sqs set-queue-attributes --queue-url {} --attributes {attribute}={value}`",
            jobs.url
        )
    };
    if let Ok(deliver) = &findings.deliver {
        found.extend(of_visibility(&findings.stack, deliver, jobs, &set));
    }
    let retention = JOB_RETENTION.as_secs();
    if jobs.retention_seconds < retention {
        found.push(Check::problem(
            SUBJECT,
            format!(
                "it keeps messages for {} s, less than {retention} s: jobs are lost while they \
                 wait",
                jobs.retention_seconds
            ),
            set("MessageRetentionPeriod", retention),
        ));
    }
    found.extend(redrive_policy(findings, jobs));
    unless_found(found, || {
        Check::ok(
            SUBJECT,
            format!(
                "visibility, retention and receives agree with deliver ({} messages)",
                jobs.messages
            ),
        )
    })
}

/// Whether the queue hides messages as long as deliver needs and thinks. All that is said leads to
/// one state: deliver's timeout as it was deployed, and one visibility timeout that allows for it,
/// in the queue and in what deliver is told.
fn of_visibility(
    stack: &Stack,
    deliver: &Function,
    jobs: &Queue,
    set: &dyn Fn(&str, u64) -> String,
) -> Vec<Check> {
    const SUBJECT: &str = "jobs queue";
    let timeout = deployed_timeout(stack).unwrap_or(deliver.timeout_seconds);
    let needed = TIMEOUTS_PER_VISIBILITY * timeout;
    let told = deliver.variables.get("VISIBILITY_TIMEOUT_SECONDS");
    let told_seconds = told.and_then(|told| told.parse::<u64>().ok());
    let wanted = told_seconds.unwrap_or(needed).max(needed);
    let visibility = jobs.visibility_seconds;
    let mut found = Vec::new();
    if visibility < needed {
        found.push(Check::problem(
            SUBJECT,
            format!(
                "its VisibilityTimeout is {visibility} s, less than 6 times deliver's timeout of \
                 {timeout} s: webhooks are sent twice"
            ),
            set("VisibilityTimeout", wanted),
        ));
    } else if let Some(told) = told
        && visibility != wanted
    {
        found.push(Check::problem(
            SUBJECT,
            format!(
                "its VisibilityTimeout is {visibility} s, and deliver is told {told} s \
                 (VISIBILITY_TIMEOUT_SECONDS)"
            ),
            set("VisibilityTimeout", wanted),
        ));
    }
    if let Some(told) = told
        && told_seconds != Some(wanted)
    {
        found.push(Check::problem(
            SUBJECT,
            format!(
                "deliver is told that its VisibilityTimeout is {told} s \
                 (VISIBILITY_TIMEOUT_SECONDS), less than 6 times deliver's timeout of {timeout} s"
            ),
            format!("set VISIBILITY_TIMEOUT_SECONDS to {wanted} in the Lambda console"),
        ));
    }
    found
}

fn redrive_policy(findings: &Findings, jobs: &Queue) -> Vec<Check> {
    const SUBJECT: &str = "jobs queue";
    const MEND: &str = "set its RedrivePolicy as the template has it, in the SQS console under \
                        Dead-letter queue";
    let Some(redrive) = &jobs.redrive else {
        let found = "it has no RedrivePolicy: deliveries that are dead stay in it for ever";
        return vec![Check::problem(SUBJECT, found, MEND)];
    };
    let mut found = Vec::new();
    if let Ok(dead) = &findings.dead_letters
        && dead.arn != redrive.target_arn
    {
        found.push(Check::problem(
            SUBJECT,
            format!(
                "its dead letters go to {}, not to the stack's queue {}",
                redrive.target_arn, dead.arn
            ),
            MEND,
        ));
    }
    let most = redrive.most_receives;
    let told = findings.deliver.as_ref().ok();
    let told = told.and_then(|deliver| deliver.variables.get("MAX_RECEIVE_COUNT"));
    if let Some(told) = told
        && *told != most.to_string()
    {
        found.push(Check::problem(
            SUBJECT,
            format!(
                "its maxReceiveCount is {most}, and deliver is told {told} (MAX_RECEIVE_COUNT)"
            ),
            MEND,
        ));
    }
    if let Ok(policy) = findings.stack.policy() {
        let needed = u64::from(policy.attempts) + u64::from(HEADROOM);
        if most < needed {
            found.push(Check::problem(
                SUBJECT,
                format!(
                    "its maxReceiveCount is {most}, less than the {} attempts of {} and {HEADROOM} \
                     spare receives: deliveries are given up too early",
                    policy.attempts, policy.name
                ),
                "set the parameter MaxReceiveCount, or leave it empty, and deploy again",
            ));
        }
    }
    found
}

fn of_dead_letters(findings: &Findings, queue: &Queue) -> Vec<Check> {
    let mut found = Vec::new();
    let kept = queue.retention_seconds;
    let jobs = findings.jobs.as_ref().ok();
    let is_short =
        kept < LONGEST_RETENTION || jobs.is_some_and(|jobs| kept <= jobs.retention_seconds);
    if is_short {
        found.push(Check::problem(
            DEAD,
            format!(
                "the queue keeps messages for {kept} s, less than 14 days, which count from the \
                 first send: dead letters are deleted before anybody sees them"
            ),
            format!(
                "`aws sqs set-queue-attributes --queue-url {} --attributes \
                 MessageRetentionPeriod={LONGEST_RETENTION}`",
                queue.url
            ),
        ));
    }
    if queue.messages > 0 {
        found.push(Check::problem(
            DEAD,
            match queue.messages {
                1 => "1 delivery is dead".to_owned(),
                number => format!("{number} deliveries are dead"),
            },
            "`webhooks stats` and `webhooks log --subscriber NAME --state dead` say why; when the \
             partner is well again, `webhooks redrive`",
        ));
    }
    unless_found(found, || {
        Check::ok(DEAD, "none, and they would be kept for 14 days")
    })
}
