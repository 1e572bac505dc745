//! Files of NCCL's Inspector, as the ranks of the simulated jobs would write them: one rank for each rail of a host.

use super::fabric::{AllReduce, Fabric};
use super::layout::{HOSTS, RAILS, host_name};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Interval between two writes.
const INTERVAL: Duration = Duration::from_millis(500);
/// Length from which a file begins anew, bytes: a demo may run for days.
const LONGEST: u64 = 4 << 20;
/// Process of the first rank of a host.
const FIRST_PID: usize = 4000;

/// Directory of a host's files.
pub fn directory(root: &Path) -> PathBuf {
    root.join("var/log/nccl")
}

/// Writes the all-reduces of all jobs until `stop`.
///
/// # Errors
/// When a file cannot be written.
pub fn run(fabric: &Mutex<Fabric>, hosts: &Path, stop: &AtomicBool) -> Result<()> {
    let mut files = (0..HOSTS).map(|host| create(hosts, host)).collect::<Result<Vec<_>>>()?;
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        std::thread::sleep(INTERVAL);
        let (ended, members) = {
            let mut fabric = fabric.lock().map_err(|_| anyhow::anyhow!("the simulator panicked"))?;
            (fabric.take_all_reduces(), fabric.jobs.iter().map(|job| job.hosts.clone()).collect::<Vec<_>>())
        };
        for all_reduce in ended {
            number += 1;
            for (at, host) in members[all_reduce.job].iter().enumerate() {
                let ranks = members[all_reduce.job].len() * RAILS;
                for (local, file) in files[*host].iter_mut().enumerate() {
                    let line = record(&all_reduce, number, *host, at * RAILS + local, ranks);
                    append(file, &line).context("write a file of the Inspector")?;
                }
            }
        }
    }
    Ok(())
}

fn create(hosts: &Path, host: usize) -> Result<Vec<File>> {
    let dir = directory(&hosts.join(host_name(host)));
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let path = |local: usize| dir.join(format!("{}-pid{}.log", host_name(host), FIRST_PID + local));
    (0..RAILS).map(|local| File::create(path(local)).context("create a file of the Inspector")).collect()
}

fn append(file: &mut File, line: &str) -> std::io::Result<()> {
    if file.metadata()?.len() > LONGEST {
        file.set_len(0)?;
        file.rewind()?;
    }
    file.write_all(line.as_bytes())
}

/// A record of format v4.0.
fn record(all_reduce: &AllReduce, number: u64, host: usize, rank: usize, ranks: usize) -> String {
    let AllReduce { job, bytes, seconds } = *all_reduce;
    // A ring sends 2 (n - 1) / n times the message, and its NICs share that.
    let sent = bytes * RAILS as f64;
    let message = sent * ranks as f64 / (2.0 * (ranks as f64 - 1.0));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let record = serde_json::json!({
        "header": {"id": format!("0x{:x}", 0xfab0 + job), "rank": rank, "n_ranks": ranks, "nnodes": ranks / RAILS},
        "metadata": {
            "inspector_output_format_version": "v4.0",
            "dump_timestamp_us": now.as_micros() as u64,
            "hostname": host_name(host),
            "pid": FIRST_PID + rank % RAILS,
        },
        "coll_perf": {
            "coll": "AllReduce",
            "coll_sn": number,
            "coll_msg_size_bytes": message as u64,
            "coll_exec_time_us": (seconds * 1e6) as u64,
            "coll_algobw_gbs": message / seconds / 1e9,
            "coll_busbw_gbs": sent / seconds / 1e9,
        },
    });
    format!("{record}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_reads_what_is_written() {
        let all_reduce = AllReduce { job: 1, bytes: 10e9, seconds: 0.4 };
        let record: serde_json::Value = serde_json::from_str(&record(&all_reduce, 7, 3, 9, 16)).unwrap();
        // Eight NICs send 10 GB each in 0.4 s.
        assert_eq!(record["coll_perf"]["coll_busbw_gbs"], 200.0);
        assert_eq!((record["header"]["rank"].as_u64(), record["metadata"]["pid"].as_u64()), (Some(9), Some(4001)));
    }

    #[test]
    fn jobs_end_their_all_reduces() {
        let mut fabric = Fabric::new();
        (0..20).for_each(|_| fabric.step(0.1));
        let ended = fabric.take_all_reduces();
        assert!(ended.iter().any(|a| a.job == 2 && a.seconds > 0.3 && a.seconds < 0.8), "{ended:?}");
        assert_eq!(fabric.take_all_reduces(), []);
    }
}
