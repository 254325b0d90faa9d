//! What the official libraries sign, verified by our core.

use std::time::{Duration, SystemTime};

use e2e::signature::secret_for;
use e2e::stack::{repository, run};
use e2e::webhook::now_seconds;
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use webhooks_core::secret::SigningSecrets;
use webhooks_core::verify::{Rejection, Signed, VerifyingKeys};

use crate::{Language, node_with, python_with};

/// How long a library may take.
const LIMIT: Duration = Duration::from_secs(60);

const SEED: &str = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=";

const BODY: &str =
    r#"{"type":"OrderPaid","data":{"name":"Käse & Söhne \ud83e\uddc0","total":1.0}}"#;

/// The signatures that a library makes of the body with these secrets, ids and timestamps.
async fn signatures(language: Language, of: &[(&str, &str, u64)]) -> Vec<String> {
    let script = |name: &str| {
        let directory = repository().join("crates/receiver/tests/partners");
        directory.join(name)
    };
    let command = match language {
        Language::Rust => {
            let sign = |(secret, id, timestamp): &(&str, &str, u64)| {
                let webhook = Webhook::new(secret).unwrap();
                let timestamp = i64::try_from(*timestamp).unwrap();
                webhook.sign(id, timestamp, BODY.as_bytes()).unwrap()
            };
            return of.iter().map(sign).collect();
        }
        Language::Python => python_with(script("sign.py")),
        Language::JavaScript => node_with(script("sign.mjs")),
    };
    let questions: Value = of
        .iter()
        .map(|(secret, id, timestamp)| {
            json!({"secret": secret, "id": id, "timestamp": timestamp, "body": BODY})
        })
        .collect();
    let answers = run(command, &questions.to_string(), LIMIT).await.unwrap();
    serde_json::from_str(&answers).unwrap()
}

fn verified(keys: &str, id: &str, timestamp: u64, signature: &str) -> Result<(), Rejection> {
    let signed = Signed {
        id,
        timestamp: &timestamp.to_string(),
        signature,
    };
    let keys = VerifyingKeys::parse(keys).unwrap();
    keys.verify(signed, BODY.as_bytes(), SystemTime::now())
}

async fn assert_only_what_is_whole_is_accepted(language: Language) {
    let (secret, old) = (secret_for("new"), secret_for("old"));
    let now = now_seconds();
    let made = signatures(
        language,
        &[
            (&secret, "msg_1", now),
            (&old, "msg_1", now),
            (&secret, "msg_2", now),
            (&secret, "msg_1", now - 400),
            (&secret, "msg_1", now + 400),
        ],
    )
    .await;
    let [good, by_old, of_other, past, future] = &made[..] else {
        panic!("{made:?}");
    };
    let wrong = Err(Rejection::Signature);
    let both = format!("{secret} {old}");
    for (keys, id, timestamp, signature, expected) in [
        (&secret, "msg_1", now, good.clone(), Ok(())),
        (&old, "msg_1", now, by_old.clone(), Ok(())),
        // A rotation, on either side.
        (&both, "msg_1", now, by_old.clone(), Ok(())),
        (&secret, "msg_1", now, format!("{by_old} {good}"), Ok(())),
        (&secret, "msg_1", now, format!("{good} {by_old}"), Ok(())),
        // Another secret, cut, of another message, of another time.
        (&secret, "msg_1", now, by_old.clone(), wrong),
        (
            &secret,
            "msg_1",
            now,
            good.trim_end_matches('=').into(),
            wrong,
        ),
        (&secret, "msg_1", now, good[..27].into(), wrong),
        (&secret, "msg_1", now, "v1,".into(), wrong),
        (&secret, "msg_1", now, of_other.clone(), wrong),
        (&secret, "msg_2", now, good.clone(), wrong),
        (&secret, "msg_1", now, past.clone(), wrong),
    ] {
        let found = verified(keys, id, timestamp, &signature);
        assert_eq!(found, expected, "{language:?}: {id} {signature}");
    }
    // The clock may have gone on since.
    let found = verified(&secret, "msg_1", now - 400, past);
    assert!(
        matches!(found, Err(Rejection::TooOld(400..460))),
        "{found:?}"
    );
    let found = verified(&secret, "msg_1", now + 400, future);
    assert!(
        matches!(found, Err(Rejection::TooNew(340..=400))),
        "{found:?}"
    );
}

#[tokio::test]
async fn of_what_rust_signs_only_what_is_whole_is_accepted() {
    assert_only_what_is_whole_is_accepted(Language::Rust).await;
}

#[tokio::test]
async fn of_what_python_signs_only_what_is_whole_is_accepted() {
    assert_only_what_is_whole_is_accepted(Language::Python).await;
}

#[tokio::test]
async fn of_what_javascript_signs_only_what_is_whole_is_accepted() {
    assert_only_what_is_whole_is_accepted(Language::JavaScript).await;
}

/// None of the libraries has ed25519, but their languages have.
#[tokio::test]
async fn the_ed25519_of_other_languages_is_accepted() {
    let secrets = SigningSecrets::parse(SEED).unwrap();
    let public = secrets.iter().next().unwrap().public_key().unwrap();
    let now = now_seconds();
    for language in [Language::Python, Language::JavaScript] {
        let made = signatures(language, &[(SEED, "msg_1", now)]).await;
        let [signature] = &made[..] else {
            panic!("{made:?}");
        };
        assert_eq!(
            verified(&public, "msg_1", now, signature),
            Ok(()),
            "{language:?}"
        );
        let wrong = Err(Rejection::Signature);
        assert_eq!(
            verified(&public, "msg_2", now, signature),
            wrong,
            "{language:?}"
        );
        assert_eq!(
            verified(&public, "msg_1", now, &signature[..44]),
            wrong,
            "{language:?}"
        );
    }
}
