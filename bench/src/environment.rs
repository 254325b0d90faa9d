//! Lambda, for one environment: it starts a program, hands it one event after the other by the
//! Runtime API, and takes the times.
//!
//! The thread that reads the program's requests is also the one that has the next event ready, so
//! that nothing has to be woken up between two invocations.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Error;
use crate::http::{Connection, Server};

/// What an invocation is told that it has.
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(120);

/// How long nothing may happen while a program is running.
const PATIENCE: Duration = Duration::from_secs(130);

/// How much of a log is shown when something went wrong, in bytes.
const LOG_TAIL_BYTES: usize = 2000;

/// The events of a run, and how they should end.
pub trait Events: Debug + Send {
    /// Writes the next event.
    fn write_next(&mut self, event: &mut Vec<u8>);

    /// Looks at the response to it.
    ///
    /// # Errors
    /// If it is not the right one.
    fn check(&mut self, response: &[u8]) -> Result<(), Error>;
}

/// A program with its environment variables, without those that Lambda sets.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Its environment variables.
    pub variables: BTreeMap<String, String>,
}

/// How long a number of invocations took.
#[derive(Debug, Clone)]
pub struct Phase {
    /// From the first event to the last response.
    pub elapsed: Duration,
    /// Of each invocation, from its event to its response.
    pub times: Vec<Duration>,
}

/// What has happened, as the main thread is told.
#[derive(Debug)]
enum Told {
    Polled(Instant),
    /// As many invocations have ended as were asked for, and the program asks for the next.
    Done(Phase),
    Broken(Error),
}

#[derive(Debug)]
struct Driver {
    events: Box<dyn Events>,
    told: Sender<Told>,
    has_polled: bool,
    /// How many invocations have been asked for, begun and ended.
    wanted: usize,
    begun: usize,
    ended: usize,
    phase_began: Instant,
    invocation_began: Instant,
    last_ended: Instant,
    times: Vec<Duration>,
}

type Shared = Arc<(Mutex<Driver>, Condvar)>;

/// One environment. Its process is killed when this is dropped.
#[derive(Debug)]
pub struct Environment {
    child: Child,
    spawned: Instant,
    log: PathBuf,
    told: Receiver<Told>,
    shared: Shared,
    _server: Server,
}

impl Environment {
    /// Starts a program, which writes its log to a file.
    ///
    /// # Errors
    /// If it can not be started.
    pub fn start(program: &Program, events: Box<dyn Events>, log: &Path) -> Result<Self, Error> {
        let (tell, told) = channel();
        let now = Instant::now();
        let shared: Shared = Arc::new((
            Mutex::new(Driver {
                events,
                told: tell,
                has_polled: false,
                wanted: 0,
                begun: 0,
                ended: 0,
                phase_began: now,
                invocation_began: now,
                last_ended: now,
                times: Vec::new(),
            }),
            Condvar::new(),
        ));
        let served = Arc::clone(&shared);
        let server = Server::start(move |stream| {
            speak(stream, &served).inspect_err(|error| {
                // A process that was killed breaks its connections; then nobody is listening.
                let error = Error::new(format!("the Runtime API: {error}"));
                let _ = lock(&served).told.send(Told::Broken(error));
            })
        })?;
        let (name, arguments) = program
            .command
            .split_first()
            .ok_or_else(|| Error::new("no program"))?;
        // To its end, wherever that is: see `empty_log`.
        File::create(log)?;
        let output = File::options().append(true).open(log)?;
        let mut command = Command::new(name);
        command
            .args(arguments)
            .env_clear()
            .envs([
                (
                    "AWS_LAMBDA_RUNTIME_API",
                    server.address().to_string().as_str(),
                ),
                ("AWS_LAMBDA_FUNCTION_NAME", "function"),
                ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
                ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
                ("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/function"),
                ("AWS_LAMBDA_LOG_STREAM_NAME", "stream"),
                ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
                ("AWS_REGION", "eu-central-1"),
                ("AWS_DEFAULT_REGION", "eu-central-1"),
                ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
                ("AWS_SECRET_ACCESS_KEY", "secret"),
            ])
            .envs(&program.variables)
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output);
        let spawned = Instant::now();
        let child = command
            .spawn()
            .map_err(|error| Error::new(format!("{}: {error}", name.to_string_lossy())))?;
        Ok(Self {
            child,
            spawned,
            log: log.to_owned(),
            told,
            shared,
            _server: server,
        })
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the first poll: how long it took from the start of the process.
    ///
    /// # Errors
    /// If the process ends before, or does not come so far.
    pub fn first_poll(&mut self) -> Result<Duration, Error> {
        match self.wait()? {
            Told::Polled(at) => Ok(at - self.spawned),
            Told::Done(_) | Told::Broken(_) => Err(Error::new("an invocation ended unasked")),
        }
    }

