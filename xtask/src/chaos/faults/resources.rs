//! Faults of resources: full disks, no more file descriptors, too much load and too little memory.

use super::{Fault, Outcome, agents_report, wait_for};
use crate::chaos::service::Service;
use crate::chaos::testbed::{TIMEOUT, TestBed, fds, get, lag, now, soft_limit, sum_of};
use crate::steps::call;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Smallest memory limit that the collector accepts, in bytes.
const LEAST_LIMIT: u64 = 256 << 20;
/// More hosts than fit into that limit.
const MANY_HOSTS: usize = 400;

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "collector-disk-full",
        often: true,
        expected: "it reports the full disk and refuses samples until there is space",
        inject: |bed, _, hold| {
            let ballast = fill(&bed.dir.join("data"))?;
            let reported = reports_full(bed, hold.max(Duration::from_secs(15)));
            fs::remove_file(ballast)?;
            Outcome::of(format!("/readyz: {}", reported?))
        },
    },
    Fault {
        name: "spool-disk-full",
        often: true,
        expected: "the agent continues in memory and counts dropped samples",
        inject: |bed, _, hold| {
            let (ballast, from) = (fill(&bed.dir.join("spools"))?, now());
            bed.collector.end(TIMEOUT)?;
            let reported = agents_report(bed, "the spool", TIMEOUT);
            std::thread::sleep(hold);
            fs::remove_file(ballast)?;
            bed.collector.start()?;
            bed.wait_ready()?;
            let dropped = bed.agents_sum("fabriclens_agent_uplink_dropped_total")?;
            // Samples are kept in memory only, which may overflow.
            let unsampled = (0..bed.agents.len()).map(|host| (host, from, now() + 2.0)).collect();
            Outcome::unsampled(format!("{dropped:.0} points dropped and counted; {}", reported?), unsampled)
        },
    },
    Fault {
        name: "no-more-files",
        often: true,
        expected: "no new connection, no loss; then it continues",
        inject: |bed, _, hold| {
            let ids: Vec<u32> =
                [&bed.collector].into_iter().chain(&bed.agents).map(Service::id).collect::<Result<_>>()?;
            let limit =
                |id: u32, files: &str| call("prlimit", &["--pid", &id.to_string(), &format!("--nofile={files}:")]);
            let before = ids.iter().map(|id| soft_limit(*id)).collect::<Result<Vec<_>>>()?;
            let open = ids.iter().map(|id| fds(*id)).collect::<Result<Vec<_>>>()?;
            ids.iter().zip(&open).try_for_each(|(id, open)| limit(*id, &open.to_string()))?;
            // Each connection needs another descriptor.
            let peers: Vec<_> = (0..50).map(|_| TcpStream::connect(("127.0.0.1", bed.ports[0]))).collect();
            std::thread::sleep(hold);
            drop(peers);
            ids.iter().zip(&before).try_for_each(|(id, before)| limit(*id, before))?;
            let open = open[0];
            Outcome::of(format!("no descriptors beyond the open ones ({open} of the collector) for {hold:?}"))
        },
    },
    Fault {
        name: "ten-fold-load",
        often: true,
        expected: "the fleet's samples are stored despite the load",
        inject: |bed, _, hold| {
            if !bed.load.exists() {
                return Outcome::skipped("fabriclens-load is not built");
            }
            let done = load(bed, 10 * bed.agents.len(), 2 * hold)?.wait_with_output()?;
            ensure!(done.status.success(), "fabriclens-load: {}", String::from_utf8_lossy(&done.stderr).trim());
            let last = String::from_utf8_lossy(&done.stdout).lines().last().unwrap_or_default().to_owned();
            let report: serde_json::Value =
                serde_json::from_str(&last).context("read the report of fabriclens-load")?;
            Outcome::of(format!(
                "{} more hosts, {} samples, {} acknowledged",
                bed.load_hosts, report["samples"], report["acked"]
            ))
        },
    },
    Fault {
        name: "memory-short",
        often: true,
        expected: "memory stays below the limit; hosts that were there first are served",
        inject: |bed, _, hold| {
            if !bed.load.exists() {
                return Outcome::skipped("fabriclens-load is not built");
            }
            let limit = LEAST_LIMIT.max(2 * bed.collector.process()?.size()?.anonymous);
            bed.collector.env.push(format!("FABRICLENS_LIMITS_MEMORY={}MiB", limit >> 20));
            let seen = short_of_memory(bed, hold, limit as f64);
            bed.collector.env.pop();
            bed.collector.end(TIMEOUT)?;
            bed.collector.start()?;
            bed.wait_ready()?;
            seen
        },
    },
];

