//! Which urls `webhooks subscribe` takes.

use super::{NONE, changes, done, failed, stage};

#[tokio::test]
async fn a_url_that_would_be_blocked_is_refused_with_the_rule() {
    let stage = stage().await;
    for (url, reason) in [
        (
            "http://8.8.8.8/",
            "the url's scheme is `http`, only https is allowed",
        ),
        (
            "https://u:p@8.8.8.8/",
            "the url contains a user name or password",
        ),
        (
            "https://8.8.8.8:22/",
            "port 22 is not allowed, only 443 and 1024 to 65535 are",
        ),
        ("partner.example/hook", "the url is not an absolute URL"),
        (
            "https://metadata.internal/",
            "`metadata.internal` is not a public host name",
        ),
        ("https://kasse/", "`kasse` is not a public host name"),
        ("https://127.0.0.1/", "127.0.0.1 is"),
        ("https://169.254.169.254/", "169.254.169.254 is"),
        ("https://[::1]/", "::1 is"),
    ] {
        let arguments = [
            "subscribe",
            "kasse-nord",
            "--event",
            "OrderPaid",
            "--url",
            url,
        ];
        let (code, said) = failed(&stage, &arguments).await;
        assert_eq!(code, Some(2), "{url}: {said}");
        let expected = format!("webhooks: --url can not be subscribed: {reason}");
        assert!(said.starts_with(&expected), "{url}: {said}");
    }
    let long = format!("https://8.8.8.8/{}", "x".repeat(2048));
    let arguments = [
        "subscribe",
        "kasse-nord",
        "--event",
        "OrderPaid",
        "--url",
        &long,
    ];
    let (code, said) = failed(&stage, &arguments).await;
    assert_eq!(code, Some(2));
    assert!(said.contains("`url` is longer than 2048 bytes"), "{said}");
    assert_eq!(changes(&stage), NONE);
}

#[tokio::test]
async fn a_stack_for_local_runs_takes_local_urls() {
    let stage = stage().await;
    stage
        .aws
        .set_stack_parameter("AllowPrivateEndpoints", "true");
    let url = "http://localhost:8080/hook";
    let arguments = [
        "subscribe",
        "kasse-nord",
        "--event",
        "OrderPaid",
        "--url",
        url,
    ];
    done(&stage, &arguments).await;
    let row = stage.aws.row("OrderPaid", "kasse-nord").unwrap();
    assert_eq!(row["url"]["S"], url);
}

#[tokio::test]
async fn a_name_that_leads_nowhere_is_refused_unless_that_is_meant() {
    let stage = stage().await;
    // Local rules let the name pass, which no resolver knows (RFC 6761).
    stage
        .aws
        .set_stack_parameter("AllowPrivateEndpoints", "true");
    let url = "https://partner.invalid/hook";
    let arguments = [
        "subscribe",
        "kasse-nord",
        "--event",
        "OrderPaid",
        "--url",
        url,
    ];
    let (code, said) = failed(&stage, &arguments).await;
    assert_eq!(code, Some(1), "{said}");
    let expected = "webhooks: --url can not be subscribed: `partner.invalid`: the host name can \
                    not be resolved: ";
    assert!(said.starts_with(expected), "{said}");
    assert!(
        said.ends_with(" (--no-resolve subscribes it all the same)\n"),
        "{said}"
    );
    assert_eq!(changes(&stage), NONE);

    let arguments = [&arguments[..], &["--no-resolve"]].concat();
    done(&stage, &arguments).await;
    let row = stage.aws.row("OrderPaid", "kasse-nord").unwrap();
    assert_eq!(row["url"]["S"], url);
}

#[tokio::test]
async fn a_url_with_characters_that_its_parser_drops_is_refused() {
    let stage = stage().await;
    for url in [
        "https://8.8.8.8/h\n",
        " https://8.8.8.8/h",
        "https://8.8.8.8/a\tb",
        "https://8.8.8.8/a\r\nb",
        "https://8.8.8.8/\u{1b}[2J",
    ] {
        let arguments = [
            "subscribe",
            "kasse-nord",
            "--event",
            "OrderPaid",
            "--url",
            url,
        ];
        assert_eq!(
            failed(&stage, &arguments).await,
            (
                Some(2),
                "webhooks: --url can not be subscribed: the url has white space at an end, or a \
                 control character such as a tab or a line break\n"
                    .into()
            ),
            "{url:?}"
        );
    }
    assert_eq!(changes(&stage), NONE);
}
