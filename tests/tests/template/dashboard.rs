//! The dashboard and the saved queries: CloudWatch draws an empty graph for a name that it does not
//! know, and no local AWS looks at either.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cloudformation::Template;

/// What deliver counts and measures about itself.
const EMBEDDED: [&str; 12] = [
    "Attempts",
    "Delivered",
    "Retried",
    "Dead",
    "Gone",
    "Blocked",
    "Faults",
    "Poison",
    "RecordErrors",
    "Latency",
    "FirstAttemptLatency",
    "AttemptsPerDelivered",
];

/// What AWS reports for a queue and for a function, as far as we look at it.
const QUEUE: [&str; 3] = [
    "ApproximateNumberOfMessagesVisible",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateAgeOfOldestMessage",
];
const FUNCTION: [&str; 5] = [
    "Invocations",
    "Errors",
    "Throttles",
    "Duration",
    "ConcurrentExecutions",
];

/// Words of the query language.
const WORDS: [&str; 20] = [
    "SOURCE",
    "and",
    "as",
    "asc",
    "by",
    "count",
    "desc",
    "display",
    "filter",
    "ispresent",
    "limit",
    "max",
    "or",
    "pct",
    "sort",
    "stats",
    "strcontains",
    "sum",
    // Every line has them, whoever writes it.
    "@timestamp",
    "message",
];

/// The source text of deliver, and of the core that names the outcomes.
fn source() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut text = String::new();
    let mut left: Vec<PathBuf> = ["deliver/src", "core/src"]
        .map(|dir| crates.join(dir))
        .into();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            left.extend(entries.map(|entry| entry.unwrap().path()));
        } else {
            text += &std::fs::read_to_string(&path).unwrap();
        }
    }
    text
}

/// The dashboard as CloudWatch gets it; a resource is named `<Resource>` or `<Resource.Attribute>`.
fn dashboard(template: &Template) -> Value {
    let body = template.properties("Dashboard")["DashboardBody"]["Fn::Sub"].take();
    let resources = &template.section("Resources");
    let value = |name: &str| match name {
        "AWS::Region" => "eu-central-1".into(),
        "AWS::StackName" => "sqs-webhooks".into(),
        _ if template.parameters().contains_key(name) => template.parameters()[name].clone(),
        _ if body[1].get(name).is_some() => format!("<{name}>"),
        _ => {
            let resource = &resources[name.split('.').next().unwrap()];
            assert!(resource.is_object(), "no resource {name}");
            // The local stack would be without it.
            assert_eq!(resource.get("Condition"), None, "{name}");
            format!("<{name}>")
        }
    };
    let mut text = String::new();
    let mut rest = body[0].as_str().unwrap();
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').unwrap();
        text += before;
        text += &value(name);
        rest = after;
    }
    text += rest;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn widgets(dashboard: &Value, kind: &str) -> Vec<Value> {
    let widgets = dashboard["widgets"].as_array().unwrap().iter();
    let widgets = widgets.filter(|widget| widget["type"] == kind);
    widgets.map(|widget| widget["properties"].clone()).collect()
}

#[test]
fn the_dashboard_names_only_metrics_that_there_are() {
    let template = Template::read();
    let own_faults = template.properties("OwnFaultsAlarm")["MetricName"]["Fn::Sub"].take();
    let own_faults = own_faults
        .as_str()
        .unwrap()
        .replace("${AWS::StackName}", "sqs-webhooks");
    let functions = ["<DeliverFunction>", "<DispatchFunction>"];
    let queues = [
        "<JobsQueue.QueueName>",
        "<DeadLetterQueue.QueueName>",
        "<DispatchFailureQueue.QueueName>",
    ];
    for widget in widgets(&dashboard(&template), "metric") {
        let title = widget["title"].as_str().unwrap();
        assert_eq!(widget["region"], "eu-central-1", "{title}");
        assert!(widget["period"].is_u64(), "{title}");
        for metric in widget["metrics"].as_array().unwrap() {
            let words = metric.as_array().unwrap().iter();
            let words: Vec<&str> = words.filter_map(Value::as_str).collect();
            let known = match words[..] {
                ["SqsWebhooks", name] => name == own_faults,
                ["SqsWebhooks", name, "FunctionName", function] => {
                    EMBEDDED.contains(&name) && function == "<DeliverFunction>"
                }
                ["AWS/Lambda", name, "FunctionName", function] => {
                    FUNCTION.contains(&name) && functions.contains(&function)
                }
                ["AWS/SQS", name, "QueueName", queue] => {
                    QUEUE.contains(&name) && queues.contains(&queue)
                }
                _ => false,
            };
            assert!(known, "{title}: {metric}");
            let last = metric.as_array().unwrap().last().unwrap();
            let statistic = last.get("stat").or(widget.get("stat"));
            assert!(statistic.is_some(), "{title}: {metric}");
        }
    }
}

