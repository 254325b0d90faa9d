//! Signing secrets as they are found in SSM: what can be signed with, what must not be, and what
//! happens while SSM does not answer. Whatever it is, nothing is sent unsigned.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::fake_aws::Reply;
use e2e::receiver::{Answer, Receiver};
use e2e::signature::{assert_signed, secret_for};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, failures, parameter_name, side_by_side};
use serde_json::{Value, json};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

const NONE: [&str; 0] = [];

/// The keys of the specification's examples.
const S: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const T: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn with_key_of(bytes: u8) -> String {
    format!("whsec_{}", STANDARD.encode((0..bytes).collect::<Vec<u8>>()))
}

/// A stage with these subscribers at one receiver, and a record for each.
async fn subscribers(receiver: &Receiver, names: &[&str]) -> (Stage, Vec<Record>) {
    let stage = Stage::for_deliver().await;
    let mut records = Vec::new();
    for (n, name) in names.iter().enumerate() {
        stage.subscribe(name, &receiver.url(&format!("/{name}")));
        records.push(Record::new(n, &Job::for_subscriber(name).text()));
    }
    (stage, records)
}

#[tokio::test]
async fn a_good_value_signs_with_each_of_its_secrets_newest_first() {
    let shortest = with_key_of(24);
    let longest = with_key_of(64);
    let cases: Vec<(String, Vec<&str>)> = vec![
        (S.into(), vec![S]),
        (format!("{S}\n"), vec![S]),
        (format!("{S}\r\n"), vec![S]),
        (format!(" \t{S}"), vec![S]),
        (format!("{S} {T}"), vec![S, T]),
        (format!("{T}\n{S}\n"), vec![T, S]),
        (format!("{S} {T};until=2999-12-01T12:00:00Z"), vec![S, T]),
        (format!("{S} {T};until=2020-12-01T12:00:00Z"), vec![S]),
        (format!("{S};until=2020-12-01T12:00:00Z {T}"), vec![T]),
        (shortest.clone(), vec![&shortest]),
        (longest.clone(), vec![&longest]),
    ];
    let receiver = Receiver::always(Answer::status(204)).await;
    let stage = Stage::for_deliver().await;
    let mut records = Vec::new();
    for (n, (value, _)) in cases.iter().enumerate() {
        let name = format!("s{n}");
        stage.subscribe(&name, &receiver.url(&format!("/{n}")));
        stage.set_secret(&name, value);
        records.push(Record::new(n, &Job::for_subscriber(&name).text()));
    }
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&NONE));
    for (n, (_, secrets)) in cases.iter().enumerate() {
        let requests = receiver.requests_to(&format!("/{n}"));
        assert_eq!(requests.len(), 1);
        assert_signed(&requests[0], secrets);
    }
}

