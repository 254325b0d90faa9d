//! Certificates, and a partner's server that shows them: a good one, and those that have gone
//! wrong.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::Acceptor;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use crate::http1::{Request, read_request};

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Now.
    Now,
    /// Until the beginning of 2021.
    Past,
    /// From the beginning of 2099.
    Future,
}

/// A certificate authority.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// What a server has to send beside its own certificate.
    between: Vec<CertificateDer<'static>>,
}

/// A certificate with those above it, and its key.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
}

impl Authority {
    /// One that vouches for itself.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let issuer = CertifiedIssuer::self_signed(
            authority_parameters(name, Validity::Now),
            KeyPair::generate().unwrap(),
        );
        Self {
            issuer: issuer.unwrap(),
            between: Vec::new(),
        }
    }

    /// One that this one vouches for.
    #[must_use]
    pub fn intermediate(&self, name: &str, validity: Validity) -> Self {
        let issuer = CertifiedIssuer::signed_by(
            authority_parameters(name, validity),
            KeyPair::generate().unwrap(),
            &self.issuer,
        );
        let issuer = issuer.unwrap();
        let mut between = vec![issuer.der().clone()];
        between.extend(self.between.iter().cloned());
        Self { issuer, between }
    }

    /// A certificate for these names.
    #[must_use]
    pub fn issue(&self, names: &[&str], validity: Validity) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = parameters(names, validity)
            .signed_by(&key, &self.issuer)
            .unwrap();
        let mut chain = vec![certificate.der().clone()];
        chain.extend(self.between.iter().cloned());
        Identity { chain, key }
    }

    /// The authority's own certificate, as a PEM file.
    #[must_use]
    pub fn pem(&self) -> String {
        let text = BASE64_STANDARD.encode(self.issuer.der());
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Authority")
    }
}

impl Identity {
    /// A certificate that is signed by its own key.
    #[must_use]
    pub fn self_signed(names: &[&str]) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = parameters(names, Validity::Now).self_signed(&key).unwrap();
        Self {
            chain: vec![certificate.der().clone()],
            key,
        }
    }

    /// The same without the certificates above it.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.chain.truncate(1);
        self
    }

    fn config(&self) -> Arc<ServerConfig> {
        let key = PrivatePkcs8KeyDer::from(self.key.serialize_der());
        let config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(self.chain.clone(), key.into())
                .unwrap();
        Arc::new(config)
    }
}

fn parameters(names: &[&str], validity: Validity) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut parameters = CertificateParams::new(names).unwrap();
    match validity {
        Validity::Now => {}
        Validity::Past => {
            parameters.not_before = date_time_ymd(2020, 1, 1);
            parameters.not_after = date_time_ymd(2021, 1, 1);
        }
        Validity::Future => {
            parameters.not_before = date_time_ymd(2099, 1, 1);
            parameters.not_after = date_time_ymd(2100, 1, 1);
        }
    }
    parameters
}

fn authority_parameters(name: &str, validity: Validity) -> CertificateParams {
    let mut parameters = parameters(&[], validity);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}

/// What a server does with a connection.
#[derive(Clone, Debug)]
pub enum Play {
    /// Shakes hands, answers one request with these bytes, and says goodbye.
    Answer(Vec<u8>),
    /// The same without TLS's goodbye (`close_notify`).
    AnswerAndHangUp(Vec<u8>),
    /// Hangs up when it knows whom it is asked for.
    HangUpInHandshake,
    /// The same with so many connections, and answers those that come later with these bytes.
    HangUpInHandshakes(usize, Vec<u8>),
    /// Resets the connection as soon as hands are shaken.
    ResetAfterHandshake,
    /// Answers whatever comes with these bytes, without TLS.
    Plain(Vec<u8>),
}

/// What a server has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// For each connection the name that it was asked for.
    pub server_names: Vec<Option<String>>,
    /// The requests.
    pub requests: Vec<Request>,
    /// For each of them when it was read, and when its answer was written.
    pub times: Vec<(Instant, Option<Instant>)>,
    /// All that could be read outside of TLS's own messages, beside the requests.
    pub bytes: Vec<u8>,
}

/// A partner's server. It ends when it is dropped.
#[derive(Debug)]
pub struct Partner {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    server: JoinHandle<()>,
}

impl Partner {
    /// Listens at port 443 of an address.
    ///
    /// # Panics
    /// If that is taken.
    pub async fn listen(address: &str, identity: &Identity, play: Play) -> Self {
        let address: IpAddr = address.parse().unwrap();
        Self::at((address, 443).into(), identity, play).await
    }

    /// Listens at a free port of this machine.
    pub async fn local(identity: &Identity, play: Play) -> Self {
        Self::at(([127, 0, 0, 1], 0).into(), identity, play).await
    }

    async fn at(address: SocketAddr, identity: &Identity, play: Play) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = identity.config();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let record = Arc::clone(&seen);
        let server = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (config, play, seen) = (Arc::clone(&config), play.clone(), Arc::clone(&record));
                connections.spawn(async move {
                    // A client may refuse what it is shown, at any time.
                    let _ = serve(stream, config, &play, &seen).await;
                });
            }
        });
        Self {
            address,
            seen,
            server,
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// One that takes every webhook.
    pub async fn good(address: &str, identity: &Identity) -> Self {
        let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
        Self::listen(address, identity, Play::Answer(answer.to_vec())).await
    }

    /// What it has seen so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// How many requests it has got.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.seen.lock().unwrap().requests.len()
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    config: Arc<ServerConfig>,
    play: &Play,
    seen: &Mutex<Seen>,
) -> std::io::Result<()> {
    if let Play::Plain(answer) = play {
        stream.write_all(answer).await?;
        let mut bytes = Vec::new();
        let read = stream.read_to_end(&mut bytes).await;
        seen.lock().unwrap().bytes.extend(bytes);
        return read.map(|_| ());
    }
    let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let name = start.client_hello().server_name().map(str::to_owned);
    let number = {
        let names = &mut seen.lock().unwrap().server_names;
        names.push(name);
        names.len()
    };
    match play {
        Play::HangUpInHandshakes(count, _) if number <= *count => Ok(()),
        Play::HangUpInHandshakes(_, answer) => answer_one(start, config, answer, true, seen).await,
        Play::HangUpInHandshake => Ok(()),
        Play::ResetAfterHandshake => {
            let stream = start.into_stream(config).await?;
            stream.get_ref().0.set_zero_linger()
        }
        Play::Answer(answer) => answer_one(start, config, answer, true, seen).await,
        Play::AnswerAndHangUp(answer) => answer_one(start, config, answer, false, seen).await,
        Play::Plain(_) => unreachable!("it was played above"),
    }
}

async fn answer_one(
    start: StartHandshake<TcpStream>,
    config: Arc<ServerConfig>,
    answer: &[u8],
    says_goodbye: bool,
    seen: &Mutex<Seen>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(start.into_stream(config).await?);
    let mut number = None;
    if let Some(request) = read_request(&mut stream).await? {
        let mut seen = seen.lock().unwrap();
        number = Some(seen.times.len());
        seen.requests.push(request);
        seen.times.push((Instant::now(), None));
    }
    stream.write_all(answer).await?;
    stream.flush().await?;
    if let Some(number) = number {
        seen.lock().unwrap().times[number].1 = Some(Instant::now());
    }
    if says_goodbye {
        stream.shutdown().await?;
    }
    Ok(())
}