/// What an operator must be able to see at a glance.
#[test]
fn the_dashboard_shows_what_the_service_is_there_for() {
    let template = Template::read();
    let mut shown = BTreeSet::new();
    for widget in widgets(&dashboard(&template), "metric") {
        for metric in widget["metrics"].as_array().unwrap() {
            let options = metric.as_array().unwrap().last().unwrap();
            let statistic = options.get("stat").unwrap_or(&widget["stat"]);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            shown.insert((text(&metric[1]), text(&metric[3]), text(statistic)));
        }
    }
    for (metric, dimension, statistics) in [
        ("Delivered", "<DeliverFunction>", vec!["Sum"]),
        ("Retried", "<DeliverFunction>", vec!["Sum"]),
        ("Dead", "<DeliverFunction>", vec!["Sum"]),
        ("Gone", "<DeliverFunction>", vec!["Sum"]),
        ("Blocked", "<DeliverFunction>", vec!["Sum"]),
        ("Faults", "<DeliverFunction>", vec!["Sum"]),
        ("RecordErrors", "<DeliverFunction>", vec!["Sum"]),
        ("Latency", "<DeliverFunction>", vec!["p50", "p99"]),
        (
            "FirstAttemptLatency",
            "<DeliverFunction>",
            vec!["p50", "p99"],
        ),
        ("AttemptsPerDelivered", "<DeliverFunction>", vec!["Average"]),
        ("Errors", "<DeliverFunction>", vec!["Sum"]),
        ("Errors", "<DispatchFunction>", vec!["Sum"]),
        ("Throttles", "<DeliverFunction>", vec!["Sum"]),
        ("ConcurrentExecutions", "<DeliverFunction>", vec!["Maximum"]),
        ("Duration", "<DeliverFunction>", vec!["p50", "p99"]),
    ] {
        for statistic in statistics {
            let wanted = (metric.into(), dimension.into(), statistic.into());
            assert!(shown.contains(&wanted), "{wanted:?}");
        }
    }
    for queue in ["<JobsQueue.QueueName>", "<DeadLetterQueue.QueueName>"] {
        for metric in [QUEUE[0], QUEUE[2]] {
            let wanted = (metric.into(), queue.into(), "Maximum".into());
            assert!(shown.contains(&wanted), "{wanted:?}");
        }
    }
}