#[tokio::test]
async fn a_value_that_is_not_exactly_right_is_never_signed_with_and_the_delivery_stays() {
    let cut = &S[..S.len() - 1];
    let (first, second) = S.split_at(20);
    let values = [
        String::new(),
        " \n".into(),
        "whsec_".into(),
        "whsec_AA==".into(),
        with_key_of(23),
        with_key_of(65),
        "whsec_not base64!".into(),
        cut.into(),
        S.trim_start_matches("whsec_").into(),
        S.replace("whsec_", "WHSEC_"),
        S.replace("whsec_", "whpk_"),
        format!("{first}\n{second}"),
        format!("{first} {second}"),
        format!("\"{S}\""),
        format!("{{\"secret\":\"{S}\"}}"),
        format!("{S},{T}"),
        format!("{S} broken"),
        format!("{S};until=soon"),
        format!("{S};until=2020-12-01T12:00:00Z"),
        "whsec_-__--__--__--__--__--__--__--__-".into(),
        // What SSM stores, and gives to those who do not ask for decryption.
        "AQICAHhkZWNyeXB0aW9uV2FzTm90QXNrZWRGb3JkZWNyeXB0aW9uV2FzTm90QXNr".into(),
        "changeme".into(),
    ];
    let receiver = Receiver::always(Answer::status(204)).await;
    let stage = Stage::for_deliver().await;
    stage.subscribe("well", &receiver.url("/well"));
    let mut records = vec![Record::new(100, &Job::for_subscriber("well").text())];
    for (n, value) in values.iter().enumerate() {
        let name = format!("s{n}");
        stage.subscribe(&name, &receiver.url(&format!("/{n}")));
        stage.set_secret(&name, value);
        records.push(Record::new(n, &Job::for_subscriber(&name).text()));
    }
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    let ids: Vec<String> = (0..values.len()).map(|n| format!("m{n}")).collect();
    assert_eq!(batch.response, failures(&ids));
    let targets: Vec<String> = receiver
        .requests()
        .iter()
        .map(|r| r.target.clone())
        .collect();
    assert_eq!(targets, ["/well"]);
    for (n, value) in values.iter().enumerate() {
        let delay = batch.delay(n).unwrap();
        assert!((30..=60).contains(&delay), "{value:?}: {delay}");
        assert!(stage.is_enabled(&format!("s{n}")));
    }
    let lines = deliver.stop().await;
    for (n, value) in values.iter().enumerate() {
        let name = format!(r#""subscriberId":"s{n}""#);
        let said: Vec<&String> = lines.iter().filter(|line| line.contains(&name)).collect();
        assert_eq!(said.len(), 1, "{value:?}: {said:?}");
        assert!(said[0].contains("ERROR"), "{said:?}");
    }
    let body = |value: &str| value.trim_start_matches("whsec_").trim().to_owned();
    let telling = values
        .iter()
        .map(|value| body(value))
        .filter(|body| body.len() > 8);
    let telling: Vec<String> = telling
        .chain([body(S), body(T), body(&secret_for("well"))])
        .collect();
    for line in &lines {
        for secret in &telling {
            assert!(!line.contains(secret.as_str()), "{secret}: {line}");
        }
    }
}

#[tokio::test]
async fn decryption_is_asked_for_once_per_batch_and_the_answer_is_kept() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, mut records) = subscribers(&receiver, &["a", "b", "c"]).await;
    records.push(Record::new(3, &Job::for_subscriber("a").text()));
    let deliver = stage.start(DELIVER).await;

    for _ in 0..3 {
        let batch = stage.deliver(&deliver, &records).await;
        assert_eq!(batch.response, failures(&NONE));
    }

    let calls = stage.aws.calls("GetParameters");
    let [call] = &calls[..] else {
        panic!("{calls:?}");
    };
    let fields: BTreeSet<&String> = call.as_object().unwrap().keys().collect();
    assert_eq!(
        fields.into_iter().collect::<Vec<_>>(),
        ["Names", "WithDecryption"]
    );
    assert_eq!(call["WithDecryption"], true);
    let names: BTreeSet<&str> = call["Names"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let expected = ["a", "b", "c"].map(parameter_name);
    assert_eq!(names, expected.iter().map(String::as_str).collect());
    for request in receiver.requests() {
        assert_signed(&request, &[&secret_for(&request.target[1..])]);
    }
}

#[tokio::test]
async fn the_prefix_of_the_parameters_is_the_one_of_the_environment() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, records) = subscribers(&receiver, &["kasse-nord"]).await;
    let stage = stage.with("SECRET_PREFIX", "shop/prod.webhooks");
    stage
        .aws
        .put_parameter("/shop/prod.webhooks/kasse-nord/signing-secret", T);
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&NONE));
    assert_signed(&receiver.requests()[0], &[T]);
}

#[tokio::test]
async fn every_delivery_is_signed_with_its_own_subscribers_secret() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let stage = Stage::for_deliver().await;
    // More subscribers than one `GetParameters` takes, and each of them twice.
    let mut records = Vec::new();
    for n in 0..24 {
        let name = format!("s{}", n % 12);
        stage.subscribe(&name, &receiver.url(&format!("/{name}")));
        records.push(Record::new(n, &Job::for_subscriber(&name).text()));
    }
    let deliver = stage.start(DELIVER).await;

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(receiver.requests().len(), 24);
    for request in receiver.requests() {
        assert_signed(&request, &[&secret_for(&request.target[1..])]);
    }
    assert_eq!(stage.aws.calls("GetParameters").len(), 2);
    assert_eq!(stage.aws.calls("BatchGetItem").len(), 1);
}

#[tokio::test]
async fn a_new_environment_signs_with_the_rotated_secret() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, records) = subscribers(&receiver, &["kasse-nord"]).await;
    for (n, (value, secrets)) in [
        (S.to_owned(), vec![S]),
        (format!("{T} {S};until=2999-01-01T00:00:00Z"), vec![T, S]),
        (T.to_owned(), vec![T]),
    ]
    .into_iter()
    .enumerate()
    {
        stage.set_secret("kasse-nord", &value);
        let deliver = stage.start(DELIVER).await;
        stage.deliver(&deliver, &records).await;
        assert_signed(&receiver.requests()[n], &secrets);
    }
}

