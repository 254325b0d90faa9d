//! Where a webhook may go: over https to public addresses, exactly as the url says, and not by
//! way of anything that the environment names. All that is reached here is this machine itself;
//! the tables of addresses are tested where the rule stands, in `core`.

use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, failures};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

/// Delivers one job to each url and asserts that every one comes back without having been sent.
async fn assert_nothing_is_sent(stage: &Stage, urls: &[String]) {
    let deliver = stage.start(DELIVER).await;
    for (chunk, urls) in urls.chunks(10).enumerate() {
        let mut records = Vec::new();
        for (n, url) in urls.iter().enumerate() {
            let name = format!("s{chunk}-{n}");
            stage.subscribe(&name, url);
            records.push(Record::new(n, &Job::for_subscriber(&name).text()));
        }

        let batch = stage.deliver(&deliver, &records).await;

        let ids: Vec<String> = (0..urls.len()).map(|n| format!("m{n}")).collect();
        assert_eq!(batch.response, failures(&ids), "{urls:?}");
        for (n, url) in urls.iter().enumerate() {
            batch.assert_delay(n, 30..=60);
            assert!(stage.is_enabled(&format!("s{chunk}-{n}")), "{url}");
        }
    }
}

#[tokio::test]
async fn an_address_of_this_machine_is_not_called_however_it_is_written() {
    let receiver = Receiver::always(Answer::status(200)).await;
    let port = receiver.address().port();
    let hosts = [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0x0.0x0.0x1",
        "0177.0.0.1",
        "017700000001",
        "%31%32%37.0.0.1",
        "①②⑦.⓪.⓪.①",
        "１２７.０.０.１",
        "127。0。0。1",
        "127.0.0.1.",
        "0",
        "0.0.0.0",
        "127.255.255.254",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
    ];
    let urls: Vec<String> = hosts
        .iter()
        .flat_map(|host| {
            [
                format!("https://{host}:{port}/"),
                format!("http://{host}:{port}/"),
            ]
        })
        .collect();
    for stage in [
        Stage::for_deliver()
            .await
            .without("ALLOW_PRIVATE_ENDPOINTS"),
        Stage::for_deliver()
            .await
            .with("ALLOW_PRIVATE_ENDPOINTS", "false"),
    ] {
        assert_nothing_is_sent(&stage, &urls).await;
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn what_is_no_https_url_is_not_called_even_on_a_local_run() {
    let receiver = Receiver::always(Answer::status(200)).await;
    let address = receiver.address();
    let urls = [
        format!("ftp://{address}/"),
        format!("ws://{address}/"),
        format!("//{address}/"),
        format!("{address}/"),
        format!("http:///{address}:x/"),
        "file:///etc/passwd".to_owned(),
        "not a url".to_owned(),
        "null".to_owned(),
        "http://".to_owned(),
        "https://256.256.256.256/".to_owned(),
        "https://1.2.3.4.5/".to_owned(),
        "http://127.0.0.1:0/".to_owned(),
        "http://127.0.0.1:65536/".to_owned(),
    ];
    let stage = Stage::for_deliver().await;

    assert_nothing_is_sent(&stage, &urls).await;

    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn a_url_with_user_info_is_not_called() {
    let receiver = Receiver::always(Answer::status(200)).await;
    let address = receiver.address();
    let urls = [
        format!("http://example.com@{address}/"),
        format!("http://example.com:pw@{address}/"),
        format!("http://:pw@{address}/"),
        format!("http://a:b@{address}/x"),
    ];
    let stage = Stage::for_deliver().await;

    assert_nothing_is_sent(&stage, &urls).await;

    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn the_request_asks_for_exactly_the_target_of_the_url() {
    let receiver = Receiver::always(Answer::status(200)).await;
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    for (path, target) in [
        ("", "/"),
        ("/", "/"),
        ("?a=1", "/?a=1"),
        (
            "/a%20b?q=%22x%22&z=%2B+%20&a=1&a=2",
            "/a%20b?q=%22x%22&z=%2B+%20&a=1&a=2",
        ),
        ("/a b?q=a b&r=é", "/a%20b?q=a%20b&r=%C3%A9"),
        ("/a%2520b", "/a%2520b"),
        ("/%zz", "/%zz"),
        ("/a/./b//c", "/a/b//c"),
        ("/../../a", "/a"),
        ("/a?", "/a?"),
        (
            "/a;b=c/d,e?x=[1]&y={2}|3^4`5\\6",
            "/a;b=c/d,e?x=[1]&y={2}|3^4`5\\6",
        ),
        ("/hook#part", "/hook"),
    ] {
        let name = format!("s{}", receiver.requests().len());
        stage.subscribe(&name, &receiver.url(path));
        let records = [Record::new(0, &Job::for_subscriber(&name).text())];

        let batch = stage.deliver(&deliver, &records).await;

        assert_eq!(batch.response, failures(&[] as &[&str]), "{path}");
        let request = receiver.requests().pop().unwrap();
        assert_eq!(request.target, target, "{path}");
        assert_eq!(
            request.header("host"),
            Some(receiver.address().to_string().as_str())
        );
    }
}

#[tokio::test]
async fn an_attempt_goes_where_the_subscription_points_now() {
    let receiver = Receiver::always(Answer::status(500)).await;
    let stage = Stage::for_deliver().await;
    let deliver = stage.start(DELIVER).await;
    let mut job = Job::for_subscriber("kasse-nord");
    job.url = receiver.url("/of-the-job");
    for (n, path) in ["/v1", "/v2"].iter().enumerate() {
        stage.subscribe("kasse-nord", &receiver.url(path));
        stage
            .deliver(&deliver, &[Record::new(0, &job.text()).received(n + 1)])
            .await;
        stage.make_due(&job);
    }
    let targets: Vec<String> = receiver
        .requests()
        .iter()
        .map(|r| r.target.clone())
        .collect();
    assert_eq!(targets, ["/v1", "/v2"]);
}

#[tokio::test]
async fn no_proxy_of_the_environment_is_used() {
    let proxy = Receiver::always(Answer::status(200)).await;
    let receiver = Receiver::always(Answer::status(200)).await;
    let mut stage = Stage::for_deliver().await;
    for name in [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ] {
        stage = stage.with(name, &proxy.url(""));
    }
    stage.subscribe("kasse-nord", &receiver.url("/"));
    let deliver = stage.start(DELIVER).await;
    let records = [Record::new(0, &Job::for_subscriber("kasse-nord").text())];

    let batch = stage.deliver(&deliver, &records).await;

    assert_eq!(batch.response, failures(&[] as &[&str]));
    assert_eq!(receiver.requests().len(), 1);
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn a_name_without_an_address_brings_the_delivery_back() {
    // RFC 6761 §6.4: resolvers answer such a name themselves, with no.
    let urls = ["http://no-such-host.invalid/".to_owned()];
    let stage = Stage::for_deliver().await;

    assert_nothing_is_sent(&stage, &urls).await;
}
