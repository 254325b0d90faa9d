//! All of it, as the command line says.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use rustls::ServerConfig;

use crate::deliver::{Life, Stage};
use crate::dispatch::{self, FAN_OUTS, events};
use crate::fan_out::Subscribers;
use crate::machine::Machine;
use crate::process::peak_memory_mib;
use crate::results::{FanOut, Measured, Results};
use crate::scenario::{Kind, Programs, SCENARIOS, Scenario};
use crate::workload::BATCH;
use crate::{Error, goals, million, report, tls};

/// What the functions cost: CPU, memory, time and calls of AWS, beside the same job in Node.js and
/// a bare HTTP client.
#[derive(Debug, Clone, Parser)]
#[command(name = "bench")]
pub struct Arguments {
    /// One run instead of several, and short ones: to see that it works. Without the million.
    #[arg(long)]
    pub quick: bool,
    /// Only this part: cold, deliver, dispatch, million, or one scenario of deliver by its name.
    /// May be given several times.
    #[arg(long, value_name = "PART")]
    pub only: Vec<String>,
    /// How often each program is measured in each scenario.
    #[arg(long, default_value_t = 5)]
    pub runs: usize,
    /// How many short lives there are for the cold start.
    #[arg(long, default_value_t = 12)]
    pub lives: usize,
    /// Over how many deliveries memory is watched; 0: not at all.
    #[arg(long, default_value_t = 1_000_000)]
    pub million: usize,
    /// The bootstrap of deliver.
    #[arg(long, default_value = "target/lambda/deliver/bootstrap")]
    pub deliver: PathBuf,
    /// The bootstrap of dispatch.
    #[arg(long, default_value = "target/lambda/dispatch/bootstrap")]
    pub dispatch: PathBuf,
    /// The bare client.
    #[arg(long, default_value = "target/lambda/floor/bootstrap")]
    pub floor: PathBuf,
    /// To how many subscribers dispatch sends an event. May be given several times.
    #[arg(long, value_name = "SUBSCRIBERS", default_values_t = FAN_OUTS)]
    pub fan_out: Vec<usize>,
    /// Node.js. Without it the columns of the baseline are missing.
    #[arg(long, value_name = "PROGRAM")]
    pub node: Option<PathBuf>,
    /// The baseline for it, in one file.
    #[arg(long, default_value = "target/bench/deliver.cjs")]
    pub node_bundle: PathBuf,
    /// Where all values are written to.
    #[arg(long, default_value = "target/bench/results.json")]
    pub out: PathBuf,
}

/// Parts that are no scenarios.
const PARTS: [&str; 4] = ["cold", "deliver", "dispatch", "million"];

/// By how much fewer batches a quick run has.
const QUICK: usize = 20;

impl Arguments {
    fn is_wanted(&self, part: &str) -> bool {
        let names = |name: &str| self.only.iter().any(|only| only == name);
        let is_of_deliver = SCENARIOS.iter().any(|scenario| scenario.name == part);
        self.only.is_empty() || names(part) || is_of_deliver && names("deliver")
    }

    fn check(&self) -> Result<(), Error> {
        let is_known = |part: &String| {
            PARTS.contains(&part.as_str()) || SCENARIOS.iter().any(|known| known.name == part)
        };
        if let Some(part) = self.only.iter().find(|part| !is_known(part)) {
            let scenarios: Vec<&str> = SCENARIOS.iter().map(|known| known.name).collect();
            let known = [&PARTS[..], &scenarios].concat().join(", ");
            return Err(Error::new(format!("there is no part {part}, only {known}")));
        }
        if self.runs == 0 || self.lives == 0 {
            return Err(Error::new("nothing would be measured"));
        }
        Ok(())
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let wanted = SCENARIOS
            .into_iter()
            .filter(|scenario| self.is_wanted(scenario.name));
        wanted
            .map(|scenario| {
                if self.quick {
                    Scenario {
                        warm_up: 1,
                        batches: (scenario.batches / QUICK).max(2),
                        ..scenario
                    }
                } else {
                    scenario
                }
            })
            .collect()
    }
}