    /// Hands out this many events, one after the other.
    ///
    /// # Errors
    /// If one does not end as it should.
    pub fn invoke(&mut self, invocations: usize) -> Result<Phase, Error> {
        {
            let mut driver = lock(&self.shared);
            driver.wanted += invocations;
            driver.times = Vec::with_capacity(invocations);
        }
        self.shared.1.notify_all();
        match self.wait()? {
            Told::Done(phase) => Ok(phase),
            Told::Polled(_) | Told::Broken(_) => Err(Error::new("an unexpected poll")),
        }
    }

    /// What the program has written so far.
    ///
    /// # Errors
    /// If it can not be read.
    pub fn log(&self) -> Result<Vec<u8>, Error> {
        Ok(std::fs::read(&self.log)?)
    }

    /// Throws away what the program has written so far.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn empty_log(&self) -> Result<(), Error> {
        File::create(&self.log)?;
        Ok(())
    }

    fn wait(&mut self) -> Result<Told, Error> {
        let began = Instant::now();
        let problem = loop {
            match self.told.recv_timeout(Duration::from_millis(200)) {
                Ok(Told::Broken(error)) => break error,
                Ok(told) => return Ok(told),
                Err(RecvTimeoutError::Disconnected) => break Error::new("the driver has ended"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(status) = self.child.try_wait()? {
                break Error::new(format!("the program has ended: {status}"));
            }
            if began.elapsed() > PATIENCE && !self.is_moving() {
                break Error::new(format!("nothing for {} s", PATIENCE.as_secs()));
            }
        };
        let log = self.log().unwrap_or_default();
        let tail = log
            .get(log.len().saturating_sub(LOG_TAIL_BYTES)..)
            .unwrap_or_default();
        let tail = String::from_utf8_lossy(tail);
        Err(Error::new(format!("{problem}\nThe log ends with:\n{tail}")))
    }

    fn is_moving(&self) -> bool {
        lock(&self.shared).last_ended.elapsed() < PATIENCE
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Driver> {
    shared.0.lock().unwrap_or_else(PoisonError::into_inner)
}

fn speak(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut connection = Connection::new(stream);
    let (mut event, mut answer) = (Vec::new(), Vec::new());
    while let Some(request) = connection.read()? {
        let now = Instant::now();
        if request
            .head
            .starts_with(b"GET /2018-06-01/runtime/invocation/next ")
        {
            let id = begin(shared, now, &mut event);
            answer.clear();
            answer.extend_from_slice(next_head(id, event.len()).as_bytes());
            answer.extend_from_slice(&event);
            lock(shared).invocation_began = Instant::now();
            connection.send(&answer)?;
            continue;
        }
        let problem = if is_response(request.head) {
            end(shared, now, request.body).err()
        } else {
            let line = request.head.split(|byte| *byte == b'\r').next();
            let line = String::from_utf8_lossy(line.unwrap_or_default());
            let body = String::from_utf8_lossy(request.body);
            Some(Error::new(format!("{line}: {body:.500}")))
        };
        if let Some(problem) = problem {
            let _ = lock(shared).told.send(Told::Broken(problem));
        }
        connection.send(b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\n{}")?;
    }
    Ok(())
}

fn is_response(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    line.starts_with(b"POST /2018-06-01/runtime/invocation/")
        && line.ends_with(b"/response HTTP/1.1")
}

/// Waits until an invocation is wanted, and gives its number.
fn begin(shared: &Shared, now: Instant, event: &mut Vec<u8>) -> usize {
    let mut driver = lock(shared);
    if !driver.has_polled {
        driver.has_polled = true;
        let _ = driver.told.send(Told::Polled(now));
    } else if driver.ended == driver.wanted {
        let phase = Phase {
            elapsed: driver.last_ended - driver.phase_began,
            times: std::mem::take(&mut driver.times),
        };
        let _ = driver.told.send(Told::Done(phase));
    }
    if driver.begun == driver.wanted {
        while driver.begun == driver.wanted {
            driver = shared
                .1
                .wait(driver)
                .unwrap_or_else(PoisonError::into_inner);
        }
        driver.phase_began = Instant::now();
    }
    driver.begun += 1;
    driver.events.write_next(event);
    driver.begun
}

fn end(shared: &Shared, now: Instant, response: &[u8]) -> Result<(), Error> {
    let mut driver = lock(shared);
    if driver.ended + 1 != driver.begun {
        return Err(Error::new("a response to no invocation"));
    }
    driver.ended += 1;
    driver.last_ended = now;
    let time = now - driver.invocation_began;
    driver.times.push(time);
    driver.events.check(response)
}

fn next_head(id: usize, length: usize) -> String {
    let deadline = SystemTime::now() + FUNCTION_TIMEOUT;
    let deadline = deadline
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
         lambda-runtime-aws-request-id: 8476a536-e9f4-11e8-9739-{id:012}\r\n\
         lambda-runtime-deadline-ms: {deadline}\r\n\
         lambda-runtime-invoked-function-arn: \
         arn:aws:lambda:eu-central-1:111122223333:function:function\r\n\
         lambda-runtime-trace-id: \
         Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Parent=9a9197af755a6419;Sampled=0\r\n\
         content-length: {length}\r\n\r\n"
    )
}
