//! A function that runs on a stage, and whether it has done its job.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::aws::{Aws, Content, Seen};
use crate::deliver::{Stage, count, ms};
use crate::environment::{Environment, Events, Program};
use crate::process::CpuTime;
use crate::scenario::{Kind, Programs};
use crate::workload::{BATCH, DELIVERIES, SUBSCRIPTIONS, Workload};

/// The limits of the heap in a function of 256 MB, as Lambda's own runtime sets them: a twentieth for
/// what is young, of which there are two, and the rest.
const NODE_HEAP: [&str; 2] = ["--max-old-space-size=231", "--max-semi-space-size=12"];

/// One batch after the other, from the first.
#[derive(Debug)]
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
        // Those of the life before this one.
        self.partners.forget_requests();
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
            (Kind::NodeAll | Kind::NodeFailures | Kind::NodeHttpAll, Some((node, bundle))) => {
                let mut command = vec![node.into()];
                command.extend(NODE_HEAP.map(Into::into));
                command.push(bundle.into());
                (command, "NODE_EXTRA_CA_CERTS")
            }
            (Kind::OursAll | Kind::OursFailures, _) => {
                (vec![programs.deliver.clone().into()], "EXTRA_CA_FILE")
            }
            (Kind::NodeAll | Kind::NodeFailures | Kind::NodeHttpAll | Kind::Floor, _) => {
                return Err(Error::new("there is no such function"));
            }
        };
        if let Some(client) = kind.http_client() {
            variables.insert("HTTP_CLIENT".into(), client.into());
        }
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
    pub(crate) aws: Arc<Aws>,
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
            // What there is a record of goes on having one.
            _ if self.stage.scenario.again => deliveries,
            Kind::OursAll | Kind::NodeAll | Kind::NodeHttpAll => deliveries,
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
