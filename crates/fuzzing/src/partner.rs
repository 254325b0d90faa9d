//! A partner on this machine that takes everything. It waits for no other thread, so that it answers
//! whatever the function under test is doing.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::thread;

/// Where a partner listens that takes everything with a 204.
pub(crate) fn partner() -> SocketAddr {
    static PARTNER: OnceLock<SocketAddr> = OnceLock::new();
    *PARTNER.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        // Beside the function's runtime, which stands still between invocations.
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                thread::spawn(move || take_all(&connection));
            }
        });
        address
    })
}

/// Answers requests until there are no more, or one is not as the function sends them.
fn take_all(connection: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(connection);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().ok()?;
                }
                None if line.trim_end().is_empty() => break,
                Some(_) | None => {}
            }
        }
        io::copy(&mut reader.by_ref().take(length), &mut io::sink()).ok()?;
        let mut writer = connection;
        writer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
    }
}
