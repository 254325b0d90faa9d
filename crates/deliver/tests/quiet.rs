//! What the log does not say: nothing of a secret, of a partner's url or of what passed through,
//! not even when an answer of AWS or a message is broken. What went wrong is still named.

use e2e::fake_aws::Reply;
use e2e::receiver::{Answer, Receiver};
use e2e::signature::secret_for;
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, assert_untold, failures, side_by_side};
use serde_json::{Value, json};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

const TOKEN: &str = "URLTOKEN";

/// What only the text of an answer has.
const OF_AN_ANSWER: [&str; 6] = [
    "SecureString",
    r#""Parameters":"#,
    r#""Responses":"#,
    r#""Successful":"#,
    r#"{"S":"#,
    r#""__type":"#,
];

/// The subscribers, all with a token in their urls.
const NAMES: [&str; 3] = ["gone", "failing", "well"];

#[tokio::test]
async fn a_broken_answer_of_aws_is_named_in_the_log_and_not_shown() {
    let denied = || {
        let code = "AccessDeniedException";
        (Reply::error(400, code), code)
    };
    let cut = |said| (Reply::CutShort(2), said);
    let all = vec!["m0", "m1", "m2"];
    let cases = [
        // Operation, its answer and what is said of it, who is kept in the queue.
        ("GetParameters", cut("unexpected end of input"), all.clone()),
        ("GetParameters", denied(), all.clone()),
        ("BatchGetItem", cut("failed to parse JSON"), all.clone()),
        ("BatchGetItem", denied(), all.clone()),
        ("BatchWriteItem", cut("failed to parse JSON"), vec!["m1"]),
        ("BatchWriteItem", denied(), vec!["m1"]),
        ("UpdateItem", denied(), vec!["m0", "m1"]),
        ("PutEvents", cut("unexpected end of stream"), vec!["m1"]),
        ("PutEvents", denied(), vec!["m1"]),
        (
            "ChangeMessageVisibilityBatch",
            cut("failed to parse JSON"),
            vec!["m1"],
        ),
        ("ChangeMessageVisibilityBatch", denied(), vec!["m1"]),
    ];
    side_by_side(cases, |(operation, (reply, said), reported)| async move {
        let target = |name: &str| format!("/{name}?token={TOKEN}");
        let receiver = Receiver::by_target([
            (target("gone"), Answer::status(410)),
            (target("failing"), Answer::status(500)),
            (target("well"), Answer::status(204)),
        ])
        .await;
        let stage = Stage::for_deliver().await.with("EVENT_BUS_NAME", "shop");
        let mut records = Vec::new();
        for (n, name) in NAMES.into_iter().enumerate() {
            stage.subscribe(name, &receiver.url(&target(name)));
            records.push(Record::new(n, &Job::for_subscriber(name).text()));
        }
        stage.aws.always(operation, reply.clone());
        let deliver = stage.start(DELIVER).await;

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&reported), "{operation} {reply:?}");
        let lines = deliver.stop().await;
        let named = lines
            .iter()
            .filter(|line| line.contains("ERROR") && line.contains(said));
        assert!(named.count() > 0, "{operation} {reply:?}: {lines:#?}");
        for line in &lines {
            let text = line.replace('\\', "");
            for part in OF_AN_ANSWER {
                assert!(!text.contains(part), "{part}: {line}");
            }
        }
        let keys = NAMES.map(|name| secret_for(name).split_off("whsec_".len()));
        let mut confidential: Vec<&str> = keys.iter().map(String::as_str).collect();
        confidential.extend([TOKEN, "K-1001\",\"total"]);
        assert_untold(&lines, &confidential);
    })
    .await;
}

#[tokio::test]
async fn a_large_message_that_is_no_job_has_one_short_line_that_quotes_nothing() {
    let large = "4111 1111 1111 1111 ".repeat(30_000);
    let job = Job::for_subscriber("kasse-nord").text();
    let with = |field: &str, value: &Value| {
        let mut job: Value = serde_json::from_str(&job).unwrap();
        job[field] = value.clone();
        job.to_string()
    };
    let messages = [
        large.clone(),
        Value::from(large.as_str()).to_string(),
        json!([large]).to_string(),
        json!({ "detail": large }).to_string(),
        json!({ large.as_str(): 1 }).to_string(),
        with("version", &large.as_str().into()),
        with("webhookId", &large.as_str().into()),
        with("webhookId", &json!([large])),
        with("eventId", &large.as_str().into()),
        with("eventType", &large.as_str().into()),
        with("subscriberId", &large.as_str().into()),
        with("body", &large.as_str().into()),
    ];
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    let records: Vec<Record> = messages
        .iter()
        .enumerate()
        .map(|(n, message)| Record::new(n, message))
        .collect();

    let batch = stage.deliver(&deliver, &records).await;

    let ids: Vec<String> = (0..messages.len()).map(|n| format!("m{n}")).collect();
    assert_eq!(batch.response, failures(&ids));
    let lines = deliver.stop().await;
    for n in 0..messages.len() {
        let id = format!(r#""messageId":"m{n}""#);
        let of_it: Vec<&String> = lines.iter().filter(|line| line.contains(&id)).collect();
        let [line] = of_it[..] else {
            panic!("{id}: {} lines", of_it.len());
        };
        assert!(line.len() < 400, "{} bytes: {line:.1000}", line.len());
        assert!(
            line.contains("message.poison") && line.contains("ERROR"),
            "{line}"
        );
    }
    assert_untold(&lines, &["4111 1111"]);
}
