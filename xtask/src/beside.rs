//! Steps that only compile, beside the others: a second `cargo xtask test` at the lowest priority, which uses the processors while tests,
//! faults and guests wait.

use crate::process::Process;
use crate::steps::target;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The second run. If it is dropped before it has ended, it is killed; what its step has begun to compile goes on for a while.
pub struct Beside {
    process: Process,
    log: PathBuf,
}

impl Beside {
    /// Starts the steps, one after the other.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(steps: &[&str]) -> Result<Self> {
        let log = target()?.join("beside.log");
        fs::create_dir_all(log.parent().unwrap_or(Path::new("/"))).context("make the target directory")?;
        println!("\n=== beside, at the lowest priority: {}; output in {}", steps.join(", "), log.display());
        let mut args: Vec<String> = ["-n", "19", "--"].map(str::to_owned).to_vec();
        args.push(std::env::current_exe()?.display().to_string());
        args.push("test".to_owned());
        args.extend(steps.iter().flat_map(|step| ["--only".to_owned(), (*step).to_owned()]));
        Self::run("nice", &args, log)
    }

    fn run(program: &str, args: &[String], log: PathBuf) -> Result<Self> {
        Ok(Self { process: Process::start_tied(Path::new(program), args, &log)?, log })
    }

    /// Fails if a step has failed.
    ///
    /// # Errors
    /// When it has, with its output.
    pub fn check(&mut self) -> Result<()> {
        match self.process.ended()? {
            Some(status) if !status.success() => bail!("beside: {status}; its output:\n{}", self.output()?),
            _ => Ok(()),
        }
    }

    /// Waits for the end and prints the output.
    ///
    /// # Errors
    /// When a step fails, with its output.
    pub fn finish(mut self) -> Result<()> {
        while self.process.is_alive() {
            std::thread::sleep(Duration::from_millis(100));
        }
        self.check()?;
        println!("\n=== beside\n{}", self.output()?);
        Ok(())
    }

    fn output(&self) -> Result<String> {
        fs::read_to_string(&self.log).with_context(|| format!("read {}", self.log.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, dir: &Path) -> Beside {
        Beside::run("sh", &["-c".to_owned(), text.to_owned()], dir.join("log")).unwrap()
    }

    #[test]
    fn a_failure_is_told_with_its_output() {
        let dir = tempfile::tempdir().unwrap();
        shell("echo fine", dir.path()).finish().unwrap();
        let mut failing = shell("echo broken; exit 3", dir.path());
        while failing.process.is_alive() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let error = failing.check().unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("broken"), "{error}");
        assert!(shell("exit 1", dir.path()).finish().is_err());
    }
}
