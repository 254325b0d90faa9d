//! What dispatch does when the queue, the table or the event is not as it should be: nothing is
//! said to be done that is not, and nothing is sent twice that was taken.

use std::time::{Duration, Instant};

use e2e::bridge_event::event;
use e2e::fake_aws::{Reply, entries};
use e2e::runtime::Ending;
use e2e::stage::{FUNCTION_TIMEOUT, Stage, side_by_side};
use serde_json::{Value, json};

const DISPATCH: &str = env!("CARGO_BIN_EXE_dispatch");

async fn stage_with_subscribers(count: usize) -> Stage {
    let stage = Stage::for_dispatch().await;
    for n in 0..count {
        stage
            .aws
            .put_subscription("OrderPaid", &format!("s{n}"), "https://example.com/");
    }
    stage
}

fn is_for(entry: &Value, groups: &[&str]) -> bool {
    groups.iter().any(|group| entry["MessageGroupId"] == *group)
}

fn groups_of(call: &Value) -> Vec<&str> {
    let groups = entries(call).iter().map(|entry| &entry["MessageGroupId"]);
    groups.filter_map(Value::as_str).collect()
}

#[tokio::test]
async fn only_the_entries_that_sqs_did_not_take_are_sent_again_unchanged() {
    let stage = stage_with_subscribers(4).await;
    let calls = std::sync::atomic::AtomicUsize::new(0);
    stage.aws.rule("SendMessageBatch", move |input| {
        match calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Reply::partly_refused(
                input,
                |entry| is_for(entry, &["s1", "s3"]),
                "InternalError",
                false,
            ),
            1 => Reply::partly_refused(
                input,
                |entry| is_for(entry, &["s3"]),
                "ServiceUnavailable",
                false,
            ),
            _ => Reply::Usual,
        }
    });
    let dispatch = stage.start(DISPATCH).await;

    stage.dispatch(&dispatch, &event("OrderPaid", "{}")).await;

    let calls = stage.aws.calls("SendMessageBatch");
    let groups: Vec<Vec<&str>> = calls.iter().map(groups_of).collect();
    assert_eq!(
        groups,
        [vec!["s0", "s1", "s2", "s3"], vec!["s1", "s3"], vec!["s3"]]
    );
    let body_of_s3 = &calls[0]["Entries"][3]["MessageBody"];
    assert_eq!(&calls[1]["Entries"][1]["MessageBody"], body_of_s3);
    assert_eq!(&calls[2]["Entries"][0]["MessageBody"], body_of_s3);
}

