//! The agent's binary and its spool: killed at any moment, restarted, and on a full disk.

use crate::support::agent::{Agent, command, program};
use crate::support::otlp::{Fake, until};
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_uplink::spool::{Limits, Lost, Now, Spool, SpoolError};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tonic::codec::CompressionEncoding;

const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/hosts/mlx5-roce");
const WIDE: Limits = Limits { bytes: 256 << 20, age: Duration::from_secs(86_400) };

fn agent(dir: &Path, collector: SocketAddr) -> Agent {
    let mut run = command();
    run.args(["run", "--root", HOST, "--http", "127.0.0.1:0", "--host", "h"]);
    run.arg("--collector").arg(format!("http://{collector}")).env("FABRICLENS_AGENT_SPOOL_DIR", dir);
    let quick = [("SPOOL_AFTER", "0s"), ("SPOOL_JITTER", "0s"), ("SPOOL_RATE", "64MiB"), ("SAMPLING_FULL", "50ms")];
    for (key, value) in quick.iter().chain(&[("SAMPLING_FAST", "50ms"), ("COLLECTOR_FLUSH", "20ms")]) {
        run.env(format!("FABRICLENS_AGENT_{key}"), value);
    }
    Agent(run.stderr(Stdio::null()).spawn().unwrap())
}

fn nobody() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], fabriclens_testing::free_port().unwrap()))
}

fn now() -> Now {
    Now::of(&Clock::new())
}

fn held(dir: &Path) -> u64 {
    Spool::open(&dir.join("samples"), WIDE, now()).map_or(0, |spool| spool.held().points)
}

#[tokio::test]
async fn spool_survives_kills() {
    let (dir, address) = (tempfile::tempdir().unwrap(), nobody());
    let mut before = 0;
    for round in 0..8_u64 {
        let running = agent(dir.path(), address);
        // The moment of the kill is what is tested: before the first write, and in the middle of one.
        tokio::time::sleep(Duration::from_millis(150 + 370 * round)).await;
        drop(running);
        let after = held(dir.path());
        assert!(after >= before, "{before} points were kept, and {after} are there");
        before = after;
    }
    assert!(before > 1000, "{before}");
    let fake = Fake::default();
    let _server = fake.serve(&address.to_string(), Some(CompressionEncoding::Zstd), 64 << 20).await;
    let running = agent(dir.path(), address);
    until("all of it", || {
        fake.seen.lock().len() as u64 >= before && !dir.path().join("samples/000000000001.spool").exists()
    })
    .await;
    drop(running);
    assert!(fake.seen.lock().values().all(|n| *n <= 2), "what was sent when it was killed may come twice, not more");
}

/// A small file system, unmounted when dropped.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = program("mount");
        let done = mount.args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(dir.path()).status();
        assert!(done.unwrap().success(), "a tmpfs can be mounted");
        Self(dir)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        _ = program("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn put(spool: &mut Spool, n: u8) -> Result<(), String> {
    spool.append(&[n; 20_000], 0, 1, now()).1.map_err(|e| e.to_string())
}

#[test]
#[ignore = "needs: mount"]
fn full_disk_keeps_spooled_samples() {
    let disk = Tmpfs::new("size=1m");
    let mut spool = Spool::open(&disk.0.path().join("samples"), WIDE, now()).unwrap();
    let kept = (0..100).take_while(|n| put(&mut spool, *n).is_ok()).count() as u64;
    assert!((20..=26).contains(&kept), "half of a MiB in pieces of 20 kB: {kept}");
    assert!(put(&mut spool, 200).unwrap_err().contains("half of what is free"));

    // Another program fills the disk, also between the check for free space and the write.
    let filler = disk.0.path().join("filler");
    std::fs::write(&filler, vec![1; 400 << 10]).unwrap();
    let mut rest = vec![1; 200 << 10];
    while !rest.is_empty() && std::fs::write(disk.0.path().join("rest"), &rest).is_err() {
        rest.truncate(rest.len() - 4096);
    }
    assert!(put(&mut spool, 200).is_err());
    assert_eq!(spool.held().points, kept);
    drop(spool);

    // A program that another test forks has this process' files, including the lock, until its exec.
    let open = || Spool::open(&disk.0.path().join("samples"), WIDE, now());
    let began = std::time::Instant::now();
    let opened = std::iter::repeat_with(open)
        .find(|opened| !matches!(opened, Err(SpoolError::Busy { .. })) || began.elapsed() > Duration::from_secs(20));
    let mut spool = opened.unwrap().expect("also while the disk is full");
    assert_eq!(spool.held().points, kept);
    std::fs::remove_file(filler).unwrap();
    for n in 0..kept {
        let request = spool.next(now().at).1.unwrap().unwrap();
        assert_eq!(request.payload, [n as u8; 20_000]);
        assert_eq!(spool.done(&request), Some(Lost::default()));
    }
    put(&mut spool, 1).expect("it works again");
}

#[tokio::test]
#[ignore = "needs: mount"]
async fn agent_recovers_from_a_full_disk() {
    let disk = Tmpfs::new("size=256k");
    let address = nobody();
    let filler = disk.0.path().join("filler");
    std::fs::write(&filler, vec![1; 240 << 10]).unwrap();
    let running = agent(disk.0.path(), address);
    // Absence has no condition: two seconds of samples do not reach the full disk.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let written = || std::fs::metadata(disk.0.path().join("samples/000000000001.spool")).map_or(0, |meta| meta.len());
    assert!(written() < 16 << 10);
    std::fs::remove_file(filler).unwrap();
    let fake = Fake::default();
    let _server = fake.serve(&address.to_string(), Some(CompressionEncoding::Zstd), 64 << 20).await;
    until("what waited in memory", || fake.seen.lock().len() > 1000).await;
    drop(running);
}
