//! A message to the standard input of a program: no shell, no arguments, bounded time and output.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fabriclens_config::{JOB_VARIABLES, Template};
use fabriclens_core::delivery::Delivery;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::watch;

use crate::message::Message;

/// Exit status that asks for another try later (`EX_TEMPFAIL` of sysexits.h).
const TRY_LATER: i32 = 75;
/// Bytes of standard error that are kept for the log.
const ERROR_BYTES: usize = 1000;
/// Interval at which pipes and the process are polled.
const POLL: Duration = Duration::from_millis(10);
/// Search path of the program; nothing else is passed on from the collector's environment.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program that is run for each message.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) timeout: Duration,
    pub(crate) template: Option<Template>,
}

impl Program {
    /// Runs the program; blocks until it ends, its time is over, or the collector stops.
    pub(crate) fn send(&self, message: &Message, stop: &watch::Receiver<bool>) -> Delivery {
        let later = |why: String| Delivery::Later { wait: None, why };
        let text =
            self.template.as_ref().map(|template| template.render(|name| message.value(name))).unwrap_or_default();
        let mut command = Command::new(&self.path);
        command.env_clear().env("PATH", PATH).current_dir("/").process_group(0);
        for name in JOB_VARIABLES {
            command.env(format!("FABRICLENS_JOB_{}", name.to_uppercase()), message.value(name));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return later(format!("cannot run {}: {error}", self.path.display())),
        };
        match Run::new(child, text.into_bytes()).finish(self.timeout, stop) {
            Ok((status, _)) if status.success() => Delivery::Accepted,
            Ok((status, said)) if status.code() == Some(TRY_LATER) => later(format!("{status}: {said}")),
            Ok((status, said)) => Delivery::Refused(format!("{status}: {said}")),
            Err(why) => later(why),
        }
    }
}

/// A running program. Its pipes are read and written without blocking, because a child of it may keep them open.
struct Run {
    child: Child,
    input: Vec<u8>,
    written: usize,
    said: Vec<u8>,
}

impl Run {
    fn new(child: Child, input: Vec<u8>) -> Self {
        Self { child, input, written: 0, said: Vec::new() }
    }

