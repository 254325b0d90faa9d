//! Lambda, for one environment of a real bootstrap: it starts the program with a clean
//! environment, hands it events by the Runtime API and sees how each invocation ends. Like
//! Lambda it waits no longer than the function's time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::http1::{Request, read_request, response};

/// How long a program may take to its first poll, to its end, or to a log line.
const PATIENCE: Duration = Duration::from_secs(15);

/// How an invocation ended.
#[derive(Debug)]
#[must_use]
pub enum Ending {
    /// The function returned this.
    Response(Vec<u8>),
    /// The function returned an error: the body that Lambda got, with `errorMessage`.
    Error(Value),
    /// The process ended during the invocation.
    Crashed(ExitStatus),
    /// The invocation's time was over, and the process was killed.
    TimedOut,
}

impl Ending {
    /// The message of the error that the function returned.
    ///
    /// # Panics
    /// If the invocation ended in any other way.
    #[must_use]
    pub fn error_message(&self) -> &str {
        match self {
            Self::Error(error) => error["errorMessage"].as_str().expect("a message"),
            other => panic!("expected an error, got {other:?}"),
        }
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Invocation>,
    invocations: u64,
    running: HashSet<String>,
    ended: HashMap<String, Ending>,
    polls: u64,
    init_error: Option<Value>,
    exit: Option<ExitStatus>,
    lines: Vec<String>,
    open_pipes: usize,
}

struct Invocation {
    id: String,
    event: Vec<u8>,
    deadline: SystemTime,
}

type Shared = Arc<(Mutex<State>, watch::Sender<()>)>;

/// One environment. Its process is killed when this is dropped.
pub struct Environment {
    shared: Shared,
    pid: u32,
    kill: Arc<Notify>,
    server: JoinHandle<()>,
}

impl Environment {
    /// Starts a bootstrap with these environment variables and those that Lambda sets, and no
    /// others. Does not wait for anything.
    pub async fn start<'a>(
        bootstrap: &Path,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut child = Command::new(bootstrap)
            .env_clear()
            .envs([
                ("AWS_LAMBDA_RUNTIME_API", address.as_str()),
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
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", bootstrap.display()));
        let shared: Shared = Arc::new((Mutex::new(State::default()), watch::Sender::new(())));
        shared.0.lock().unwrap().open_pipes = 2;
        tokio::spawn(read_lines(
            child.stdout.take().unwrap(),
            Arc::clone(&shared),
        ));
        tokio::spawn(read_lines(
            child.stderr.take().unwrap(),
            Arc::clone(&shared),
        ));
        let pid = child.id().expect("it has just been started");
        let kill = Arc::new(Notify::new());
        tokio::spawn(watch_over(child, Arc::clone(&kill), Arc::clone(&shared)));
        let server = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Self {
            shared,
            pid,
            kill,
            server,
        }
    }

    /// Waits for the first poll, or for the end of the process if that comes first.
    ///
    /// # Errors
    /// The exit status, if the process ended without having polled.
    pub async fn ready(&self) -> Result<(), ExitStatus> {
        self.until("the first poll", |state| {
            (state.polls > 0).then_some(Ok(())).or(state.exit.map(Err))
        })
        .await
    }

    /// Hands over an event and waits until the invocation has ended.
    pub async fn invoke(&self, event: &str, time: Duration) -> Ending {
        let id = {
            let mut state = self.shared.0.lock().unwrap();
            state.invocations += 1;
            let id = format!("8476a536-e9f4-11e8-9739-{:012}", state.invocations);
            state.waiting.push_back(Invocation {
                id: id.clone(),
                event: event.as_bytes().to_owned(),
                deadline: SystemTime::now() + time,
            });
            state.running.insert(id.clone());
            id
        };
        self.shared.1.send_replace(());
        let end = self.wait(|state| {
            let crashed = || state.exit.map(Ending::Crashed);
            state.ended.remove(&id).or_else(crashed)
        });
        if let Ok(ending) = tokio::time::timeout(time, end).await {
            return ending;
        }
        self.kill();
        Ending::TimedOut
    }

    /// Ends the process at once, as Lambda or the kernel may.
    pub fn kill(&self) {
        self.kill.notify_one();
    }

    /// Stops the process from running, as Lambda does between two invocations, until
    /// [`Environment::thaw`].
    pub async fn freeze(&self) {
        self.signal("STOP").await;
    }

    /// Lets the process run again.
    pub async fn thaw(&self) {
        self.signal("CONT").await;
    }

    async fn signal(&self, name: &str) {
        // The shell's own `kill`: every POSIX system has that one.
        let status = Command::new("sh")
            .args(["-c", &format!("kill -{name} {}", self.pid)])
            .status()
            .await
            .unwrap();
        assert!(status.success(), "kill -{name}: {status}");
    }

    /// The most memory that the process has had, in KiB.
    ///
    /// # Panics
    /// If the process has ended.
    #[must_use]
    pub fn peak_memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.expect("VmHWM").parse().unwrap()
    }

    /// How many file descriptors the process has open.
    ///
    /// # Panics
    /// If the process has ended.
    #[must_use]
    pub fn open_files(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).unwrap();
        files.count()
    }

