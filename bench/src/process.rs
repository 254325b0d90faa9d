//! What the kernel tells of a process: CPU time and memory of it alone.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crate::Error;

/// Of `/proc/PID/stat`: `USER_HZ`, which is 100 on every architecture that Lambda has.
const TICK: Duration = Duration::from_millis(10);

/// By how much ticks may say too much between two looks: user and kernel time are each cut off.
const ROUNDED: Duration = Duration::from_millis(20);

/// The CPU time that a process had used at some moment, user and kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuTime {
    /// Nanoseconds of each of its threads.
    threads: BTreeMap<u32, u64>,
    /// Of all threads, also of those that have ended, in ticks.
    ticks: u32,
}

impl CpuTime {
    /// Of a process that is running.
    ///
    /// # Errors
    /// If it is not.
    pub fn of(pid: u32) -> Result<Self, Error> {
        let stat = read(&format!("/proc/{pid}/stat"))?;
        let ticks = ticks(&stat).ok_or_else(|| Error::new(format!("/proc/{pid}/stat: {stat}")))?;
        let mut threads = BTreeMap::new();
        let directory = format!("/proc/{pid}/task");
        for entry in
            fs::read_dir(&directory).map_err(|error| Error::new(format!("{directory}: {error}")))?
        {
            let Ok(entry) = entry else { continue };
            let id = entry.file_name().to_string_lossy().parse::<u32>();
            // A thread may end while it is asked about.
            let schedule = fs::read_to_string(entry.path().join("schedstat"));
            if let (Ok(id), Ok(schedule)) = (id, schedule)
                && let Some(used) = schedule
                    .split(' ')
                    .next()
                    .and_then(|text| text.parse().ok())
            {
                threads.insert(id, used);
            }
        }
        Ok(Self { threads, ticks })
    }

    /// How much was used since an earlier moment: to the nanosecond if no thread has ended since,
    /// otherwise in ticks.
    ///
    /// A thread that begins and ends in between is on neither list. What it used shows in the ticks,
    /// which are those of the whole process, so that the sum of the others is not taken where it is
    /// less than these can be. It is then a lower bound, of which a few ticks may be missing.
    #[must_use]
    pub fn since(&self, before: &Self) -> Duration {
        let ticks = TICK * self.ticks.saturating_sub(before.ticks);
        let is_complete = !self.threads.is_empty()
            && before
                .threads
                .keys()
                .all(|id| self.threads.contains_key(id));
        if is_complete {
            let sum = |threads: &BTreeMap<u32, u64>| threads.values().sum::<u64>();
            let threads = sum(&self.threads).saturating_sub(sum(&before.threads));
            Duration::from_nanos(threads).max(ticks.saturating_sub(ROUNDED))
        } else {
            ticks
        }
    }

    /// What a process that has not begun has used.
    #[must_use]
    pub fn none() -> Self {
        Self {
            threads: BTreeMap::new(),
            ticks: 0,
        }
    }
}

/// `utime` and `stime` of `/proc/PID/stat` (proc(5)).
fn ticks(stat: &str) -> Option<u32> {
    // The name of the program stands in brackets and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let kernel: u32 = fields.next()?.parse().ok()?;
    Some(user + kernel)
}

/// The most memory that a process has had resident, in MiB (`VmHWM`).
///
/// # Errors
/// If it is not running.
pub fn peak_memory_mib(pid: u32) -> Result<f64, Error> {
    memory_mib(pid, "VmHWM:")
}

/// The memory that a process has resident, in MiB (`VmRSS`).
///
/// # Errors
/// If it is not running.
pub fn memory_now_mib(pid: u32) -> Result<f64, Error> {
    memory_mib(pid, "VmRSS:")
}

fn memory_mib(pid: u32, name: &str) -> Result<f64, Error> {
    let status = read(&format!("/proc/{pid}/status"))?;
    let kib =
        kib(&status, name).ok_or_else(|| Error::new(format!("process {pid} has no {name}")))?;
    Ok(f64::from(kib) / 1024.0)
}

fn kib(status: &str, name: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn read(path: &str) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| Error::new(format!("{path}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far more than what ticks can be wrong by.
    const BUSY: Duration = Duration::from_millis(200);

    #[test]
    fn the_fields_of_a_program_with_an_odd_name_are_found() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 5 0 0 0 12 30 0 0 20 0 1 0 99 1 1";
        assert_eq!(ticks(stat), Some(42));
    }

    #[test]
    fn memory_is_read_by_its_name() {
        let status = "Name:\tx\nVmHWM:\t   20480 kB\nVmRSS:\t   10240 kB\n";
        assert_eq!(kib(status, "VmHWM:"), Some(20_480));
        assert_eq!(kib(status, "VmRSS:"), Some(10_240));
        assert_eq!(kib(status, "VmSwap:"), None);
    }

    #[test]
    fn nanoseconds_are_used_while_no_thread_has_ended() {
        let at = |threads: &[(u32, u64)], ticks| CpuTime {
            threads: threads.iter().copied().collect(),
            ticks,
        };
        let before = at(&[(1, 1_000), (2, 500)], 4);
        let more = at(&[(1, 3_000), (2, 600), (3, 50)], 6);
        assert_eq!(more.since(&before), Duration::from_nanos(2_150));
        let fewer = at(&[(1, 3_000)], 9);
        assert_eq!(fewer.since(&before), Duration::from_millis(50));
    }

    #[test]
    fn a_thread_that_began_and_ended_in_between_is_not_lost() {
        let at = |nanoseconds, ticks| CpuTime {
            threads: [(1, nanoseconds)].into(),
            ticks,
        };
        let (before, after) = (at(5_000_000, 1), at(35_000_000, 21));
        // 200 ms in all, of which the ticks may have 20 too many; the thread that is left used 30.
        assert_eq!(after.since(&before), Duration::from_millis(180));
        let alone = at(35_000_000, 5);
        assert_eq!(alone.since(&before), Duration::from_millis(30));
    }

    #[test]
    fn time_of_a_thread_that_has_ended_counts_in_a_real_process() {
        let pid = std::process::id();
        let before = CpuTime::of(pid).unwrap();
        let worker = std::thread::spawn(|| {
            let used = || {
                let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
                let used = text.split(' ').next().unwrap().parse().unwrap();
                Duration::from_nanos(used)
            };
            while used() < BUSY {}
        });
        worker.join().unwrap();
        let used = CpuTime::of(pid).unwrap().since(&before);
        assert!(used >= BUSY - ROUNDED * 2, "{used:?}");
    }

    #[test]
    fn this_process_has_used_time_and_memory() {
        let pid = std::process::id();
        let before = CpuTime::of(pid).unwrap();
        assert!(!before.threads.is_empty());
        let now = memory_now_mib(pid).unwrap();
        assert!(now > 0.0);
        assert!(peak_memory_mib(pid).unwrap() >= now);
    }
}
