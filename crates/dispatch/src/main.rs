//! The dispatch function: EventBridge in, delivery jobs out.

use dispatch::{Config, Dispatch};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::value::RawValue;
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
    let dispatch = Dispatch::new(config, &aws::config().await);
    lambda_runtime::run(service_fn(|event: LambdaEvent<Box<RawValue>>| {
        dispatch.handle(event.payload, event.context)
    }))
    .await
}
