//! The other end: a partner that has our receiver, deployed from its template behind a function URL
//! or as a server on this machine. What deliver sends is stored, once, and nothing else is.

use e2e::client::{Answered, Client};
use e2e::receiver::Answer;
use e2e::signature::secret_for;
use e2e::stack::{Function, read};
use e2e::webhook::{Webhook, now_seconds};
use serde_json::Value;

use crate::policies::STANDARD;
use crate::told;

const EVENT_TYPE: &str = "OrderStored";

/// The event in events/order-paid-eventbridge.json.
const EVENT_ID: &str = "7bf73129-1428-4cd3-a780-95db273d1602";

#[tokio::test]
async fn our_receiver_stores_what_comes_once_and_takes_no_forgery() {
    let stack = STANDARD.stack().await;
    let deployed = stack.deploy_receiver().await;
    // One behind the function URL, one on this machine, and one that shows what is sent; its secret
    // is the others', so that they may be shown it too.
    let secret = secret_for("our receiver");
    stack.put_receiver_secret(&deployed, &secret).await;
    let (server, address) = stack.start_receiver(&deployed, &secret).await;
    let urls = [deployed.url.clone(), format!("http://{address}/")];
    let receivers = ["behind-a-url", "on-this-machine"];
    for (subscriber, url) in receivers.iter().zip(&urls) {
        stack.put_secret(subscriber, &secret).await;
        stack.put_row(EVENT_TYPE, subscriber, url).await;
    }
    let accept = [Answer::status(204)];
    let mut shown = stack.partner(EVENT_TYPE, "shown", accept).await;
    stack.put_secret("shown", &secret).await;
    let event = read("events", "order-paid-eventbridge.json").replace("OrderPaid", EVENT_TYPE);

    // An event that comes twice, the second time when the service has forgotten the first.
    let mut items = Vec::new();
    for (run, status) in [("first", 202), ("second", 200)] {
        assert_eq!(stack.invoke(Function::Dispatch, &event).await, "null");
        for subscriber in receivers {
            let webhook_id = format!("msg_{EVENT_ID}_{subscriber}");
            let record = stack.record_when(&webhook_id, "delivered").await;
            let told = told(&record);
            assert_eq!(
                told,
                [format!("1 delivered {status}")],
                "{run} {subscriber}"
            );
            stack.forget(&webhook_id).await;
            items.push(
                stack
                    .received(&deployed, &webhook_id)
                    .await
                    .expect(subscriber),
            );
        }
    }
    let [at_url, on_machine, at_url_again, on_machine_again] = &items[..] else {
        panic!("{items:?}");
    };
    assert_eq!(at_url, at_url_again);
    assert_eq!(on_machine, on_machine_again);
    let event: Value = serde_json::from_str(&event).unwrap();
    for item in [at_url, on_machine] {
        assert_eq!(item["eventType"].as_s().unwrap(), EVENT_TYPE);
        assert_eq!(item["occurredAt"].as_s().unwrap(), "2026-10-29T12:00:00Z");
        let data: Value = serde_json::from_str(item["data"].as_s().unwrap()).unwrap();
        assert_eq!(data, event["detail"]);
    }

    // What was sent, by somebody who has seen it.
    let post = shown.next_request().await;
    let header = |name: &str| post.header(name).expect("a header").to_owned();
    let seen = Webhook {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
        body: post.text().to_owned(),
    };
    let mut rewritten = seen.clone();
    rewritten.body = seen.body.replacen(':', ": ", 1);
    let mut other_id = seen.clone();
    other_id.id.push_str("_2");
    let mut other_time = seen.clone();
    other_time.timestamp = now_seconds().saturating_add(1).to_string();
    let mut cut = seen.clone();
    cut.signature.truncate(seen.signature.len() - 4);
    let old = Webhook::at(now_seconds() - 400, &secret, "msg_old", &seen.body);
    for url in &urls {
        for forged in [&rewritten, &other_id, &other_time, &cut, &old] {
            assert_eq!(told_of(url, forged).await.status, 401, "{url}: {forged:?}");
            assert_eq!(
                stack.received(&deployed, &forged.id).await,
                None,
                "{forged:?}"
            );
        }
        let late = told_of(url, &old).await.body;
        let reason = "seconds ago, more than the 300 that are allowed";
        assert!(late.contains(reason), "{late}");
    }
    // Unchanged it is taken by the first, and known to the other: they share a table.
    let [first, other] = &urls;
    assert_eq!(told_of(first, &seen).await.status, 202);
    assert_eq!(told_of(other, &seen).await.status, 200);
    let lines = server.stop().await;
    assert!(
        lines.iter().all(|line| !line.contains("ERROR")),
        "{lines:?}"
    );
}

/// What a receiver says to a webhook that is brought to it by hand.
async fn told_of(url: &str, webhook: &Webhook) -> Answered {
    let mut client = Client::to_url(url).await;
    client
        .post(&webhook.headers(), webhook.body.as_bytes())
        .await
}
