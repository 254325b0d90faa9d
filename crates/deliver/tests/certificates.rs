//! Whom a webhook is shown to: the server that proves to be the name in the url, and no other. A
//! server that does not gets not one byte of it, and what is wrong with it is told so that a
//! person can mend it. All of it in a network of its own, with the function as it runs in
//! production and an authority of our own in `EXTRA_CA_FILE`.

use e2e::network::{PUBLIC, PUBLIC_TOO, within};
use e2e::production::{Production, Told};
use e2e::tls::{Authority, Identity, Partner, Play, Validity};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

const NAME: &str = "partner.example";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Makes an attempt at `https://partner.example/hook`, where this server is.
async fn attempt(world: &Production) -> Told {
    world.dns.name(NAME, &[PUBLIC]);
    let url = format!("https://{NAME}/hook");
    world.stage.subscribe("kasse-nord", &url);
    let deliver = world.stage.start(DELIVER).await;
    world.attempt(&deliver, "kasse-nord", 1).await.told
}

/// Checks that a server with this certificate is told off by these words, and learns nothing but
/// whom it was asked for.
async fn assert_not_trusted(world: &Production, identity: &Identity, told: &str) {
    let partner = Partner::listen(PUBLIC, identity, Play::Answer(OK.to_vec())).await;

    assert_eq!(attempt(world).await, Told::retry("tls", told));

    let seen = partner.seen();
    assert_eq!(seen.server_names, [Some(NAME.to_owned())]);
    assert_eq!(seen.requests, []);
    assert_eq!(seen.bytes, b"");
    world.assert_nothing_forbidden().await;
}

/// Checks what an attempt comes to at a server with a good certificate that does this.
async fn assert_told(play: Play, requests: usize, told: Told) {
    let world = Production::start().await;
    let identity = world.authority.issue(&[NAME], Validity::Now);
    let partner = Partner::listen(PUBLIC, &identity, play).await;

    assert_eq!(attempt(&world).await, told);

    let seen = partner.seen();
    assert_eq!(seen.requests.len(), requests);
    assert!(!holds_webhook(&seen.bytes));
}

fn holds_webhook(bytes: &[u8]) -> bool {
    ["webhook-", "POST", "OrderPaid"].iter().any(|part| {
        bytes
            .windows(part.len())
            .any(|window| window == part.as_bytes())
    })
}

#[test]
fn a_good_certificate_gets_the_webhook_and_the_name_stays_what_the_url_says() {
    within(|| async {
        let world = Production::start().await;
        let between = world.authority.intermediate("Between", Validity::Now);
        for (subscriber, host, address, identity) in [
            (
                "plain",
                NAME,
                PUBLIC,
                world.authority.issue(&[NAME], Validity::Now),
            ),
            (
                "chain",
                "www.partner.example",
                PUBLIC_TOO,
                between.issue(&["a.example", "*.partner.example"], Validity::Now),
            ),
        ] {
            let partner = Partner::good(address, &identity).await;
            world.dns.name(host, &[address]);
            world
                .stage
                .subscribe(subscriber, &format!("https://{host}/hook"));
            let deliver = world.stage.start(DELIVER).await;

            let attempt = world.attempt(&deliver, subscriber, 1).await;

            assert_eq!(attempt.told, Told::delivered(), "{subscriber}");
            let seen = partner.seen();
            assert_eq!(seen.server_names, [Some(host.to_owned())]);
            let [request] = &seen.requests[..] else {
                panic!("{seen:?}");
            };
            assert_eq!(request.header("host"), Some(host));
            assert_eq!(request.target, "/hook");
        }
    });
}