/// A directory for what is only needed meanwhile. It is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Error> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sqs-webhooks-bench-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It is in a directory for such things, whatever becomes of it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Measures, writes the file of all values and gives the tables.
///
/// # Errors
/// If anything went otherwise than scripted. A goal that is missed is no error.
pub fn run(arguments: &Arguments) -> Result<String, Error> {
    arguments.check()?;
    let scratch = Scratch::new()?;
    let directory = scratch.0.as_path();
    let server = tls::server(&directory.join("authority.pem"))?;
    let programs = Programs {
        deliver: arguments.deliver.clone(),
        node: node(arguments)?,
        floor: arguments.floor.clone(),
    };
    let mut results = Results {
        machine: Machine::here(programs.node.as_ref().map(|(node, _)| node.as_path())),
        ..Results::default()
    };
    let runs = if arguments.quick { 1 } else { arguments.runs };
    if arguments.is_wanted("cold") {
        let lives = if arguments.quick { 2 } else { arguments.lives };
        results.cold_starts = Some(cold_starts(lives, &programs, &server, directory)?);
    }
    for scenario in arguments.scenarios() {
        let lives = lives(scenario, runs, &programs, &server, directory)?;
        results.deliver.push(lives);
    }
    if arguments.is_wanted("dispatch") {
        for fan_out in arguments.fan_out.iter().copied() {
            results
                .dispatch
                .push(fan_outs(arguments, runs, fan_out, directory)?);
        }
    }
    let is_asked_for = arguments.only.iter().any(|only| only == "million");
    if arguments.million > 0 && (is_asked_for || arguments.is_wanted("million") && !arguments.quick)
    {
        eprintln!("memory over {} deliveries", arguments.million);
        let growth = million::run(arguments.million, &programs, &server, directory)?;
        results.million = Some(growth);
    }
    results.goals = goals::judge(&results);
    if let Some(directory) = arguments.out.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(
        &arguments.out,
        serde_json::to_string_pretty(&results)? + "\n",
    )?;
    let text = report::text(&results);
    Ok(if arguments.quick {
        format!("A quick run: it shows that all of it works. The figures mean little.\n\n{text}")
    } else {
        text
    })
}

fn node(arguments: &Arguments) -> Result<Option<(PathBuf, PathBuf)>, Error> {
    let Some(node) = &arguments.node else {
        eprintln!("no Node.js was named: its columns are left out");
        return Ok(None);
    };
    if !arguments.node_bundle.exists() {
        let bundle = arguments.node_bundle.display();
        return Err(Error::new(format!("{bundle} is not there")));
    }
    Ok(Some((node.clone(), arguments.node_bundle.clone())))
}

/// Short lives: from the start to the end of the first batch.
fn cold_starts(
    count: usize,
    programs: &Programs,
    server: &Arc<ServerConfig>,
    directory: &Path,
) -> Result<Measured, Error> {
    eprintln!("cold starts: {count} lives each");
    let stage = Stage::new(SCENARIOS[0], BATCH, BATCH, server, directory)?;
    let mut lives = Vec::new();
    for life in 0..count {
        for program in programs.kinds_from(life) {
            if program == Kind::Floor {
                continue;
            }
            let mut running = stage.start(program, programs)?;
            let mut figures = running.first_batch()?;
            let memory = peak_memory_mib(running.environment.pid())?;
            figures.insert("peak_memory_mib".into(), memory);
            running.check(1)?;
            lives.push(Life {
                program,
                figures,
                added_ms: Vec::new(),
            });
        }
    }
    let title = "from the start of the process to the end of its first batch";
    Ok(Measured::new("cold", title, BATCH, lives))
}

/// Long lives, of each program in turn.
fn lives(
    scenario: Scenario,
    runs: usize,
    programs: &Programs,
    server: &Arc<ServerConfig>,
    directory: &Path,
) -> Result<Measured, Error> {
    eprintln!("deliver, {}: {}", scenario.name, scenario.title);
    let stage = Stage::new(scenario, BATCH, BATCH, server, directory)?;
    let mut lives = Vec::new();
    for run in 1..=runs {
        eprint!("\r  run {run} of {runs} ");
        for kind in programs.kinds_from(run - 1) {
            lives.push(stage.live(kind, programs)?);
        }
    }
    eprintln!();
    let deliveries = scenario.batches * BATCH;
    Ok(Measured::new(
        scenario.name,
        scenario.title,
        deliveries,
        lives,
    ))
}

fn fan_outs(
    arguments: &Arguments,
    runs: usize,
    fan_out: usize,
    directory: &Path,
) -> Result<FanOut, Error> {
    eprintln!("dispatch, {fan_out} subscribers");
    let events = if arguments.quick { 1 } else { events(fan_out) };
    let subscribers = Arc::new(Subscribers::new(fan_out));
    let lives: Result<Vec<dispatch::Life>, Error> = (0..runs)
        .map(|_| {
            dispatch::live(
                &arguments.dispatch,
                &subscribers,
                fan_out,
                events,
                directory,
            )
        })
        .collect();
    Ok(FanOut::new(fan_out, lives?))
}
