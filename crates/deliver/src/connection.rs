//! Where connections are made, and guarded.
//!
//! Everything that decides where bytes go stands here, below any HTTP client: the one resolution
//! of a name, the judgement of every address it gave and of addresses that stand in the URL (a
//! client does not ask a resolver about those), the connection to what was judged, and TLS. No
//! proxy is consulted.
//!
//! Each connection also counts what has been read from it, so that a failure on a reused
//! connection can be told from one after the answer had begun.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::Uri;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use rustls::{ClientConfig, RootCertStore};
use tower_service::Service;
use webhooks_core::endpoint::{EndpointError, EndpointRules};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How much is read from a connection at once, in bytes. Answers are short, and every connection
/// that is kept has a buffer of this size.
const READ_BYTES: usize = 2 * 1024;

/// A name could not be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    /// The resolver said no, or nothing.
    #[error("the host name can not be resolved: {0}")]
    Failed(#[from] io::Error),
    /// The name exists and has no address.
    #[error("the host name has no address")]
    Empty,
}

/// The resolver of the system, with every answer judged. If one of them is not allowed, none is
/// used: a name that mixes public and private addresses is an attack, or as good as one.
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
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0))
                .await
                .map_err(ResolveError::Failed)?
                .collect();
            if addresses.is_empty() {
                return Err(ResolveError::Empty.into());
            }
            for address in &addresses {
                rules.judge_address(address.ip())?;
            }
            Ok(addresses.into_iter())
        })
    }
}

/// Makes connections for the HTTP client.
#[derive(Clone)]
pub(crate) struct Connector {
    https: HttpsConnector<HttpConnector<GuardedResolver>>,
    rules: EndpointRules,
}

impl Connector {
    /// A connector that trusts the certificate authorities of Mozilla's list, which is compiled
    /// in: nothing has to be read and parsed at cold start.
    ///
    /// # Errors
    /// If TLS can not be set up.
    pub(crate) fn new(
        rules: EndpointRules,
        connect_timeout: Duration,
    ) -> Result<Self, rustls::Error> {
        let mut http = HttpConnector::new_with_resolver(GuardedResolver { rules });
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(connect_timeout));
        let roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
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
        Ok(Self { https, rules })
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
        Box::pin(async move {
            Ok(Counted {
                inner: connecting.await?,
                record: ConnectionRecord::default(),
                buffer: vec![0; READ_BYTES].into_boxed_slice(),
            })
        })
    }
}

/// What is remembered of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionRecord(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    bytes_read: AtomicU64,
    bytes_of_answers: AtomicU64,
    has_answered: AtomicBool,
}

impl ConnectionRecord {
    /// An answer has been read to its end: the connection may be used again.
    pub(crate) fn answer_ended(&self) {
        let counters = &self.0;
        counters.bytes_of_answers.store(
            counters.bytes_read.load(Ordering::Relaxed),
            Ordering::Relaxed,
        );
        counters.has_answered.store(true, Ordering::Relaxed);
    }

    /// Whether the connection had served before, and not one byte has come since: then the peer
    /// most likely closed it while it was idle, and never saw the request.
    pub(crate) fn was_idle_until_now(&self) -> bool {
        let counters = &self.0;
        counters.has_answered.load(Ordering::Relaxed)
            && counters.bytes_read.load(Ordering::Relaxed)
                == counters.bytes_of_answers.load(Ordering::Relaxed)
    }
}

/// A connection that counts the bytes read from it, inside TLS.
pub(crate) struct Counted<T> {
    inner: T,
    record: ConnectionRecord,
    /// A hyper cursor does not tell how much was put into it, so the bytes come through here.
    buffer: Box<[u8]>,
}

impl<T: Connection> Connection for Counted<T> {
    fn connected(&self) -> Connected {
        self.inner.connected().extra(self.record.clone())
    }
}

impl<T: Read + Unpin> Read for Counted<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut target: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let (space, _) = this.buffer.split_at_mut(READ_BYTES.min(target.remaining()));
        let mut buffer = ReadBuf::new(space);
        ready!(Pin::new(&mut this.inner).poll_read(context, buffer.unfilled()))?;
        let bytes = buffer.filled();
        this.record
            .0
            .bytes_read
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        target.put_slice(bytes);
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for Counted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }
}
