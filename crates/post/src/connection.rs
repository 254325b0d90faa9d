//! Where connections are made, and guarded.
//!
//! Everything that decides where bytes go stands here, below any HTTP client: the one resolution
//! of a name, the judgement of every address it gave and of addresses that stand in the URL (a
//! client does not ask a resolver about those), the connection to what was judged, and TLS. No
//! proxy is consulted.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper::http::uri::Scheme;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tower_service::Service;
use webhooks_core::endpoint::{EndpointError, EndpointRules};

use crate::counted::Counted;
use crate::failure::kind_of;
use crate::resolution::{ResolveError, resolve};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The address that stands in the URL may not be called.
    #[error(transparent)]
    Forbidden(#[from] EndpointError),
    /// The host is no name that a server can prove to have.
    #[error("the host name is not a valid one")]
    Name,
    /// The name gave no address that may be called.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// No address could be connected to.
    #[error("there is no connection to the server")]
    Tcp(#[source] BoxError),
    /// The server did not get through the TLS handshake.
    #[error("the TLS handshake failed")]
    Tls(#[source] io::Error),
    /// The time for all of this was over.
    #[error("{step} took longer than {} ms", limit.as_millis())]
    TimedOut {
        /// What it was over in.
        step: ConnectStep,
        /// What all steps together may take.
        limit: Duration,
    },
}

/// The steps to a connection, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectStep {
    Resolve,
    Tcp,
    Tls,
}

impl fmt::Display for ConnectStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolve => "resolving the host name",
            Self::Tcp => "connecting to the server",
            Self::Tls => "the TLS handshake",
        })
    }
}

/// Who vouches for a server's certificate.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// Certificate authorities beside those of Mozilla's list, such as a company's own.
    pub more: Vec<CertificateDer<'static>>,
}

/// Why a file names nobody who could vouch for a server.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It can not be read, or what is in it is no PEM.
    #[error("it can not be read as PEM")]
    Pem(#[from] pem::Error),
    /// There is no certificate in it.
    #[error("there is no certificate in it")]
    Empty,
    /// A certificate in it is none that an authority can have.
    #[error("a certificate in it is not one of an authority")]
    Authority(#[source] rustls::Error),
}

impl Trust {
    /// Mozilla's list and the certificates in a PEM file.
    ///
    /// # Errors
    /// If there is none in it, or one that can not be an authority's.
    pub fn from_pem_file(path: impl AsRef<Path>) -> Result<Self, TrustError> {
        let more = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
        if more.is_empty() {
            return Err(TrustError::Empty);
        }
        let mut roots = RootCertStore::empty();
        for certificate in &more {
            roots
                .add(certificate.clone())
                .map_err(TrustError::Authority)?;
        }
        Ok(Self { more })
    }
}

/// A resolver that knows nothing but the addresses that were judged.
#[derive(Clone)]
struct Judged(Vec<IpAddr>);

impl Service<Name> for Judged {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Name) -> Self::Future {
        // The client puts the url's port in the place of this one.
        let addresses = self.0.iter().map(|address| (*address, 0).into());
        std::future::ready(Ok(addresses.collect::<Vec<_>>().into_iter()))
    }
}

/// Makes connections for the HTTP client.
#[derive(Clone)]
pub(crate) struct Connector {
    dialer: Dialer,
    /// Every open connection holds a clone.
    open: Arc<()>,
}

#[derive(Clone)]
struct Dialer {
    tls: Arc<ClientConfig>,
    rules: EndpointRules,
    /// Limit of resolving, connecting and the TLS handshake together. The client goes on with a
    /// connect that nobody waits for any more, so it must end by itself.
    limit: Duration,
}

impl Connector {
    /// A connector. Mozilla's list of certificate authorities is compiled in: nothing has to be read
    /// and parsed at cold start.
    ///
    /// # Errors
    /// If TLS can not be set up, or one of the further authorities is none.
    pub(crate) fn new(
        rules: EndpointRules,
        trust: &Trust,
        limit: Duration,
    ) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        for authority in &trust.more {
            roots.add(authority.clone())?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            dialer: Dialer {
                tls: Arc::new(tls),
                rules,
                limit,
            },
            open: Arc::new(()),
        })
    }

    /// How many connections are open, in use or kept; a few more while the client's own clones of
    /// this connector are counted too.
    pub(crate) fn open_connections(&self) -> usize {
        Arc::strong_count(&self.open)
    }
}

