//! Where pings go, what they carry, and what is said of answers.

use aws_sdk_dynamodb::types::AttributeValue;
use webhooks_core::endpoint::EndpointError;
use webhooks_core::outcome::Failure;
use webhooks_core::retry_after::RetryAfter;
use webhooks_shell::records::Item;

use super::*;

fn row(event_type: &str, url: &str, enabled: bool) -> Entry {
    let s = |text: &str| AttributeValue::S(text.to_owned());
    let mut item = Item::from([
        ("eventType".to_owned(), s(event_type)),
        ("subscriberId".to_owned(), s("a")),
        ("enabled".to_owned(), AttributeValue::Bool(enabled)),
    ]);
    if !url.is_empty() {
        item.insert("url".to_owned(), s(url));
    }
    Entry::read(item).unwrap()
}

#[test]
fn each_url_gets_one_ping_and_a_broken_row_none() {
    let rows = [
        row("A", "https://x.example/?t=1", true),
        row("B", "https://y.example/", true),
        row("C", "https://x.example/?t=1", false),
        row("D", "", false),
        row("E", "", true),
    ];
    let shown: Vec<_> = destinations(&rows)
        .into_iter()
        .map(|to| {
            (
                to.shown_url,
                to.event_types,
                to.disabled,
                to.sent_to.is_ok(),
            )
        })
        .collect();
    let all = |types: &[&str]| types.iter().map(|name| (*name).to_owned()).collect();
    let expected: [(&str, &[&str], &[&str], bool); 4] = [
        ("https://x.example/", &["A", "C"], &["C"], true),
        ("https://y.example/", &["B"], &[], true),
        ("", &["D"], &["D"], false),
        ("", &["E"], &[], false),
    ];
    let expected: Vec<(String, Vec<String>, Vec<String>, bool)> = expected
        .into_iter()
        .map(|(url, types, off, sent)| (url.to_owned(), all(types), all(off), sent))
        .collect();
    assert_eq!(shown, expected);
}

#[test]
fn the_body_is_that_of_a_webhook() {
    let subscriber = SubscriberId::parse("a").unwrap();
    let now = UNIX_EPOCH + Duration::from_secs(1_796_040_000);
    assert_eq!(
        body(&subscriber, &["OrderPaid".to_owned()], now).unwrap(),
        r#"{"type":"webhooks.ping","timestamp":"2026-11-30T12:00:00.000Z","data":{"eventTypes":["OrderPaid"],"subscriberId":"a"}}"#
    );
}

#[test]
fn an_answer_is_shown_by_its_first_line_cut_and_escaped() {
    assert_eq!(first_line(b""), None);
    assert_eq!(first_line(b" \r\n\n"), None);
    assert_eq!(first_line(b"\n ok\nmore").unwrap(), "ok");
    assert_eq!(
        first_line(b"\x1b[2Jgone\xff").unwrap(),
        "\\u{1b}[2Jgone\u{fffd}"
    );
    let long = first_line("ä".repeat(201).as_bytes()).unwrap();
    assert_eq!(long, format!("{}…", "ä".repeat(200)));
}

#[test]
fn an_outcome_is_told_by_what_the_policy_makes_of_it() {
    let retry = |failure, retry_after| Outcome::Retry {
        failure,
        retry_after,
    };
    let later = Some(RetryAfter::Seconds(60));
    let (standard, bounded) = (RetryPolicy::standard(), RetryPolicy::bounded());
    for (outcome, policy, expected) in [
        (
            Outcome::Delivered { status: 204 },
            &standard,
            "a webhook would be delivered",
        ),
        (
            Outcome::Gone,
            &standard,
            "a webhook with this answer would disable the subscription; a ping changes nothing",
        ),
        (
            Outcome::Blocked(EndpointError::UserInfo),
            &standard,
            "nothing was sent: webhooks would be retried until the url is mended or their attempts \
             are used up",
        ),
        (
            retry(Failure::Tls, None),
            &standard,
            "a webhook would be retried, 8 attempts in all at most (standard)",
        ),
        (
            retry(Failure::Status(503), later),
            &standard,
            "a webhook would be retried, 8 attempts in all at most (standard), not before \
             Retry-After",
        ),
        (
            retry(Failure::Status(404), later),
            &bounded,
            "a webhook would be given up at once (bounded)",
        ),
        (
            retry(Failure::Status(404), None),
            &RetryPolicy::contract_72h(),
            "a webhook would be given up at the third such answer (contract-72h)",
        ),
    ] {
        assert_eq!(report::meaning(&outcome, policy), expected);
    }
}

#[test]
fn the_text_has_a_part_for_each_url() {
    let answered = Answer {
        url: "https://x.example/".into(),
        webhook_id: Some("msg_ping-1_a".into()),
        event_types: vec!["A".into(), "C".into()],
        disabled: vec!["C".into()],
        outcome: "delivered",
        status: Some(202),
        ms: Some(41),
        meaning: "a webhook would be delivered".into(),
        error: None,
        answer: Some("ok".into()),
        answer_read: true,
    };
    let failed = Answer {
        disabled: Vec::new(),
        outcome: "retry",
        status: None,
        error: Some("certificate expired".into()),
        meaning: "m".into(),
        answer: None,
        answer_read: false,
        ..answered.clone()
    };
    let pings = Pings {
        subscriber_id: "a".into(),
        answers: vec![answered, failed],
    };
    assert_eq!(
        pings.to_string(),
        "https://x.example/  (A, C)\n  disabled for C\n  202 after 41 ms: a webhook would be \
         delivered\n  it said: ok\n\nhttps://x.example/  (A, C)\n  no answer after 41 ms: \
         certificate expired\n  m\n  nothing came back"
    );
}

#[test]
fn an_answer_without_words_is_not_one_that_was_not_read() {
    let said = |status, answer_read| {
        let answer = Answer {
            url: "https://x.example/".into(),
            webhook_id: None,
            event_types: vec!["A".into()],
            disabled: Vec::new(),
            outcome: "delivered",
            status,
            ms: None,
            meaning: "m".into(),
            error: None,
            answer: None,
            answer_read,
        };
        answer.to_string().lines().last().unwrap().to_owned()
    };
    assert_eq!(said(Some(200), true), "  it said nothing");
    assert_eq!(said(Some(200), false), "  its answer was not read");
    assert_eq!(said(None, false), "  nothing came back");
}

#[test]
fn of_a_row_with_broken_headers_webhooks_are_made_and_fail() {
    let broken = |enabled, url: &str| {
        let mut item = row("A", url, enabled).item;
        item.insert("headers".into(), AttributeValue::S("x: y".into()));
        destinations(&[Entry::read(item).unwrap()]).remove(0)
    };
    let url = "https://x.example/";
    let made = broken(true, url);
    assert_eq!(
        made.sent_to.unwrap_err().to_string(),
        "`headers`: not a map (M)"
    );
    assert!(made.makes_webhooks);
    assert!(!broken(false, url).makes_webhooks);
    assert!(!broken(true, "").makes_webhooks);
    assert_eq!(
        report::meaning_of_broken(true),
        "webhooks are made of events of this type, and fail until the row is mended"
    );
    assert_eq!(
        report::meaning_of_broken(false),
        "no webhook is made of events of this type"
    );
}
