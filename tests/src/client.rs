//! A sender of requests, down to the bytes: what a receiver must also bear.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    target: String,
}

/// What a server has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The status.
    pub status: u16,
    /// Names in lower case and values, in order.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
}

impl Answered {
    /// The first value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(other, _)| other == name);
        header.map(|(_, value)| value.as_str())
    }
}

impl Client {
    /// Connects to a server.
    pub async fn connect(address: SocketAddr) -> Self {
        Self {
            stream: TcpStream::connect(address).await.unwrap(),
            target: "/".to_owned(),
        }
    }

    /// Connects to the server of an http URL, to which [`Client::post`] then posts.
    ///
    /// # Panics
    /// If it is none with the number of an address.
    pub async fn to_url(url: &str) -> Self {
        let rest = url.strip_prefix("http://").expect("http");
        let (address, path) = rest.split_once('/').expect("a path");
        let client = Self::connect(address.parse().expect("an address")).await;
        Self {
            target: format!("/{path}"),
            ..client
        }
    }

    /// Sends a POST with these headers, and waits for its answer.
    pub async fn post(&mut self, headers: &[(&str, &str)], body: &[u8]) -> Answered {
        self.send(&post_to(&self.target, headers, body)).await;
        self.answer().await.expect("an answer")
    }

    /// Sends these bytes. A server that has hung up may not want them.
    pub async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Waits for an answer; `None` if the server hangs up without one.
    ///
    /// # Panics
    /// If neither comes.
    pub async fn answer(&mut self) -> Option<Answered> {
        let read = tokio::time::timeout(PATIENCE, self.read()).await;
        read.expect("an answer or the end of the connection")
    }

    async fn read(&mut self) -> Option<Answered> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let (status_line, rest) = head.split_once("\r\n").unwrap();
        let headers: Vec<(String, String)> = rest
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(0, |(_, length)| length.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.ok()?;
        Some(Answered {
            status: status_line.split(' ').nth(1).unwrap().parse().unwrap(),
            headers,
            body: String::from_utf8(body).unwrap(),
        })
    }
}

/// The bytes of a POST to `/`.
#[must_use]
pub fn post(headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    post_to("/", headers, body)
}

fn post_to(target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("POST {target} HTTP/1.1\r\nhost: receiver\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(body);
    bytes
}