/// Restarts the collector with a memory limit in bytes, adds more hosts than fit, and watches the hosts that were there first.
fn short_of_memory(bed: &mut TestBed, hold: Duration, limit: f64) -> Result<Outcome> {
    bed.restart_collector()?;
    let mut load = load(bed, MANY_HOSTS.max(10 * bed.agents.len()), 4 * hold)?;
    let (begin, mut most, mut latest) = (Instant::now(), 0.0_f64, 0.0_f64);
    let mut senders = [0.0; 2];
    while begin.elapsed() < 4 * hold {
        let page = get(&format!("{}/metrics", bed.url))?.1;
        most = most.max(sum_of(&page, "fabriclens_memory_bytes"));
        senders = ["fabriclens_ingest_senders", "fabriclens_ingest_senders_away"].map(|name| sum_of(&page, name));
        latest = latest.max(lag(&bed.url, bed.agents.len())?);
        std::thread::sleep(Duration::from_millis(250));
    }
    // Refused hosts retry without end.
    load.kill()?;
    load.wait()?;
    let megabytes = format!("{:.0} of {:.0} MB", most / 1e6, limit / 1e6);
    ensure!(most <= limit, "memory: {megabytes}");
    let [served, away] = senders;
    ensure!(away > 0.0, "{megabytes}, and no host is refused");
    ensure!(latest < 10.0, "a host of the fleet was {latest:.1} s behind");
    Outcome::of(format!(
        "{megabytes}; {} more hosts: {served:.0} served, {away:.0} refused; the fleet at most {latest:.1} s behind",
        bed.load_hosts
    ))
}

/// Starts `fabriclens-load` with a number of hosts for a time.
fn load(bed: &mut TestBed, hosts: usize, time: Duration) -> Result<Child> {
    bed.load_hosts = hosts;
    let seconds = time.as_secs().max(5).to_string();
    let mut load = Command::new(&bed.load);
    load.args(["fleet", "--to", &format!("127.0.0.1:{}", bed.ports[1]), "--hosts", &hosts.to_string()]);
    load.args(["--seconds", &seconds, "--every", &seconds]);
    let load = load.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    load.context("start fabriclens-load")
}

/// Fills a disk; gives the file that fills it.
fn fill(disk: &Path) -> Result<PathBuf> {
    let path = disk.join("ballast");
    let mut file = File::create(&path)?;
    for block in [1 << 20, 4096, 1] {
        let bytes = vec![b'x'; block];
        while file.write_all(&bytes).is_ok() {}
    }
    Ok(path)
}

/// Waits until `/readyz` reports that samples cannot be stored. A failed block frees its space, which may be enough for the
/// log: then `/readyz` must report at the end that blocks cannot be written.
fn reports_full(bed: &TestBed, timeout: Duration) -> Result<String> {
    let page = || get(&format!("{}/readyz", bed.url)).map(|(code, text)| format!("{code}, {}", text.trim()));
    let refuses = wait_for(timeout, || {
        let reported = page()?;
        ensure!(reported.starts_with("503"), "/readyz says {reported}");
        Ok(reported)
    });
    refuses.or_else(|error| page().ok().filter(|reported| reported.contains("blocks cannot be written")).ok_or(error))
}
