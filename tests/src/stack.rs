//! The service as it is deployed: the real template on a local AWS that enforces IAM, and the real
//! bootstraps in it.
//!
//! `infra/local_stack.py` starts it, each time on a free port and in a state directory of its own,
//! so any number of stacks run side by side. A stack ends when it is dropped, and by itself when
//! the test process ends in any other way.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::sync::Mutex;

mod aws;
mod command;
mod environments;
mod log;
mod partner;
mod publisher;
mod receiver;
mod records;

pub use aws::Queue;
use log::Log;
pub use log::{Function, Line};
pub use partner::Partner;
pub use publisher::Publisher;
pub use receiver::DeployedReceiver;

/// The event types that become webhooks in a stack. Tests that share one have a type each, so that
/// no test's event reaches another's partners.
pub const EVENT_TYPES: [&str; 15] = [
    "OrderPaid",
    "OrderRefunded",
    "OrderPlaced",
    "OrderPacked",
    "OrderShipped",
    "OrderDelayed",
    "OrderArrived",
    "OrderReturned",
    "OrderCancelled",
    "OrderReopened",
    "OrderSplit",
    "OrderMerged",
    "OrderArchived",
    "OrderReviewed",
    "OrderStored",
];

/// Hours of the retry schedule become seconds, and seconds become the one second that is the least.
const RETRY_TIME_SCALE: &str = "0.0001";

/// How long anything may take that a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// How long a stack may take to start, with several of them starting at once.
const START_LIMIT: Duration = Duration::from_secs(180);
/// How long a stack may take to end; then it is left to its own watch over this process.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// Between two looks at something in AWS that cannot be awaited.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A running stack.
pub struct Stack {
    state: PathBuf,
    description: Description,
    logs: [OnceLock<Log>; 2],
    /// A receipt handle is only good until the next receive, also by another test.
    looks: Mutex<()>,
}

/// What `up --json` prints.
struct Description {
    endpoint_url: String,
    region: String,
    access_key_id: String,
    secret_access_key: String,
    process_group: u32,
    outputs: BTreeMap<String, String>,
}

/// Template parameters on top of those of a local stack.
pub type Settings<'a> = &'a [(&'a str, &'a str)];

#[derive(Default)]
enum Shared {
    #[default]
    Never,
    Once(Weak<Stack>),
    Failed(String),
}

/// The stacks that tests share, by their settings. Each has a lock of its own, so that they start
/// side by side.
static SHARED: std::sync::Mutex<BTreeMap<String, Arc<Mutex<Shared>>>> =
    std::sync::Mutex::new(BTreeMap::new());

