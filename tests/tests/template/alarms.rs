//! Every alarm with the metric that it must watch. No local AWS evaluates them.

use serde_json::{Value, json};

use crate::cloudformation::Template;

struct Expected {
    alarm: &'static str,
    namespace: &'static str,
    metric: &'static str,
    dimension: Option<(&'static str, Value)>,
    statistic: &'static str,
    period: u32,
    above: u32,
}

fn queue_name(queue: &str) -> Option<(&'static str, Value)> {
    Some(("QueueName", json!({"Fn::GetAtt": [queue, "QueueName"]})))
}

fn expected() -> Vec<Expected> {
    let defaults = |alarm, metric, dimension| Expected {
        alarm,
        namespace: "AWS/SQS",
        metric,
        dimension,
        statistic: "Maximum",
        period: 60,
        above: 0,
    };
    vec![
        // NumberOfMessagesSent does not count what the redrive policy moves.
        defaults(
            "DeadLettersAlarm",
            "ApproximateNumberOfMessagesVisible",
            queue_name("DeadLetterQueue"),
        ),
        Expected {
            period: 300,
            above: 604_800,
            ..defaults(
                "DeadLettersAgeAlarm",
                "ApproximateAgeOfOldestMessage",
                queue_name("DeadLetterQueue"),
            )
        },
        defaults(
            "DispatchFailuresAlarm",
            "ApproximateNumberOfMessagesVisible",
            queue_name("DispatchFailureQueue"),
        ),
        Expected {
            // SQS stops at 120 000.
            above: 60_000,
            ..defaults(
                "InFlightAlarm",
                "ApproximateNumberOfMessagesNotVisible",
                queue_name("JobsQueue"),
            )
        },
        Expected {
            namespace: "AWS/Lambda",
            statistic: "Sum",
            ..defaults(
                "DeliverErrorsAlarm",
                "Errors",
                Some(("FunctionName", json!({"Ref": "DeliverFunction"}))),
            )
        },
        Expected {
            namespace: "SqsWebhooks",
            statistic: "Sum",
            ..defaults("OwnFaultsAlarm", "${AWS::StackName}-own-faults", None)
        },
    ]
}

#[test]
fn every_alarm_watches_the_right_metric_and_tells_the_topic() {
    let template = Template::read();
    let mut found = template.names_of("AWS::CloudWatch::Alarm");
    let expected = expected();
    let mut names: Vec<&str> = expected.iter().map(|alarm| alarm.alarm).collect();
    names.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, names);
    for expected in expected {
        let name = expected.alarm;
        let alarm = template.properties(name);
        assert_eq!(alarm["Namespace"], expected.namespace, "{name}");
        let metric = match &alarm["MetricName"] {
            Value::String(metric) => metric,
            other => other["Fn::Sub"].as_str().unwrap(),
        };
        assert_eq!(metric, expected.metric, "{name}");
        let dimensions = expected
            .dimension
            .map(|(name, value)| json!([{"Name": name, "Value": value}]));
        assert_eq!(alarm.get("Dimensions"), dimensions.as_ref(), "{name}");
        assert_eq!(alarm["Statistic"], expected.statistic, "{name}");
        assert_eq!(alarm["Period"], expected.period, "{name}");
        assert_eq!(alarm["EvaluationPeriods"], 1, "{name}");
        assert_eq!(alarm["Threshold"], expected.above, "{name}");
        assert_eq!(
            alarm["ComparisonOperator"], "GreaterThanThreshold",
            "{name}"
        );
        assert_eq!(alarm["TreatMissingData"], "notBreaching", "{name}");
        let topic = json!([{"Ref": "AlarmTopic"}]);
        assert_eq!(alarm["AlarmActions"], topic, "{name}");
        assert_eq!(alarm["OKActions"], topic, "{name}");
        let description = alarm["AlarmDescription"].as_str().unwrap();
        assert!(!description.is_empty(), "{name}");
    }
}

#[test]
fn what_either_function_logs_as_an_error_is_what_the_own_faults_alarm_counts() {
    let template = Template::read();
    let alarm = template.properties("OwnFaultsAlarm");
    for (name, log_group) in [
        ("DeliverFaultsFilter", "DeliverLogGroup"),
        ("DispatchFaultsFilter", "DispatchLogGroup"),
    ] {
        let filter = template.properties(name);
        assert_eq!(filter["LogGroupName"], json!({"Ref": log_group}));
        assert_eq!(filter["FilterPattern"], r#"{ $.level = "ERROR" }"#);
        assert_eq!(
            filter["MetricTransformations"],
            json!([{
                "MetricNamespace": alarm["Namespace"],
                "MetricName": alarm["MetricName"],
                "MetricValue": "1",
                "DefaultValue": 0,
            }])
        );
    }
}

#[test]
fn alarms_are_mailed_to_whoever_is_named() {
    let template = Template::read().with("AlarmEmail", "ops@example.com");
    let resource = &template.section("Resources")["AlarmEmailSubscription"];
    assert_eq!(resource["Condition"], "HasAlarmEmail");
    assert_eq!(
        template.properties("AlarmEmailSubscription"),
        json!({
            "TopicArn": {"Ref": "AlarmTopic"},
            "Protocol": "email",
            "Endpoint": "ops@example.com",
        })
    );
    // CloudWatch may not use alias/aws/sns, and alarms would be lost without a sound.
    let topic = template.properties("AlarmTopic");
    assert_eq!(topic.get("KmsMasterKeyId"), None);
}
