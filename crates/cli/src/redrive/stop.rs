//! Ctrl-C: the first one asks to stop after the batch in hand, the second one ends at once.

use tokio::sync::watch;

use crate::error::Exit;
use crate::output;

/// Whether somebody asked to stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Listens from now on, until the process ends.
    pub(crate) fn listen() -> Self {
        let (asked, asking) = watch::channel(false);
        tokio::spawn(async move {
            interrupted().await;
            asked.send_replace(true);
            output::note(
                "Stopping after the batch in hand. Once more stops at once, and what was taken \
                 from the dead-letter queue then comes back within 5 minutes.",
            );
            interrupted().await;
            std::process::exit(i32::from(Exit::Interrupted as u8));
        });
        Self(asking)
    }

    pub(crate) fn is_asked_for(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is.
    pub(crate) async fn asked_for(&self) {
        let mut asking = self.0.clone();
        if asking.wait_for(|asked| *asked).await.is_err() {
            // Nobody listens any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Waits for Ctrl-C, or for the wish of another process to end this one.
async fn interrupted() {
    let ctrl_c = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let terminate = async {
            match signal(SignalKind::terminate()) {
                Ok(mut terminate) => {
                    terminate.recv().await;
                }
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ctrl_c => {}
            () = terminate => {}
        }
    }
    #[cfg(not(unix))]
    ctrl_c.await;
}
