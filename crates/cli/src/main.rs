//! The `webhooks` command; `webhooks --help` tells what it does.

use std::process::ExitCode;

use clap::Parser as _;
use webhooks::args::{self, Arguments};
use webhooks::output;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Help and version.
        Err(told) if args::is_told(&told) => told.exit(),
        Err(error) => {
            output::note(&args::refusal(error));
            return ExitCode::from(webhooks::error::Exit::Usage as u8);
        }
    };
    let exit = match webhooks::run(arguments).await {
        Ok(exit) => exit,
        Err(error) => {
            output::note(&format!("webhooks: {}", error.told()));
            error.exit()
        }
    };
    ExitCode::from(exit as u8)
}