#[tokio::test]
async fn an_entry_that_the_answer_leaves_out_is_sent_again() {
    let stage = stage_with_subscribers(2).await;
    stage.aws.next(
        "SendMessageBatch",
        [Reply::Output(json!({
            "Successful": [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": "-"}],
            "Failed": [],
        }))],
    );
    let dispatch = stage.start(DISPATCH).await;

    stage.dispatch(&dispatch, &event("OrderPaid", "{}")).await;

    let calls = stage.aws.calls("SendMessageBatch");
    let groups: Vec<Vec<&str>> = calls.iter().map(groups_of).collect();
    assert_eq!(groups, [vec!["s0", "s1"], vec!["s1"]]);
}

#[tokio::test]
async fn an_event_fails_if_one_job_is_never_taken_and_the_others_are_sent_once() {
    let refusals = [("InternalError", false), ("InvalidMessageContents", true)];
    side_by_side(refusals, |(code, sender_fault)| async move {
        let stage = stage_with_subscribers(12).await;
        stage.aws.rule("SendMessageBatch", move |input| {
            Reply::partly_refused(input, |entry| is_for(entry, &["s7"]), code, sender_fault)
        });
        let dispatch = stage.start(DISPATCH).await;

        let ending = dispatch
            .invoke(&event("OrderPaid", "{}"), FUNCTION_TIMEOUT)
            .await;

        assert_eq!(ending.error_message(), "1 of 12 jobs were not sent");
        let entries = stage.sent_since(0);
        for n in (0..12).filter(|n| *n != 7) {
            let name = format!("s{n}");
            let sent = entries
                .iter()
                .filter(|entry| entry["MessageGroupId"] == *name)
                .count();
            assert_eq!(sent, 1, "{name}, {code}");
        }
        dispatch.line_with(&[r#""subscriberId":"s7""#, code]).await;
    })
    .await;
}

#[tokio::test]
async fn the_second_run_after_a_failure_repeats_the_deliveries_and_makes_no_new_ones() {
    let stage = stage_with_subscribers(20).await;
    stage.aws.rule("SendMessageBatch", |input| {
        Reply::partly_refused(
            input,
            |entry| is_for(entry, &["s7"]),
            "InvalidMessageContents",
            true,
        )
    });
    let dispatch = stage.start(DISPATCH).await;
    let published = event("OrderPaid", "{}");

    let ending = dispatch.invoke(&published, FUNCTION_TIMEOUT).await;
    assert_eq!(ending.error_message(), "1 of 20 jobs were not sent");
    let first = stage.sent_since(0);
    stage.aws.always("SendMessageBatch", Reply::Usual);
    let second = stage.dispatch(&dispatch, &published).await;

    assert_eq!(second.len(), 20);
    for entry in &first {
        let same = |other: &&Value| other["MessageBody"] == entry["MessageBody"];
        assert_eq!(second.iter().filter(same).count(), 1, "{entry}");
    }
}

#[tokio::test]
async fn a_call_that_fails_once_is_made_again() {
    let replies = [
        Reply::error(500, "InternalFailure"),
        Reply::error(503, "ServiceUnavailable"),
        Reply::error(400, "ThrottlingException"),
        Reply::Cut,
    ];
    side_by_side(replies, |reply| async move {
        let stage = stage_with_subscribers(3).await;
        stage.aws.next("SendMessageBatch", [reply.clone()]);
        stage.aws.next("Query", [reply]);
        let dispatch = stage.start(DISPATCH).await;

        let entries = stage.dispatch(&dispatch, &event("OrderPaid", "{}")).await;

        assert_eq!(entries.len(), 6, "three entries, in two calls");
        assert_eq!(entries[..3], entries[3..]);
    })
    .await;
}

#[tokio::test]
async fn a_queue_that_refuses_everything_fails_the_event() {
    let stage = stage_with_subscribers(3).await;
    stage.aws.always(
        "SendMessageBatch",
        Reply::error(403, "AccessDeniedException"),
    );
    let dispatch = stage.start(DISPATCH).await;

    let ending = dispatch
        .invoke(&event("OrderPaid", "{}"), FUNCTION_TIMEOUT)
        .await;

    assert_eq!(ending.error_message(), "3 of 3 jobs were not sent");
    dispatch.line_with(&["AccessDeniedException"]).await;
}

#[tokio::test]
async fn a_silent_queue_fails_the_event_before_its_time_is_over() {
    let stage = stage_with_subscribers(3).await;
    stage.aws.always("SendMessageBatch", Reply::Hang);
    let dispatch = stage.start(DISPATCH).await;
    let start = Instant::now();

    let ending = dispatch
        .invoke(&event("OrderPaid", "{}"), Duration::from_secs(3))
        .await;

    assert_eq!(ending.error_message(), "3 of 3 jobs were not sent");
    assert!(start.elapsed() < Duration::from_millis(2900));
}

/// Making the jobs of a large event takes time too, and none of them can be sent any more.
#[tokio::test]
async fn a_silent_queue_and_a_large_event_end_in_time_however_many_subscribers_there_are() {
    let stage = stage_with_subscribers(300).await;
    stage.aws.always("SendMessageBatch", Reply::Hang);
    let dispatch = stage.start(DISPATCH).await;
    let detail = format!(r#"{{"x":"{}"}}"#, "y".repeat(900_000));
    let time = Duration::from_secs(4);
    let began = Instant::now();

    let ending = dispatch.invoke(&event("OrderPaid", &detail), time).await;

    assert!(began.elapsed() < time, "{:?}", began.elapsed());
    assert_eq!(
        ending.error_message(),
        "the time was over before all subscriptions were read and their jobs sent"
    );
}

#[tokio::test]
async fn a_silent_table_fails_the_event_before_its_time_is_over_and_what_was_read_is_sent() {
    // The second page of two rows, or the third of ten, never comes.
    let cases = [(2, 0, 0), (2, 1, 2), (10, 2, 20), (7, 2, 14)];
    side_by_side(cases, |(page_size, pages, sent)| async move {
        let stage = stage_with_subscribers(30).await;
        stage.aws.set_page_size(page_size);
        stage.aws.always("Query", Reply::Hang);
        stage.aws.next("Query", vec![Reply::Usual; pages]);
        let dispatch = stage.start(DISPATCH).await;
        let start = Instant::now();

        let ending = dispatch
            .invoke(&event("OrderPaid", "{}"), Duration::from_secs(4))
            .await;

        assert_eq!(
            ending.error_message(),
            "the time was over before all subscriptions were read and their jobs sent"
        );
        assert!(start.elapsed() < Duration::from_millis(3900));
        assert_eq!(stage.sent_since(0).len(), sent, "{pages} pages");
    })
    .await;
}

#[tokio::test]
async fn pages_without_end_fail_the_event_before_its_time_is_over_and_what_was_read_is_sent() {
    let stage = stage_with_subscribers(7).await;
    // Seven rows, then one empty page after another.
    stage.aws.rule("Query", |input| {
        let key = json!({"eventType": {"S": "OrderPaid"}, "subscriberId": {"S": "z"}});
        let items: Vec<Value> = (0..7)
            .filter(|_| input["ExclusiveStartKey"].is_null())
            .map(|n| {
                json!({
                    "subscriberId": {"S": format!("s{n}")},
                    "url": {"S": "https://example.com/"},
                    "enabled": {"BOOL": true},
                })
            })
            .collect();
        Reply::Output(json!({"Items": items, "Count": items.len(), "LastEvaluatedKey": key}))
    });
    let dispatch = stage.start(DISPATCH).await;
    let start = Instant::now();

    let ending = dispatch
        .invoke(&event("OrderPaid", "{}"), Duration::from_secs(3))
        .await;

    assert_eq!(
        ending.error_message(),
        "the time was over before all subscriptions were read and their jobs sent"
    );
    assert!(start.elapsed() < Duration::from_millis(2900));
    assert_eq!(stage.sent_since(0).len(), 7);
}

#[tokio::test]
async fn subscriptions_that_cannot_be_read_to_the_end_fail_the_event() {
    let stage = stage_with_subscribers(3).await;
    stage.aws.set_page_size(2);
    stage.aws.rule("Query", |input| {
        if input["ExclusiveStartKey"].is_null() {
            Reply::Usual
        } else {
            Reply::error(400, "AccessDeniedException")
        }
    });
    let dispatch = stage.start(DISPATCH).await;

    let ending = dispatch
        .invoke(&event("OrderPaid", "{}"), FUNCTION_TIMEOUT)
        .await;

    let message = ending.error_message();
    assert!(
        message.contains("cannot read the subscriptions"),
        "{message}"
    );
    let entries = stage.sent_since(0);
    assert_eq!(entries.len(), 2, "what was read is sent");
}

#[tokio::test]
async fn an_answer_without_items_is_no_empty_page() {
    let outputs = [
        json!({}),
        json!({"Items": null}),
        json!({"Count": 0, "ScannedCount": 0}),
    ];
    // The first page, or the second of two rows.
    let cases = outputs
        .into_iter()
        .flat_map(|output| [(0, 0), (1, 2)].map(|(pages, sent)| (output.clone(), pages, sent)));
    side_by_side(cases, |(output, pages, sent)| async move {
        let stage = stage_with_subscribers(3).await;
        stage.aws.set_page_size(2);
        stage.aws.always("Query", Reply::Output(output.clone()));
        stage.aws.next("Query", vec![Reply::Usual; pages]);
        let dispatch = stage.start(DISPATCH).await;

        let ending = dispatch
            .invoke(&event("OrderPaid", "{}"), FUNCTION_TIMEOUT)
            .await;

        assert_eq!(
            ending.error_message(),
            "cannot read the subscriptions: the answer has no items"
        );
        assert_eq!(stage.sent_since(0).len(), sent, "{output}, {pages} pages");
    })
    .await;
}

#[tokio::test]
async fn an_event_that_is_none_is_refused_with_one_log_line() {
    let good = event("OrderPaid", "{}");
    for (json, message) in [
        (
            good.replace(r#","detail":{}"#, ""),
            "missing field `detail`",
        ),
        (event("OrderPaid", "null"), "`detail` is not a JSON object"),
        (event("OrderPaid", "[1,2]"), "`detail` is not a JSON object"),
        (event("OrderPaid", "\"x\""), "`detail` is not a JSON object"),
        (event("OrderPaid", "123"), "`detail` is not a JSON object"),
        (event("", "{}"), "`detail-type` is empty"),
        (
            good.replace("detail-type", "type"),
            "missing field `detail-type`",
        ),
        (good.replace(r#""id""#, r#""nr""#), "missing field `id`"),
        (good.replace(r#""time""#, r#""at""#), "missing field `time`"),
        ("{}".into(), "missing field `id`"),
        ("null".into(), "not an EventBridge event"),
        ("[]".into(), "not an EventBridge event"),
        (r#"{"Records":[]}"#.into(), "missing field `id`"),
    ] {
        let stage = stage_with_subscribers(1).await;
        let dispatch = stage.start(DISPATCH).await;

        let ending = dispatch.invoke(&json, FUNCTION_TIMEOUT).await;

        let said = ending.error_message();
        assert!(said.contains(message), "{json}: {said}");
        assert_eq!(stage.aws.all_calls().len(), 0);
        let lines = dispatch.stop().await;
        let errors: Vec<&String> = lines.iter().filter(|line| line.contains("ERROR")).collect();
        assert_eq!(errors.len(), 1, "{json}: {lines:#?}");
        assert!(errors[0].contains(message), "{lines:#?}");
    }
}

#[tokio::test]
async fn a_list_of_values_does_not_stand_for_an_event() {
    let stage = stage_with_subscribers(1).await;
    let dispatch = stage.start(DISPATCH).await;
    let list = r#"["e1","OrderPaid","2026-10-29T12:00:00Z",{}]"#;

    let ending = dispatch.invoke(list, FUNCTION_TIMEOUT).await;

    assert!(matches!(ending, Ending::Error(_)), "{ending:?}");
    assert_eq!(stage.aws.all_calls().len(), 0);
}

#[tokio::test]
async fn the_next_event_is_handled_after_a_bad_one() {
    let stage = stage_with_subscribers(1).await;
    let dispatch = stage.start(DISPATCH).await;

    let ending = dispatch.invoke("[]", FUNCTION_TIMEOUT).await;
    assert!(matches!(ending, Ending::Error(_)), "{ending:?}");
    let entries = stage.dispatch(&dispatch, &event("OrderPaid", "{}")).await;

    assert_eq!(entries.len(), 1);
}
