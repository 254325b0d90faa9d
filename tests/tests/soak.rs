//! `make soak`: see `e2e::soak` and docs/soak.md.

use std::process::ExitCode;
use std::time::Instant;

use e2e::soak::evidence::Evidence;
use e2e::soak::plan::Plan;
use e2e::soak::{now_ms, oracle, report, run};

/// For how long events are published if nothing is said, in seconds.
const SECONDS: u64 = 180;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match soak().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn soak() -> Result<ExitCode, String> {
    if let Some(directory) = setting("SOAK_JUDGE") {
        let (plan, evidence) =
            report::read(directory.as_ref()).map_err(|error| format!("{directory}: {error}"))?;
        let verdict = oracle::judge(&plan, &evidence);
        println!("{verdict}\n{}", verdict.summary());
        return Ok(ExitCode::from(u8::from(verdict.has_failed())));
    }
    let plan = plan()?;
    let started = Instant::now();
    println!("soak: seed {}, {} s", plan.seed, plan.seconds);
    let say = |text: &str| println!("soak: {:>4} s  {text}", started.elapsed().as_secs());
    let directory = report::new_directory(plan.seed).map_err(|error| error.to_string())?;
    let unkept = |error| format!("{}: {error}", directory.display());
    report::keep_plan(&directory, &plan).map_err(unkept)?;
    // Before it is judged, which may fail as well.
    let keep = |evidence: &Evidence, logs: &[String]| {
        if let Err(error) = report::keep_evidence(&directory, evidence, logs) {
            eprintln!("soak: {}", unkept(error));
        }
    };
    let evidence = run::carry_out(&plan, &directory, keep, say).await;
    let verdict = oracle::judge(&plan, &evidence);
    report::keep_verdict(&directory, &verdict).map_err(unkept)?;
    println!("{verdict}\n{}", verdict.summary());
    if verdict.has_failed() {
        let directory = directory.display();
        println!(
            "soak: FAILED. All that was seen is in {directory}; again: make soak PLAN={directory}/plan.json"
        );
        return Ok(ExitCode::FAILURE);
    }
    println!("soak: nothing was lost ({} s)", started.elapsed().as_secs());
    Ok(ExitCode::SUCCESS)
}

/// What is to be carried out: the plan in `SOAK_PLAN`, or that of `SOAK_SEED` and `SOAK_SECONDS`.
fn plan() -> Result<Plan, String> {
    if let Some(file) = setting("SOAK_PLAN") {
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        return serde_json::from_str(&text).map_err(|error| format!("{file}: {error}"));
    }
    let seed = number("SOAK_SEED")?.unwrap_or_else(|| now_ms() % 1_000_000);
    let seconds = number("SOAK_SECONDS")?.unwrap_or(SECONDS);
    if seconds < 10 {
        return Err("SOAK_SECONDS: at least 10 s are needed".to_owned());
    }
    let mut plan = Plan::draw(seed, seconds);
    // Takes a job away, so that the run has to fail.
    plan.thefts.extend(number("SOAK_THEFT_AT_MS")?);
    Ok(plan)
}

fn number(name: &str) -> Result<Option<u64>, String> {
    setting(name)
        .map(|text| {
            text.parse()
                .map_err(|_| format!("{name}: {text} is no whole number"))
        })
        .transpose()
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}
