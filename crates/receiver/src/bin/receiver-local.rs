//! The receiver as a server on this machine, to be tried with, or to stand behind a proxy.

use std::sync::Arc;

use receiver::server::{Limits, serve};
use receiver::{Keys, LocalConfig, Receiver, Secret, Store};
use tokio::net::TcpListener;
use webhooks_core::setting::Settings;
use webhooks_shell::{aws, logging};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    logging::init();
    let environment = |name: &str| std::env::var(name).ok();
    let config = match LocalConfig::from_settings(&Settings::new(&environment)) {
        Ok(config) => config,
        Err(error) => logging::refuse_to_start(&error),
    };
    let aws = aws::config().await;
    let keys = match config.secret {
        Secret::Given(keys) => Keys::Fixed(keys),
        Secret::Parameter(name) => Keys::of_parameter(&aws, name),
    };
    let store = match config.table_name {
        Some(name) => Store::table(&aws, name),
        None => Store::memory(),
    };
    let listener = match TcpListener::bind(config.listen).await {
        Ok(listener) => listener,
        Err(error) => logging::refuse_to_start(&error),
    };
    tracing::info!(address = %listener.local_addr()?, "receiver.listening");
    let receiver = Arc::new(Receiver::new(keys, store, config.keep));
    serve(listener, receiver, Limits::default()).await;
    Ok(())
}