    /// How often the function has asked for an event.
    #[must_use]
    pub fn polls(&self) -> u64 {
        self.shared.0.lock().unwrap().polls
    }

    /// What the function told Lambda about a failed start, if it did.
    #[must_use]
    pub fn init_error(&self) -> Option<Value> {
        self.shared.0.lock().unwrap().init_error.clone()
    }

    /// Waits for a line of the program's output that contains all of these texts, and gives it.
    ///
    /// # Panics
    /// If it does not come.
    pub async fn line_with(&self, texts: &[&str]) -> String {
        self.until(&format!("a line with {texts:?}"), |state| {
            let fits = |line: &&String| texts.iter().all(|text| line.contains(text));
            state.lines.iter().find(fits).cloned()
        })
        .await
    }

    /// Ends the process and gives all lines that it has written.
    pub async fn stop(&self) -> Vec<String> {
        self.kill();
        self.output().await
    }

    /// Waits for the end of the process and gives all lines that it has written.
    pub async fn output(&self) -> Vec<String> {
        self.until("the end of the output", |state| {
            (state.open_pipes == 0 && state.exit.is_some()).then(|| state.lines.clone())
        })
        .await
    }

    async fn until<T>(&self, what: &str, find: impl FnMut(&mut State) -> Option<T>) -> T {
        match tokio::time::timeout(PATIENCE, self.wait(find)).await {
            Ok(found) => found,
            Err(_) => {
                let lines = &self.shared.0.lock().unwrap().lines;
                panic!("waited in vain for {what}; output:\n{}", lines.join("\n"))
            }
        }
    }

    async fn wait<T>(&self, mut find: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut changes = self.shared.1.subscribe();
        loop {
            if let Some(found) = find(&mut self.shared.0.lock().unwrap()) {
                return found;
            }
            changes.changed().await.unwrap();
        }
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        self.kill();
        self.server.abort();
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Environment({})", self.pid)
    }
}

async fn watch_over(mut child: Child, kill: Arc<Notify>, shared: Shared) {
    let status = tokio::select! {
        status = child.wait() => status.unwrap(),
        () = kill.notified() => {
            child.start_kill().unwrap();
            child.wait().await.unwrap()
        }
    };
    shared.0.lock().unwrap().exit = Some(status);
    shared.1.send_replace(());
}

async fn read_lines(pipe: impl AsyncRead + Unpin, shared: Shared) {
    let mut lines = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        shared.0.lock().unwrap().lines.push(line);
        shared.1.send_replace(());
    }
    shared.0.lock().unwrap().open_pipes -= 1;
    shared.1.send_replace(());
}

async fn serve(listener: TcpListener, shared: Shared) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            // A process that was killed leaves broken connections.
            let _ = speak(stream, &shared).await;
        });
    }
}

async fn speak(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await? {
        let path = request.target.strip_prefix("/2018-06-01/runtime/");
        let path = path.unwrap_or_else(|| panic!("{}", request.target));
        let words: Vec<&str> = path.split('/').collect();
        let answer = match words[..] {
            ["invocation", "next"] => next(shared).await,
            ["invocation", id, "response"] => {
                end(shared, id, Ending::Response(request.body));
                response(202, &[], b"{}")
            }
            ["invocation", id, "error"] => {
                end(shared, id, Ending::Error(json_of(&request)));
                response(202, &[], b"{}")
            }
            ["init", "error"] => {
                shared.0.lock().unwrap().init_error = Some(json_of(&request));
                response(202, &[], b"{}")
            }
            _ => response(404, &[], b"{}"),
        };
        stream.write_all(&answer).await?;
    }
    Ok(())
}

async fn next(shared: &Shared) -> Vec<u8> {
    let mut changes = shared.1.subscribe();
    shared.0.lock().unwrap().polls += 1;
    shared.1.send_replace(());
    let invocation = loop {
        if let Some(invocation) = shared.0.lock().unwrap().waiting.pop_front() {
            break invocation;
        }
        changes.changed().await.unwrap();
    };
    let deadline = invocation.deadline.duration_since(UNIX_EPOCH).unwrap();
    let headers = [
        ("content-type", "application/json"),
        ("lambda-runtime-aws-request-id", &invocation.id),
        (
            "lambda-runtime-deadline-ms",
            &deadline.as_millis().to_string(),
        ),
        (
            "lambda-runtime-invoked-function-arn",
            "arn:aws:lambda:eu-central-1:111122223333:function:function",
        ),
        (
            "lambda-runtime-trace-id",
            "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Parent=9a9197af755a6419;Sampled=0",
        ),
    ];
    response(200, &headers, &invocation.event)
}

fn end(shared: &Shared, id: &str, ending: Ending) {
    let mut state = shared.0.lock().unwrap();
    assert!(state.running.remove(id), "no such invocation: {id}");
    state.ended.insert(id.to_owned(), ending);
    drop(state);
    shared.1.send_replace(());
}

fn json_of(request: &Request) -> Value {
    serde_json::from_slice(&request.body)
        .unwrap_or_else(|_| Value::String(request.text().to_owned()))
}
