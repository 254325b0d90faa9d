//! HTTP/1.1 on threads that block, with as little work for each request as can be: what plays AWS
//! and the partners must not be what is measured.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use memchr::memmem;

/// How much is read at once, and what the buffer of a connection has at first, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// A connection, from which requests are read one after the other.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    buffer: Vec<u8>,
    filled: usize,
    consumed: usize,
    decoded: Vec<u8>,
}

/// A request as it came.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Request line and headers, with the empty line after them.
    pub head: &'a [u8],
    /// The body without any transfer coding.
    pub body: &'a [u8],
    /// All bytes that came.
    pub bytes: usize,
}

impl<S: Read + Write> Connection<S> {
    /// A connection on which nothing has come yet.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            buffer: vec![0; BUFFER_BYTES],
            filled: 0,
            consumed: 0,
            decoded: Vec::new(),
        }
    }

    /// The next request; `None` if the peer has ended the connection.
    ///
    /// # Errors
    /// If the connection breaks within a request, or what comes is none.
    pub fn read(&mut self) -> io::Result<Option<Request<'_>>> {
        self.buffer.copy_within(self.consumed..self.filled, 0);
        self.filled -= self.consumed;
        self.consumed = 0;
        let head_end = loop {
            if let Some(end) = memmem::find(&self.buffer[..self.filled], b"\r\n\r\n") {
                break end + 4;
            }
            if !self.fill()? {
                return if self.filled == 0 {
                    Ok(None)
                } else {
                    Err(cut())
                };
            }
        };
        let head = &self.buffer[..head_end];
        if let Some(length) = header(head, "content-length") {
            let end = head_end + number(length)?;
            while self.filled < end {
                if !self.fill()? {
                    return Err(cut());
                }
            }
            self.consumed = end;
            return Ok(Some(Request {
                head: &self.buffer[..head_end],
                body: &self.buffer[head_end..end],
                bytes: end,
            }));
        }
        if header(head, "transfer-encoding").is_none() {
            self.consumed = head_end;
            return Ok(Some(Request {
                head: &self.buffer[..head_end],
                body: &[],
                bytes: head_end,
            }));
        }
        loop {
            self.decoded.clear();
            let chunks = &self.buffer[head_end..self.filled];
            if let Some(length) = read_chunks(chunks, &mut self.decoded)? {
                self.consumed = head_end + length;
                return Ok(Some(Request {
                    head: &self.buffer[..head_end],
                    body: &self.decoded,
                    bytes: self.consumed,
                }));
            }
            if !self.fill()? {
                return Err(cut());
            }
        }
    }

    /// Sends an answer.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// What is below.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Reads what is there, at least one byte; `false` at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.buffer.len() - self.filled < BUFFER_BYTES / 2 {
            let size = self.buffer.len() * 2;
            self.buffer.resize(size, 0);
        }
        let read = self.stream.read(&mut self.buffer[self.filled..])?;
        self.filled += read;
        Ok(read > 0)
    }
}

/// The value of a header, whose name is compared without regard to case.
#[must_use]
pub fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let name = name.as_bytes();
    head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let (found, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        found.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
    })
}

/// An answer with a JSON body.
#[must_use]
pub fn json_answer(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Decodes chunks; how many bytes they took, or `None` if there are more to come.
fn read_chunks(bytes: &[u8], decoded: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        let Some(line_end) = memmem::find(rest, b"\r\n") else {
            return Ok(None);
        };
        let size = str::from_utf8(&rest[..line_end])
            .ok()
            .and_then(|text| usize::from_str_radix(text, 16).ok())
            .ok_or_else(|| invalid("the size of a chunk"))?;
        let (start, end) = (line_end + 2, line_end + 2 + size);
        if rest.len() < end + 2 {
            return Ok(None);
        }
        decoded.extend_from_slice(&rest[start..end]);
        at += end + 2;
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

fn number(bytes: &[u8]) -> io::Result<usize> {
    let number = str::from_utf8(bytes)
        .ok()
        .and_then(|text| text.parse().ok());
    number.ok_or_else(|| invalid("content-length"))
}

fn cut() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A server with a thread for each connection. It takes no new ones once it is dropped; a
/// connection ends with its peer.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
}

impl Server {
    /// Listens on a free port of the loopback interface.
    ///
    /// # Errors
    /// If there is none.
    pub fn start<F>(serve: F) -> io::Result<Self>
    where
        F: Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let stopped = Arc::new(AtomicBool::new(false));
        let serve = Arc::new(serve);
        let is_stopped = Arc::clone(&stopped);
        thread::Builder::new().spawn(move || {
            for stream in listener.incoming() {
                if is_stopped.load(Ordering::Relaxed) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let serve = Arc::clone(&serve);
                // A process that was killed leaves broken connections; what matters is counted.
                let _ = thread::Builder::new()
                    .stack_size(256 * 1024)
                    .spawn(move || {
                        stream.set_nodelay(true)?;
                        serve(stream)
                    });
            }
        })?;
        Ok(Self { address, stopped })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // The thread waits for one more connection.
        let _ = TcpStream::connect(self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pieces(Vec<&'static [u8]>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn requests_are_read_however_they_are_cut() {
        let mut connection = Connection::new(Pieces(vec![
            b"POST / HTTP/1.1\r\nContent-Le",
            b"ngth: 5\r\n\r\nhel",
            b"loGET /next HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc",
            b"\r\n2\r\nde\r\n0\r\n",
            b"\r\n",
        ]));
        let first = connection.read().unwrap().unwrap();
        assert_eq!(first.body, b"hello");
        assert_eq!(first.bytes, 43);
        let second = connection.read().unwrap().unwrap();
        assert_eq!(second.head, b"GET /next HTTP/1.1\r\n\r\n");
        assert_eq!(second.body, b"");
        let third = connection.read().unwrap().unwrap();
        assert_eq!(third.body, b"abcde");
        assert!(connection.read().unwrap().is_none());
    }

    #[test]
    fn a_request_that_is_cut_off_is_an_error() {
        let mut connection = Connection::new(Pieces(vec![
            b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhel",
        ]));
        let error = connection.read().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_header_is_found_by_its_whole_name() {
        let head = b"GET / HTTP/1.1\r\nx-id-2: no\r\nX-Id:  yes \r\n\r\n";
        assert_eq!(header(head, "x-id"), Some(b"yes".as_slice()));
        assert_eq!(header(head, "id"), None);
    }
}
