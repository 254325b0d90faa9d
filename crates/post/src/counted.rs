//! Connections that count what passes through them.
//!
//! So no answer is read beyond a bound, whatever it consists of; a failure on a connection that
//! had died in the pool can be told from one after an answer had begun; and a connection whose
//! peer answers without taking the whole request is closed, where the HTTP client would go on
//! offering it, payload and all, for as long as the peer likes.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

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
    /// Written since then.
    bytes_of_request: AtomicUsize,
    closed: AtomicBool,
    /// The task that drives the connection, while it waits for the peer.
    waiting: Mutex<Option<Waker>>,
}

impl ConnectionRecord {
    fn new() -> Self {
        Self(Arc::new(Counters {
            established: Instant::now(),
            bytes_read: AtomicUsize::new(0),
            answers: AtomicUsize::new(0),
            answers_before_request: AtomicUsize::new(0),
            bytes_before_request: AtomicUsize::new(0),
            bytes_of_request: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            waiting: Mutex::default(),
        }))
    }

    /// The final head of an answer has come; what is written next is another request. Gives the
    /// number of the answer.
    ///
    /// To be called before anything else can use the connection. It is, since the client hands a
    /// connection back while it gives out the answer, and all tasks share one thread.
    pub(crate) fn answer_began(&self) -> usize {
        self.0.answers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// An exchange is over, as far as anybody waits for it. Closes the connection unless the
    /// answer of that number was read to its end and the request, with a body of `body_bytes`, was
    /// taken. A later request that the connection has gone on to is not touched.
    pub(crate) fn exchange_ended(&self, answer: usize, answer_ended: bool, body_bytes: usize) {
        let counters = &self.0;
        let is_latest = counters.answers_before_request.load(Ordering::Relaxed) < answer;
        let taken = counters.bytes_of_request.load(Ordering::Relaxed) >= body_bytes;
        if is_latest && !(answer_ended && taken) {
            counters.closed.store(true, Ordering::Relaxed);
            if let Some(task) = self.waiting().take() {
                task.wake();
            }
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets an operation on the connection go on, unless it was closed meanwhile.
    fn check(&self, context: &Context<'_>) -> io::Result<()> {
        if self.0.closed.load(Ordering::Relaxed) {
            return Err(io::Error::from(io::ErrorKind::ConnectionAborted));
        }
        let mut waiting = self.waiting();
        if !waiting
            .as_ref()
            .is_some_and(|task| task.will_wake(context.waker()))
        {
            *waiting = Some(context.waker().clone());
        }
        Ok(())
    }

    /// Whether the connection was there before a request that began at `began` came to it, since
    /// it is older or has answered before, and not one byte of an answer to that request has come: then the peer most likely closed the connection
    /// while it was idle, and never saw the request.
    pub(crate) fn was_idle_from(&self, began: Instant) -> bool {
        let has_answered = self.0.answers_before_request.load(Ordering::Relaxed) > 0;
        (has_answered || self.0.established < began) && self.bytes_of_answer() == 0
    }

    fn bytes_of_answer(&self) -> usize {
        let counters = &self.0;
        counters.bytes_read.load(Ordering::Relaxed)
            - counters.bytes_before_request.load(Ordering::Relaxed)
    }

    fn writing(&self) {
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
            counters.bytes_of_request.store(0, Ordering::Relaxed);
        }
    }

    fn written(&self, bytes: usize) {
        self.0.bytes_of_request.fetch_add(bytes, Ordering::Relaxed);
    }

    fn read(&self, bytes: usize) -> io::Result<()> {
        self.0.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        if self.bytes_of_answer() > ANSWER_MAX_BYTES {
            return Err(io::Error::other(AnswerTooLong));
        }
        Ok(())
    }
}

/// A connection that counts the bytes that pass through it, inside TLS.
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
        this.record.check(context)?;
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
        self.record.check(context)?;
        self.record.writing();
        let count = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
        self.record.written(count);
        Poll::Ready(Ok(count))
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
        self.record.check(context)?;
        self.record.writing();
        let count = ready!(Pin::new(&mut self.inner).poll_write_vectored(context, slices))?;
        self.record.written(count);
        Poll::Ready(Ok(count))
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
        record.writing();
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

        record.writing();
        assert!(
            record.was_idle_from(later),
            "nothing has come since the next request"
        );
        record.read(1).unwrap();
        record.writing();
        assert!(
            !record.was_idle_from(later),
            "an early byte counts, whatever is written after it"
        );
    }

    #[test]
    fn no_answer_is_read_beyond_the_bound() {
        let record = ConnectionRecord::new();
        for _ in 0..3 {
            record.writing();
            record.read(ANSWER_MAX_BYTES).unwrap();
            record.answer_began();
        }
        record.writing();
        record.read(ANSWER_MAX_BYTES).unwrap();
        assert!(record.read(1).is_err());
    }

    fn is_closed(record: &ConnectionRecord) -> bool {
        record.check(&Context::from_waker(Waker::noop())).is_err()
    }

    #[test]
    fn a_connection_stays_open_if_request_and_answer_were_both_taken_whole() {
        let record = ConnectionRecord::new();
        record.writing();
        record.written(100);
        let answer = record.answer_began();
        record.exchange_ended(answer, true, 100);
        assert!(!is_closed(&record));
    }

    #[test]
    fn a_connection_is_closed_if_request_or_answer_is_left_half_way() {
        for (written, answer_ended) in [(99, true), (100, false)] {
            let record = ConnectionRecord::new();
            record.writing();
            record.written(written);
            let answer = record.answer_began();
            record.exchange_ended(answer, answer_ended, 100);
            assert!(is_closed(&record), "{written} {answer_ended}");
        }
    }

    #[test]
    fn the_end_of_an_exchange_does_not_touch_the_next_one() {
        let record = ConnectionRecord::new();
        record.writing();
        record.written(100);
        let answer = record.answer_began();
        record.writing();
        record.written(1);
        record.exchange_ended(answer, true, 100);
        record.exchange_ended(answer, false, 100);
        assert!(!is_closed(&record));
    }
}
