//! One program of the stage: started, hurt, and started again.

use crate::process::Process;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A program with its arguments, running or not. Each start has a log of its own.
pub struct Unit {
    /// For people.
    pub name: String,
    program: PathBuf,
    args: Vec<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
    logs: PathBuf,
    starts: u32,
    process: Option<Process>,
}

impl Unit {
    /// Not started yet.
    pub fn new(name: &str, program: &Path, args: &[&str], logs: &Path) -> Self {
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        let (name, program, logs) = (name.to_owned(), program.to_owned(), logs.to_owned());
        Self { name, program, args, env: Vec::new(), logs, starts: 0, process: None }
    }

    /// Starts it.
    pub fn start(&mut self) -> Result<()> {
        self.starts += 1;
        let log = self.logs.join(format!("{}.{}.log", self.name, self.starts));
        let program = self.program.display().to_string();
        // env(1) becomes the program, so the process is the same.
        let args = [self.env.clone(), vec![program], self.args.clone()].concat();
        self.process = Some(Process::start_tied(Path::new("env"), &args, &log)?);
        Ok(())
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Asks it to end and waits until it has; tells how long that took.
    pub fn end(&mut self, patience: Duration) -> Result<Duration> {
        self.signal("TERM")?;
        let begin = Instant::now();
        while self.is_alive() {
            ensure!(begin.elapsed() < patience, "{} has not ended {patience:?} after SIGTERM", self.name);
            std::thread::sleep(Duration::from_millis(10));
        }
        self.process = None;
        Ok(begin.elapsed())
    }

    /// Sends a signal by its name.
    pub fn signal(&self, signal: &str) -> Result<()> {
        super::call("kill", &[&format!("-{signal}"), &self.id()?.to_string()])
    }

    /// Whether it runs; one that ended by itself does not.
    pub fn is_alive(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_alive)
    }

    /// Process id.
    pub fn id(&self) -> Result<u32> {
        Ok(self.process()?.id())
    }

    /// What the kernel tells of it.
    pub fn process(&self) -> Result<&Process> {
        self.process.as_ref().with_context(|| format!("{} does not run", self.name))
    }
}
