//! The question before something is done that is not easily undone.

use std::io::{self, IsTerminal as _, Write as _};

/// Whether there is somebody to ask.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Asks on the terminal, and waits for the answer; whatever is not yes is no.
pub(crate) async fn agreed(question: &str) -> bool {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
    let (answered, answer) = tokio::sync::oneshot::channel();
    // Not a task: a read from the terminal can not be ended, and would hold the process up.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line);
        let _ = answered.send(read.map(|_| line).unwrap_or_default());
    });
    let line = answer.await.unwrap_or_default();
    matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}
