//! Many deliveries in one environment: does its memory grow?

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustls::ServerConfig;
use serde::Serialize;

use crate::Error;
use crate::deliver::Stage;
use crate::process::{memory_now_mib, peak_memory_mib};
use crate::scenario::{Kind, Programs, SCENARIOS, Scenario};
use crate::workload::{BATCH, Script};

/// Partners, a hundred times as many as in a batch.
const PARTNERS: usize = 1_000;
/// Addresses at which they are: some have several subscriptions to one host.
const ADDRESSES: usize = 100;
/// How often memory is looked at.
const SAMPLES: usize = 20;
/// By how much memory may grow from the first look, after a twentieth of the deliveries, to the
/// last, in MiB, and still be called flat.
pub const FLAT_MIB: f64 = 1.0;

/// What was seen.
#[derive(Debug, Clone, Serialize)]
pub struct Growth {
    /// In all.
    pub deliveries: usize,
    /// Of them, those that were answered 500.
    pub failures: usize,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Resident memory after each twentieth of the deliveries, in MiB.
    pub memory_mib: Vec<f64>,
    /// The most that was ever resident, in MiB.
    pub peak_memory_mib: f64,
}

impl Growth {
    /// From the first look to the last, in MiB.
    #[must_use]
    pub fn growth_mib(&self) -> f64 {
        let first = self.memory_mib.first().copied().unwrap_or_default();
        let last = self.memory_mib.last().copied().unwrap_or_default();
        last - first
    }
}

/// Delivers to 1 000 partners, of whom one of ten answers 500, with a record of each delivery.
///
/// # Errors
/// If a delivery does not end as scripted.
pub fn run(
    deliveries: usize,
    programs: &Programs,
    tls: &Arc<ServerConfig>,
    directory: &Path,
) -> Result<Growth, Error> {
    let scenario = Scenario {
        name: "million",
        script: Script::OneOfTen,
        ..SCENARIOS[0]
    };
    let stage = Stage::new(scenario, PARTNERS, ADDRESSES, tls, directory)?;
    let mut running = stage.start(Kind::OursAll, programs)?;
    let began = Instant::now();
    let (mut memory_mib, mut batches) = (Vec::new(), 0);
    let step = (deliveries / BATCH / SAMPLES).max(1);
    for sample in 1..=SAMPLES {
        running.environment.invoke(step)?;
        running.environment.empty_log()?;
        batches += step;
        memory_mib.push(memory_now_mib(running.environment.pid())?);
        eprint!(
            "\r  {} deliveries, {sample} of {SAMPLES} looks ",
            batches * BATCH
        );
    }
    eprintln!();
    running.check_without_log(batches)?;
    Ok(Growth {
        deliveries: batches * BATCH,
        failures: batches,
        seconds: began.elapsed().as_secs_f64(),
        memory_mib,
        peak_memory_mib: peak_memory_mib(running.environment.pid())?,
    })
}
