//! A collector process on this host, queried over its Prometheus API.

use super::vm::free_port;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One series of a query result.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Labels, including `__name__`.
    pub labels: BTreeMap<String, String>,
    /// (Nanoseconds since 1970, value), oldest first.
    pub points: Vec<(u64, f64)>,
}

/// A running collector; killed when dropped.
#[derive(Debug)]
pub struct Collector {
    child: Child,
    http: u16,
    /// Port of OTLP/gRPC on loopback.
    pub grpc: u16,
}

impl Collector {
    /// Output of a subcommand of the client `program`, with one argument for it: `["query", "up"]`.
    ///
    /// # Errors
    /// When it fails, with its output.
    pub fn shell(&self, program: &Path, words: [&str; 2]) -> Result<String> {
        let url = format!("http://127.0.0.1:{}", self.http);
        let done = Command::new(program).args([words[0], "--url", &url, words[1]]).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ensure!(done.status.success(), "fabriclens {words:?}: {}", text(&done.stderr));
        Ok(text(&done.stdout))
    }

    /// Starts `program` with its data in `folder` and waits until it answers.
    ///
    /// # Errors
    /// When it exits or does not answer, with its log.
    pub fn start(program: &Path, folder: &Path) -> Result<Self> {
        Self::start_as(program, folder, "")
    }

    /// As [`Collector::start`], with a configuration.
    ///
    /// # Errors
    /// As [`Collector::start`].
    pub fn start_as(program: &Path, folder: &Path, config: &str) -> Result<Self> {
        let file = folder.join("collector.toml");
        fs::write(&file, config).with_context(|| format!("writing {}", file.display()))?;
        let (http, grpc, otlp) = (free_port()?, free_port()?, free_port()?);
        let log = folder.join("collector.log");
        let child = Command::new(program)
            .arg("serve")
            .arg("--config")
            .arg(&file)
            .arg("--data")
            .arg(folder.join("data"))
            .args(["--http", &format!("127.0.0.1:{http}")])
            .args(["--otlp-grpc", &format!("127.0.0.1:{grpc}")])
            .args(["--otlp-http", &format!("127.0.0.1:{otlp}")])
            .stdin(Stdio::null())
            .stdout(fs::File::create(folder.join("collector.out"))?)
            .stderr(fs::File::create(&log)?)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let mut collector = Self { child, http, grpc };
        let end = Instant::now() + Duration::from_secs(20);
        while collector.get("/api/v1/status/buildinfo").is_err() {
            let text = || fs::read_to_string(&log).unwrap_or_default();
            if let Some(status) = collector.child.try_wait()? {
                bail!("the collector ended with {status}: {}", text());
            }
            ensure!(Instant::now() < end, "the collector does not answer: {}", text());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(collector)
    }

    /// Evaluates an instant query now.
    ///
    /// # Errors
    /// When the collector rejects the query or does not answer.
    pub fn query(&self, promql: &str) -> Result<Vec<Series>> {
        let mut path = String::from("/api/v1/query?query=");
        for byte in promql.bytes() {
            path += &format!("%{byte:02X}");
        }
        let answer = self.get(&path).with_context(|| format!("query {promql}"))?;
        let series = answer["data"]["result"].as_array().context("an answer without result")?;
        Ok(series.iter().map(parse).collect())
    }

    /// Value of the first series of an instant query; none if there is no series.
    ///
    /// # Errors
    /// When the collector rejects the query or does not answer.
    pub fn value(&self, promql: &str) -> Result<Option<f64>> {
        Ok(self.query(promql)?.first().and_then(|series| series.points.last()).map(|point| point.1))
    }

    /// Newest value of the only series of `selector`, if its read began after `after_ns`; `None` if there is none yet. A point
    /// has the time at which its read ended, so the first point after `after_ns` may have been read before it.
    ///
    /// # Errors
    /// When `selector` matches several series.
    pub fn newest(&self, selector: &str, after_ns: u64) -> Result<Option<f64>> {
        let found = self.points(selector, 60)?;
        let newer = found.iter().filter(|point| point.0 >= after_ns);
        Ok(newer.skip(1).last().map(|point| point.1))
    }

    /// Raw points of the only series of `selector` in the last `seconds`.
    ///
    /// # Errors
    /// When `selector` matches several series.
    pub fn points(&self, selector: &str, seconds: u32) -> Result<Vec<(u64, f64)>> {
        let mut found = self.query(&format!("{selector}[{seconds}s]"))?;
        ensure!(found.len() < 2, "{selector} means {} series: {found:?}", found.len());
        Ok(found.pop().map(|series| series.points).unwrap_or_default())
    }

    /// JSON answer of an API path.
    ///
    /// # Errors
    /// When the collector answers with an error, or not at all.
    pub fn get(&self, path: &str) -> Result<Value> {
        read(client().get(self.url(path)).call()?)
    }

    /// All incidents.
    ///
    /// # Errors
    /// When the collector does not answer.
    pub fn incidents(&self) -> Result<Vec<Value>> {
        self.get("/api/v1/incidents")?["incidents"].as_array().cloned().context("an answer without incidents")
    }

    /// JSON answer of an API path to which JSON is posted.
    ///
    /// # Errors
    /// When the collector answers with an error, or not at all.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value> {
        read(client().post(self.url(path)).send(body.to_string())?)
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.http)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // Fails if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client() -> ureq::Agent {
    let limits =
        ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(10))).http_status_as_error(false);
    limits.build().new_agent()
}

fn read(mut answer: ureq::http::Response<ureq::Body>) -> Result<Value> {
    let text = answer.body_mut().read_to_string()?;
    ensure!(answer.status().is_success(), "{}: {text}", answer.status());
    serde_json::from_str(&text).with_context(|| format!("not JSON: {text}"))
}

fn parse(series: &Value) -> Series {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = series["metric"].as_object().into_iter().flatten();
    let many = series["values"].as_array().cloned().unwrap_or_default();
    let one = series["value"].as_array().map(|point| Value::from(point.clone()));
    Series {
        labels: labels.map(|(name, value)| (name.clone(), text(value))).collect(),
        points: many.iter().chain(one.as_ref()).filter_map(point).collect(),
    }
}

/// `[seconds, "value"]`; the API has milliseconds.
fn point(pair: &Value) -> Option<(u64, f64)> {
    let seconds = pair[0].as_f64()?;
    Some(((seconds * 1000.0).round() as u64 * 1_000_000, pair[1].as_str()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn vectors_and_matrices_parse() {
        let vector = parse(&json!({"metric": {"host": "vm1"}, "value": [1.5, "3"]}));
        assert_eq!(vector.labels["host"], "vm1");
        assert_eq!(vector.points, [(1_500_000_000, 3.0)]);
        let matrix = parse(&json!({"metric": {}, "values": [[1, "1"], [2.001, "NaN"]]}));
        assert_eq!(matrix.points[0], (1_000_000_000, 1.0));
        assert_eq!(matrix.points[1].0, 2_001_000_000);
        assert!(matrix.points[1].1.is_nan());
    }
}
