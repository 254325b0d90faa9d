//! deliver, measured: the programs that do the same job, the scenarios, and one life of an
//! environment in one of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use serde::Serialize;

use crate::Error;
use crate::aws::{Aws, CallsByName, Content, Seen};
use crate::environment::{Environment, Events, Phase, Program};
use crate::floor::Floor;
use crate::partner::{Manner, Partners};
use crate::process::{CpuTime, peak_memory_mb};
use crate::stats::percentile;
use crate::workload::{BATCH, DELIVERIES, SUBSCRIPTIONS, Script, Workload};

/// What is measured side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The function, with a record of each delivery.
    OursAll,
    /// The function, with records of failures only.
    OursFailures,
    /// The baseline in Node.js, with a record of each delivery.
    NodeAll,
    /// The baseline in Node.js, with records of failures only.
    NodeFailures,
    /// The bare HTTP client.
    Floor,
}

impl Kind {
    /// All of them, in the order of the columns.
    pub const ALL: [Self; 5] = [
        Self::OursAll,
        Self::OursFailures,
        Self::NodeAll,
        Self::NodeFailures,
        Self::Floor,
    ];

    /// Heads a column.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::OursAll => "ours, all",
            Self::OursFailures => "ours, failures",
            Self::NodeAll => "Node.js, all",
            Self::NodeFailures => "Node.js, failures",
            Self::Floor => "bare client",
        }
    }

    fn delivery_log(self) -> &'static str {
        match self {
            Self::OursAll | Self::NodeAll => "all",
            Self::OursFailures | Self::NodeFailures | Self::Floor => "failures",
        }
    }
}

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The bootstrap of deliver.
    pub deliver: PathBuf,
    /// Node.js and the bundle of the baseline; without them it is left out.
    pub node: Option<(PathBuf, PathBuf)>,
    /// The bare client.
    pub floor: PathBuf,
}

impl Programs {
    /// What there is to measure.
    #[must_use]
    pub fn kinds(&self) -> Vec<Kind> {
        Kind::ALL
            .into_iter()
            .filter(|kind| match kind {
                Kind::OursAll | Kind::OursFailures | Kind::Floor => true,
                Kind::NodeAll | Kind::NodeFailures => self.node.is_some(),
            })
            .collect()
    }
}

/// What the partners do, and how much of it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// By which it is chosen.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// Of each webhook.
    pub payload_bytes: usize,
    /// What the partners answer.
    pub script: Script,
    /// After which time they answer.
    pub delay: Duration,
    /// Whether they speak TLS.
    pub tls: bool,
    /// Whether they end each connection.
    pub closes: bool,
    /// Batches before the measurement, after the first one.
    pub warm_up: usize,
    /// Batches that are measured.
    pub batches: usize,
}

const BASE: Scenario = Scenario {
    name: "base",
    title: "1 KB, http, each answered 204",
    payload_bytes: 1024,
    script: Script::Succeed,
    delay: Duration::ZERO,
    tls: false,
    closes: false,
    warm_up: 100,
    batches: 500,
};

/// Every scenario. [`Scenario::name`] of the first is `base`.
pub const SCENARIOS: [Scenario; 8] = [
    BASE,
    Scenario {
        name: "20kb",
        title: "20 KB, http, each answered 204",
        payload_bytes: 20_480,
        warm_up: 50,
        batches: 200,
        ..BASE
    },
    Scenario {
        name: "250kb",
        title: "250 KB, http, each answered 204",
        payload_bytes: 256_000,
        warm_up: 10,
        batches: 40,
        ..BASE
    },
    Scenario {
        name: "fail",
        title: "1 KB, http, each answered 500",
        script: Script::Fail,
        warm_up: 50,
        batches: 200,
        ..BASE
    },
    Scenario {
        name: "half",
        title: "1 KB, http, every second one answered 500",
        script: Script::Half,
        warm_up: 50,
        batches: 200,
        ..BASE
    },
    Scenario {
        name: "tls",
        title: "1 KB, https on kept connections, each answered 204",
        tls: true,
        warm_up: 50,
        batches: 200,
        ..BASE
    },
    Scenario {
        name: "tls-new",
        title: "1 KB, https on a new connection each, each answered 204",
        tls: true,
        closes: true,
        warm_up: 20,
        batches: 100,
        ..BASE
    },
    Scenario {
        name: "latency",
        title: "1 KB, http, each answered 204 after 20 ms",
        delay: Duration::from_millis(20),
        warm_up: 10,
        batches: 100,
        ..BASE
    },
];

