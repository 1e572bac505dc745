//! The collector's binary as a process.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fabriclens_core::prompb::{Label, Sample, TimeSeries, WriteRequest};
use prost::Message as _;

/// Path of the collector's binary.
pub const BIN: &str = env!("CARGO_BIN_EXE_fabriclens");

/// A collector process; killed when dropped.
pub struct Server {
    pub child: Child,
    pub url: String,
    log: Option<std::thread::JoinHandle<String>>,
}

impl Server {
    pub fn start(data: &Path, more: &[&str]) -> Self {
        let mut child = serve(data, more).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut head = String::new();
        let url = loop {
            let line = lines.next().unwrap_or_else(|| panic!("it ended before it was ready: {head}")).unwrap();
            head.push_str(&line);
            head.push('\n');
            if let Some((_, url)) = line.split_once(" page=") {
                break url.trim_end_matches('/').to_owned();
            }
        };
        // The log must be read, or the process blocks on a full pipe.
        let log = Some(std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|l| {
                head.push_str(&l);
                head.push('\n');
            });
            head
        }));
        Self { child, url, log }
    }

    pub fn write(&self, samples: &[(i64, f64)]) -> u16 {
        let labels = vec![
            Label { name: "__name__".into(), value: "durable".into() },
            Label { name: "host".into(), value: "h".into() },
        ];
        let samples = samples.iter().map(|(t, v)| Sample { value: *v, timestamp: *t }).collect();
        let series = TimeSeries { labels, samples, histograms: vec![] };
        let body = WriteRequest { timeseries: vec![series], metadata: vec![] }.encode_to_vec();
        let body = snap::raw::Encoder::new().compress_vec(&body).unwrap();
        let request = agent().post(format!("{}/api/v1/write", self.url)).header("content-encoding", "snappy");
        request.send(&body[..]).map_or(0, |r| r.status().as_u16())
    }

    pub fn query(&self, expression: &str, more: &[&str]) -> Output {
        Command::new(BIN).args(["query", "--url", &self.url, expression]).args(more).output().unwrap()
    }

    /// Sends a signal and waits; exit code and log.
    pub fn end(mut self, signal: i32) -> (Option<i32>, String) {
        kill(self.child.id(), signal);
        let status = wait(&mut self.child);
        (status, self.log.take().unwrap().join().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A failed test must not leave a process that holds its output open.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

pub fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().new_agent()
}

/// Sends a signal by the shell's `kill`, so that this file needs no unsafe code.
pub fn kill(pid: u32, signal: i32) {
    assert!(Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status().unwrap().success());
}

pub fn wait(child: &mut Child) -> Option<i32> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if began.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("it did not end within 30 s");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn serve(data: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(BIN);
    command.arg("serve").arg("--data").arg(data).args(more).env_remove("FABRICLENS_URL");
    for listener in ["--http", "--otlp-grpc", "--otlp-http"].iter().filter(|l| !more.contains(l)) {
        command.args([*listener, "127.0.0.1:0"]);
    }
    command
}

pub fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}
