//! Connections that count what is read from them.
//!
//! So no answer is read beyond a bound, whatever it consists of; and a failure on a connection
//! that had died in the pool can be told from one after an answer had begun.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::time::Instant;

/// How much is read from a connection at once, in bytes. Answers are short, and every connection
/// that is kept has a buffer of this size.
const READ_BYTES: usize = 2 * 1024;

/// How much of an answer is ever read, its heads and body together, in bytes.
pub(crate) const ANSWER_MAX_BYTES: usize = 16 * 1024;

/// An answer is longer than anybody reads.
#[derive(Debug, thiserror::Error)]
#[error("the answer is longer than {ANSWER_MAX_BYTES} bytes")]
pub(crate) struct AnswerTooLong;

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

impl<T> Counted<T> {
    pub(crate) fn new(inner: T, open: Arc<()>) -> Self {
        Self {
            inner,
            record: ConnectionRecord::new(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            _open: open,
        }
    }
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
    use std::time::Duration;

    use super::*;

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
