//! The floor: the least that sending these POSTs costs with the same HTTP client. Ten at a time,
//! with the same bytes, and nothing else: nothing is read, looked up, signed, logged or written
//! down.
//!
//! It reads numbers from standard input, a line each, sends as many batches, and writes a line
//! with how long each took, in microseconds. It ends with its input.

use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Uri};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio::task::JoinSet;

type AnyError = Box<dyn Error + Send + Sync>;
type HttpClient = Client<hyper_rustls::HttpsConnector<HttpConnector>, Full<Bytes>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AnyError> {
    let urls = std::env::var("FLOOR_URLS")?;
    let urls = urls
        .split(',')
        .map(str::parse)
        .collect::<Result<Vec<Uri>, _>>()?;
    let body = Bytes::from(std::fs::read(std::env::var("FLOOR_BODY")?)?);
    let client = client()?;
    let mut output = std::io::stdout();
    writeln!(output, "ready")?;
    for line in std::io::stdin().lock().lines() {
        let batches: usize = line?.trim().parse()?;
        let mut times = Vec::with_capacity(batches);
        for _ in 0..batches {
            let began = Instant::now();
            let mut posts = JoinSet::new();
            for url in &urls {
                posts.spawn(post(client.clone(), url.clone(), body.clone()));
            }
            while let Some(posted) = posts.join_next().await {
                posted??;
            }
            times.push(began.elapsed().as_micros().to_string());
        }
        writeln!(output, "{}", times.join(" "))?;
    }
    Ok(())
}

/// The client of the function, without its guard over addresses.
fn client() -> Result<HttpClient, AnyError> {
    let mut roots = RootCertStore::empty();
    if let Ok(path) = std::env::var("FLOOR_CA") {
        for certificate in CertificateDer::pem_file_iter(path)? {
            roots.add(certificate?)?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .build(connector))
}

async fn post(client: HttpClient, url: Uri, body: Bytes) -> Result<(), AnyError> {
    let request = Request::post(url)
        .header("webhook-id", "msg_0000000000_partner-000000")
        .header("webhook-timestamp", "1700000000")
        .header(
            "webhook-signature",
            "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
        )
        .header("content-type", "application/json")
        .header("user-agent", "sqs-webhooks/0.1.0")
        .body(Full::new(body))?;
    let answer = client.request(request).await?;
    answer.into_body().collect().await?;
    Ok(())
}
