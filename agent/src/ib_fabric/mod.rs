//! `[ib_fabric]`: reads the switches of a whole InfiniBand subnet from this host, by management datagrams.
//!
//! One thread of the engine owns the port. It sweeps the subnet for nodes and links, reads the counters of switch ports
//! each period, and pushes sections whose host is the switch. It sends nothing but Get requests, at a bounded rate. Of
//! several hosts of a subnet one reads: the one to which the collector grants the lease.

mod command;
mod forwarding;
mod host;
mod names;
mod own_facts;
mod permission;
mod port_plans;
mod port_series;
mod reader;
mod run;
mod settings;
mod timetable;

pub use command::{path, probe, report};
pub use host::{Host, Open};
pub use run::run as read_subnet;
pub use settings::{IbFabric, Source};

use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_mad::ibsim::IbSim;
use fabriclens_agent_mad::transport::Mad;
use fabriclens_agent_mad::umad::UmadTransport;
use fabriclens_agent_mad::umad_ports;
use fabriclens_base::error_chain::with_causes;

/// Opens the port; returns it with its name.
///
/// # Errors
/// A sentence with the remedy.
pub fn open(config: &IbFabric, roots: &Roots) -> Result<(Box<dyn Mad>, String), String> {
    match &config.source {
        Source::Umad { device, port } => {
            let pair = umad_ports::choose(&umad_ports::ports(roots.sys()), device.as_deref(), *port)?;
            let open = UmadTransport::open(&pair, config.pace.deadline).map_err(|error| with_causes(&error))?;
            Ok((Box::new(open), pair.name()))
        }
        Source::IbSim { sockets, node } => {
            let attached = IbSim::attach(sockets, node).map_err(|error| format!("ibsim {sockets}: {error}"))?;
            Ok((Box::new(attached), format!("ibsim {node}")))
        }
    }
}
