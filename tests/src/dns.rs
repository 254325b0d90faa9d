//! A DNS server that follows a script: what it answers to the first question about a name, what to
//! the second, and how often it was asked. It speaks as much of RFC 1035 as the resolver of a C
//! library asks for.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use crate::network::RESOLVER;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
}

/// The answer to one question.
#[derive(Clone, Debug)]
pub enum Reply {
    /// These addresses, in this order.
    Addresses(Vec<IpAddr>),
    /// This name, with the addresses that the script has for it.
    Alias(&'static str),
    /// The name exists and has nothing of this kind.
    Empty,
    /// The name does not exist.
    NxDomain,
    /// The server could not find out.
    ServFail,
    /// Nothing, ever.
    Silence,
}

impl Reply {
    /// These addresses.
    ///
    /// # Panics
    /// If one is none.
    #[must_use]
    pub fn addresses(addresses: &[&str]) -> Self {
        Self::Addresses(addresses.iter().map(|text| text.parse().unwrap()).collect())
    }
}

#[derive(Default)]
struct State {
    script: HashMap<(String, Kind), Vec<Reply>>,
    /// Name and kind of every question, in order.
    questions: Vec<(String, Kind)>,
}

/// The server. It ends when it is dropped.
pub struct Dns {
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

impl Dns {
    /// Starts it where the programs of a [network](crate::network) ask. No name exists.
    ///
    /// # Panics
    /// Outside of a network.
    pub async fn start() -> Self {
        let socket = UdpSocket::bind((RESOLVER, 53)).await.unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let server = tokio::spawn(serve(socket, Arc::clone(&state)));
        Self { state, server }
    }

    /// Gives these replies to questions of this kind about a name, one each; the last one stays.
    pub fn script(&self, name: &str, kind: Kind, replies: impl IntoIterator<Item = Reply>) {
        let replies = replies.into_iter().collect();
        let mut state = self.state.lock().unwrap();
        state.script.insert((name.to_owned(), kind), replies);
    }

    /// A name always has these addresses.
    pub fn name(&self, name: &str, addresses: &[&str]) {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let (ipv4, ipv6) = addresses.into_iter().partition(IpAddr::is_ipv4);
        self.script(name, Kind::A, [Reply::Addresses(ipv4)]);
        self.script(name, Kind::Aaaa, [Reply::Addresses(ipv6)]);
    }

    /// To both kinds of questions about a name there is this reply.
    pub fn both(&self, name: &str, reply: &Reply) {
        self.script(name, Kind::A, [reply.clone()]);
        self.script(name, Kind::Aaaa, [reply.clone()]);
    }

    /// How often there was a question of this kind about a name.
    #[must_use]
    pub fn asked(&self, name: &str, kind: Kind) -> usize {
        let questions = &self.state.lock().unwrap().questions;
        let same = |asked: &&(String, Kind)| asked.0 == name && asked.1 == kind;
        questions.iter().filter(same).count()
    }

    /// Of what names there was a question, each once, in order.
    #[must_use]
    pub fn names_asked(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (name, _) in &self.state.lock().unwrap().questions {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

impl fmt::Debug for Dns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Dns({RESOLVER})")
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(socket: UdpSocket, state: Arc<Mutex<State>>) {
    let mut buffer = [0; 512];
    loop {
        let (length, peer): (usize, SocketAddr) = socket.recv_from(&mut buffer).await.unwrap();
        let answer = answer(&buffer[..length], &mut state.lock().unwrap());
        if let Some(answer) = answer {
            socket.send_to(&answer, peer).await.unwrap();
        }
    }
}

/// The message that answers another one (RFC 1035 §4).
fn answer(message: &[u8], state: &mut State) -> Option<Vec<u8>> {
    const HEADER_BYTES: usize = 12;
    let (name, end) = read_name(message, HEADER_BYTES);
    let question_end = end + 4;
    let kind = match message[end..end + 2] {
        [0, 1] => Kind::A,
        [0, 28] => Kind::Aaaa,
        ref other => panic!("a question of type {other:?}"),
    };
    let earlier = state.questions.iter();
    let earlier = earlier.filter(|asked| asked.0 == name && asked.1 == kind);
    let number = earlier.count();
    state.questions.push((name.clone(), kind));

    let (code, records) = records(&state.script, &name, kind, number)?;
    let mut answer = message[..2].to_owned();
    // A response to a recursive question, by one who recurses.
    answer.extend([0x81, 0x80 | code]);
    let count = u16::try_from(records.len()).unwrap();
    for number in [1, count, 0, 0] {
        answer.extend(number.to_be_bytes());
    }
    answer.extend(&message[HEADER_BYTES..question_end]);
    for record in records {
        answer.extend(record);
    }
    Some(answer)
}

/// The response code and the records.
fn records(
    script: &HashMap<(String, Kind), Vec<Reply>>,
    name: &str,
    kind: Kind,
    number: usize,
) -> Option<(u8, Vec<Vec<u8>>)> {
    const SERVFAIL: u8 = 2;
    const NXDOMAIN: u8 = 3;
    let Some(replies) = script.get(&(name.to_owned(), kind)) else {
        return Some((NXDOMAIN, Vec::new()));
    };
    match &replies[number.min(replies.len() - 1)] {
        Reply::Addresses(addresses) => {
            let record = |address: &IpAddr| match address {
                IpAddr::V4(address) => record(name, 1, &address.octets()),
                IpAddr::V6(address) => record(name, 28, &address.octets()),
            };
            Some((0, addresses.iter().map(record).collect()))
        }
        Reply::Alias(target) => {
            let (code, targets) = records(script, target, kind, number)?;
            let alias = record(name, 5, &written_name(target));
            Some((code, std::iter::once(alias).chain(targets).collect()))
        }
        Reply::Empty => Some((0, Vec::new())),
        Reply::NxDomain => Some((NXDOMAIN, Vec::new())),
        Reply::ServFail => Some((SERVFAIL, Vec::new())),
        Reply::Silence => None,
    }
}

/// A record of the class of the internet that may not be kept.
fn record(name: &str, kind: u16, data: &[u8]) -> Vec<u8> {
    let mut record = written_name(name);
    record.extend(kind.to_be_bytes());
    record.extend([0, 1, 0, 0, 0, 0]);
    record.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    record.extend(data);
    record
}

/// The name that stands at `start`, in lower case, and where it ends.
fn read_name(message: &[u8], start: usize) -> (String, usize) {
    let mut labels = Vec::new();
    let mut at = start;
    while message[at] != 0 {
        let length = usize::from(message[at]);
        let label = &message[at + 1..at + 1 + length];
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += 1 + length;
    }
    (labels.join("."), at + 1)
}

fn written_name(name: &str) -> Vec<u8> {
    let mut written = Vec::new();
    for label in name.split('.') {
        written.push(u8::try_from(label.len()).unwrap());
        written.extend(label.as_bytes());
    }
    written.push(0);
    written
}
