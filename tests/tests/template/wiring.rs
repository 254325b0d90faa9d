//! Which resource hands what to which, and where what fails is kept.

use serde_json::{Value, json};

use crate::cloudformation::{Template, number};

fn arn_of(resource: &str) -> Value {
    json!({"Fn::GetAtt": [resource, "Arn"]})
}

fn reference(resource: &str) -> Value {
    json!({"Ref": resource})
}

#[test]
fn the_rule_hands_the_chosen_events_to_dispatch_and_keeps_what_fails() {
    let rule = Template::read()
        .with("EventSources", "shop.orders,shop.billing")
        .with("EventTypes", "OrderPaid")
        .properties("EventRule");
    assert_eq!(
        rule["EventPattern"],
        json!({"source": ["shop.orders", "shop.billing"], "detail-type": ["OrderPaid"]})
    );
    assert_eq!(rule["State"], "ENABLED");
    assert_eq!(
        rule["Targets"],
        json!([{
            "Id": "dispatch",
            "Arn": arn_of("DispatchFunction"),
            "RetryPolicy": {"MaximumRetryAttempts": 185, "MaximumEventAgeInSeconds": 86_400},
            "DeadLetterConfig": {"Arn": arn_of("DispatchFailureQueue")},
        }])
    );
}

#[test]
fn the_bus_is_the_stacks_own_unless_one_is_named() {
    let template = Template::read();
    let bus = |template: &Template| template.properties("EventRule")["EventBusName"].take();
    assert_eq!(bus(&template), reference("EventBus"));
    assert_eq!(bus(&template.with("EventBusName", "default")), "default");
}

#[test]
fn only_the_rule_may_invoke_dispatch_and_send_to_the_failure_queue() {
    let template = Template::read();
    assert_eq!(
        template.properties("EventRuleMayInvokeDispatch"),
        json!({
            "Action": "lambda:InvokeFunction",
            "FunctionName": arn_of("DispatchFunction"),
            "Principal": "events.amazonaws.com",
            "SourceArn": arn_of("EventRule"),
        })
    );
    let policy = template.properties("DispatchFailureQueuePolicy");
    assert_eq!(policy["Queues"], json!([reference("DispatchFailureQueue")]));
    assert_eq!(
        policy["PolicyDocument"]["Statement"],
        json!([{
            "Sid": "EventRuleMaySend",
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": arn_of("DispatchFailureQueue"),
            "Condition": {"ArnEquals": {"aws:SourceArn": arn_of("EventRule")}},
        }])
    );
}

#[test]
fn events_that_dispatch_cannot_handle_are_kept() {
    let config = Template::read().properties("DispatchFunction")["EventInvokeConfig"].take();
    assert_eq!(
        config,
        json!({
            "MaximumRetryAttempts": 2,
            "MaximumEventAgeInSeconds": 21_600,
            "DestinationConfig": {
                "OnFailure": {"Type": "SQS", "Destination": arn_of("DispatchFailureQueue")},
            },
        })
    );
}

#[test]
fn deliver_works_on_batches_and_answers_message_by_message() {
    let function = Template::read().properties("DeliverFunction");
    assert_eq!(
        function["Events"],
        json!({
            "Jobs": {
                "Type": "SQS",
                "Properties": {
                    "Queue": arn_of("JobsQueue"),
                    "BatchSize": 10,
                    "FunctionResponseTypes": ["ReportBatchItemFailures"],
                    "ScalingConfig": {"MaximumConcurrency": "20"},
                },
            },
        })
    );
    // Throttling would cost messages a receive without a POST.
    assert_eq!(function.get("ReservedConcurrentExecutions"), None);
}

#[test]
fn the_redrive_policy_is_the_only_door_to_the_dead_letters() {
    let template = Template::read();
    let jobs = template.properties("JobsQueue");
    assert_eq!(
        jobs["RedrivePolicy"]["deadLetterTargetArn"],
        arn_of("DeadLetterQueue")
    );
    let jobs_name = jobs["QueueName"]["Fn::Sub"].as_str().unwrap();
    let account = "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}";
    assert_eq!(
        template.properties("DeadLetterQueue")["RedriveAllowPolicy"],
        json!({
            "redrivePermission": "byQueue",
            "sourceQueueArns": [{"Fn::Sub": format!("{account}:{jobs_name}")}],
        })
    );
    let queues = template.names_of("AWS::SQS::QueuePolicy");
    assert_eq!(queues, ["DispatchFailureQueuePolicy"]);
}

#[test]
fn every_queue_is_encrypted_and_keeps_what_failed_for_fourteen_days() {
    let template = Template::read();
    let queues = template.names_of("AWS::SQS::Queue");
    assert_eq!(
        queues,
        ["DeadLetterQueue", "DispatchFailureQueue", "JobsQueue"]
    );
    for queue in queues {
        let properties = template.properties(queue);
        assert_eq!(properties["SqsManagedSseEnabled"], true, "{queue}");
        // A standard queue: fair, and without the limits of FIFO.
        assert_eq!(properties.get("FifoQueue"), None, "{queue}");
        if queue != "JobsQueue" {
            assert_eq!(
                number(&properties["MessageRetentionPeriod"]),
                1_209_600,
                "{queue}"
            );
        }
    }
}

#[test]
fn the_subscriptions_outlive_the_stack_and_can_be_restored() {
    let template = Template::read();
    let table = &template.section("Resources")["SubscriptionsTable"];
    assert_eq!(table["DeletionPolicy"], "Retain");
    assert_eq!(table["UpdateReplacePolicy"], "Retain");
    let properties = template.properties("SubscriptionsTable");
    let restore = &properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"];
    assert_eq!(*restore, true);
    assert_eq!(
        properties["KeySchema"],
        json!([
            {"AttributeName": "eventType", "KeyType": "HASH"},
            {"AttributeName": "subscriberId", "KeyType": "RANGE"},
        ])
    );
}

