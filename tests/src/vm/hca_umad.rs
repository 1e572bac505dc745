//! An InfiniBand subnet read in-band through the kernel's own umad device: two fake HCAs at a fake switch.

use super::watched::{INFINIBAND, drive, load_as, settled};
use super::{Lab, Scenario};
use crate::lab::agent;
use crate::lab::collector::Collector;
use crate::lab::vm::{Config, Vm};
use anyhow::{Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "hca-umad",
    shows: "the agent reads a subnet through ib_umad: nodes, links, paths, counters; a silent node; a lost device",
    limit: Duration::from_secs(300),
    run,
};

/// Configuration of the agent.
const CONFIG: &str = "[ib_fabric]\nenabled = true\nadapters = true\nperiod = \"1s\"\nsweep = \"2s\"\n";

fn run(lab: &Lab) -> Result<()> {
    let collector = Collector::start(&lab.programs.collector, lab.folder())?;
    let guest = lab.boot(&[Config::new("hca1", 1, "hca").cards(2)])?.remove(0);
    guest.put(&lab.programs.agent, "/bin/fabriclens-agent", 0o755)?;
    guest.write(agent::CONFIG, CONFIG)?;
    load_as(&guest, INFINIBAND)?;
    println!("{}", guest.sh("ls -l /dev/infiniband; dmesg | tail -20; cat /sys/class/infiniband_mad/umad0/ibdev")?);
    println!("{:?}", guest.exec("fabriclens-agent ib-fabric --config /agent.toml", Duration::from_secs(60))?);
    println!("{:?}", guest.exec("fabriclens-agent ib-fabric --config /agent.toml --path 1 2", Duration::from_secs(60))?);
    println!("{}", guest.sh("dmesg | tail -20")?);
    drive(&guest, "mlx5_0 set peer_symbol_error 7")?;
    let _ = (settled, &collector);
    ensure!(false, "stop");
    Ok(())
}
