//! Every alarm with the metric that it must watch. No local AWS evaluates them.

use std::collections::BTreeSet;

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
    /// Of how many periods how many must be above.
    periods: (u32, u32),
}

fn queue_name(queue: &str) -> Option<(&'static str, Value)> {
    Some(("QueueName", json!({"Fn::GetAtt": [queue, "QueueName"]})))
}

fn function_name(function: &str) -> Option<(&'static str, Value)> {
    Some(("FunctionName", json!({"Ref": function})))
}

/// The only alarm on a formula.
const INFLOW: &str = "DeadLettersInflowAlarm";

fn expected() -> Vec<Expected> {
    let defaults = |alarm, metric, dimension| Expected {
        alarm,
        namespace: "AWS/SQS",
        metric,
        dimension,
        statistic: "Maximum",
        period: 60,
        above: 0,
        periods: (1, 1),
    };
    let embedded = |alarm, metric| Expected {
        namespace: "SqsWebhooks",
        statistic: "Sum",
        ..defaults(alarm, metric, function_name("DeliverFunction"))
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
            above: 345_600,
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
                function_name("DeliverFunction"),
            )
        },
        embedded("DeadDeliveriesAlarm", "Dead"),
        embedded("BlockedEndpointsAlarm", "Blocked"),
        embedded("RecordErrorsAlarm", "RecordErrors"),
        Expected {
            statistic: "p99",
            // Milliseconds.
            above: 60_000,
            periods: (5, 3),
            ..embedded("FirstAttemptLatencyAlarm", "FirstAttemptLatency")
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
    let found: BTreeSet<&str> = template
        .names_of("AWS::CloudWatch::Alarm")
        .into_iter()
        .collect();
    let expected = expected();
    let names = expected.iter().map(|alarm| alarm.alarm).chain([INFLOW]);
    assert_eq!(found, names.collect());
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
        let statistic = alarm.get("Statistic").or(alarm.get("ExtendedStatistic"));
        assert_eq!(statistic.unwrap(), expected.statistic, "{name}");
        assert_eq!(alarm["Period"], expected.period, "{name}");
        let (periods, above) = expected.periods;
        assert_eq!(alarm["EvaluationPeriods"], periods, "{name}");
        let needed = alarm.get("DatapointsToAlarm");
        assert_eq!(
            *needed.unwrap_or(&alarm["EvaluationPeriods"]),
            above,
            "{name}"
        );
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

/// What lies there already keeps the depth alarm on, which then says nothing of the next. Messages in
/// hand are counted, or one that is looked at and put back would look like a new one.
#[test]
fn the_inflow_alarm_counts_what_has_come_into_the_dead_letter_queue() {
    let template = Template::read();
    // A formula is more than the local AWS takes.
    let resource = &template.section("Resources")[INFLOW];
    assert_eq!(resource["Condition"], "OnAws");
    let alarm = template.properties(INFLOW);
    let metric = |id: &str, metric: &str| {
        json!({
            "Id": id,
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/SQS",
                    "MetricName": metric,
                    "Dimensions": [
                        {"Name": "QueueName", "Value": {"Fn::GetAtt": ["DeadLetterQueue", "QueueName"]}},
                    ],
                },
                "Period": 60,
                "Stat": "Maximum",
            },
            "ReturnData": false,
        })
    };
    let formula = &alarm["Metrics"][0];
    assert_eq!(formula["Expression"], "DIFF(waiting + inHand)");
    assert_eq!(formula["ReturnData"], true);
    assert_eq!(
        alarm["Metrics"].as_array().unwrap()[1..],
        [
            metric("waiting", "ApproximateNumberOfMessagesVisible"),
            metric("inHand", "ApproximateNumberOfMessagesNotVisible"),
        ]
    );
    assert_eq!(alarm["EvaluationPeriods"], 1);
    assert_eq!(alarm["Threshold"], 0);
    assert_eq!(alarm["ComparisonOperator"], "GreaterThanThreshold");
    assert_eq!(alarm["TreatMissingData"], "notBreaching");
    assert_eq!(alarm["AlarmActions"], json!([{"Ref": "AlarmTopic"}]));
    // "No more have come" would read as "all is well".
    assert_eq!(alarm.get("OKActions"), None);
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
