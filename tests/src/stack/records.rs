//! The delivery records, as an operator reads them in the table.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use super::aws::client;
use super::{Function, Line, Stack};

impl Stack {
    /// The record of a delivery as it is now, if there is one.
    pub async fn record(&self, webhook_id: &str) -> Option<Value> {
        let answer = client!(self, aws_sdk_dynamodb)
            .get_item()
            .table_name(self.output("DeliveriesTableName"))
            .key("webhookId", AttributeValue::S(webhook_id.into()))
            .consistent_read(true)
            .send()
            .await
            .unwrap();
        answer.item.map(plain_item)
    }

    /// All records as they are now.
    pub async fn all_records(&self) -> Vec<Value> {
        let mut pages = client!(self, aws_sdk_dynamodb)
            .scan()
            .table_name(self.output("DeliveriesTableName"))
            .consistent_read(true)
            .into_paginator()
            .items()
            .send();
        let mut records = Vec::new();
        while let Some(item) = pages.next().await {
            records.push(plain_item(item.unwrap()));
        }
        records
    }

    /// Takes a delivery's record away, as the table's time to live does after 30 days.
    pub async fn forget(&self, webhook_id: &str) {
        client!(self, aws_sdk_dynamodb)
            .delete_item()
            .table_name(self.output("DeliveriesTableName"))
            .key("webhookId", AttributeValue::S(webhook_id.into()))
            .send()
            .await
            .unwrap();
    }

    /// Waits until a delivery stands like that, and gives its record.
    ///
    /// # Panics
    /// If that does not happen.
    pub async fn record_when(&self, webhook_id: &str, state: &str) -> Value {
        self.until(&format!("{webhook_id} to be {state}"), async || {
            let record = self.record(webhook_id).await?;
            (record["state"] == state).then_some(record)
        })
        .await
    }

    /// Waits for as long as a delivery is being retried, and gives its record when it has ended.
    ///
    /// # Panics
    /// If nothing happens to it for too long.
    pub async fn ending(&self, webhook_id: &str) -> Value {
        let attempts = json!({"message": "delivery.attempted", "webhookId": webhook_id});
        let mut known = 0;
        loop {
            let lines = self
                .lines_until(Function::Deliver, &attempts, known + 1)
                .await;
            let ends = |line: &Line| {
                let outcome = line.json["outcome"].as_str();
                ["delivered", "gone", "dead"].map(Some).contains(&outcome)
            };
            if lines.iter().any(ends) {
                return self.record(webhook_id).await.expect("a record");
            }
            known = lines.len();
        }
    }

    /// The records of a subscriber's deliveries without their bodies, the latest last.
    pub async fn records_of(&self, subscriber_id: &str) -> Vec<Value> {
        let answer = client!(self, aws_sdk_dynamodb)
            .query()
            .table_name(self.output("DeliveriesTableName"))
            .index_name("bySubscriber")
            .key_condition_expression("subscriberId = :subscriber")
            .expression_attribute_values(":subscriber", AttributeValue::S(subscriber_id.into()))
            .send()
            .await
            .unwrap();
        let items = answer.items.unwrap_or_default();
        items.into_iter().map(plain_item).collect()
    }
}

fn plain_item(item: HashMap<String, AttributeValue>) -> Value {
    let plain = item.into_iter().map(|(name, value)| (name, plain(value)));
    Value::Object(plain.collect())
}

/// An attribute without the letters for its type.
fn plain(value: AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => text.into(),
        AttributeValue::N(number) => serde_json::from_str(&number).expect("a number"),
        AttributeValue::Bool(yes) => yes.into(),
        AttributeValue::L(values) => values.into_iter().map(plain).collect(),
        AttributeValue::M(item) => plain_item(item),
        // A long body, compressed.
        AttributeValue::B(bytes) => BASE64_STANDARD.encode(bytes).into(),
        other => panic!("a record holds no {other:?}"),
    }
}
