//! Where connections are made, and guarded.
//!
//! Everything that decides where bytes go stands here, below any HTTP client: the one resolution
//! of a name, the judgement of every address it gave and of addresses that stand in the URL (a
//! client does not ask a resolver about those), the connection to what was judged, and TLS. No
//! proxy is consulted.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tower_service::Service;
use webhooks_core::endpoint::{EndpointError, EndpointRules};

use crate::counted::Counted;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A name could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The resolver said no, or nothing.
    #[error("the host name can not be resolved: {0}")]
    Failed(#[from] io::Error),
    /// The name exists and has no address.
    #[error("the host name has no address")]
    Empty,
    /// One of its addresses may not be called.
    #[error(transparent)]
    Forbidden(#[from] EndpointError),
}

/// Who vouches for a server's certificate.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// Certificate authorities beside those of Mozilla's list, such as a company's own.
    pub more: Vec<CertificateDer<'static>>,
}

/// Resolves a name with the resolver of the system, once, and judges every answer. If one of them
/// is not allowed, none is given: a name that mixes public and private addresses is an attack, or
/// as good as one.
///
/// # Errors
/// If there is no address, or one that may not be called.
pub async fn resolve(rules: EndpointRules, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
    let answers = tokio::net::lookup_host((name, 0)).await?;
    let addresses: Vec<IpAddr> = answers.map(|answer| answer.ip()).collect();
    judge_answers(rules, &addresses)?;
    Ok(addresses)
}

/// [`resolve`] for the HTTP client.
#[derive(Clone, Copy)]
pub(crate) struct GuardedResolver {
    rules: EndpointRules,
}

impl Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let rules = self.rules;
        Box::pin(async move {
            let addresses = resolve(rules, name.as_str()).await?;
            // The client puts the url's port in the place of this one.
            let addresses = addresses.into_iter().map(|address| (address, 0).into());
            Ok(addresses.collect::<Vec<_>>().into_iter())
        })
    }
}

/// The rule that an error is about, if it is one of ours.
pub(crate) fn forbidden<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a EndpointError> {
    match error.downcast_ref() {
        Some(ResolveError::Forbidden(rule)) => Some(rule),
        Some(ResolveError::Failed(_) | ResolveError::Empty) => None,
        None => error.downcast_ref(),
    }
}

fn judge_answers(rules: EndpointRules, addresses: &[IpAddr]) -> Result<(), ResolveError> {
    if addresses.is_empty() {
        return Err(ResolveError::Empty);
    }
    for address in addresses {
        rules.judge_address(*address)?;
    }
    Ok(())
}

/// Makes connections for the HTTP client.
#[derive(Clone)]
pub(crate) struct Connector {
    https: HttpsConnector<HttpConnector<GuardedResolver>>,
    rules: EndpointRules,
    /// Limit of resolving, connecting and the TLS handshake together. The client goes on with a
    /// connect that nobody waits for any more, so it must end by itself.
    limit: Duration,
    /// Every open connection holds a clone.
    open: Arc<()>,
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
        connect_timeout: Duration,
    ) -> Result<Self, rustls::Error> {
        let mut http = HttpConnector::new_with_resolver(GuardedResolver { rules });
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(connect_timeout));
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
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        Ok(Self {
            https,
            rules,
            limit: connect_timeout,
            open: Arc::new(()),
        })
    }

    /// How many connections are open, in use or kept; a few more while the client's own clones of
    /// this connector are counted too.
    pub(crate) fn open_connections(&self) -> usize {
        Arc::strong_count(&self.open)
    }

    fn judge_literal(&self, uri: &Uri) -> Result<(), EndpointError> {
        let host = uri.host().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => self.rules.judge_address(address),
            // A name: the resolver judges what it stands for.
            Err(_) => Ok(()),
        }
    }
}

impl Service<Uri> for Connector {
    type Response =
        Counted<<HttpsConnector<HttpConnector<GuardedResolver>> as Service<Uri>>::Response>;
    type Error = BoxError;
    type Future = BoxFuture<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.https.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        if let Err(error) = self.judge_literal(&uri) {
            return Box::pin(std::future::ready(Err(error.into())));
        }
        let connecting = self.https.call(uri);
        let open = Arc::clone(&self.open);
        let limit = self.limit;
        Box::pin(async move {
            let connected = tokio::time::timeout(limit, connecting).await??;
            Ok(Counted::new(connected, open))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCTION: EndpointRules = EndpointRules {
        allow_private: false,
    };

    fn blocked(error: &(dyn std::error::Error + 'static)) -> Option<String> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(rule) = forbidden(error) {
                return Some(rule.to_string());
            }
            cause = error.source();
        }
        None
    }

    #[test]
    fn one_private_answer_refuses_the_whole_name() {
        let public: IpAddr = "93.184.215.14".parse().unwrap();
        for private in ["10.0.0.5", "::1", "::ffff:169.254.169.254"] {
            let private: IpAddr = private.parse().unwrap();
            let told = PRODUCTION.judge_address(private).unwrap_err().to_string();
            for answers in [[public, private], [private, public]] {
                let error = judge_answers(PRODUCTION, &answers).unwrap_err();
                assert!(matches!(error, ResolveError::Forbidden(_)));
                assert_eq!(error.to_string(), told);
            }
        }
        assert!(judge_answers(PRODUCTION, &[public]).is_ok());
    }

    #[test]
    fn a_name_without_an_address_is_a_failure_of_the_name_and_no_blocked_address() {
        let error = judge_answers(PRODUCTION, &[]).unwrap_err();
        assert!(matches!(error, ResolveError::Empty));
    }

    #[tokio::test]
    async fn names_and_literals_of_this_machine_are_refused_where_the_connection_is_made() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
            let mut connector =
                Connector::new(PRODUCTION, &Trust::default(), Duration::from_secs(1)).unwrap();
            let uri = format!("http://{host}:{port}/").parse().unwrap();
            let Err(error) = connector.call(uri).await else {
                panic!("connected to {host}");
            };
            let reason = blocked(&*error);
            assert!(
                reason.is_some_and(|reason| reason.ends_with("it is this machine")),
                "{host}"
            );
        }
        // Nothing waits to be accepted.
        let accepted = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
        assert!(accepted.is_err());
    }
}
