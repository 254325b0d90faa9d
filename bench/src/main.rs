//! `bench`: measures the functions and prints what they cost.

use std::process::ExitCode;

use bench::run::{Arguments, run};
use clap::Parser as _;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
