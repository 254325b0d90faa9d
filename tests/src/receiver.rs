//! A partner's server that follows a script. It speaks HTTP/1.1 on a bare TCP socket, because
//! half of what partners' servers do to a sender (cut bodies, resets, drips, several answers)
//! cannot be said to an HTTP library.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::http1::{Request, read_request};

mod answer;

pub use answer::Answer;
use answer::{Act, End};

/// How long [`Receiver::wait_for`] waits before it fails the test.
const PATIENCE: Duration = Duration::from_secs(15);

/// How much of an answer is on its way beside what the peer has in its own buffer, about.
const SEND_BUFFER_BYTES: u32 = 16 * 1024;

/// A request that a [`Receiver`] got.
#[derive(Clone, Debug)]
pub struct Received {
    /// Which request of this receiver it is, from 0.
    pub number: usize,
    /// Which connection it came on, from 0 in the order of accepting.
    pub connection: usize,
    /// When its last byte was read.
    pub at: Instant,
    /// The same in seconds since 1970.
    pub at_unix_seconds: u64,
    /// What came.
    pub request: Request,
}

impl Deref for Received {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}

type Script = dyn Fn(&Received) -> Answer + Send + Sync;

#[derive(Default)]
struct Record {
    requests: Vec<Received>,
    answered: BTreeMap<usize, Instant>,
    connections: usize,
    open_connections: usize,
    bytes_sent: u64,
    faults: Vec<String>,
}

/// A server on a free port of 127.0.0.1. It ends when it is dropped.
pub struct Receiver {
    address: SocketAddr,
    record: Arc<Mutex<Record>>,
    changes: watch::Sender<()>,
    server: JoinHandle<()>,
}

impl Receiver {
    /// A receiver that asks `script` for the answer to each request.
    pub async fn start(script: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // Connections inherit it. What they take for a peer that does not read tells little.
        socket.set_send_buffer_size(SEND_BUFFER_BYTES).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = socket.listen(1024).unwrap();
        let address = listener.local_addr().unwrap();
        let record = Arc::new(Mutex::new(Record::default()));
        let changes = watch::Sender::new(());
        let server = tokio::spawn(accept(
            listener,
            Arc::new(script),
            Arc::clone(&record),
            changes.clone(),
        ));
        Self {
            address,
            record,
            changes,
            server,
        }
    }

    /// A receiver that gives every request the same answer.
    pub async fn always(answer: Answer) -> Self {
        Self::start(move |_| answer.clone()).await
    }

    /// A receiver that gives the first request the first answer and so on; the last one stays.
    pub async fn sequence(answers: Vec<Answer>) -> Self {
        Self::start(move |received| {
            let last = answers.len() - 1;
            answers[received.number.min(last)].clone()
        })
        .await
    }

    /// A receiver that answers by request target; for a target it does not know it panics.
    pub async fn by_target(answers: impl IntoIterator<Item = (String, Answer)>) -> Self {
        let answers: BTreeMap<String, Answer> = answers.into_iter().collect();
        Self::start(move |received| answers[&received.target].clone()).await
    }

    /// An address at which nobody listens, as long as the socket that keeps it is alive.
    #[must_use]
    pub fn refusing() -> (TcpSocket, SocketAddr) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    /// `http://127.0.0.1:…` with this path, which starts with `/`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests so far.
    ///
    /// # Panics
    /// If something came that is not an HTTP request.
    #[must_use]
    pub fn requests(&self) -> Vec<Received> {
        let record = self.record.lock().unwrap();
        assert_eq!(record.faults, [] as [String; 0]);
        record.requests.clone()
    }

    /// The requests to one target so far.
    #[must_use]
    pub fn requests_to(&self, target: &str) -> Vec<Received> {
        let mut requests = self.requests();
        requests.retain(|received| received.target == target);
        requests
    }

    /// The requests, by number, of whose answer the first bytes that were to be sent at once were
    /// all written to the socket, and when. A status line is among them.
    #[must_use]
    pub fn answered(&self) -> BTreeMap<usize, Instant> {
        self.record.lock().unwrap().answered.clone()
    }

