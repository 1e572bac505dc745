//! Faults in the kernel log of a recorded host, over restarts of the agent and of the host, and a host without a log.

use crate::support::{sample, series, value};
use fabriclens_agent::schedule::{Engine, Outcome, Settings};
use fabriclens_agent_host::roots::Roots;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const FATAL: &str = "host fabric.kernel_log.events{class=mlx5_fatal_error,code=3,device=mlx5_0,pci_address=0000:3b:00.0,severity=fatal}";
const XID: &str = "host fabric.kernel_log.events{class=gpu_lost,code=79,pci_address=0000:05:00.0,severity=fatal}";

/// A host with one adapter and a log.
struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        host.file("sys/class/infiniband/mlx5_0/device/uevent", "PCI_SLOT_NAME=0000:3b:00.0\n");
        host.file("sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
        host.file("proc/sys/kernel/random/boot_id", "one");
        host.file("dev/kmsg", "");
        host
    }

    fn file(&self, path: &str, content: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Adds a record of that facility.
    fn print(&self, number: u64, facility: u64, message: &str) {
        let mut log = fs::OpenOptions::new().append(true).open(self.0.path().join("dev/kmsg")).unwrap();
        writeln!(log, "{},{number},{},-;{message}", facility << 3 | 3, 1_000_000_000 + number).unwrap();
    }

    fn start(&self) -> Engine {
        let settings = Settings {
            host: "h".into(),
            full: Duration::from_millis(50),
            slow: Duration::from_millis(200),
            state_dir: Some(self.0.path().join("state")),
            ..Settings::default()
        };
        Engine::start(Arc::new(Roots::new(Some(self.0.path().into()))), settings).unwrap()
    }
}

fn records(result: &str) -> String {
    format!("host fabric.kernel_log.records{{result={result}}}")
}

fn until(engine: &Engine, name: &str, wanted: f64) {
    let begin = Instant::now();
    loop {
        let now = value(&series(&engine.snapshot()), name);
        if now == Some(wanted) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{name} is {now:?}, not {wanted}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn stop(engine: Engine) {
    engine.shutdown(Duration::from_secs(5));
}

#[test]
fn faults_are_counted_once_over_restarts() {
    let host = Host::new();
    host.print(0, 0, "Linux version 6.8.0");
    host.print(1, 0, "mlx5_core 0000:3b:00.0: poll_health:803:(pid 0): Fatal error 3 detected");
    let engine = host.start();
    until(&engine, FATAL, 1.0);
    host.print(2, 0, "mlx5_core 0000:3b:00.0: poll_health:803:(pid 0): Fatal error 3 detected");
    until(&engine, FATAL, 2.0);
    until(&engine, &records("read"), 3.0);
    stop(engine);

    // What was printed meanwhile is news, what was told is not.
    host.print(3, 0, "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
    let engine = host.start();
    until(&engine, XID, 1.0);
    let all = series(&engine.snapshot());
    assert_eq!(value(&all, FATAL), None, "it was told by the agent before");
    assert_eq!((value(&all, &records("read")), value(&all, &records("skipped"))), (Some(1.0), Some(0.0)));
    stop(engine);

    // The host boots: its log begins anew, and so does the reading.
    host.file("proc/sys/kernel/random/boot_id", "two");
    host.file("dev/kmsg", "");
    host.print(0, 0, "mlx5_core 0000:3b:00.0: poll_health:803:(pid 0): Fatal error 3 detected");
    let engine = host.start();
    until(&engine, FATAL, 1.0);
    stop(engine);
}

#[test]
fn programs_are_not_believed() {
    let host = Host::new();
    for facility in [1, 3, 16] {
        host.print(facility, facility, "NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.");
    }
    let engine = host.start();
    until(&engine, &records("foreign"), 3.0);
    let events: Vec<_> =
        series(&engine.snapshot()).into_iter().filter(|(name, _)| name.contains("log.events")).collect();
    assert_eq!(events, []);
    stop(engine);
}

fn state(root: &Path) -> Outcome {
    let (sections, statuses) = sample(root);
    let outcome = statuses.into_iter().find(|status| status.sampler == "kernel_log").unwrap().outcome;
    let has_series = series(&sections).iter().any(|(name, _)| name.contains("kernel_log"));
    assert_eq!(has_series, matches!(outcome, Outcome::Data { .. }), "absent is not zero");
    outcome
}

#[test]
fn missing_log_is_absent_and_says_why() {
    let host = Host::new();
    assert!(matches!(state(host.0.path()), Outcome::Data { .. }));
    fs::remove_file(host.0.path().join("dev/kmsg")).unwrap();
    let Outcome::Absent(why) = state(host.0.path()) else { panic!("it is missing") };
    assert!(why.contains("does not exist; in a container, mount"), "{why}");
    fs::create_dir(host.0.path().join("dev/kmsg")).unwrap();
    let Outcome::Error(why) = state(host.0.path()) else { panic!("it is a directory") };
    assert!(why.contains("neither a character device nor a regular file"), "{why}");
}

#[test]
fn sampler_can_be_switched_off() {
    let host = Host::new();
    let settings = Settings { samplers: [("kernel_log".to_owned(), false)].into(), ..Settings::default() };
    let roots = Arc::new(Roots::new(Some(host.0.path().into())));
    let (_, statuses) = fabriclens_agent::schedule::once(roots, &settings);
    assert!(statuses.iter().all(|status| status.sampler != "kernel_log"));
}
