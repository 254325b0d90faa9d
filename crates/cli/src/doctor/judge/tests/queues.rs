//! The queues, and the times that they and deliver have to agree on.

use super::*;

#[test]
fn a_jobs_queue_that_does_not_agree_with_deliver_is_a_problem() {
    let set = "`aws sqs set-queue-attributes --queue-url https://sqs/1/jobs --attributes";
    assert_eq!(
        jobs(|queue| queue.visibility_seconds = 60),
        problem(
            "jobs queue: its VisibilityTimeout is 60 s, less than 6 times deliver's timeout of 30 \
             s: webhooks are sent twice",
            &format!("{set} VisibilityTimeout=180`")
        )
    );
    assert_eq!(
        jobs(|queue| queue.visibility_seconds = 240),
        problem(
            "jobs queue: its VisibilityTimeout is 240 s, and deliver is told 180 s \
             (VISIBILITY_TIMEOUT_SECONDS)",
            &format!("{set} VisibilityTimeout=180`")
        )
    );
    assert_eq!(
        jobs(|queue| queue.retention_seconds = 86_400),
        problem(
            "jobs queue: it keeps messages for 86400 s, less than 604800 s: jobs are lost while \
             they wait",
            &format!("{set} MessageRetentionPeriod=604800`")
        )
    );
}

#[test]
fn all_that_is_said_of_timeouts_leads_to_those_of_the_deployment() {
    let back = problem(
        "deliver: its timeout is 60 s, and the stack's is 30 s: attempts and the jobs queue go by \
         that",
        "`aws lambda update-function-configuration --function-name deliver --timeout 30`",
    );
    let changed = |visibility: u64, told: &str| {
        wrong(|findings| {
            findings.jobs.as_mut().unwrap().visibility_seconds = visibility;
            let deliver = findings.deliver.as_mut().unwrap();
            deliver.timeout_seconds = 60;
            let told = ("VISIBILITY_TIMEOUT_SECONDS".to_owned(), told.to_owned());
            deliver.variables.extend([told]);
        })
    };
    let set = "`aws sqs set-queue-attributes --queue-url https://sqs/1/jobs --attributes \
               VisibilityTimeout=180`";
    assert_eq!(changed(180, "180"), back);
    // Somebody has done what AWS advises for 60 s: there is room enough for the 30 s.
    assert_eq!(changed(360, "360"), back);
    assert_eq!(
        changed(360, "180"),
        [
            back.clone(),
            problem(
                "jobs queue: its VisibilityTimeout is 360 s, and deliver is told 180 s \
                 (VISIBILITY_TIMEOUT_SECONDS)",
                set
            )
        ]
        .concat()
    );
    assert_eq!(
        changed(60, "60"),
        [
            back,
            problem(
                "jobs queue: its VisibilityTimeout is 60 s, less than 6 times deliver's timeout of \
                 30 s: webhooks are sent twice",
                set
            ),
            problem(
                "jobs queue: deliver is told that its VisibilityTimeout is 60 s \
                 (VISIBILITY_TIMEOUT_SECONDS), less than 6 times deliver's timeout of 30 s",
                "set VISIBILITY_TIMEOUT_SECONDS to 180 in the Lambda console"
            )
        ]
        .concat()
    );
}

#[test]
fn without_word_from_deliver_or_the_stack_the_queue_must_allow_for_the_timeout_there_is() {
    let changed = |visibility: u64| {
        wrong(|findings| {
            findings.jobs.as_mut().unwrap().visibility_seconds = visibility;
            findings.stack.parameters.remove("DeliverTimeoutSeconds");
            let deliver = findings.deliver.as_mut().unwrap();
            deliver.timeout_seconds = 40;
            deliver.variables.remove("VISIBILITY_TIMEOUT_SECONDS");
        })
    };
    assert_eq!(changed(240), []);
    assert_eq!(changed(400), []);
    assert_eq!(
        changed(239),
        problem(
            "jobs queue: its VisibilityTimeout is 239 s, less than 6 times deliver's timeout of 40 \
             s: webhooks are sent twice",
            "`aws sqs set-queue-attributes --queue-url https://sqs/1/jobs --attributes \
             VisibilityTimeout=240`"
        )
    );
}

#[test]
fn a_redrive_policy_that_gives_up_too_early_or_never_is_a_problem() {
    let mend = "set its RedrivePolicy as the template has it, in the SQS console under Dead-letter \
                queue";
    assert_eq!(
        jobs(|queue| queue.redrive = None),
        problem(
            "jobs queue: it has no RedrivePolicy: deliveries that are dead stay in it for ever",
            mend
        )
    );
    assert_eq!(
        jobs(|queue| queue.redrive.as_mut().unwrap().target_arn = "arn:sqs:x".into()),
        problem(
            "jobs queue: its dead letters go to arn:sqs:x, not to the stack's queue arn:sqs:dlq",
            mend
        )
    );
    assert_eq!(
        jobs(|queue| queue.redrive.as_mut().unwrap().most_receives = 10),
        [
            problem(
                "jobs queue: its maxReceiveCount is 10, and deliver is told 38 (MAX_RECEIVE_COUNT)",
                mend
            ),
            problem(
                "jobs queue: its maxReceiveCount is 10, less than the 8 attempts of standard and \
                 30 spare receives: deliveries are given up too early",
                "set the parameter MaxReceiveCount, or leave it empty, and deploy again"
            ),
        ]
        .concat()
    );
}

#[test]
fn what_waits_for_somebody_is_a_problem() {
    let dead =
        |change: fn(&mut Queue)| wrong(|findings| change(findings.dead_letters.as_mut().unwrap()));
    assert_eq!(
        dead(|queue| queue.messages = 3),
        problem(
            "dead letters: 3 deliveries are dead",
            "`webhooks stats` and `webhooks log --subscriber NAME --state dead` say why; when the \
             partner is well again, `webhooks redrive`"
        )
    );
    assert_eq!(
        dead(|queue| queue.retention_seconds = 345_600),
        problem(
            "dead letters: the queue keeps messages for 345600 s, less than 14 days, which count \
             from the first send: dead letters are deleted before anybody sees them",
            "`aws sqs set-queue-attributes --queue-url https://sqs/1/dlq --attributes \
             MessageRetentionPeriod=1209600`"
        )
    );
    assert_eq!(
        wrong(|findings| findings.dispatch_failures.as_mut().unwrap().messages = 1),
        problem(
            "dispatch failures: 1 event did not become webhooks",
            "look at them (`aws sqs receive-message --queue-url https://sqs/1/failures \
             --attribute-names All`) and at dispatch's log, mend the cause, and publish the events \
             again"
        )
    );
}