    /// How many connections were accepted.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.record.lock().unwrap().connections
    }

    /// How many bytes of answers the sockets took.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.record.lock().unwrap().bytes_sent
    }

    /// Waits until `count` requests have come, and gives all that have.
    ///
    /// # Panics
    /// If they do not come.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        self.wait_until(&format!("{count} requests"), |record| {
            record.requests.len() >= count
        })
        .await;
        self.requests()
    }

    /// Waits until exactly this many connections are open.
    ///
    /// # Panics
    /// If that does not happen.
    pub async fn wait_until_open(&self, connections: usize) {
        self.wait_until(&format!("{connections} open connections"), |record| {
            record.open_connections == connections
        })
        .await;
    }

    async fn wait_until(&self, what: &str, condition: impl Fn(&Record) -> bool) {
        let mut changes = self.changes.subscribe();
        let wait = async {
            while !condition(&self.record.lock().unwrap()) {
                changes.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            panic!("waited in vain for {what}; requests: {:?}", self.requests());
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Receiver({})", self.address)
    }
}

async fn accept(
    listener: TcpListener,
    script: Arc<Script>,
    record: Arc<Mutex<Record>>,
    changes: watch::Sender<()>,
) {
    // A set, so that the connections end with the receiver.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let number = {
            let mut record = record.lock().unwrap();
            record.connections += 1;
            record.open_connections += 1;
            record.connections - 1
        };
        changes.send_replace(());
        let (script, record, changes) = (Arc::clone(&script), Arc::clone(&record), changes.clone());
        connections.spawn(async move {
            serve(stream, number, &*script, &record, &changes).await;
            record.lock().unwrap().open_connections -= 1;
            changes.send_replace(());
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(
    stream: TcpStream,
    connection: usize,
    script: &Script,
    record: &Mutex<Record>,
    changes: &watch::Sender<()>,
) {
    stream.set_nodelay(true).unwrap();
    let mut stream = BufReader::new(stream);
    loop {
        let request = match read_request(&mut stream).await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                return record.lock().unwrap().faults.push(error.to_string());
            }
            // The peer went away, which is its right.
            Err(_) => return,
        };
        let received = {
            let mut record = record.lock().unwrap();
            let received = Received {
                number: record.requests.len(),
                connection,
                at: Instant::now(),
                at_unix_seconds: SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap()
                    .as_secs(),
                request,
            };
            record.requests.push(received.clone());
            received
        };
        changes.send_replace(());
        let answer = script(&received);
        for act in &answer.acts {
            if perform(act, stream.get_mut(), record).await.is_err() {
                return;
            }
            if matches!(act, Act::Send(_)) {
                let mut record = record.lock().unwrap();
                let first = record.answered.entry(received.number);
                first.or_insert_with(Instant::now);
            }
        }
        match answer.end {
            End::KeepOpen => {}
            End::Close => return,
            End::CloseAfter(pause) => return tokio::time::sleep(pause).await,
            End::CloseOn(word) => return word.notified().await,
            End::Reset => return stream.get_ref().set_zero_linger().unwrap(),
            End::Hang => return until_closed(stream.get_mut()).await,
        }
    }
}

async fn perform(act: &Act, stream: &mut TcpStream, record: &Mutex<Record>) -> std::io::Result<()> {
    match act {
        Act::Send(bytes) => send(stream, bytes, record).await,
        Act::Wait(pause) => {
            tokio::time::sleep(*pause).await;
            Ok(())
        }
        Act::WaitFor(word) => {
            word.notified().await;
            Ok(())
        }
        Act::Drip(bytes, pause) => {
            for byte in bytes {
                send(stream, &[*byte], record).await?;
                tokio::time::sleep(*pause).await;
            }
            Ok(())
        }
        Act::ForEver(bytes, pause) => loop {
            send(stream, bytes, record).await?;
            if !pause.is_zero() {
                tokio::time::sleep(*pause).await;
            }
        },
    }
}

async fn send(stream: &mut TcpStream, bytes: &[u8], record: &Mutex<Record>) -> std::io::Result<()> {
    stream.write_all(bytes).await?;
    record.lock().unwrap().bytes_sent += u64::try_from(bytes.len()).unwrap();
    Ok(())
}

async fn until_closed(stream: &mut TcpStream) {
    let mut scratch = [0; 1024];
    while matches!(stream.read(&mut scratch).await, Ok(1..)) {}
}
