//! infra/receiver/template.yaml: a partner's side, open to the whole world, and so with the least
//! that it can do with.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use e2e::stack::read;
use serde_json::{Value, json};
use toml::Table;

use crate::cloudformation::{Template, number};
use crate::documents::{assert_console_shows_all, listed_below};
use crate::environment::read_by;
use crate::permissions::{ACCOUNT, Grant, all_fields, arn_of, expected, grants, list};

fn variables(template: &Template) -> BTreeMap<String, String> {
    let variables = template.properties("ReceiverFunction")["Environment"]["Variables"].take();
    let value = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other if *other == json!({"Ref": "ReceivedTable"}) => {
            "webhooks-receiver-ReceivedTable-1BD9EAF151C4B".into()
        }
        other => panic!("not a text: {other}"),
    };
    let variables = variables.as_object().unwrap().iter();
    variables
        .map(|(name, variable)| (name.clone(), value(variable)))
        .collect()
}

#[test]
fn the_template_sets_exactly_what_the_receiver_reads() {
    let template = Template::read_receiver()
        .with("SecretParameter", "/partners/shop/secret")
        .with("KeepDays", "999");
    let variables = variables(&template);
    let (config, asked) = read_by(&variables, receiver::Config::from_settings);
    let config = config.unwrap();
    assert_eq!(asked, variables.keys().cloned().collect());
    assert_eq!(config.secret_parameter, "/partners/shop/secret");
    assert_eq!(config.table_name, variables["TABLE_NAME"]);
    assert_eq!(config.keep, Duration::from_secs(999 * 86_400));
}

/// What the README promises to partners.
#[test]
fn an_event_is_kept_for_37_days_unless_said_otherwise() {
    let mut variables = variables(&Template::read_receiver());
    let by_template = read_by(&variables, receiver::Config::from_settings).0;
    variables.remove("KEEP_DAYS");
    let by_itself = read_by(&variables, receiver::Config::from_settings).0;
    let keep = Duration::from_secs(37 * 86_400);
    assert_eq!(by_template.unwrap().keep, keep);
    assert_eq!(by_itself.unwrap().keep, keep);
    assert!(read("", "README.md").contains("remembers ids for 37 days"));
}

/// The grants besides the key that the secret is encrypted with.
fn usual_grants(parameter: &str) -> BTreeSet<Grant> {
    let secret = format!("arn:${{AWS::Partition}}:ssm:{ACCOUNT}:parameter{parameter}");
    expected([
        ("dynamodb:PutItem", arn_of("ReceivedTable")),
        ("ssm:GetParameter", json!({"Fn::Sub": secret})),
        ("logs:CreateLogStream", arn_of("ReceiverLogGroup")),
        ("logs:PutLogEvents", arn_of("ReceiverLogGroup")),
    ])
}

#[test]
fn the_receiver_may_write_events_and_read_its_secret() {
    let template = Template::read_receiver().with("SecretParameter", "/partners/shop/secret");
    let via_ssm = json!({"kms:ViaService": {"Fn::Sub": "ssm.${AWS::Region}.amazonaws.com"}});
    let with = |resource: Value, condition: Value| {
        let mut grants = usual_grants("/partners/shop/secret");
        grants.insert((
            String::from("kms:Decrypt"),
            format!("{resource} if {condition}"),
        ));
        grants
    };
    let any_key = json!({"Fn::Sub": format!("arn:${{AWS::Partition}}:kms:{ACCOUNT}:key/*")});
    let condition = json!({
        "StringEquals": via_ssm,
        "ForAnyValue:StringEquals": {"kms:ResourceAliases": "alias/aws/ssm"},
    });
    assert_eq!(grants(&template, "ReceiverRole"), with(any_key, condition));

    let key = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
    let template = template.with("SecretsKmsKeyArn", key);
    let condition = json!({"StringEquals": via_ssm});
    assert_eq!(
        grants(&template, "ReceiverRole"),
        with(key.into(), condition)
    );
}

#[test]
fn nothing_is_granted_by_the_way() {
    let template = Template::read_receiver();
    assert_eq!(template.names_of("AWS::IAM::Role"), ["ReceiverRole"]);
    assert_eq!(template.names_of("AWS::IAM::Policy"), [] as [&str; 0]);
    assert_eq!(
        template.names_of("AWS::Serverless::Function"),
        ["ReceiverFunction"]
    );
    let function = template.properties("ReceiverFunction");
    assert_eq!(function.get("Policies"), None);
    assert_eq!(function["Role"], arn_of("ReceiverRole"));
    let mut fields = Vec::new();
    all_fields(template.section("Resources"), &mut fields);
    for (name, value) in fields {
        match name {
            "Resource" | "Principal" | "Service" => {
                assert!(list(value).iter().all(|item| item != "*"), "{value}");
            }
            "Action" => assert!(!value.to_string().contains('*'), "{value}"),
            "ManagedPolicyArns" | "Connectors" | "NotAction" | "NotResource" => {
                panic!("{name}: {value}")
            }
            _ => {}
        }
    }
}

