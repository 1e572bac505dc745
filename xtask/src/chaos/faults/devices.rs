//! Faults of RDMA devices: reads that block, and devices that come and go.

use super::{Fault, Outcome, agent_reports};
use crate::chaos::testbed::device_of;
use crate::sim::layout::host_name;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "device-blocks",
        often: true,
        expected: "its other devices continue, and the agent reports the stuck one",
        inject: |bed, _, hold| {
            let Some(device) = &bed.device else { return Outcome::skipped("no FUSE or no bindfs here") };
            device.signal("STOP")?;
            std::thread::sleep(hold.max(Duration::from_secs(5)));
            let reported = agent_reports(bed, 0, "stuck");
            device.signal("CONT")?;
            Outcome::of(reported?)
        },
    },
    Fault {
        name: "unplug-storm",
        often: true,
        expected: "other devices continue; the device is back when it stays plugged in",
        inject: |bed, random, hold| {
            let (begin, mut times) = (Instant::now(), 0);
            while begin.elapsed() < hold {
                let (host, rail) = (random.below(bed.agents.len()), 4 + random.below(4));
                let places = [device_of(&bed.dir, host, rail), netdev_of(&bed.dir, host, rail)];
                let gone = places.clone().map(|p| p.with_file_name(format!(".gone-{rail}")));
                places.iter().zip(&gone).try_for_each(|(here, gone)| fs::rename(here, gone))?;
                std::thread::sleep(Duration::from_millis(50 + random.below(400) as u64));
                places.iter().zip(&gone).try_for_each(|(here, gone)| fs::rename(gone, here))?;
                times += 1;
            }
            Outcome::of(format!("unplugged {times} times"))
        },
    },
];

fn netdev_of(dir: &Path, host: usize, rail: usize) -> PathBuf {
    dir.join("hosts").join(host_name(host)).join(format!("sys/class/net/ens{rail}np0"))
}
