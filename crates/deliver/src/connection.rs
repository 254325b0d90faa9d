//! Where connections are made, and guarded.
//!
//! Everything that decides where bytes go stands here, below any HTTP client: the one resolution
//! of a name, the judgement of every address it gave and of addresses that stand in the URL (a
//! client does not ask a resolver about those), the connection to what was judged, and TLS. No
//! proxy is consulted.
//!
//! Each connection also counts what is read from it: so that no answer is read beyond a bound,
//! and so that a failure on a connection that had died in the pool can be told from one after the
//! answer had begun.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::Uri;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::Instant;
use tower_service::Service;
use webhooks_core::endpoint::{EndpointError, EndpointRules};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How much is read from a connection at once, in bytes. Answers are short, and every connection
/// that is kept has a buffer of this size.
const READ_BYTES: usize = 2 * 1024;

/// How much of an answer is ever read, its heads and body together, in bytes.
pub(crate) const ANSWER_MAX_BYTES: usize = 16 * 1024;

/// How long sent bytes may stay unacknowledged before the connection counts as dead. A flow that
/// a firewall or NAT has dropped silently would otherwise use up the attempt.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(4);

/// An answer is longer than anybody reads.
#[derive(Debug, thiserror::Error)]
#[error("the answer is longer than {ANSWER_MAX_BYTES} bytes")]
pub(crate) struct AnswerTooLong;

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
            judge_answers(rules, &addresses)?;
            Ok(addresses.into_iter())
        })
    }
}

fn judge_answers(rules: EndpointRules, addresses: &[SocketAddr]) -> Result<(), BoxError> {
    if addresses.is_empty() {
        return Err(ResolveError::Empty.into());
    }
    for address in addresses {
        rules.judge_address(address.ip())?;
    }
    Ok(())
}

/// Makes connections for the HTTP client.
#[derive(Clone)]
pub(crate) struct Connector {
    https: HttpsConnector<HttpConnector<GuardedResolver>>,
    rules: EndpointRules,
    /// Every open connection holds a clone.
    open: Arc<()>,
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
        #[cfg(target_os = "linux")]
        http.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT));
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
        Ok(Self {
            https,
            rules,
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
        Box::pin(async move {
            Ok(Counted {
                inner: connecting.await?,
                record: ConnectionRecord::new(),
                buffer: vec![0; READ_BYTES].into_boxed_slice(),
                _open: open,
            })
        })
    }
}

/// What is remembered of one connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionRecord(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    established: Instant,
    /// Read in all.
    bytes_read: AtomicUsize,
    /// Answers whose final head has come.
    answers: AtomicUsize,
    /// What `answers` was when the latest request began to be written.
    answers_before_request: AtomicUsize,
    /// What `bytes_read` was then.
    bytes_before_request: AtomicUsize,
}

impl ConnectionRecord {
    fn new() -> Self {
        Self(Arc::new(Counters {
            established: Instant::now(),
            bytes_read: AtomicUsize::new(0),
            answers: AtomicUsize::new(0),
            answers_before_request: AtomicUsize::new(0),
            bytes_before_request: AtomicUsize::new(0),
        }))
    }