#[test]
fn the_dashboard_shows_every_alarm() {
    let template = Template::read();
    let [alarms] = &widgets(&dashboard(&template), "alarm")[..] else {
        panic!("one list of alarms");
    };
    let shown: BTreeSet<String> = alarms["alarms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|alarm| alarm.as_str().unwrap().to_owned())
        .collect();
    let arn = |name: &str| match name {
        // Elsewhere than on AWS there is none, and another must stand in.
        "DeadLettersInflowAlarm" => "<InflowAlarmArn>".into(),
        _ => format!("<{name}.Arn>"),
    };
    let alarms = template.names_of("AWS::CloudWatch::Alarm").into_iter();
    assert_eq!(shown, alarms.map(arn).collect());
    let stand_in = &template.section("Resources")["Dashboard"]["Properties"]["DashboardBody"];
    assert_eq!(
        stand_in["Fn::Sub"][1],
        json!({
            "InflowAlarmArn": {"Fn::If": [
                "OnAws",
                {"Fn::GetAtt": ["DeadLettersInflowAlarm", "Arn"]},
                {"Fn::GetAtt": ["DeadLettersAlarm", "Arn"]},
            ]},
        })
    );
}

#[test]
fn the_dashboards_widgets_lie_side_by_side() {
    let dashboard = dashboard(&Template::read());
    let mut taken = BTreeSet::new();
    for widget in dashboard["widgets"].as_array().unwrap() {
        let edge = |name: &str| widget[name].as_u64().unwrap();
        assert!(edge("x") + edge("width") <= 24, "{widget}");
        for x in edge("x")..edge("x") + edge("width") {
            for y in edge("y")..edge("y") + edge("height") {
                assert!(taken.insert((x, y)), "two widgets at {x}, {y}");
            }
        }
    }
    // Its name is the only one in all Regions of an account.
    let name = Template::read().properties("Dashboard")["DashboardName"].take();
    assert_eq!(name, json!({"Fn::Sub": "${AWS::StackName}-${AWS::Region}"}));
}

/// The queries of the dashboard and the saved ones.
fn queries(template: &Template) -> Vec<String> {
    let mut queries = Vec::new();
    for widget in widgets(&dashboard(template), "log") {
        let query = widget["query"].as_str().unwrap();
        let query = query.strip_prefix("SOURCE '<DeliverLogGroup>' | ");
        queries.push(query.expect("the log of deliver").to_owned());
    }
    assert!(!queries.is_empty());
    for name in template.names_of("AWS::Logs::QueryDefinition") {
        let query = template.properties(name)["QueryString"].take();
        queries.push(query.as_str().unwrap().to_owned());
    }
    queries
}

/// The texts and the other words of a query, without its comments.
fn texts_and_words(query: &str) -> (Vec<String>, Vec<String>) {
    let lines = query.lines().filter(|line| !line.starts_with('#'));
    let query = lines.collect::<Vec<_>>().join("\n").replace('"', "'");
    let mut texts = Vec::new();
    let mut words = Vec::new();
    for (index, part) in query.split('\'').enumerate() {
        if index % 2 == 1 {
            texts.push(part.to_owned());
            continue;
        }
        let found = part.split(|c: char| !c.is_alphanumeric() && c != '@' && c != '_');
        let found = found.filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '@'));
        words.extend(found.map(str::to_owned));
    }
    (texts, words)
}

#[test]
fn the_queries_name_only_fields_and_values_that_deliver_logs() {
    let source = source();
    for query in queries(&Template::read()) {
        let (texts, words) = texts_and_words(&query);
        let names = words.windows(2).filter(|pair| pair[0] == "as");
        let names: BTreeSet<&str> = names.map(|pair| pair[1].as_str()).collect();
        for word in &words {
            let known = WORDS.contains(&word.as_str())
                || names.contains(word.as_str())
                || source.contains(&format!(" {word} = "));
            assert!(known, "{word}: {query}");
        }
        for text in texts {
            // The one for the reader to replace.
            let known = text == "msg_EVENT_SUBSCRIBER" || source.contains(&format!("\"{text}\""));
            assert!(known, "{text}: {query}");
        }
    }
}

#[test]
fn three_queries_are_saved_and_read_the_log_of_deliver() {
    let template = Template::read();
    let saved = template.names_of("AWS::Logs::QueryDefinition");
    assert_eq!(
        saved.iter().copied().collect::<BTreeSet<_>>(),
        BTreeSet::from([
            "DeliveryStoryQuery",
            "PartnerSuccessQuery",
            "SlowestPartnersQuery"
        ])
    );
    for name in saved {
        // The local AWS has no such thing.
        assert_eq!(template.section("Resources")[name]["Condition"], "OnAws");
        let query = template.properties(name);
        assert_eq!(query["LogGroupNames"], json!([{"Ref": "DeliverLogGroup"}]));
        let shown = query["Name"]["Fn::Sub"].as_str().unwrap();
        assert!(shown.starts_with("${AWS::StackName}/"), "{shown}");
    }
    assert_eq!(
        template.section("Conditions")["OnAws"],
        json!({"Fn::Not": [{"Fn::Equals": [{"Ref": "AWS::AccountId"}, "000000000000"]}]})
    );
}

#[test]
fn the_metrics_that_alarms_and_dashboard_name_are_those_that_deliver_writes() {
    let source = source();
    for metric in EMBEDDED {
        assert!(source.contains(&format!("\"{metric}\"")), "{metric}");
    }
    let template = Template::read();
    for name in template.names_of("AWS::CloudWatch::Alarm") {
        let alarm = template.properties(name);
        if alarm["Namespace"] == "SqsWebhooks" && alarm.get("Dimensions").is_some() {
            let metric = alarm["MetricName"].as_str().unwrap();
            assert!(EMBEDDED.contains(&metric), "{name}");
        }
    }
}
