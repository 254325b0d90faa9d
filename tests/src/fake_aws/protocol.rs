//! The four ways in which the services are spoken to.

use serde_json::{Value, json};

use super::{cbor, cloudformation};
use crate::http1::Request;

/// How a call is written, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// JSON with `x-amz-target`: most of them. Lambda, which is spoken to by path, answers so too.
    Json,
    /// A form, answered in XML: CloudFormation and SNS.
    Form,
    /// CBOR: CloudWatch.
    Cbor,
}

/// A call.
pub(super) struct Asked {
    pub service: String,
    pub operation: String,
    pub input: Value,
}

impl Protocol {
    pub(super) fn of(request: &Request) -> Self {
        if request.header("smithy-protocol").is_some() {
            Self::Cbor
        } else if request.header("x-amz-target").is_some() || request.target.starts_with(LAMBDA) {
            Self::Json
        } else {
            Self::Form
        }
    }

    pub(super) fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Json | Self::Form => &[("content-type", "application/x-amz-json-1.0")],
            Self::Cbor => &[
                ("content-type", "application/cbor"),
                ("smithy-protocol", "rpc-v2-cbor"),
            ],
        }
    }
}

/// How paths of Lambda begin.
const LAMBDA: &str = "/2015-03-31/";

/// What a request asks for.
pub(super) fn read(request: &Request) -> Asked {
    let asked = |service: &str, operation: &str, input| Asked {
        service: service.to_owned(),
        operation: operation.to_owned(),
        input,
    };
    match Protocol::of(request) {
        Protocol::Cbor => {
            let operation = request.target.rsplit('/').next().unwrap_or_default();
            asked("CloudWatch", operation, cbor::read(&request.body))
        }
        Protocol::Form => {
            let form = cloudformation::form(&request.body);
            let operation = form["Action"].as_str().unwrap_or_default().to_owned();
            let service = if operation.contains("Topic") {
                "SNS"
            } else {
                "CloudFormation"
            };
            asked(service, &operation, form)
        }
        Protocol::Json => match request.header("x-amz-target") {
            Some(target) => {
                let (service, operation) = target.split_once('.').unwrap_or(("", target));
                let input = serde_json::from_slice(&request.body).unwrap_or_default();
                asked(service, operation, input)
            }
            None => of_lambda(&request.target, asked),
        },
    }
}

fn of_lambda(target: &str, asked: impl Fn(&str, &str, Value) -> Asked) -> Asked {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        [_, "functions", name, "configuration"] => asked(
            "Lambda",
            "GetFunctionConfiguration",
            json!({"FunctionName": name}),
        ),
        [_, "event-source-mappings"] => {
            let name = query
                .split('&')
                .find_map(|part| part.strip_prefix("FunctionName="));
            asked(
                "Lambda",
                "ListEventSourceMappings",
                json!({"FunctionName": name}),
            )
        }
        _ => asked("Lambda", path, Value::Null),
    }
}
