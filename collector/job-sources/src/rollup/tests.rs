//! Rounds over a store that is filled by hand.

use super::*;
use fabriclens_config::Config;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_jobs::{HostAllocation, JobKey, JobRecord, Source};
use fabriclens_store::Options;
use fabriclens_store::RowGroup;

mod cost;

struct Lab {
    dir: tempfile::TempDir,
    store: Arc<Store>,
    /// Unix ms; rounds are given in seconds after it.
    begin: i64,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { background: false, ..Options::default() };
        let store = Arc::new(Store::open(&dir.path().join("data"), options).unwrap());
        Self { dir, store, begin: now_ms() - 1_200_000 }
    }

    fn rollup(&self) -> Rollup {
        let config = Config { data: self.dir.path().join("data"), ..Config::default() };
        let sink = Sink::start(self.store.clone(), &config, &Telemetry::new().unwrap()).unwrap();
        let data = Data::Local(self.store.clone());
        let jobs = Jobs::open(&self.store, Default::default()).unwrap();
        Rollup::new(Arc::new(jobs), Arc::new(data), Arc::new(sink), Engine::default())
    }

    fn report(&self, rollup: &Rollup, id: &str, start_s: i64, hosts: &[(&str, &[&str])]) {
        let place =
            |devices: &[&str]| HostAllocation { devices: devices.iter().map(|d| (*d).into()).collect(), pids: vec![] };
        let record = JobRecord {
            start_ns: Some((self.begin + start_s * 1000) * 1_000_000),
            hosts: hosts.iter().map(|(h, d)| ((*h).to_owned(), place(d))).collect(),
            ..JobRecord::default()
        };
        rollup.jobs.registry.begin(Source::Http, &key(id), record, 0).unwrap();
    }

    /// A counter of ports, one sample every five seconds.
    fn put(&self, labels: &[(&str, &str)], value: impl Fn(i64) -> f64) {
        let series = [Labels::new(labels.iter().copied())].into();
        let times: Vec<i64> = (0..=1000).step_by(5).map(|s| self.begin + s * 1000).collect();
        let values = (0..=1000).step_by(5).map(value).collect();
        self.store.append(&[RowGroup { series, times, values }]).unwrap();
    }

    fn sent(&self, host: &str, device: &str, port: &str, value: impl Fn(i64) -> f64) {
        let name = ("__name__", "fabric_port_io_bytes_total");
        self.put(&[name, ("host", host), ("device", device), ("port", port), ("direction", "transmit")], value);
    }

    /// Values of a job's series at a round, by the labels that differ.
    fn at(&self, query: &str, second: i64) -> Vec<(String, f64)> {
        let Value::Vector(found) =
            Engine::default().instant(&*self.store, query, self.begin + second * 1000).unwrap().value
        else {
            panic!("{query}");
        };
        let texts = |l: &Labels| ["attribution", "rail", "direction", "reason"].map(|n| l.get(n).to_owned());
        let text = |l: &Labels| texts(l).into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join(" ");
        let mut all: Vec<_> = found.iter().map(|s| (text(&s.labels), s.value)).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    fn round(&self, rollup: &mut Rollup, second: i64) {
        rollup.round(self.begin + second * 1000);
    }
}

fn key(id: &str) -> JobKey {
    JobKey { cluster: String::new(), id: id.into() }
}

fn is(found: &[(String, f64)], want: &[(&str, f64)]) {
    let same = |(a, b): (&(String, f64), &(&str, f64))| a.0 == b.0 && (a.1 - b.1).abs() <= b.1.abs() * 1e-9 + 1e-12;
    assert!(found.len() == want.len() && found.iter().zip(want).all(same), "{found:?}, not {want:?}");
}

