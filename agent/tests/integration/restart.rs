//! Series continue over a restart of the agent; an unusable state file only restarts the totals.

use crate::support::{series, value};
use fabriclens_agent::schedule::{Engine, Settings};
use fabriclens_agent_host::roots::Roots;
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// 32 bits, wraps.
const SEQUENCE: &str = "mlx5_0/1 fabric.rdma.out_of_sequence{}";
/// 64 bits.
const CNP: &str = "mlx5_0/1 fabric.cnp.packets{direction=transmit}";

struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        let port = host.0.path().join("sys/class/infiniband/mlx5_0/ports/1");
        for (name, content) in [
            ("link_layer", "Ethernet\n"),
            ("state", "4: ACTIVE\n"),
            ("rate", "100 Gb/sec (4X EDR)\n"),
            ("hw_counters/np_cnp_sent", "100\n"),
            ("hw_counters/out_of_sequence", "4294967000\n"),
        ] {
            let path = port.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        host.boot("one");
        host
    }

    fn boot(&self, id: &str) {
        let path = self.0.path().join("proc/sys/kernel/random/boot_id");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, id).unwrap();
    }

    fn set(&self, counter: &str, value: u64) {
        let dir = self.0.path().join("sys/class/infiniband/mlx5_0/ports/1/hw_counters");
        // Replaced as a whole, as the kernel does.
        fs::write(dir.join("new"), format!("{value}\n")).unwrap();
        fs::rename(dir.join("new"), dir.join(counter)).unwrap();
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn start(&self) -> Engine {
        let settings = Settings {
            host: "h".into(),
            full: Duration::from_millis(50),
            slow: Duration::from_millis(200),
            state_dir: Some(self.state()),
            ..Settings::default()
        };
        Engine::start(Arc::new(Roots::new(Some(self.0.path().into()))), settings).unwrap()
    }

    /// First value of an agent that starts now.
    fn first(&self, name: &str) -> f64 {
        let engine = self.start();
        let first = until(&engine, name, |_| true);
        engine.shutdown(Duration::from_secs(5));
        first
    }
}

fn until(engine: &Engine, name: &str, wanted: impl Fn(f64) -> bool) -> f64 {
    let begin = Instant::now();
    loop {
        let now = value(&series(&engine.snapshot()), name);
        if let Some(found) = now.filter(|v| wanted(*v)) {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{name} is {now:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs an agent through a wrap, so that its total differs from the raw counter.
fn extended(host: &Host) -> f64 {
    let engine = host.start();
    until(&engine, SEQUENCE, |v| v == 4_294_967_000.0);
    host.set("out_of_sequence", 200);
    let total = until(&engine, SEQUENCE, |v| v > 4_294_967_200.0);
    engine.shutdown(Duration::from_secs(5));
    assert_eq!(total, 4_294_967_296.0 + 200.0);
    total
}

#[test]
fn extended_counter_continues() {
    let host = Host::new();
    let total = extended(&host);
    host.set("out_of_sequence", 250);
    assert_eq!(host.first(SEQUENCE), total + 50.0, "what was counted meanwhile is added, and nothing else");
    assert_eq!(host.first(SEQUENCE), total + 50.0, "also the time after");
}

#[test]
fn reset_during_restart_is_no_spike() {
    let host = Host::new();
    extended(&host);
    host.set("np_cnp_sent", 3);
    host.set("out_of_sequence", 7);
    assert_eq!(host.first(CNP), 3.0);
    // Both fell and one of them cannot wrap, so both were reset; the other is not extended by 2^32.
    assert_eq!(host.first(SEQUENCE), 7.0);
}

#[test]
fn other_boot_or_device_starts_fresh() {
    let host = Host::new();
    extended(&host);
    let saved = fs::read(host.state().join("counters.state")).unwrap();
    host.boot("two");
    assert_eq!(host.first(SEQUENCE), 200.0);
    host.boot("one");
    fs::write(host.state().join("counters.state"), saved).unwrap();
    fs::write(host.0.path().join("sys/class/infiniband/mlx5_0/node_guid"), "0000:0000:0000:0001\n").unwrap();
    assert_eq!(host.first(SEQUENCE), 200.0, "a device of another GUID");
}

#[test]
fn bad_state_file_is_replaced() {
    let host = Host::new();
    extended(&host);
    let file = host.state().join("counters.state");
    let good = fs::read(&file).unwrap();
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let bad: [&[u8]; 5] = [b"", b"hello\n{}", &flipped, &good[..good.len() - 9], b"fabriclens-agent-state 2 0\n{}"];
    for bytes in bad {
        fs::write(&file, bytes).unwrap();
        assert_eq!(host.first(SEQUENCE), 200.0, "{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(40)]));
        assert!(fs::read(&file).unwrap().starts_with(b"fabriclens-agent-state 1 "), "it is written anew");
    }
}

#[test]
fn unwritable_state_keeps_sampling() {
    let host = Host::new();
    fs::write(host.state(), "a file where the directory should be").unwrap();
    assert_eq!(host.first(SEQUENCE), 4_294_967_000.0);
    assert!(Path::new(&host.state()).is_file());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    /// For plausible growth, over any number of restarts, the total is the sum of the increases.
    #[test]
    fn totals_sum_all_increases(steps in proptest::collection::vec(0_u64..900, 1..4)) {
        let host = Host::new();
        let (mut raw, mut total) = (4_294_967_000_u64, 4_294_967_000_u64);
        prop_assert_eq!(host.first(SEQUENCE), total as f64);
        for step in steps {
            raw = (raw + step) & 0xffff_ffff;
            total += step;
            host.set("out_of_sequence", raw);
            prop_assert_eq!(host.first(SEQUENCE), total as f64);
        }
    }
}
