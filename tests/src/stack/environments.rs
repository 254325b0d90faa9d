//! The processes in which Lambda runs the functions.

use std::fs;
use std::process::{Command, Stdio};

use super::Stack;

impl Stack {
    /// Ends every process of the functions at once, as a crash or the kernel would, and gives
    /// their number.
    ///
    /// # Panics
    /// If there is none, or one could not be ended.
    pub fn crash(&self) -> usize {
        let (count, all) = self.kill_functions();
        assert!(count > 0, "no function runs");
        assert!(all, "not all of them could be ended");
        count
    }

    /// The same, whether one runs or not. Gives how many there were, and whether all of them still
    /// ran when they were ended.
    ///
    /// # Panics
    /// If there is no shell.
    pub fn kill_functions(&self) -> (usize, bool) {
        let group = self.description.process_group;
        let bootstraps: Vec<String> = processes()
            .into_iter()
            .filter(|process| process.group == group && process.program.ends_with("/bootstrap"))
            .map(|process| process.id.to_string())
            .collect();
        if bootstraps.is_empty() {
            return (0, true);
        }
        // The shell's own `kill`: every POSIX system has that one.
        let status = Command::new("sh")
            .args(["-c", &format!("kill -KILL {}", bootstraps.join(" "))])
            .stderr(Stdio::null())
            .status()
            .unwrap();
        (bootstraps.len(), status.success())
    }
}

struct Process {
    id: u32,
    group: u32,
    program: String,
}

fn processes() -> Vec<Process> {
    match fs::read_dir("/proc/self") {
        Ok(_) => fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.parse().ok())
            .filter_map(of_proc)
            .collect(),
        Err(_) => of_ps(),
    }
}

/// A process of Linux; `None` if it has ended meanwhile.
fn of_proc(id: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let command_line = fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
    Some(Process {
        id,
        // proc(5): after the name in brackets come state, ppid and pgrp.
        group: rest.split_whitespace().nth(2)?.parse().ok()?,
        program: command_line.split('\0').next()?.to_owned(),
    })
}

/// The processes of any other POSIX system.
fn of_ps() -> Vec<Process> {
    let output = Command::new("ps")
        .args(["-A", "-o", "pid=", "-o", "pgid=", "-o", "args="])
        .output()
        .unwrap();
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let process = |line: &str| {
        let mut words = line.split_whitespace();
        Some(Process {
            id: words.next()?.parse().ok()?,
            group: words.next()?.parse().ok()?,
            program: words.next()?.to_owned(),
        })
    };
    lines.lines().filter_map(process).collect()
}
