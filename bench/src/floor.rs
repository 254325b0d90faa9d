//! The bare client, as a process of its own: the program is `src/bin/floor.rs`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::Error;
use crate::environment::Phase;

/// A bare client. Its process is killed when this is dropped.
#[derive(Debug)]
pub struct Floor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Floor {
    /// Starts it for these urls, to each of which it POSTs this body in each batch.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(
        program: &Path,
        urls: &[String],
        body: &str,
        directory: &Path,
    ) -> Result<Self, Error> {
        let file = directory.join("body.json");
        std::fs::write(&file, body)?;
        let mut child = Command::new(program)
            .env_clear()
            .env("FLOOR_URLS", urls.join(","))
            .env("FLOOR_BODY", file)
            .env("FLOOR_CA", directory.join("authority.pem"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Error::new(format!("{}: {error}", program.display())))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or_else(|| Error::new("no pipes"))?;
        let mut floor = Self {
            child,
            input,
            output: BufReader::new(output),
        };
        floor.line()?;
        Ok(floor)
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it send this many batches.
    ///
    /// # Errors
    /// If one could not be sent.
    pub fn send(&mut self, batches: usize) -> Result<Phase, Error> {
        writeln!(self.input, "{batches}")?;
        let line = self.line()?;
        let times = line
            .split_whitespace()
            .map(|time| time.parse().map(Duration::from_micros))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Error::new(format!("the bare client wrote `{line}`: {error}")))?;
        if times.len() != batches {
            return Err(Error::new("the bare client sent another number of batches"));
        }
        Ok(Phase {
            elapsed: times.iter().sum(),
            times,
        })
    }

    fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(Error::new("the bare client has ended"));
        }
        Ok(line)
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
