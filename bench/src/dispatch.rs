//! dispatch, measured: one event to few and to many subscribers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::Error;
use crate::aws::{Aws, Content};
use crate::deliver::{count, figures_of_calls, ms};
use crate::environment::{Environment, Events, Program};
use crate::fan_out::Subscribers;
use crate::process::{CpuTime, peak_memory_mib};
use crate::stats::spread;
use crate::workload::{EVENT_TYPE, SUBSCRIPTIONS, number, order};

/// To how many subscribers an event goes.
pub const FAN_OUTS: [usize; 3] = [10, 1_000, 100_000];

/// How many events are measured in a life: a few thousand jobs, but not too many events.
#[must_use]
pub fn events(fan_out: usize) -> usize {
    (20_000 / fan_out.max(1)).clamp(1, 300)
}

/// Of the `detail` of an event.
const DETAIL_BYTES: usize = 1024;

/// What was measured of one environment.
#[derive(Debug, Clone, Serialize)]
pub struct Life {
    /// Subscribers of the event.
    pub fan_out: usize,
    /// By name; the unit is part of it.
    pub figures: BTreeMap<String, f64>,
}

#[derive(Debug)]
struct BridgeEvents {
    detail: String,
    next: usize,
    subscribers: Arc<Subscribers>,
}

impl Events for BridgeEvents {
    fn write_next(&mut self, event: &mut Vec<u8>) {
        let id = number(self.next);
        self.next += 1;
        *event = format!(
            r#"{{"version":"0","id":"7bf73129-1428-4cd3-a780-{id}","detail-type":"{EVENT_TYPE}","source":"shop","account":"111122223333","time":"2026-10-29T12:00:00Z","region":"eu-central-1","resources":[],"detail":{}}}"#,
            self.detail
        )
        .into_bytes();
    }

    fn check(&mut self, response: &[u8]) -> Result<(), Error> {
        if response != b"null" {
            let text = String::from_utf8_lossy(response);
            return Err(Error::new(format!("dispatch answered {text:.300}")));
        }
        if self.subscribers.is_complete() {
            Ok(())
        } else {
            Err(Error::new("not every subscriber has got exactly one job"))
        }
    }
}

/// One life of dispatch: a first event, and then the measured ones.
///
/// # Errors
/// If a subscriber does not get exactly one job of each event.
pub fn live(
    bootstrap: &Path,
    subscribers: &Arc<Subscribers>,
    fan_out: usize,
    events: usize,
    directory: &Path,
) -> Result<Life, Error> {
    let aws = Aws::start(Content::Subscribers(Arc::clone(subscribers)))?;
    let endpoint = format!("http://{}", aws.address());
    let program = Program {
        command: vec![bootstrap.into()],
        variables: [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("QUEUE_URL", &format!("{endpoint}/111122223333/jobs")),
            ("TABLE_NAME", SUBSCRIPTIONS),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    };
    let source = BridgeEvents {
        detail: order(DETAIL_BYTES)?,
        next: 0,
        subscribers: Arc::clone(subscribers),
    };
    let log = directory.join("function.log");
    let mut environment = Environment::start(&program, Box::new(source), &log)?;
    let cold_start = environment.first_poll()?;
    let first = environment.invoke(1)?;
    let before = aws.seen().calls;
    let cpu_before = CpuTime::of(environment.pid())?;
    let phase = environment.invoke(events)?;
    let cpu = CpuTime::of(environment.pid())?.since(&cpu_before);
    let seen = aws.seen();
    if let Some(problem) = seen.problem {
        return Err(Error::new(problem));
    }
    let jobs = count(events * fan_out);
    let times: Vec<f64> = phase.times.iter().copied().map(ms).collect();
    let mut figures: BTreeMap<String, f64> = [
        ("cold_start_ms", ms(cold_start)),
        ("first_event_ms", ms(first.elapsed)),
        (
            "event_ms",
            spread(&times).map_or(0.0, |spread| spread.median),
        ),
        (
            "events_per_second",
            count(events) / phase.elapsed.as_secs_f64(),
        ),
        ("jobs_per_second", jobs / phase.elapsed.as_secs_f64()),
        ("cpu_us_per_job", cpu.as_secs_f64() * 1e6 / jobs),
        ("peak_memory_mib", peak_memory_mib(environment.pid())?),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for (name, value) in figures_of_calls(&before, &seen.calls, jobs) {
        figures.insert(name.replace("_per_delivery", "_per_job"), value);
    }
    Ok(Life { fan_out, figures })
}
