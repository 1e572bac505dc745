//! A real Prometheus on a loopback port, fed by remote write and queried over HTTP.

use fabriclens_model::{Labels, Series};
use fabriclens_testing::{eventually, free_port};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub struct Prometheus {
    child: Child,
    base: String,
    agent: ureq::Agent,
    _data: tempfile::TempDir,
}

/// A comparable form of an answer: labels to samples, or `errorType: message`.
pub type Answer = Result<BTreeMap<Labels, Vec<(i64, f64)>>, String>;

impl Prometheus {
    /// Starts it; it must be installed.
    pub fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let config = data.path().join("prometheus.yml");
        std::fs::File::create(&config).unwrap().write_all(b"global: {evaluation_interval: 1m}\n").unwrap();
        let port = free_port().unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.path().join("tsdb").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--web.enable-remote-write-receiver", "--storage.tsdb.retention.time=100y", "--log.level=error"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus is installed");
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let base = format!("http://127.0.0.1:{port}");
        let server = Self { child, base, agent: config.into(), _data: data };
        eventually("prometheus is ready", Duration::from_secs(60), || {
            server.agent.get(format!("{}/-/ready", server.base)).call().is_ok_and(|r| r.status() == 200)
        });
        server
    }

    pub fn write(&self, series: &[Series]) {
        let body = snap::raw::Encoder::new().compress_vec(&write_request(series)).unwrap();
        let request = self.agent.post(format!("{}/api/v1/write", self.base)).header("Content-Encoding", "snappy");
        let request = request.header("Content-Type", "application/x-protobuf");
        let mut response = request.send(&body[..]).unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        assert!(response.status().is_success(), "remote write: {text}");
    }

    pub fn instant(&self, query: &str, time_ms: i64) -> Answer {
        self.ask("query", &[("query", query.to_owned()), ("time", seconds(time_ms))])
    }

    pub fn range(&self, query: &str, start: i64, end: i64, step: i64) -> Answer {
        let form = [("start", seconds(start)), ("end", seconds(end)), ("step", seconds(step))];
        let query = ("query", query.to_owned());
        self.ask("query_range", &form.into_iter().chain([query]).collect::<Vec<_>>())
    }

    fn ask(&self, what: &str, form: &[(&str, String)]) -> Answer {
        let form = form.iter().map(|(k, v)| (*k, v.as_str()));
        let mut response = self.agent.post(format!("{}/api/v1/{what}", self.base)).send_form(form).unwrap();
        let text = response.body_mut().with_config().limit(1 << 28).read_to_string().unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        if json["status"] != "success" {
            return Err(format!("{}: {}", json["errorType"].as_str().unwrap(), json["error"].as_str().unwrap()));
        }
        let result = &json["data"]["result"];
        let mut out = BTreeMap::new();
        match json["data"]["resultType"].as_str().unwrap() {
            "scalar" => drop(out.insert(Labels::default(), vec![sample(result)])),
            "string" => {}
            _ => {
                for one in result.as_array().unwrap() {
                    let pairs = one["metric"].as_object().unwrap().iter();
                    let labels = Labels::new(pairs.map(|(n, v)| (n.as_str(), v.as_str().unwrap())));
                    let samples = match one.get("value") {
                        Some(v) => vec![sample(v)],
                        None => one["values"].as_array().unwrap().iter().map(sample).collect(),
                    };
                    out.insert(labels, samples);
                }
            }
        }
        Ok(out)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000))
}

fn sample(pair: &serde_json::Value) -> (i64, f64) {
    let time = pair[0].as_f64().unwrap();
    let value = pair[1].as_str().unwrap();
    ((time * 1000.0).round() as i64, super::number(value).unwrap())
}

/// `prometheus.WriteRequest` in protobuf: field 1 is a series, whose fields 1 and 2 are labels and samples.
fn write_request(series: &[Series]) -> Vec<u8> {
    let mut out = vec![];
    for s in series {
        let mut one = vec![];
        for (name, value) in s.labels.iter() {
            let mut label = vec![];
            field(&mut label, 1, name.as_bytes());
            field(&mut label, 2, value.as_bytes());
            field(&mut one, 1, &label);
        }
        for (time, value) in s.times.iter().zip(&s.values) {
            let mut sample = vec![1 << 3 | 1];
            sample.extend(value.to_le_bytes());
            sample.push(2 << 3);
            varint(&mut sample, *time as u64);
            field(&mut one, 2, &sample);
        }
        field(&mut out, 1, &one);
    }
    out
}

fn field(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