/// A scenario with all that plays in it.
#[derive(Debug)]
pub struct Stage {
    scenario: Scenario,
    partners: Partners,
    workload: Arc<Workload>,
    directory: PathBuf,
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

/// One batch after the other, from the first.
struct Batches {
    workload: Arc<Workload>,
    aws: Arc<Aws>,
    next: usize,
}

impl Events for Batches {
    fn write_next(&mut self, event: &mut Vec<u8>) {
        self.aws.set_batch(self.next);
        self.workload.write_event(self.next, event);
        self.next += 1;
    }

    fn check(&mut self, response: &[u8]) -> Result<(), Error> {
        self.workload.check(self.next - 1, response)
    }
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
            Kind::OursAll | Kind::OursFailures | Kind::NodeAll | Kind::NodeFailures => {
                self.live_function(kind, programs)
            }
        };
        let what = (kind.title(), self.scenario.name);
        life.map_err(|error| Error::new(format!("{} in {}: {error}", what.0, what.1)))
    }

    fn live_function(&self, kind: Kind, programs: &Programs) -> Result<Life, Error> {
        let mut running = self.start(kind, programs)?;
        let mut figures = running.first_batch()?;
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
        figures.extend(self.figures_of(&phase, cpu, pid, connections)?);
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
        let first = floor.send(1)?;
        floor.send(warm_up)?;
        let cpu_before = CpuTime::of(floor.pid())?;
        let connections_before = self.partners.connections();
        let phase = floor.send(batches)?;
        let cpu = CpuTime::of(floor.pid())?.since(&cpu_before);
        let connections = self.partners.connections() - connections_before;
        let mut figures = self.figures_of(&phase, cpu, floor.pid(), connections)?;
        figures.insert("first_batch_ms".into(), ms(first.elapsed));
        figures.insert("cold_start_ms".into(), ms(floor.ready_after()));
        let posts = self.partners.posts() - posts_before;
        let expected = (1 + warm_up + batches) * self.partners.urls().len();
        if posts != expected {
            return Err(Error::new(format!("{posts} POSTs instead of {expected}")));
        }
        self.partners.forget_requests();
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
        let percentile = |percent| percentile(&added, percent).unwrap_or_default();
        Ok([
            ("cpu_us_per_delivery", cpu.as_secs_f64() * 1e6 / deliveries),
            (
                "deliveries_per_second",
                deliveries / phase.elapsed.as_secs_f64(),
            ),
            ("added_ms_p50", percentile(50)),
            ("added_ms_p99", percentile(99)),
            ("peak_memory_mb", peak_memory_mb(pid)?),
            ("connections_per_delivery", count(connections) / deliveries),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into())
    }

    /// Starts a function and waits for its first poll.
    ///
    /// # Errors
    /// If it does not come so far.
    pub fn start(&self, kind: Kind, programs: &Programs) -> Result<Running<'_>, Error> {
        let aws = Arc::new(Aws::start(Content::Batches(Arc::clone(&self.workload)))?);
        let events = Batches {
            workload: Arc::clone(&self.workload),
            aws: Arc::clone(&aws),
            next: 0,
        };
        let program = self.program(kind, programs, &aws)?;
        let log = self.directory.join("function.log");
        let posts_before = self.partners.posts();
        let mut environment = Environment::start(&program, Box::new(events), &log)?;
        let cold_start = environment.first_poll()?;
        // The poll comes a moment before the process has gone to sleep.
        let init_cpu = CpuTime::of(environment.pid())?.since(&CpuTime::none());
        Ok(Running {
            stage: self,
            kind,
            aws,
            environment,
            cold_start,
            init_cpu,
            posts_before,
        })
    }

    fn program(&self, kind: Kind, programs: &Programs, aws: &Aws) -> Result<Program, Error> {
        let address = aws.address();
        let authority = self.directory.join("authority.pem").display().to_string();
        let endpoint = format!("http://{address}");
        let mut variables: BTreeMap<String, String> = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("QUEUE_URL", &format!("{endpoint}/111122223333/jobs")),
            ("TABLE_NAME", SUBSCRIPTIONS),
            ("DELIVERIES_TABLE", DELIVERIES),
            ("DELIVERY_LOG", kind.delivery_log()),
            ("REFERENCE_FIELDS", "orderId"),
            ("EVENT_BUS_NAME", "webhooks"),
            ("SECRET_PREFIX", "webhooks"),
            ("ALLOW_PRIVATE_ENDPOINTS", "true"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let (command, authority_variable) = match (kind, &programs.node) {
            (Kind::NodeAll | Kind::NodeFailures, Some((node, bundle))) => {
                (vec![node.into(), bundle.into()], "NODE_EXTRA_CA_CERTS")
            }
            (Kind::OursAll | Kind::OursFailures, _) => {
                (vec![programs.deliver.clone().into()], "EXTRA_CA_FILE")
            }
            (Kind::NodeAll | Kind::NodeFailures | Kind::Floor, _) => {
                return Err(Error::new("there is no such function"));
            }
        };
        if self.scenario.tls {
            variables.insert(authority_variable.into(), authority);
        }
        Ok(Program { command, variables })
    }
}

