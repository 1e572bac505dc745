//! Runs a command and returns its output.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Timeout; a controller under load takes seconds.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Longest output, bytes; a job takes several kilobytes.
const OUTPUT_BYTES: u64 = 256 << 20;

/// The command gave no usable output.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error("cannot run {0:?}: {1}; set jobs.squeue to a command that this user can run")]
    Run(String, std::io::Error),
    #[error("{0:?} took longer than {1:?}")]
    Slow(String, Duration),
    #[error("{0:?} failed: {1}")]
    Failed(String, String),
}

/// Runs the command; kills it after the timeout, or when `stop` becomes true.
pub(super) fn run(command: &str, stop: &watch::Receiver<bool>) -> Result<Vec<u8>, CommandError> {
    let failed = |e| CommandError::Run(command.to_owned(), e);
    let mut words = command.split_whitespace();
    let mut child = Command::new(words.next().unwrap_or_default())
        .args(words)
        // scontrol prints local times.
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let reader = |from: Option<Box<dyn std::io::Read + Send>>, most| {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            if let Some(from) = from {
                // A read error ends the output; the exit status of the command describes the failure.
                let _ = from.take(most).read_to_end(&mut all);
            }
            all
        })
    };
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let out = reader(out.map(|o| Box::new(o) as _), OUTPUT_BYTES);
    let err = reader(err.map(|e| Box::new(e) as _), 4096);
    let until = Instant::now() + TIMEOUT;
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None if Instant::now() < until && !*stop.borrow() => std::thread::sleep(Duration::from_millis(20)),
            None => {
                // The process may have ended just now; it is reaped in either case.
                let _ = child.kill();
                let _ = child.wait();
                return Err(CommandError::Slow(command.to_owned(), TIMEOUT));
            }
        }
    };
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    if status.success() {
        return Ok(out);
    }
    let message = String::from_utf8_lossy(&err);
    let message = message.lines().next().map_or_else(|| status.to_string(), |line| format!("{status}: {line}"));
    Err(CommandError::Failed(command.to_owned(), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_explained() {
        let why = |command: &str| run(command, &watch::channel(false).1).unwrap_err().to_string();
        assert!(why("/nowhere/squeue --json").starts_with("cannot run \"/nowhere/squeue --json\": No such file"));
        assert!(why("cat /nowhere/queue").contains("failed: exit status: 1: cat: /nowhere/queue: No such file"));
    }

    #[test]
    fn commands_are_killed_at_stop() {
        let (stop, stopped) = watch::channel(false);
        stop.send_replace(true);
        assert!(matches!(run("sleep 600", &stopped), Err(CommandError::Slow(..))));
    }
}