#[test]
fn the_url_is_open_and_what_it_can_cost_is_bounded() {
    let template = Template::read_receiver();
    let function = template.properties("ReceiverFunction");
    assert_eq!(
        function["FunctionUrlConfig"],
        json!({"AuthType": "NONE", "InvokeMode": "BUFFERED"})
    );
    assert_eq!(function["ReservedConcurrentExecutions"], "10");
    let unbounded = template.with("ReservedConcurrency", "");
    assert_eq!(
        unbounded.properties("ReceiverFunction")["ReservedConcurrentExecutions"],
        json!({"Ref": "AWS::NoValue"})
    );
}

/// Only then does the sender get an answer, and none of the function's runs is a timeout.
#[test]
fn the_answer_comes_before_the_functions_time_is_over() {
    let timeout = number(&Template::read_receiver().properties("ReceiverFunction")["Timeout"]);
    assert!(
        timeout >= receiver::ANSWER_WITHIN.as_secs() + 3,
        "{timeout}"
    );
}

#[test]
fn the_table_has_the_key_and_the_time_to_live_that_the_receiver_writes() {
    let template = Template::read_receiver();
    let table = template.properties("ReceivedTable");
    assert_eq!(
        table["KeySchema"],
        json!([{"AttributeName": "webhookId", "KeyType": "HASH"}])
    );
    assert_eq!(
        table["AttributeDefinitions"],
        json!([{"AttributeName": "webhookId", "AttributeType": "S"}])
    );
    assert_eq!(
        table["TimeToLiveSpecification"],
        json!({"AttributeName": "expiresAt", "Enabled": true})
    );
    let resource = &template.section("Resources")["ReceivedTable"];
    assert_eq!(resource["DeletionPolicy"], "Retain");
    assert_eq!(resource["UpdateReplacePolicy"], "Retain");
}

#[test]
fn the_alarms_watch_what_was_not_taken() {
    let topic = "arn:aws:sns:eu-central-1:111122223333:ops";
    let template = Template::read_receiver().with("AlarmTopicArn", topic);
    let alarms = [
        ("ErrorsAlarm", "Errors"),
        ("UnavailableAlarm", "Url5xxCount"),
    ];
    assert_eq!(
        template.names_of("AWS::CloudWatch::Alarm"),
        alarms.map(|(name, _)| name)
    );
    for (name, metric) in alarms {
        let mut alarm = template.properties(name);
        let description = alarm["AlarmDescription"].take();
        assert!(!description.as_str().unwrap().is_empty(), "{name}");
        assert_eq!(
            alarm,
            json!({
                "AlarmDescription": null,
                "Namespace": "AWS/Lambda",
                "MetricName": metric,
                "Dimensions": [{"Name": "FunctionName", "Value": {"Ref": "ReceiverFunction"}}],
                "Statistic": "Sum",
                "Period": 60,
                "EvaluationPeriods": 1,
                "Threshold": 0,
                "ComparisonOperator": "GreaterThanThreshold",
                "TreatMissingData": "notBreaching",
                "AlarmActions": [topic],
                "OKActions": [topic],
            })
        );
        let silent = Template::read_receiver().properties(name);
        assert_eq!(silent["AlarmActions"], json!({"Ref": "AWS::NoValue"}));
    }
}

#[test]
fn the_readme_and_the_console_list_every_parameter() {
    let template = Template::read_receiver();
    let listed = listed_below("A receiver to deploy");
    assert_eq!(listed, *template.parameters());
    assert_console_shows_all(&template);
}

#[test]
fn only_the_local_stack_departs_from_the_defaults() {
    let config: Table = read("infra/receiver", "samconfig.toml").parse().unwrap();
    let overrides = |environment: &str| {
        let parameters = &config[environment]["deploy"]["parameters"];
        let text = parameters.get("parameter_overrides");
        text.and_then(toml::Value::as_str).map(str::to_owned)
    };
    assert_eq!(overrides("default"), None);
    let local = overrides("local").unwrap();
    // `with` knows the names that there are.
    local
        .split_whitespace()
        .map(|pair| pair.split_once('=').unwrap())
        .fold(Template::read_receiver(), |template, (name, value)| {
            template.with(name, value)
        });
}
