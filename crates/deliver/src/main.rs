//! The deliver function: delivery jobs in, signed POSTs out.

use std::sync::Arc;

use deliver::{Config, Deliver, SqsEvent};
use lambda_runtime::{Error, LambdaEvent, service_fn};
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
    if config.endpoints.allow_private {
        tracing::warn!(
            "ALLOW_PRIVATE_ENDPOINTS is on: http and private addresses are called; never use this in production"
        );
    }
    let function_name = environment("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_default();
    let deliver = match Deliver::new(config, function_name, &aws::config().await) {
        Ok(deliver) => Arc::new(deliver),
        Err(error) => logging::refuse_to_start(&error),
    };
    lambda_runtime::run(service_fn(|event: LambdaEvent<SqsEvent>| {
        Arc::clone(&deliver).handle(event.payload, event.context)
    }))
    .await
}