#[test]
fn a_delivery_is_found_by_its_id_or_by_its_subscriber_without_the_body() {
    let properties = Template::read().properties("DeliveriesTable");
    assert_eq!(properties["BillingMode"], "PAY_PER_REQUEST");
    assert_eq!(
        properties["AttributeDefinitions"],
        json!([
            {"AttributeName": "webhookId", "AttributeType": "S"},
            {"AttributeName": "subscriberId", "AttributeType": "S"},
            {"AttributeName": "updatedAt", "AttributeType": "S"},
        ])
    );
    assert_eq!(
        properties["KeySchema"],
        json!([{"AttributeName": "webhookId", "KeyType": "HASH"}])
    );
    let included = [
        "eventType",
        "eventId",
        "occurredAt",
        "reference",
        "state",
        "attempts",
        "refusals",
        "messageId",
        "startedAt",
        "createdAt",
        "nextAt",
        "expiresAt",
        "deadReason",
        "history",
        "historyCut",
        "bodyOmitted",
        "redrivenAt",
    ];
    // DynamoDB takes no more in an index.
    assert!(included.len() <= 20);
    assert_eq!(
        properties["GlobalSecondaryIndexes"],
        json!([{
            "IndexName": "bySubscriber",
            "KeySchema": [
                {"AttributeName": "subscriberId", "KeyType": "HASH"},
                {"AttributeName": "updatedAt", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": included},
        }])
    );
}

#[test]
fn records_expire_by_themselves_and_outlive_the_stack_until_then() {
    let template = Template::read();
    let table = &template.section("Resources")["DeliveriesTable"];
    // The payloads of dead deliveries are nowhere else once the queues are gone.
    assert_eq!(table["DeletionPolicy"], "Retain");
    assert_eq!(table["UpdateReplacePolicy"], "Retain");
    assert_eq!(
        table["Properties"]["TimeToLiveSpecification"],
        json!({"AttributeName": "expiresAt", "Enabled": true})
    );
    let restore = table["Properties"].get("PointInTimeRecoverySpecification");
    assert_eq!(restore, None);
}

/// A notice that became a webhook would be followed by the next notice, for ever.
#[test]
fn our_own_notices_cannot_become_webhooks() {
    let template = Template::read();
    let rule = &template.section("Rules")["NoticesAreNotDelivered"];
    assert_eq!(rule.get("RuleCondition"), None);
    let [assertion] = &rule["Assertions"].as_array().unwrap()[..] else {
        panic!("{rule}");
    };
    assert_eq!(
        assertion["Assert"],
        json!({"Fn::Not": [{"Fn::Contains": [reference("EventSources"), "sqs-webhooks"]}]})
    );
    let sources = template.parameters()["EventSources"].split(',');
    assert!(sources.into_iter().all(|source| source != "sqs-webhooks"));
}

#[test]
fn a_fixed_table_of_delays_takes_no_base_factor_or_cap() {
    let template = Template::read();
    let rule = &template.section("Rules")["AScheduleInATableDoesNotGrow"];
    assert_eq!(
        rule["RuleCondition"],
        json!({"Fn::Equals": [reference("RetryPolicy"), "contract-72h"]})
    );
    let asserted = rule["Assertions"].as_array().unwrap().iter();
    let asserted: Vec<Value> = asserted
        .map(|assertion| assertion["Assert"].clone())
        .collect();
    let empty = |parameter| json!({"Fn::Equals": [reference(parameter), ""]});
    assert_eq!(
        asserted,
        ["RetryBaseSeconds", "RetryFactor", "RetryCapSeconds"].map(empty)
    );
}

#[test]
fn notices_go_to_the_bus_that_events_come_from() {
    let template = Template::read();
    for template in [template.clone().with("EventBusName", "default"), template] {
        let variables = &template.properties("DeliverFunction")["Environment"]["Variables"];
        let listens = &template.properties("EventRule")["EventBusName"];
        assert_eq!(variables["EVENT_BUS_NAME"], *listens);
    }
}

#[test]
fn both_functions_log_json_into_groups_that_forget() {
    let template = Template::read().with("LogRetentionDays", "90");
    for (function, group) in [
        ("DispatchFunction", "DispatchLogGroup"),
        ("DeliverFunction", "DeliverLogGroup"),
    ] {
        assert_eq!(
            template.properties(function)["LoggingConfig"],
            json!({
                "LogGroup": reference(group),
                "LogFormat": "JSON",
                // Every attempt is one line of this level.
                "ApplicationLogLevel": "INFO",
                "SystemLogLevel": "WARN",
            })
        );
        assert_eq!(template.properties(group)["RetentionInDays"], "90");
    }
    let groups = template.names_of("AWS::Logs::LogGroup");
    assert_eq!(groups, ["DeliverLogGroup", "DispatchLogGroup"]);
}

#[test]
fn both_functions_are_built_for_the_chosen_processor() {
    let template = Template::read();
    let functions = template.names_of("AWS::Serverless::Function");
    assert_eq!(functions, ["DeliverFunction", "DispatchFunction"]);
    let globals = &template.section("Globals")["Function"];
    assert_eq!(globals["Architectures"], json!([reference("Architecture")]));
    assert_eq!(globals["Runtime"], "provided.al2023");
    assert_eq!(globals["MemorySize"], 256);
}
