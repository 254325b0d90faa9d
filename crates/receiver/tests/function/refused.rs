//! What is not taken: nothing of it is stored, and the sender is told why in words that help the
//! person who made the mistake and nobody else.

use e2e::signature::secret_for;
use e2e::stage::assert_untold;
use e2e::webhook::{Webhook, function_url_event, now_seconds};
use serde_json::{Value, json};

use crate::{RECEIVER, answer, refused, stage};

const ID: &str = "msg_1_kasse-nord";

/// What somebody without the secret could learn from, if it were told.
const CARD: &str = "4111 1111 1111 1111";

fn webhook(secret: &str) -> Webhook {
    let data = format!(r#"{{"card":"{CARD}"}}"#);
    Webhook::now(secret, ID, &Webhook::body_of("OrderPaid", &data))
}

/// An event without one of its headers, or with another value for it.
fn with_header(webhook: &Webhook, name: &str, value: Option<&str>) -> Value {
    let mut event = webhook.event();
    let headers = event["headers"].as_object_mut().unwrap();
    match value {
        Some(value) => headers.insert(name.into(), value.into()),
        None => headers.remove(name),
    };
    event
}

/// A body that is signed as it should be.
fn signed(secret: &str, body: &str) -> Value {
    Webhook::now(secret, ID, body).event()
}

#[tokio::test]
async fn every_refusal_has_its_status_and_its_reason() {
    let secret = secret_for("partner");
    let good = webhook(&secret);
    let mut cases = vec![
        (function_url_event("GET", &[], ""), {
            let mut refused = refused(405, "only POST is taken");
            refused["headers"]["allow"] = "POST".into();
            refused
        }),
        (
            signed(&secret, &"x".repeat(1024 * 1024 + 1)),
            refused(413, "the body has more than 1048576 bytes"),
        ),
        (
            signed(&secret, "{]"),
            refused(
                400,
                "the body is not an event with type, timestamp and data: not JSON at line 1 column 2",
            ),
        ),
        (
            signed(&secret, r#"{"type":"OrderPaid","data":{}}"#),
            refused(
                400,
                "the body is not an event with type, timestamp and data: missing field `timestamp` at line 1 column 30",
            ),
        ),
        (
            signed(
                &secret,
                r#"{"type":"","timestamp":"2026-11-30T12:00:00Z","data":{}}"#,
            ),
            refused(400, "`type` is empty or has more than 256 bytes"),
        ),
        (
            signed(&secret, r#"{"type":"A","timestamp":"today","data":{}}"#),
            refused(400, "`timestamp` is not a date of RFC 3339"),
        ),
        (
            Webhook::now(&secret, &"x".repeat(2049), &good.body).event(),
            refused(400, "webhook-id has more than 2048 bytes"),
        ),
        (
            Webhook::now(&secret, "msg.1", &good.body).event(),
            refused(401, "`webhook-id` is empty or has a dot in it"),
        ),
        (
            with_header(&good, "webhook-timestamp", Some("now")),
            refused(
                401,
                "`webhook-timestamp` is not a whole number of seconds since 1970",
            ),
        ),
        (
            with_header(&good, "webhook-signature", Some("v1a,AAAA")),
            refused(
                401,
                "`webhook-signature` has no signature of a scheme that is verified here",
            ),
        ),
    ];
    for content_type in [
        None,
        Some("text/plain"),
        Some("application/json,application/json"),
    ] {
        cases.push((
            with_header(&good, "content-type", content_type),
            refused(415, "the content type is not application/json"),
        ));
    }
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        for value in [None, Some("")] {
            cases.push((
                with_header(&good, name, value),
                refused(400, &format!("the header {name} is missing")),
            ));
        }
    }
    let mut not_base64 = good.event();
    not_base64["isBase64Encoded"] = true.into();
    cases.push((not_base64, refused(400, "the body can not be decoded")));
    let too_large = Webhook::now(&secret, ID, &"x".repeat(1024 * 1024 + 100));
    cases.push((
        too_large.event_in_base64(),
        refused(413, "the body has more than 1048576 bytes"),
    ));
    let mut replayed = good.event_in_base64();
    replayed["body"] = "/w==".into();
    cases.push((replayed, wrong_signature()));
    let stage = stage(&secret).await;
    let receiver = stage.start(RECEIVER).await;

    for (event, expected) in cases {
        let answered = answer(&receiver, &event).await;
        assert_eq!(answered, expected, "{:.300}", event.to_string());
    }

    assert_eq!(stage.aws.calls("PutItem").len(), 0);
    let lines = receiver.stop().await;
    let key = secret.strip_prefix("whsec_").unwrap();
    assert_untold(&lines, &[CARD, key]);
    for line in &lines {
        assert!(line.contains("webhook.refused"), "{line}");
    }
}

fn wrong_signature() -> Value {
    refused(401, "no signature in `webhook-signature` is right")
}

/// As when a request is recorded and sent again, or the clock of the sender is wrong.
#[tokio::test]
async fn what_is_not_of_now_is_refused() {
    let secret = secret_for("partner");
    let stage = stage(&secret).await;
    let receiver = stage.start(RECEIVER).await;
    let body = Webhook::body_of("OrderPaid", "{}");
    for (seconds, expected, when) in [
        (now_seconds() - 290, 202, ""),
        (now_seconds() - 310, 401, "ago"),
        (now_seconds() + 290, 202, ""),
        (now_seconds() + 360, 401, "ahead"),
    ] {
        let id = format!("msg_{seconds}");
        let webhook = Webhook::at(seconds, &secret, &id, &body);
        let answered = answer(&receiver, &webhook.event()).await;
        assert_eq!(answered["statusCode"], expected, "{answered}");
        if !when.is_empty() {
            let reason = format!(" seconds {when}, more than the 300 that are allowed");
            assert!(answered["body"].to_string().contains(&reason), "{answered}");
        }
        assert_eq!(stage.aws.received(&id).is_some(), expected == 202);
    }
}

#[tokio::test]
async fn what_was_changed_on_the_way_is_refused() {
    let secret = secret_for("partner");
    let good = webhook(&secret);
    let cut = good.signature.trim_end_matches('=').to_owned();
    let short = good.signature.get(..12).unwrap().to_owned();
    let other = |change: &dyn Fn(&mut Webhook)| {
        let mut other = good.clone();
        change(&mut other);
        other.event()
    };
    let earlier = (now_seconds() - 10).to_string();
    let cases = [
        webhook(&secret_for("other")).event(),
        other(&|webhook| webhook.id = "msg_2_kasse-nord".into()),
        other(&|webhook| webhook.timestamp = earlier.clone()),
        other(&|webhook| webhook.body = webhook.body.replace("4111", "4112")),
        // The same event, written again by a parser.
        other(&|webhook| webhook.body = webhook.body.replace(':', ": ")),
        other(&|webhook| webhook.signature = cut.clone()),
        other(&|webhook| webhook.signature = short.clone()),
        other(&|webhook| webhook.signature = "v1,".into()),
        // Headers that came twice.
        with_header(&good, "webhook-id", Some(&format!("{ID},{ID}"))),
        with_header(
            &good,
            "webhook-signature",
            Some(&format!("{0},{0}", good.signature)),
        ),
    ];
    let stage = stage(&secret).await;
    let receiver = stage.start(RECEIVER).await;

    for event in cases {
        assert_eq!(
            answer(&receiver, &event).await,
            wrong_signature(),
            "{event}"
        );
    }

    assert_eq!(stage.aws.calls("PutItem").len(), 0);
    // They came too soon after the first look to be worth another.
    assert_eq!(stage.aws.calls("GetParameter").len(), 1);
}

#[tokio::test]
async fn an_event_that_is_too_large_even_when_compressed_is_refused() {
    let secret = secret_for("partner");
    let stage = stage(&secret).await;
    let receiver = stage.start(RECEIVER).await;
    // Digests have no pattern.
    let noise: String = (0..15_000).map(|n| secret_for(&n.to_string())).collect();
    let body = Webhook::body_of("OrderPaid", &json!(noise).to_string());
    assert!(body.len() < 1024 * 1024, "{}", body.len());

    assert_eq!(
        answer(&receiver, &signed(&secret, &body)).await,
        refused(413, "the event is too large to be stored")
    );
    assert_eq!(stage.aws.calls("PutItem").len(), 0);
}
