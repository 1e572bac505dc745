//! Two HCAs and a GPU in a PCIe tree: one HCA shares a PCIe switch with the GPU, the other does not. The kernel turns access control on
//! where it uses an IOMMU.

use super::watched::{load, port, settled};
use super::{Lab, Scenario};
use crate::lab::agent;
use crate::lab::collector::Collector;
use crate::lab::config::{Config, Slots};
use anyhow::{Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "hca-pcie",
    shows: "which HCA is near to a GPU behind a PCIe switch; access control and IOMMU, with and without",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

/// NVML's numbers.
const ONE_SWITCH: f64 = 10.0;
const HOST_BRIDGE: f64 = 30.0;

fn run(lab: &Lab) -> Result<()> {
    let collector = Collector::start(&lab.programs.collector, lab.folder())?;
    let config = |name, number, iommu| Config::new(name, number, "hca").cards(2).slots(Slots::Switch { iommu });
    let guests = lab.boot(&[config("plain", 1, false), config("iommu", 2, true)])?;
    for guest in &guests {
        load(guest)?;
        agent::start(guest, &lab.programs.agent, &collector)?;
    }
    for guest in &guests {
        let value = |device: &str, metric: &str, labels: &str| {
            // Slow facts: the sample of the agent's start is the newest one for a while.
            settled(lab, &collector, &port(&guest.name, device, metric, labels), 0)
        };
        let distances =
            [value("mlx5_0", "fabric_gpu_nic_distance", "gpu=\"0\"")?, value("mlx5_1", "fabric_gpu_nic_distance", "")?];
        ensure!(distances == [ONE_SWITCH, HOST_BRIDGE], "{}: distances are {distances:?}", guest.name);
        let redirecting = |device| value(device, "fabric_pcie_acs", "control=\"request_redirect\"");
        let acs = [redirecting("mlx5_0")?, redirecting("mlx5_1")?];
        let iommu = collector.query(&port(&guest.name, "mlx5_0", "fabric_pcie_iommu", ""))?;
        let kinds: Vec<&str> = iommu.iter().filter_map(|series| Some(series.labels.get("type")?.as_str())).collect();
        lab.say(&format!("{}: bridges that redirect requests {acs:?}, IOMMU {kinds:?}", guest.name));
        // The root port; QEMU's PCIe switch has no access control.
        let wanted = if guest.name == "iommu" { [1.0, 1.0] } else { [0.0, 0.0] };
        ensure!(acs == wanted, "{}: bridges that redirect requests: {acs:?}", guest.name);
        let is_off = kinds == ["none"];
        ensure!(kinds.len() == 1 && is_off == (guest.name == "plain"), "{}: IOMMU {kinds:?}", guest.name);
    }
    Ok(())
}