/// A function that has polled.
#[derive(Debug)]
pub struct Running<'a> {
    stage: &'a Stage,
    kind: Kind,
    aws: Arc<Aws>,
    /// Its environment.
    pub environment: Environment,
    cold_start: Duration,
    init_cpu: Duration,
    posts_before: usize,
}

impl Running<'_> {
    /// Hands out the first batch. Gives what was measured until its end.
    ///
    /// # Errors
    /// If it does not end as scripted.
    pub fn first_batch(&mut self) -> Result<BTreeMap<String, f64>, Error> {
        let first = self.environment.invoke(1)?;
        self.stage
            .partners
            .check_requests(self.stage.workload.payload())?;
        Ok([
            ("cold_start_ms", ms(self.cold_start)),
            ("init_cpu_ms", ms(self.init_cpu)),
            ("first_batch_ms", ms(first.elapsed)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into())
    }

    /// Whether all that was seen is what so many batches come to: nothing missing and nothing
    /// twice. Gives the size of the log.
    ///
    /// # Errors
    /// What is not.
    pub fn check(&mut self, batches: usize) -> Result<f64, Error> {
        let log = self.environment.log()?;
        let lines = memchr::memmem::find_iter(&log, b"\"delivery.attempted\"").count();
        self.check_without_log(batches)?;
        expect("lines of the log", lines, batches * BATCH)?;
        Ok(count(log.len()))
    }

    /// The same, but for the log.
    ///
    /// # Errors
    /// What is not as it should be.
    pub fn check_without_log(&self, batches: usize) -> Result<(), Error> {
        let Seen {
            records,
            visibilities,
            problem,
            ..
        } = self.aws.seen();
        if let Some(problem) = problem {
            return Err(Error::new(problem));
        }
        let (deliveries, failures) = (
            batches * BATCH,
            self.stage.workload.failures_before(batches),
        );
        let recorded = match self.kind {
            Kind::OursAll | Kind::NodeAll => deliveries,
            Kind::OursFailures | Kind::NodeFailures | Kind::Floor => failures,
        };
        let posts = self.stage.partners.posts() - self.posts_before;
        expect("POSTs", posts, deliveries)?;
        expect("records", records, recorded)?;
        expect("changes of visibility", visibilities, failures)
    }
}

fn expect(what: &str, seen: usize, expected: usize) -> Result<(), Error> {
    if seen == expected {
        Ok(())
    } else {
        Err(Error::new(format!("{seen} {what} instead of {expected}")))
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