    /// Exit status and the beginning of its standard error.
    ///
    /// # Errors
    /// It was killed, or cannot be waited for.
    fn finish(mut self, timeout: Duration, stop: &watch::Receiver<bool>) -> Result<(ExitStatus, String), String> {
        let began = Instant::now();
        let pipes = [
            self.child.stdin.as_ref().map(|pipe| rustix::io::ioctl_fionbio(pipe, true)),
            self.child.stderr.as_ref().map(|pipe| rustix::io::ioctl_fionbio(pipe, true)),
        ];
        if pipes.into_iter().flatten().any(|done| done.is_err()) {
            self.kill();
            return Err("cannot make its pipes non-blocking".to_owned());
        }
        loop {
            self.write();
            self.read();
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.read();
                    return Ok((status, self.said()));
                }
                Ok(None) if began.elapsed() >= timeout => {
                    self.kill();
                    return Err(format!("killed after {timeout:?} (job_notification.timeout); {}", self.said()));
                }
                Ok(None) if *stop.borrow() => {
                    self.kill();
                    return Err("killed because the collector stops".to_owned());
                }
                Ok(None) => std::thread::sleep(POLL),
                Err(error) => {
                    self.kill();
                    return Err(format!("cannot wait for it: {error}"));
                }
            }
        }
    }

    /// Writes what its standard input takes now, and closes it after the last byte.
    fn write(&mut self) {
        let Some(pipe) = &mut self.child.stdin else { return };
        while self.written < self.input.len() {
            match pipe.write(&self.input[self.written..]) {
                Ok(0) => break,
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It does not read its input; its exit status tells whether that is a failure.
                Err(_) => break,
            }
        }
        self.child.stdin = None;
    }

    /// Reads what it said on standard error; keeps the beginning.
    fn read(&mut self) {
        let Some(pipe) = &mut self.child.stderr else { return };
        let mut part = [0; 4096];
        // Bounded, so that a program that writes without end does not escape its time limit.
        for _ in 0..16 {
            match pipe.read(&mut part) {
                Ok(bytes) if bytes > 0 => {
                    let room = ERROR_BYTES.saturating_sub(self.said.len());
                    self.said.extend_from_slice(&part[..bytes.min(room)]);
                }
                _ => return,
            }
        }
    }

    fn said(&self) -> String {
        let text = String::from_utf8_lossy(&self.said);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Kills the program and the processes that it started.
    fn kill(&mut self) {
        // It may have ended just now; it is reaped in either case.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Digest;
    use fabriclens_jobs::{EndedRun, JobKey};
    use std::os::unix::fs::PermissionsExt as _;

    fn script(dir: &std::path::Path, text: &str) -> Program {
        let path = dir.join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let template = Some(Template::parse("{user}: {cost}\n", JOB_VARIABLES).unwrap());
        Program { path, timeout: Duration::from_secs(20), template }
    }

    fn message() -> Message {
        let key = JobKey { cluster: String::new(), id: "4711; touch /tmp/x".into() };
        let run = EndedRun { key, run: 1, user: "$(id)".into(), name: "-n".into(), start_ns: 0, end_ns: 1 };
        let digest = Digest {
            cost: "cost".into(),
            cause: "cause".into(),
            earlier: "earlier".into(),
            has_lost: None,
            is_complete: true,
            hosts: 1,
        };
        Message::new(run, digest, "http://c", "r")
    }

    fn send(program: &Program) -> Delivery {
        program.send(&message(), &watch::channel(false).1)
    }

    #[test]
    fn message_and_facts_arrive_as_data() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let text = format!("{{ cat; env | sort | grep -v PWD; echo \"$#\"; }} > {}", out.display());
        assert!(matches!(send(&script(dir.path(), &text)), Delivery::Accepted));
        let got = std::fs::read_to_string(out).unwrap();
        assert!(got.starts_with("$(id): cost\n") && got.ends_with("\n0\n"), "{got}");
        assert!(
            got.contains("FABRICLENS_JOB_ID=4711; touch /tmp/x\n") && got.contains("FABRICLENS_JOB_NAME=-n\n"),
            "{got}"
        );
        let names = got.lines().skip(1).filter(|line| line.contains('=') && !line.starts_with("FABRICLENS_JOB_"));
        let names: Vec<&str> = names.filter_map(|line| Some(line.split_once('=')?.0)).collect();
        assert!(names.iter().all(|name| ["PATH", "_", "SHLVL"].contains(name)), "{names:?}");
    }

    #[test]
    fn exit_status_decides() {
        let dir = tempfile::tempdir().unwrap();
        let answer = |text: &str| match send(&script(dir.path(), text)) {
            Delivery::Accepted => "accepted".to_owned(),
            Delivery::Refused(why) => format!("refused {why}"),
            Delivery::Later { why, .. } => format!("later {why}"),
        };
        assert_eq!(answer("echo no such job >&2; exit 1"), "refused exit status: 1: no such job");
        assert_eq!(answer("exit 75"), "later exit status: 75: ");
        assert_eq!(answer("exec < /dev/null; exit 0"), "accepted", "the message need not be read");
        assert!(answer("head -c 100000 /dev/zero | tr '\\0' x >&2; exit 3").len() < 2 * ERROR_BYTES);
        let nowhere = Program { path: "/nowhere/program".into(), ..script(dir.path(), "") };
        assert!(matches!(send(&nowhere), Delivery::Later { why, .. } if why.contains("cannot run /nowhere/program")));
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let text = format!("sleep 600 & echo $! > {}; wait", pid.display());
        let program = Program { timeout: Duration::from_millis(500), ..script(dir.path(), &text) };
        let began = Instant::now();
        assert!(matches!(send(&program), Delivery::Later { why, .. } if why.starts_with("killed after")));
        assert!(began.elapsed() < Duration::from_secs(10));
        let child = std::fs::read_to_string(pid).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
        let is_over = || state().rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']));
        let until = Instant::now() + Duration::from_secs(10);
        while !is_over() {
            assert!(Instant::now() < until, "its child still runs");
            std::thread::sleep(POLL);
        }
    }
}
