//! The `webhooks` command; `webhooks --help` tells what it does.

use std::process::ExitCode;

use clap::Parser as _;
use webhooks::args::Arguments;
use webhooks::output;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let exit = match webhooks::run(Arguments::parse()).await {
        Ok(exit) => exit,
        Err(error) => {
            output::note(&format!("webhooks: {error}"));
            error.exit()
        }
    };
    ExitCode::from(exit as u8)
}
