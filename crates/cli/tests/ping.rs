//! `webhooks ping`, to a partner that really answers.

use e2e::command::Ran;
use e2e::fake_aws::Reply;
use e2e::network::{self, within};
use e2e::receiver::{Answer, Receiver};
use e2e::signature::{assert_signed, secret_for};
use e2e::stage::Stage;
use e2e::tls::{Authority, Partner, Validity};
use serde_json::{Value, json};

const WEBHOOKS: &str = env!("CARGO_BIN_EXE_webhooks");

/// A stage on which local partners may be called.
async fn stage() -> Stage {
    let stage = Stage::for_command().await;
    stage
        .aws
        .set_stack_parameter("AllowPrivateEndpoints", "true");
    stage
}

fn with_secret(stage: &Stage, subscriber: &str) {
    stage.set_secret(subscriber, &secret_for(subscriber));
}

/// Without the times that it took.
fn untimed(ran: &Ran) -> String {
    let words: Vec<&str> = ran.stdout.split(' ').collect();
    let timed = |number: usize| {
        words
            .get(number + 1)
            .is_some_and(|next| next.starts_with("ms"))
    };
    let words = words.iter().enumerate();
    let words = words.map(|(number, word)| if timed(number) { "N" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_ping_is_signed_like_a_webhook_and_what_comes_back_is_shown() {
    let receiver = Receiver::always(Answer::with(202, &[], b"thank you\nmore")).await;
    let stage = stage().await;
    with_secret(&stage, "kasse-nord");
    let url = receiver.url("/hook");
    stage.aws.put_row(json!({
        "eventType": {"S": "OrderPaid"},
        "subscriberId": {"S": "kasse-nord"},
        "url": {"S": format!("{url}?token=hidden")},
        "enabled": {"BOOL": true},
        "headers": {"M": {"X-Api-Key": {"S": "k"}}},
    }));
    let ran = stage.run(WEBHOOKS, &["ping", "kasse-nord"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        untimed(&ran),
        format!(
            "{url}  (OrderPaid)\n  202 after N ms: a webhook would be delivered\n  it said: thank \
             you\n"
        )
    );
    let requests = receiver.requests();
    let [request] = &requests[..] else {
        panic!("{requests:?}");
    };
    assert_signed(request, &[&secret_for("kasse-nord")]);
    assert_eq!(request.target, "/hook?token=hidden");
    assert_eq!(request.header("x-api-key"), Some("k"));
    let id = request.header("webhook-id").unwrap();
    assert!(
        id.starts_with("msg_ping-") && id.ends_with("_kasse-nord"),
        "{id}"
    );
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["type"], "webhooks.ping");
    assert_eq!(
        body["data"],
        json!({"eventTypes": ["OrderPaid"], "subscriberId": "kasse-nord"})
    );
}

#[tokio::test]
async fn each_url_is_pinged_once_and_a_410_switches_nothing_off() {
    let receiver = Receiver::by_target([
        ("/a".to_owned(), Answer::status(200)),
        ("/b".to_owned(), Answer::status(410)),
    ])
    .await;
    let stage = stage().await;
    with_secret(&stage, "kasse-nord");
    let (a, b) = (receiver.url("/a"), receiver.url("/b"));
    stage.aws.put_subscription("OrderPaid", "kasse-nord", &a);
    stage
        .aws
        .put_subscription("OrderRefunded", "kasse-nord", &b);
    stage.aws.put_row(json!({
        "eventType": {"S": "OrderShipped"},
        "subscriberId": {"S": "kasse-nord"},
        "url": {"S": a},
        "enabled": {"BOOL": false},
    }));
    let ran = stage.run(WEBHOOKS, &["ping", "kasse-nord", "--json"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let json = ran.json();
    assert_eq!(json["subscriberId"], "kasse-nord");
    let answers = json["answers"].as_array().unwrap();
    let pick = |name: &str| {
        answers
            .iter()
            .map(|one| one[name].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(pick("url"), [json!(a), json!(b)]);
    assert_eq!(pick("status"), [json!(200), json!(410)]);
    assert_eq!(pick("outcome"), [json!("delivered"), json!("gone")]);
    assert_eq!(
        pick("eventTypes"),
        [
            json!(["OrderPaid", "OrderShipped"]),
            json!(["OrderRefunded"])
        ]
    );
    assert_eq!(pick("disabled"), [json!(["OrderShipped"]), json!([])]);
    assert_eq!(receiver.requests().len(), 2);
    assert!(stage.is_enabled("kasse-nord"));
    assert_eq!(stage.aws.calls("UpdateItem"), [] as [Value; 0]);
    let ran = stage
        .run(WEBHOOKS, &["ping", "kasse-nord", "--event", "OrderPaid"])
        .await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(receiver.requests().len(), 3);
}

#[tokio::test]
async fn an_answer_that_is_too_long_or_does_not_end_is_not_taken_for_an_empty_one() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    for (answer, read, said) in [
        (Answer::status(200), true, "it said nothing"),
        (
            Answer::with(200, &[], "x".repeat(16_385).as_bytes()),
            false,
            "its answer was not read",
        ),
        (
            Answer::raw(format!("{head}he")).then_hang(),
            false,
            "its answer was not read",
        ),
    ] {
        let receiver = Receiver::always(answer).await;
        let stage = stage().await;
        with_secret(&stage, "kasse-nord");
        let url = receiver.url("/");
        stage.aws.put_subscription("OrderPaid", "kasse-nord", &url);
        let ran = stage.run(WEBHOOKS, &["ping", "kasse-nord"]).await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(
            untimed(&ran),
            format!(
                "{url}  (OrderPaid)\n  200 after N ms: a webhook would be delivered\n  {said}\n"
            )
        );
        let ran = stage.run(WEBHOOKS, &["ping", "kasse-nord", "--json"]).await;
        let answer = &ran.json()["answers"][0];
        assert_eq!(
            (&answer["answer"], &answer["answerRead"]),
            (&Value::Null, &json!(read))
        );
    }
}

#[tokio::test]
async fn a_row_whose_headers_are_broken_makes_webhooks_that_fail() {
    let stage = stage().await;
    with_secret(&stage, "kasse-nord");
    stage.aws.put_row(json!({
        "eventType": {"S": "OrderPaid"},
        "subscriberId": {"S": "kasse-nord"},
        "url": {"S": "https://n.example/"},
        "enabled": {"BOOL": true},
        "headers": {"S": "X-Api-Key: k"},
    }));
    let ran = stage.run(WEBHOOKS, &["ping", "kasse-nord"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(
        ran.stdout,
        "https://n.example/  (OrderPaid)\n  no answer: the row is broken: `headers`: not a map \
         (M)\n  webhooks are made of events of this type, and fail until the row is mended\n  \
         nothing came back\n"
    );
}

#[test]
fn an_authority_of_ones_own_is_named_by_its_file() {
    within(|| async {
        let authority = Authority::new("Own Root");
        let file = network::file("own.pem", &authority.pem());
        let identity = authority.issue(&["127.0.0.1"], Validity::Now);
        let partner = Partner::good("127.0.0.1", &identity).await;
        let stage = stage().await;
        with_secret(&stage, "kasse-nord");
        let url = "https://127.0.0.1/";
        stage.aws.put_subscription("OrderPaid", "kasse-nord", url);
        let ping = ["ping", "kasse-nord", "--json"];
        let ran = stage.run(WEBHOOKS, &ping).await;
        assert_eq!(ran.json()["answers"][0]["outcome"], "retry", "{ran:?}");
        assert_eq!(partner.requests(), 0);
        let file = file.to_str().unwrap();
        let ping = [&ping[..], &["--ca-file", file]].concat();
        let ran = stage.run(WEBHOOKS, &ping).await;
        assert_eq!(ran.json()["answers"][0]["status"], 204, "{ran:?}");
        assert_eq!(partner.requests(), 1);
        let empty = network::file("empty.pem", "");
        let empty = empty.to_str().unwrap();
        let ran = stage
            .run(WEBHOOKS, &["ping", "kasse-nord", "--ca-file", empty])
            .await;
        assert_eq!(
            (ran.code, ran.stderr),
            (
                Some(2),
                format!("webhooks: --ca-file {empty}: there is no certificate in it\n")
            )
        );
    });
}

#[tokio::test]
async fn what_can_not_be_reached_is_said_in_words() {
    let (_socket, refusing) = Receiver::refusing();
    let stage = stage().await;
    with_secret(&stage, "kasse-nord");
    let url = format!("http://{refusing}/");
    stage.aws.put_subscription("OrderPaid", "kasse-nord", &url);
    let ran = stage.run(WEBHOOKS, &["ping", "kasse-nord"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stdout.contains("the server refuses connections")
            && ran.stdout.contains(
                "\n  a webhook would be retried, 8 attempts in all at most (standard)\n  nothing \
                 came back\n"
            ),
        "{ran:?}"
    );
    // Not a word of TLS is spoken there.
    let receiver = Receiver::always(Answer::status(200)).await;
    let url = receiver.url("/").replace("http:", "https:");
    stage.aws.put_subscription("OrderPaid", "kasse-nord", &url);
    let ran = stage.run(WEBHOOKS, &["ping", "kasse-nord", "--json"]).await;
    assert_eq!(ran.json()["answers"][0]["outcome"], "retry");
    assert_eq!(ran.json()["answers"][0]["status"], Value::Null);
}

#[tokio::test]
async fn a_private_endpoint_is_only_called_if_the_stack_allows_it() {
    let receiver = Receiver::always(Answer::status(200)).await;
    let stage = Stage::for_command().await;
    with_secret(&stage, "kasse-nord");
    let url = format!("https://{}/", receiver.address());
    stage.aws.put_subscription("OrderPaid", "kasse-nord", &url);
    let ran = stage.run(WEBHOOKS, &["ping", "kasse-nord", "--json"]).await;
    assert_eq!(ran.code, Some(1));
    let answer = &ran.json()["answers"][0];
    assert_eq!(answer["outcome"], "blocked");
    assert_eq!(answer["webhookId"], Value::Null);
    assert!(
        answer["error"].as_str().unwrap().contains("127.0.0.1"),
        "{answer}"
    );
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn without_subscription_or_secret_nothing_is_sent() {
    let stage = stage().await;
    let failed = async |arguments: &[&str]| {
        let ran = stage.run(WEBHOOKS, arguments).await;
        assert_eq!(ran.stdout, "");
        (ran.code, ran.stderr)
    };
    assert_eq!(
        failed(&["ping", "kasse-nord"]).await,
        (
            Some(3),
            "webhooks: kasse-nord has no subscription: `webhooks list` shows who has one\n".into()
        )
    );
    stage
        .aws
        .put_subscription("OrderPaid", "kasse-nord", "http://127.0.0.1:9/");
    assert_eq!(
        failed(&["ping", "kasse-nord", "--event", "OrderLost"]).await,
        (
            Some(3),
            "webhooks: kasse-nord has no subscription to OrderLost: `webhooks list` shows who has \
             one\n"
                .into()
        )
    );
    assert_eq!(
        failed(&["ping", "kasse-nord"]).await,
        (
            Some(1),
            "webhooks: there is no secret /webhooks/kasse-nord/signing-secret, so nothing can be \
             signed: `webhooks secret new kasse-nord` makes one\n"
                .into()
        )
    );
    stage.set_secret("kasse-nord", "hunter2");
    let (code, said) = failed(&["ping", "kasse-nord"]).await;
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with(
            "webhooks: /webhooks/kasse-nord/signing-secret can not be signed with: the signing \
             secret does not start with"
        ),
        "{said}"
    );
    let ended = format!("{};until=2020-01-01T00:00:00Z", secret_for("kasse-nord"));
    stage.set_secret("kasse-nord", &ended);
    assert_eq!(
        failed(&["ping", "kasse-nord"]).await,
        (
            Some(1),
            "webhooks: all secrets of kasse-nord have ended: `webhooks secret rotate kasse-nord` \
             makes a new one\n"
                .into()
        )
    );
    stage
        .aws
        .always("GetParameters", Reply::error(400, "AccessDeniedException"));
    let (code, said) = failed(&["ping", "kasse-nord"]).await;
    assert_eq!(code, Some(1));
    assert!(
        said.contains("need the permission ssm:GetParameters"),
        "{said}"
    );
    assert_eq!(failed(&["ping", "kasse nord"]).await.0, Some(2));
    assert_eq!(
        failed(&["ping", "kasse-nord", "--stack", "shop"]).await.0,
        Some(3)
    );
}
