//! deliver, measured: one life of an environment in a scenario.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::Error;
use crate::aws::CallsByName;
use crate::environment::Phase;
use crate::floor::Floor;
use crate::partner::{Manner, Partners};
use crate::process::{CpuTime, peak_memory_mib};
use crate::scenario::{Kind, Programs, Scenario};
use crate::stats::{p99, percentile};
use crate::workload::{BATCH, Workload};

/// How long ago the first attempt was, where there was one.
const TRIED_BEFORE: Duration = Duration::from_secs(90);

/// A scenario with all that plays in it.
#[derive(Debug)]
pub struct Stage {
    pub(crate) scenario: Scenario,
    pub(crate) partners: Partners,
    pub(crate) workload: Arc<Workload>,
    pub(crate) directory: PathBuf,
}

/// What was measured of one environment.
#[derive(Debug, Clone, Serialize)]
pub struct Life {
    /// Of what.
    pub program: Kind,
    /// By name; the unit is part of it.
    pub figures: BTreeMap<String, f64>,
    /// Of each measured batch, its time without the partners' delay, in milliseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added_ms: Vec<f64>,
}

impl Stage {
    /// Sets a scenario up, with this many partners at this many addresses.
    ///
    /// # Errors
    /// If that does not work.
    pub fn new(
        scenario: Scenario,
        partners: usize,
        addresses: usize,
        tls: &Arc<ServerConfig>,
        directory: &Path,
    ) -> Result<Self, Error> {
        let manner = Manner {
            script: scenario.script,
            delay: scenario.delay,
            closes: scenario.closes,
            tls: scenario.tls.then(|| Arc::clone(tls)),
        };
        let servers = Partners::start(addresses, &manner)?;
        let workload = Workload::new(
            partners,
            &servers.urls(),
            scenario.payload_bytes,
            scenario.script,
        )?;
        let workload = if scenario.again {
            let tried_at = OffsetDateTime::now_utc() - TRIED_BEFORE;
            workload.again(&tried_at.format(&Rfc3339).unwrap_or_default())
        } else {
            workload
        };
        Ok(Self {
            scenario,
            partners: servers,
            workload: Arc::new(workload),
            directory: directory.to_owned(),
        })
    }

    /// One life of a program: from its start over its first batch and the warming up to the end of
    /// what is measured.
    ///
    /// # Errors
    /// If anything went otherwise than scripted.
    pub fn live(&self, kind: Kind, programs: &Programs) -> Result<Life, Error> {
        let life = match kind {
            Kind::Floor => self.live_floor(&programs.floor),
            Kind::OursAll
            | Kind::OursFailures
            | Kind::NodeAll
            | Kind::NodeFailures
            | Kind::NodeHttpAll => self.live_function(kind, programs),
        };
        let what = (kind.title(), self.scenario.name);
        life.map_err(|error| Error::new(format!("{} in {}: {error}", what.0, what.1)))
    }

    fn live_function(&self, kind: Kind, programs: &Programs) -> Result<Life, Error> {
        let mut running = self.start(kind, programs)?;
        // How long that takes is measured in shorter lives.
        running.first_batch()?;
        running.environment.invoke(self.scenario.warm_up.max(1))?;
        let calls_before = running.aws.seen().calls;
        let connections_before = self.partners.connections();
        let pid = running.environment.pid();
        let cpu_before = CpuTime::of(pid)?;
        let phase = running.environment.invoke(self.scenario.batches)?;
        let cpu = CpuTime::of(pid)?.since(&cpu_before);
        let connections = self.partners.connections() - connections_before;
        let deliveries = count(self.scenario.batches * BATCH);
        let seen = running.aws.seen();
        let mut figures = self.figures_of(&phase, cpu, pid, connections)?;
        figures.extend(figures_of_calls(&calls_before, &seen.calls, deliveries));
        let batches = 1 + self.scenario.warm_up.max(1) + self.scenario.batches;
        let log_bytes = running.check(batches)?;
        figures.insert(
            "log_bytes_per_delivery".into(),
            log_bytes / count(batches * BATCH),
        );
        Ok(self.life(kind, figures, &phase))
    }