impl Stack {
    /// The stack with these settings that all tests of this process share which do not disturb
    /// each other. It ends with the last of them.
    ///
    /// # Panics
    /// If it does not start. The tests that come after fail at once, with the same words.
    pub async fn shared(settings: Settings<'_>) -> Arc<Self> {
        let shared = {
            let mut all = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(format!("{settings:?}")).or_default())
        };
        let mut shared = shared.lock().await;
        match &*shared {
            Shared::Failed(error) => panic!("{error}"),
            Shared::Once(stack) => {
                if let Some(stack) = stack.upgrade() {
                    return stack;
                }
            }
            Shared::Never => {}
        }
        match Self::try_start(settings).await {
            Ok(stack) => {
                let stack = Arc::new(stack);
                *shared = Shared::Once(Arc::downgrade(&stack));
                stack
            }
            Err(error) => {
                *shared = Shared::Failed(error.clone());
                panic!("{error}");
            }
        }
    }

    /// A stack of the test's own.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// A stack of the test's own with these settings.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_with(settings: Settings<'_>) -> Self {
        match Self::try_start(settings).await {
            Ok(stack) => stack,
            Err(error) => panic!("{error}"),
        }
    }

    async fn try_start(settings: Settings<'_>) -> Result<Self, String> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let state = repository()
            .join(".local")
            .join(format!("e2e-{process}-{number}"));
        let mut up = tool("up", &state)?;
        up.args(["--json", "--watch-pid", &process.to_string()]);
        up.arg("--set")
            .arg(format!("RetryTimeScale={RETRY_TIME_SCALE}"));
        up.arg("--set")
            .arg(format!("EventTypes={}", EVENT_TYPES.join(",")));
        // Of two values for one parameter the last counts.
        for (name, value) in settings {
            up.arg("--set").arg(format!("{name}={value}"));
        }
        let printed = run(up, "", START_LIMIT).await?;
        let description = Description::parse(&printed)
            .ok_or_else(|| format!("`up --json` printed something else: {printed}"))?;
        Ok(Self {
            state,
            description,
            logs: [OnceLock::new(), OnceLock::new()],
            looks: Mutex::new(()),
        })
    }

    /// An output of the template.
    ///
    /// # Panics
    /// If there is none of that name.
    #[must_use]
    pub fn output(&self, name: &str) -> &str {
        let value = self.description.outputs.get(name);
        value.unwrap_or_else(|| panic!("the template has no output {name}"))
    }

    /// Where its AWS is reached.
    #[must_use]
    pub fn endpoint_url(&self) -> &str {
        &self.description.endpoint_url
    }

    /// Publishes an event and gives its id.
    ///
    /// # Panics
    /// If that fails, or if nobody listens to events of that type.
    pub async fn publish(&self, event_type: &str, detail: &Value) -> String {
        assert!(EVENT_TYPES.contains(&event_type), "{event_type}");
        let entries = json!([{
            "Source": "shop.orders",
            "DetailType": event_type,
            "Detail": detail.to_string(),
        }]);
        self.publish_entries(&entries.to_string()).await
    }

    /// Publishes the one event in a file of events/, and gives its id.
    ///
    /// # Panics
    /// If that fails.
    pub async fn publish_file(&self, name: &str) -> String {
        self.publish_entries(&read("events", name)).await
    }

    async fn publish_entries(&self, entries: &str) -> String {
        let printed = self.tool("publish", &["-"], entries).await;
        let id = printed.trim_end().strip_prefix("published event ");
        id.expect("one event id").to_owned()
    }

    /// Makes any AWS call for which there is no method here.
    ///
    /// # Panics
    /// If it fails.
    pub async fn call(&self, service: &str, operation: &str, input: &Value) -> Value {
        let input = input.to_string();
        let printed = self.tool("call", &[service, operation, "-"], &input).await;
        serde_json::from_str(&printed).expect("JSON")
    }

    /// Invokes a function and waits for its answer, which is given as it is printed.
    ///
    /// # Panics
    /// If the function fails.
    pub async fn invoke(&self, function: Function, event: &str) -> String {
        let answer = self
            .call("lambda", "Invoke", &self.invocation(function, event))
            .await;
        assert_eq!(answer.get("FunctionError"), None, "{answer}");
        answer["Payload"].as_str().expect("a payload").to_owned()
    }

    fn invocation(&self, function: Function, event: &str) -> Value {
        json!({"FunctionName": self.output(function.name_output()), "Payload": event})
    }

    /// Adds to the environment of a function, which from then on runs in new processes.
    pub async fn set_environment(&self, function: Function, variables: &[(String, String)]) {
        let name = json!({"FunctionName": self.output(function.name_output())});
        let mut change = name.clone();
        let configuration = self.call("lambda", "GetFunctionConfiguration", &name).await;
        change["Environment"] = configuration["Environment"].clone();
        for (name, value) in variables {
            change["Environment"]["Variables"][name] = value.as_str().into();
        }
        self.call("lambda", "UpdateFunctionConfiguration", &change)
            .await;
    }

    /// Looks again and again until there is something, and gives it.
    ///
    /// # Panics
    /// If there is nothing for too long.
    pub async fn until<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look().await {
                return found;
            }
            if Instant::now() > end {
                self.in_vain(what);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Ends the test, and shows what the functions have logged.
    pub(crate) fn in_vain(&self, what: &str) -> ! {
        panic!("waited in vain for {what}\n{}", self.recent_log());
    }

    async fn tool(&self, verb: &str, arguments: &[&str], input: &str) -> String {
        let printed = match tool(verb, &self.state) {
            Ok(mut command) => {
                command.args(arguments);
                run(command, input, PATIENCE).await
            }
            Err(error) => Err(error),
        };
        printed.unwrap_or_else(|error| panic!("{verb} {arguments:?}: {error}"))
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // The followers of the logs end with the stack.
        let Ok(down) = tool("down", &self.state) else {
            return;
        };
        let mut down = down.into_std();
        down.stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut down) = down.spawn() else { return };
        let end = Instant::now() + STOP_LIMIT;
        while matches!(down.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Stack({})", self.description.endpoint_url)
    }
}

impl Description {
    fn parse(printed: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(printed).ok()?;
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        let outputs = json["outputs"].as_object()?.iter();
        Some(Self {
            endpoint_url: text("endpointUrl")?,
            region: text("region")?,
            access_key_id: text("accessKeyId")?,
            secret_access_key: text("secretAccessKey")?,
            process_group: json["pid"].as_u64()?.try_into().ok()?,
            outputs: outputs
                .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect::<Option<_>>()?,
        })
    }
}

/// The root of the repository.
#[must_use]
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this crate lies in the repository")
}

/// A file of the repository.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn read(directory: &str, name: &str) -> String {
    let file = repository().join(directory).join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The Python with the pinned tools: `E2E_PYTHON`, which the Makefile sets, or that of `.venv`.
///
/// # Errors
/// If it is not there.
pub fn python() -> Result<PathBuf, String> {
    let python = std::env::var_os("E2E_PYTHON").map_or_else(
        || repository().join(".venv").join("bin").join("python"),
        PathBuf::from,
    );
    if python.exists() {
        Ok(python)
    } else {
        let python = python.display();
        Err(format!("{python} is not there. Run `make build` first."))
    }
}

fn tool(verb: &str, state: &Path) -> Result<Command, String> {
    let mut command = Command::new(python()?);
    command
        .arg(repository().join("infra").join("local_stack.py"))
        .arg(verb)
        .arg("--state")
        .arg(state)
        .stdin(Stdio::null());
    Ok(command)
}

/// Runs a program with this standard input, and gives what it prints.
///
/// # Errors
/// What it says on standard error if it fails, or that it took too long.
pub async fn run(mut command: Command, input: &str, limit: Duration) -> Result<String, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().expect("it is piped");
    let talk = async {
        // A program that does not want it has an answer all the same.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        child.wait_with_output().await
    };
    let output = tokio::time::timeout(limit, talk)
        .await
        .map_err(|_| format!("{command:?} took more than {} s", limit.as_secs()))?
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        String::from_utf8(output.stdout).map_err(|error| error.to_string())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