impl Service<Uri> for Connector {
    type Response = Counted<MaybeHttpsStream<TokioIo<TcpStream>>>;
    type Error = ConnectError;
    type Future = BoxFuture<Result<Self::Response, ConnectError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { dialer, open } = self.clone();
        Box::pin(async move { Ok(Counted::new(dialer.dial(uri).await?, open)) })
    }
}

impl Dialer {
    async fn dial(&self, uri: Uri) -> Result<MaybeHttpsStream<TokioIo<TcpStream>>, ConnectError> {
        let deadline = Instant::now() + self.limit;
        let timed_out = |step| ConnectError::TimedOut {
            step,
            limit: self.limit,
        };
        let host = uri.host().unwrap_or_default();
        let host = host.trim_matches(['[', ']']);
        let server_name = (uri.scheme() != Some(&Scheme::HTTP))
            .then(|| server_name(host))
            .transpose()?;

        let addresses = timeout_at(deadline, self.addresses(host))
            .await
            .map_err(|_| timed_out(ConnectStep::Resolve))??;

        let mut tcp = HttpConnector::new_with_resolver(Judged(addresses));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(self.limit));
        let stream = timeout_at(deadline, tcp.call(uri))
            .await
            .map_err(|_| timed_out(ConnectStep::Tcp))?
            // Each of several addresses has its part of the time, and all of them have used theirs.
            .map_err(|error| match kind_of(&error) {
                Some(io::ErrorKind::TimedOut) => timed_out(ConnectStep::Tcp),
                _ => ConnectError::Tcp(error.into()),
            })?;

        let Some(server_name) = server_name else {
            return Ok(MaybeHttpsStream::Http(stream));
        };
        let tls = TlsConnector::from(Arc::clone(&self.tls));
        let stream = timeout_at(deadline, tls.connect(server_name, TokioIo::new(stream)))
            .await
            .map_err(|_| timed_out(ConnectStep::Tls))?
            .map_err(ConnectError::Tls)?;
        Ok(MaybeHttpsStream::Https(TokioIo::new(stream)))
    }

    /// The addresses of a host, all of which may be called.
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, ConnectError> {
        match host.parse::<IpAddr>() {
            Ok(address) => {
                self.rules.judge_address(address)?;
                Ok(vec![address])
            }
            Err(_) => Ok(resolve(self.rules, host).await?),
        }
    }
}

/// What the server's certificate must be for. The dot that ends a name for a resolver is no part
/// of it (RFC 6066 §3).
fn server_name(host: &str) -> Result<ServerName<'static>, ConnectError> {
    let name = host.strip_suffix('.').unwrap_or(host);
    ServerName::try_from(name.to_owned()).map_err(|_| ConnectError::Name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCTION: EndpointRules = EndpointRules {
        allow_private: false,
    };

    #[tokio::test]
    async fn names_and_literals_of_this_machine_are_refused_where_the_connection_is_made() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
            let mut connector =
                Connector::new(PRODUCTION, &Trust::default(), Duration::from_secs(1)).unwrap();
            for scheme in ["http", "https"] {
                let uri = format!("{scheme}://{host}:{port}/").parse().unwrap();
                let Err(error) = connector.call(uri).await else {
                    panic!("connected to {host}");
                };
                assert!(
                    matches!(error, ConnectError::Forbidden(_))
                        && error.to_string().contains("it is this machine"),
                    "{host}: {error}"
                );
            }
        }
        // Nothing waits to be accepted.
        let accepted = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
        assert!(accepted.is_err());
    }

    #[test]
    fn a_file_without_an_authority_says_what_is_wrong_with_it() {
        let broken = "-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n";
        for (name, text, said) in [
            ("absent", None, "it can not be read as PEM"),
            ("empty", Some(""), "there is no certificate in it"),
            ("words", Some("no PEM\n"), "there is no certificate in it"),
            (
                "broken",
                Some(broken),
                "a certificate in it is not one of an authority",
            ),
        ] {
            let path = std::env::temp_dir()
                .join(format!("webhooks-post-{}-{name}.pem", std::process::id()));
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let refused = Trust::from_pem_file(&path);
            let _ = std::fs::remove_file(&path);
            assert_eq!(refused.unwrap_err().to_string(), said, "{name}");
        }
    }

    #[test]
    fn a_certificate_is_for_a_name_without_the_dot_at_its_end() {
        for (host, name) in [
            ("partner.example", "partner.example"),
            ("partner.example.", "partner.example"),
            ("8.8.8.8", "8.8.8.8"),
            ("2001:4860::8888", "2001:4860::8888"),
        ] {
            assert_eq!(server_name(host).unwrap().to_str(), name);
        }
        assert!(matches!(server_name("a b"), Err(ConnectError::Name)));
    }
}
