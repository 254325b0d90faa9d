//! What the log and the error of an invocation do not say: nothing of a partner's url or of the
//! event's payload, not even when an answer of AWS is broken. What went wrong is still named.

use e2e::bridge_event::event;
use e2e::fake_aws::Reply;
use e2e::stage::{FUNCTION_TIMEOUT, Stage, assert_untold, side_by_side};
use serde_json::{Value, json};

const DISPATCH: &str = env!("CARGO_BIN_EXE_dispatch");

const TOKEN: &str = "URLTOKEN";

const PAYLOAD: &str = r#"{"card":"4111 1111 1111 1111"}"#;

/// What only the text of an answer has.
const OF_AN_ANSWER: [&str; 4] = [
    r#""Items":"#,
    r#""Successful":"#,
    r#"{"S":"#,
    r#""__type":"#,
];

#[tokio::test]
async fn a_broken_answer_of_aws_is_named_in_the_log_and_not_shown() {
    let denied = || {
        let code = "AccessDeniedException";
        (Reply::error(400, code), code)
    };
    let cut = |said| (Reply::CutShort(2), said);
    let unread = "cannot read the subscriptions: ";
    let unsent = "3 of 3 jobs were not sent";
    let cases = [
        ("Query", cut("unexpected end of stream"), unread),
        ("Query", denied(), unread),
        ("SendMessageBatch", cut("failed to parse JSON"), unsent),
        ("SendMessageBatch", denied(), unsent),
    ];
    side_by_side(cases, |(operation, (reply, said), message)| async move {
        let stage = Stage::for_dispatch().await;
        for name in ["a", "b", "c"] {
            let url = format!("https://example.com/?token={TOKEN}");
            stage.aws.put_subscription("OrderPaid", name, &url);
        }
        stage.aws.always(operation, reply.clone());
        let dispatch = stage.start(DISPATCH).await;

        let ending = dispatch
            .invoke(&event("OrderPaid", PAYLOAD), FUNCTION_TIMEOUT)
            .await;

        let error = ending.error_message();
        assert!(error.starts_with(message), "{operation} {reply:?}: {error}");
        let mut lines = dispatch.stop().await;
        let named = lines.iter().filter(|line| line.contains(said));
        assert!(named.count() > 0, "{operation} {reply:?}: {lines:#?}");
        lines.push(format!("{ending:?}"));
        for line in &lines {
            let text = line.replace('\\', "");
            for part in OF_AN_ANSWER {
                assert!(!text.contains(part), "{part}: {line}");
            }
        }
        assert_untold(&lines, &[TOKEN, PAYLOAD]);
    })
    .await;
}

#[tokio::test]
async fn a_broken_row_has_one_short_line_that_names_the_subscriber_in_plain_text() {
    let long = format!("https://example.com/?token={TOKEN}{}", "x".repeat(300_000));
    let rows = [
        (
            "kasse-nord",
            json!({"S": long}),
            "`url` is longer than 2048 bytes",
        ),
        ("kasse-sued", json!({"N": "1"}), "`url` is not a string (S)"),
    ];
    let stage = Stage::for_dispatch().await;
    for (name, url, _) in &rows {
        stage.aws.put_row(json!({
            "eventType": {"S": "OrderPaid"},
            "subscriberId": {"S": name},
            "url": url,
            "enabled": {"BOOL": true},
        }));
    }
    let longest = format!("https://example.com/{}", "x".repeat(2048 - 20));
    stage.aws.put_subscription("OrderPaid", "well", &longest);
    let dispatch = stage.start(DISPATCH).await;

    let entries = stage.dispatch(&dispatch, &event("OrderPaid", "{}")).await;

    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["MessageGroupId"], "well");
    let lines = dispatch.stop().await;
    for (name, _, error) in rows {
        let of_it: Vec<&String> = lines.iter().filter(|line| line.contains(name)).collect();
        let [line] = of_it[..] else {
            panic!("{name}: {} lines", of_it.len());
        };
        assert!(line.len() < 400, "{} bytes: {line:.1000}", line.len());
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["message"], "subscription.broken");
        assert_eq!(line["level"], "ERROR");
        assert_eq!(line["subscriberId"], name);
        assert_eq!(line["error"], error);
    }
    assert_untold(&lines, &[TOKEN]);
}
