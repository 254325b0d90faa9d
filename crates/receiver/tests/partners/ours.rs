//! The examples in examples/, each a whole server, against what deliver would send.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use e2e::client::Client;
use e2e::signature::secret_for;
use e2e::stage::side_by_side;
use e2e::webhook::{Webhook, now_seconds};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use webhooks_core::secret::SigningSecrets;
use webhooks_core::signature::sign;

use crate::Language;

const SEED: &str = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=";
const OTHER_SEED: &str = "whsk_ZnJlc2hseSBtYWRlIGZvciB0aGVzZSB0ZXN0cyAhISE=";

/// How long a server may take to its next line.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running example.
struct Server {
    address: SocketAddr,
    lines: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Server {
    async fn start(language: Language, secrets: &str) -> Self {
        let mut process = language
            .run_example()
            .env("WEBHOOKS_SECRET", secrets)
            .env("PORT", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut server = Self {
            address: ([127, 0, 0, 1], 0).into(),
            lines: BufReader::new(process.stdout.take().unwrap()).lines(),
            _process: process,
        };
        let line = server.next_line().await;
        let address = line.strip_prefix("listening on ");
        server.address = address.expect("the address").parse().unwrap();
        server
    }

    async fn next_line(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        line.expect("a line in time").unwrap().expect("a line")
    }

    /// The status for a webhook, and for one with these headers instead of its own.
    async fn status(&self, headers: &[(&str, &str)], body: &str) -> u16 {
        let mut client = Client::connect(self.address).await;
        client.post(headers, body.as_bytes()).await.status
    }
}

/// A webhook that our core signs with these secrets, so many seconds from now.
fn signed(secrets: &str, id: &str, seconds_from_now: i64) -> Webhook {
    let secrets = SigningSecrets::parse(secrets).unwrap();
    let timestamp = now_seconds().saturating_add_signed(seconds_from_now);
    let body = Webhook::body_of("OrderPaid", r#"{"name":"Käse","total":1.0}"#);
    let now = SystemTime::now();
    Webhook {
        id: id.to_owned(),
        timestamp: timestamp.to_string(),
        signature: sign(&secrets, id, timestamp, body.as_bytes(), now).unwrap(),
        body,
    }
}

fn public(seed: &str) -> String {
    let secrets = SigningSecrets::parse(seed).unwrap();
    let public = secrets.iter().next().unwrap().public_key();
    public.unwrap()
}

/// The same webhook with a change.
fn but(webhook: &Webhook, change: impl FnOnce(&mut Webhook)) -> Webhook {
    let mut changed = webhook.clone();
    change(&mut changed);
    changed
}

#[tokio::test]
async fn every_example_takes_what_we_sign_and_nothing_else() {
    side_by_side(Language::ALL, |language| async move {
        let (secret, old, other) = (secret_for("new"), secret_for("old"), secret_for("other"));
        let server = Server::start(language, &format!("{secret} {}", public(SEED))).await;
        let good = signed(&secret, "msg_1_kasse-nord", 0);
        let by_key = signed(SEED, "msg_2_kasse-nord", 0);
        let cut =
            |webhook: &Webhook, length: usize| but(webhook, |cut| cut.signature.truncate(length));
        let cases = [
            ("v1", good.clone(), 202),
            ("a repeat", good.clone(), 202),
            ("v1a", by_key.clone(), 202),
            (
                "new, then old",
                signed(&format!("{secret} {old}"), "msg_3", 0),
                202,
            ),
            (
                "old, then new",
                signed(&format!("{old} {secret}"), "msg_4", 0),
                202,
            ),
            (
                "v1a, then v1",
                signed(&format!("{SEED} {old}"), "msg_5", 0),
                202,
            ),
            (
                "v1, then v1a",
                signed(&format!("{old} {SEED}"), "msg_6", 0),
                202,
            ),
            (
                "two keys, ours the first",
                signed(&format!("{SEED} {OTHER_SEED}"), "msg_10", 0),
                202,
            ),
            (
                "two keys, ours the second",
                signed(&format!("{OTHER_SEED} {SEED}"), "msg_11", 0),
                202,
            ),
            ("four minutes old", signed(&secret, "msg_7", -240), 202),
            ("four minutes ahead", signed(SEED, "msg_8", 240), 202),
            ("another secret", signed(&other, "msg_9", 0), 401),
            ("another key", signed(OTHER_SEED, "msg_9", 0), 401),
            ("six minutes old", signed(&secret, "msg_9", -360), 401),
            ("six minutes old, v1a", signed(SEED, "msg_9", -360), 401),
            ("six minutes ahead", signed(&secret, "msg_9", 360), 401),
            ("six minutes ahead, v1a", signed(SEED, "msg_9", 360), 401),
            (
                "written again",
                but(&good, |changed| {
                    changed.body = changed.body.replace("1.0", "1")
                }),
                401,
            ),
            (
                "written again, v1a",
                but(&by_key, |changed| {
                    changed.body = changed.body.replace("1.0", "1")
                }),
                401,
            ),
            (
                "another id",
                but(&good, |changed| changed.id = "msg_9".into()),
                401,
            ),
            (
                "another id, v1a",
                but(&by_key, |changed| changed.id = "msg_9".into()),
                401,
            ),
            (
                "another scheme",
                but(&by_key, |changed| {
                    changed.signature = changed.signature.replace("v1a", "v1")
                }),
                401,
            ),
            ("no padding", cut(&good, good.signature.len() - 1), 401),
            ("cut", cut(&good, 20), 401),
            (
                "cut to a whole number of bytes",
                cut(&good, "v1,".len() + 24),
                401,
            ),
            ("only its version", cut(&good, "v1,".len()), 401),
            ("no comma", cut(&good, "v1".len()), 401),
            ("no comma, v1a", cut(&by_key, "v1a".len()), 401),
            ("cut, v1a", cut(&by_key, "v1a,".len() + 40), 401),
            ("only its version, v1a", cut(&by_key, "v1a,".len()), 401),
            (
                "no number",
                but(&by_key, |changed| changed.timestamp = "now".into()),
                401,
            ),
        ];
        for (what, webhook, expected) in &cases {
            let status = server.status(&webhook.headers(), &webhook.body).await;
            assert_eq!(status, *expected, "{language:?}: {what}");
        }
        for webhook in [&good, &by_key] {
            for (name, _) in &webhook.headers()[1..] {
                let headers: Vec<(&str, &str)> = webhook
                    .headers()
                    .into_iter()
                    .filter(|(other, _)| other != name)
                    .collect();
                let status = server.status(&headers, &webhook.body).await;
                assert_eq!(status, 401, "{language:?}: no {name}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn every_example_works_on_an_event_once() {
    side_by_side(Language::ALL, |language| async move {
        let secret = secret_for("partner");
        let mut server = Server::start(language, &secret).await;
        for id in ["msg_1", "msg_1", "msg_2"] {
            let webhook = signed(&secret, id, 0);
            let status = server.status(&webhook.headers(), &webhook.body).await;
            assert_eq!(status, 202, "{language:?}");
        }
        assert_eq!(server.next_line().await, "received OrderPaid msg_1");
        assert_eq!(server.next_line().await, "received OrderPaid msg_2");
    })
    .await;
}

#[tokio::test]
async fn every_example_has_a_limit_for_bodies() {
    side_by_side(Language::ALL, |language| async move {
        let secret = secret_for("partner");
        let server = Server::start(language, &secret).await;
        let body = "x".repeat(1024 * 1024 + 1);
        let status = server.status(&[], &body).await;
        assert_eq!(status, 413, "{language:?}");
    })
    .await;
}
