//! One program of the test bed: start, signal, kill, restart.

use crate::process::Process;
use crate::steps::call;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A program with its arguments, running or not. Each start writes its own log.
pub struct Service {
    /// Name in messages and log files.
    pub name: String,
    program: PathBuf,
    pub args: Vec<String>,
    /// Environment, as `NAME=value`.
    pub env: Vec<String>,
    logs: PathBuf,
    starts: u32,
    process: Option<Process>,
}

impl Service {
    /// A service that is not started yet.
    pub fn new(name: &str, program: &Path, args: &[&str], logs: &Path) -> Self {
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        let (name, program, logs) = (name.to_owned(), program.to_owned(), logs.to_owned());
        Self { name, program, args, env: Vec::new(), logs, starts: 0, process: None }
    }

    /// Starts the program.
    pub fn start(&mut self) -> Result<()> {
        self.starts += 1;
        let log = self.logs.join(format!("{}.{}.log", self.name, self.starts));
        let program = self.program.display().to_string();
        // env(1) executes the program in the same process.
        let args = [self.env.clone(), vec![program], self.args.clone()].concat();
        self.process = Some(Process::start_tied(Path::new("env"), &args, &log)?);
        Ok(())
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Sends SIGTERM and waits for the end; gives the time that it took.
    ///
    /// # Errors
    /// When it has not ended within `timeout`.
    pub fn end(&mut self, timeout: Duration) -> Result<Duration> {
        self.signal("TERM")?;
        let begin = Instant::now();
        while self.is_alive() {
            ensure!(begin.elapsed() < timeout, "{} has not ended {timeout:?} after SIGTERM", self.name);
            std::thread::sleep(Duration::from_millis(10));
        }
        self.process = None;
        Ok(begin.elapsed())
    }

    /// Sends a signal by name.
    pub fn signal(&self, signal: &str) -> Result<()> {
        call("kill", &[&format!("-{signal}"), &self.id()?.to_string()])
    }

    /// Whether the process runs.
    pub fn is_alive(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_alive)
    }

    /// Process id.
    pub fn id(&self) -> Result<u32> {
        Ok(self.process()?.id())
    }

    /// The running process.
    pub fn process(&self) -> Result<&Process> {
        self.process.as_ref().with_context(|| format!("{} does not run", self.name))
    }
}
