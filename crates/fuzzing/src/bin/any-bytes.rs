//! `any-bytes [--runs N | --seconds N] [--start N] [TARGET…]`: runs targets with their seeds, and
//! with so many inputs that are made of them, or for so long each. What breaks a property is kept
//! in `target/any-bytes`. It tells what it does on standard error: targets write to standard output.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a program for those who work on this repository"
)]

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fuzzing::mutation::{Numbers, mutated};
use fuzzing::{TARGETS, Target};

/// Panics, also those of tasks, which nobody would notice otherwise.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// When to stop.
#[derive(Clone, Copy)]
enum Until {
    Runs(u64),
    Seconds(u64),
}

fn main() -> ExitCode {
    let mut until = Until::Runs(2000);
    let mut start = 1;
    let mut chosen = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let number = arguments.next().and_then(|text| text.parse().ok());
            number.unwrap_or_else(|| panic!("{argument} needs a number"))
        };
        match argument.as_str() {
            "--runs" => until = Until::Runs(number()),
            "--seconds" => until = Until::Seconds(number()),
            "--start" => start = number(),
            name => {
                let target = TARGETS.into_iter().find(|(target, _)| *target == name);
                chosen.push(target.unwrap_or_else(|| panic!("there is no target {name}")));
            }
        }
    }
    if chosen.is_empty() {
        chosen.extend(TARGETS);
    }
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        told(panic);
    }));
    // All of them, also after one that does not hold.
    let mut all_hold = true;
    for (name, target) in chosen {
        all_hold &= holds(name, target, until, start);
    }
    if all_hold {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Whether a target's property holds for its seeds and all that is made of them.
fn holds(name: &str, target: Target, until: Until, start: u64) -> bool {
    let seeds = seeds(name);
    let mut numbers = Numbers::new(start);
    let begun = Instant::now();
    let mut runs = 0;
    for seed in &seeds {
        if !survives(name, target, seed) {
            return false;
        }
    }
    while match until {
        Until::Runs(number) => runs < number,
        Until::Seconds(seconds) => begun.elapsed() < Duration::from_secs(seconds),
    } {
        if !survives(name, target, &mutated(&seeds, &mut numbers)) {
            return false;
        }
        runs += 1;
    }
    eprintln!(
        "{name}: {} seeds and {runs} inputs made of them, {:.1} s",
        seeds.len(),
        begun.elapsed().as_secs_f64()
    );
    true
}

fn survives(name: &str, target: Target, input: &[u8]) -> bool {
    let before = PANICS.load(Ordering::SeqCst);
    let ended = panic::catch_unwind(AssertUnwindSafe(|| target(input)));
    if ended.is_ok() && PANICS.load(Ordering::SeqCst) == before {
        return true;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/any-bytes");
    let file = folder.join(name);
    fs::create_dir_all(&folder).expect("the folder can be made");
    fs::write(&file, input).expect("the input can be kept");
    eprintln!("{name}: broken by {}:", file.display());
    eprintln!("{}", input.escape_ascii());
    false
}

/// The seeds of a target, in the order of their names.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no seeds in {folder:?}");
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}