#[test]
fn a_dot_at_the_end_of_the_name_is_for_resolvers_and_not_for_certificates() {
    within(|| async {
        let world = Production::start().await;
        let identity = world.authority.issue(&[NAME], Validity::Now);
        let partner = Partner::good(PUBLIC, &identity).await;
        world.dns.name(NAME, &[PUBLIC]);
        world
            .stage
            .subscribe("kasse-nord", "https://partner.example./hook");
        let deliver = world.stage.start(DELIVER).await;

        let attempt = world.attempt(&deliver, "kasse-nord", 1).await;

        assert_eq!(attempt.told, Told::delivered());
        let seen = partner.seen();
        assert_eq!(seen.server_names, [Some(NAME.to_owned())]);
        assert_eq!(seen.requests[0].header("host"), Some("partner.example."));
        assert_eq!(world.dns.names_asked(), [NAME]);
    });
}

#[test]
fn an_expired_certificate_is_refused() {
    within(|| async {
        let world = Production::start().await;
        let identity = world.authority.issue(&[NAME], Validity::Past);
        let told = "the certificate or one above it has expired (2021-01-01T00:00:00.000Z)";
        assert_not_trusted(&world, &identity, told).await;
    });
}

#[test]
fn a_certificate_that_is_not_valid_yet_is_refused() {
    within(|| async {
        let world = Production::start().await;
        let identity = world.authority.issue(&[NAME], Validity::Future);
        let told = "the certificate or one above it is not valid yet (2099-01-01T00:00:00.000Z)";
        assert_not_trusted(&world, &identity, told).await;
    });
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    within(|| async {
        let world = Production::start().await;
        let identity = world.authority.issue(&["other.example"], Validity::Now);
        let told = "the certificate is for other.example, not for partner.example";
        assert_not_trusted(&world, &identity, told).await;
    });
}

#[test]
fn a_certificate_for_the_address_of_the_server_is_not_one_for_its_name() {
    within(|| async {
        let world = Production::start().await;
        let names = [PUBLIC, "*.partner.example", "example"];
        let identity = world.authority.issue(&names, Validity::Now);
        let told = "the certificate is for 93.184.215.14, *.partner.example and example, not for \
                    partner.example";
        assert_not_trusted(&world, &identity, told).await;
    });
}

const UNKNOWN: &str = "the certificate is not signed by a known authority, or the server leaves \
                       out the certificates in between";

#[test]
fn a_self_signed_certificate_is_refused() {
    within(|| async {
        let world = Production::start().await;
        assert_not_trusted(&world, &Identity::self_signed(&[NAME]), UNKNOWN).await;
    });
}

#[test]
fn a_certificate_of_an_unknown_authority_is_refused() {
    within(|| async {
        let world = Production::start().await;
        // Of the same name as the known one.
        let unknown = Authority::new("Test Root");
        let identity = unknown.issue(&[NAME], Validity::Now);
        let told = "the certificate is not signed by the authority that it names";
        assert_not_trusted(&world, &identity, told).await;
    });
}

#[test]
fn a_certificate_of_an_authority_of_unknown_name_is_refused() {
    within(|| async {
        let world = Production::start().await;
        let identity = Authority::new("Elsewhere").issue(&[NAME], Validity::Now);
        assert_not_trusted(&world, &identity, UNKNOWN).await;
    });
}

#[test]
fn an_expired_certificate_in_between_is_refused() {
    within(|| async {
        let world = Production::start().await;
        let between = world.authority.intermediate("Between", Validity::Past);
        let identity = between.issue(&[NAME], Validity::Now);
        let told = "the certificate or one above it has expired (2021-01-01T00:00:00.000Z)";
        assert_not_trusted(&world, &identity, told).await;
    });
}

#[test]
fn a_server_that_leaves_out_the_certificate_in_between_is_refused() {
    within(|| async {
        let world = Production::start().await;
        let between = world.authority.intermediate("Between", Validity::Now);
        let identity = between.issue(&[NAME], Validity::Now).alone();
        assert_not_trusted(&world, &identity, UNKNOWN).await;
    });
}

