//! The three servers under test: start, crash, restart, flush, and size on disk.

use crate::process::Process;
use crate::steps::local_port;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A measured server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Our collector.
    Fabriclens,
    /// Single-node VictoriaMetrics.
    VictoriaMetrics,
    /// Prometheus as a receiver of remote write.
    Prometheus,
}

impl Kind {
    /// All, ours first.
    pub const ALL: [Self; 3] = [Self::Fabriclens, Self::VictoriaMetrics, Self::Prometheus];

    /// Name in tables and of directories.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fabriclens => "fabriclens",
            Self::VictoriaMetrics => "victoria-metrics",
            Self::Prometheus => "prometheus",
        }
    }
}

/// A running server and its directory.
pub struct Server {
    pub kind: Kind,
    process: Process,
    ours: PathBuf,
    dir: PathBuf,
    http: String,
    otlp: String,
}

/// Series of a host of the fleet, with room for those of its jobs.
const SERIES_OF_HOST: u64 = 8 * 80;
/// Default of `ingest.series`.
const DEFAULT_SERIES: u64 = 5_000_000;
/// Longest wait for a server.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Twice the flush interval of VictoriaMetrics.
const VICTORIA_METRICS_FLUSH: Duration = Duration::from_secs(12);

impl Server {
    /// Starts a server on its directory; returns when it accepts connections.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(kind: Kind, ours: &Path, dir: &Path) -> Result<Self> {
        Self::start_with(kind, ours, dir, None)
    }

    /// As [`Server::start`]; ours with a configuration file.
    pub fn start_with(kind: Kind, ours: &Path, dir: &Path, own: Option<&Path>) -> Result<Self> {
        Self::start_at(kind, ours, dir, own, Self::addresses()?)
    }

    /// Writes a configuration of ours that admits the series of a fleet of hosts with 8 ports of 62 series: the default bound
    /// holds 10,000 hosts, and those beyond it would be refused. The bound by memory stays; raise `limits.memory` of a
    /// machine that is too small.
    pub fn config_for(dir: &Path, hosts: u64) -> Result<PathBuf> {
        fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        let (path, series) = (dir.join("collector.toml"), (hosts * SERIES_OF_HOST).max(DEFAULT_SERIES));
        let text = format!("[ingest]\nseries = {series}\nseries_per_metric = {series}\n");
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// Free addresses: HTTP, OTLP over gRPC, OTLP over HTTP.
    pub fn addresses() -> Result<[String; 3]> {
        let local = || Ok::<_, anyhow::Error>(format!("127.0.0.1:{}", local_port()?));
        Ok([local()?, local()?, local()?])
    }

    /// As [`Server::start_with`], on the addresses of [`Server::addresses`].
    pub fn start_at(
        kind: Kind,
        ours: &Path,
        dir: &Path,
        own: Option<&Path>,
        [http, otlp, other]: [String; 3],
    ) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        let data = dir.join("data").display().to_string();
        let config = dir.join("prometheus.yml");
        let words = |list: &[&str]| list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let (program, args) = match kind {
            Kind::Fabriclens => {
                (ours, words(&["serve", "--data", &data, "--http", &http, "--otlp-grpc", &otlp, "--otlp-http", &other]))
            }
            Kind::VictoriaMetrics => (
                Path::new("/usr/bin/victoria-metrics"),
                words(&[
                    &format!("-storageDataPath={data}"),
                    &format!("-httpListenAddr={http}"),
                    "-retentionPeriod=1",
                    "-search.latencyOffset=0s",
                    "-loggerLevel=WARN",
                ]),
            ),
            Kind::Prometheus => {
                fs::write(&config, "global: {}\n")?;
                let config = format!("--config.file={}", config.display());
                let rest = [
                    &config,
                    &format!("--storage.tsdb.path={data}"),
                    &format!("--web.listen-address={http}"),
                    "--storage.tsdb.retention.time=30d",
                    "--web.enable-remote-write-receiver",
                    "--web.enable-admin-api",
                    "--log.level=warn",
                ];
                (Path::new("/usr/bin/prometheus"), words(&rest))
            }
        };
        let mut all = args;
        all.extend(own.iter().flat_map(|config| ["--config".to_owned(), config.display().to_string()]));
        let process = Process::start_tied(program, &all, &dir.join("log"))?;
        let mut server =
            Self { kind, process, ours: ours.to_owned(), dir: dir.to_owned(), http: format!("http://{http}"), otlp };
        let begin = Instant::now();
        while server.get("/-/ready").is_err() && server.get("/health").is_err() {
            if !server.process.is_alive() || begin.elapsed() > TIMEOUT {
                bail!("{} does not start; its log: {}", kind.name(), dir.join("log").display());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Kills the server, drops its files from the page cache and starts it again; gives the seconds until a query finds its
    /// samples.
    ///
    /// # Errors
    /// When the samples are lost.
    pub fn crash_and_restart(self, end: i64) -> Result<(Self, f64)> {
        let Self { kind, process, ours, dir, .. } = self;
        drop(process);
        evict(&dir)?;
        let begin = Instant::now();
        let server = Self::start(kind, &ours, &dir)?;
        while !server.has_samples(end) {
            if begin.elapsed() > TIMEOUT {
                bail!("{} has lost its samples; its log: {}", kind.name(), dir.join("log").display());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok((server, begin.elapsed().as_secs_f64()))
    }

    fn has_samples(&self, end: i64) -> bool {
        let request = ureq::get(format!("{}/api/v1/query", self.http))
            .query("query", "count({__name__=~\"fabric_.*io_bytes_total|fabric_recorded_tx_bytes\"})")
            .query("time", (end / 1000).to_string())
            .query("nocache", "1");
        let answer = request.call().and_then(|mut answer| answer.body_mut().read_to_string());
        answer.is_ok_and(|answer| answer.contains("\"value\""))
    }

    /// Base URL.
    pub fn url(&self) -> &str {
        &self.http
    }

    /// URL of remote write.
    pub fn write_url(&self) -> String {
        format!("{}/api/v1/write", self.http)
    }

    /// Address of OTLP over gRPC; ours only.
    pub fn otlp(&self) -> &str {
        &self.otlp
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    fn get(&self, path: &str) -> Result<String> {
        let agent = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).build().new_agent();
        Ok(agent.get(format!("{}{path}", self.http)).call()?.body_mut().read_to_string()?)
    }

    /// Waits until the server is idle: under 2 % of a core for two seconds.
    ///
    /// # Errors
    /// When it is not idle after three minutes.
    pub fn settle(&self) -> Result<()> {
        let begin = Instant::now();
        let mut quiet = 0;
        while quiet < 4 {
            let before = self.process.cpu_total_ns()?;
            std::thread::sleep(Duration::from_millis(500));
            quiet = if self.process.cpu_total_ns()? - before <= 10_000_000 { quiet + 1 } else { 0 };
            if begin.elapsed() > TIMEOUT {
                bail!("{} does not become idle", self.kind.name());
            }
        }
        Ok(())
    }

    /// As [`Server::settle`], and until all acknowledged samples survive a crash: VictoriaMetrics keeps those of the last
    /// seconds in memory only.
    pub fn settle_durably(&self) -> Result<()> {
        if self.kind == Kind::VictoriaMetrics {
            std::thread::sleep(VICTORIA_METRICS_FLUSH);
        }
        self.settle()
    }

    /// Bytes of all files, with logs.
    pub fn disk(&self) -> Result<u64> {
        size(&self.dir.join("data"))
    }

    /// Writes and merges all samples as far as the server allows; gives the bytes of samples and index on disk. Ours has just
    /// been restarted, which writes the log to blocks.
    pub fn flush(&self) -> Result<u64> {
        let data = self.dir.join("data");
        match self.kind {
            Kind::Fabriclens => {
                self.settle()?;
                self.disk()
            }
            Kind::VictoriaMetrics => {
                for path in ["/internal/force_flush", "/internal/force_merge"] {
                    self.get(path)?;
                    self.settle()?;
                }
                // The other directories are caches.
                Ok(size(&data.join("data"))? + size(&data.join("indexdb"))?)
            }
            Kind::Prometheus => {
                let answer = ureq::post(format!("{}/api/v1/admin/tsdb/snapshot", self.http)).send_empty();
                let answer: serde_json::Value = serde_json::from_str(&answer?.body_mut().read_to_string()?)?;
                let name = answer["data"]["name"].as_str().context("prometheus made no snapshot")?;
                self.settle()?;
                size(&data.join("snapshots").join(name))
            }
        }
    }
}

/// Bytes of all files below `dir`.
fn size(dir: &Path) -> Result<u64> {
    Ok(files(dir)?.iter().filter_map(|f| f.metadata().ok()).map(|m| m.len()).sum())
}

fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Drops the files from the page cache with GNU dd, so that they are read from disk.
fn evict(dir: &Path) -> Result<()> {
    for file in files(dir)? {
        let mut of = std::ffi::OsString::from("of=");
        of.push(&file);
        let mut dd = Command::new("dd");
        dd.arg(of).args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0"]);
        dd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        dd.status().context("start dd")?;
    }
    Ok(())
}
