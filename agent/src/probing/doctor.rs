//! `doctor`: whether this host can trace and probe as configured.

use super::ports::{RoutedPorts, routed_ports};
use super::settings::Probing;
use fabriclens_agent_host::inventory::Inventory;
use fabriclens_agent_tracer::LocalPort;
use fabriclens_agent_tracer::transport::{FlowAddress, Live, Transport as _};
use std::net::SocketAddr;

/// State as a sentence. Opens a socket for each port, as a trace does, and sends nothing.
pub fn state(probing: &Probing, inventory: &Inventory, has_collector: bool) -> String {
    if !has_collector {
        return "nothing is sent: the plan comes from a collector, and collector.url is not set".to_owned();
    }
    if !probing.trace {
        return "paths are not traced (probes.trace = false)".to_owned();
    }
    let RoutedPorts { ports, left_out } = routed_ports(inventory);
    let mut parts = Vec::new();
    if ports.is_empty() && left_out.is_empty() {
        parts.push("no path can be traced: this host has no RoCE v2 port".to_owned());
    }
    let mut ready = Vec::new();
    for port in &ports {
        match open(port) {
            Ok(()) => ready.push(format!("{} ({})", port.name, port.address)),
            Err(why) => parts.push(format!("{} cannot be traced from: {why}", port.name)),
        }
    }
    if !ready.is_empty() {
        let (ports, most) = (ready.join(", "), probing.trace_packets);
        parts.insert(
            0,
            format!("traces paths as the collector plans, from {ports}, by at most {most} datagrams a second each"),
        );
    }
    parts.extend(left_out);
    parts.join("; ")
}

/// Opens the socket of a flow to the port itself.
fn open(port: &LocalPort) -> std::io::Result<()> {
    let (local, remote) = (SocketAddr::new(port.address, 0), SocketAddr::new(port.address, 4791));
    Live.open(&FlowAddress { local, remote, device: port.device.clone(), traffic_class: 0 }).map(|_| ())
}