    fn live_floor(&self, program: &Path) -> Result<Life, Error> {
        let posts_before = self.partners.posts();
        let (warm_up, batches) = (self.scenario.warm_up.max(1), self.scenario.batches);
        let mut floor = Floor::start(
            program,
            &self.partners.urls(),
            self.workload.payload(),
            &self.directory,
        )?;
        floor.send(1 + warm_up)?;
        let cpu_before = CpuTime::of(floor.pid())?;
        let connections_before = self.partners.connections();
        let phase = floor.send(batches)?;
        let cpu = CpuTime::of(floor.pid())?.since(&cpu_before);
        let connections = self.partners.connections() - connections_before;
        let figures = self.figures_of(&phase, cpu, floor.pid(), connections)?;
        let posts = self.partners.posts() - posts_before;
        let expected = (1 + warm_up + batches) * self.partners.urls().len();
        if posts != expected {
            return Err(Error::new(format!("{posts} POSTs instead of {expected}")));
        }
        Ok(self.life(Kind::Floor, figures, &phase))
    }

    fn life(&self, program: Kind, figures: BTreeMap<String, f64>, phase: &Phase) -> Life {
        let added_ms = if self.scenario.delay.is_zero() {
            Vec::new()
        } else {
            self.added_ms(phase)
        };
        Life {
            program,
            figures,
            added_ms,
        }
    }

    fn added_ms(&self, phase: &Phase) -> Vec<f64> {
        let added = |time: &Duration| ms(time.saturating_sub(self.scenario.delay));
        phase.times.iter().map(added).collect()
    }

    fn figures_of(
        &self,
        phase: &Phase,
        cpu: Duration,
        pid: u32,
        connections: usize,
    ) -> Result<BTreeMap<String, f64>, Error> {
        let deliveries = count(phase.times.len() * BATCH);
        let added = self.added_ms(phase);
        let mut figures = vec![
            ("cpu_us_per_delivery", cpu.as_secs_f64() * 1e6 / deliveries),
            (
                "deliveries_per_second",
                deliveries / phase.elapsed.as_secs_f64(),
            ),
            ("peak_memory_mib", peak_memory_mib(pid)?),
            ("connections_per_delivery", count(connections) / deliveries),
        ];
        figures.extend(percentile(&added, 50).map(|half| ("added_ms_p50", half)));
        figures.extend(p99(&added).map(|most| ("added_ms_p99", most)));
        let named = |(name, value): (&str, f64)| (name.to_owned(), value);
        Ok(figures.into_iter().map(named).collect())
    }
}

/// What went to AWS and came back for each delivery, or job: in all, and for each operation.
#[must_use]
pub fn figures_of_calls(
    before: &CallsByName,
    after: &CallsByName,
    deliveries: f64,
) -> BTreeMap<String, f64> {
    let mut totals: BTreeMap<String, usize> = BTreeMap::new();
    for (operation, calls) in after {
        let before = before.get(operation).copied().unwrap_or_default();
        if calls.requests == before.requests {
            continue;
        }
        for (what, value) in [
            ("requests", calls.requests - before.requests),
            ("bytes_sent", calls.bytes_sent - before.bytes_sent),
            (
                "bytes_received",
                calls.bytes_received - before.bytes_received,
            ),
        ] {
            for name in [operation.as_str(), "aws"] {
                *totals
                    .entry(format!("{name}_{what}_per_delivery"))
                    .or_default() += value;
            }
        }
    }
    let figure = |(name, total)| (name, count(total) / deliveries);
    totals.into_iter().map(figure).collect()
}

/// In milliseconds.
#[must_use]
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A count as a number to reckon with.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "no count here comes near 2^52")]
pub fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::Calls;

    #[test]
    fn calls_are_counted_from_the_first_look_to_the_second() {
        let calls = |requests, bytes_sent, bytes_received| Calls {
            requests,
            bytes_sent,
            bytes_received,
        };
        let before = [
            ("BatchGetItem".to_owned(), calls(1, 100, 10)),
            ("GetParameters".to_owned(), calls(1, 50, 5)),
        ];
        let after = [
            ("BatchGetItem".to_owned(), calls(3, 300, 30)),
            ("BatchWriteItem".to_owned(), calls(1, 40, 4)),
            ("GetParameters".to_owned(), calls(1, 50, 5)),
        ];
        let figures = figures_of_calls(&before.into(), &after.into(), 10.0);
        let expected = [
            ("BatchGetItem_bytes_received_per_delivery", 2.0),
            ("BatchGetItem_bytes_sent_per_delivery", 20.0),
            ("BatchGetItem_requests_per_delivery", 0.2),
            ("BatchWriteItem_bytes_received_per_delivery", 0.4),
            ("BatchWriteItem_bytes_sent_per_delivery", 4.0),
            ("BatchWriteItem_requests_per_delivery", 0.1),
            ("aws_bytes_received_per_delivery", 2.4),
            ("aws_bytes_sent_per_delivery", 24.0),
            ("aws_requests_per_delivery", 0.3),
        ];
        let figures: Vec<_> = figures
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        assert_eq!(figures, expected);
    }
}
