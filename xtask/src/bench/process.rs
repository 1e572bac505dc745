//! What a process has cost so far, as the kernel tells it.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A child that is ended when it goes out of scope.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts `program` with its output thrown away.
    pub fn start(program: &Path, args: &[String]) -> Result<Self> {
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        Ok(Self { child })
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of all its threads, nanoseconds (scheduler's own count, not ticks).
    pub fn cpu_ns(&self) -> Result<u64> {
        let tasks = format!("/proc/{}/task", self.id());
        let mut sum = 0;
        for task in fs::read_dir(&tasks).with_context(|| format!("list {tasks}"))? {
            let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            sum += text.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(sum)
    }

    /// Resident memory now, bytes.
    pub fn rss(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let kib = status
            .lines()
            .find_map(|l| l.strip_prefix("VmRSS:"))
            .and_then(|v| v.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kib.context("no VmRSS")? * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
