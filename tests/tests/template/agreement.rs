//! Numbers and names that stand in more than one place.

use std::collections::BTreeSet;

use e2e::soak::plan::Plan;
use e2e::soak::{oracle, script};
use serde_json::Value;
use webhooks_core::policy::{HEADROOM, JOB_RETENTION, NAMES, RetryPolicy};

use crate::cloudformation::{Template, number, text_of};

/// What deliver needs of an invocation besides the time of one attempt, in seconds: up to five to
/// read subscriptions and secrets, one to change visibilities and to answer.
const TIME_BESIDES_THE_ATTEMPT: u64 = 6;

/// The longest retention that SQS offers, in seconds.
const LONGEST_RETENTION: u64 = 1_209_600;

/// The template with each retry policy.
fn with_each_policy() -> Vec<(RetryPolicy, Template)> {
    let template = Template::read();
    NAMES
        .map(|name| {
            let policy = RetryPolicy::by_name(name).expect("a published policy");
            (policy, template.clone().with("RetryPolicy", name))
        })
        .into()
}

/// The template with each retry policy and each timeout of deliver.
fn with_each_policy_and_timeout() -> Vec<(RetryPolicy, Template)> {
    let timeouts = Template::read().allowed_values("DeliverTimeoutSeconds");
    let mut all = Vec::new();
    for (policy, template) in with_each_policy() {
        for timeout in &timeouts {
            let template = template.clone().with("DeliverTimeoutSeconds", timeout);
            all.push((policy.clone(), template));
        }
    }
    all
}

fn function_timeout(template: &Template) -> u64 {
    number(&template.properties("DeliverFunction")["Timeout"])
}

fn attempt_timeout(template: &Template) -> u64 {
    let told = &template.properties("DeliverFunction")["Environment"]["Variables"];
    number(&told["ATTEMPT_TIMEOUT_SECONDS"])
}

fn visibility_timeout(template: &Template) -> u64 {
    number(&template.properties("JobsQueue")["VisibilityTimeout"])
}

/// After how many receives SQS moves a job to the dead-letter queue.
fn receives(template: &Template) -> u64 {
    number(&template.properties("JobsQueue")["RedrivePolicy"]["maxReceiveCount"])
}

fn job_retention(template: &Template) -> u64 {
    number(&template.properties("JobsQueue")["MessageRetentionPeriod"])
}

#[test]
fn the_policies_of_the_code_are_those_of_the_template() {
    let template = Template::read();
    let published: BTreeSet<String> = NAMES.map(str::to_owned).into();
    let allowed = template.allowed_values("RetryPolicy");
    assert_eq!(allowed.iter().cloned().collect::<BTreeSet<_>>(), published);
    assert_eq!(allowed.len(), published.len());
    let map = template.section("Mappings")["RetryPolicies"].as_object();
    assert_eq!(
        map.unwrap().keys().cloned().collect::<BTreeSet<_>>(),
        published
    );
    assert_eq!(template.parameters()["RetryPolicy"], "standard");
}

#[test]
fn every_timeout_that_may_be_chosen_has_its_visibility() {
    let template = Template::read();
    let allowed = template.allowed_values("DeliverTimeoutSeconds").into_iter();
    let map = template.section("Mappings")["DeliverTimeouts"].as_object();
    assert_eq!(
        allowed.collect::<BTreeSet<_>>(),
        map.unwrap().keys().cloned().collect()
    );
}

/// AWS asks for it, so that a throttled batch is not handed out a second time.
#[test]
fn a_message_stays_hidden_for_six_times_the_functions_timeout() {
    for (_, template) in with_each_policy_and_timeout() {
        let (hidden, timeout) = (visibility_timeout(&template), function_timeout(&template));
        assert!(hidden >= 6 * timeout, "{hidden} s, {timeout} s");
    }
}

/// Only then is the redrive policy never the one that ends a run, whatever else took a receive.
#[test]
fn sqs_hands_a_job_out_as_often_as_the_policy_has_attempts_and_thirty_times_more() {
    for (policy, template) in with_each_policy() {
        let wanted = u64::from(policy.attempts + HEADROOM);
        assert_eq!(receives(&template), wanted, "{}", policy.name);
    }
    assert_eq!(HEADROOM, 30, "the descriptions of the parameters say so");
}

#[test]
fn the_queue_and_deliver_are_told_the_same_number_of_receives() {
    let templates = with_each_policy().into_iter().flat_map(|(_, template)| {
        let changed = template.clone().with("MaxReceiveCount", "75");
        assert_eq!(receives(&changed), 75);
        [template, changed]
    });
    for template in templates {
        let told = &template.properties("DeliverFunction")["Environment"]["Variables"];
        let told = number(&told["MAX_RECEIVE_COUNT"]);
        assert_eq!(told, receives(&template));
    }
}

