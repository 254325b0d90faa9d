//! The logs of the functions, as CloudWatch Logs has them.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::watch;

use super::{PATIENCE, Stack, tool};

/// How many lines of each log are shown when something was waited for in vain.
const SHOWN_LINES: usize = 40;

/// One of the two functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Events become jobs.
    Dispatch,
    /// Jobs become webhooks.
    Deliver,
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::Deliver => "deliver",
        }
    }

    /// The template's output with the function's name in AWS.
    #[must_use]
    pub fn name_output(self) -> &'static str {
        match self {
            Self::Dispatch => "DispatchFunctionName",
            Self::Deliver => "DeliverFunctionName",
        }
    }
}

/// A line that a function has logged.
#[derive(Clone, Debug)]
pub struct Line {
    /// The invocation that it belongs to.
    pub request_id: String,
    /// The line itself.
    pub json: Value,
}

/// A log that is being read. It grows when invocations end.
pub(super) struct Log {
    follower: Child,
    lines: Arc<Mutex<Vec<Line>>>,
    changes: watch::Sender<()>,
}

impl Stack {
    /// The lines so far that have all of these fields.
    #[must_use]
    pub fn lines(&self, function: Function, fields: &Value) -> Vec<Line> {
        let lines = self.log(function).lines.lock().unwrap();
        let fits = |line: &&Line| has(&line.json, fields);
        lines.iter().filter(fits).cloned().collect()
    }

    /// Waits for the first line that has all of these fields.
    ///
    /// # Panics
    /// If it does not come.
    pub async fn line(&self, function: Function, fields: &Value) -> Line {
        let mut lines = self.lines_until(function, fields, 1).await;
        lines.swap_remove(0)
    }

    /// Waits until there are this many lines that have all of these fields, and gives all that
    /// have.
    ///
    /// # Panics
    /// If they do not come.
    pub async fn lines_until(&self, function: Function, fields: &Value, count: usize) -> Vec<Line> {
        let mut changes = self.log(function).changes.subscribe();
        let wait = async {
            loop {
                let lines = self.lines(function, fields);
                if lines.len() >= count {
                    return lines;
                }
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(lines) => lines,
            Err(_) => self.in_vain(&format!("{count} lines of {function:?} with {fields}")),
        }
    }

    /// The end of both logs, for a person.
    pub(super) fn recent_log(&self) -> String {
        let mut text = String::new();
        for function in [Function::Dispatch, Function::Deliver] {
            let lines = self.lines(function, &Value::Object(serde_json::Map::new()));
            text += &format!("The log of {}:\n", function.name());
            for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
                text += &format!("{}\n", line.json);
            }
        }
        text
    }

    fn log(&self, function: Function) -> &Log {
        let [dispatch, deliver] = &self.logs;
        let log = match function {
            Function::Dispatch => dispatch,
            Function::Deliver => deliver,
        };
        log.get_or_init(|| Log::follow(self, function))
    }
}

/// Whether an object has all of these fields with these values.
fn has(json: &Value, fields: &Value) -> bool {
    let fields = fields.as_object().expect("an object");
    fields.iter().all(|(name, value)| json[name] == *value)
}

impl Log {
    fn follow(stack: &Stack, function: Function) -> Self {
        let mut command = tool("logs", &stack.state)
            .expect("`up` has found it")
            .into_std();
        let mut follower = command
            .args([function.name(), "--follow", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = follower.stdout.take().expect("it is piped");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let changes = watch::Sender::new(());
        // A thread, since the tests that share a stack have a runtime each.
        std::thread::spawn({
            let (lines, changes) = (Arc::clone(&lines), changes.clone());
            move || read(stdout, &lines, &changes)
        });
        Self {
            follower,
            lines,
            changes,
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.follower.kill();
        let _ = self.follower.wait();
    }
}

fn read(stdout: ChildStdout, lines: &Mutex<Vec<Line>>, changes: &watch::Sender<()>) {
    let mut request_ids = HashMap::new();
    for event in BufReader::new(stdout).lines().map_while(Result::ok) {
        let event: Value = serde_json::from_str(&event).expect("a CloudWatch Logs event");
        let message = event["message"].as_str().expect("a message");
        let stream = event["logStreamName"].as_str().expect("a stream");
        let start = message.strip_prefix("START RequestId: ");
        if let Some(id) = start.and_then(|start| start.split(' ').next()) {
            request_ids.insert(stream.to_owned(), id.to_owned());
        } else if let Ok(json @ Value::Object(_)) = serde_json::from_str(message) {
            let request_id = request_ids.get(stream).cloned().unwrap_or_default();
            lines.lock().unwrap().push(Line { request_id, json });
            changes.send_replace(());
        }
    }
}
