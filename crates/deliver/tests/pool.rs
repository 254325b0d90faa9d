//! The connections that are kept: how many, and what it costs when one of them dies before it
//! was ever used.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a broken test server stops the test where it stands"
)]

use std::net::SocketAddr;
use std::time::Duration;

use e2e::http1::{Request, read_request, response};
use e2e::receiver::{Answer, Receiver};
use e2e::sqs_event::{Job, Record};
use e2e::stage::{Stage, failures};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

const NONE: [&str; 0] = [];

/// How many connections are kept, about.
const KEPT: usize = 200;

/// What else has a file descriptor: the connections of a batch that are in use or closing, those
/// to AWS and to Lambda, the runtime's own.
const OTHERS: usize = 40;

#[tokio::test]
async fn the_connections_to_ever_more_partners_are_kept_up_to_a_bound_and_all_are_delivered_to() {
    let stage = Stage::for_deliver().await;
    let mut receivers = Vec::new();
    let mut records = Vec::new();
    for n in 0..250 {
        let receiver = Receiver::always(Answer::with(200, &[], b"thanks")).await;
        let name = format!("s{n}");
        stage.subscribe(&name, &receiver.url("/"));
        records.push(Record::new(n, &Job::for_subscriber(&name).text()));
        receivers.push(receiver);
    }
    let deliver = stage.start(DELIVER).await;

    let mut open_files = Vec::new();
    for batch in records.chunks(10) {
        let batch = stage.deliver(&deliver, batch).await;
        assert_eq!(batch.response, failures(&NONE));
        open_files.push(deliver.open_files());
    }

    let most = open_files.iter().max().unwrap();
    assert!(*most <= KEPT + OTHERS, "{open_files:?}");
    assert!(*most >= KEPT, "none is kept: {open_files:?}");
    for receiver in &receivers {
        assert_eq!(receiver.requests().len(), 1);
    }
    // It goes on, for partners old and new.
    for partners in [0..10, 240..250] {
        let records: Vec<Record> = partners
            .clone()
            .map(|n| Record::of_event(n, &format!("s{n}")))
            .collect();
        let batch = stage.deliver(&deliver, &records).await;
        assert_eq!(batch.response, failures(&NONE));
        assert!(deliver.open_files() <= KEPT + OTHERS);
        for receiver in &receivers[partners] {
            assert_eq!(receiver.requests().len(), 2);
        }
    }
}

/// A partner's server that takes connections one by one, when it is told to, and lets only one
/// wait.
struct Doorkeeper(TcpListener);

type Client = BufReader<TcpStream>;

impl Doorkeeper {
    fn open() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        // None beyond the one that is always let in: the next SYN is dropped, as by a busy host.
        Self(socket.listen(0).unwrap())
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    async fn take(&self) -> Client {
        BufReader::new(self.0.accept().await.unwrap().0)
    }

    /// Waits until a peer wants to connect and was not let in.
    async fn refused_one(&self) {
        const SYN_SENT: &str = "02";
        let port = format!(":{:04X}", self.address().port());
        loop {
            let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
            let waits = sockets.lines().any(|socket| {
                let words: Vec<&str> = socket.split_whitespace().collect();
                matches!(words[..], [_, _, peer, SYN_SENT, ..] if peer.ends_with(&port))
            });
            if waits {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn read(client: &mut Client) -> Request {
    let request = read_request(client).await.unwrap();
    request.expect("a request")
}

async fn answer(client: &mut Client, status: u16) {
    let answer = response(status, &[], b"");
    client.get_mut().write_all(&answer).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_died_before_its_first_use_costs_the_partner_nothing() {
    let door = Doorkeeper::open();
    let stage = Stage::for_deliver().await;
    let mut records = Vec::new();
    for n in 0..2 {
        let name = format!("s{n}");
        stage.subscribe(&name, &format!("http://{}/", door.address()));
        records.push(Record::new(n, &Job::for_subscriber(&name).text()));
    }
    let deliver = stage.start(DELIVER).await;

    // The second record wants a connection of its own, which takes its time. So it goes on the
    // first one's as soon as that is free, and its own comes when nobody wants it any more.
    let taken = tokio::spawn(async move {
        door.refused_one().await;
        let mut first = door.take().await;
        for _ in 0..2 {
            read(&mut first).await;
            answer(&mut first, 204).await;
        }
        let unused = door.take().await;
        (door, unused)
    });
    let batch = stage.deliver(&deliver, &records).await;
    assert_eq!(batch.response, failures(&NONE));
    let (door, mut unused) = taken.await.unwrap();

    let requests = tokio::spawn(async move {
        let second = read(&mut unused).await;
        unused.get_ref().set_zero_linger().unwrap();
        drop(unused);
        let mut fresh = door.take().await;
        let third = read(&mut fresh).await;
        answer(&mut fresh, 204).await;
        [second, third]
    });
    let batch = stage.deliver(&deliver, &[Record::of_event(2, "s0")]).await;
    assert_eq!(batch.response, failures(&NONE));
    assert_eq!(batch.visibilities, []);
    let [second, third] = requests.await.unwrap();
    assert_eq!(second, third, "the same attempt");
}

/// A partner that answers as soon as it has seen the head, and takes little of the body, would
/// otherwise hold the connection and the payload for as long as it likes.
#[tokio::test]
async fn a_connection_whose_request_is_answered_before_it_is_taken_is_closed() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let door = Doorkeeper(socket.listen(8).unwrap());
    let stage = Stage::for_deliver().await;
    stage.subscribe("s0", &format!("http://{}/", door.address()));
    // More than the buffers of both ends take together.
    let job = Job {
        body: format!(r#"{{"data":"{}"}}"#, "x".repeat(12_000_000)),
        ..Job::for_subscriber("s0")
    };
    let deliver = stage.start(DELIVER).await;
    tokio::spawn(async move {
        let mut clients = Vec::new();
        loop {
            let mut client = door.take().await;
            client.read_exact(&mut [0; 1024]).await.unwrap();
            answer(&mut client, 200).await;
            clients.push(client);
        }
    });

    let mut open_files = Vec::new();
    for n in 0..4 {
        let job = job.clone().with_event_id(&format!("e{n}"));
        let record = Record::new(n, &job.text());
        let batch = stage.deliver(&deliver, &[record]).await;
        assert_eq!(batch.response, failures(&NONE));
        open_files.push(deliver.open_files());
    }
    assert_eq!(open_files[1..], [open_files[0]; 3]);
}