#[test]
fn the_policy_is_as_published_unless_something_is_changed() {
    let template = Template::read();
    for parameter in [
        "RetryBaseSeconds",
        "RetryFactor",
        "RetryCapSeconds",
        "RetryAttempts",
        "MaxReceiveCount",
    ] {
        let declared = template.declaration(parameter);
        assert_eq!(declared["Default"], "", "{parameter}");
        // Whole numbers from 1, or nothing.
        let pattern = text_of(&declared["AllowedPattern"]);
        assert!(pattern.starts_with("([1-9]"), "{parameter}: {pattern}");
        assert!(pattern.ends_with(")?"), "{parameter}: {pattern}");
    }
}

#[test]
fn the_description_of_the_policy_names_each_with_its_attempts() {
    let template = Template::read();
    let description = text_of(&template.declaration("RetryPolicy")["Description"]);
    for (policy, _) in with_each_policy() {
        let (_, words) = description
            .split_once(&format!("{}: ", policy.name))
            .unwrap_or_else(|| panic!("{} is not described", policy.name));
        let attempts = format!("{} attempts", policy.attempts);
        let sentence = words.split_once(';').unwrap().0;
        assert!(sentence.contains(&attempts), "{}: {sentence}", policy.name);
    }
}

/// With a short timeout of the function too: what is left is time to read, to write down and to
/// answer.
#[test]
fn an_attempt_ends_before_the_function_does() {
    for timeout in Template::read().allowed_values("DeliverTimeoutSeconds") {
        let template = Template::read().with("DeliverTimeoutSeconds", &timeout);
        let left = function_timeout(&template) - attempt_timeout(&template);
        assert!(left >= 2, "{left} s");
    }
}

/// Only then is a timeout of the attempt the partner's and not ours.
#[test]
fn in_production_an_attempt_has_all_of_its_time() {
    for (policy, template) in with_each_policy() {
        let needed = policy.timeout.as_secs() + TIME_BESIDES_THE_ATTEMPT;
        let timeout = function_timeout(&template);
        assert!(timeout >= needed, "{}: {timeout} s", policy.name);
        let attempt = attempt_timeout(&template);
        assert!(attempt >= policy.timeout.as_secs(), "{attempt} s");
    }
}

/// Also for a partner that asks for the longest wait again and again, and with every spare receive
/// spent on a fault of ours.
#[test]
fn a_job_outlives_its_run_and_a_dead_letter_outlives_a_job() {
    for (policy, template) in with_each_policy_and_timeout() {
        let hidden = u32::try_from(visibility_timeout(&template)).unwrap();
        let policy = policy.for_visibility_timeout(hidden);
        // A receive that a crash has swallowed costs a visibility timeout.
        let lost = receives(&template) * visibility_timeout(&template);
        let longest = policy.longest_run_seconds() + policy.longest_faults_seconds() + lost;
        let retention = job_retention(&template);
        assert_eq!(retention, JOB_RETENTION.as_secs());
        assert!(longest < retention, "{}: {longest} s", policy.name);
        let dead = template.properties("DeadLetterQueue");
        assert_eq!(number(&dead["MessageRetentionPeriod"]), LONGEST_RETENTION);
        assert!(retention < LONGEST_RETENTION);
    }
}

/// A dead letter is as old as the job; the second call must come while there is time to act.
#[test]
fn the_age_alarm_leaves_three_days() {
    for (_, template) in with_each_policy() {
        let age = number(&template.properties("DeadLettersAgeAlarm")["Threshold"]);
        let left = LONGEST_RETENTION - job_retention(&template) - age;
        assert!(left >= 3 * 86_400, "{left} s");
    }
}

/// The local stack, and some of CloudFormation, take a bare number where a text is needed.
#[test]
fn every_value_of_a_mapping_is_text() {
    fn assert_text(value: &Value) {
        match value {
            Value::Object(fields) => fields.values().for_each(assert_text),
            other => assert!(other.is_string(), "{other}"),
        }
    }
    assert_text(Template::read().section("Mappings"));
}

/// It uses no code of the service, so it has these numbers of its own.
#[test]
fn make_soak_knows_the_numbers_of_a_local_stack() {
    let template = Template::read().with("DeliverTimeoutSeconds", "5");
    assert_eq!(attempt_timeout(&template) * 1000, script::ATTEMPT_MS);
    assert_eq!(function_timeout(&template) * 1000, oracle::INVOCATION_MS);
    let plan = Plan::draw(1, 180);
    assert_eq!(visibility_timeout(&template), plan.visibility_seconds);
    let policy = RetryPolicy::by_name(&template.parameters()["RetryPolicy"]).unwrap();
    assert_eq!(usize::try_from(policy.attempts), Ok(script::ATTEMPTS));
}

#[test]
fn the_seams_to_production_are_closed_by_default() {
    let template = Template::read();
    let default = |name: &str| text_of(&template.declaration(name)["Default"]);
    assert_eq!(default("AllowPrivateEndpoints"), "false");
    assert_eq!(default("RetryTimeScale"), "1");
    assert_eq!(default("DeliverTimeoutSeconds"), "30");
    assert_eq!(default("Architecture"), "arm64");
}
