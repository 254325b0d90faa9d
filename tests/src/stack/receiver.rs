//! A partner's receiver beside the service: deployed from its own template, or run on this machine.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_ssm::types::ParameterType;
use serde_json::Value;

use super::Stack;
use super::aws::client;
use crate::runtime::Environment;

/// A receiver in the local AWS.
#[derive(Debug)]
pub struct DeployedReceiver {
    /// Where the function URL is reached from this machine.
    pub url: String,
    /// Its table.
    pub table_name: String,
    /// The parameter that its secret is read from.
    pub secret_parameter: String,
}

impl Stack {
    /// Deploys infra/receiver/template.yaml.
    ///
    /// # Panics
    /// If that fails.
    pub async fn deploy_receiver(&self) -> DeployedReceiver {
        let printed = self.tool("deploy-receiver", &[], "").await;
        let outputs: Value = serde_json::from_str(&printed).expect("JSON");
        let output = |name: &str| outputs[name].as_str().expect(name).to_owned();
        DeployedReceiver {
            url: output("LocalUrl"),
            table_name: output("ReceivedTableName"),
            secret_parameter: output("SecretParameter"),
        }
    }

    /// Sets the parameter of a receiver's secret.
    pub async fn put_receiver_secret(&self, receiver: &DeployedReceiver, secret: &str) {
        client!(self, aws_sdk_ssm)
            .put_parameter()
            .name(&receiver.secret_parameter)
            .r#type(ParameterType::SecureString)
            .value(secret)
            .overwrite(true)
            .send()
            .await
            .unwrap();
    }

    /// What a receiver has stored of a webhook.
    pub async fn received(
        &self,
        receiver: &DeployedReceiver,
        webhook_id: &str,
    ) -> Option<HashMap<String, AttributeValue>> {
        let answer = client!(self, aws_sdk_dynamodb)
            .get_item()
            .table_name(&receiver.table_name)
            .key("webhookId", AttributeValue::S(webhook_id.into()))
            .consistent_read(true)
            .send()
            .await
            .unwrap();
        answer.item
    }

    /// Starts the receiver's server on this machine, which stores in the table of a deployed one,
    /// and gives its address. It ends when the environment is dropped.
    ///
    /// # Panics
    /// If it is not built, or does not start.
    pub async fn start_receiver(
        &self,
        receiver: &DeployedReceiver,
        secret: &str,
    ) -> (Environment, SocketAddr) {
        let description = &self.description;
        let variables = [
            ("AWS_ENDPOINT_URL", description.endpoint_url.as_str()),
            ("AWS_REGION", &description.region),
            ("AWS_ACCESS_KEY_ID", &description.access_key_id),
            ("AWS_SECRET_ACCESS_KEY", &description.secret_access_key),
            ("TABLE_NAME", &receiver.table_name),
            ("WEBHOOKS_SECRET", secret),
            ("LISTEN", "127.0.0.1:0"),
        ];
        let server = Environment::start(&program(), variables).await;
        let line = server.line_with(&["receiver.listening"]).await;
        let line: Value = serde_json::from_str(&line).unwrap();
        let address = line["address"].as_str().expect("an address");
        (server, address.parse().unwrap())
    }
}

/// Where cargo puts the server, beside the directory of this test.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own program");
    let directory = test.ancestors().nth(2).expect("cargo's directory");
    let program = directory.join("receiver-local");
    assert!(
        program.exists(),
        "{} is not there. Run `cargo test --workspace --no-run` first, as `make e2e` does.",
        program.display()
    );
    program
}