#[test]
fn without_the_extra_authority_its_certificates_are_refused() {
    within(|| async {
        let mut world = Production::start().await;
        world.stage = world.stage.without("EXTRA_CA_FILE");
        let identity = world.authority.issue(&[NAME], Validity::Now);
        assert_not_trusted(&world, &identity, UNKNOWN).await;
    });
}

#[test]
fn a_server_that_hangs_up_in_the_handshake_gets_no_webhook() {
    within(|| {
        let told = "the server closed the connection during the TLS handshake";
        assert_told(Play::HangUpInHandshake, 0, Told::retry("tls", told))
    });
}

#[test]
fn a_server_that_resets_the_connection_after_the_handshake_gets_the_webhook_later() {
    within(|| {
        let told = "the server reset the connection before it answered";
        assert_told(
            Play::ResetAfterHandshake,
            0,
            Told::retry("connection", told),
        )
    });
}

#[test]
fn a_server_that_hangs_up_without_a_word_after_the_request_gets_the_webhook_later() {
    within(|| {
        let told = "the server closed the connection before it answered";
        let play = Play::AnswerAndHangUp(Vec::new());
        assert_told(play, 1, Told::retry("connection", told))
    });
}

#[test]
fn an_answer_that_ends_without_the_goodbye_of_tls_has_delivered() {
    within(|| assert_told(Play::AnswerAndHangUp(OK.to_vec()), 1, Told::delivered()));
}

#[test]
fn an_answer_of_unknown_length_that_ends_without_the_goodbye_of_tls_has_delivered() {
    within(|| {
        let answer = b"HTTP/1.1 200 OK\r\n\r\ncut sho".to_vec();
        assert_told(Play::AnswerAndHangUp(answer), 1, Told::delivered())
    });
}

#[test]
fn a_server_that_speaks_http_without_tls_gets_no_webhook() {
    within(|| {
        let told = "the server does not speak TLS on this port";
        assert_told(Play::Plain(OK.to_vec()), 0, Told::retry("tls", told))
    });
}

/// What OpenSSL says that is configured for TLS 1.1 and below: the alert `protocol_version`.
const ONLY_OLD_TLS: [u8; 7] = [21, 3, 1, 0, 2, 2, 70];

#[test]
fn a_server_that_speaks_only_old_versions_of_tls_gets_no_webhook() {
    within(|| async {
        let world = Production::start().await;
        let listener = TcpListener::bind((PUBLIC, 443)).await.unwrap();

        let (told, bytes) = tokio::join!(attempt(&world), async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(&ONLY_OLD_TLS).await.unwrap();
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes).await;
            bytes
        });

        let words = "the server speaks neither TLS 1.2 nor TLS 1.3";
        assert_eq!(told, Told::retry("tls", words));
        assert!(bytes.starts_with(&[22, 3]), "a TLS handshake");
        assert!(!holds_webhook(&bytes));
    });
}

#[test]
fn an_https_address_in_the_url_must_be_in_the_certificate() {
    within(|| async {
        let world = Production::start().await;
        let identity = world.authority.issue(&[PUBLIC], Validity::Now);
        let partner = Partner::good(PUBLIC, &identity).await;
        let other = world.authority.issue(&[NAME], Validity::Now);
        let wrong = Partner::good(PUBLIC_TOO, &other).await;
        for (subscriber, address) in [("right", PUBLIC), ("wrong", PUBLIC_TOO)] {
            world
                .stage
                .subscribe(subscriber, &format!("https://{address}/"));
        }
        let deliver = world.stage.start(DELIVER).await;

        let attempts = world.attempts(&deliver, &["right", "wrong"], 1).await;

        assert_eq!(attempts[0].told, Told::delivered());
        let told = "the certificate is for partner.example, not for 93.184.215.15";
        assert_eq!(attempts[1].told, Told::retry("tls", told));
        assert_eq!((partner.requests(), wrong.requests()), (1, 0));
        // No server is asked for an address by name (RFC 6066 §3).
        assert_eq!(partner.seen().server_names, [None]);
    });
}
