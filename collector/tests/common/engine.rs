//! Debian's `prometheus` and `victoria-metrics` on free ports with directories of their own.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{call, fetch, forward};
use fabriclens_config::{Endpoint, Remote};

/// Kind of engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Prometheus,
    Victoria,
}

/// A running engine; killed when dropped.
pub struct Engine {
    pub kind: Kind,
    pub base: String,
    port: u16,
    child: Child,
    dir: tempfile::TempDir,
}

/// Times and values (as bits) by label set.
pub type Samples = BTreeMap<String, Vec<(i64, u64)>>;

impl Engine {
    /// This engine as the one that stores a collector's samples.
    pub fn remote(&self) -> Remote {
        let write = forward(&format!("{}/api/v1/write", self.base));
        Remote { read: Endpoint { url: self.base.clone(), ..write.endpoint.clone() }, write }
    }

    /// Starts the engine, which must be installed.
    pub async fn start(kind: Kind) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("prometheus.yml"), "global: {evaluation_interval: 1m}\n").unwrap();
        let port = fabriclens_testing::free_port().unwrap();
        let child = spawn(kind, port, dir.path());
        let mut engine = Self { kind, base: format!("http://127.0.0.1:{port}"), port, child, dir };
        engine.ready().await;
        engine
    }

    /// Waits until it answers, and fails at once if it ends instead.
    async fn ready(&mut self) {
        let path = if self.kind == Kind::Prometheus { "/-/ready" } else { "/health" };
        super::until("the engine is ready", async || {
            if let Some(status) = self.child.try_wait().unwrap() {
                let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap();
                panic!("{} ended with {status}:\n{log}", self.kind.program());
            }
            TcpStream::connect(("127.0.0.1", self.port)).is_ok() && fetch(&self.base, path).await.0 == 200
        })
        .await;
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it with SIGTERM and waits.
    pub fn end(&mut self) {
        let asked = Command::new("sh").args(["-c", &format!("kill -15 {}", self.child.id())]).status();
        assert!(asked.unwrap().success());
        self.child.wait().unwrap();
    }

    /// Starts it again with the same port and directory.
    pub async fn restart(&mut self) {
        self.child = spawn(self.kind, self.port, self.dir.path());
        self.ready().await;
    }

    /// Every sample of the series that match, staleness markers of VictoriaMetrics as NaN.
    pub async fn samples(&self, selector: &str, start: i64, end: i64) -> Samples {
        let form: Vec<(&str, String)> = match self.kind {
            Kind::Victoria => {
                // New samples are searchable after a flush.
                fetch(&self.base, "/internal/force_flush").await;
                let seconds = |ms: i64| format!("{}.{:03}", ms / 1000, ms % 1000);
                vec![("match[]", selector.to_owned()), ("start", seconds(start)), ("end", seconds(end))]
            }
            Kind::Prometheus => {
                let range = format!("{selector}[{}ms]", end - start + 1);
                vec![("query", range), ("time", format!("{}.{:03}", end / 1000, end % 1000))]
            }
        };
        let path = if self.kind == Kind::Victoria { "export" } else { "query" };
        let url = format!("{}/api/v1/{path}", self.base);
        let (status, body) =
            call(move |agent| agent.post(&url).send_form(form.iter().map(|(k, v)| (*k, v.as_str())))).await;
        assert_eq!(status, 200, "{body}");
        if self.kind == Kind::Victoria { exported(&body) } else { matrix(&serde_json::from_str(&body).unwrap()) }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Self::Prometheus => "prometheus",
            Self::Victoria => "victoria-metrics",
        }
    }
}

fn spawn(kind: Kind, port: u16, dir: &std::path::Path) -> Child {
    let mut command = Command::new(kind.program());
    match kind {
        Kind::Prometheus => command
            .arg(format!("--config.file={}", dir.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("tsdb").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--web.enable-remote-write-receiver", "--enable-feature=native-histograms", "--log.level=error"]),
        Kind::Victoria => command
            .arg(format!("-storageDataPath={}", dir.join("vm").display()))
            .arg(format!("-httpListenAddr=127.0.0.1:{port}"))
            .args(["-retentionPeriod=100y", "-memory.allowedBytes=256MB"]),
    };
    let log = std::fs::File::create(dir.join("log")).unwrap();
    let child = command.stdout(Stdio::null()).stderr(log).spawn();
    child.unwrap_or_else(|e| panic!("{}: {e}", kind.program()))
}

/// A label set as text, sorted by name.
fn key(metric: &Value) -> String {
    let sorted: BTreeMap<&String, &Value> = metric.as_object().unwrap().iter().collect();
    serde_json::to_string(&sorted).unwrap()
}

/// Result of `/api/v1/query` for a range selector.
pub fn matrix(answer: &Value) -> Samples {
    assert_eq!(answer["status"], "success", "{answer}");
    let point = |p: &Value| {
        let value: f64 = p[1].as_str().unwrap().parse().unwrap();
        ((p[0].as_f64().unwrap() * 1000.0).round() as i64, value.to_bits())
    };
    let series = |s: &Value| (key(&s["metric"]), s["values"].as_array().unwrap().iter().map(point).collect());
    answer["data"]["result"].as_array().unwrap().iter().map(series).collect()
}

/// Result of `/api/v1/export`.
pub fn exported(lines: &str) -> Samples {
    let mut all = Samples::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let value = |v: &Value| match v {
            Value::String(s) => s.replace("Infinity", "inf").parse().unwrap(),
            v => v.as_f64().unwrap_or(f64::NAN),
        };
        let times = line["timestamps"].as_array().unwrap().iter().map(|t| t.as_i64().unwrap());
        let values = line["values"].as_array().unwrap().iter().map(|v| value(v).to_bits());
        all.entry(key(&line["metric"])).or_default().extend(times.zip(values));
    }
    all
}
