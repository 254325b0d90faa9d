//! What is stored: every event once, as it came, and only after its signature was found right.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::signature::secret_for;
use e2e::stage::RECEIVED_TABLE;
use e2e::webhook::{Webhook, now_seconds};
use flate2::read::GzDecoder;
use serde_json::json;

use crate::{RECEIVER, answer, repeat, response, stage, stored};

const ID: &str = "msg_7bf73129-1428-4cd3-a780-95db273d1602_kasse-nord";

/// 37 days.
const KEEP_SECONDS: u64 = 37 * 86_400;

#[tokio::test]
async fn an_event_is_stored_with_the_write_that_finds_out_whether_it_is_new() {
    let secret = secret_for("partner");
    let stage = stage(&secret).await;
    let receiver = stage.start(RECEIVER).await;
    let data = r#"{ "total":1.0, "orderId":"K-\u0031" }"#;
    let webhook = Webhook::now(&secret, ID, &Webhook::body_of("OrderPaid", data));
    let before = now_seconds();

    assert_eq!(answer(&receiver, &webhook.event()).await, stored());

    let calls = stage.aws.calls("PutItem");
    let [call] = &calls[..] else {
        panic!("{calls:?}");
    };
    let now = &call["ExpressionAttributeValues"][":now"]["N"];
    let now: u64 = now.as_str().unwrap().parse().unwrap();
    assert!((before..=now_seconds()).contains(&now), "{now}");
    let item = json!({
        "webhookId": {"S": ID},
        "eventType": {"S": "OrderPaid"},
        "occurredAt": {"S": "2026-11-30T12:00:00Z"},
        "receivedAt": call["Item"]["receivedAt"],
        "expiresAt": {"N": (now + KEEP_SECONDS).to_string()},
        "data": {"S": data},
    });
    assert_eq!(
        *call,
        json!({
            "TableName": RECEIVED_TABLE,
            "Item": item,
            "ConditionExpression": "attribute_not_exists(webhookId) OR expiresAt < :now",
            "ExpressionAttributeValues": {":now": {"N": now.to_string()}},
        })
    );
    assert_eq!(stage.aws.received(ID), Some(item));
    let line = receiver.line_with(&["webhook.stored"]).await;
    assert!(line.contains(ID) && line.contains("OrderPaid"), "{line}");
}