#[test]
fn bytes_are_assigned_to_jobs() {
    let lab = Lab::new();
    lab.sent("a", "mlx5_0", "1", |s| 100.0 * s as f64);
    lab.sent("a", "mlx5_1", "1", |s| 10.0 * s as f64);
    lab.sent("a", "eth0", "", |s| 7777.0 * s as f64);
    lab.sent("b", "mlx5_0", "1", |s| if s < 600 { 1000.0 * s as f64 } else { 1000.0 * (s - 600) as f64 });
    let mut rollup = lab.rollup();
    lab.report(&rollup, "1", 0, &[("a", &[]), ("b", &[])]);
    lab.report(&rollup, "2", 310, &[("a", &["mlx5_1"])]);
    lab.round(&mut rollup, 300);
    let all = |job: &str| format!("fabric_job_io_bytes_total{{job_id=\"{job}\"}}");
    is(&lab.at(&all("1"), 300), &[("exclusive mlx5_0 transmit", 0.0), ("exclusive mlx5_1 transmit", 0.0)]);
    lab.round(&mut rollup, 400);
    // The second user of the device is seen at this round: the increase since the previous round is shared, and a job
    // that began in between gets none of it.
    let want = [("exclusive mlx5_0 transmit", 110_000.0), ("shared mlx5_1 transmit", 1000.0)];
    is(&lab.at(&all("1"), 400), &want);
    is(&lab.at(&all("2"), 400), &[("shared mlx5_1 transmit", 0.0)]);
    lab.round(&mut rollup, 700);
    // The counter of b was reset at 600 s; the round at 700 s counts only its present value.
    let want = [("exclusive mlx5_0 transmit", 110_000.0 + 30_000.0 + 100_000.0), ("shared mlx5_1 transmit", 4000.0)];
    is(&lab.at(&all("1"), 700), &want);
    is(&lab.at(&all("2"), 700), &[("shared mlx5_1 transmit", 3000.0)]);
    is(&lab.at("fabric_job_io_bytes_per_second{job_id=\"2\"}", 700), &[("shared mlx5_1 transmit", 10.0)]);
    let peak = lab.at("fabric_job_io_peak_bytes_per_second{job_id=\"1\",rail=\"mlx5_0\"}", 700);
    is(&peak, &[("exclusive mlx5_0 transmit", 1100.0)]);

    rollup.jobs.registry.end(Source::Http, &key("2"), (lab.begin + 710_000) * 1_000_000).unwrap();
    lab.round(&mut rollup, 720);
    is(&lab.at("{job_id=\"2\"}", 720), &[]);
    let of_rail = lab.at("fabric_job_io_bytes_total{job_id=\"1\",rail=\"mlx5_1\"}", 720);
    is(&of_rail, &[("exclusive mlx5_1 transmit", 200.0)]);
}

#[test]
fn counters_continue_after_a_restart() {
    let lab = Lab::new();
    lab.sent("a", "mlx5_0", "1", |s| 100.0 * s as f64);
    let mut rollup = lab.rollup();
    lab.report(&rollup, "1", 0, &[("a", &[])]);
    for second in [100, 115, 130] {
        lab.round(&mut rollup, second);
    }
    is(&lab.at("fabric_job_io_bytes_total", 130), &[("exclusive mlx5_0 transmit", 3000.0)]);
    rollup.write(Vec::new(), lab.begin + 131_000);
    is(&lab.at("fabric_job_io_bytes_total", 135), &[]);
    drop(rollup);
    let mut rollup = lab.rollup();
    lab.round(&mut rollup, 700);
    is(&lab.at("fabric_job_io_bytes_total", 700), &[("exclusive mlx5_0 transmit", 60_000.0)]);
    // A new run with the same number counts only its own traffic.
    lab.report(&rollup, "1", 705, &[("a", &[])]);
    lab.round(&mut rollup, 720);
    lab.round(&mut rollup, 740);
    is(&lab.at("fabric_job_io_bytes_total", 740), &[("exclusive mlx5_0 transmit", 2000.0)]);
}

#[test]
fn tcp_is_assigned_by_control_group() {
    let lab = Lab::new();
    for (host, group, rate) in [("a", "slurm/job_1", 100.0), ("a", "system", 5.0), ("b", "x", 10.0), ("b", "y", 1.0)] {
        let name = ("__name__", "fabric_tcp_io_bytes_total");
        let more = [("host", host), ("cgroup", group), ("direction", "receive"), ("destination", "rack")];
        lab.put(&[&[name][..], &more].concat(), |s| rate * s as f64);
    }
    let name = ("__name__", "fabric_job_processes");
    let more = [("host", "a"), ("cgroup", "slurm/job_1"), ("job", "77"), ("task", "70_1"), ("scheduler", "slurm")];
    lab.put(&[&[name][..], &more].concat(), |_| 2.0);
    let mut rollup = lab.rollup();
    lab.report(&rollup, "70_1", 0, &[("a", &[]), ("b", &[])]);
    lab.report(&rollup, "8", 0, &[("a", &[])]);
    lab.round(&mut rollup, 100);
    lab.round(&mut rollup, 200);
    let tcp = |job: &str| lab.at(&format!("fabric_job_tcp_io_bytes_total{{job_id=\"{job}\"}}"), 200);
    is(&tcp("70_1"), &[("exclusive receive", 1100.0), ("per_process receive", 10_000.0)]);
    is(&tcp("8"), &[("shared receive", 500.0)]);
}
