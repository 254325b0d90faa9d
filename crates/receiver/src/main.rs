//! The receiver function: webhooks in through a function URL, events into a table.

use std::sync::Arc;
use std::time::SystemTime;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use receiver::function_url::Event;
use receiver::{Config, Keys, Receiver, Store};
use webhooks_core::setting::Settings;
use webhooks_shell::{aws, logging};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    logging::init();
    let environment = |name: &str| std::env::var(name).ok();
    let config = match Config::from_settings(&Settings::new(&environment)) {
        Ok(config) => config,
        Err(error) => logging::refuse_to_start(&error),
    };
    let aws = aws::config().await;
    let receiver = Arc::new(Receiver::new(
        Keys::of_parameter(&aws, config.secret_parameter),
        Store::table(&aws, config.table_name),
        config.keep,
    ));
    lambda_runtime::run(service_fn(|event: LambdaEvent<Event>| {
        let receiver = Arc::clone(&receiver);
        async move {
            let answer = receiver
                .handle_event(event.payload, SystemTime::now())
                .await;
            Ok::<_, Error>(answer)
        }
    }))
    .await
}
