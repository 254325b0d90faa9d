//! Lambda and EventBridge.

use aws_config::SdkConfig;

use crate::aws;
use crate::doctor::findings::{Function, Mapping, Read, Rule, Unread};
use crate::error::Error;

/// A function, by its name.
pub(super) async fn function(aws: &SdkConfig, name: Result<&str, Error>) -> Read<Function> {
    let name = name?;
    let answer = aws_sdk_lambda::Client::new(aws)
        .get_function_configuration()
        .function_name(name)
        .send()
        .await
        .map_err(|error| aws::failure("lambda:GetFunctionConfiguration", &error))?;
    let variables = answer.environment.and_then(|all| all.variables);
    Ok(Function {
        name: name.to_owned(),
        state: answer
            .state
            .map_or(String::new(), |state| state.as_str().to_owned()),
        last_update: answer
            .last_update_status
            .map_or(String::new(), |status| status.as_str().to_owned()),
        timeout_seconds: answer
            .timeout
            .and_then(|seconds| u64::try_from(seconds).ok())
            .unwrap_or(0),
        variables: variables.unwrap_or_default(),
    })
}

/// What hands something to a function.
pub(super) async fn mappings(aws: &SdkConfig, function: &str) -> Read<Vec<Mapping>> {
    let answer = aws_sdk_lambda::Client::new(aws)
        .list_event_source_mappings()
        .function_name(function)
        .send()
        .await
        .map_err(|error| aws::failure("lambda:ListEventSourceMappings", &error))?;
    let mappings = answer.event_source_mappings().iter();
    Ok(mappings
        .map(|mapping| Mapping {
            id: mapping.uuid().unwrap_or_default().to_owned(),
            state: mapping.state().unwrap_or_default().to_owned(),
            source_arn: mapping.event_source_arn().unwrap_or_default().to_owned(),
            reports_failures: mapping
                .function_response_types()
                .iter()
                .any(|kind| kind.as_str() == "ReportBatchItemFailures"),
        })
        .collect())
}

/// The rule of this ARN, and its targets.
pub(super) async fn rule(aws: &SdkConfig, arn: Result<&str, Error>) -> Read<Rule> {
    let arn = arn?;
    let (bus, name) = of_arn(arn).ok_or_else(|| Unread::Failed(format!("no rule: {arn}")))?;
    let client = aws_sdk_eventbridge::Client::new(aws);
    let rule = client
        .describe_rule()
        .name(name)
        .event_bus_name(bus)
        .send()
        .await
        .map_err(|error| aws::failure("events:DescribeRule", &error))?;
    let targets = client
        .list_targets_by_rule()
        .rule(name)
        .event_bus_name(bus)
        .send()
        .await
        .map_err(|error| aws::failure("events:ListTargetsByRule", &error))?;
    let targets = targets.targets().iter();
    Ok(Rule {
        name: name.to_owned(),
        bus: bus.to_owned(),
        state: rule
            .state
            .map_or(String::new(), |state| state.as_str().to_owned()),
        targets: targets.map(|target| target.arn().to_owned()).collect(),
    })
}

/// Bus and name: `…:rule/bus/name`, or `…:rule/name` on the default bus.
fn of_arn(arn: &str) -> Option<(&str, &str)> {
    let (_, path) = arn.split_once(":rule/")?;
    Some(path.rsplit_once('/').unwrap_or(("default", path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_named_by_its_bus_and_its_name() {
        let arn = |path: &str| format!("arn:aws:events:eu-central-1:111122223333:rule/{path}");
        assert_eq!(of_arn(&arn("shop/paid")), Some(("shop", "paid")));
        assert_eq!(of_arn(&arn("paid")), Some(("default", "paid")));
        assert_eq!(
            of_arn(&arn("aws.partner/x/paid")),
            Some(("aws.partner/x", "paid"))
        );
        assert_eq!(of_arn("paid"), None);
    }
}