#[tokio::test]
async fn a_missing_or_broken_secret_is_used_as_soon_as_it_is_right() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, records) = subscribers(&receiver, &["missing", "broken", "well"]).await;
    stage.aws.delete_parameter(&parameter_name("missing"));
    stage.set_secret("broken", "changeme");
    let deliver = stage.start(DELIVER).await;

    let first = stage.deliver(&deliver, &records).await;
    stage.set_secret("missing", S);
    stage.set_secret("broken", T);
    let second = stage.deliver(&deliver, &records[..2]).await;

    assert_eq!(first.response, failures(&["m0", "m1"]));
    for n in [0, 1] {
        first.assert_delay(n, 30..=60);
    }
    assert_eq!(second.response, failures(&NONE));
    assert_signed(&receiver.requests_to("/missing")[0], &[S]);
    assert_signed(&receiver.requests_to("/broken")[0], &[T]);
    deliver
        .line_with(&[
            "ERROR",
            r#""subscriberId":"missing""#,
            &parameter_name("missing"),
        ])
        .await;
}

#[tokio::test]
async fn one_secret_that_may_not_be_read_harms_no_other() {
    let refusals = [
        (400, "AccessDeniedException"),
        (400, "InvalidKeyId"),
        (400, "KMSInvalidStateException"),
        (400, "ValidationException"),
    ];
    side_by_side(refusals, |(status, code)| async move {
        let receiver = Receiver::always(Answer::status(204)).await;
        let (stage, records) = subscribers(&receiver, &["a", "locked", "c"]).await;
        stage.aws.rule("GetParameters", move |input| {
            let names = input["Names"].as_array().unwrap();
            if names.contains(&json!(parameter_name("locked"))) {
                Reply::error(status, code)
            } else {
                Reply::Usual
            }
        });
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&["m1"]), "{code}");
        batch.assert_delay(1, 30..=60);
        assert!(stage.is_enabled("locked"));
        let targets: BTreeSet<String> = receiver
            .requests()
            .iter()
            .map(|r| r.target.clone())
            .collect();
        assert_eq!(targets, BTreeSet::from(["/a".to_owned(), "/c".to_owned()]));
        deliver
            .line_with(&["ERROR", r#""subscriberId":"locked""#, code])
            .await;
    })
    .await;
}

#[tokio::test]
async fn nothing_is_sent_and_nothing_lost_while_ssm_cannot_be_asked() {
    let replies = [
        Reply::error(400, "ThrottlingException"),
        Reply::error(400, "AccessDeniedException"),
        Reply::error(500, "InternalServerError"),
        Reply::error(503, "ServiceUnavailable"),
        Reply::Cut,
        Reply::Output(json!({})),
        Reply::Output(json!({"Parameters": [], "InvalidParameters": []})),
    ];
    side_by_side(replies, |reply| async move {
        let receiver = Receiver::always(Answer::status(204)).await;
        let names = ["a", "b", "c"];
        let stage = Stage::for_deliver().await;
        stage.aws.always("GetParameters", reply.clone());
        let mut records = Vec::new();
        for n in 0..10 {
            let name = names[n % 3];
            stage.subscribe(name, &receiver.url("/"));
            records.push(Record::new(n, &Job::for_subscriber(name).text()));
        }
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &records).await;

        let ids: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
        assert_eq!(batch.response, failures(&ids), "{reply:?}");
        for n in 0..10 {
            batch.assert_delay(n, 30..=60);
        }
        assert_eq!(receiver.connections(), 0);
        assert!(names.iter().all(|name| stage.is_enabled(name)));
        // Three tries of the SDK, or one for all and one for each.
        assert!(stage.aws.calls("GetParameters").len() <= 4, "{reply:?}");
    })
    .await;
}

#[tokio::test]
async fn a_silent_ssm_costs_no_more_than_the_invocation_has() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, records) = subscribers(&receiver, &["a", "b"]).await;
    stage.aws.always("GetParameters", Reply::Hang);
    let deliver = stage.start(DELIVER).await;

    let batch = stage
        .deliver_within(&deliver, &records, Duration::from_secs(3))
        .await;

    assert_eq!(batch.response, failures(&["m0", "m1"]));
    assert!(
        batch.delay(0).is_some() && batch.delay(1).is_some(),
        "{batch:?}"
    );
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn a_secret_that_is_known_goes_on_while_another_cannot_be_read() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, records) = subscribers(&receiver, &["known", "new"]).await;
    let deliver = stage.start(DELIVER).await;

    stage.deliver(&deliver, &records[..1]).await;
    stage
        .aws
        .always("GetParameters", Reply::error(400, "ThrottlingException"));
    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&["m1"]));
    assert_eq!(receiver.requests_to("/known").len(), 2);
    assert_eq!(receiver.requests_to("/new").len(), 0);
}
