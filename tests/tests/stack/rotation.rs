//! A secret is rotated while webhooks go out: at no moment does a partner get one that it can not
//! verify, whichever of the two secrets it has by then.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use e2e::receiver::{Answer, Received};
use e2e::signature::v1;
use e2e::stack::{Partner, Stack};
use serde_json::json;

use crate::{detail, millis, timestamp};

/// How long a warm function signs with what it has read, at most.
const CACHE: Duration = Duration::from_secs(2);
/// How long both secrets sign: also on a busy machine long enough for a few events.
const OVERLAP: Duration = Duration::from_secs(30);
/// How many events there are at least in each part of the rotation.
const EVENTS: usize = 3;

/// Between two looks at the clock.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// With which of two secrets a webhook verifies: the old one, the new one.
fn verifies_with(post: &Received, old: &str, new: &str) -> (bool, bool) {
    let header = |name| post.header(name).unwrap();
    let (id, at) = (header("webhook-id"), header("webhook-timestamp"));
    let signatures: Vec<&str> = header("webhook-signature").split(' ').collect();
    let verifies = |secret| signatures.contains(&v1(secret, id, at, &post.body).as_str());
    (verifies(old), verifies(new))
}

/// The value of a partner's secret parameter, and the secrets in it.
async fn secrets(stack: &Stack, partner: &Partner<'_>) -> Vec<String> {
    let prefix = stack.output("SecretPrefix");
    let name = format!("/{prefix}/{}/signing-secret", partner.subscriber_id);
    let asked = json!({"Name": name, "WithDecryption": true});
    let answer = stack.call("ssm", "GetParameter", &asked).await;
    let value = answer["Parameter"]["Value"].as_str().unwrap();
    value.split_whitespace().map(str::to_owned).collect()
}

fn now_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs()
}

#[tokio::test]
async fn no_webhook_of_a_rotation_is_refused_by_a_receiver_with_either_secret() {
    let cache = CACHE.as_secs().to_string();
    let stack = Stack::start_with(&[("SecretCacheSeconds", &cache)]).await;
    let mut partner = stack
        .partner("OrderPaid", "kasse-nord", [Answer::status(204)])
        .await;
    let old = partner.secret.clone();

    // The function is warm and has the old secret.
    let event_id = stack.publish("OrderPaid", &detail()).await;
    partner.next_post(&partner.webhook_id(&event_id)).await;

    let began = now_seconds();
    let overlap = format!("{}s", OVERLAP.as_secs());
    let rotate = ["secret", "rotate", "kasse-nord", "--overlap", &overlap];
    let ran = stack.webhooks(&rotate).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rotated = now_seconds() + 1;
    let [new, ending] = &secrets(&stack, &partner).await[..] else {
        panic!("not two secrets");
    };
    assert!(ran.stdout.contains(new), "{ran:?}");
    let until = ending.strip_prefix(&format!("{old};until=")).unwrap();
    let until = u64::try_from(millis(&json!(until))).unwrap();

    // Until every function has seen it, then on until the old secret has ended, and after that.
    let seen_by_all = rotated + CACHE.as_secs();
    let mut sent = 0;
    for (from, to) in [
        (rotated, seen_by_all + 1),
        (seen_by_all + 1, 0),
        (until / 1000 + 1, 0),
    ] {
        while now_seconds() < from {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let mut of_part = 0;
        while of_part < EVENTS || now_seconds() < to {
            stack.publish("OrderPaid", &detail()).await;
            of_part += 1;
        }
        sent += of_part;
    }
    for _ in 0..sent {
        partner.next_request().await;
    }

    // By when a webhook was signed. The timestamp is cut to the second.
    let (mut in_overlap, mut afterwards) = (0, 0);
    for post in partner.receiver.requests() {
        let signed = timestamp(&post);
        let (with_old, with_new) = verifies_with(&post, &old, new);
        assert!(with_old || with_new, "{post:?}");
        if signed < began {
            assert_eq!((with_old, with_new), (true, false), "{post:?}");
        }
        if (signed + 1) * 1000 <= until {
            assert!(with_old, "{post:?}");
        }
        if signed > seen_by_all {
            assert!(with_new, "{post:?}");
            in_overlap += u32::from(with_old);
        }
        if signed * 1000 >= until {
            assert_eq!((with_old, with_new), (false, true), "{post:?}");
            afterwards += 1;
        }
    }
    assert!(in_overlap > 3, "{in_overlap} webhooks with both signatures");
    assert!(
        afterwards > 1,
        "{afterwards} webhooks after the old secret's end"
    );
}
