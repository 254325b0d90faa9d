//! Signing secrets as they are found in SSM: what can be signed with, and what must not be.
//! Whatever it is, nothing is sent unsigned.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::receiver::{Answer, Receiver};
use e2e::signature::{assert_signed, secret_for};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, failures, parameter_name, subscribers};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

const NONE: [&str; 0] = [];

/// The keys of the specification's examples.
const S: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const T: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn with_key_of(bytes: u8) -> String {
    format!("whsec_{}", STANDARD.encode((0..bytes).collect::<Vec<u8>>()))
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
        assert!((3..=5).contains(&delay), "{value:?}: {delay}");
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
        records.push(Record::of_event(n, &name));
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
    let stage = Stage::for_deliver().await;
    stage.subscribe("kasse-nord", &receiver.url("/"));
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
        let records = [Record::of_event(n, "kasse-nord")];
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
    for name in ["missing", "broken"] {
        stage.make_due(&Job::for_subscriber(name));
    }
    let second = stage.deliver(&deliver, &records[..2]).await;

    assert_eq!(first.response, failures(&["m0", "m1"]));
    for n in [0, 1] {
        first.assert_delay(n, 3..=5);
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
