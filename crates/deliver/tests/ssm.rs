//! Asking SSM for signing secrets: as seldom as can be, and without harm to those whose secret is
//! known while it does not answer or has none.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use e2e::fake_aws::Reply;
use e2e::receiver::{Answer, Receiver};
use e2e::signature::{assert_signed, secret_for};
use e2e::sqs_event::Record;
use e2e::stage::{Stage, failures, parameter_name, side_by_side, subscribers};
use serde_json::{Value, json};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

const NONE: [&str; 0] = [];

#[tokio::test]
async fn decryption_is_asked_for_once_per_batch_and_the_answer_is_kept() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, _) = subscribers(&receiver, &["a", "b", "c"]).await;
    let deliver = stage.start(DELIVER).await;

    for batch in 0..3 {
        let names = ["a", "b", "c", "a"].iter().enumerate();
        let records: Vec<Record> = names
            .map(|(n, name)| Record::of_event(4 * batch + n, name))
            .collect();
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
    assert_eq!(receiver.requests().len(), 12);
    for request in receiver.requests() {
        assert_signed(&request, &[&secret_for(&request.target[1..])]);
    }
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
        batch.assert_delay(1, 3..=5);
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
            records.push(Record::of_event(n, name));
        }
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &records).await;

        let ids: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
        assert_eq!(batch.response, failures(&ids), "{reply:?}");
        for n in 0..10 {
            batch.assert_delay(n, 3..=5);
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

    stage
        .deliver(&deliver, &[Record::of_event(2, "known")])
        .await;
    stage
        .aws
        .always("GetParameters", Reply::error(400, "ThrottlingException"));
    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&["m1"]));
    assert_eq!(receiver.requests_to("/known").len(), 2);
    assert_eq!(receiver.requests_to("/new").len(), 0);
}

#[tokio::test]
async fn those_whose_secret_is_known_are_sent_at_once_while_ssm_is_silent_about_another() {
    let names: Vec<String> = (0..9).map(|n| format!("known{n}")).collect();
    let names: Vec<&str> = std::iter::once("new")
        .chain(names.iter().map(String::as_str))
        .collect();
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, records) = subscribers(&receiver, &names).await;
    let deliver = stage.start(DELIVER).await;
    let earlier: Vec<Record> = (1..10).map(|n| Record::of_event(n, names[n])).collect();
    stage.deliver(&deliver, &earlier).await;
    stage.aws.always("GetParameters", Reply::Hang);
    let start = Instant::now();

    let batch = stage.deliver(&deliver, &records).await;

    let requests = receiver.requests().split_off(9);
    assert_eq!(requests.len(), 9);
    for request in &requests {
        let after = request.at.duration_since(start);
        assert!(
            after < Duration::from_millis(800),
            "{}: {after:?}",
            request.target
        );
    }
    assert_eq!(batch.response, failures(&["m0"]));
    batch.assert_delay(0, 3..=5);
    assert!(
        (Duration::from_secs(5)..Duration::from_secs(7)).contains(&batch.took),
        "{:?}",
        batch.took
    );
}

#[tokio::test]
async fn ssm_is_asked_ever_more_seldom_for_a_secret_that_it_does_not_have() {
    let receiver = Receiver::always(Answer::status(204)).await;
    let (stage, _) = subscribers(&receiver, &["missing"]).await;
    stage.aws.delete_parameter(&parameter_name("missing"));
    let deliver = stage.start(DELIVER).await;

    for n in 1..=30 {
        let records = [Record::of_event(n, "missing")];
        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&[format!("m{n}")]));
        batch.assert_delay(n, 3..=5);
        let calls = stage.aws.calls("GetParameters").len();
        assert!(calls >= n.min(2), "the first retry is immediate");
    }

    let calls = stage.aws.all_calls();
    let asked: Vec<Instant> = calls
        .iter()
        .filter(|call| call.operation == "GetParameters")
        .map(|call| call.at)
        .collect();
    assert!(asked.len() <= 5, "{} calls", asked.len());
    // A pause begins before the call that gives the reason for it.
    let imprecision = Duration::from_millis(100);
    for (pair, seconds) in asked.windows(2).zip([0, 1, 2, 4]) {
        let pause = pair[1].duration_since(pair[0]);
        assert!(
            pause + imprecision >= Duration::from_secs(seconds),
            "{pause:?} in place of {seconds} s"
        );
    }
    assert_eq!(receiver.connections(), 0);
}