    /// The final head of an answer has come; what is written next is another request.
    ///
    /// To be called before anything else can use the connection. It is, since the client hands a
    /// connection back while it gives out the answer, and all tasks share one thread.
    pub(crate) fn answer_began(&self) {
        self.0.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the connection was there before `began`, when a request came to it, and not one
    /// byte of an answer to that request has come: then the peer most likely closed the connection
    /// while it was idle, and never saw the request.
    pub(crate) fn was_idle_from(&self, began: Instant) -> bool {
        self.0.established < began && self.bytes_of_answer() == 0
    }

    fn bytes_of_answer(&self) -> usize {
        let counters = &self.0;
        counters.bytes_read.load(Ordering::Relaxed)
            - counters.bytes_before_request.load(Ordering::Relaxed)
    }

    fn written(&self) {
        let counters = &self.0;
        let answers = counters.answers.load(Ordering::Relaxed);
        if counters
            .answers_before_request
            .swap(answers, Ordering::Relaxed)
            != answers
        {
            counters.bytes_before_request.store(
                counters.bytes_read.load(Ordering::Relaxed),
                Ordering::Relaxed,
            );
        }
    }

    fn read(&self, bytes: usize) -> io::Result<()> {
        self.0.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        if self.bytes_of_answer() > ANSWER_MAX_BYTES {
            return Err(io::Error::other(AnswerTooLong));
        }
        Ok(())
    }
}

/// A connection that counts the bytes read from it, inside TLS.
pub(crate) struct Counted<T> {
    inner: T,
    record: ConnectionRecord,
    /// A hyper cursor does not tell how much was put into it, so the bytes come through here.
    buffer: Box<[u8]>,
    /// Counts this connection as open.
    _open: Arc<()>,
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
        this.record.read(bytes.len())?;
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
        self.record.written();
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
        self.record.written();
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
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
            if let Some(blocked) = error.downcast_ref::<EndpointError>() {
                return Some(blocked.to_string());
            }
            cause = error.source();
        }
        None
    }

    #[test]
    fn one_private_answer_refuses_the_whole_name() {
        let public: SocketAddr = "93.184.215.14:0".parse().unwrap();
        for private in ["10.0.0.5:0", "[::1]:0", "[::ffff:169.254.169.254]:0"] {
            let private: SocketAddr = private.parse().unwrap();
            for answers in [[public, private], [private, public]] {
                let error = judge_answers(PRODUCTION, &answers).unwrap_err();
                assert_eq!(
                    blocked(&*error),
                    Some(format!("{} is not a public address", private.ip()))
                );
            }
        }
        assert!(judge_answers(PRODUCTION, &[public]).is_ok());
    }

    #[test]
    fn a_name_without_an_address_is_a_failure_of_the_name_and_no_blocked_address() {
        let error = judge_answers(PRODUCTION, &[]).unwrap_err();
        assert!(error.is::<ResolveError>());
    }

    #[tokio::test]
    async fn names_and_literals_of_this_machine_are_refused_where_the_connection_is_made() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
            let mut connector = Connector::new(PRODUCTION, Duration::from_secs(1)).unwrap();
            let uri = format!("http://{host}:{port}/").parse().unwrap();
            let Err(error) = connector.call(uri).await else {
                panic!("connected to {host}");
            };
            let reason = blocked(&*error);
            assert!(
                reason.is_some_and(|reason| reason.ends_with("is not a public address")),
                "{host}"
            );
        }
        // Nothing waits to be accepted.
        let accepted = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
        assert!(accepted.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_tells_whether_it_died_in_the_pool() {
        let before = Instant::now();
        tokio::time::advance(Duration::from_millis(1)).await;
        let record = ConnectionRecord::new();
        record.written();
        assert!(
            !record.was_idle_from(before),
            "it was made for this request"
        );

        tokio::time::advance(Duration::from_millis(1)).await;
        let later = Instant::now();
        assert!(
            record.was_idle_from(later),
            "it waited in the pool and was never used"
        );

        record.read(10).unwrap();
        assert!(!record.was_idle_from(later), "part of an answer has come");
        record.answer_began();
        record.read(5).unwrap();
        assert!(
            !record.was_idle_from(later),
            "the request has been answered"
        );

        record.written();
        assert!(
            record.was_idle_from(later),
            "nothing has come since the next request"
        );
        record.read(1).unwrap();
        record.written();
        assert!(
            !record.was_idle_from(later),
            "an early byte counts, whatever is written after it"
        );
    }

    #[test]
    fn no_answer_is_read_beyond_the_bound() {
        let record = ConnectionRecord::new();
        for _ in 0..3 {
            record.written();
            record.read(ANSWER_MAX_BYTES).unwrap();
            record.answer_began();
        }
        record.written();
        record.read(ANSWER_MAX_BYTES).unwrap();
        assert!(record.read(1).is_err());
    }
}
