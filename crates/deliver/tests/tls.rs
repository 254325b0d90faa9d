//! TLS to a server that nobody vouches for: it is asked for by its name, and when its certificate
//! turns out to be worth nothing, not one byte of the webhook is shown to it.

#![expect(
    clippy::unwrap_used,
    reason = "a broken test server stops the test where it stands"
)]

use std::sync::Arc;
use std::time::Duration;

use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, failures};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::Acceptor;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio_rustls::LazyConfigAcceptor;

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

/// What a server sees of a client.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    server_name: Option<String>,
    offers_http2: bool,
    bytes: usize,
}

/// A certificate that is signed by its own key.
fn self_signed(parameters: CertificateParams) -> ServerConfig {
    let key = KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let mut config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .unwrap();
    // The server would take anything.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

fn certificate_for(name: &str) -> CertificateParams {
    CertificateParams::new([name.to_owned()]).unwrap()
}

/// Takes one connection.
async fn serve(listener: &TcpListener, config: ServerConfig) -> Seen {
    let (stream, _) = listener.accept().await.unwrap();
    let start = LazyConfigAcceptor::new(Acceptor::default(), stream)
        .await
        .unwrap();
    let hello = start.client_hello();
    let mut seen = Seen {
        server_name: hello.server_name().map(str::to_owned),
        offers_http2: hello.alpn().into_iter().flatten().any(|name| name == b"h2"),
        bytes: 0,
    };
    if let Ok(mut stream) = start.into_stream(Arc::new(config)).await {
        let mut bytes = Vec::new();
        // Refused or not, the connection ends with an error.
        let _ = stream.read_to_end(&mut bytes).await;
        seen.bytes = bytes.len();
    }
    seen
}

#[tokio::test]
async fn a_certificate_without_a_known_authority_is_refused_before_anything_is_sent() {
    let mut expired = certificate_for("127.0.0.1");
    expired.not_before = date_time_ymd(2020, 1, 1);
    expired.not_after = date_time_ymd(2021, 1, 1);
    for (host, name, certificate) in [
        ("127.0.0.1", None, certificate_for("127.0.0.1")),
        ("localhost", Some("localhost"), certificate_for("localhost")),
        (
            "localhost",
            Some("localhost"),
            certificate_for("other.example"),
        ),
        ("127.0.0.1", None, expired),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stage = Stage::for_deliver().await;
        stage.subscribe("kasse-nord", &format!("https://{host}:{port}/"));
        let deliver = stage.start(DELIVER).await;
        let records = [Record::new(0, &Job::for_subscriber("kasse-nord").text())];

        let (batch, seen) = tokio::join!(
            stage.deliver(&deliver, &records),
            serve(&listener, self_signed(certificate)),
        );

        assert_eq!(
            seen,
            Seen {
                server_name: name.map(str::to_owned),
                offers_http2: false,
                bytes: 0,
            }
        );
        assert_eq!(batch.response, failures(&["m0"]), "{host}");
        batch.assert_delay(0, 30..=60);
        assert!(stage.is_enabled("kasse-nord"));
        deliver
            .line_with(&["delivery.attempted", r#""failure":"tls""#])
            .await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_gets_no_webhook() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stage = Stage::for_deliver().await;
    stage.subscribe(
        "kasse-nord",
        &format!("https://{}/", listener.local_addr().unwrap()),
    );
    let deliver = stage.start(DELIVER).await;
    let records = [Record::new(0, &Job::for_subscriber("kasse-nord").text())];

    let (batch, bytes) = tokio::join!(stage.deliver(&deliver, &records), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer)
            .await
            .unwrap();
        let _ = stream.read_to_end(&mut bytes).await;
        bytes
    });

    assert_eq!(batch.response, failures(&["m0"]));
    assert!(bytes.starts_with(&[22, 3]), "a TLS handshake");
    let webhook = b"webhook-id";
    assert!(!bytes.windows(webhook.len()).any(|window| window == webhook));
}

#[tokio::test]
async fn a_server_that_never_shakes_hands_is_given_up_within_the_time_for_connecting() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stage = Stage::for_deliver().await;
    stage.subscribe(
        "kasse-nord",
        &format!("https://{}/", listener.local_addr().unwrap()),
    );
    let deliver = stage.start(DELIVER).await;
    let records = [Record::new(0, &Job::for_subscriber("kasse-nord").text())];

    let (batch, ()) = tokio::join!(stage.deliver(&deliver, &records), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        // It reads what comes, until the sender hangs up.
        stream.read_to_end(&mut Vec::new()).await.unwrap();
    });

    assert_eq!(batch.response, failures(&["m0"]));
    batch.assert_delay(0, 30..=60);
    assert!(
        (Duration::from_secs(5)..Duration::from_secs(7)).contains(&batch.took),
        "{:?}",
        batch.took
    );
    deliver
        .line_with(&["delivery.attempted", r#""failure":"tls""#])
        .await;
    let another = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
    assert!(another.is_err(), "not at once: {another:?}");
}
