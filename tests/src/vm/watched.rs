//! Guests with agents and a collector on the host, from which most scenarios start.

use super::Lab;
use crate::lab::agent;
use crate::lab::collector::Collector;
use crate::lab::config::Config;
use crate::lab::switch::Switch;
use crate::lab::vm::Vm;
use anyhow::{Result, ensure};
use std::time::Duration;

/// Time in which a sample must arrive: a second of sampling, batching, and a slow guest.
const ARRIVAL: Duration = Duration::from_secs(60);

/// Two guests with agents. `vm1` runs the agent that loads rdma-core, `vm2` the static one.
pub struct Pair {
    /// Port 0 leads to `vm1`, port 1 to `vm2`.
    pub switch: Switch,
    /// 10.77.0.1
    pub one: Vm,
    /// 10.77.0.2
    pub two: Vm,
    /// Collector on the host.
    pub collector: Collector,
}

impl Pair {
    /// Boots, starts the agents and waits until both ports have series.
    ///
    /// # Errors
    /// When a guest, an agent or the collector does not start.
    pub fn start(lab: &Lab) -> Result<Self> {
        Self::start_as(lab, "", "")
    }

    /// As [`Pair::start`], with a script for both guests before the agents start, and the agents' configuration.
    ///
    /// # Errors
    /// When a guest, an agent or the collector does not start.
    pub fn start_as(lab: &Lab, script: &str, config: &str) -> Result<Self> {
        Self::start_with(lab, "", script, config)
    }

    /// As [`Pair::start_as`], with a configuration of the collector.
    ///
    /// # Errors
    /// When a guest, an agent or the collector does not start.
    pub fn start_with(lab: &Lab, collector: &str, script: &str, config: &str) -> Result<Self> {
        let collector = Collector::start_as(&lab.programs.collector, lab.folder(), collector)?;
        let (switch, one, two) = lab.rxe_pair()?;
        for (guest, program) in [(&one, &lab.programs.agent), (&two, &lab.programs.agent_static)] {
            guest.sh(script)?;
            agent::start_as(guest, program, &collector, config)?;
        }
        let pair = Self { switch, one, two, collector };
        for guest in ["vm1", "vm2"] {
            let state = port(guest, "rxe0", "fabric_port_state", "");
            let active = pair.settled(lab, &state)?;
            ensure!(active == 4.0, "{state} is {active}, not 4 (active)");
        }
        Ok(pair)
    }

    /// Value of a series from a sample that is newer than this call.
    ///
    /// # Errors
    /// When none arrives in time.
    pub fn settled(&self, lab: &Lab, selector: &str) -> Result<f64> {
        settled(lab, &self.collector, selector, self.one.now_ns()?)
    }
}

/// Switches PFC of the first fake HCA, as `all:off 3:on`. Tries twice: `dcb` numbers its messages by the second, and a late acknowledgment of
/// the previous command can pass for the answer to this one.
///
/// # Errors
/// When it fails twice.
pub fn set_pfc(guest: &Vm, priorities: &str) -> Result<()> {
    let set = format!("dcb pfc set dev ens0np0 prio-pfc {priorities}");
    guest.sh(&format!("{set} || {set}")).map(drop)
}

/// One guest with two fake HCAs and an agent.
pub struct Hca {
    /// The guest, `hca1`.
    pub guest: Vm,
    /// Collector on the host.
    pub collector: Collector,
}

impl Hca {
    /// Boots, loads the module, starts the agent and waits until both devices have series.
    ///
    /// # Errors
    /// When a guest, an agent or the collector does not start.
    pub fn start(lab: &Lab) -> Result<Self> {
        Self::start_as(lab, ETHERNET)
    }

    /// As [`Hca::start`], with parameters of the module: [`ETHERNET`] or [`INFINIBAND`].
    ///
    /// # Errors
    /// When a guest, an agent or the collector does not start.
    pub fn start_as(lab: &Lab, parameters: &str) -> Result<Self> {
        let collector = Collector::start(&lab.programs.collector, lab.folder())?;
        let guest = lab.boot(&[Config::new("hca1", 1, "hca").cards(2)])?.remove(0);
        load_as(&guest, parameters)?;
        agent::start(&guest, &lab.programs.agent, &collector)?;
        let hca = Self { guest, collector };
        for device in ["mlx5_0", "mlx5_1"] {
            let active = hca.settled(lab, &port("hca1", device, "fabric_port_state", ""))?;
            ensure!(active == 4.0, "state of {device} is {active}, not 4 (active)");
        }
        Ok(hca)
    }

    /// Value of a series from a sample that is newer than this call.
    ///
    /// # Errors
    /// When none arrives in time.
    pub fn settled(&self, lab: &Lab, selector: &str) -> Result<f64> {
        settled(lab, &self.collector, selector, self.guest.now_ns()?)
    }

    /// Writes commands to the module, one per line; `tests/lab/fakehca/README.md` lists them.
    ///
    /// # Errors
    /// When the module rejects one.
    pub fn drive(&self, commands: &str) -> Result<()> {
        drive(&self.guest, commands)
    }
}

/// A guest with the module loaded and both interfaces up.
///
/// # Errors
/// When it does not come up.
pub fn boot_hca(lab: &Lab) -> Result<Vm> {
    let guest = lab.boot(&[Config::new("hca1", 1, "hca").cards(2)])?.remove(0);
    load(&guest)?;
    Ok(guest)
}

/// Loads the module and brings both interfaces up.
///
/// # Errors
/// When the kernel rejects the module or an interface.
pub fn load(guest: &Vm) -> Result<()> {
    load_as(guest, ETHERNET)
}

/// Parameters of the module for RoCE ports.
pub const ETHERNET: &str = "ib=0";

/// Parameters of the module for InfiniBand ports.
pub const INFINIBAND: &str = "ib=1";

/// As [`load`], with parameters of the module: [`ETHERNET`] or [`INFINIBAND`].
///
/// # Errors
/// When the kernel rejects the module or an interface.
pub fn load_as(guest: &Vm, parameters: &str) -> Result<()> {
    guest
        .sh(&format!("insmod /modules/fakehca.ko {parameters} && ip link set ens0np0 up && ip link set ens1np0 up"))?;
    Ok(())
}

/// Writes commands to the module.
///
/// # Errors
/// When the module rejects one.
pub fn drive(guest: &Vm, commands: &str) -> Result<()> {
    guest.sh(&format!("cat >/proc/fakehca <<'END'\n{}\nEND", commands.trim()))?;
    Ok(())
}

/// Selector of a port's series; `labels` are further matchers such as `direction="receive"`.
#[must_use]
pub fn port(host: &str, device: &str, metric: &str, labels: &str) -> String {
    let comma = if labels.is_empty() { "" } else { "," };
    format!("{metric}{{host=\"{host}\",device=\"{device}\"{comma}{labels}}}")
}

/// Value of the only series of `selector`, from a sample at or after `after_ns`.
///
/// # Errors
/// When none arrives in time.
pub fn settled(lab: &Lab, collector: &Collector, selector: &str, after_ns: u64) -> Result<f64> {
    lab.wait(selector, ARRIVAL, || collector.newest(selector, after_ns))
}