#[tokio::test]
async fn a_repeat_is_told_from_a_new_event_and_changes_nothing() {
    let secret = secret_for("partner");
    let stage = stage(&secret).await;
    let receiver = stage.start(RECEIVER).await;
    let body = Webhook::body_of("OrderPaid", r#"{"total":1}"#);
    let first = Webhook::at(now_seconds() - 60, &secret, ID, &body);
    assert_eq!(answer(&receiver, &first.event()).await, stored());
    let item = stage.aws.received(ID);

    // The same request, and the next attempt of the same delivery.
    assert_eq!(answer(&receiver, &first.event()).await, repeat());
    let again = Webhook::now(&secret, ID, &body);
    assert_eq!(answer(&receiver, &again.event_in_base64()).await, repeat());

    assert_eq!(stage.aws.received(ID), item);
    let other = Webhook::now(&secret, "msg_2_kasse-nord", &body);
    assert_eq!(answer(&receiver, &other.event()).await, stored());
}

#[tokio::test]
async fn an_event_is_new_again_after_its_days_even_if_its_item_is_still_there() {
    let secret = secret_for("partner");
    let stage = stage(&secret).await.with("KEEP_DAYS", "7");
    let receiver = stage.start(RECEIVER).await;
    let webhook = Webhook::now(&secret, ID, &Webhook::body_of("OrderPaid", "1"));
    for (expires_at, expected) in [
        (now_seconds() + 60, repeat()),
        (now_seconds() - 60, stored()),
    ] {
        let item = json!({"webhookId": {"S": ID}, "expiresAt": {"N": expires_at.to_string()}});
        stage.aws.put_received(item);
        assert_eq!(answer(&receiver, &webhook.event()).await, expected);
    }
    let item = stage.aws.received(ID).unwrap();
    let expires_at: u64 = item["expiresAt"]["N"].as_str().unwrap().parse().unwrap();
    let keep = expires_at - now_seconds();
    assert!((7 * 86_400 - 60..=7 * 86_400).contains(&keep), "{keep}");
}

#[tokio::test]
async fn a_ping_is_answered_and_not_stored() {
    let secret = secret_for("partner");
    let stage = stage(&secret).await;
    let receiver = stage.start(RECEIVER).await;
    let ping = Webhook::now(&secret, ID, &Webhook::body_of("webhooks.ping", "{}"));

    let pong = answer(&receiver, &ping.event()).await;

    assert_eq!(pong, response(202, r#"{"result":"pong"}"#));
    assert_eq!(stage.aws.calls("PutItem").len(), 0);
    let wrong = Webhook::now(&secret_for("other"), ID, &ping.body);
    assert_eq!(answer(&receiver, &wrong.event()).await["statusCode"], 401);
}

#[tokio::test]
async fn what_an_item_can_not_hold_is_compressed() {
    let secret = secret_for("partner");
    let stage = stage(&secret).await;
    let receiver = stage.start(RECEIVER).await;
    let data = |bytes: usize| format!(r#""{}""#, "x".repeat(bytes - 2));
    for (bytes, attribute) in [
        (400_000, "data"),
        (400_001, "dataGzip"),
        (1_000_000, "dataGzip"),
    ] {
        let id = format!("msg_{bytes}_kasse-nord");
        let webhook = Webhook::now(&secret, &id, &Webhook::body_of("OrderPaid", &data(bytes)));
        assert_eq!(answer(&receiver, &webhook.event()).await, stored());
        let item = stage.aws.received(&id).unwrap();
        let names: Vec<&String> = item.as_object().unwrap().keys().collect();
        assert!(names.contains(&&attribute.to_owned()), "{bytes}: {names:?}");
        if let Some(compressed) = item["dataGzip"]["B"].as_str() {
            let compressed = STANDARD.decode(compressed).unwrap();
            let mut text = String::new();
            let mut decoder = GzDecoder::new(&compressed[..]);
            decoder.read_to_string(&mut text).unwrap();
            assert!(text == data(bytes), "{bytes}");
        }
    }
}

#[tokio::test]
async fn each_of_several_secrets_is_good_and_so_is_a_public_key() {
    let (new, old) = (secret_for("new"), secret_for("old"));
    // The key that the official Go library tests with.
    let seed = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=";
    let signing = webhooks_core::secret::SigningSecrets::parse(seed).unwrap();
    let public = signing.iter().next().unwrap().public_key().unwrap();
    let stage = stage(&format!("{new} {old}\n{public}\n")).await;
    let receiver = stage.start(RECEIVER).await;
    let body = Webhook::body_of("OrderPaid", "{}");
    let mut by_key = Webhook::now(&new, "msg_3", &body);
    let (seconds, now) = (
        by_key.timestamp.parse().unwrap(),
        std::time::SystemTime::now(),
    );
    let signature =
        webhooks_core::signature::sign(&signing, "msg_3", seconds, body.as_bytes(), now);
    by_key.signature = signature.unwrap();
    assert!(by_key.signature.starts_with("v1a,"));
    let mut both = Webhook::now(&old, "msg_4", &body);
    let unknown = Webhook::now(&secret_for("unknown"), "msg_4", &body);
    both.signature = format!("{} {}", unknown.signature, both.signature);

    for webhook in [
        Webhook::now(&new, "msg_1", &body),
        Webhook::now(&old, "msg_2", &body),
        by_key,
        both,
    ] {
        assert_eq!(
            answer(&receiver, &webhook.event()).await,
            stored(),
            "{webhook:?}"
        );
    }
    assert_eq!(stage.aws.calls("GetParameter").len(), 1);
}
