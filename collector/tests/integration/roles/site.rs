//! Processes of a site: ingest collectors and judges with fixed ports, so that they are found again after a restart.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Instant;

use crate::common::process::{kill, serve};
use crate::common::until;
use fabriclens_testing::free_port;

/// A collector process with its configuration; killed when dropped.
pub(super) struct Node {
    pub(super) name: String,
    dir: PathBuf,
    data: PathBuf,
    ports: [u16; 3],
    child: Option<Child>,
}

impl Node {
    /// Writes the configuration; `data` is the data directory.
    pub(super) fn new(site: &Path, name: &str, data: &Path, config: &str) -> Self {
        let dir = site.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("c.toml"), config).unwrap();
        Self {
            name: name.to_owned(),
            dir,
            data: data.to_owned(),
            ports: std::array::from_fn(|_| free_port().unwrap()),
            child: None,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    pub(super) fn otlp(&self) -> String {
        format!("http://127.0.0.1:{}/v1/metrics", self.ports[2])
    }

    pub(super) fn start(&mut self) {
        let config = self.dir.join("c.toml");
        let [http, grpc, otlp] = self.ports.map(|port| format!("127.0.0.1:{port}"));
        let log = std::fs::File::options().create(true).append(true).open(self.dir.join("log")).unwrap();
        let flags = ["--config", config.to_str().unwrap(), "--http", &http, "--otlp-grpc", &grpc, "--otlp-http", &otlp];
        self.child = Some(serve(&self.data, &flags).stderr(Stdio::from(log)).spawn().unwrap());
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Sends a signal without waiting.
    pub(super) fn signal(&self, signal: i32) {
        kill(self.child.as_ref().unwrap().id(), signal);
    }

    /// Kills it with SIGKILL.
    pub(super) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits until it ended by itself; returns its exit code.
    pub(super) async fn ended(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < super::TAKE_OVER, "{} does not end: {}", self.name, self.log());
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// Status and body of `/readyz`; 0 while it does not answer.
    pub(super) async fn ready(&self) -> (u16, String) {
        let url = format!("{}/readyz", self.url());
        let asked = tokio::task::spawn_blocking(move || {
            let mut response = crate::common::process::agent().get(&url).call().ok()?;
            Some((response.status().as_u16(), response.body_mut().read_to_string().ok()?))
        });
        asked.await.unwrap().unwrap_or_default()
    }

    pub(super) async fn until_ready(&self) {
        until(&format!("{} is ready", self.name), async || self.ready().await.0 == 200).await;
    }

    pub(super) async fn until_standby_of(&self, holder: &str) {
        let text = format!("standby of {holder}\n");
        until(&format!("{} is a standby", self.name), async || self.ready().await == (503, text.clone())).await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of {}:\n{}", self.name, self.log());
        }
        if let Some(mut child) = self.child.take() {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// Configuration of a judge with a lease.
pub(super) fn judge_config(engine: &str, lease: &Path, name: &str) -> String {
    let lease = lease.display();
    format!(
        "role = 'judge'\nself_metrics_interval = '1s'\nstore = {{ remote = '{engine}' }}\n\
         judge = {{ lease = '{lease}', name = '{name}' }}\n"
    )
}
