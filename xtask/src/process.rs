//! Child processes with their CPU time and memory, from /proc.

use crate::steps::tied;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A child process, killed on drop.
pub struct Process {
    child: Child,
}

/// Memory and threads of a process.
#[derive(Clone, Copy)]
pub struct Size {
    /// Resident bytes, with pages of the executable.
    pub rss: u64,
    /// Peak of `rss`.
    pub peak: u64,
    /// Anonymous resident bytes: heap and stacks.
    pub anonymous: u64,
    /// Threads.
    pub threads: u64,
}

impl Process {
    /// Starts `program` with its output in the file `log`.
    pub fn start(program: &Path, args: &[String], log: &Path) -> Result<Self> {
        Self::spawn(Command::new(program), args, log)
    }

    /// As [`Process::start`], but the kernel kills the child when this process ends.
    pub fn start_tied(program: &Path, args: &[String], log: &Path) -> Result<Self> {
        Self::spawn(tied("KILL", program), args, log)
    }

    fn spawn(mut command: Command, args: &[String], log: &Path) -> Result<Self> {
        let log = File::create(log).with_context(|| format!("create {}", log.display()))?;
        command.args(args).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("start {command:?}"))?;
        Ok(Self { child })
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// How the process has ended; none while it runs.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("wait for a process")
    }

    /// CPU time of the running threads in nanoseconds, from the scheduler.
    pub fn cpu_ns(&self) -> Result<u64> {
        let tasks = format!("/proc/{}/task", self.id());
        let mut sum = 0;
        for task in fs::read_dir(&tasks).with_context(|| format!("list {tasks}"))? {
            let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            sum += text.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(sum)
    }

    /// CPU time of each running thread in nanoseconds, with its name.
    pub fn cpu_by_thread(&self) -> Result<Vec<(String, u64)>> {
        let tasks = format!("/proc/{}/task", self.id());
        let mut threads = Vec::new();
        for task in fs::read_dir(&tasks).with_context(|| format!("list {tasks}"))? {
            let task = task?.path();
            let text = |file: &str| fs::read_to_string(task.join(file)).unwrap_or_default();
            let ns = text("schedstat").split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
            threads.push((text("comm").trim().to_owned(), ns));
        }
        Ok(threads)
    }

    /// CPU time of all threads, also ended ones, in nanoseconds with a resolution of 10 ms.
    pub fn cpu_total_ns(&self) -> Result<u64> {
        Self::cpu_total_of(self.id())
    }

    /// As [`Process::cpu_total_ns`], of any process.
    pub fn cpu_total_of(id: u32) -> Result<u64> {
        let path = format!("/proc/{id}/stat");
        let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        // The process name may have spaces and parentheses; the fields after the last one do not.
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks =
            |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok()).with_context(|| format!("parse {path}"));
        Ok((ticks(11)? + ticks(12)?) * 10_000_000)
    }

    /// Memory and threads.
    pub fn size(&self) -> Result<Size> {
        Self::size_of(self.id())
    }

    /// As [`Process::size`], of any process.
    pub fn size_of(id: u32) -> Result<Size> {
        let status = fs::read_to_string(format!("/proc/{id}/status"))?;
        let field = |name: &str| {
            let value = status.lines().find_map(|l| l.strip_prefix(name)).and_then(|v| v.split_whitespace().next());
            value.and_then(|v| v.parse::<u64>().ok()).with_context(|| format!("no {name} in /proc/PID/status"))
        };
        Ok(Size {
            rss: field("VmRSS:")? * 1024,
            peak: field("VmHWM:")? * 1024,
            anonymous: field("RssAnon:")? * 1024,
            threads: field("Threads:")?,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_threads_count() {
        let before = Process::cpu_total_of(std::process::id()).unwrap();
        let work = || {
            let begin = std::time::Instant::now();
            while begin.elapsed() < std::time::Duration::from_millis(300) {
                std::hint::spin_loop();
            }
        };
        std::thread::spawn(work).join().unwrap();
        assert!(Process::cpu_total_of(std::process::id()).unwrap() > before);
    }
}
