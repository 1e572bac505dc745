//! `doctor`: whether the ports of this host can send and answer probes, and why not.

use super::settings::Probing;
use fabriclens_agent_host::inventory::Inventory;
use fabriclens_agent_prober::source;
use fabriclens_kernel::datagrams::{DatagramPort as _, PortFacts, SourcePorts};
use fabriclens_kernel::live::UdPort;

/// State as a sentence for each port. Opens each port, as the agent does, and sends nothing.
pub fn prober_state(probing: &Probing, inventory: &Inventory) -> String {
    if !probing.rdma {
        return "off (probes.rdma = false)".to_owned();
    }
    let ports = inventory.devices.iter().flat_map(|device| device.ports.iter().map(move |port| (device, port)));
    let mut states = Vec::new();
    for (device, port) in ports {
        let Some(found) = source(device, port) else { continue };
        let opened = found.and_then(|source| UdPort::open(&source).map(|port| (source, port.facts().clone())));
        states.push(match opened {
            Ok((source, facts)) => format!("{} {}", source.name(), words(&facts)),
            Err(why) => format!("not probed: {why}"),
        });
    }
    if states.is_empty() {
        return "no port can be probed: this host has no RDMA port of its own".to_owned();
    }
    states.join("; ")
}

fn words(facts: &PortFacts) -> String {
    let time = if facts.hardware_time { "times of the NIC" } else { "times of the host, which a busy CPU blurs" };
    let ports = match facts.source_ports {
        SourcePorts::Chosen => "any source port".to_owned(),
        SourcePorts::Fixed => format!("{} source ports", facts.queue_pairs.len()),
        SourcePorts::Unknown if facts.address.is_none() => "by LID".to_owned(),
        SourcePorts::Unknown => "a source port that its driver chooses and does not tell".to_owned(),
    };
    format!("sends and answers probes ({time}, {ports})")
}
